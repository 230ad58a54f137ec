//! Reading newest first: a merge of pages by time that stops when no more rows are requested.
//!
//! Pages are opened in descending order of their newest event. A row is emitted as soon as no unopened page can hold a
//! newer row; rows of equal time come in reverse order of arrival. Logs are nearly sorted, so few pages are open at
//! once; for data in random order, all matching rows are in memory. Batches are bounded by bytes because rows may be
//! long. If the order does not matter, pages are opened in the same way, but their rows are emitted without sorting or
//! merging. Segments that are not open yet ([`LaterSegments`]) are opened when all newer rows have been emitted. While
//! the consumer pauses, the rows of open pages may be dropped; they are read again when the consumer
//! continues.

use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::event_scan::EventScan;
use crate::page::PageRef;
use crate::remote_segments::PrefetchedSegments;
use arrow::array::{AsArray, UInt32Array};
use arrow::datatypes::TimestampNanosecondType;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::{CommandContext, ReleaseMemory};
use quarry_eval::dataflow::BytePermit;
use quarry_eval::messages;
use quarry_eval::panics::catch_panic;
use quarry_eval::rows::{self, compact, concat_rows};
use quarry_event::TimeNs;
use quarry_stdx::number::u32_of;
use quarry_store::LaterSegments;

/// Maximum number of pages opened at once, per worker.
const OPEN_PAGES_PER_WORKER_MAX: usize = 4;
/// Rows per emitted batch.
const BATCH_ROWS: usize = 16_384;
/// Bytes of rows emitted at once, and of text of pages opened at once; a single row or page may exceed the limit.
const BATCH_BYTES: usize = 2 << 20;
/// The sort key of all rows if their order does not matter: no page precedes them.
const FIRST_KEY: (TimeNs, u64) = (TimeNs::MAX, u64::MAX);
/// Minimum bytes of text of a wide page; few wide pages are open at once across all searches.
const WIDE_PAGE_BYTES_MIN: u64 = 2 << 20;
/// Rows per batch if the batch has many, mostly empty columns.
const MANY_COLUMNS_BATCH_ROWS: usize = 64;

/// Rows of a search, newest first.
pub struct OrderedRows {
    scan: EventScan,
    context: CommandContext,
    /// Pages not yet opened, the newest last.
    pages: Vec<PageRef>,
    /// Segments not yet opened, the newest last.
    later: Vec<Arc<dyn LaterSegments>>,
    open: Arc<OpenPages>,
    /// Batches to be returned, the next one last.
    ready: Vec<RecordBatch>,
    /// Maximum number of pages opened at the next step.
    ahead: usize,
    /// Remote segments prefetched so far.
    prefetched: PrefetchedSegments,
    /// Whether the rows are newest first.
    in_order: bool,
}

#[derive(Default)]
struct OpenPages(Mutex<Vec<OpenPage>>);

impl OpenPages {
    fn lock(&self) -> MutexGuard<'_, Vec<OpenPage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReleaseMemory for OpenPages {
    fn release_memory(&self) {
        // If another thread holds the lock, it is using the pages.
        if let Ok(mut open) = self.0.try_lock() {
            open.iter_mut().for_each(|page| page.rows = None);
        }
    }
}

/// A page with rows still to be emitted.
struct OpenPage {
    page: PageRef,
    /// Sort key of each row: its time, and its position in the order of arrival.
    keys: Vec<(TimeNs, u64)>,
    /// Average bytes per row.
    row_bytes: usize,
    /// Number of rows emitted.
    next: usize,
    /// `None` if the rows were dropped.
    rows: Option<PageRows>,
}

/// The rows of a page, newest first.
struct PageRows {
    /// All batches but the last have as many rows as the first.
    batches: Vec<RecordBatch>,
    /// Bytes of each row, if the page exceeds [`BATCH_BYTES`].
    bytes: Option<Vec<usize>>,
    /// Permission to hold a wide page in memory.
    _entry: Option<BytePermit>,
}

/// Rows of a page just read, and their sort keys, which are kept when the rows are dropped.
struct ReadPage {
    batches: Vec<RecordBatch>,
    keys: Vec<(TimeNs, u64)>,
    bytes: usize,
    /// Number of matching rows of the page that are not in `batches`.
    excluded: usize,
}

impl PageRows {
    fn new(batches: Vec<RecordBatch>, bytes: usize, entry: Option<BytePermit>) -> PageRows {
        let bytes = (bytes > BATCH_BYTES).then(|| batches.iter().flat_map(rows::row_bytes).collect());
        PageRows { batches, bytes, _entry: entry }
    }
}

