//! Writes groups of records to the newest segment of the log, each group atomically and with one fsync.
//!
//! After a failed write or fsync, the file is truncated to its last valid record before anything else is written. A
//! refused record can reappear at the next start only if this truncation fails as well.

use std::path::PathBuf;
use std::sync::Arc;

use crate::StoreError;
use crate::disk::{Disk, DiskFile};
use crate::wal::write_buffer::WriteBuffer;
use crate::wal::{HEADER_BYTES, header, segment_path};

/// Writer of the newest segment of the log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    free_bytes_min: u64,
    current: Option<Current>,
    gather: WriteBuffer,
}

#[derive(Debug)]
struct Current {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    /// Number of bytes that are valid and synced.
    len: u64,
    /// Whether bytes beyond `len` may exist.
    uncut: bool,
}

impl LogWriter {
    /// A writer that starts a new segment with its first record.
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: PathBuf, free_bytes_min: u64) -> LogWriter {
        LogWriter { disk, folder, free_bytes_min, current: None, gather: WriteBuffer::new() }
    }

    /// Size of the newest segment in bytes; `None` before its first record.
    pub(crate) fn current_bytes(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.len)
    }

    /// Closes the newest segment; the next record starts another. Returns `false` if it cannot be closed yet.
    pub(crate) fn rotate(&mut self) -> bool {
        let is_whole = self.current.as_ref().is_none_or(|current| !current.uncut);
        if is_whole {
            self.current = None;
        }
        is_whole
    }

    /// Path of the newest segment.
    pub(crate) fn current_path(&self) -> Option<&PathBuf> {
        self.current.as_ref().map(|current| &current.path)
    }

    /// Writes records, given in parts, and syncs once. After an error, none of them counts as written: the bytes of the
    /// failed group are removed by a truncation, at the latest before the next group is written.
    pub(crate) fn write_group<'a>(
        &mut self,
        first_lsn: u64,
        parts: impl Iterator<Item = &'a [u8]>,
        bytes: u64,
    ) -> Result<(), StoreError> {
        self.check_space(bytes)?;
        if self.current.is_none() {
            let path = segment_path(&self.folder, first_lsn);
            let file = self.disk.create(&path).map_err(|error| StoreError::from_io("create", &path, &error))?;
            self.current = Some(Current { file, path, len: 0, uncut: false });
        }
        let gather = &mut self.gather;
        let Some(current) = &mut self.current else { return Err(StoreError::Closed) };
        current.truncate_to_valid()?;
        current.uncut = true;
        match current.append(first_lsn, parts, gather) {
            Ok(len) => {
                let header = if current.len == 0 { HEADER_BYTES as u64 } else { 0 };
                assert_eq!(len, current.len + header + bytes, "a group has the announced length");
                current.len = len;
                current.uncut = false;
                Ok(())
            }
            Err(error) => {
                // If the truncation fails too, the next group repeats it before it writes.
                drop(current.truncate_to_valid());
                Err(error)
            }
        }
    }

    fn check_space(&self, bytes: u64) -> Result<(), StoreError> {
        if self.free_bytes_min == 0 {
            return Ok(());
        }
        let free = self.disk.free_bytes(&self.folder);
        let free = free.map_err(|error| StoreError::from_io("determine the free space of", &self.folder, &error))?;
        if free < self.free_bytes_min.saturating_add(bytes) {
            return Err(StoreError::Full { path: self.folder.clone(), kept_free_bytes: self.free_bytes_min });
        }
        Ok(())
    }
}

impl Current {
    /// Truncates the file to its valid length if a group has failed.
    fn truncate_to_valid(&mut self) -> Result<(), StoreError> {
        if self.uncut {
            let cut = self.file.truncate(self.len);
            cut.map_err(|error| StoreError::from_io("truncate", &self.path, &error))?;
            self.uncut = false;
        }
        Ok(())
    }

    /// Appends after the valid bytes and syncs; returns the new length.
    fn append<'a>(
        &self,
        first_lsn: u64,
        parts: impl Iterator<Item = &'a [u8]>,
        gather: &mut WriteBuffer,
    ) -> Result<u64, StoreError> {
        let mut put = |bytes: &[u8], at: u64| {
            let written = self.file.write_all_at(bytes, at);
            written.map_err(|error| StoreError::from_io("write", &self.path, &error))
        };
        gather.begin(self.len);
        if self.len == 0 {
            gather.add(&header(first_lsn), &mut put)?;
        }
        for part in parts {
            gather.add(part, &mut put)?;
        }
        let end = gather.end(&mut put)?;
        self.file.sync().map_err(|error| StoreError::from_io("sync", &self.path, &error))?;
        Ok(end)
    }
}
