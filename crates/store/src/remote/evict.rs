//! Eviction of local copies of uploaded buckets.
//!
//! Local copies and cached blocks share the configured space. Each of the two may use at least half of the space, and
//! more if the other uses less. The least recently used copies are evicted first, and copies with recent events last. The
//! directories and the term filter of an evicted copy stay in the cache, unless the disk is full. Searches that hold a
//! bucket are not affected: open files stay readable, and later reads use the volume. Copies can also be evicted on
//! request.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use quarry_blob::BlockCache;
use quarry_bucket::{BucketReader, TermFilter};
use quarry_catalog::RemoteState;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::number::usize_of;

use super::copies::{ObjectKind, RemoteOptions};
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{Store, StoreError};

impl Store {
    /// Deletes the local copy and the cached blocks of an uploaded bucket, and removes the bucket from the caches in
    /// memory.
    pub fn evict_bucket(&self, id: &str) -> Result<(), StoreError> {
        let bucket = self.bucket_with_id(id)?;
        let _turn = self.shared.uploads.lock_transfers();
        let refused = || StoreError::NotEvictable { bucket: id.to_owned() };
        let copy = bucket.copies.remote().filter(|copy| copy.state.is_remote_complete()).ok_or_else(refused)?;
        if copy.state.is_local_complete() {
            if !bucket.copies.is_evictable() {
                return Err(refused());
            }
            self.shared.evict_one(&bucket)?;
        }
        self.shared.readers.remotes().drop_blocks(&bucket.row, &copy);
        self.shared.readers.forget(bucket.row.number);
        Ok(())
    }

    /// Deletes local copies of uploaded buckets, the least recently used first, and then cached blocks, until `bytes`
    /// are freed. With `None`, deletes all copies and blocks, and clears the caches in memory.
    pub fn evict_cache(&self, bytes: Option<u64>) -> Result<(), StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let shared = &self.shared;
        let (Some(remote), Some(cache)) = (&shared.options.remote, &shared.readers.remotes().cache) else {
            return Ok(());
        };
        shared.complete_evictions()?;
        let _turn = shared.uploads.lock_transfers();
        let mut left = bytes.unwrap_or(u64::MAX);
        let mut copies = shared.evictable_by_use(remote)?;
        while left > 0
            && let Some(bucket) = copies.pop()
        {
            if shared.evict_one(&bucket)? {
                left = left.saturating_sub(bucket.row.stored_bytes());
            }
        }
        cache.evict(left);
        if bytes.is_none() {
            shared.readers.clear();
        }
        Ok(())
    }

    /// Closes the files of a bucket. A search that needs them opens them again.
    pub fn close_bucket(&self, id: &str) -> Result<(), StoreError> {
        let number = self.bucket_with_id(id)?.row.number;
        self.shared.readers.close(number);
        Ok(())
    }

    /// A live bucket.
    fn bucket_with_id(&self, id: &str) -> Result<Arc<SealedBucket>, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let missing = || StoreError::NoBucket { bucket: id.to_owned() };
        let (index, number) = id.rsplit_once('~').ok_or_else(missing)?;
        let number = number.parse().map_err(|_| missing())?;
        let found = self.shared.state_with_bucket(index, number)?.sealed.get(number).cloned();
        found.filter(|bucket| bucket.id() == id).ok_or_else(missing)
    }
}

impl Shared {
    /// Deletes local copies until the remaining ones fit.
    pub(super) fn evict(&self) -> Result<(), StoreError> {
        let Some(remote) = &self.options.remote else { return Ok(()) };
        let _turn = self.uploads.lock_transfers();
        let Some(cache) = &self.readers.remotes().cache else { return Ok(()) };
        let mut bytes = self.state().sealed.evictable_bytes();
        let half = remote.cache_bytes_max / 2;
        let mut room = remote.cache_bytes_max - cache.stats().bytes.min(half);
        // On a full disk, copies are evicted before cached blocks, because every cached block was read by a search.
        let needed = self.options.free_bytes_min.saturating_add(remote.eviction_padding);
        // If the file system does not report its free space, writing will show whether it suffices.
        let free = rustix::fs::statvfs(&self.options.dir).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let missing = free.map_or(0, |free| needed.saturating_sub(free));
        room = room.min(bytes.saturating_sub(missing));
        let mut copies = if bytes > room { self.evictable_by_use(remote)? } else { Vec::new() };
        while bytes > room
            && let Some(bucket) = copies.pop()
        {
            if missing == 0 {
                self.cache_directories(&bucket);
                self.cache_filter(&bucket);
            }
            if self.evict_one(&bucket)? {
                bytes = bytes.saturating_sub(bucket.row.stored_bytes());
            }
        }
        cache.set_bytes_max(remote.cache_bytes_max - bytes.min(half));
        Ok(())
    }

