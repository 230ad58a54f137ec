//! The file-system abstraction of the log, so that tests can simulate a failing disk.
//!
//! Large writes use direct I/O where possible, that is, for whole blocks of the file whose bytes have the same
//! alignment in memory as in the file (see `wal::write_buffer`). Other parts, and file systems without direct I/O,
//! use normal writes.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use quarry_stdx::durable_folder;
use quarry_stdx::number::usize_of;

use crate::wal::write_buffer::BLOCK_BYTES;

/// File system to which the log is written.
pub trait Disk: Debug + Send + Sync {
    /// Creates a file whose name is durable on return.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file and keeps its content, or creates it.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Free bytes of the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Id of the machine's current boot; `None` if unknown. As long as the id stays the same, everything written is
    /// preserved, even without a sync.
    fn boot(&self) -> Option<u128> {
        None
    }
}

/// A file being written.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`. After an error, any part of `bytes` may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes everything written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Truncates the file to `len` bytes and makes that durable.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug)]
pub struct LocalDisk;

/// Minimum number of bytes in whole blocks for which a write uses direct I/O.
const DIRECT_BYTES_MIN: usize = 128 << 10;

#[derive(Debug)]
struct LocalFile {
    file: File,
    /// A second descriptor of the file, opened for direct I/O.
    direct: Option<File>,
}

/// Opens a file again for direct I/O, if supported.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flag = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).ok()?;
    fs::OpenOptions::new().write(true).custom_flags(flag).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> Option<File> {
    None
}

/// Makes the name of a new file durable.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), durable_folder::sync)
}

/// The part of `bytes` that can be written at `offset` with direct I/O; empty if it would be small.
fn direct_part(bytes: &[u8], offset: u64) -> Range<usize> {
    let to_block = usize_of(offset.wrapping_neg() % BLOCK_BYTES as u64);
    let whole = bytes.len().saturating_sub(to_block) / BLOCK_BYTES * BLOCK_BYTES;
    if whole < DIRECT_BYTES_MIN || bytes.as_ptr().align_offset(BLOCK_BYTES) != to_block {
        return 0..0;
    }
    to_block..to_block + whole
}

impl Disk for LocalDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = File::create(path)?;
        sync_folder_of(path)?;
        Ok(Arc::new(LocalFile { file, direct: open_direct(path) }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        sync_folder_of(path)?;
        Ok(Arc::new(LocalFile { file, direct: open_direct(path) }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let facts = rustix::fs::statvfs(path)?;
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }

    fn boot(&self) -> Option<u128> {
        quarry_stdx::boot_id()
    }
}

impl DiskFile for LocalFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let part = direct_part(bytes, offset);
        let (Some(direct), false) = (&self.direct, part.is_empty()) else {
            return self.file.write_all_at(bytes, offset);
        };
        let (before, behind) = (&bytes[..part.start], &bytes[part.end..]);
        self.file.write_all_at(before, offset)?;
        let at = offset + part.start as u64;
        match direct.write_all_at(&bytes[part.clone()], at) {
            // The file system supports direct I/O but requires larger blocks.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.file.write_all_at(&bytes[part.clone()], at)?
            }
            written => written?,
        }
        self.file.write_all_at(behind, offset + part.end as u64)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::wal::write_buffer::WriteBuffer;

    #[test]
    fn direct_and_buffered_writes_produce_one_file() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("file");
        let file = LocalDisk.create(&path).unwrap();
        let (mut gather, mut expected, mut seed) = (WriteBuffer::new(), Vec::new(), 1_usize);
        for len in [10, 300_000, 4_096, 5_000_000, 1, 200_000, 100_000, 131_072 + 4_095] {
            seed += 1;
            let bytes: Vec<u8> = (0..len).map(|at: usize| (at / 7 * seed) as u8).collect();
            let mut put = |bytes: &[u8], at: u64| file.write_all_at(bytes, at);
            gather.begin(expected.len() as u64);
            gather.add(&bytes, &mut put).unwrap();
            assert_eq!(gather.end(&mut put).unwrap(), (expected.len() + len) as u64);
            expected.extend_from_slice(&bytes);
            file.sync().unwrap();
            assert!(fs::read(&path).unwrap() == expected, "{len}");
        }
        file.truncate(1_000_001).unwrap();
        expected.truncate(1_000_001);
        assert!(fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn direct_writes_contain_only_aligned_whole_blocks() {
        let bytes = vec![0; 3 * DIRECT_BYTES_MIN];
        let to_block = bytes.as_ptr().align_offset(BLOCK_BYTES);
        let offset = (BLOCK_BYTES - to_block) as u64;
        let part = direct_part(&bytes, offset);
        assert_eq!((part.start, part.len() % BLOCK_BYTES), (to_block, 0));
        assert!(part.len() > 2 * DIRECT_BYTES_MIN && bytes.len() - part.end < BLOCK_BYTES);
        assert!(direct_part(&bytes, offset + 1).is_empty());
        assert!(direct_part(&bytes[..DIRECT_BYTES_MIN], offset + 1).is_empty());
        assert!(direct_part(&[], 5).is_empty());
    }
}
