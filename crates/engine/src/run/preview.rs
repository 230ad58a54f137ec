//! Previews: what the result of a search would be if it ended now, made while it goes on.
//!
//! Of a fold over events the states of all workers so far are joined and finished, and the commands behind it run over
//! that. Of other commands that need all rows, the rows read so far, the newest, are taken for all. The commands of a
//! preview are made anew, so that those of the search know nothing of it; their messages are nobody's.
//!
//! The first preview is made soon after the search has begun, each other one when somebody has looked at the last, and so
//! rarely that they take a tenth of the search's time. Searches that change something beside their rows, that search again
//! for commands behind the fold, or that run programs have none.
//!
//! Not here: copying the states of workers (scan), who looks at previews (search).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::Folder;
use quarry_eval::command::Reduce;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::messages;
use quarry_eval::panics::caught;
use quarry_eval::rows::{self, RowIter, of_batches};
use quarry_scan::Previewer;
use quarry_spl::ast::{Command, Stage};
use quarry_stdx::SharedClock;

use super::{Runner, apply};
use crate::field_formats::ShownFormats;
use crate::lower::Step;
use crate::plan::Plan;
use crate::threads::with_stack;

/// Time after which the first preview is made.
const FIRST_AFTER_NS: i64 = 100_000_000;
/// Time between two previews at least.
const PAUSE_NS: i64 = 200_000_000;
/// Time between two previews for each part of it that the last one took.
const PAUSE_SHARE: i64 = 9;
/// Rows of a preview at most.
const ROWS_MAX: usize = 50_000;
/// Bytes of a preview's rows at most.
const BYTES_MAX: usize = 4 << 20;
/// Rows read so far that a preview is made of at most, where there is no fold over events.
const READ_ROWS_MAX: usize = 50_000;
/// Bytes of them at most.
const READ_BYTES_MAX: usize = 32 << 20;

/// A preview.
#[derive(Clone, Debug)]
pub struct Preview {
    /// How many were made, this one among them.
    pub number: u64,
    /// Its rows.
    pub rows: Vec<RecordBatch>,
}

impl std::fmt::Debug for Previews {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Previews").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The previews of one search: none unless somebody [begins](Previews::begin) to look.
#[derive(Default)]
pub struct Previews {
    /// Tells the time once they are wanted.
    clock: OnceLock<SharedClock>,
    due_ns: AtomicI64,
    /// Somebody has looked at the last one.
    is_seen: AtomicBool,
    is_off: AtomicBool,
    /// None can be made.
    is_over: AtomicBool,
    number: AtomicU64,
    latest: Mutex<Option<Preview>>,
}

impl Previews {
    /// Makes previews from now on, timed by `clock`.
    pub fn begin(&self, clock: &SharedClock) {
        if self.clock.set(Arc::clone(clock)).is_ok() {
            self.is_seen.store(true, Ordering::Relaxed);
            self.due_ns.store(clock.elapsed_ns().saturating_add(FIRST_AFTER_NS), Ordering::Relaxed);
        }
    }

    /// Makes previews, or makes no more for now.
    pub fn switch(&self, is_on: bool) {
        self.is_off.store(!is_on, Ordering::Relaxed);
    }

    /// The latest preview; whoever asks wants the next one too.
    pub fn look(&self) -> Option<Preview> {
        self.is_seen.store(true, Ordering::Relaxed);
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Rows of the latest one.
    pub fn rows(&self) -> usize {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.iter().flat_map(|preview| &preview.rows).map(RecordBatch::num_rows).sum()
    }

    /// How many were made.
    pub fn made(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Lets go of the latest one: the search has ended.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_begun(&self) -> bool {
        self.clock.get().is_some() && !self.is_over.load(Ordering::Relaxed)
    }

    fn is_due(&self) -> bool {
        let Some(clock) = self.clock.get() else { return false };
        let is_wanted = self.is_seen.load(Ordering::Relaxed) && !self.is_off.load(Ordering::Relaxed);
        is_wanted && !self.is_over.load(Ordering::Relaxed) && clock.elapsed_ns() >= self.due_ns.load(Ordering::Relaxed)
    }

    /// Takes what `make` gives for a preview. One that fails is the last.
    fn take(&self, make: impl FnOnce() -> Result<Vec<RecordBatch>, EngineError>) -> Result<(), EngineError> {
        let Some(clock) = self.clock.get() else { return Ok(()) };
        self.is_seen.store(false, Ordering::Relaxed);
        let began_ns = clock.elapsed_ns();
        let rows = make();
        let ended_ns = clock.elapsed_ns();
        let pause_ns = PAUSE_NS.max((ended_ns - began_ns).saturating_mul(PAUSE_SHARE));
        self.due_ns.store(ended_ns.saturating_add(pause_ns), Ordering::Relaxed);
        let rows = rows?;
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Preview { number, rows });
        Ok(())
    }
}

/// Makes the previews of one search.
pub(crate) struct Preparation {
    runner: Runner,
    plan: Plan,
    /// The search's context with messages of its own.
    context: CommandContext,
    formats: Arc<ShownFormats>,
    previews: Arc<Previews>,
}

impl Preparation {
    /// What makes previews of a plan, if somebody wants them and there can be any.
    pub(crate) fn of(
        runner: &Runner,
        plan: &Plan,
        context: &CommandContext,
        (formats, previews): (&Arc<ShownFormats>, &Arc<Previews>),
    ) -> Option<Preparation> {
        if !previews.is_begun() || !plan.commands().all(may_run_again) {
            return None;
        }
        let context = CommandContext { messages: Arc::default(), holdings: Arc::default(), ..context.clone() };
        Some(Preparation {
            runner: Runner { context: context.clone(), ..runner.clone() },
            plan: plan.clone(),
            context,
            formats: Arc::clone(formats),
            previews: Arc::clone(previews),
        })
    }

