//! Migration: moves the buckets of an index to another volume, or back into the data directory.
//!
//! indexes.conf says where new buckets of an index are uploaded; buckets uploaded before a change stay where they are
//! until they are migrated. Buckets are moved one at a time: the objects are fetched and stored at the new location,
//! one transaction makes it the current location in the catalog, and the objects at the old location are deleted once
//! no search holds the bucket. The catalog records each of these steps before it begins, so that after a crash the next
//! migration continues where the last one ended. Searches read from the current location.

use std::sync::Arc;

use quarry_catalog::DeletedCopies;

use super::copies::{RemotePath, copy_name, stem};
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::{Damage, Store, StoreError};

/// Result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationResult {
    /// Number of buckets that were moved.
    pub moved: u64,
    /// Total bytes of the moved buckets' objects.
    pub bytes: u64,
    /// Number of buckets that were at the destination already.
    pub already_there: u64,
    /// Number of buckets whose objects at the old location will be deleted once no search reads them.
    pub waiting: u64,
    /// Buckets that were not moved, with the reason.
    pub not_moved: Vec<Damage>,
}

/// Outcome of the migration of one bucket.
enum Step {
    AlreadyThere,
    Moved,
    NotMoved(String),
}

impl Store {
    /// Moves every sealed bucket of an index to the location that indexes.conf names: to volume `to`, or with `None`
    /// back into the data directory. Fails if indexes.conf names another location.
    pub fn migrate(&self, index: &str, to: Option<&str>) -> Result<MigrationResult, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        self.shared.migrate(index, to)
    }
}

impl Shared {
    fn migrate(&self, index: &str, to: Option<&str>) -> Result<MigrationResult, StoreError> {
        let is_known = self.options.configured_indexes.contains(index) || self.state().indexes().contains(index);
        if !is_known {
            return Err(StoreError::NoIndex { index: index.to_owned() });
        }
        let place = self.upload_place(index)?;
        let configured = place.as_ref().map(|place| place.volume.as_str());
        if configured != to {
            return Err(StoreError::PlacementMismatch {
                index: index.to_owned(),
                to: to.map(str::to_owned),
                configured: configured.map(str::to_owned),
            });
        }
        let mut of_index: Vec<Arc<SealedBucket>> =
            self.state_with_index(index)?.sealed.of_index(index).cloned().collect();
        of_index.sort_unstable_by_key(|bucket| bucket.row.number);
        let local =
            |bucket: &&Arc<SealedBucket>| place.is_some() && !bucket.row.thawed && bucket.copies.state().is_none();
        let to_upload: Vec<u64> = of_index.iter().filter(local).map(|bucket| bucket.row.number).collect();
        let numbers: Vec<u64> = of_index.iter().map(|bucket| bucket.row.number).collect();
        drop(of_index);
        // Buckets that left a volume can be uploaded again once their objects there are deleted.
        self.delete_old_copies()?;
        if place.is_some() {
            // Uploads buckets that were never on a volume, and completes the uploads that have begun.
            numbers.iter().for_each(|number| self.uploads.add(*number));
            while self.upload_next_group()? {}
        }
        let mut report = MigrationResult::default();
        for number in numbers {
            if self.uploads.is_stopping() {
                return Err(StoreError::Closed);
            }
            // Skips a bucket that was merged in the meantime.
            let Some(bucket) = self.state_with_bucket(index, number)?.sealed.get(number).cloned() else { continue };
            if bucket.row.thawed {
                continue;
            }
            match self.move_bucket(&bucket)? {
                Step::AlreadyThere if !to_upload.contains(&number) => report.already_there += 1,
                Step::AlreadyThere | Step::Moved => {
                    report.moved += 1;
                    report.bytes += bucket.row.stored_bytes();
                }
                Step::NotMoved(reason) => report.not_moved.push(Damage::corrupt(bucket.id(), reason)),
            }
            drop(bucket);
            self.evict()?;
            self.delete_old_copies()?;
        }
        report.waiting = self.buckets_with_old_copies().len() as u64;
        Ok(report)
    }

