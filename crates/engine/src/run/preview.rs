//! Previews: intermediate results of a running search.
//!
//! For a fold over events, the states of all workers so far are merged and finished, and the commands after the fold
//! run on the result. Without such a fold, all commands run on the rows read so far (up to a limit), if one of them
//! needs all rows. A preview uses new instances of the commands, so that the search's instances are unaffected;
//! messages of a preview are dropped.
//!
//! The first preview is made soon after the start. Each further preview is made after a client has read the previous
//! one, and rarely enough that previews take at most a tenth of the search's time. If a command fails on the rows read
//! so far, for example at a limit, the preview is made from fewer rows, unless there is a fold. Previews use the
//! results of subsearches that the search has read. There are no previews for searches with side effects or external
//! programs, or for commands that run a search for each row (`map`).
//!
//! Not here: copying the states of workers (scan), showing previews (search).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::Folder;
use quarry_eval::command::Reduce;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::messages;
use quarry_eval::panics::catch_panic;
use quarry_eval::rows::{self, RowIter, of_batches};
use quarry_scan::Previewer;
use quarry_spl::ast::{Command, Stage};
use quarry_stdx::SharedClock;

use super::{Runner, apply};
use crate::field_formats::DisplayFormats;
use crate::lowering::Step;
use crate::plan::Plan;
use crate::threads::with_stack;

/// Delay of the first preview.
const FIRST_DELAY_NS: i64 = 100_000_000;
/// Minimum pause after a preview.
const INTERVAL_MIN_NS: i64 = 200_000_000;
/// Minimum pause after a preview, as a multiple of the time that the preview took.
const INTERVAL_COST_FACTOR: i64 = 9;
/// Maximum number of rows of a preview.
const ROWS_MAX: usize = 50_000;
/// Bytes of rows after which no further batch is added to a preview.
const BYTES_MAX: usize = 4 << 20;
/// Maximum number of rows from which a preview is made, if there is no fold over events.
const READ_ROWS_MAX: usize = 50_000;
/// Maximum bytes of these rows.
const READ_BYTES_MAX: usize = 32 << 20;
/// Minimum number of rows from which a preview is made after a preview of more rows has failed.
const READ_ROWS_MIN: usize = 500;
/// Divisor of the number of rows after a preview has failed.
const READ_ROWS_DIVISOR: usize = 4;

/// The rows of a running search at one moment.
#[derive(Clone, Debug)]
pub struct Preview {
    /// Number of this preview, from 1.
    pub number: u64,
    /// Result rows computed from the events read so far.
    pub rows: Vec<RecordBatch>,
}

impl std::fmt::Debug for Previews {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Previews").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The previews of one search; no preview is made before a client calls [`Previews::enable`].
#[derive(Default)]
pub struct Previews {
    /// Clock, set when previews are requested.
    clock: OnceLock<SharedClock>,
    due_ns: AtomicI64,
    /// Whether the latest preview was read.
    is_seen: AtomicBool,
    is_suspended: AtomicBool,
    /// Whether no further preview can be made.
    has_ended: AtomicBool,
    number: AtomicU64,
    latest: Mutex<Option<Preview>>,
}

impl Previews {
    /// Enables previews, timed by `clock`.
    pub fn enable(&self, clock: &SharedClock) {
        if self.clock.set(Arc::clone(clock)).is_ok() {
            self.is_seen.store(true, Ordering::Relaxed);
            self.due_ns.store(clock.elapsed_ns().saturating_add(FIRST_DELAY_NS), Ordering::Relaxed);
        }
    }

    /// Suspends previews, or resumes them.
    pub fn set_active(&self, is_on: bool) {
        self.is_suspended.store(!is_on, Ordering::Relaxed);
    }

