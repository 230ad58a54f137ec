//! Buckets that go: those whose events are too old, and those that were merged into another one.
//!
//! A retired bucket is in no later snapshot. Its objects stay for as long as a search holds it.
//!
//! A time of day that is set forward makes everything look old. It is believed after a day ([`DayClock`]), so that a
//! clock that is wrong for a while costs no events. What the clock did while the store was closed is not known.

use std::sync::Arc;

use quarry_event::time::NS_PER_SEC;

use quarry_stdx::SharedClock;

use crate::sealed::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{Store, StoreError};

/// Most that the time of day may gain on the time that passed; more is a clock that was set.
const GAIN_MAX_NS: i64 = 60 * 60 * NS_PER_SEC;
/// How long a clock that was set forward is not believed.
const DOUBT_NS: i64 = 24 * 60 * 60 * NS_PER_SEC;

/// The time of day that retention goes by.
#[derive(Debug)]
pub(crate) struct DayClock {
    /// The last time of day that was believed, and when that was.
    believed: i64,
    at: i64,
    told: bool,
}

impl DayClock {
    /// Believes the clock as it is.
    pub(crate) fn new(clock: &SharedClock) -> DayClock {
        DayClock { believed: clock.now_ns(), at: clock.elapsed_ns(), told: false }
    }

    /// The time of day, and by how much the clock was set forward if that is news.
    fn now(&mut self, clock: &SharedClock) -> (i64, Option<i64>) {
        let (now, elapsed) = (clock.now_ns(), clock.elapsed_ns());
        let passed = elapsed.saturating_sub(self.at);
        let expected = self.believed.saturating_add(passed);
        let gain = now.saturating_sub(expected);
        if gain > GAIN_MAX_NS && passed < DOUBT_NS {
            let is_news = !std::mem::replace(&mut self.told, true);
            return (expected, is_news.then_some(gain));
        }
        *self = DayClock { believed: now, at: elapsed, told: false };
        (now, None)
    }
}

impl Store {
    /// Retires sealed buckets whose newest event is older than their index allows; gives their ids. Objects that a
    /// search still reads are deleted by a later call.
    pub fn retention(&self, ages: &[(String, u64)]) -> Result<Vec<String>, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let ids = self.shared.retire_old(ages)?;
        self.shared.delete_retired();
        Ok(ids)
    }
}

impl Shared {
    fn retire_old(&self, ages: &[(String, u64)]) -> Result<Vec<String>, StoreError> {
        let (now, set_forward) = lock(&self.day_clock).now(&self.clock);
        if let Some(gain) = set_forward {
            let hours = gain / (60 * 60 * NS_PER_SEC);
            self.tell(format!(
                "the clock was set forward by {hours} hours: no events are removed as old by it for a day"
            ));
        }
        // Chosen under the lock: a bucket that was merged meanwhile is not here any more.
        let _commit = lock(&self.commit);
        let mut old: Vec<Arc<SealedBucket>> = Vec::new();
        let state = self.state();
        for (index, max_age_secs) in ages {
            let age = i64::try_from(*max_age_secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
            let is_old = |bucket: &&Arc<SealedBucket>| bucket.row.time_max < now.saturating_sub(age);
            old.extend(state.sealed_of(index).filter(is_old).cloned());
        }
        drop(state);
        old.sort_unstable_by_key(|bucket| bucket.row.number);
        old.dedup_by_key(|bucket| bucket.row.number);
        if old.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<u64> = old.iter().map(|bucket| bucket.row.number).collect();
        let ids = old.iter().map(|bucket| bucket.id.to_string()).collect();
        self.catalog.retire(&numbers)?;
        let mut state = self.state();
        numbers.iter().for_each(|number| state.remove_sealed(*number));
        state.retired.extend(old);
        Ok(ids)
    }

    /// Deletes the objects of retired buckets that no search holds. What fails is told and tried again.
    pub(crate) fn delete_retired(&self) {
        let free: Vec<Arc<SealedBucket>> = {
            let mut state = self.state();
            state.retired.extract_if(.., |bucket| Arc::strong_count(bucket) == 1).collect()
        };
        for bucket in free {
            self.readers.forget(bucket.row.number);
            let blobs = self.readers.blobs();
            let deleted = blobs.delete(&bucket.row.object).and_then(|()| blobs.delete(&bucket.row.filter));
            let forgotten = deleted
                .map_err(StoreError::from)
                .and_then(|()| self.catalog.forget(bucket.row.number).map_err(StoreError::from));
            if let Err(error) = forgotten {
                self.tell(format!("objects of retired bucket {} stay: {error}", bucket.id));
                self.state().retired.push(bucket);
            }
        }
    }
}