impl OpenPage {
    fn new(page: PageRef, read: ReadPage, entry: Option<BytePermit>) -> OpenPage {
        let ReadPage { batches, keys, bytes, .. } = read;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, keys.len(), "each row of a page has its key");
        let row_bytes = bytes / keys.len().max(1);
        OpenPage { page, keys, row_bytes, next: 0, rows: Some(PageRows::new(batches, bytes, entry)) }
    }

    fn is_wide(&self) -> bool {
        self.page.info.raw_bytes > WIDE_PAGE_BYTES_MIN
    }

    /// Bytes of the row `after` positions after the next row.
    fn row_bytes(&self, after: usize) -> usize {
        let bytes = self.rows.as_ref().and_then(|rows| rows.bytes.as_ref());
        bytes.and_then(|bytes| bytes.get(self.next + after)).copied().unwrap_or(self.row_bytes)
    }

    /// The next rows.
    fn take_next(&mut self, count: usize) -> Vec<RecordBatch> {
        let (start, end) = (self.next, self.next + count);
        assert!(end <= self.keys.len(), "only rows that are left are taken");
        self.next = end;
        let batches = self.rows.as_ref().map_or(&[][..], |rows| &rows.batches);
        let step = batches.first().map_or(1, |rows| rows.num_rows().max(1));
        let parts = batches.iter().enumerate().skip(start / step).map(|(at, rows)| {
            let from = start.max(at * step) - at * step;
            let to = end.min(at * step + rows.num_rows()).saturating_sub(at * step);
            rows.slice(from, to.saturating_sub(from))
        });
        parts.take_while(|part| part.num_rows() > 0).collect()
    }
}

impl OrderedRows {
    /// The rows of `scan`.
    pub fn new(mut scan: EventScan, context: CommandContext) -> Result<OrderedRows, EngineError> {
        let later = std::mem::take(&mut scan.snapshot.later);
        scan.progress.add_planned_pages(later.iter().map(|later| later.page_count()).sum());
        let mut pages = scan.pages(&context)?;
        pages.sort_unstable_by_key(newest_event);
        let open = Arc::<OpenPages>::default();
        // With a top-k threshold, rows are never dropped and read again: the second read could leave out other rows.
        if !scan.has_threshold() {
            let open: Weak<OpenPages> = Arc::downgrade(&open);
            context.holdings.add(open);
        }
        Ok(OrderedRows {
            scan,
            context,
            pages,
            later,
            open,
            ready: Vec::new(),
            ahead: 1,
            prefetched: PrefetchedSegments::default(),
            in_order: true,
        })
    }

    /// The rows of `scan` in any order, which saves sorting and merging them.
    pub fn in_any_order(scan: EventScan, context: CommandContext) -> Result<OrderedRows, EngineError> {
        Ok(OrderedRows { in_order: false, ..OrderedRows::new(scan, context)? })
    }

    /// Opens the next segments if they may hold newer rows than all pages, open or not.
    fn open_later(&mut self, open: &[OpenPage]) -> Result<(), EngineError> {
        while let Some(next) = self.later.last().map(|later| later.time_max()) {
            let is_newer = |page: &OpenPage| page.keys.get(page.next).is_some_and(|(time, _)| *time > next);
            if self.pages.last().is_some_and(|page| page.info.time_max > next) || open.iter().any(is_newer) {
                break;
            }
            let _counting = self.scan.progress.reads().count_thread_reads();
            let Some(later) = self.later.pop() else { break };
            self.pages.extend(self.scan.pages_in(&later.open(), &self.context)?);
            self.pages.sort_unstable_by_key(newest_event);
            self.scan.progress.remove_planned_pages(later.page_count());
        }
        Ok(())
    }

    /// The pages to open next. Each call returns more pages until they yield a batch, so that a search for few rows
    /// opens few pages.
    fn next_pages(&mut self) -> Vec<PageRef> {
        let (mut count, mut bytes) = (0, 0);
        for page in self.pages.iter().rev().take(self.ahead) {
            bytes += page.info.raw_bytes;
            if count > 0 && bytes > BATCH_BYTES as u64 {
                break;
            }
            count += 1;
        }
        assert!(count > 0 || self.pages.is_empty(), "a page is opened only if one is left");
        self.pages.split_off(self.pages.len() - count)
    }

