//! Verifies the local copies of buckets, and restores them from volumes.

use std::sync::Arc;

use bytes::Bytes;
use quarry_blob::BlobError;
use quarry_bucket::{BucketReader, MemoryObject, ReadAt, TermFilter};
use quarry_catalog::{RemoteCopy, RemoteState};
use quarry_stdx::number::usize_of;
use quarry_stdx::{ErrorKind, HasKind};

use super::copies::ObjectKind;
use crate::StoreError;
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;

impl Shared {
    /// The content of both local objects, verified against checksums and sizes.
    pub(super) fn read_verified_objects(&self, bucket: &SealedBucket) -> Result<[Bytes; 2], StoreError> {
        read_verified(bucket, |part| self.readers.blobs().open(&part.name(&bucket.row)))
    }

    /// Ensures that the objects of a bucket are in the data directory and, if the bucket is uploaded, that they are
    /// undamaged. Must be called before the objects on the volume are deleted. A damaged local copy is replaced by the
    /// one on the volume.
    pub(crate) fn ensure_undamaged(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        self.evict_damaged(bucket)?;
        self.ensure_local(bucket)
    }

    /// Deletes the local copy of an uploaded bucket if it is damaged and the copy on the volume can replace it.
    fn evict_damaged(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        let _turn = lock(&self.local_copies_lock);
        let uploaded = bucket.copies.remote().filter(|copy| copy.state == RemoteState::Uploaded);
        let Some(copy) = uploaded else { return Ok(()) };
        let Err(error) = self.read_verified_objects(bucket) else { return Ok(()) };
        if error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        read_verified(bucket, |part| Ok(self.readers.remotes().open(&bucket.row, part, &copy)?.object))?;
        self.begin_eviction(bucket)?;
        match bucket.copies.state() {
            Some(RemoteState::Evicting) => self.end_eviction(bucket),
            _ => Ok(()),
        }
    }

    /// Ensures that the objects of a bucket are in the data directory.
    pub(crate) fn ensure_local(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        let _turn = lock(&self.local_copies_lock);
        let Some(copy) = bucket.copies.remote().filter(|copy| !copy.state.is_local_complete()) else { return Ok(()) };
        // In this state, files that a crash leaves in the data directory are deleted at the next start.
        self.begin_eviction(bucket)?;
        // The next step may delete the remote copy, so the local one is verified before it counts.
        let fetched = self.fetch(bucket, &copy).and_then(|()| self.read_verified_objects(bucket).map(drop));
        if fetched.is_err() {
            // Only the error of the fetch is reported.
            drop(self.end_eviction(bucket));
        }
        fetched?;
        self.change_copies(bucket, || self.catalog.set_remote_state(bucket.row.number, RemoteState::Uploaded))?;
        self.state().sealed.examine(bucket);
        Ok(())
    }

    /// Fetches the objects of a bucket from its volume into the data directory.
    fn fetch(&self, bucket: &SealedBucket, copy: &RemoteCopy) -> Result<(), StoreError> {
        for part in ObjectKind::ALL {
            let object = self.readers.remotes().open(&bucket.row, part, copy)?.object;
            let content = object.read_at(0, usize_of(object.len()));
            let content = content.map_err(|error| StoreError::of_bucket(bucket.id(), &error))?;
            self.readers.blobs().put(&part.name(&bucket.row), &content)?;
        }
        Ok(())
    }
}

/// The content of the two objects of a bucket that `open` opens, verified against checksums and sizes. A missing object
/// counts as damage.
fn read_verified(
    bucket: &SealedBucket,
    open: impl Fn(ObjectKind) -> Result<Arc<dyn ReadAt>, BlobError>,
) -> Result<[Bytes; 2], StoreError> {
    let damaged = |reason: String| StoreError::Corrupt { bucket: bucket.id().to_owned(), reason };
    let read = |part: ObjectKind| -> Result<Bytes, StoreError> {
        let object = open(part).map_err(|error| StoreError::of_bucket(bucket.id(), &error))?;
        if object.len() != part.bytes(&bucket.row) {
            return Err(damaged(format!("{} has {} bytes", part.name(&bucket.row), object.len())));
        }
        object.read_at(0, usize_of(object.len())).map_err(|error| StoreError::of_bucket(bucket.id(), &error))
    };
    let objects = [read(ObjectKind::Object)?, read(ObjectKind::Filter)?];
    let reader = BucketReader::open(Arc::new(MemoryObject(objects[0].clone())));
    reader.and_then(|reader| reader.check()).map_err(|error| damaged(error.to_string()))?;
    TermFilter::open(&objects[1]).map_err(|error| damaged(error.to_string()))?;
    Ok(objects)
}
