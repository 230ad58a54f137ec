//! What lies where in a data directory, and who may use it.
//!
//! `D/lock` is locked for as long as a store is open: exclusively by the one writer, shared by readers. The lock is
//! the operating system's, so a killed process leaves none behind.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Objects: buckets and term filters.
pub(crate) fn objects(dir: &Path) -> PathBuf {
    dir.join("db")
}

/// Segments of the write-ahead log.
pub(crate) fn log(dir: &Path) -> PathBuf {
    dir.join("wal")
}

/// The catalog's database.
pub(crate) fn catalog(dir: &Path) -> PathBuf {
    dir.join("catalog.sqlite")
}

/// A held lock; it ends with this value.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Makes the directory when missing and takes it for writing.
    pub(crate) fn exclusive(dir: &Path) -> Result<DirLock, StoreError> {
        let wal = log(dir);
        fs::create_dir_all(&wal).map_err(|error| StoreError::from_io("create folder", &wal, &error))?;
        // The folders must survive a crash before anything in them is acknowledged.
        for made in [Some(dir), dir.parent()].into_iter().flatten() {
            sync_folder(made)?;
        }
        let path = dir.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| StoreError::from_io("open", &path, &error))?;
        DirLock::held(dir, &path, file.try_lock(), file)
    }

    /// Takes an existing directory for reading, beside other readers.
    pub(crate) fn shared(dir: &Path) -> Result<DirLock, StoreError> {
        if !dir.is_dir() {
            let reason = "there is no such folder; name one that a quarry has written".to_owned();
            return Err(StoreError::Io { action: "open data directory", path: dir.to_owned(), reason });
        }
        let path = dir.join("lock");
        let file = File::open(&path).map_err(|error| StoreError::from_io("open", &path, &error))?;
        DirLock::held(dir, &path, file.try_lock_shared(), file)
    }

    fn held(dir: &Path, path: &Path, outcome: Result<(), TryLockError>, file: File) -> Result<DirLock, StoreError> {
        match outcome {
            Ok(()) => Ok(DirLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StoreError::from_io("lock", path, &error)),
        }
    }
}

fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|error| StoreError::from_io("sync folder", folder, &error))
}