    /// Opens the next pages.
    fn open_more(&mut self, open: &mut Vec<OpenPage>) -> Result<(), EngineError> {
        let workers = self.context.dataflow.workers();
        let pages = self.next_pages();
        // Reading the row or two of a rare page takes less time than starting a thread.
        let shared = pages.iter().filter(|page| !page.is_rare).count();
        let is_far = pages.iter().any(|page| page.segment.is_remote());
        let threads = if is_far { pages.len() } else { workers.min(shared) };
        // A consumer that has read many pages will probably read the next segments too.
        let is_long = is_far && (self.scan.reads_all_pages() || self.ahead >= workers * OPEN_PAGES_PER_WORKER_MAX);
        let coming = if is_long { self.prefetched.of(&self.pages) } else { Vec::new() };
        let has_wide = open.iter().any(|page| page.is_wide() && page.rows.is_some());
        let todo = Mutex::new(pages);
        let opened: Mutex<Vec<OpenPage>> = Mutex::default();
        let failure: Mutex<Option<EngineError>> = Mutex::default();
        let (scan, context, in_order) = (&self.scan, &self.context, self.in_order);
        let work = || {
            let _noted = messages::enter_scope(Some(Arc::clone(&context.messages)));
            let _counting = scan.progress.reads().count_thread_reads();
            while let Some(page) = todo.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                match catch_panic("events were read in order of time", || {
                    open_page(scan, context, page, in_order, !has_wide)
                }) {
                    Ok(Some(page)) => opened.lock().unwrap_or_else(PoisonError::into_inner).push(page),
                    Ok(None) => {}
                    Err(error) => {
                        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let help = || context.dataflow.begin_help(is_far, scan.snapshot.sealing.count());
            for helper in (1..threads).map_while(|_| help()) {
                scope.spawn(move || {
                    let _helper = helper;
                    work();
                });
            }
            for page in &coming {
                scope.spawn(|| scan.prefetch_segments(page, context));
            }
            work();
        });
        let opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Stop once the opened pages yield a whole batch: with a slow consumer, all their rows would stay in memory.
        let rows = opened.iter().map(|page| page.keys.len()).sum::<usize>();
        let bytes = opened.iter().map(|page| page.keys.len() * page.row_bytes).sum::<usize>();
        if rows < BATCH_ROWS && bytes < BATCH_BYTES {
            self.ahead = (self.ahead * 2).min(workers * OPEN_PAGES_PER_WORKER_MAX);
        }
        open.extend(opened);
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Takes rows that no unopened page can precede, up to the bytes of a batch.
    fn emit_ready_rows(&mut self, open: &mut Vec<OpenPage>) -> Result<(), EngineError> {
        let of_page = self.pages.last().map(|page| (page.info.time_max, page.arrival() + u64::from(page.info.events)));
        let bound = of_page.max(self.later.last().map(|later| (later.time_max(), u64::MAX)));
        let going = |page: &OpenPage| {
            let rest = &page.keys[page.next..];
            bound.map_or(rest.len(), |bound| rest.partition_point(|key| *key >= bound))
        };
        let mut counts: Vec<usize> = open.iter().map(going).collect();
        if !self.reread_due_pages(open, &counts)? {
            return Ok(());
        }
        let is_cut = limit_batch_bytes(open, &mut counts);
        let mut parts: Vec<Vec<RecordBatch>> = Vec::new();
        let mut keys: Vec<(TimeNs, u64)> = Vec::new();
        for (page, count) in open.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            keys.extend_from_slice(&page.keys[page.next..page.next + count]);
            parts.push(page.take_next(count));
        }
        open.retain(|page| {
            let is_open = page.next < page.keys.len();
            if !is_open {
                page.page.release();
            }
            is_open
        });
        if parts.is_empty() {
            return Ok(());
        }
        let rows: usize = parts.iter().flatten().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, keys.len(), "a row that is taken has its key");
        let is_sparse = parts.iter().any(|part| part.len() > 1);
        let sorted = parts.len() == 1 || !self.in_order;
        let parts: Vec<RecordBatch> = parts.into_iter().flatten().collect();
        if is_sparse || !self.in_order {
            self.ready = if sorted { parts } else { gather_rows(&parts, newest_first_order(&keys).values())? };
        } else {
            let rows = concat_rows(parts)?;
            let rows = if sorted { rows } else { rows::take(&rows, &newest_first_order(&keys))? };
            let starts = (0..rows.num_rows()).step_by(BATCH_ROWS);
            self.ready = starts.map(|start| rows.slice(start, BATCH_ROWS.min(rows.num_rows() - start))).collect();
        }
        if is_cut {
            // Rows are copied, so that they do not keep their pages' buffers alive.
            for batch in &mut self.ready {
                *batch = compact(batch)?.0;
            }
        }
        let ready: usize = self.ready.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(ready, rows, "the emitted rows are those that were taken");
        self.ready.reverse();
        // Other searches should not wait for a slow consumer. With a top-k threshold, rows are kept, because a second
        // read could leave out other rows.
        if !self.scan.has_threshold() && self.context.dataflow.wide_pages().has_waiters() {
            open.iter_mut().filter(|page| page.is_wide()).for_each(|page| page.rows = None);
        }
        Ok(())
    }