    /// The latest preview; this also requests the next one.
    pub fn poll(&self) -> Option<Preview> {
        self.is_seen.store(true, Ordering::Relaxed);
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of rows of the latest preview.
    pub fn rows(&self) -> usize {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.iter().flat_map(|preview| &preview.rows).map(RecordBatch::num_rows).sum()
    }

    /// Number of previews made.
    pub fn made_count(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Drops the latest preview when the search has ended.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.clock.get().is_some() && !self.has_ended.load(Ordering::Relaxed)
    }

    fn is_due(&self) -> bool {
        let Some(clock) = self.clock.get() else { return false };
        let is_wanted = self.is_seen.load(Ordering::Relaxed) && !self.is_suspended.load(Ordering::Relaxed);
        is_wanted
            && !self.has_ended.load(Ordering::Relaxed)
            && clock.elapsed_ns() >= self.due_ns.load(Ordering::Relaxed)
    }

    /// Stores the preview returned by `make`. After an error, the caller makes no more previews.
    fn refresh(
        &self,
        stop: &Stop,
        make: impl FnOnce() -> Result<Vec<RecordBatch>, EngineError>,
    ) -> Result<(), EngineError> {
        let Some(clock) = self.clock.get() else { return Ok(()) };
        self.is_seen.store(false, Ordering::Relaxed);
        // The search may be paused while its preview is made.
        let worked_ns = || clock.elapsed_ns().saturating_sub(stop.total_paused_ns());
        let began_ns = worked_ns();
        let rows = make();
        let took_ns = worked_ns().saturating_sub(began_ns);
        let ended_ns = clock.elapsed_ns();
        let pause_ns = INTERVAL_MIN_NS.max(took_ns.saturating_mul(INTERVAL_COST_FACTOR));
        self.due_ns.store(ended_ns.saturating_add(pause_ns), Ordering::Relaxed);
        let rows = rows?;
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Preview { number, rows });
        Ok(())
    }
}

/// Makes the previews of one search.
pub(crate) struct PreviewMaker {
    runner: Runner,
    plan: Plan,
    /// The search's context with separate messages.
    context: CommandContext,
    formats: Arc<DisplayFormats>,
    previews: Arc<Previews>,
}

impl PreviewMaker {
    /// Previews of a plan, if they are requested and possible.
    pub(crate) fn of(
        runner: &Runner,
        plan: &Plan,
        context: &CommandContext,
        (formats, previews): (&Arc<DisplayFormats>, &Arc<Previews>),
    ) -> Option<PreviewMaker> {
        if !plan.commands().all(may_run_again) {
            return None;
        }
        let context = CommandContext {
            messages: Arc::default(),
            holdings: Arc::default(),
            costs: Arc::default(),
            ..context.clone()
        };
        Some(PreviewMaker {
            runner: Runner {
                context: context.clone(),
                subsearch_results: runner.subsearch_results.replayed(),
                ..runner.clone()
            },
            plan: plan.clone(),
            context,
            formats: Arc::clone(formats),
            previews: Arc::clone(previews),
        })
    }

    /// The rows for display, limited to the size of a preview.
    fn display_rows(&self, made: RowIter) -> Result<Vec<RecordBatch>, EngineError> {
        let (mut shown, mut count, mut bytes) = (Vec::new(), 0, 0);
        for batch in made {
            let batch = batch?;
            let batch = batch.slice(0, batch.num_rows().min(ROWS_MAX - count));
            let batch = self.formats.apply(rows::drop_columns(&batch, rows::is_hidden)?)?;
            count += batch.num_rows();
            bytes += batch.get_array_memory_size();
            shown.push(batch);
            if count >= ROWS_MAX || bytes >= BYTES_MAX || self.context.stop.is_cancelled() {
                break;
            }
        }
        Ok(shown)
    }

    /// Applies the commands that run once.
    fn apply_reduce(&self, rows: RowIter) -> Result<Vec<RecordBatch>, EngineError> {
        let steps = self.runner.steps_of_rows(&self.plan, &self.context)?;
        self.display_rows(apply(rows, steps, &self.context)?)
    }

    /// Makes a preview; its messages are dropped.
    fn make(&self, rows: impl FnOnce() -> Result<Vec<RecordBatch>, EngineError>) -> Result<(), EngineError> {
        let noted = messages::enter_scope(Some(Arc::clone(&self.context.messages)));
        let counting = self.runner.progress.reads().count_thread_reads();
        // A worker's stack only suffices for reading events.
        let made = self.previews.refresh(&self.context.stop, || with_stack(|| catch_panic("a preview was made", rows)));
        drop((noted, counting));
        made
    }

    pub(crate) fn of_fold<'a>(&'a self, reduce: &'a dyn Reduce) -> FoldPreviews<'a> {
        FoldPreviews { preparation: self, reduce }
    }

    /// Passes the rows of a scan through and makes previews of them, if a later command needs all rows.
    pub(crate) fn of_rows(self, rows: RowIter, steps: &[Step]) -> RowIter {
        match steps.iter().any(|step| !matches!(step, Step::Row { .. })) {
            true => Box::new(PreviewedRows::new(rows, self)),
            false => rows,
        }
    }
}

/// Whether a command can be run again for a preview: the command and the commands in its brackets write nothing and
/// start no programs. (Subsearches are not run again.)
fn may_run_again(stage: &Stage) -> bool {
    let command = &stage.command;
    let inner = command.subsearches();
    command.effect().is_none()
        && !matches!(command, Command::Custom(_))
        && inner.iter().all(|inner| inner.commands.iter().all(may_run_again))
}

/// Previews of a fold over events.
pub(crate) struct FoldPreviews<'a> {
    preparation: &'a PreviewMaker,
    reduce: &'a dyn Reduce,
}

impl Previewer for FoldPreviews<'_> {
    fn is_due(&self) -> bool {
        self.preparation.previews.is_due()
    }

    fn show(&self, folded: Folder) -> Result<(), EngineError> {
        let PreviewMaker { runner, plan, context, .. } = self.preparation;
        self.preparation.make(|| {
            let fold: Vec<Stage> = plan.fold.iter().cloned().collect();
            let after = runner.steps(&fold, context)?.into_iter().skip_while(|step| matches!(step, Step::Row { .. }));
            let rows = self.reduce.finish(vec![folded], context)?;
            self.preparation.apply_reduce(apply(rows, after.skip(1).collect(), context)?)
        })
    }

    fn end(&self) {
        self.preparation.previews.end();
    }
}

