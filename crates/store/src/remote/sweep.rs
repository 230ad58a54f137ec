//! Deletes orphaned objects on volumes, such as an object whose upload completed after its deletion.
//!
//! Orphans are found by a listing. For each bucket, the catalog is read after the objects were listed, and once more
//! before they are deleted; the catalog prevails over the listing. A bucket's row is committed before its first object
//! is uploaded, so an object without a row belongs to a deleted bucket or to another catalog. Objects of another
//! catalog occur, for example, after an older catalog was restored. Orphans are therefore kept for a grace period
//! ([`crate::RemoteOptions::orphan_grace_secs`]), measured by the clock of the volume from the newest object of their
//! bucket. A complete bucket with a receipt is deleted only if this catalog recorded its deletion: then all its puts
//! ended after the deletion. Otherwise it is reported, and `quarry bucket rebuild-catalog` finds it. The catalog keeps
//! the record of a deletion for the grace period, and longer while objects of the bucket are found or the volume cannot
//! be listed, but only for a limited number of grace periods. Objects of other data directories are ignored.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use quarry_blob::BlobStore;
use quarry_catalog::{BucketRow, BucketState};
use quarry_event::time::NS_PER_SEC;

use super::copies::{ObjectKind, OwnFolder, receipt_key, stem};
use super::listing::{self, FoundKind, FoundObjects};
use crate::state::Shared;
use crate::{Store, StoreError};

/// Maximum and minimum number of seconds between two sweeps; within these bounds, sweeps follow each other at a
/// fraction of the grace period.
const SWEEP_INTERVAL_MAX_SECS: u64 = 6 * 60 * 60;
const SWEEP_INTERVAL_MIN_SECS: u64 = 60;
const SWEEPS_PER_GRACE: u64 = 4;
/// Maximum number of buckets with orphaned objects per volume and sweep; the next sweep handles the rest.
const ORPHANS_MAX: usize = 10_000;

/// Maximum age of the record of a deleted copy, in grace periods, even if the volume cannot be listed.
const RECORD_GRACES_MAX: i64 = 30;

/// Result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// Number of deleted objects.
    pub deleted: u64,
    /// Number of orphaned objects that are too young to be deleted.
    pub young: u64,
    /// Number of deleted remains of uploads that never ended.
    pub unfinished: u64,
    /// Number of complete buckets that the catalog neither knows nor has deleted.
    pub unknown_buckets: u64,
}

impl Store {
    /// Sweeps the volumes now: deletes orphaned objects that are old enough.
    pub fn sweep_volumes(&self) -> Result<SweepResult, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        self.shared.sweep()
    }
}

