//! Buckets that go: those whose events are too old, and those that were merged into another one.
//!
//! A retired bucket is in no later snapshot. Its objects stay for as long as a search holds it.

use std::sync::Arc;

use quarry_event::time::NS_PER_SEC;

use crate::sealed::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{Store, StoreError};

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
        let now = self.clock.now_ns();
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
