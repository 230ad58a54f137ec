//! Reading in parallel, in any order: slices of pages, each folded by one worker.
//!
//! A slice is a run of pages of the snapshot. Workers take the newest slice that is left, so that a search that is
//! stopped early has seen the newest events. The number of slices in work is the number of workers, which bounds
//! memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow::record_batch::RecordBatch;

use super::{EventScan, PageRef};
use crate::EngineError;
use crate::command::CommandContext;

/// Pages of one slice.
const SLICE_PAGES: usize = 32;

/// What a worker does with the rows of a slice: gets them page by page, and gives the slice's result.
pub(crate) trait SliceWork: Send {
    /// Takes the rows of one page.
    fn page(&mut self, rows: RecordBatch) -> Result<(), EngineError>;
    /// Ends the slice with this number.
    fn end(&mut self, slice: u64) -> Result<Option<RecordBatch>, EngineError>;
}

/// Runs `make`'s workers over the pages of `scan` and returns the slices' results in order of slices.
pub(crate) fn map_slices(
    scan: &EventScan,
    pages: &[PageRef],
    context: &CommandContext,
    make: &(dyn Fn() -> Box<dyn SliceWork> + Sync),
) -> Result<Vec<RecordBatch>, EngineError> {
    let slices: Vec<&[PageRef]> = pages.rchunks(SLICE_PAGES).collect();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, RecordBatch)>> = Mutex::default();
    let failure: Mutex<Option<EngineError>> = Mutex::default();
    let work = || {
        let mut worker = make();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(slice) = slices.get(at) else { return };
            if context.stop.stops_reading() {
                context.stop.mark_partial();
                return;
            }
            match run_slice(scan, context, slice, at as u64, worker.as_mut()) {
                Ok(None) => {}
                Ok(Some(result)) => results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result)),
                Err(error) => {
                    next.store(slices.len(), Ordering::Relaxed);
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
            }
        }
    };
    let workers = worker_count().min(slices.len());
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

fn run_slice(
    scan: &EventScan,
    context: &CommandContext,
    slice: &[PageRef],
    number: u64,
    worker: &mut dyn SliceWork,
) -> Result<Option<RecordBatch>, EngineError> {
    for page in slice.iter().rev() {
        if context.stop.stops_reading() {
            context.stop.mark_partial();
            break;
        }
        if let Some(rows) = scan.read(page, context)? {
            worker.page(rows)?;
        }
    }
    worker.end(number)
}

/// Threads that read at once: one per core.
pub(crate) fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
