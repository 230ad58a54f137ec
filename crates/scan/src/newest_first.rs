//! Reading newest first: a merge of pages by time, which stops as soon as nobody wants more.
//!
//! Pages are opened in descending order of their newest event. A row may go out once no unopened page can hold a
//! newer one; rows of equal time go out in reverse order of arrival. Logs are nearly sorted, so few pages are open at
//! once; of data in random order all matching rows are held.

use std::sync::{Arc, Mutex, PoisonError};

use crate::event_scan::EventScan;
use crate::page::PageRef;
use arrow::array::{AsArray, UInt32Array};
use arrow::datatypes::TimestampNanosecondType;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::messages;
use quarry_eval::panics::caught;
use quarry_eval::rows::{self, concat_rows};
use quarry_event::TimeNs;

/// Pages opened at once, at most, per worker.
const PAGES_AHEAD_PER_WORKER: usize = 4;
/// Rows of one batch handed on.
const BATCH_ROWS: usize = 16_384;
/// Rows of one batch of many columns that are mostly empty.
const NARROW_ROWS: usize = 64;

/// Rows of a search, newest first.
pub struct OrderedRows {
    scan: EventScan,
    context: CommandContext,
    /// Pages not opened, the newest last.
    pages: Vec<PageRef>,
    open: Vec<OpenPage>,
    ready: Vec<RecordBatch>,
    ahead: usize,
}

/// Rows of a page, newest first.
struct OpenPage {
    /// All batches but the last have as many rows as the first.
    rows: Vec<RecordBatch>,
    keys: Vec<(TimeNs, u64)>,
    next: usize,
}

impl OpenPage {
    /// The next rows.
    fn take_next(&mut self, count: usize) -> Vec<RecordBatch> {
        let (start, end) = (self.next, self.next + count);
        assert!(end <= self.keys.len(), "only rows that are left are taken");
        self.next = end;
        let step = self.rows.first().map_or(1, |rows| rows.num_rows().max(1));
        let parts = self.rows.iter().enumerate().skip(start / step).map(|(at, rows)| {
            let from = start.max(at * step) - at * step;
            let to = end.min(at * step + rows.num_rows()).saturating_sub(at * step);
            rows.slice(from, to.saturating_sub(from))
        });
        parts.take_while(|part| part.num_rows() > 0).collect()
    }
}

impl OrderedRows {
    /// The rows of `scan`.
    pub fn new(scan: EventScan, context: CommandContext) -> Result<OrderedRows, EngineError> {
        let mut pages = scan.pages(&context)?;
        pages.sort_unstable_by_key(|page| (page.info.time_max, page.arrival()));
        Ok(OrderedRows { scan, context, pages, open: Vec::new(), ready: Vec::new(), ahead: 1 })
    }