    /// Moves one bucket to the location of new uploads; continues a move that a crash interrupted.
    fn move_bucket(&self, bucket: &SealedBucket) -> Result<Step, StoreError> {
        let _turn = self.uploads.lock_transfers();
        let number = bucket.row.number;
        let place = self.upload_place(&bucket.row.index)?;
        let is_there = |volume: &str, folder: &str| place.as_ref().is_some_and(|place| place.is_also(volume, folder));
        if let Some(other) = bucket.copies.other().filter(|other| !other.is_obsolete)
            && !is_there(&other.volume, &other.folder)
        {
            // Gives up an earlier move to another destination.
            self.change_copies(bucket, || self.catalog.abandon_move(number))?;
        }
        let has_left = bucket.copies.other().is_some_and(|other| other.is_obsolete);
        let Some(copy) = bucket.copies.remote() else {
            if place.is_some() && has_left {
                return Ok(Step::NotMoved(old_copy_kept_message()));
            }
            let reason = "it is damaged here and was not uploaded; `quarry bucket verify` shows details";
            return Ok(if place.is_none() { Step::AlreadyThere } else { Step::NotMoved(reason.to_owned()) });
        };
        if is_there(&copy.volume, &copy.folder) {
            return Ok(if copy.state.is_remote_complete() {
                Step::AlreadyThere
            } else {
                Step::NotMoved(copy_begun_message())
            });
        }
        if has_left {
            return Ok(Step::NotMoved(old_copy_kept_message()));
        }
        if place.is_some() && !copy.state.is_remote_complete() {
            return Ok(Step::NotMoved(copy_begun_message()));
        }
        if !bucket.copies.is_local() {
            self.check_room(bucket)?;
        }
        match self.ensure_undamaged(bucket) {
            Err(StoreError::Corrupt { reason, .. }) => {
                return Ok(Step::NotMoved(format!("its copy on the volume is damaged: {reason}")));
            }
            fetched => fetched?,
        }
        let moved = match place {
            None => self.change_copies(bucket, || self.catalog.abandon_remote_copy(number))?,
            Some(place) => {
                if bucket.copies.other().is_none() {
                    self.change_copies(bucket, || self.catalog.begin_move(number, &place.volume, &place.path))?;
                }
                // The move that has begun is read from the catalog: an earlier call may have been committed without an
                // answer. Without a move, the bucket was retired in the meantime.
                let Some(other) = bucket.copies.other() else { return Ok(Step::AlreadyThere) };
                let place = RemotePath { volume: other.volume, path: other.folder };
                let deleted = bucket.deleted_events();
                if !self.put_objects(bucket, &place)? {
                    return Ok(Step::NotMoved("it is damaged; `quarry bucket verify` shows details".to_owned()));
                }
                self.change_copies(bucket, || self.catalog.end_move(number, deleted))?
            }
        };
        self.readers.reopen(number);
        // If the catalog refused the change, the bucket was retired in the meantime and will be deleted from both
        // locations.
        Ok(if moved { Step::Moved } else { Step::AlreadyThere })
    }

    /// Refuses to fetch a bucket if it would take the space that appends need.
    fn check_room(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        let needed = self.options.free_bytes_min.saturating_add(bucket.row.stored_bytes());
        match self.log_files.free_bytes(&self.options.dir) {
            Ok(free) if free < needed => {
                let path = crate::data_dir::objects(&self.options.dir);
                Err(StoreError::Full { path, kept_free_bytes: self.options.free_bytes_min })
            }
            // If the file system does not report its free space, writing will show whether it suffices.
            _ => Ok(()),
        }
    }

    /// Live buckets whose objects at an old location are to be deleted.
    fn buckets_with_old_copies(&self) -> Vec<Arc<SealedBucket>> {
        self.state().sealed.with_old_copies().cloned().collect()
    }

    /// Deletes the objects of moved buckets at their old locations, unless a search holds the bucket and may be reading
    /// there.
    pub(super) fn delete_old_copies(&self) -> Result<(), StoreError> {
        // While this lock is held, no upload or eviction holds any of these buckets.
        let _turn = self.uploads.lock_transfers();
        for bucket in self.buckets_with_old_copies() {
            let Some(other) = bucket.copies.other() else { continue };
            // The state holds one reference, and this function another.
            let is_held = Arc::strong_count(&bucket) > 2 || bucket.is_hold_shared();
            if is_held {
                continue;
            }
            let receipts = [bucket.copies.remote().and_then(|copy| copy.receipt), Some(bucket.deleted_events())];
            let receipts: Vec<u64> = receipts.into_iter().flatten().collect();
            let place = RemotePath { volume: other.volume, path: other.folder };
            let is_read_there =
                bucket.copies.remote().is_some_and(|copy| (&copy.volume, &copy.folder) == (&place.volume, &place.path));
            assert!(!is_read_there, "bucket {} does not leave the place where it is read", bucket.id());
            self.close_upload_folder(&place.path)?;
            // A search that began to open the objects before the move may have cached them afterwards.
            self.readers.reopen(bucket.row.number);
            self.readers.remotes().delete(&bucket.row, &place, &receipts)?;
            let names = [copy_name(&place.volume, &place.path, &stem(&bucket.row))];
            let deleted = DeletedCopies { names: &names, time_ns: self.clock.now_ns() };
            self.change_copies(&bucket, || self.catalog.remove_other_copy(bucket.row.number, &deleted))?;
            self.uploads.add(bucket.row.number);
        }
        Ok(())
    }
}

fn old_copy_kept_message() -> String {
    "its objects at an earlier location are not deleted yet; migrate again".to_owned()
}

fn copy_begun_message() -> String {
    "its upload to an earlier location has not ended; migrate again".to_owned()
}
