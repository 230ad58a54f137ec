//! The seam between the log and the file system, so that tests can make a disk fail.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Files the store writes.
pub trait Disk: Debug + Send + Sync {
    /// Makes a new file, whose name survives a crash when this returns.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Bytes that can still be written to the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// A file being written.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`; after an error any part of them may be there.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Returns when everything written before survives a crash.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug)]
pub struct LocalDisk;

#[derive(Debug)]
struct LocalFile(File);

impl Disk for LocalDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = File::create(path)?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(Arc::new(LocalFile(file)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let facts = rustix::fs::statvfs(path)?;
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }
}

impl DiskFile for LocalFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)?;
        self.0.sync_data()
    }
}
