//! Spilled partial states, merged partition by partition.
//!
//! A batch of states is partitioned by a hash of its group keys into [`PARTITIONS`] partitions, which are kept in
//! memory or in a file ([`RowBuffer`]). All states of a group are in one partition, so each partition is merged by a
//! [`Folder`] of its own, one at a time. A partition that does not fit is spilled again with another hash. Some time
//! after the search was finalised, no further partition is merged: the result then lacks groups, but each of its groups
//! is complete.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use quarry_stdx::number::{u8_of, u32_of};

use super::AggregatePlan;
use super::folder::Folder;
use crate::EngineError;
use crate::context::{CommandContext, WorkStart};
use crate::dataflow::Dataflow;
use crate::rows::{self, ColumnReader, RowBuffer};

/// Number of partitions.
pub(crate) const PARTITIONS: usize = 32;
/// Maximum number of times that states are partitioned; if a partition is still too large then, single groups are too
/// large, and the search fails.
const LEVELS_MAX: u32 = 6;

/// Partial states, partitioned by group key.
pub struct SpilledPartials {
    states: RowBuffer,
    /// Partition of each batch of states.
    parts: Vec<u8>,
    level: u32,
}

impl SpilledPartials {
    /// An empty collection; `level` is the number of times that its states were split before.
    pub fn new(level: u32, dataflow: &Arc<Dataflow>) -> SpilledPartials {
        assert!(SpilledPartials::may_split(level), "states are split no further than the limit");
        SpilledPartials { states: RowBuffer::new("groups", dataflow), parts: Vec::new(), level }
    }

    /// Whether states may be split again.
    pub fn may_split(level: u32) -> bool {
        level < LEVELS_MAX
    }

    /// Adds states whose first `keys` columns are the group keys.
    pub fn add(&mut self, states: &RecordBatch, keys: usize) -> Result<(), EngineError> {
        let readers: Vec<ColumnReader> = states.columns()[..keys].iter().map(ColumnReader::new).collect();
        let hashes = FixedState::with_seed(u64::from(self.level));
        let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); PARTITIONS];
        let mut scratch = String::new();
        for row in 0..states.num_rows() {
            let mut hasher = hashes.build_hasher();
            for reader in &readers {
                let text = reader.text(row, &mut scratch).unwrap_or_default();
                hasher.write_usize(text.len());
                hasher.write(text.as_bytes());
            }
            rows_of[(hasher.finish() >> 32) as usize % PARTITIONS].push(u32_of(row));
        }
        let placed: usize = rows_of.iter().map(Vec::len).sum();
        assert_eq!(placed, states.num_rows(), "every state is in one partition");
        for (part, selected) in rows_of.into_iter().enumerate().filter(|(_, selected)| !selected.is_empty()) {
            self.states.push(&rows::take(states, &UInt32Array::from(selected))?)?;
            self.parts.push(u8_of(part));
        }
        Ok(())
    }
}

/// Folders of the merged partitions, each with complete groups; see the module.
pub struct MergedFolders {
    plan: AggregatePlan,
    context: CommandContext,
    bytes_max: usize,
    /// A stack of spilled states, each with the number of the next partition to merge.
    todo: Vec<(Vec<SpilledPartials>, usize)>,
    work: WorkStart,
    /// Whether a partition was merged.
    has_merged: bool,
}

impl MergedFolders {
    /// Merges spilled states; each partition may use `bytes_max` bytes.
    pub fn new(
        plan: &AggregatePlan,
        spilled: Vec<SpilledPartials>,
        bytes_max: usize,
        context: &CommandContext,
    ) -> MergedFolders {
        MergedFolders {
            plan: plan.clone(),
            context: context.clone(),
            bytes_max,
            todo: vec![(spilled, 0)],
            work: context.stop.begin_work(),
            has_merged: false,
        }
    }

    /// The [`Folder`] with the merged states of the next partition; `None` at the end.
    fn next_folder(&mut self) -> Result<Option<Folder>, EngineError> {
        let (stop, work, has_merged) = (Arc::clone(&self.context.stop), self.work, self.has_merged);
        // At least one partition is merged. A cancelled merge fails.
        let should_end = || has_merged && !stop.is_cancelled() && stop.should_end_rows(work);
        while let Some((spilled, next)) = self.todo.last_mut() {
            if should_end() {
                return Ok(None);
            }
            let part = *next;
            if part == PARTITIONS {
                self.todo.pop();
                continue;
            }
            *next += 1;
            let level = spilled.first().map_or(0, |spilled| spilled.level) + 1;
            let mut folder = Folder::for_states(&self.plan, self.bytes_max, level, &self.context);
            let mut is_empty = true;
            for spilled in spilled.iter() {
                for (at, _) in spilled.parts.iter().enumerate().filter(|(_, known)| usize::from(**known) == part) {
                    if should_end() {
                        return Ok(None);
                    }
                    let states = spilled.states.batch(at)?;
                    assert!(states.num_rows() > 0, "a partition has states exactly if its list of batches has some");
                    folder.add_states(&states)?;
                    is_empty = false;
                }
            }
            if folder.has_spilled() {
                let again = folder.into_spilled()?;
                self.todo.push((vec![again], 0));
            } else if !is_empty {
                self.has_merged = true;
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }
}

impl Iterator for MergedFolders {
    type Item = Result<Folder, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_folder();
        if !matches!(next, Ok(Some(_))) {
            self.todo.clear();
        }
        next.transpose()
    }
}
