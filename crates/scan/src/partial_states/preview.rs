//! Previews of a report, made from copies of all workers' states while the workers continue folding.
//!
//! When a preview is due, the first worker to notice opens a round and contributes a copy of its states; the other
//! workers contribute before their next page. When a worker that has contributed starts another page, it merges the
//! copies, so that no worker waits; a slow worker is represented by its states of an earlier round. Copies count as
//! search memory, and a fold with too many groups has no previews.
//!
//! Not here: when a preview is due, and how it is displayed (engine).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_eval::EngineError;
use quarry_eval::aggregate::{FoldedPart, Folder};
use quarry_eval::command::Reduce;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::MemoryAccount;

/// Maximum bytes of states copied from one worker.
const COPIED_STATE_BYTES_MAX: usize = 32 << 20;

/// Receives the previews of a fold.
pub trait Previewer: Sync {
    /// Whether a preview is due; every worker checks before each page.
    fn is_due(&self) -> bool;
    /// Shows what was folded so far.
    fn show(&self, folded: Folder) -> Result<(), EngineError>;
    /// Called when no further previews follow.
    fn end(&self);
}

/// The preview rounds of one fold.
pub(super) struct PreviewRounds<'a> {
    previewer: &'a dyn Previewer,
    reduce: &'a dyn Reduce,
    context: &'a CommandContext,
    /// Number of the latest round.
    number: AtomicU64,
    /// Whether the states of the latest round have not been merged yet.
    is_open: AtomicBool,
    is_over: AtomicBool,
    worker_states: Mutex<WorkerStates>,
}

/// The latest states of each worker.
struct WorkerStates {
    states_by_worker: Vec<Arc<Vec<FoldedPart>>>,
    account: MemoryAccount,
}

/// A worker's position in the rounds.
#[derive(Debug)]
pub(super) struct WorkerRound {
    worker: usize,
    /// The last round to which the worker contributed.
    last_round: u64,
}

impl<'a> PreviewRounds<'a> {
    pub(super) fn new(
        previewer: &'a dyn Previewer,
        reduce: &'a dyn Reduce,
        context: &'a CommandContext,
    ) -> PreviewRounds<'a> {
        let given = WorkerStates { states_by_worker: Vec::new(), account: context.dataflow.account("preview") };
        PreviewRounds {
            previewer,
            reduce,
            context,
            number: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            worker_states: Mutex::new(given),
        }
    }

    /// Registers one more worker.
    pub(super) fn register_worker(&self) -> WorkerRound {
        let mut given = self.worker_states.lock().unwrap_or_else(PoisonError::into_inner);
        given.states_by_worker.push(Arc::default());
        WorkerRound { worker: given.states_by_worker.len() - 1, last_round: self.number.load(Ordering::Acquire) }
    }

    /// Contributes the worker's states if a round is open or due; shows the preview if the worker has already
    /// contributed to the open round. A fault ends the previews, not the search.
    pub(super) fn contribute(&self, worker_round: &mut WorkerRound, folders: &mut [&mut Folder]) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let number = self.number.load(Ordering::Acquire);
        debug_assert!(worker_round.last_round <= number, "a worker contributes only to rounds that were opened");
        if worker_round.last_round == number {
            if self.is_open.swap(false, Ordering::AcqRel) {
                if self.publish_preview().is_err() {
                    self.end();
                }
                return;
            }
            let is_opened = self.previewer.is_due()
                && self.number.compare_exchange(number, number + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if !is_opened {
                return;
            }
            self.is_open.store(true, Ordering::Release);
        }
        worker_round.last_round = self.number.load(Ordering::Acquire);
        if !self.replace_states(worker_round.worker, folders) {
            self.end();
        }
    }

    /// Replaces a worker's copy of its states; false if the states are too large.
    fn replace_states(&self, worker: usize, folders: &mut [&mut Folder]) -> bool {
        if folders.iter().map(|folder| folder.bytes()).sum::<usize>() > COPIED_STATE_BYTES_MAX {
            return false;
        }
        let Some(parts) = folders.iter_mut().map(|folder| folder.part()).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let mut given = self.worker_states.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(worker < given.states_by_worker.len(), "a worker is registered before it contributes");
        given.states_by_worker[worker] = Arc::new(parts);
        let bytes = given.states_by_worker.iter().flat_map(|parts| parts.iter()).map(FoldedPart::bytes).sum();
        given.account.set(bytes).is_ok()
    }

    fn publish_preview(&self) -> Result<(), EngineError> {
        let parts = self.worker_states.lock().unwrap_or_else(PoisonError::into_inner).states_by_worker.clone();
        let mut folder = self.reduce.folder(self.context)?;
        parts.iter().flat_map(|parts| parts.iter()).try_for_each(|part| folder.add_part(part))?;
        self.previewer.show(folder)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut given = self.worker_states.lock().unwrap_or_else(PoisonError::into_inner);
        given.states_by_worker.iter_mut().for_each(|parts| *parts = Arc::default());
        // Releasing memory never fails.
        let _less = given.account.set(0);
        self.previewer.end();
    }
}
