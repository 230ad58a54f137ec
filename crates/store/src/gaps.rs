//! Refuses the later parts of a file if an earlier part was not stored.
//!
//! A checkpoint claims that everything before its offset is stored. Appends of one file are pipelined, so if one failed
//! and a later one succeeded, the later checkpoint would hide the gap. A failed append therefore blocks its file for
//! every append that began before the caller read the file's stored position again.
//!
//! Not here: appends without a checkpoint, which belong to no file.

use std::collections::BTreeMap;
use std::sync::Mutex;

use quarry_catalog::{CheckpointKey, FileCheckpoint};

use crate::StoreError;
use crate::sync::lock;

/// Files with a failed append.
#[derive(Debug, Default)]
pub(crate) struct Gaps(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Number of appends begun so far.
    begun: u64,
    gaps: BTreeMap<CheckpointKey, Gap>,
}

#[derive(Debug)]
struct Gap {
    /// Number of leading bytes by which the file is identified.
    head_bytes: u32,
    /// Number of the last append to refuse; `None` (all) until the caller reads the file's stored position.
    refused_through: Option<u64>,
}

impl Gaps {
    /// Returns the number of a new append. Called before anything can fail or wait.
    pub(crate) fn begin(&self) -> u64 {
        let mut inner = lock(&self.0);
        inner.begun += 1;
        inner.begun
    }

    /// Records that an append with this checkpoint failed.
    pub(crate) fn record_failure(&self, checkpoint: &FileCheckpoint) {
        let gap = Gap { head_bytes: checkpoint.head_bytes, refused_through: None };
        lock(&self.0).gaps.insert(checkpoint.key, gap);
    }

    /// Refuses append number `begun` if an earlier part of its file is missing.
    pub(crate) fn check(&self, checkpoint: Option<&FileCheckpoint>, begun: u64) -> Result<(), StoreError> {
        let Some(checkpoint) = checkpoint else { return Ok(()) };
        match lock(&self.0).gaps.get(&checkpoint.key) {
            Some(gap) if gap.refused_through.is_none_or(|last| begun <= last) => {
                Err(StoreError::EarlierPartMissing { source_name: checkpoint.source.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Accepts appends that begin from now on to the files that `asked` selects by key and head length.
    pub(crate) fn accept_new_appends(&self, asked: impl Fn(&CheckpointKey, usize) -> bool) {
        let mut inner = lock(&self.0);
        let begun = inner.begun;
        for (key, gap) in &mut inner.gaps {
            if asked(key, gap.head_bytes as usize) {
                gap.refused_through = Some(begun);
            }
        }
    }
}
