//! Folds windows: from their cached states if any, otherwise page by page. New states are cached if possible.
//!
//! A window's state is merged into the worker's [`Folder`], which folds its rows into groups. Caching therefore costs
//! one merge of groups per window. States are stored only if the whole search has succeeded. A search that was stopped,
//! met damage or had messages for the user (limits reached, values skipped) stores no states, because the next search
//! must report the same messages.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::event_scan::EventScan;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::Folder;
use quarry_eval::command::{MakeRowCommand, Reduce, RowCommand};
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::rows;

use super::preview::{PreviewRounds, Previewer, WorkerRound};
use super::{PartKey, PlanStates, WindowPart};
use crate::slices::{SliceWork, Window, map_slices};

/// The row commands before a fold.
pub struct WindowCommands<'a> {
    /// Commands for rows made from events.
    pub event_commands: &'a [MakeRowCommand],
    /// Commands for rows of summaries.
    pub summary_commands: &'a [MakeRowCommand],
}

/// Folds the windows of a scan, newest first; returns the [`Folder`] of each worker. While the workers run, `previewer`
/// can request copies of their states.
pub fn fold_windows(
    scan: &EventScan,
    windows: &[Window],
    commands: &WindowCommands<'_>,
    reduce: &dyn Reduce,
    context: &CommandContext,
    (states, previewer): (Option<&PlanStates>, Option<&dyn Previewer>),
) -> Result<Vec<Folder>, EngineError> {
    let messages = context.messages.push_count();
    let keeping = states.map(|states| PartCollector::new(states, windows));
    let rounds = previewer.map(|previewer| PreviewRounds::new(previewer, reduce, context));
    let make = || {
        Ok(FoldWork {
            scan,
            windows,
            commands: commands.event_commands.iter().map(|make| make()).collect(),
            summary_commands: commands.summary_commands.iter().map(|make| make()).collect(),
            folder: reduce.folder(context)?,
            apart: None,
            reduce,
            context,
            keeping: keeping.as_ref(),
            rounds: rounds.as_ref().map(|rounds| (rounds, rounds.register_worker())),
            slice: 0,
            place: 0,
            matched: 0,
        })
    };
    let workers = map_slices(scan, windows, context, &make)?;
    let folders = workers.into_iter().map(|worker| worker.folder).collect();
    if let (Some(states), Some(keeping)) = (states, keeping) {
        let is_whole = !context.stop.is_partial() && context.messages.push_count() == messages;
        keeping.end(states, is_whole);
    }
    Ok(folders)
}

/// The window states (parts) that this search makes for the cache.
struct PartCollector {
    made: Mutex<Vec<(PartKey, WindowPart)>>,
    /// Bytes of the cached parts that this search uses, and of its new parts.
    bytes: AtomicUsize,
    bytes_max: usize,
    part_bytes_max: usize,
    /// Whether a part was too large.
    is_large: AtomicBool,
}

impl PartCollector {
    fn new(states: &PlanStates, windows: &[Window]) -> PartCollector {
        let known = windows.iter().filter_map(|window| window.cached.as_ref());
        let (bytes_max, part_bytes_max) = states.bytes_max();
        PartCollector {
            made: Mutex::default(),
            bytes: AtomicUsize::new(known.map(|part| part.bytes()).sum()),
            bytes_max,
            part_bytes_max,
            is_large: AtomicBool::new(false),
        }
    }

    /// Whether another window should be folded separately. Beyond the limit, a new part would only evict another new
    /// part.
    fn has_room(&self) -> bool {
        !self.is_large.load(Ordering::Relaxed) && self.bytes.load(Ordering::Relaxed) < self.bytes_max
    }

    fn add(&self, key: PartKey, part: WindowPart) {
        let bytes = part.bytes();
        if bytes > self.part_bytes_max {
            self.is_large.store(true, Ordering::Relaxed);
            return;
        }
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.bytes_max {
            self.made.lock().unwrap_or_else(PoisonError::into_inner).push((key, part));
        }
    }

