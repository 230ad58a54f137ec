//! Inventory of the store, and verification.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_blob::CacheStats;
use quarry_catalog::{BucketState, RemoteState};
use quarry_event::{TimeNs, TimeRange};
use quarry_stdx::Fault;

use crate::live_buckets::{Totals, UnloadedRange};
use crate::sealed_buckets::SealedBucket;
use crate::state::{Progress, State};
use crate::{IndexSelector, Segment, Store, StoreError};

/// Location of a bucket's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingState {
    /// In memory and the log; accepts events.
    Hot,
    /// In memory and the log; accepts no more events.
    Sealing,
    /// In a bucket object.
    Sealed,
}

/// Location of a bucket's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketCopies {
    /// In the data directory; includes buckets that are not sealed yet.
    Local,
    /// In the data directory; upload is pending or in progress.
    Uploading,
    /// In the data directory and on a volume.
    Both,
    /// On a volume only.
    Remote,
}

/// One bucket, sealed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketListing {
    /// Id of the bucket.
    pub id: String,
    /// Index of the events.
    pub index: String,
    /// Location of the events.
    pub state: ListingState,
    /// Number of events, without deleted ones.
    pub events: u64,
    /// Number of deleted events that the bucket's objects still contain.
    pub deleted: u64,
    /// Text bytes, including deleted events.
    pub raw_bytes: u64,
    /// Total bytes of the bucket's objects; 0 before it is sealed.
    pub stored_bytes: u64,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Number of slabs.
    pub slabs: u32,
    /// Compaction level.
    pub level: u32,
    /// Location of the objects.
    pub copies: BucketCopies,
    /// Volume that has, or gets, a copy of the objects.
    pub volume: Option<String>,
}

/// Figures about buckets on remote volumes and the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteStats {
    /// Figures of the block cache since the start of the process.
    pub cache: CacheStats,
    /// Number of buckets that wait for their upload or for a new receipt.
    pub uploads_waiting: u64,
    /// Total bytes of local copies of uploaded buckets.
    pub copies_bytes: u64,
    /// Total bytes of buckets on volumes.
    pub remote_bytes: u64,
}

/// Totals of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStats {
    /// Name of the index.
    pub index: String,
    /// Number of buckets, including unsealed ones.
    pub buckets: u64,
    /// Number of events, without deleted ones.
    pub events: u64,
    /// Number of deleted events that objects still contain.
    pub deleted: u64,
    /// Text bytes, including deleted events.
    pub raw_bytes: u64,
    /// Total bytes of objects.
    pub stored_bytes: u64,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
}

impl IndexStats {
    fn empty(index: &str) -> IndexStats {
        IndexStats {
            index: index.to_owned(),
            buckets: 0,
            events: 0,
            deleted: 0,
            raw_bytes: 0,
            stored_bytes: 0,
            time_min: TimeNs::MAX,
            time_max: TimeNs::MIN,
        }
    }

    fn add(&mut self, totals: Totals, (first, last): (TimeNs, TimeNs)) {
        self.buckets += totals.buckets;
        self.events += totals.events;
        self.deleted += totals.deleted;
        self.raw_bytes += totals.raw_bytes;
        self.stored_bytes += totals.stored_bytes;
        self.time_min = self.time_min.min(first);
        self.time_max = self.time_max.max(last);
    }
}

/// Result of verifying a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Id of the bucket.
    pub bucket: String,
    /// The fault found, if any.
    pub result: Result<(), Fault>,
}

impl Store {
    /// Every bucket by ascending number, including hot and frozen slabs.
    pub fn buckets(&self) -> Vec<BucketListing> {
        let (all, always) = (IndexSelector::all(), TimeRange::ALL);
        self.buckets_of(&all, &always).unwrap_or_else(|error| {
            self.shared.report_message(format!("not all buckets are listed: {error}"));
            listings(&self.shared.state(), &all, &always)
        })
    }