    /// The rows as they are shown, as many as a preview has.
    fn shown(&self, made: RowIter) -> Result<Vec<RecordBatch>, EngineError> {
        let (mut shown, mut count, mut bytes) = (Vec::new(), 0, 0);
        for batch in made {
            let batch = batch?;
            let batch = batch.slice(0, batch.num_rows().min(ROWS_MAX - count));
            let batch = self.formats.apply(rows::without(&batch, rows::is_hidden)?)?;
            count += batch.num_rows();
            bytes += batch.get_array_memory_size();
            shown.push(batch);
            if count >= ROWS_MAX || bytes >= BYTES_MAX || self.context.stop.is_cancelled() {
                break;
            }
        }
        Ok(shown)
    }

    /// The rows of the commands that run once.
    fn reduced(&self, rows: RowIter) -> Result<Vec<RecordBatch>, EngineError> {
        let steps = self.runner.steps_of_rows(&self.plan, &self.context)?;
        self.shown(apply(rows, steps, &self.context)?)
    }

    /// Makes a preview, whose messages nobody reads.
    fn make(&self, rows: impl FnOnce() -> Result<Vec<RecordBatch>, EngineError>) -> Result<(), EngineError> {
        let noted = messages::work_for(Some(Arc::clone(&self.context.messages)));
        // Workers have no more stack than reading events takes.
        let made = self.previews.take(|| with_stack(|| caught("a preview was made", rows)));
        drop(noted);
        made
    }

    /// Shows previews of a fold.
    pub(crate) fn of_fold<'a>(&'a self, reduce: &'a dyn Reduce) -> FoldPreviews<'a> {
        FoldPreviews { preparation: self, reduce }
    }

    /// The rows of a scan with previews made as they pass, where commands behind them need all.
    pub(crate) fn of_rows(self, rows: RowIter, steps: &[Step]) -> RowIter {
        match steps.iter().any(|step| !matches!(step, Step::Row { .. })) {
            true => Box::new(WatchedRows::new(rows, self)),
            false => rows,
        }
    }
}

/// Whether a command can run once more: it changes nothing, and searches and programs do not run for it.
fn may_run_again(stage: &Stage) -> bool {
    let command = &stage.command;
    let searches_or_starts =
        matches!(command, Command::Custom(_) | Command::Map(_)) || !command.subsearches().is_empty();
    command.effect().is_none() && !searches_or_starts
}

/// Previews of a fold over events.
pub(crate) struct FoldPreviews<'a> {
    preparation: &'a Preparation,
    reduce: &'a dyn Reduce,
}

impl Previewer for FoldPreviews<'_> {
    fn is_due(&self) -> bool {
        self.preparation.previews.is_due()
    }

    fn show(&self, folded: Folder) -> Result<(), EngineError> {
        let Preparation { runner, plan, context, .. } = self.preparation;
        self.preparation.make(|| {
            let fold: Vec<Stage> = plan.fold.iter().cloned().collect();
            let after = runner.steps(&fold, context)?.into_iter().skip_while(|step| matches!(step, Step::Row { .. }));
            let rows = self.reduce.finish(vec![folded], context)?;
            self.preparation.reduced(apply(rows, after.skip(1).collect(), context)?)
        })
    }

    fn end(&self) {
        self.preparation.previews.end();
    }
}

/// Rows of a scan on their way to a command that needs all of them.
struct WatchedRows {
    rows: RowIter,
    preparation: Preparation,
    /// Those that previews are made of.
    read: Vec<RecordBatch>,
    count: usize,
    bytes: usize,
    /// They count as memory of searches.
    account: MemoryAccount,
    /// No more previews are made.
    is_over: bool,
}

impl WatchedRows {
    fn new(rows: RowIter, preparation: Preparation) -> WatchedRows {
        let account = preparation.context.dataflow.account("preview");
        WatchedRows { rows, preparation, read: Vec::new(), count: 0, bytes: 0, account, is_over: false }
    }

    /// Keeps rows for previews, as far as there is room for them.
    fn keep(&mut self, batch: &RecordBatch) {
        let (count, bytes) = (self.count + batch.num_rows(), self.bytes + batch.get_array_memory_size());
        if count > READ_ROWS_MAX || bytes > READ_BYTES_MAX {
            return;
        }
        if self.account.set(bytes).is_err() {
            return self.end();
        }
        self.read.push(batch.clone());
        (self.count, self.bytes) = (count, bytes);
    }

    fn preview(&mut self) {
        let read = self.read.clone();
        let made = self.preparation.make(|| self.preparation.reduced(of_batches(read)));
        if made.is_err() {
            self.end();
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.read = Vec::new();
        // Less is never refused.
        let _less = self.account.set(0);
    }
}

impl Iterator for WatchedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rows.next();
        match &next {
            Some(Ok(batch)) if !self.is_over => {
                self.keep(batch);
                if !self.is_over && self.preparation.previews.is_due() {
                    self.preview();
                }
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => self.end(),
        }
        next
    }
}
