//! What the store holds, whether it is whole, and what is old enough to go.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;

use crate::sealed::SealedBucket;
use crate::state::Progress;
use crate::sync::lock;
use crate::{Segment, Store, StoreError};

/// Where the events of a bucket are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingState {
    /// In memory and in the log; takes more events.
    Hot,
    /// In memory and in the log; takes no more events.
    Sealing,
    /// In a bucket object.
    Sealed,
}

/// One bucket, sealed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketListing {
    /// Its id.
    pub id: String,
    /// Index of its events.
    pub index: String,
    /// Where its events are.
    pub state: ListingState,
    /// Number of events.
    pub events: u64,
    /// Bytes of text.
    pub raw_bytes: u64,
    /// Bytes of its objects; 0 before it is sealed.
    pub stored_bytes: u64,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Number of slabs.
    pub slabs: u32,
}

/// One index as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStats {
    /// Its name.
    pub index: String,
    /// Number of buckets, unsealed ones included.
    pub buckets: u64,
    /// Number of events.
    pub events: u64,
    /// Bytes of text.
    pub raw_bytes: u64,
    /// Bytes of objects.
    pub stored_bytes: u64,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
}

/// Whether a bucket is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its id.
    pub bucket: String,
    /// What is wrong with it, if anything.
    pub result: Result<(), String>,
}

impl Store {
    /// Every bucket by ascending number: sealed ones, and those still in memory.
    pub fn buckets(&self) -> Vec<BucketListing> {
        let mut listed = BTreeMap::new();
        let state = self.shared.state();
        for bucket in state.sealed.values() {
            listed.insert(bucket.row.number, sealed_listing(bucket));
        }
        for slab in state.closed.values().map(|closed| &closed.segment) {
            let counts = (slab.events(), slab.raw_bytes());
            let listing = unsealed_listing(slab.bucket(), slab.index(), ListingState::Sealing, counts, slab.times());
            listed.insert(slab.number(), listing);
        }
        for slab in state.hot.values() {
            let counts = (slab.events() as u64, slab.raw_bytes() as u64);
            let listing = unsealed_listing(slab.bucket(), slab.index(), ListingState::Hot, counts, slab.times());
            listed.insert(slab.number(), listing);
        }
        listed.into_values().collect()
    }

    /// Every index that holds events, by name.
    pub fn stats(&self) -> Vec<IndexStats> {
        let mut indexes: BTreeMap<String, IndexStats> = BTreeMap::new();
        for bucket in self.buckets() {
            let stats = indexes.entry(bucket.index.clone()).or_insert_with(|| IndexStats {
                index: bucket.index,
                buckets: 0,
                events: 0,
                raw_bytes: 0,
                stored_bytes: 0,
                time_min: bucket.time_min,
                time_max: bucket.time_max,
            });
            stats.buckets += 1;
            stats.events += bucket.events;
            stats.raw_bytes += bucket.raw_bytes;
            stats.stored_bytes += bucket.stored_bytes;
            stats.time_min = stats.time_min.min(bucket.time_min);
            stats.time_max = stats.time_max.max(bucket.time_max);
        }
        indexes.into_values().collect()
    }

    /// Reads every byte of every sealed bucket; slabs that could not be sealed and damaged segments of the log are
    /// named too.
    pub fn verify(&self) -> Vec<Verdict> {
        let (sealed, quarantined) = {
            let state = self.shared.state();
            let sealed: Vec<Arc<SealedBucket>> = state.sealed.values().cloned().collect();
            let mut quarantined = Vec::new();
            for slab in state.closed.values() {
                if let Progress::Quarantined(reason) = &slab.progress {
                    let bucket = slab.segment.bucket().to_owned();
                    quarantined.push(Verdict { bucket, result: Err(reason.clone()) });
                }
            }
            (sealed, quarantined)
        };
        let verdict = |bucket: Arc<SealedBucket>| Verdict {
            bucket: bucket.id.to_string(),
            result: self.shared.readers.check(&bucket),
        };
        let log = self.shared.log_damage.iter();
        let log = log.map(|damage| Verdict { bucket: damage.bucket.clone(), result: Err(damage.reason.clone()) });
        sealed.into_iter().map(verdict).chain(quarantined).chain(log).collect()
    }

    /// Retires sealed buckets whose newest event is older than their index allows; gives their ids. Objects that a
    /// search still reads are deleted by a later call.
    pub fn retention(&self, ages: &[(String, u64)]) -> Result<Vec<String>, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let now = self.shared.clock.now_ns();
        let is_old = |bucket: &&Arc<SealedBucket>| {
            ages.iter().any(|(index, max_age_secs)| {
                let age = i64::try_from(*max_age_secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
                *index == bucket.row.index && bucket.row.time_max < now.saturating_sub(age)
            })
        };
        let old: Vec<Arc<SealedBucket>> = self.shared.state().sealed.values().filter(is_old).cloned().collect();
        let ids = old.iter().map(|bucket| bucket.id.to_string()).collect();
        self.retire(old)?;
        self.delete_retired();
        Ok(ids)
    }

    fn retire(&self, old: Vec<Arc<SealedBucket>>) -> Result<(), StoreError> {
        if old.is_empty() {
            return Ok(());
        }
        let numbers: Vec<u64> = old.iter().map(|bucket| bucket.row.number).collect();
        let _commit = lock(&self.shared.commit);
        self.shared.catalog.retire(&numbers)?;
        let mut state = self.shared.state();
        numbers.iter().for_each(|number| drop(state.sealed.remove(number)));
        state.retired.extend(old);
        Ok(())
    }

    /// Deletes the objects of retired buckets that no search holds. What fails is told and tried again.
    fn delete_retired(&self) {
        let free: Vec<Arc<SealedBucket>> = {
            let mut state = self.shared.state();
            state.retired.extract_if(.., |bucket| Arc::strong_count(bucket) == 1).collect()
        };
        for bucket in free {
            self.shared.readers.forget(bucket.row.number);
            let blobs = self.shared.readers.blobs();
            let deleted = blobs.delete(&bucket.row.object).and_then(|()| blobs.delete(&bucket.row.filter));
            let forgotten = deleted
                .map_err(StoreError::from)
                .and_then(|()| self.shared.catalog.forget(bucket.row.number).map_err(StoreError::from));
            if let Err(error) = forgotten {
                self.shared.tell(format!("objects of retired bucket {} stay: {error}", bucket.id));
                self.shared.state().retired.push(bucket);
            }
        }
    }
}

fn sealed_listing(bucket: &SealedBucket) -> BucketListing {
    let row = &bucket.row;
    BucketListing {
        id: bucket.id.to_string(),
        index: row.index.clone(),
        state: ListingState::Sealed,
        events: row.events,
        raw_bytes: row.raw_bytes,
        stored_bytes: row.stored_bytes(),
        time_min: row.time_min,
        time_max: row.time_max,
        slabs: row.slabs,
    }
}

fn unsealed_listing(
    id: &str,
    index: &str,
    state: ListingState,
    (events, raw_bytes): (u64, u64),
    (time_min, time_max): (TimeNs, TimeNs),
) -> BucketListing {
    BucketListing {
        id: id.to_owned(),
        index: index.to_owned(),
        state,
        events,
        raw_bytes,
        stored_bytes: 0,
        time_min,
        time_max,
        slabs: 1,
    }
}
