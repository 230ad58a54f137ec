//! Read-ahead: the request for the columns and blocks that a search reads in one page of a slab also fetches the same
//! columns and blocks of the next pages.
//!
//! A request to remote storage takes as long as transferring megabytes. Which columns a search reads is known after the
//! first page; the chunks of a column are consecutive, so the chunks of other pages come with the same request. A
//! search that may end at any time starts with single pages and fetches more at once the further it gets.
//!
//! Not here: reading segments concurrently (scan); caching on local disk (blob).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quarry_event::PageSet;

use crate::block::{BlockKind, BlockRef};

/// Maximum bytes held for one slab; beyond that, nothing is read ahead.
const HELD_BYTES_MAX: u64 = 64 << 20;
/// Maximum bytes held for all slabs that share a [`ReadAheadBudget`].
const ALL_HELD_BYTES_MAX: u64 = 256 << 20;
/// Maximum gap between two ranges that are fetched as one, together with the gap, to save a request.
const GAP_BYTES_MAX: u64 = 48 << 10;
/// Like [`GAP_BYTES_MAX`], for a search of few pages, which needs one small piece of each column of a slab for each
/// page. The gap may span a few whole columns: many columns of 64 pages take about 32 KiB each. Such a search waits for
/// all pieces together, and a request takes about a millisecond of CPU time in client and store, more than the bytes of
/// a gap.
const FEW_GAP_BYTES: u64 = 112 << 10;
/// Maximum number of pages of a slab that count as few. A search that may end before it has read its few pages fetches
/// each of them as a whole.
const FEW_PAGES_MAX: u32 = 2;
/// Factor by which the number of pages fetched at once grows with every page opened.
const GROWTH_FACTOR: usize = 4;

/// Memory budget of read-ahead, shared by all searches of a store.
#[derive(Clone, Debug, Default)]
pub struct ReadAheadBudget(Arc<AtomicU64>);

/// Pages of one slab that a search is going to read, and the data fetched for them.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    pages: PageSet,
    /// Whether the search is certain to read all of these pages.
    is_certain: bool,
    /// Blocks of every page of the slab.
    blocks: Vec<Vec<BlockRef>>,
    budget: ReadAheadBudget,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Fetched data by start offset.
    fetched: BTreeMap<u64, Bytes>,
    bytes: u64,
    opened: PageSet,
    done: PageSet,
    /// Columns read so far.
    columns: BTreeSet<u32>,
    /// Columns that will be read and have not been fetched yet.
    planned: BTreeSet<u32>,
}

impl ReadAhead {
    pub(crate) fn new(
        pages: PageSet,
        is_certain: bool,
        blocks: Vec<Vec<BlockRef>>,
        budget: &ReadAheadBudget,
    ) -> ReadAhead {
        ReadAhead { pages, is_certain, blocks, budget: budget.clone(), state: Mutex::default() }
    }

    /// Notes that a page will not be read any more. After the last page, the data is dropped.
    pub(crate) fn release_page(&self, page: usize) {
        let mut state = self.lock();
        state.done.0 |= PageSet::single(page).0;
        if self.pages.0 & !state.done.0 == 0 {
            self.release_memory(&mut state);
        }
    }

    /// The held bytes of a range.
    pub(crate) fn get(&self, range: &Range<u64>) -> Option<Bytes> {
        let state = self.lock();
        let (start, bytes) = state.fetched.range(..=range.start).next_back()?;
        let (from, to) = ((range.start - start) as usize, (range.end - start) as usize);
        (to <= bytes.len()).then(|| bytes.slice(from..to))
    }

    /// The page and the pages to fetch with it, in the order in which they are needed: first the pages with lower
    /// numbers, whose events are older, because searches read from newest to oldest.
    pub(crate) fn pages_to_fetch(&self, page: usize) -> Vec<usize> {
        let opened = {
            let mut state = self.lock();
            state.opened.0 |= PageSet::single(page).0;
            state.opened.0.count_ones()
        };
        let most = match self.is_certain {
            true => self.blocks.len(),
            false => GROWTH_FACTOR.saturating_pow(opened.saturating_sub(1)),
        };
        let before = (0..page).rev();
        let behind = page + 1..self.blocks.len();
        let others = before.chain(behind).filter(|other| self.pages.contains(*other));
        std::iter::once(page).chain(others).take(most.max(1)).collect()
    }

