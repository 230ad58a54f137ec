//! Parallel reading in any order: each window of pages is read by one worker.
//!
//! A window is a fixed sequence of pages of one segment. Workers take the newest remaining window, so that a search
//! that is stopped early has seen the newest events. As many windows are in progress as there are workers, which bounds
//! memory. Workers are added while cores are free, even after the first pages were read. Window boundaries are the same
//! in every search, so that a cached result can replace a window ([`crate::partial_states`]).

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::event_scan::{EventScan, report_damage, report_damaged};
use crate::page::PageRef;
use crate::remote_segments::SegmentPrefetch;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::messages;
use quarry_eval::panics::catch_panic;
use quarry_event::PageSet;
use quarry_store::Segment;

use crate::partial_states::{PartKey, PlanStates, WindowPart};

/// With at least this many slabs per worker, each slab is read by a single worker.
const SLABS_PER_WORKER: usize = 4;

/// Consumer of the rows of a worker's windows. The number of a slice is the index of its window in the list.
pub(crate) trait SliceWork: Send {
    /// Whether the consumer accepts dictionary-coded columns, and rows without `_time` if nothing requests it.
    fn accepts_codes(&self) -> bool;
    /// Called before the rows of slice number `slice`.
    fn begin_slice(&mut self, slice: u64) -> Result<(), EngineError>;
    /// Receives the rows of one page.
    fn process_page(&mut self, rows: RecordBatch) -> Result<(), EngineError>;
    /// Counts matching rows of a page that are not passed to the consumer.
    fn count_excluded(&mut self, rows: u64);
    /// Receives the rows that a summary contains for one page.
    fn process_summary(&mut self, rows: RecordBatch) -> Result<(), EngineError>;
    /// Called when the slice is complete, or when the search stops reading.
    fn end_slice(&mut self) -> Result<(), EngineError>;
}

/// Pages of one segment that are read together.
pub struct Window {
    /// Pages that may hold a match, in order of arrival; empty if the result is cached.
    pub pages: Vec<PageRef>,
    /// Cache key of the window's partial state, if the state may be cached.
    pub key: Option<PartKey>,
    /// The cached result.
    pub cached: Option<Arc<WindowPart>>,
}

impl EventScan {
    /// The windows that may hold a match or whose state is to be cached, newest first. Damaged buckets are reported and
    /// skipped.
    pub fn windows(&self, context: &CommandContext, states: Option<&PlanStates>) -> Result<Vec<Window>, EngineError> {
        report_damaged(&self.snapshot, context);
        let mut windows = Vec::new();
        let mut segments = Vec::new();
        for segment in &self.snapshot.segments {
            if self.may_match(segment) && !self.skips_segment(segment) {
                segments.push((segment, self.empty_windows(segment, context, states)?));
            }
        }
        let is_known = |windows: &[Window]| windows.iter().all(|window| window.cached.is_some());
        let asked = segments.iter().filter(|(segment, windows)| !is_known(windows) && !self.is_summarised(segment));
        let asked: Vec<&Arc<dyn Segment>> = asked.map(|(segment, _)| *segment).collect();
        let mut pages = self.pages_of_all(&asked, &self.snapshot, false, context)?.into_iter();
        for (segment, of_segment) in segments {
            if is_known(&of_segment) {
                if let Some(damage) = segment.damage() {
                    report_damage(context, &damage.to_string());
                }
                windows.extend(of_segment);
                continue;
            }
            // The term dictionary need not be consulted for segments read from a summary.
            let pages = match self.is_summarised(segment) {
                true => Some(self.all_pages_of(segment)),
                false => pages.next().flatten(),
            };
            if let Some(pages) = pages {
                assign_pages(of_segment, segment, pages, context, &mut windows);
            }
        }
        assert!(pages.next().is_none(), "the answer for every requested segment is used");
        windows.reverse();
        let known = windows.iter().filter_map(|window| window.cached.as_ref()).map(|part| part.pages);
        let pages = windows.iter().map(|window| window.pages.len() as u64);
        self.progress.add_planned_pages(known.chain(pages).sum());
        Ok(windows)
    }

    fn is_summarised(&self, segment: &Arc<dyn Segment>) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.covers_segment(segment))
    }

    /// The windows of a segment with their cached results, without pages.
    fn empty_windows(
        &self,
        segment: &Arc<dyn Segment>,
        context: &CommandContext,
        states: Option<&PlanStates>,
    ) -> Result<Vec<Window>, EngineError> {
        // States that depend on fields added by rules are not cached: lookup tables change without notice, and computed
        // fields may depend on the current time.
        let is_derived = self.derivations.may_produce_fields(&segment.metas(), &context.messages)?;
        let states = states.filter(|_| !is_derived);
        let infos = (0u32..).zip(segment.pages().chunks(context.dataflow.window_pages()));
        let windows = infos.map(|(number, infos)| {
            let key = states.zip(segment.identity()).and_then(|(states, slab)| {
                let is_whole = infos.iter().all(|info| states.covers(info.time_min, info.time_max));
                is_whole.then(|| states.key(slab, number))
            });
            let known = states.zip(key).and_then(|(states, key)| states.get(&key));
            Window { pages: Vec::new(), key, cached: known }
        });
        Ok(windows.collect())
    }
}

