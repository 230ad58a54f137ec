//! Object stores: immutable named objects, stored completely or not at all.
//!
//! An object has a name (`index/0000000001.bucket`) and bytes that never change. [`DirectoryStore`] keeps objects as
//! files, [`MemoryBlobStore`] in a map, [`S3Store`] on a remote store; one conformance suite tests them all.
//!
//! [`EncryptedStore`] encrypts the objects of another store before they are stored. [`BlockCache`] caches parts of
//! remote objects on the local disk.
//!
//! Not here: the meaning of the bytes, and the record of objects that should exist (the catalog).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cache;
mod directory_store;
mod encryption;
mod error;
mod memory;
mod name;
mod reads;
mod s3;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use quarry_bucket::{ReadAt, ReadError};

pub use cache::{BlockCache, CacheLimits, CacheStats, CachedObject, OpenSource};
pub use directory_store::DirectoryStore;
pub use encryption::{EncryptedStore, EncryptionKeys};
pub use error::BlobError;
pub use memory::MemoryBlobStore;
pub use name::NAME_BYTES_MAX;
pub use reads::{CountingGuard, ReadStats, SearchReads};
pub use s3::{S3Credentials, S3Encryption, S3Header, S3Settings, S3Store, S3Traffic};

/// A store of immutable objects.
pub trait BlobStore: Debug + Send + Sync {
    /// Stores an object. Once this returns `Ok`, the complete object survives a crash; after an error or a crash it
    /// exists completely or not at all. A second put under the same name replaces the first.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError>;

    /// Like [`BlobStore::put`] for several objects with different names; after an error some of them may exist.
    fn put_all(&self, objects: &[(&str, &[u8])]) -> Result<(), BlobError> {
        objects.iter().try_for_each(|(name, bytes)| self.put(name, bytes))
    }

    /// Opens an object. An open object of a local store stays readable after it is deleted or replaced; reads of a
    /// remote one may then fail.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError>;

    /// Like [`BlobStore::open`], with the hint that the last `end_bytes` will be read first, so that the store can
    /// fetch them on opening.
    fn open_with_tail(&self, name: &str, _end_bytes: u64) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.open(name)
    }

    /// Like [`BlobStore::open_with_tail`], but also reads ranges of the object, concurrently if the store supports it.
    /// The ranges begin and end at multiples of the cache's block size, or at the object's end.
    fn open_and_read(&self, name: &str, end_bytes: u64, ranges: &[Range<u64>]) -> Result<OpenedObject, BlobError> {
        let object = self.open_with_tail(name, end_bytes)?;
        let read = object.read_ranges(ranges);
        Ok(OpenedObject { object, read })
    }

    /// Whether every read is verified against a checksum.
    fn verifies_checksums(&self) -> bool {
        false
    }

    /// Removes an object and the remains of interrupted puts. Not an error if the object does not exist. Once this
    /// returns `Ok`, the object stays removed after a crash.
    fn delete(&self, name: &str) -> Result<(), BlobError>;

    /// Like [`BlobStore::delete`] for several objects; after an error some of them may be removed.
    fn delete_all(&self, names: &[&str]) -> Result<(), BlobError> {
        names.iter().try_for_each(|name| self.delete(name))
    }

    /// Removes the remains of puts that began before `before_ns` and never ended, for the objects that `is_own`
    /// selects. Returns the number of puts whose remains were removed. Times are those of the clock that sets
    /// [`ListedObject::modified_ns`]. Listings do not show these remains.
    fn delete_unfinished(&self, _before_ns: i64, _is_own: &dyn Fn(&str) -> bool) -> Result<u64, BlobError> {
        Ok(0)
    }

    /// Whether the object exists.
    fn exists(&self, name: &str) -> Result<bool, BlobError>;

    /// Current time by the clock that sets [`ListedObject::modified_ns`], in nanoseconds since 1970; `None` if the
    /// store has not reported it yet, or has no clock of its own.
    fn now_ns(&self) -> Option<i64> {
        None
    }

    /// Names of all objects in ascending order. For tests and manual checks; the catalog is authoritative.
    fn list(&self) -> Result<Vec<String>, BlobError>;

    /// Passes every object to `visit` once, without holding all of them in memory; objects of one folder come in
    /// ascending order.
    fn list_each(&self, visit: &mut dyn FnMut(ListedObject)) -> Result<(), BlobError> {
        let listed = |name| ListedObject { name, bytes: 0, modified_ns: 0 };
        self.list()?.into_iter().map(listed).for_each(visit);
        Ok(())
    }
}

/// An open object, and the outcome of the first read of it.
pub struct OpenedObject {
    /// The object.
    pub object: Arc<dyn ReadAt>,
    /// The bytes of the ranges that were read on opening.
    pub read: Result<Vec<Bytes>, ReadError>,
}

impl Debug for OpenedObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenedObject").field("len", &self.object.len()).finish_non_exhaustive()
    }
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Name of the object.
    pub name: String,
    /// Size of the object in the store; 0 if the store reports neither sizes nor times.
    pub bytes: u64,
    /// Time of writing in nanoseconds since 1970, by the clock of its store; 0 if the store does not report it.
    pub modified_ns: i64,
}
