//! Refuses the later parts of a file if an earlier part was not stored.
//!
//! A checkpoint claims that everything before its offset is stored. Appends of one file are pipelined, so if one failed
//! and a later one succeeded, the later checkpoint would hide the gap. A failed append therefore blocks its file for
//! every append that began before the caller read the file's stored position again.
//!
//! A gap is forgotten when the caller has read the position and no append that began before is in progress. Files that
//! nobody reads again stay blocked, up to [`GAPS_MAX`].
//!
//! Not here: appends without a checkpoint, which belong to no file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use quarry_catalog::{CheckpointKey, FileCheckpoint};

use crate::StoreError;
use crate::sync::lock;

/// Maximum number of blocked files. Beyond it, the half of them that failed first is forgotten, and every append in
/// progress that belongs to a file is refused, because it may be a later part of one of these files. The files of
/// refused appends are read again from their stored positions.
const GAPS_MAX: usize = 65_536;

/// Files with a failed append.
#[derive(Debug, Default)]
pub(crate) struct Gaps(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Number of appends begun so far.
    begun: u64,
    /// Numbers of the appends in progress that belong to a file.
    in_progress: BTreeSet<u64>,
    gaps: BTreeMap<CheckpointKey, Gap>,
    /// The gaps whose callers have read the stored position, by the last append to refuse.
    reread: BTreeSet<(u64, CheckpointKey)>,
    /// Appends up to this number are refused, because the gap of their file may be forgotten.
    refused_through: u64,
    /// Number of recorded failures.
    failures: u64,
}

#[derive(Debug)]
struct Gap {
    /// Number of leading bytes by which the file is identified.
    head_bytes: u32,
    /// Number of the last append to refuse; `None` (all) until the caller reads the file's stored position.
    refused_through: Option<u64>,
    /// Number of the failure that created the gap.
    failure: u64,
}

/// Represents an append from its beginning, before anything can fail or wait, until it is stored or refused. All parts
/// of an append share one value.
#[derive(Debug)]
pub(crate) struct AppendTurn {
    number: u64,
    /// `None` for an append that belongs to no file.
    gaps: Option<Arc<Mutex<Inner>>>,
}

impl Drop for AppendTurn {
    fn drop(&mut self) {
        let Some(gaps) = &self.gaps else { return };
        let mut inner = lock(gaps);
        inner.in_progress.remove(&self.number);
        inner.forget_closed();
    }
}

impl Inner {
    fn block(&mut self, checkpoint: &FileCheckpoint) {
        self.failures += 1;
        let gap = Gap { head_bytes: checkpoint.head_bytes, refused_through: None, failure: self.failures };
        self.unblock(&checkpoint.key);
        self.gaps.insert(checkpoint.key, gap);
        if self.gaps.len() > GAPS_MAX {
            self.forget_oldest();
        }
    }

    fn unblock(&mut self, key: &CheckpointKey) {
        if let Some(Gap { refused_through: Some(last), .. }) = self.gaps.remove(key) {
            self.reread.remove(&(last, *key));
        }
    }

    /// Forgets the gaps that no append in progress can hide.
    fn forget_closed(&mut self) {
        let first = self.in_progress.first().copied().unwrap_or(u64::MAX);
        while let Some((last, key)) = self.reread.first().copied()
            && last < first
        {
            self.unblock(&key);
        }
    }

    fn forget_oldest(&mut self) {
        let mut failures: Vec<u64> = self.gaps.values().map(|gap| gap.failure).collect();
        let (_, middle, _) = failures.select_nth_unstable(GAPS_MAX / 2);
        let middle = *middle;
        let oldest: Vec<CheckpointKey> =
            self.gaps.iter().filter(|(_, gap)| gap.failure < middle).map(|(key, _)| *key).collect();
        oldest.iter().for_each(|key| self.unblock(key));
        self.refused_through = self.begun;
    }
}