    /// Reads pages again whose rows were dropped and are now due; false if the search ended before that.
    fn reread_due_pages(&self, open: &mut [OpenPage], counts: &[usize]) -> Result<bool, EngineError> {
        assert_eq!(open.len(), counts.len(), "each open page has a count");
        let mut has_wide = open.iter().any(|page| page.is_wide() && page.rows.is_some());
        for (page, count) in open.iter_mut().zip(counts) {
            if *count == 0 || page.rows.is_some() {
                continue;
            }
            let Some(entry) = acquire_entry(&self.context, &page.page, !has_wide) else { return Ok(false) };
            has_wide |= page.is_wide();
            let read = read_page(&self.scan, &self.context, &page.page, self.in_order)?;
            let read = read.filter(|read| read.keys == page.keys);
            let Some(read) = read else {
                return Err(EngineError::invalid("events were damaged or removed while they were sent: search again"));
            };
            self.scan.uncount_page(&page.page, (read.keys.len() + read.excluded) as u64);
            page.rows = Some(PageRows::new(read.batches, read.bytes, entry));
        }
        Ok(true)
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        loop {
            if let Some(rows) = self.ready.pop() {
                return Ok(Some(rows));
            }
            let open = Arc::clone(&self.open);
            let mut open = open.lock();
            let is_all_open = self.pages.is_empty() && self.later.is_empty();
            if self.context.stop.is_cancelled() || (is_all_open && open.is_empty()) {
                return Ok(None);
            }
            if self.context.stop.should_stop_reading() && !is_all_open {
                self.context.stop.mark_partial();
                self.pages.clear();
                self.later.clear();
            }
            self.open_later(&open)?;
            if self.pages.last().is_some_and(|page| !has_newer_rows(&open, page)) {
                self.open_more(&mut open)?;
            }
            self.emit_ready_rows(&mut open)?;
        }
    }
}

impl Iterator for OrderedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// Sort key of pages by their newest event.
fn newest_event(page: &PageRef) -> (TimeNs, u64) {
    (page.info.time_max, page.arrival())
}

/// Whether open pages have rows that come before all rows of `page`.
fn has_newer_rows(open: &[OpenPage], page: &PageRef) -> bool {
    let bound = (page.info.time_max, page.arrival() + u64::from(page.info.events));
    open.iter().any(|open| open.keys.get(open.next).is_some_and(|key| *key >= bound))
}

/// Reduces the number of rows taken from each page so that their bytes fit the limit; the newest rows of all pages are
/// kept. True if rows of these pages remain for a later batch.
fn limit_batch_bytes(open: &[OpenPage], counts: &mut [usize]) -> bool {
    let all: usize = open.iter().zip(&*counts).map(|(page, count)| page.row_bytes * count).sum();
    if all <= BATCH_BYTES {
        return false;
    }
    let next = |at: usize, taken: usize, count: usize| {
        let page = &open[at];
        (taken < count).then(|| (page.keys[page.next + taken], at))
    };
    let mut heap: BinaryHeap<_> = (0..open.len()).filter_map(|at| next(at, 0, counts[at])).collect();
    let (mut taken, mut bytes) = (vec![0; open.len()], 0);
    while let Some((_, at)) = heap.pop() {
        let more = open[at].row_bytes(taken[at]);
        if bytes > 0 && bytes + more > BATCH_BYTES {
            break;
        }
        bytes += more;
        taken[at] += 1;
        heap.extend(next(at, taken[at], counts[at]));
    }
    assert!(taken.iter().zip(&*counts).all(|(taken, count)| taken <= count), "only rows that may be emitted are taken");
    counts.copy_from_slice(&taken);
    true
}