/// The first rows of a scan, without gaps: after a batch that does not fit, no later batch is added.
#[derive(Default)]
struct FirstRows {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    is_full: bool,
}

impl FirstRows {
    /// Adds a batch; returns whether there was room.
    fn push(&mut self, batch: &RecordBatch) -> bool {
        let (rows, bytes) = (self.rows + batch.num_rows(), self.bytes + batch.get_array_memory_size());
        self.is_full |= rows > READ_ROWS_MAX || bytes > READ_BYTES_MAX;
        if !self.is_full {
            self.batches.push(batch.clone());
            (self.rows, self.bytes) = (rows, bytes);
        }
        !self.is_full
    }

    /// The first of these rows.
    fn first(&self, most: usize) -> Vec<RecordBatch> {
        let mut left = most;
        let mut first = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            let taken = batch.num_rows().min(left);
            first.push(if taken < batch.num_rows() { batch.slice(0, taken) } else { batch.clone() });
            left -= taken;
            if left == 0 {
                break;
            }
        }
        first
    }
}

/// Rows of a scan before a blocking command.
struct PreviewedRows {
    rows: RowIter,
    preparation: PreviewMaker,
    /// The rows from which previews are made.
    read: FirstRows,
    /// Maximum number of these rows that are passed to the commands; lowered when the commands fail with more rows.
    rows_max: usize,
    /// Accounts for these rows in the search's memory.
    account: MemoryAccount,
    /// Whether no more previews are made.
    is_over: bool,
}

impl PreviewedRows {
    fn new(rows: RowIter, preparation: PreviewMaker) -> PreviewedRows {
        let account = preparation.context.dataflow.account("preview");
        PreviewedRows {
            rows,
            preparation,
            read: FirstRows::default(),
            rows_max: READ_ROWS_MAX,
            account,
            is_over: false,
        }
    }

    /// Keeps rows for previews while there is room.
    fn buffer_rows(&mut self, batch: &RecordBatch) {
        if self.read.push(batch) && self.account.set(self.read.bytes).is_err() {
            self.end();
        }
    }

    fn preview(&mut self) {
        let (preparation, read, rows_max) = (&self.preparation, &self.read, &mut self.rows_max);
        let made = preparation.make(|| {
            loop {
                // The command may have a limit that this number of rows exceeds.
                match preparation.apply_reduce(of_batches(read.first(*rows_max))) {
                    Err(_) if *rows_max > READ_ROWS_MIN && !preparation.context.stop.is_cancelled() => {
                        *rows_max = ((*rows_max).min(read.rows) / READ_ROWS_DIVISOR).max(READ_ROWS_MIN);
                    }
                    made => return made,
                }
            }
        });
        if made.is_err() {
            self.end();
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.read = FirstRows::default();
        // Releasing memory never fails.
        let _less = self.account.set(0);
    }
}

impl Iterator for PreviewedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rows.next();
        match &next {
            Some(Ok(batch)) if !self.is_over => {
                self.buffer_rows(batch);
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

#[cfg(test)]
mod tests {
    use quarry_eval::rows::ColumnBuilder;
    use quarry_stdx::ManualClock;

    use super::*;

    #[test]
    fn a_pause_during_a_preview_does_not_delay_the_next_one() {
        let clock = ManualClock::shared(0);
        let shared: SharedClock = clock.clone();
        let (previews, stop) = (Previews::default(), Stop::default());
        stop.set_clock(Arc::clone(&shared));
        previews.enable(&shared);
        let made = previews.refresh(&stop, || {
            clock.advance_ns(10_000_000);
            stop.pause();
            clock.advance_ns(60_000_000_000);
            stop.resume();
            Ok(Vec::new())
        });
        assert!(made.is_ok() && previews.poll().is_some());
        // Nine times the ten milliseconds of work are less than the minimum.
        clock.advance_ns(INTERVAL_MIN_NS - 1);
        assert!(!previews.is_due());
        clock.advance_ns(1);
        assert!(previews.is_due());
    }

    #[test]
    fn previewed_rows_have_no_gaps() {
        let batch = |rows: usize| {
            let mut column = ColumnBuilder::new(rows);
            (0..rows).for_each(|_| column.push_int(1));
            rows::batch_of([("n", column.finish())], rows).unwrap()
        };
        let mut first = FirstRows::default();
        let added = [10, READ_ROWS_MAX, 10, 1].map(|rows| first.push(&batch(rows)));
        assert_eq!((added, first.rows, first.batches.len()), ([true, false, false, false], 10, 1));
        let counts = |most: usize| first.first(most).iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
        assert_eq!((counts(100), counts(10), counts(4)), (vec![10], vec![10], vec![4]));
    }
}