    /// Stores the end of a bucket's object in the cache, which a search reads when it opens the bucket. An end that is
    /// damaged or cannot be read is not cached.
    fn cache_directories(&self, bucket: &SealedBucket) {
        let (row, part) = (&bucket.row, ObjectKind::Object);
        let Some(copy) = bucket.copies.remote() else { return };
        let object = self.readers.blobs().open(&part.name(row)).ok().filter(|object| object.len() == part.bytes(row));
        let start = BlockCache::block_start(part.bytes(row).saturating_sub(part.tail_bytes(row)));
        let reader = object.and_then(|object| BucketReader::open(object).ok());
        if let Some(end) = reader.and_then(|reader| reader.verified_end(start).ok()) {
            self.readers.remotes().cache_object(row, (part, start), &copy, &end);
        }
    }

    /// Stores the term filter of a bucket in the cache, because most searches need no other part of most buckets. A
    /// filter that is damaged or cannot be read is not cached.
    fn cache_filter(&self, bucket: &SealedBucket) {
        let (row, part) = (&bucket.row, ObjectKind::Filter);
        let Some(copy) = bucket.copies.remote() else { return };
        // The size is compared before memory is allocated for the content.
        let object = self.readers.blobs().open(&part.name(row)).ok().filter(|object| object.len() == part.bytes(row));
        let content = object.and_then(|object| object.read_at(0, usize_of(part.bytes(row))).ok());
        if let Some(content) = content.filter(|content: &Bytes| TermFilter::open(content).is_ok()) {
            self.readers.remotes().cache_object(row, (part, 0), &copy, &content);
        }
    }

    /// Buckets whose local copies may be deleted; those to be evicted first come last.
    fn evictable_by_use(&self, remote: &RemoteOptions) -> Result<Vec<Arc<SealedBucket>>, StoreError> {
        let now = self.clock.now_ns();
        let is_recent = |bucket: &SealedBucket| {
            let secs = remote.hotlist_of_index.get(&*bucket.row.index).unwrap_or(&remote.hotlist_recency_secs);
            let age = i64::try_from(*secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
            bucket.row.time_max >= now.saturating_sub(age)
        };
        let state = self.state_with(|_, unloaded| unloaded.local_bytes > 0)?;
        let copies = state.sealed.evictable().filter(|bucket| bucket.copies.is_evictable());
        let mut copies: Vec<Arc<SealedBucket>> = copies.cloned().collect();
        drop(state);
        copies.sort_by_cached_key(|bucket| {
            Reverse((
                is_recent(bucket),
                bucket.copies.used.load(Ordering::Relaxed),
                bucket.row.time_max,
                bucket.row.number,
            ))
        });
        Ok(copies)
    }

    /// Completes evictions that a crash or a failed commit has interrupted. A bucket that fails does not keep the others
    /// from being evicted; the first error is returned.
    pub(super) fn complete_evictions(&self) -> Result<(), StoreError> {
        let _turn = self.uploads.lock_transfers();
        let interrupted: Vec<Arc<SealedBucket>> = self.state().sealed.evicting().cloned().collect();
        let complete = |bucket: &Arc<SealedBucket>| {
            let _turn = lock(&self.local_copies_lock);
            // Another thread may have been restoring the copy until now.
            match bucket.copies.state() {
                Some(RemoteState::Evicting) => self.evict_locked(bucket).map(drop),
                _ => Ok(()),
            }
        };
        interrupted.iter().map(complete).fold(Ok(()), Result::and)
    }

    fn evict_one(&self, bucket: &SealedBucket) -> Result<bool, StoreError> {
        let _turn = lock(&self.local_copies_lock);
        self.evict_locked(bucket)
    }

    /// Deletes the local copy of a bucket unless it is being archived; returns whether it was deleted. The caller holds
    /// `local_copies_lock`.
    fn evict_locked(&self, bucket: &SealedBucket) -> Result<bool, StoreError> {
        if bucket.copies.is_archiving() {
            return Ok(false);
        }
        self.begin_eviction(bucket)?;
        if bucket.copies.state() != Some(RemoteState::Evicting) {
            return Ok(false);
        }
        self.end_eviction(bucket)?;
        Ok(true)
    }

    /// Records that the local objects of a bucket are incomplete from now on. Even if the catalog does not change, the
    /// state in memory follows it: an earlier commit may have had no answer.
    pub(super) fn begin_eviction(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        self.change_copies(bucket, || {
            let is_changed = self.catalog.set_remote_state(bucket.row.number, RemoteState::Evicting)?;
            // After a crash, an earlier commit that failed may take effect and record complete local objects, unless a
            // later commit overwrites it.
            if !is_changed && self.catalog.has_failed() {
                self.catalog.settle()?;
            }
            Ok(is_changed)
        })
        .map(drop)
    }

    /// Deletes the local objects of a bucket, after the catalog has recorded that the bucket is read from its volume.
    pub(super) fn end_eviction(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        assert!(!bucket.copies.is_local(), "searches read the remote copy by now");
        self.readers.blobs().delete_all(&[&bucket.row.object(), &bucket.row.filter()])?;
        // The object is closed only after the deletion, because a search may have opened the file until then.
        self.readers.close_object(bucket.row.number);
        self.change_copies(bucket, || self.catalog.set_remote_state(bucket.row.number, RemoteState::Evicted)).map(drop)
    }
}