    /// Opens the next pages, more at each call until they give a batch, so that a search for few rows opens few.
    fn open_more(&mut self) -> Result<(), EngineError> {
        let workers = self.context.dataflow.workers();
        let count = self.ahead.min(self.pages.len());
        let pages = self.pages.split_off(self.pages.len() - count);
        // Of a rare page a row or two is read, which takes less time than a thread.
        let shared = pages.iter().filter(|page| !page.is_rare).count();
        let todo = Mutex::new(pages);
        let opened: Mutex<Vec<OpenPage>> = Mutex::default();
        let failure: Mutex<Option<EngineError>> = Mutex::default();
        let (scan, context) = (&self.scan, &self.context);
        let work = || {
            let _noted = messages::work_for(Some(Arc::clone(&context.messages)));
            while let Some(page) = todo.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                match caught("events were read in order of time", || open_page(scan, context, &page)) {
                    Ok(Some(page)) => opened.lock().unwrap_or_else(PoisonError::into_inner).push(page),
                    Ok(None) => {}
                    Err(error) => {
                        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..workers.min(shared) {
                scope.spawn(work);
            }
            work();
        });
        let opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Pages that give a whole batch are enough: who reads slowly keeps them all in memory.
        if opened.iter().map(|page| page.keys.len()).sum::<usize>() < BATCH_ROWS {
            self.ahead = (self.ahead * 2).min(workers * PAGES_AHEAD_PER_WORKER);
        }
        self.open.extend(opened);
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Takes the rows that no unopened page can precede.
    fn take_ready(&mut self) -> Result<(), EngineError> {
        let bound = self.pages.last().map(|page| (page.info.time_max, page.arrival() + u64::from(page.info.events)));
        let mut parts: Vec<Vec<RecordBatch>> = Vec::new();
        let mut keys: Vec<(TimeNs, u64)> = Vec::new();
        for page in &mut self.open {
            let rest = &page.keys[page.next..];
            let count = bound.map_or(rest.len(), |bound| rest.partition_point(|key| *key >= bound));
            if count > 0 {
                keys.extend_from_slice(&rest[..count]);
                parts.push(page.take_next(count));
            }
        }
        self.open.retain(|page| page.next < page.keys.len());
        if parts.is_empty() {
            return Ok(());
        }
        let rows: usize = parts.iter().flatten().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, keys.len(), "a row that is taken has its key");
        let is_narrow = parts.iter().any(|part| part.len() > 1);
        let sorted = parts.len() == 1;
        let parts: Vec<RecordBatch> = parts.into_iter().flatten().collect();
        if is_narrow {
            self.ready = if sorted { parts } else { interleaved(&parts, newest_first(&keys).values())? };
        } else {
            let rows = concat_rows(parts)?;
            let rows = if sorted { rows } else { rows::take(&rows, &newest_first(&keys))? };
            let starts = (0..rows.num_rows()).step_by(BATCH_ROWS);
            self.ready = starts.map(|start| rows.slice(start, BATCH_ROWS.min(rows.num_rows() - start))).collect();
        }
        self.ready.reverse();
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        loop {
            if let Some(rows) = self.ready.pop() {
                return Ok(Some(rows));
            }
            if self.context.stop.is_cancelled() || (self.pages.is_empty() && self.open.is_empty()) {
                return Ok(None);
            }
            if self.context.stop.stops_reading() && !self.pages.is_empty() {
                self.context.stop.mark_partial();
                self.pages.clear();
            }
            self.open_more()?;
            self.take_ready()?;
        }
    }
}

impl Iterator for OrderedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

fn open_page(scan: &EventScan, context: &CommandContext, page: &PageRef) -> Result<Option<OpenPage>, EngineError> {
    let Some(rows) = scan.read(page, context)? else { return Ok(None) };
    let rows = match &scan.top_k {
        Some(top_k) => top_k.take(rows)?,
        None => rows,
    };
    let times = rows::column_or_null(&rows, "_time");
    let Some(times) = times.as_primitive_opt::<TimestampNanosecondType>() else { return Ok(None) };
    let arrival = page.arrival();
    let keys: Vec<(TimeNs, u64)> = times.values().iter().zip(0..).map(|(time, row)| (*time, arrival + row)).collect();
    let order = newest_first(&keys);
    let rows = rows::narrowed_at(&rows, &order)?;
    let keys: Vec<(TimeNs, u64)> = order.values().iter().map(|row| keys[*row as usize]).collect();
    debug_assert!(keys.is_sorted_by(|newer, older| newer >= older), "rows of a page are newest first");
    Ok(Some(OpenPage { rows, keys, next: 0 }))
}

/// The rows of these batches, back to back, at these places: a few at a time, as together they would be wide.
fn interleaved(parts: &[RecordBatch], places: &[u32]) -> Result<Vec<RecordBatch>, EngineError> {
    let starts: Vec<usize> = parts
        .iter()
        .scan(0, |sum, part| {
            *sum += part.num_rows();
            Some(*sum - part.num_rows())
        })
        .collect();
    let mut all = Vec::with_capacity(places.len() / NARROW_ROWS + 1);
    for places in places.chunks(NARROW_ROWS) {
        let mut order: Vec<u32> = (0..places.len() as u32).collect();
        order.sort_unstable_by_key(|at| places[*at as usize]);
        // Rows in the order in which they lie, and where each of them goes.
        let (mut rows, mut goes_to) = (Vec::new(), vec![0u32; places.len()]);
        let mut left = order.as_slice();
        while let Some(first) = left.first() {
            let part = starts.partition_point(|start| *start <= places[*first as usize] as usize) - 1;
            let end = starts[part] + parts[part].num_rows();
            let count = left.partition_point(|at| (places[*at as usize] as usize) < end);
            let within: UInt32Array =
                left[..count].iter().map(|at| places[*at as usize] - starts[part] as u32).collect();
            rows.push(rows::take(&parts[part], &within)?);
            left = &left[count..];
        }
        order.iter().zip(0u32..).for_each(|(at, place)| goes_to[*at as usize] = place);
        all.push(rows::take(&concat_rows(rows)?, &UInt32Array::from(goes_to))?);
    }
    Ok(all)
}

/// Places of the keys in descending order.
fn newest_first(keys: &[(TimeNs, u64)]) -> UInt32Array {
    let mut places: Vec<u32> = (0..keys.len() as u32).collect();
    if keys.is_sorted() {
        places.reverse();
    } else {
        places.sort_unstable_by(|a, b| keys[*b as usize].cmp(&keys[*a as usize]));
    }
    UInt32Array::from(places)
}
