//! The existing log segments, and the rule for deleting them.
//!
//! A segment is deleted when it is complete, every bucket with records in it is sealed, and the catalog has its
//! checkpoints. The segment that is being written is never deleted.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::StoreError;
use crate::disk::Disk;
use crate::sync::lock;
use crate::wal::first_lsn_of;

/// The segments of a log.
#[derive(Debug)]
pub(crate) struct LogFiles {
    disk: Arc<dyn Disk>,
    segments: Mutex<Vec<LogSegment>>,
}

/// State of one segment.
#[derive(Debug)]
pub(crate) struct LogSegment {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Sequence number of the segment's newest record.
    pub(crate) last_lsn: u64,
    /// Numbers of the buckets with records in the segment.
    pub(crate) buckets: BTreeSet<u64>,
    /// Sequence number of the segment's newest record with a checkpoint; 0 for none.
    pub(crate) checkpoint_lsn: u64,
    /// Whether the segment is complete and all its records are applied.
    pub(crate) closed: bool,
}

impl LogSegment {
    pub(crate) fn new(path: &Path) -> LogSegment {
        LogSegment {
            path: path.to_owned(),
            bytes: 0,
            last_lsn: 0,
            buckets: BTreeSet::new(),
            checkpoint_lsn: 0,
            closed: false,
        }
    }

    /// Sequence number of the first record.
    pub(crate) fn first_lsn(&self) -> u64 {
        first_lsn_of(&self.path).unwrap_or(0)
    }
}

impl LogFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, segments: Vec<LogSegment>) -> LogFiles {
        LogFiles { disk, segments: Mutex::new(segments) }
    }

    /// Adds a group of records to the state of the newest segment.
    pub(crate) fn record_growth(&self, path: &Path, bytes: u64, records: impl Iterator<Item = (u64, Option<u64>)>) {
        let mut segments = lock(&self.segments);
        if segments.last().is_none_or(|newest| newest.path != path) {
            segments.push(LogSegment::new(path));
        }
        let Some(newest) = segments.last_mut() else { return };
        assert!(bytes >= newest.bytes, "a segment of the log only grows");
        newest.bytes = bytes;
        for (bucket, checkpoint_lsn) in records {
            newest.buckets.insert(bucket);
            newest.checkpoint_lsn = newest.checkpoint_lsn.max(checkpoint_lsn.unwrap_or(0));
        }
    }

    /// Marks all segments as complete.
    pub(crate) fn close_all(&self) {
        lock(&self.segments).iter_mut().for_each(|segment| segment.closed = true);
    }

    /// Total bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.segments).iter().map(|segment| segment.bytes).sum()
    }

    /// Numbers of the buckets with records in the oldest segment.
    pub(crate) fn oldest_buckets(&self) -> BTreeSet<u64> {
        lock(&self.segments).first().map(|segment| segment.buckets.clone()).unwrap_or_default()
    }

    /// Free bytes of the file system of `folder`.
    pub(crate) fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.disk.free_bytes(folder)
    }

    /// Removes the files of segments that are no longer needed. Before that, `release_memory` saves a segment's
    /// checkpoints and removes the segment from the catalog's list. Returns errors.
    pub(crate) fn remove_unneeded(
        &self,
        still_needed: &dyn Fn(u64) -> bool,
        release_memory: &dyn Fn(&LogSegment) -> Result<(), StoreError>,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        lock(&self.segments).retain_mut(|segment| {
            if !segment.closed {
                return true;
            }
            // Sealed buckets are removed from the set, so that later calls need not check them again: a segment may
            // have records of thousands of buckets.
            while let Some(bucket) = segment.buckets.first().copied() {
                if still_needed(bucket) {
                    return true;
                }
                segment.buckets.remove(&bucket);
            }
            if let Err(error) = release_memory(segment) {
                problems.push(format!("checkpoints cannot be saved: {error}"));
                return true;
            }
            match self.disk.remove(&segment.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    problems.push(StoreError::from_io("remove", &segment.path, &error).to_string());
                    true
                }
                _ => false,
            }
        });
        problems
    }
}