impl Gaps {
    /// Begins an append. Called before anything can fail or wait.
    pub(crate) fn begin(&self, belongs_to_file: bool) -> Arc<AppendTurn> {
        let mut inner = lock(&self.0);
        inner.begun += 1;
        let number = inner.begun;
        if belongs_to_file {
            inner.in_progress.insert(number);
        }
        Arc::new(AppendTurn { number, gaps: belongs_to_file.then(|| self.0.clone()) })
    }

    /// Records that an append with this checkpoint failed.
    pub(crate) fn record_failure(&self, checkpoint: &FileCheckpoint) {
        lock(&self.0).block(checkpoint);
    }

    /// Refuses an append if an earlier part of its file is missing.
    pub(crate) fn check(&self, checkpoint: Option<&FileCheckpoint>, append: &AppendTurn) -> Result<(), StoreError> {
        let Some(checkpoint) = checkpoint else { return Ok(()) };
        let mut inner = lock(&self.0);
        let gap = inner.gaps.get(&checkpoint.key);
        let is_behind_gap = gap.is_some_and(|gap| gap.refused_through.is_none_or(|last| append.number <= last));
        if !is_behind_gap && append.number > inner.refused_through {
            return Ok(());
        }
        if !is_behind_gap {
            // This append is a new gap for the appends after it.
            inner.block(checkpoint);
        }
        Err(StoreError::EarlierPartMissing { source_name: checkpoint.source.clone() })
    }

    /// Accepts appends that begin from now on to the files that `asked` selects by key and head length.
    pub(crate) fn accept_new_appends(&self, asked: impl Fn(&CheckpointKey, usize) -> bool) {
        let mut inner = lock(&self.0);
        let begun = inner.begun;
        let Inner { gaps, reread, .. } = &mut *inner;
        for (key, gap) in gaps {
            if asked(key, gap.head_bytes as usize) {
                if let Some(last) = gap.refused_through.replace(begun) {
                    reread.remove(&(last, *key));
                }
                reread.insert((begun, *key));
            }
        }
        inner.forget_closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::checkpoint;

    fn len(gaps: &Gaps) -> usize {
        lock(&gaps.0).gaps.len()
    }

    #[test]
    fn gaps_are_forgotten_once_no_append_can_hide_them() {
        let gaps = Gaps::default();
        let file = checkpoint("a", 1);
        let (failed, later) = (gaps.begin(true), gaps.begin(true));
        gaps.record_failure(&file);
        drop(failed);
        gaps.accept_new_appends(|key, _| *key == file.key);
        assert_eq!(len(&gaps), 1, "a later part is in progress");
        let new = gaps.begin(true);
        assert!(gaps.check(Some(&file), &later).is_err());
        assert!(gaps.check(Some(&file), &new).is_ok());
        drop(later);
        assert_eq!((len(&gaps), lock(&gaps.0).reread.len()), (0, 0));
        assert!(gaps.check(Some(&file), &new).is_ok());
        // Without appends in progress, reading the position is enough.
        drop(new);
        gaps.record_failure(&file);
        gaps.accept_new_appends(|key, _| *key == file.key);
        assert_eq!(len(&gaps), 0);
    }

    #[test]
    fn blocked_files_are_limited_without_accepting_an_append_in_progress() {
        let gaps = Gaps::default();
        let file = |number: usize| checkpoint(&format!("file{number}"), 1);
        let running = gaps.begin(true);
        (0..=GAPS_MAX).for_each(|number| gaps.record_failure(&file(number)));
        assert_eq!(len(&gaps), GAPS_MAX / 2 + 1);
        assert!(gaps.check(Some(&file(0)), &running).is_err(), "its gap is forgotten");
        assert_eq!(len(&gaps), GAPS_MAX / 2 + 2, "it is a gap again");
        let next = gaps.begin(true);
        assert!(gaps.check(Some(&file(0)), &next).is_err());
        assert!(gaps.check(Some(&file(GAPS_MAX)), &next).is_err());
        assert!(gaps.check(Some(&file(1)), &next).is_ok());
    }
}