    fn end(self, states: &PlanStates, is_whole: bool) {
        if self.is_large.into_inner() {
            states.mark_too_large();
        } else if is_whole {
            states.put(self.made.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Folds the rows of slices.
struct FoldWork<'a> {
    scan: &'a EventScan,
    windows: &'a [Window],
    commands: Vec<Box<dyn RowCommand>>,
    summary_commands: Vec<Box<dyn RowCommand>>,
    folder: Folder,
    /// The [`Folder`] of the current slice if that is folded separately, so that its state can be cached.
    apart: Option<Folder>,
    reduce: &'a dyn Reduce,
    context: &'a CommandContext,
    keeping: Option<&'a PartCollector>,
    /// The worker's position in the preview rounds.
    rounds: Option<(&'a PreviewRounds<'a>, WorkerRound)>,
    /// The current slice, the number of its rows folded so far, and the number of its events that matched.
    slice: u64,
    place: u64,
    matched: u64,
}

impl FoldWork<'_> {
    fn fold(&mut self, rows: &RecordBatch) -> Result<(), EngineError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.apart.as_mut().unwrap_or(&mut self.folder).add(rows, self.slice, self.place)?;
        self.place += rows.num_rows() as u64;
        Ok(())
    }

    /// Passes rows through the commands and folds the result.
    fn pass(
        &mut self,
        mut commands: Vec<Box<dyn RowCommand>>,
        rows: RecordBatch,
    ) -> Result<Vec<Box<dyn RowCommand>>, EngineError> {
        let context = self.context;
        pass_rows(&mut commands, rows, &context.stop, &mut |rows| self.fold(rows))?;
        self.contribute();
        Ok(commands)
    }

    /// Contributes to a preview if one is due.
    fn contribute(&mut self) {
        let Some((rounds, worker_round)) = &mut self.rounds else { return };
        match &mut self.apart {
            Some(apart) => rounds.contribute(worker_round, &mut [&mut self.folder, apart]),
            None => rounds.contribute(worker_round, &mut [&mut self.folder]),
        }
    }
}

/// Maximum number of rows that a command receives at once if the command before it has made several rows of each row.
/// `mvexpand` can make millions of rows of a page.
const STEP_ROWS_MAX: usize = 16_384;

/// Passes rows through the commands, and folds the result. Many rows made of few are passed on in portions, between which
/// the search can be paused and ended.
fn pass_rows(
    commands: &mut [Box<dyn RowCommand>],
    mut rows: RecordBatch,
    stop: &Stop,
    fold: &mut dyn FnMut(&RecordBatch) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let most = rows.num_rows().max(STEP_ROWS_MAX);
    for at in 0..commands.len() {
        rows = commands[at].apply(rows)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if rows.num_rows() > most {
            for start in (0..rows.num_rows()).step_by(STEP_ROWS_MAX) {
                stop.wait_while_paused();
                if stop.should_end_input() {
                    return Ok(());
                }
                let part = rows.slice(start, STEP_ROWS_MAX.min(rows.num_rows() - start));
                pass_rows(&mut commands[at + 1..], part, stop, fold)?;
            }
            return Ok(());
        }
    }
    fold(&rows)
}

impl SliceWork for FoldWork<'_> {
    fn accepts_codes(&self) -> bool {
        true
    }

    fn begin_slice(&mut self, slice: u64) -> Result<(), EngineError> {
        (self.slice, self.place, self.matched) = (slice, 0, 0);
        let window = &self.windows[slice as usize];
        assert!(window.cached.is_none() || window.pages.is_empty(), "a cached window is not read again");
        assert!(self.apart.is_none(), "a slice that was folded apart was joined at its end");
        let is_kept = window.key.is_some() && window.cached.is_none() && !window.pages.is_empty();
        self.apart = match self.keeping {
            Some(keeping) if is_kept && keeping.has_room() => Some(self.reduce.folder(self.context)?),
            _ => None,
        };
        Ok(())
    }