/// Assigns the pages of a segment to its windows, keeping the windows that have pages to read or whose state may be
/// cached.
fn assign_pages(
    mut of_segment: Vec<Window>,
    segment: &Arc<dyn Segment>,
    pages: Vec<PageRef>,
    context: &CommandContext,
    windows: &mut Vec<Window>,
) {
    let window_pages = context.dataflow.window_pages();
    assert_eq!(of_segment.len(), segment.pages().len().div_ceil(window_pages), "windows cover their segment");
    assert!(pages.is_sorted_by_key(|page| page.page), "pages of a segment come in order of arrival");
    let mut read = 0;
    for page in pages {
        let window = &mut of_segment[page.page / window_pages];
        if window.cached.is_none() {
            read |= PageSet::single(page.page).0;
            window.pages.push(page);
        }
    }
    segment.prefetch_pages(PageSet(read), true);
    let is_wanted = |window: &Window| !window.pages.is_empty() || window.key.is_some();
    windows.extend(of_segment.into_iter().filter(is_wanted));
}

/// Runs the workers that `make` creates over the windows of `scan`, and returns them with their results.
pub(crate) fn map_slices<W: SliceWork>(
    scan: &EventScan,
    windows: &[Window],
    context: &CommandContext,
    make: &(dyn Fn() -> Result<W, EngineError> + Sync),
) -> Result<Vec<W>, EngineError> {
    let runs = group_windows(windows, context.dataflow.workers());
    let is_far = windows.iter().flat_map(|window| &window.pages).any(|page| page.segment.is_remote());
    let beginnings = SegmentPrefetch::of(scan, windows, &runs, is_far && make()?.accepts_codes(), context);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<W>> = Mutex::default();
    let failure: Mutex<Option<EngineError>> = Mutex::default();
    let work = |add_workers: &dyn Fn()| match catch_panic("events were read and folded", || {
        run_worker(scan, context, windows, (runs.as_slice(), &next, add_workers), &beginnings, make)
    }) {
        Ok(worker) => done.lock().unwrap_or_else(PoisonError::into_inner).push(worker),
        Err(error) => {
            next.store(runs.len(), Ordering::Relaxed);
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    };
    let readers = windows.iter().filter(|window| !window.pages.is_empty()).count();
    let workers = context.dataflow.workers().min(readers).max(1);
    let started = AtomicUsize::new(1);
    beginnings.run_with_prefetch(|| {
        std::thread::scope(|scope| {
            let add_workers = || {
                while started.load(Ordering::Relaxed) < workers && next.load(Ordering::Relaxed) < runs.len() {
                    let Some(helper) = context.dataflow.begin_help(is_far, scan.snapshot.sealing.count()) else {
                        return;
                    };
                    started.fetch_add(1, Ordering::Relaxed);
                    scope.spawn(move || {
                        let _helper = helper;
                        work(&|| {});
                    });
                }
            };
            work(&add_workers);
        });
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    // A cancelled search ends here, because merging its results would be useless.
    context.stop.check_cancelled()?;
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(done.len(), started.into_inner(), "a worker that did not fail returns its results");
    Ok(done)
}

/// Windows that one worker reads together: all windows of a slab, if there are enough slabs to keep every worker busy.
/// Work that is done once per slab is then not repeated by other workers.
fn group_windows(windows: &[Window], workers: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in 0..windows.len() {
        match runs.last_mut() {
            Some(run) if share_slab(&windows[run.start], &windows[at]) => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    assert_eq!(runs.iter().map(Range::len).sum::<usize>(), windows.len(), "every window is in a run");
    if runs.len() < workers * SLABS_PER_WORKER { (0..windows.len()).map(|at| at..at + 1).collect() } else { runs }
}

fn share_slab(a: &Window, b: &Window) -> bool {
    match (a.pages.first(), b.pages.first()) {
        (Some(a), Some(b)) => Arc::ptr_eq(&a.segment, &b.segment),
        _ => false,
    }
}

/// Runs one worker, which takes the remaining runs of windows one after the other. `add_workers` adds workers while
/// cores are free.
fn run_worker<W: SliceWork>(
    scan: &EventScan,
    context: &CommandContext,
    windows: &[Window],
    (runs, next, add_workers): (&[Range<usize>], &AtomicUsize, &dyn Fn()),
    beginnings: &SegmentPrefetch<'_>,
    make: &(dyn Fn() -> Result<W, EngineError> + Sync),
) -> Result<W, EngineError> {
    let _noted = messages::enter_scope(Some(Arc::clone(&context.messages)));
    let _counting = scan.progress.reads().count_thread_reads();
    let mut worker = make()?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(run) = runs.get(number) else { return Ok(worker) };
        beginnings.record_taken_run(number);
        for at in run.clone() {
            worker.begin_slice(at as u64)?;
            for page in windows[at].pages.iter().rev() {
                if context.stop.should_stop_reading() {
                    context.stop.mark_partial();
                    return worker.end_slice().map(|()| worker);
                }
                add_workers();
                if let Some(rows) = scan.read_summary(page)? {
                    worker.process_summary(rows)?;
                    continue;
                }
                let mut left = 0;
                let rows = scan.read_page(page, worker.accepts_codes(), context, &mut left)?;
                page.release();
                worker.count_excluded(left as u64);
                if let Some(rows) = rows {
                    worker.process_page(rows)?;
                }
            }
            worker.end_slice()?;
        }
    }
}
