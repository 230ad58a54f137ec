//! Reading in parallel, in any order: slices of pages, each read by one worker.
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

/// What a worker does with the rows of the slices it reads.
pub(crate) trait SliceWork: Send {
    /// Whether it takes coded columns, and no `_time` where it is not wanted.
    fn reads_codes(&self) -> bool;
    /// Takes the rows of one page of slice number `slice`; all pages of a slice come before another one's.
    fn page(&mut self, rows: RecordBatch, slice: u64) -> Result<(), EngineError>;
}

/// Runs `make`'s workers over the pages of `scan` and returns them with what they have collected.
pub(crate) fn map_slices<W: SliceWork>(
    scan: &EventScan,
    pages: &[PageRef],
    context: &CommandContext,
    make: &(dyn Fn() -> Result<W, EngineError> + Sync),
) -> Result<Vec<W>, EngineError> {
    let slices: Vec<&[PageRef]> = pages.rchunks(SLICE_PAGES).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<W>> = Mutex::default();
    let failure: Mutex<Option<EngineError>> = Mutex::default();
    let work = || match run_worker(scan, context, &slices, &next, make) {
        Ok(worker) => done.lock().unwrap_or_else(PoisonError::into_inner).push(worker),
        Err(error) => {
            next.store(slices.len(), Ordering::Relaxed);
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
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
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One worker over the slices that are left.
fn run_worker<W: SliceWork>(
    scan: &EventScan,
    context: &CommandContext,
    slices: &[&[PageRef]],
    next: &AtomicUsize,
    make: &(dyn Fn() -> Result<W, EngineError> + Sync),
) -> Result<W, EngineError> {
    let mut worker = make()?;
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(slice) = slices.get(at) else { return Ok(worker) };
        for page in slice.iter().rev() {
            if context.stop.stops_reading() {
                context.stop.mark_partial();
                return Ok(worker);
            }
            let rows = if worker.reads_codes() { scan.read_coded(page, context)? } else { scan.read(page, context)? };
            if let Some(rows) = rows {
                worker.page(rows, at as u64)?;
            }
        }
    }
}

/// Threads that read at once: one per core.
pub(crate) fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