    fn process_page(&mut self, rows: RecordBatch) -> Result<(), EngineError> {
        self.matched += rows::event_count(&rows);
        let commands = std::mem::take(&mut self.commands);
        self.commands = self.pass(commands, rows)?;
        Ok(())
    }

    fn count_excluded(&mut self, rows: u64) {
        self.matched += rows;
    }

    fn process_summary(&mut self, rows: RecordBatch) -> Result<(), EngineError> {
        self.matched += rows.num_rows() as u64;
        let commands = std::mem::take(&mut self.summary_commands);
        self.summary_commands = self.pass(commands, rows)?;
        Ok(())
    }

    fn end_slice(&mut self) -> Result<(), EngineError> {
        let window = &self.windows[self.slice as usize];
        if let Some(known) = &window.cached {
            self.scan.count_cached_window(known);
            return known.folded.as_ref().map_or(Ok(()), |part| self.folder.add_part(part));
        }
        let (Some(key), Some(keeping)) = (window.key, self.keeping) else { return Ok(()) };
        let folded = match &mut self.apart {
            // No page can contain a match.
            None if window.pages.is_empty() => Some(None),
            None => None,
            Some(_) if self.matched == 0 => Some(None),
            Some(apart) => apart.part().map(Some),
        };
        if let Some(folded) = folded {
            let scanned: u64 = window.pages.iter().map(|page| u64::from(page.info.events)).sum();
            assert!(self.matched <= scanned, "no more events match than are in the pages");
            let pages = window.pages.len() as u64;
            keeping.add(key, WindowPart { folded, pages, scanned, matched: self.matched });
        }
        self.apart.take().map_or(Ok(()), |apart| self.folder.add_folder(apart))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use quarry_eval::rows::batch_of;

    /// A command that makes several rows of each row, and one that records how many rows it receives at once.
    enum TestCommand {
        Repeat(usize),
        Record { received_rows: Arc<Mutex<Vec<usize>>>, stop: Arc<Stop>, cancels: bool },
    }

    impl RowCommand for TestCommand {
        fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
            match self {
                TestCommand::Repeat(times) => no_columns(rows.num_rows() * *times),
                TestCommand::Record { received_rows, stop, cancels } => {
                    received_rows.lock().unwrap().push(rows.num_rows());
                    if *cancels {
                        stop.cancel();
                    }
                    Ok(rows)
                }
            }
        }
    }

    fn no_columns(rows: usize) -> Result<RecordBatch, EngineError> {
        batch_of(Vec::<(String, _)>::new(), rows)
    }

    /// Repeats each of `rows` rows; returns the rows that the next command received at once, and those folded.
    fn pass_repeated(rows: usize, times: usize, cancels: bool) -> (Vec<usize>, usize) {
        let (stop, received_rows, mut folded) = (Arc::<Stop>::default(), Arc::<Mutex<Vec<usize>>>::default(), 0);
        let record =
            TestCommand::Record { received_rows: Arc::clone(&received_rows), stop: Arc::clone(&stop), cancels };
        let mut commands: Vec<Box<dyn RowCommand>> = vec![Box::new(TestCommand::Repeat(times)), Box::new(record)];
        let mut fold = |rows: &RecordBatch| {
            folded += rows.num_rows();
            Ok(())
        };
        pass_rows(&mut commands, no_columns(rows).unwrap(), &stop, &mut fold).unwrap();
        (std::mem::take(&mut *received_rows.lock().unwrap()), folded)
    }

    #[test]
    fn many_rows_made_of_few_are_passed_on_in_portions() {
        assert_eq!(pass_repeated(4_096, 9, false), (vec![16_384, 16_384, 4_096], 36_864));
        assert_eq!(
            pass_repeated(40_000, 1, false),
            (vec![40_000], 40_000),
            "large batches that do not grow stay whole"
        );
        assert_eq!(pass_repeated(4_096, 0, false), (vec![], 0));
        assert_eq!(pass_repeated(4_096, 9, true).0, [16_384], "a cancelled search processes no further portion");
    }
}
