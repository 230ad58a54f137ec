//! Objects in a map, for tests and the simulation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quarry_bucket::{MemoryObject, ReadAt};

use crate::{BlobError, BlobStore, name};

/// Objects in memory.
#[derive(Debug, Default)]
pub struct MemoryBlobStore {
    objects: Mutex<BTreeMap<String, Bytes>>,
}

impl MemoryBlobStore {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlobStore for MemoryBlobStore {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        name::check(name)?;
        self.objects().insert(name.to_owned(), Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        name::check(name)?;
        match self.objects().get(name) {
            Some(bytes) => Ok(Arc::new(MemoryObject(bytes.clone()))),
            None => Err(BlobError::NotFound { name: name.to_owned() }),
        }
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        name::check(name)?;
        self.objects().remove(name);
        Ok(())
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        name::check(name)?;
        Ok(self.objects().contains_key(name))
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        Ok(self.objects().keys().cloned().collect())
    }
}