    /// The buckets of the selected indexes that may have events in `range`, by ascending number, including those in
    /// memory. Rows of other indexes are not read from the catalog.
    pub fn buckets_of(&self, selector: &IndexSelector, range: &TimeRange) -> Result<Vec<BucketListing>, StoreError> {
        let wanted = |index: &str, unloaded: &UnloadedRange| {
            selector.matches(index) && range.overlaps(unloaded.times.0, unloaded.times.1)
        };
        let state = self.shared.state_with(wanted)?;
        Ok(listings(&state, selector, range))
    }

    /// Figures about buckets on remote volumes and the block cache; `None` without volumes.
    pub fn remote_stats(&self) -> Option<RemoteStats> {
        let cache = self.shared.readers.remotes().cache.as_ref()?;
        let (copies_bytes, remote_bytes) = self.shared.state().sealed.copy_bytes();
        Some(RemoteStats {
            cache: cache.stats(),
            uploads_waiting: self.shared.uploads.count() as u64,
            copies_bytes,
            remote_bytes,
        })
    }

    /// Totals of every index that contains events, by name.
    pub fn stats(&self) -> Vec<IndexStats> {
        let state = self.shared.state();
        let mut indexes: BTreeMap<Arc<str>, IndexStats> = BTreeMap::new();
        let mut add = |index: &Arc<str>, totals, times| {
            indexes.entry(Arc::clone(index)).or_insert_with(|| IndexStats::empty(index)).add(totals, times);
        };
        state.sealed.totals().for_each(|(index, totals, times)| add(index, totals, times));
        let unsealed = |events: u64, raw_bytes: u64| Totals { buckets: 1, events, raw_bytes, ..Totals::default() };
        for slab in state.closed.values().map(|closed| &closed.segment) {
            add(slab.index_name(), unsealed(slab.events(), slab.raw_bytes()), slab.times());
        }
        for slab in state.hot.values() {
            add(slab.index(), unsealed(slab.events() as u64, slab.raw_bytes() as u64), slab.times());
        }
        indexes.into_values().collect()
    }

    /// Reads every byte of every sealed bucket and every row of the catalog. Also reports unknown objects, slabs that
    /// could not be sealed, and damaged log segments.
    pub fn verify(&self) -> Vec<Verdict> {
        let mut unread = None;
        let (sealed, quarantined) = {
            let state = self.shared.state_with_all().unwrap_or_else(|error| {
                unread = Some(Verdict { bucket: "catalog".to_owned(), result: Err(error.into()) });
                self.shared.state()
            });
            let sealed: Vec<Arc<SealedBucket>> = state.sealed.values().cloned().collect();
            let mut quarantined = Vec::new();
            for slab in state.closed.values() {
                if let Progress::Quarantined(reason) = &slab.progress {
                    let bucket = slab.segment.bucket().to_owned();
                    quarantined.push(Verdict { bucket, result: Err(Fault::corrupt(reason)) });
                }
            }
            (sealed, quarantined)
        };
        let verdict =
            |bucket: Arc<SealedBucket>| Verdict { bucket: bucket.id().to_owned(), result: self.verify_bucket(&bucket) };
        let log = self.shared.log_damage.iter();
        let log =
            log.map(|damage| Verdict { bucket: damage.bucket.clone(), result: Err(Fault::corrupt(&damage.reason)) });
        let sealed = sealed.into_iter().map(verdict);
        sealed
            .chain(quarantined)
            .chain(log)
            .chain(unread)
            .chain(self.verify_catalog())
            .chain(self.verify_objects())
            .collect()
    }

    /// Reads a whole bucket and checks that its deleted rows exist.
    fn verify_bucket(&self, bucket: &SealedBucket) -> Result<(), Fault> {
        self.shared.readers.check(bucket)?;
        match bucket.deleted.as_ref().and_then(|deleted| deleted.last()) {
            Some(row) if row >= bucket.row.events => {
                Err(Fault::corrupt(format!("its event {row} is deleted, but it has only {} events", bucket.row.events)))
            }
            _ => Ok(()),
        }
    }

    /// Damage to the catalog, if any.
    fn verify_catalog(&self) -> Option<Verdict> {
        let error = self.shared.catalog.check().err()?;
        Some(Verdict { bucket: "catalog".to_owned(), result: Err(error.into()) })
    }