impl Shared {
    /// Sweeps all volumes if the interval since the last sweep is over; a failure is only reported.
    pub(super) fn sweep_if_due(&self) {
        let now_ns = self.clock.elapsed_ns();
        let grace = self.options.remote.as_ref().map_or(0, |remote| remote.orphan_grace_secs);
        let secs = (grace / SWEEPS_PER_GRACE).clamp(SWEEP_INTERVAL_MIN_SECS, SWEEP_INTERVAL_MAX_SECS);
        let interval_ns = i64::try_from(secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
        {
            let mut queue = self.uploads.lock_queue();
            if queue.next_sweep_ns.is_some_and(|at| now_ns < at) {
                return;
            }
            queue.next_sweep_ns = Some(now_ns.saturating_add(interval_ns));
        }
        if let Err(error) = self.sweep() {
            self.report_message(format!("volumes cannot be searched for orphaned objects: {error}"));
        }
    }

    /// Sweeps all volumes once. A volume that fails does not keep the others from being swept; the first failure is
    /// returned.
    fn sweep(&self) -> Result<SweepResult, StoreError> {
        let Some(remote) = &self.options.remote else { return Ok(SweepResult::default()) };
        let store_id = self.store_id()?;
        let grace_ns = i64::try_from(remote.orphan_grace_secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
        self.forget_old_records(grace_ns)?;
        let mut swept = SweepResult::default();
        let mut outcome = Ok(());
        for (name, volume) in self.readers.remotes().volumes() {
            outcome = outcome.and(self.sweep_volume(name, &**volume, &store_id, grace_ns, &mut swept));
        }
        if swept.unknown_buckets > 0 {
            self.report_message(format!(
                "{} buckets on volumes are not in the catalog, which may be out of date: they stay there and are not \
                 searched; `quarry bucket rebuild-catalog` creates a catalog with them",
                swept.unknown_buckets
            ));
        }
        outcome.map(|()| swept)
    }

    /// Removes the records of deleted copies that are very old or belong to volumes that are no longer configured. No
    /// listing of objects can confirm these deletions.
    fn forget_old_records(&self, grace_ns: i64) -> Result<(), StoreError> {
        let now_ns = self.clock.now_ns();
        let oldest_ns = now_ns.saturating_sub(grace_ns.saturating_mul(RECORD_GRACES_MAX));
        self.catalog.forget_deleted_copies(None, oldest_ns, &|_| false)?;
        let is_configured = |copy: &str| {
            let is_on = |name: &str| copy.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
            self.readers.remotes().volumes().any(|(name, _)| is_on(name))
        };
        Ok(self.catalog.forget_deleted_copies(None, now_ns.saturating_sub(grace_ns), &is_configured)?)
    }

    fn sweep_volume(
        &self,
        name: &str,
        volume: &dyn BlobStore,
        store_id: &str,
        grace_ns: i64,
        swept: &mut SweepResult,
    ) -> Result<(), StoreError> {
        let now_ns = self.clock.now_ns();
        let orphans = self.find_orphans(name, volume, store_id, swept)?;
        // Beyond this number, some found buckets are not known here.
        if orphans.len() < ORPHANS_MAX {
            let found: BTreeSet<String> = orphans.values().map(|found| found.copy_name(name)).collect();
            let before_ns = now_ns.saturating_sub(grace_ns);
            self.catalog.forget_deleted_copies(Some(name), before_ns, &|copy| found.contains(copy))?;
        }
        // The times of objects come from the clock of the volume.
        let latest = volume.now_ns().unwrap_or_else(|| self.clock.now_ns()).saturating_sub(grace_ns);
        for found in orphans.into_values() {
            // The bucket may have been uploaded since it was listed. While this lock is held, no
            // bucket is uploaded.
            let _turn = self.uploads.lock_transfers();
            let left = self.select_orphans(name, &found)?.objects;
            // An upload by another node may still be under way as long as one of the objects is young.
            if left.iter().any(|object| object.modified_ns > latest) {
                swept.young += left.len() as u64;
                continue;
            }
            // An outdated receipt at the location of its bucket is never uploaded again.
            let may_return = |row: &BucketRow| row.state == BucketState::Live && !is_at(row, name, &found.folder);
            if !left.is_empty() && self.row_of(&found)?.is_some_and(|row| may_return(&row)) {
                self.close_upload_folder(&found.folder)?;
            }
            for object in left {
                volume.delete(&object.key)?;
                swept.deleted += 1;
            }
        }
        let is_own =
            |key: &str| key.rsplit_once('/').is_some_and(|(folder, _)| OwnFolder::of(folder).store == store_id);
        // No upload of this process is under way while this lock is held.
        let _turn = self.uploads.lock_transfers();
        match volume.delete_unfinished(latest, &is_own) {
            Ok(deleted) => swept.unfinished += deleted,
            // Some access keys may not list uploads; nothing but space is lost.
            Err(error) => self.report_message(format!(
                "unfinished uploads on volume {name} are not deleted and take up space: {error}"
            )),
        }
        Ok(())
    }

    /// The buckets on a volume with orphaned objects, by folder and stem. Counts complete ones in `swept`.
    fn find_orphans(
        &self,
        name: &str,
        volume: &dyn BlobStore,
        store_id: &str,
        swept: &mut SweepResult,
    ) -> Result<BTreeMap<(String, String), FoundObjects>, StoreError> {
        let mut orphans: BTreeMap<(String, String), FoundObjects> = BTreeMap::new();
        let mut failed = None;
        listing::for_each(volume, &mut |found| {
            if found.store != store_id || failed.is_some() {
                return;
            }
            let left = self.select_orphans(name, &found);
            match left.and_then(|left| Ok((self.is_unknown_bucket(name, &left)?, left))) {
                Ok((_, left)) if left.objects.is_empty() => {}
                Ok((true, _)) => swept.unknown_buckets += 1,
                Ok((false, left)) => {
                    let place = (left.folder.clone(), left.stem.clone());
                    let is_full = orphans.len() == ORPHANS_MAX;
                    match orphans.entry(place) {
                        // Not every store lists the objects of a bucket one after the other.
                        Entry::Occupied(mut known) => known.get_mut().objects.extend(left.objects),
                        Entry::Vacant(free) if !is_full => {
                            free.insert(left);
                        }
                        Entry::Vacant(_) => {}
                    }
                }
                Err(error) => failed = Some(error),
            }
        })?;
        orphans.retain(|_, left| {
            let is_unknown = self.is_unknown_bucket(name, left);
            swept.unknown_buckets += u64::from(matches!(is_unknown, Ok(true)));
            is_unknown.map_or_else(|error| failed.replace(error).is_none(), |is_unknown| !is_unknown)
        });
        failed.map_or(Ok(orphans), Err)
    }

    /// Whether orphaned objects are a complete bucket that may belong to a newer catalog.
    fn is_unknown_bucket(&self, volume: &str, left: &FoundObjects) -> Result<bool, StoreError> {
        Ok(left.is_complete() && !self.catalog.is_deleted_copy(&left.copy_name(volume))?)
    }

    /// The row of a found bucket, wherever the catalog locates its objects.
    fn row_of(&self, found: &FoundObjects) -> Result<Option<BucketRow>, StoreError> {
        let number = found.number_and_time().map(|(number, _)| number);
        let row = number.map_or(Ok(None), |number| self.catalog.bucket(number))?.filter(|row| stem(row) == found.stem);
        // A rebuilt catalog may have given the bucket a number that differs from the one in its objects' names.
        Ok(row.map_or_else(|| self.catalog.bucket_with_stem(&found.stem), |row| Ok(Some(row)))?)
    }

    /// The objects of a found bucket that the catalog does not know at this location.
    fn select_orphans(&self, volume: &str, found: &FoundObjects) -> Result<FoundObjects, StoreError> {
        let mut left = found.clone();
        if let Some(row) = self.row_of(found)?.filter(|row| is_at(row, volume, &found.folder)) {
            let state = self.state_with_bucket(&row.index, row.number)?;
            let deleted = state.sealed.get(row.number).map(|bucket| bucket.deleted_events());
            drop(state);
            left.objects.retain(|object| match object.kind {
                FoundKind::Part(part) => object.key != ObjectKind::key(part, &row, &found.folder),
                FoundKind::Receipt(of) => {
                    let is_known = row.remote.as_ref().and_then(|copy| copy.receipt) == Some(of);
                    // A receipt that another thread may be uploading or deleting now is skipped.
                    let is_current = deleted.is_none_or(|deleted| of >= deleted);
                    !(is_known || is_current) && object.key == receipt_key(&row, &found.folder, of)
                }
            });
        }
        Ok(left)
    }
}

/// Whether a bucket has or may have objects at a location.
fn is_at(row: &BucketRow, volume: &str, folder: &str) -> bool {
    let copy = row.remote.as_ref().is_some_and(|copy| copy.volume == volume && copy.folder == folder);
    copy || row.other.as_ref().is_some_and(|other| other.volume == volume && other.folder == folder)
}