    /// Whether so few pages are read that each page is better fetched as a whole.
    pub(crate) fn is_for_few_events(&self) -> bool {
        !self.is_certain && self.reads_few_pages()
    }

    fn reads_few_pages(&self) -> bool {
        self.pages.0.count_ones() <= FEW_PAGES_MAX
    }

    /// The newest page, which a search of few events reads first; `None` for other searches, and after a page was
    /// opened.
    pub(crate) fn first_page_of_few(&self) -> Option<usize> {
        let newest = self.pages.0.checked_ilog2()? as usize;
        (self.is_for_few_events() && self.lock().opened.0 == 0).then_some(newest)
    }

    /// These columns and the columns read in earlier pages. The earlier columns are omitted if the search is certain to
    /// read all pages, because they were fetched for all pages at once.
    pub(crate) fn with_earlier_columns(&self, columns: Vec<u32>) -> Vec<u32> {
        if self.is_certain {
            return columns;
        }
        let mut state = self.lock();
        state.columns.extend(columns);
        state.columns.iter().copied().collect()
    }

    /// Notes that a few values of these columns will be read: the next request also fetches these columns.
    pub(crate) fn plan_columns(&self, columns: impl Iterator<Item = u32>) {
        self.lock().planned.extend(columns);
    }

    /// The planned columns; empty on later calls.
    pub(crate) fn take_planned_columns(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.lock().planned)
    }

    /// Ranges of blocks of these kinds in the page and in the pages fetched with it.
    pub(crate) fn block_ranges_to_fetch(&self, page: usize, wanted: &dyn Fn(BlockKind) -> bool) -> Vec<Range<u64>> {
        let pages = self.pages_to_fetch(page);
        let blocks = pages.iter().filter_map(|page| self.blocks.get(*page)).flatten();
        blocks.filter(|at| wanted(at.kind)).map(BlockRef::range).collect()
    }

    /// The ranges to fetch, ascending and disjoint, without those held in memory; empty if they exceed the budget.
    pub(crate) fn missing_ranges(&self, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        ranges.retain(|range| !range.is_empty() && self.get(range).is_none());
        ranges.sort_unstable_by_key(|range| range.start);
        let gap = if self.reads_few_pages() { FEW_GAP_BYTES } else { GAP_BYTES_MAX };
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        let bytes: u64 = merged.iter().map(|range| range.end - range.start).sum();
        let of_all = self.budget.0.load(Ordering::Relaxed);
        if self.lock().bytes + bytes > HELD_BYTES_MAX || of_all + bytes > ALL_HELD_BYTES_MAX {
            merged.clear();
        }
        merged
    }

    /// Holds fetched data.
    pub(crate) fn insert(&self, start: u64, bytes: Bytes) {
        let mut state = self.lock();
        let held = bytes.len() as u64;
        let before = state.fetched.insert(start, bytes).map_or(0, |before| before.len() as u64);
        state.bytes = state.bytes + held - before;
        self.budget.0.fetch_add(held, Ordering::Relaxed);
        self.budget.0.fetch_sub(before, Ordering::Relaxed);
    }

    fn release_memory(&self, state: &mut State) {
        state.fetched.clear();
        self.budget.0.fetch_sub(std::mem::take(&mut state.bytes), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let mut state = self.lock();
        self.release_memory(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use quarry_event::template::{PageColumn, TEXT_COLUMN};
    use quarry_event::{FieldColumns, PageColumns, TermQuery, ValueColumns};

    use super::*;
    use crate::columns::tests::{batch_of, encoded_by_words};
    use crate::error::ReadError;
    use crate::{BucketReader, MAX_PAGE_EVENTS, MemoryObject, ReadAt};

    /// An object whose requests are counted; ranges that are read together count as one request.
    struct CountedObject {
        object: MemoryObject,
        requests: Arc<AtomicUsize>,
    }

    impl ReadAt for CountedObject {
        fn len(&self) -> u64 {
            self.object.len()
        }

        fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.object.read_at(offset, len)
        }

        fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.object.read_ranges(ranges)
        }
    }

    const PAGES: usize = 12;

    /// A bucket whose columns are too large to be fetched by the request that opens it, which reads the end of the
    /// object.
    fn bucket() -> (BucketReader, Arc<AtomicUsize>) {
        let mixed = |at: usize, by: u64| (at as u64 + 1).wrapping_mul(by) >> 20;
        let text = |at: usize| {
            let (user, took) = (mixed(at, 0x9e37_79b9_7f4a_7c15), mixed(at, 0xc4ce_b9fe_1a85_ec53));
            format!("user={user} took={} level={} free{}", took % 1_000_000, at % 7, mixed(at, 0xff51_afd7_ed55_8ccd))
        };
        let encoded = encoded_by_words(&[batch_of((0..PAGES * MAX_PAGE_EVENTS).map(text))], 1);
        let requests = Arc::<AtomicUsize>::default();
        let object = CountedObject { object: MemoryObject(encoded.object.clone()), requests: Arc::clone(&requests) };
        (BucketReader::open(Arc::new(object)).unwrap(), requests)
    }

    /// All columns of some pages as `reader` reads them, and the texts of each page.
    fn read_all_columns(
        reader: &BucketReader,
        pages: impl Iterator<Item = usize>,
    ) -> Vec<(Vec<Arc<PageColumn>>, Bytes)> {
        let columns = reader.template_set(0).unwrap().unwrap().columns.len() as u32;
        let of_page = |page: usize| {
            let mut values = reader.template_page(0, page).unwrap().unwrap();
            let read = (0..columns).map(|column| values.column(column).unwrap()).collect();
            let rows: Vec<u32> = (0..40).collect();
            let texts = values.texts(TEXT_COLUMN, &rows).unwrap().bytes;
            reader.release_page(page);
            (read, texts)
        };
        pages.map(of_page).collect()
    }

    #[test]
    fn one_read_fetches_columns_for_all_pages() {
        let (plain, requests) = bucket();
        let expected = read_all_columns(&plain, (0..PAGES).rev());
        let columns = plain.template_set(0).unwrap().unwrap().columns.len();
        let without = requests.swap(0, Ordering::Relaxed);
        let (reader, requests) = bucket();
        let ahead = reader.with_read_ahead(0, PageSet::first(PAGES), true, &ReadAheadBudget::default());
        requests.store(0, Ordering::Relaxed);
        assert_eq!(read_all_columns(&ahead, (0..PAGES).rev()), expected);
        let with = requests.load(Ordering::Relaxed);
        assert!(with <= columns + 3 && without > 3 * with, "{with} requests for {columns} columns, {without} without");
        // The held blocks were released with the last page.
        let (first, len) = (PAGES - 1, 16);
        let search = ahead.source.read_ahead().unwrap();
        let block = search.blocks[first].iter().find(|at| at.kind == BlockKind::Time).unwrap();
        assert!(search.get(&(block.offset..block.offset + len)).is_none() && search.lock().bytes == 0);
    }

    #[test]
    fn announced_columns_are_fetched_in_one_request() {
        let (reader, requests) = bucket();
        let all: Vec<u32> = (0..reader.template_set(0).unwrap().unwrap().columns.len() as u32).collect();
        let read = |reader: &BucketReader, is_announced: bool| -> Vec<Arc<PageColumn>> {
            let mut columns = Vec::new();
            // The first page comes first, because the end of the object, with the last pages of some columns, is in
            // memory.
            for page in 0..PAGES {
                let mut page = reader.template_page(0, page).unwrap().unwrap();
                if is_announced {
                    page.prefetch_columns(&all).unwrap();
                }
                columns.extend(all.iter().map(|column| page.column(*column).unwrap()));
            }
            columns
        };
        let expected = read(&reader, false);
        let ahead = reader.with_read_ahead(0, PageSet::first(PAGES), true, &ReadAheadBudget::default());
        requests.store(0, Ordering::Relaxed);
        assert_eq!(read(&ahead, true), expected);
        assert_eq!(requests.load(Ordering::Relaxed), 1);
        // Without read-ahead, each column is fetched when it is read.
        reader.template_page(0, 0).unwrap().unwrap().prefetch_columns(&all).unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn planned_columns_come_with_the_first_request() {
        let (reader, requests) = bucket();
        let ahead = reader.with_read_ahead(0, PageSet(0b1001), true, &ReadAheadBudget::default());
        let columns = ahead.template_set(0).unwrap().unwrap().columns.len() as u32;
        ahead.plan_columns(0, &(1..columns).collect::<Vec<u32>>()).unwrap();
        requests.store(0, Ordering::Relaxed);
        for page in [3, 0] {
            let mut values = ahead.template_page(0, page).unwrap().unwrap();
            (0..columns).for_each(|column| drop(values.column(column).unwrap()));
        }
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn uncertain_searches_prefetch_more_pages_as_they_progress() {
        let (reader, requests) = bucket();
        let expected = read_all_columns(&reader, (0..PAGES).rev());
        let (reader, _) = (bucket().0, requests);
        let ahead = reader.with_read_ahead(0, PageSet::first(PAGES), false, &ReadAheadBudget::default());
        let search = Arc::clone(ahead.source.read_ahead().unwrap());
        let mut held = Vec::new();
        for (number, page) in (0..PAGES).rev().enumerate() {
            assert_eq!(read_all_columns(&ahead, std::iter::once(page)), expected[number..number + 1]);
            held.push(search.lock().bytes);
        }
        assert!(held[0] * 3 < held[1] && held[1] < held[5], "{held:?}");
        let grown = held.windows(2).filter(|pair| pair[1] > pair[0]).count();
        assert!(grown <= 3, "{held:?}");
    }

    #[test]
    fn single_page_reads_include_the_dictionaries() {
        let (reader, requests) = bucket();
        let ahead = reader.with_read_ahead(0, PageSet::single(3), false, &ReadAheadBudget::default());
        let columns = ahead.template_set(0).unwrap().unwrap().columns.len() as u32;
        requests.store(0, Ordering::Relaxed);
        (0..columns).for_each(|column| drop(ahead.dictionary(0, column).unwrap()));
        let mut values = ahead.template_page(0, 3).unwrap().unwrap();
        (0..columns).for_each(|column| drop(values.column(column).unwrap()));
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn single_pages_are_fetched_in_one_request() {
        let (reader, requests) = bucket();
        let ahead = reader.with_read_ahead(0, PageSet::single(3), false, &ReadAheadBudget::default());
        let columns = read_all_columns(&ahead, std::iter::empty());
        assert!(columns.is_empty());
        requests.store(0, Ordering::Relaxed);
        let mut values = ahead.template_page(0, 3).unwrap().unwrap();
        for column in 0..ahead.template_set(0).unwrap().unwrap().columns.len() as u32 {
            values.column(column).unwrap();
        }
        ahead.read_page(0, 3, PageColumns { raw: true, ..PageColumns::NONE }).unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn read_ahead_memory_is_bounded_and_released() {
        let (reader, requests) = bucket();
        let expected = read_all_columns(&reader, (0..PAGES).rev());
        let budget = ReadAheadBudget::default();
        let held = || budget.0.load(Ordering::Relaxed);
        let ahead = reader.with_read_ahead(0, PageSet::first(PAGES), true, &budget);
        assert_eq!(read_all_columns(&ahead, std::iter::once(PAGES - 1)), expected[..1]);
        assert!(held() > 0);
        drop(ahead);
        assert_eq!(held(), 0);
        // If other searches use the whole budget, pages are read one by one.
        budget.0.store(ALL_HELD_BYTES_MAX, Ordering::Relaxed);
        requests.store(0, Ordering::Relaxed);
        let ahead = reader.with_read_ahead(0, PageSet::first(PAGES), true, &budget);
        assert_eq!(read_all_columns(&ahead, (0..PAGES).rev()), expected);
        assert!(held() == ALL_HELD_BYTES_MAX && requests.load(Ordering::Relaxed) > 3 * PAGES);
    }

    /// Fields whose values may be in any column.
    struct AllColumns;

    impl FieldColumns for AllColumns {
        fn columns_of(&self, _: &str) -> Option<ValueColumns> {
            None
        }
    }

    #[test]
    fn read_ahead_does_not_change_rows_or_pages() {
        let (reader, _) = bucket();
        for token in ["free12345", "level", "3", "user"] {
            let query = TermQuery::Token(token.into());
            let pages = reader.candidate_pages(0, &query, &AllColumns).unwrap();
            for certain in [true, false] {
                let ahead = reader.with_read_ahead(0, pages, certain, &ReadAheadBudget::default());
                assert_eq!(ahead.candidate_pages(0, &query, &AllColumns).unwrap(), pages);
                for page in (0..PAGES).filter(|page| pages.contains(*page)) {
                    let rows = |reader: &BucketReader| reader.candidate_rows(0, page, &query, &AllColumns, 16).unwrap();
                    assert_eq!(rows(&ahead), rows(&reader), "{token} in page {page}");
                }
            }
        }
    }
}