    /// Objects that belong to no bucket in the catalog.
    fn verify_objects(&self) -> Vec<Verdict> {
        let blobs = self.shared.readers.blobs();
        let wrong = |object: String, reason: String| Verdict { bucket: object, result: Err(Fault::corrupt(reason)) };
        // Objects are listed before the catalog is read. A row is committed before its object is written, so a listed
        // object without a row belongs to no bucket.
        let listed = match blobs.list() {
            Ok(listed) => listed,
            Err(error) => return vec![Verdict { bucket: "objects".to_owned(), result: Err(error.into()) }],
        };
        let mut known = BTreeSet::new();
        for state in [BucketState::Sealing, BucketState::Live, BucketState::Retired] {
            match self.shared.catalog.buckets(state) {
                Ok(rows) => known.extend(rows.into_iter().flat_map(|row| [row.object, row.filter])),
                Err(error) => return vec![Verdict { bucket: "catalog".to_owned(), result: Err(error.into()) }],
            }
        }
        // An object that was removed together with its row after the listing is not reported.
        let is_stranger = |object: &String| !known.contains(object) && blobs.exists(object).unwrap_or(true);
        let reason = "no bucket of the catalog has this object, so its events are not searched; move the object away, or \
                      put back the catalog to which it belongs";
        listed.into_iter().filter(is_stranger).map(|object| wrong(object, reason.to_owned())).collect()
    }
}

/// The buckets of a state that may have events in `range`, by ascending number; rows of indexes that are not loaded are
/// missing.
fn listings(state: &State, selector: &IndexSelector, range: &TimeRange) -> Vec<BucketListing> {
    let is_wanted = |index: &str, (first, last)| selector.matches(index) && range.overlaps(first, last);
    let sealed = state.sealed.overlapping(|index| selector.matches(index), range);
    let mut listings: Vec<_> = sealed.map(|bucket| (bucket.row.number, sealed_listing(bucket))).collect();
    let closed = state.closed.values().map(|closed| &closed.segment);
    for slab in closed.filter(|slab| is_wanted(slab.index(), slab.times())) {
        let counts = (slab.events(), slab.raw_bytes());
        let listing = unsealed_listing(slab.bucket(), slab.index(), ListingState::Sealing, counts, slab.times());
        listings.push((slab.number(), listing));
    }
    for slab in state.hot.values().filter(|slab| is_wanted(slab.index(), slab.times())) {
        let counts = (slab.events() as u64, slab.raw_bytes() as u64);
        let listing = unsealed_listing(slab.bucket(), slab.index(), ListingState::Hot, counts, slab.times());
        listings.push((slab.number(), listing));
    }
    listings.sort_unstable_by_key(|(number, _)| *number);
    let is_once = listings.is_sorted_by(|(one, _), (next, _)| one < next);
    assert!(is_once, "a slab is in exactly one place, and bucket numbers are unique");
    listings.into_iter().map(|(_, listing)| listing).collect()
}

fn sealed_listing(bucket: &SealedBucket) -> BucketListing {
    let row = &bucket.row;
    BucketListing {
        id: bucket.id().to_owned(),
        index: row.index.to_string(),
        state: ListingState::Sealed,
        events: row.events - bucket.deleted_events(),
        deleted: bucket.deleted_events(),
        raw_bytes: row.raw_bytes,
        stored_bytes: row.stored_bytes(),
        time_min: row.time_min,
        time_max: row.time_max,
        slabs: row.slabs,
        level: row.level,
        copies: match bucket.copies.state() {
            None => BucketCopies::Local,
            Some(RemoteState::Uploading) => BucketCopies::Uploading,
            Some(RemoteState::Uploaded) => BucketCopies::Both,
            Some(RemoteState::Evicting | RemoteState::Evicted) => BucketCopies::Remote,
        },
        volume: bucket.copies.remote().map(|copy| copy.volume),
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
        deleted: 0,
        raw_bytes,
        stored_bytes: 0,
        time_min,
        time_max,
        slabs: 1,
        level: 0,
        copies: BucketCopies::Local,
        volume: None,
    }
}
