//! Uploads sealed buckets to the volumes of their indexes, each with its receipt.
//!
//! The oldest buckets are uploaded first, several at once; those whose upload failed are retried after the others.
//! Before upload, objects are read back from disk and verified against their checksums, so that local damage is reported
//! and never uploaded. An unreachable volume delays only uploads and evictions. Uploads are retried after a few seconds at
//! first and later after up to a minute; deletions of copies are retried every minute.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use quarry_catalog::{BucketState, CatalogError, RemoteCopy, RemoteState};

use super::copies::{
    ObjectKind, OwnFolder, RemotePath, STORE_ID_SETTING, UPLOAD_EPOCH_SETTING, epoch, receipt_key, stem,
};
use super::receipt::Receipt;
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{Store, StoreError};

/// Shortest and longest pause after a failure.
const RETRY_MIN: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Idle pause of the thread; new work wakes it.
const IDLE_PAUSE: Duration = Duration::from_secs(60);
/// Maximum bytes uploaded concurrently; a larger bucket is uploaded alone.
const CONCURRENT_BYTES_MAX: u64 = 256 << 20;

/// The upload thread.
pub(crate) fn run(shared: &Shared) {
    let mut retry = RETRY_MIN;
    shared.uploads.set_running(true);
    while !shared.uploads.is_stopping() {
        // A thread that ended would never upload again.
        let round = catch_unwind(AssertUnwindSafe(|| shared.transfer()));
        let Ok(round) = round else {
            shared.report_message("uploading panicked and will be retried; please report this".to_owned());
            shared.uploads.pause(RETRY_MAX, true);
            continue;
        };
        match round {
            Ok(true) => retry = RETRY_MIN,
            Ok(false) => {
                retry = RETRY_MIN;
                shared.uploads.pause(IDLE_PAUSE, false);
            }
            Err(error) => {
                shared.report_failed_upload(&error);
                shared.uploads.pause(retry, true);
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
    shared.uploads.set_running(false);
}

impl Store {
    /// Sets a function that is called if [`Store::close`] has to wait for an upload. Only the first call has an effect.
    pub fn report_upload_waits(&self, report: impl Fn() + Send + Sync + 'static) {
        self.shared.uploads.report_waits(Box::new(report));
    }

    /// Uploads every sealed bucket of indexes with a volume, and evicts local copies that do not fit into the cache.
    pub fn upload_all(&self) -> Result<(), StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        while self.shared.upload_next_group()? {}
        self.shared.complete_evictions()?;
        self.shared.evict()
    }
}

/// Whether a bucket waits for its upload, or for a new receipt after deletions.
fn needs_upload(bucket: &SealedBucket) -> bool {
    let is_told = |copy: &RemoteCopy| copy.state.is_remote_complete() && copy.receipt == Some(bucket.deleted_events());
    !bucket.row.thawed && !bucket.copies.remote().is_some_and(|copy| is_told(&copy))
}

/// Whether the row of a bucket must stay in memory, because the store looks for the bucket without knowing its index:
/// the bucket is thawed or has deleted events, or its copies are to be changed.
pub(crate) fn is_in_motion(bucket: &SealedBucket, has_volumes: bool) -> bool {
    let copies = &bucket.copies;
    bucket.row.thawed
        || bucket.deleted.is_some()
        || copies.other().is_some()
        || copies.state() == Some(RemoteState::Evicting)
        || (has_volumes && needs_upload(bucket))
}

/// Buckets for one location that are uploaded together.
type UploadGroup = (RemotePath, Vec<Arc<SealedBucket>>);

impl Shared {
    /// One round of the upload thread; returns whether buckets may be waiting for their upload. Failures of evictions,
    /// deletions and sweeps are only reported.
    pub(crate) fn transfer(&self) -> Result<bool, StoreError> {
        let done = self.upload_next_group();
        let evicted = self.evict();
        // Failed evictions and deletions of old copies are retried only when no bucket waits: they may fail every time
        // (an old volume is unreachable) and must not delay uploads.
        let is_idle = !matches!(done, Ok(true));
        let completed = if is_idle { self.complete_evictions().and(self.delete_old_copies()) } else { Ok(()) };
        let deleted = evicted.and(completed);
        if is_idle || deleted.is_err() {
            self.report_kept_copies(deleted);
        }
        if is_idle {
            self.sweep_if_due();
        }
        done
    }

    /// Reports that copies of buckets could not be deleted, unless that was reported since the last success.
    fn report_kept_copies(&self, deleted: Result<(), StoreError>) {
        let was_reported = std::mem::replace(&mut self.uploads.lock_queue().is_kept_copy_reported, deleted.is_err());
        if let Err(error) = deleted
            && !was_reported
        {
            self.report_message(format!(
                "evicted copies of buckets, or objects at an old location, cannot be deleted yet; they take up space, and \
                 the deletion is retried: {error}"
            ));
        }
    }

    /// Uploads some of the oldest waiting buckets; `false` if none waits. Fails if none of them could be uploaded: a
    /// bucket that fails by itself does not keep the others from being uploaded.
    pub(super) fn upload_next_group(&self) -> Result<bool, StoreError> {
        let is_any_uploaded = self.try_next_group()?;
        let is_recovered = {
            let mut queue = self.uploads.lock_queue();
            queue.failed.is_empty() && std::mem::take(&mut queue.is_damage_reported)
        };
        if is_recovered {
            self.report_message("no upload of a bucket fails any more".to_owned());
        }
        Ok(is_any_uploaded)
    }

    fn try_next_group(&self) -> Result<bool, StoreError> {
        let _turn = self.uploads.lock_transfers();
        let Some((place, buckets)) = self.next_uploads()? else { return Ok(false) };
        let numbers: Vec<u64> = buckets.iter().map(|bucket| bucket.row.number).collect();
        self.catalog.begin_uploads(&numbers, &place.volume, &place.path)?;
        // The uploads that have begun are read from the catalog, not taken from its answer: an earlier call may have
        // been committed without an answer.
        buckets.iter().try_for_each(|bucket| self.adopt_copies(bucket))?;
        // Dequeued before the upload begins, so that changes during the upload queue the buckets again.
        self.uploads.lock_queue().buckets.retain(|number| !numbers.contains(number));
        let done: Vec<Result<(), StoreError>> = std::thread::scope(|scope| {
            let begin = |bucket| {
                let thread = std::thread::Builder::new().name("quarry-upload".to_owned());
                thread.spawn_scoped(scope, move || self.upload(bucket))
            };
            let threads: Vec<_> = buckets.iter().map(begin).collect();
            let failed = |reason: String| StoreError::Io { action: "upload", path: self.options.dir.clone(), reason };
            threads
                .into_iter()
                .map(|thread| match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|_| Err(failed("a thread ended".to_owned()))),
                    Err(error) => Err(failed(error.to_string())),
                })
                .collect()
        });
        let failed = buckets.iter().zip(&done).filter(|(_, done)| done.is_err());
        let failed: BTreeSet<u64> = failed.map(|(bucket, _)| bucket.row.number).collect();
        let is_any_uploaded = failed.len() < numbers.len();
        {
            let mut queue = self.uploads.lock_queue();
            queue.failed.retain(|number| !numbers.contains(number));
            queue.failed.extend(&failed);
            queue.buckets.extend(failed);
            if is_any_uploaded {
                queue.postponed.remove(&place);
            } else {
                queue.postponed.insert(place);
            }
        }
        drop(buckets);
        // Retired inputs of a merge may have waited for the upload of the merged bucket.
        self.delete_retired();
        match done.into_iter().collect::<Result<(), StoreError>>() {
            Err(error) if is_any_uploaded => self.report_failed_upload(&error),
            ended => ended?,
        }
        Ok(true)
    }

    /// Reports a failed upload, unless one was reported since the last time when no waiting bucket had failed.
    fn report_failed_upload(&self, error: &StoreError) {
        let was_reported = std::mem::replace(&mut self.uploads.lock_queue().is_damage_reported, true);
        if !was_reported {
            self.report_message(format!(
                "buckets cannot be uploaded; they stay on the local disk, and the upload is retried: {error}"
            ));
        }
    }

    /// The oldest waiting buckets of one location; those of locations whose last uploads failed come last, so that a
    /// volume that is out of reach delays no other.
    fn next_uploads(&self) -> Result<Option<UploadGroup>, StoreError> {
        let postponed = std::mem::take(&mut self.uploads.lock_queue().postponed);
        let group = self.oldest_uploads(&postponed)?;
        if group.is_none() && !postponed.is_empty() {
            return self.oldest_uploads(&BTreeSet::new());
        }
        self.uploads.lock_queue().postponed = postponed;
        Ok(group)
    }

    /// The oldest waiting buckets of one location that is not in `postponed`. Removes buckets that need no upload from
    /// the queue.
    fn oldest_uploads(&self, postponed: &BTreeSet<RemotePath>) -> Result<Option<UploadGroup>, StoreError> {
        let Some(remote) = &self.options.remote else { return Ok(None) };
        let own_folder = self.upload_folder()?;
        let numbers: Vec<u64> = {
            let queue = self.uploads.lock_queue();
            let (failed, others): (Vec<u64>, Vec<u64>) =
                queue.buckets.iter().partition(|number| queue.failed.contains(number));
            [others, failed].concat()
        };
        let (mut together, mut bytes): (Option<UploadGroup>, u64) = (None, 0);
        let mut done = Vec::new();
        for number in numbers {
            let found = self.state().sealed.get(number).cloned();
            // A bucket that left a volume waits until its objects there are deleted, because the catalog records only
            // one such location; it is then queued again.
            let has_left = |bucket: &SealedBucket| bucket.copies.remote().is_none() && bucket.copies.other().is_some();
            let Some(bucket) = found.filter(|bucket| needs_upload(bucket) && !has_left(bucket)) else {
                done.push(number);
                continue;
            };
            // An upload that has begun continues at its location, even if indexes.conf now names another location.
            let begun = bucket.copies.remote().map(|copy| RemotePath { volume: copy.volume, path: copy.folder });
            let Some(place) = begun.or_else(|| remote.place_of(&bucket.row.index, &own_folder)) else {
                done.push(number);
                continue;
            };
            if postponed.contains(&place) {
                continue;
            }
            let (of, buckets) = together.get_or_insert_with(|| (place.clone(), Vec::new()));
            bytes += bucket.row.stored_bytes();
            if *of != place
                || buckets.len() == remote.uploads_max.max(1)
                || (!buckets.is_empty() && bytes > CONCURRENT_BYTES_MAX)
            {
                break;
            }
            buckets.push(bucket);
        }
        let mut waiting = self.uploads.lock_queue();
        for number in done {
            waiting.buckets.remove(&number);
            waiting.failed.remove(&number);
        }
        Ok(together)
    }

    /// The id of this data directory.
    pub(super) fn store_id(&self) -> Result<String, StoreError> {
        if let Some(known) = self.catalog.setting(STORE_ID_SETTING)? {
            return Ok(known);
        }
        let drawn = self.options.remote.as_ref().map(|remote| remote.new_store_id.clone()).unwrap_or_default();
        assert!(!drawn.is_empty() && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric()), "an id is part of keys");
        self.catalog.set_setting(STORE_ID_SETTING, &drawn)?;
        Ok(drawn)
    }

    /// Last component of the folders of new uploads.
    fn upload_folder(&self) -> Result<String, StoreError> {
        let (store, epoch) = (self.store_id()?, self.catalog.setting(UPLOAD_EPOCH_SETTING)?);
        Ok(OwnFolder { store: &store, epoch: epoch.as_deref() }.to_string())
    }

    /// Location of new uploads of an index; `None` if its buckets are local only.
    pub(super) fn upload_place(&self, index: &str) -> Result<Option<RemotePath>, StoreError> {
        let Some(remote) = &self.options.remote else { return Ok(None) };
        Ok(remote.place_of(index, &self.upload_folder()?))
    }

    /// Begins a new epoch of uploads if new uploads would go to this folder. Must be called before objects of a live
    /// bucket in this folder are deleted.
    pub(super) fn close_upload_folder(&self, folder: &str) -> Result<(), StoreError> {
        if folder.rsplit('/').next() != Some(&self.upload_folder()?) {
            return Ok(());
        }
        // The time makes epochs unique even if an older catalog is restored.
        let last = OwnFolder::of(folder).epoch_number();
        let next = self.clock.now_ns().cast_unsigned().max(last.saturating_add(1));
        Ok(self.catalog.set_setting(UPLOAD_EPOCH_SETTING, &epoch(next))?)
    }

    /// Uploads the objects of a bucket whose upload has been recorded as begun, and records that the upload is
    /// complete. For a bucket that is already uploaded, uploads a new receipt.
    fn upload(&self, bucket: &Arc<SealedBucket>) -> Result<(), StoreError> {
        let Some(copy) = bucket.copies.remote() else { return Ok(()) };
        let (row, deleted) = (&bucket.row, bucket.deleted_events());
        let place = RemotePath { volume: copy.volume, path: copy.folder };
        if copy.state.is_remote_complete() {
            self.put_receipt(bucket, &place)?;
            if self.change_copies(bucket, || self.catalog.record_receipt(row.number, deleted))?
                && let Some(earlier) = copy.receipt.filter(|earlier| *earlier != deleted)
            {
                self.readers.remotes().volume(&place.volume)?.delete(&receipt_key(row, &place.path, earlier))?;
            }
            return Ok(());
        }
        if self.put_objects(bucket, &place)? {
            self.change_copies(bucket, || self.catalog.end_upload(row.number, deleted))?;
        }
        Ok(())
    }

    /// Uploads the objects of a bucket and then its receipt. If the local copy is damaged, reports that and returns
    /// `false`.
    pub(super) fn put_objects(&self, bucket: &SealedBucket, place: &RemotePath) -> Result<bool, StoreError> {
        let row = &bucket.row;
        let objects = match self.read_verified_objects(bucket) {
            Ok(objects) => objects,
            Err(StoreError::Corrupt { reason, .. }) => {
                if self.uploads.lock_queue().damaged.insert(row.number) {
                    self.report_message(format!(
                        "bucket {} is damaged and stays on the local disk: {reason}",
                        bucket.id()
                    ));
                }
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let volume = self.readers.remotes().volume(&place.volume)?;
        let keys = ObjectKind::ALL.map(|part| part.key(row, &place.path));
        let puts: Vec<(&str, &[u8])> =
            keys.iter().map(String::as_str).zip(objects.iter().map(|bytes| &bytes[..])).collect();
        volume.put_all(&puts)?;
        self.put_receipt(bucket, place)?;
        Ok(true)
    }

    fn put_receipt(&self, bucket: &SealedBucket, place: &RemotePath) -> Result<(), StoreError> {
        let row = &bucket.row;
        let replaces: Vec<String> = self.catalog.merged_into(row.number)?.iter().map(stem).collect();
        let deleted = bucket.deleted.as_deref();
        let store = self.store_id()?;
        let receipt = Receipt { store: &store, row, origins: &bucket.origins, deleted, replaces: &replaces };
        let key = receipt_key(row, &place.path, bucket.deleted_events());
        Ok(self.readers.remotes().volume(&place.volume)?.put(&key, &receipt.encode())?)
    }

    /// Changes the state of a bucket's copies in the catalog and then in memory; returns `false` if nothing changed in the
    /// catalog. The state in memory follows the catalog even then, because an earlier change may have been committed
    /// without an answer.
    pub(super) fn change_copies(
        &self,
        bucket: &SealedBucket,
        change: impl FnOnce() -> Result<bool, CatalogError>,
    ) -> Result<bool, StoreError> {
        let _commit = lock(&self.commit);
        let is_changed = change()?;
        self.read_copies(bucket)?;
        Ok(is_changed)
    }

    /// Sets the state of a bucket's copies in memory to the one in the catalog.
    fn adopt_copies(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        let _commit = lock(&self.commit);
        self.read_copies(bucket)
    }

    /// Like [`Shared::adopt_copies`]; the caller holds `commit`.
    fn read_copies(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        let row = self.catalog.bucket(bucket.row.number)?.filter(|row| row.state == BucketState::Live);
        let mut state = self.state();
        if let Some(row) = row.filter(|_| state.sealed.contains(bucket.row.number)) {
            bucket.copies.set(row.remote, row.other);
            state.sealed.recount(bucket);
        }
        Ok(())
    }

    /// At start, queues the buckets that are not uploaded yet, and completes interrupted evictions.
    pub(crate) fn resume_uploads(&self) -> Result<(), StoreError> {
        self.complete_evictions()?;
        let waiting = |bucket: &&Arc<SealedBucket>| needs_upload(bucket);
        let waiting: Vec<u64> = {
            let state = self.state();
            state.sealed.values().filter(waiting).map(|bucket| bucket.row.number).collect()
        };
        waiting.into_iter().for_each(|number| self.uploads.add(number));
        Ok(())
    }
}