/// Permission to hold the rows of a page in memory; the outer option is `None` if the search ended while waiting, the
/// inner option if the page is not wide.
fn acquire_entry(context: &CommandContext, page: &PageRef, may_wait: bool) -> Option<Option<BytePermit>> {
    if page.info.raw_bytes <= WIDE_PAGE_BYTES_MIN {
        return Some(None);
    }
    let bytes = usize::try_from(page.info.raw_bytes).unwrap_or(usize::MAX);
    context.dataflow.wide_pages().acquire(bytes, may_wait, || context.stop.is_cancelled()).map(Some)
}

fn open_page(
    scan: &EventScan,
    context: &CommandContext,
    page: PageRef,
    in_order: bool,
    may_wait: bool,
) -> Result<Option<OpenPage>, EngineError> {
    let Some(entry) = acquire_entry(context, &page, may_wait) else { return Ok(None) };
    match read_page(scan, context, &page, in_order)? {
        Some(read) => Ok(Some(OpenPage::new(page, read, entry))),
        None => {
            page.release();
            Ok(None)
        }
    }
}

fn read_page(
    scan: &EventScan,
    context: &CommandContext,
    page: &PageRef,
    in_order: bool,
) -> Result<Option<ReadPage>, EngineError> {
    let mut left = 0;
    let Some(rows) = scan.read_page(page, false, context, &mut left)? else { return Ok(None) };
    if !in_order {
        let (rows, bytes) = compact(&rows)?;
        let keys = vec![FIRST_KEY; rows.num_rows()];
        return Ok(Some(ReadPage { batches: vec![rows], keys, bytes, excluded: left }));
    }
    let times = rows::column_or_null(&rows, "_time");
    let Some(times) = times.as_primitive_opt::<TimestampNanosecondType>() else { return Ok(None) };
    let arrival = page.arrival();
    let keys: Vec<(TimeNs, u64)> = times.values().iter().zip(0..).map(|(time, row)| (*time, arrival + row)).collect();
    let order = newest_first_order(&keys);
    let (mut batches, mut bytes) = (Vec::new(), 0);
    for batch in rows::take_sparse(&rows, &order)? {
        let (batch, more) = compact(&batch)?;
        batches.push(batch);
        bytes += more;
    }
    let keys: Vec<(TimeNs, u64)> = order.values().iter().map(|row| keys[*row as usize]).collect();
    debug_assert!(keys.is_sorted_by(|newer, older| newer >= older), "rows of a page are newest first");
    Ok(Some(ReadPage { batches, keys, bytes, excluded: left }))
}

/// Rows gathered from concatenated batches at these positions, in small steps, since a wide batch is large.
fn gather_rows(parts: &[RecordBatch], places: &[u32]) -> Result<Vec<RecordBatch>, EngineError> {
    let starts: Vec<usize> = parts
        .iter()
        .scan(0, |sum, part| {
            *sum += part.num_rows();
            Some(*sum - part.num_rows())
        })
        .collect();
    let mut all = Vec::with_capacity(places.len() / MANY_COLUMNS_BATCH_ROWS + 1);
    for places in places.chunks(MANY_COLUMNS_BATCH_ROWS) {
        let mut order: Vec<u32> = (0..u32_of(places.len())).collect();
        order.sort_unstable_by_key(|at| places[*at as usize]);
        // Rows in storage order, and the output position of each row.
        let (mut rows, mut goes_to) = (Vec::new(), vec![0u32; places.len()]);
        let mut left = order.as_slice();
        while let Some(first) = left.first() {
            let part = starts.partition_point(|start| *start <= places[*first as usize] as usize) - 1;
            let end = starts[part] + parts[part].num_rows();
            let count = left.partition_point(|at| (places[*at as usize] as usize) < end);
            let within: UInt32Array =
                left[..count].iter().map(|at| places[*at as usize] - u32_of(starts[part])).collect();
            rows.push(rows::take(&parts[part], &within)?);
            left = &left[count..];
        }
        order.iter().zip(0u32..).for_each(|(at, place)| goes_to[*at as usize] = place);
        all.push(rows::take(&concat_rows(rows)?, &UInt32Array::from(goes_to))?);
    }
    Ok(all)
}

/// Positions of the keys in descending order.
fn newest_first_order(keys: &[(TimeNs, u64)]) -> UInt32Array {
    let mut places: Vec<u32> = (0..u32_of(keys.len())).collect();
    if keys.is_sorted() {
        places.reverse();
    } else {
        // The keys of several pages are a few descending runs, which the stable sort finds and merges.
        places.sort_by(|a, b| keys[*b as usize].cmp(&keys[*a as usize]));
    }
    UInt32Array::from(places)
}
