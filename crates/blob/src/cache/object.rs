//! Objects that are read through the cache.
//!
//! The blocks of a read form runs of neighbouring blocks. Each run has a buffer, into which cached blocks are read and
//! fetched blocks are copied; the bytes that the caller receives are parts of these buffers.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use quarry_bucket::{ReadAt, ReadError};
use quarry_stdx::ErrorKind;

use super::extent::ExtentFile;
use super::{BLOCK_BYTES, BlockCache, FetchGuard, lock};
use crate::reads::{self, ReadStats};
use crate::{BlobError, OpenedObject};

/// Maximum number of blocks between two missing blocks that are fetched with them, to save a request.
const GAP_BLOCKS: u64 = 1;

/// Maximum number of blocks that are read while their object is opened; other readers of the object wait meanwhile.
const EARLY_BLOCKS_MAX: u64 = 128;

/// Opens an object on its store and reads these ranges of it.
pub type OpenSource = Box<dyn Fn(&[Range<u64>]) -> Result<OpenedObject, BlobError> + Send + Sync>;

/// Outcome of the read that came with opening an object.
type FirstRead = Result<Vec<Bytes>, ReadError>;

/// An object read through a cache.
#[derive(Clone)]
pub struct CachedObject {
    cache: Arc<BlockCache>,
    name: Arc<str>,
    size: u64,
    lasting: bool,
    source: Arc<Source>,
}

/// The object on its store, opened on first use.
struct Source {
    open: OpenSource,
    opened: Mutex<Option<Arc<dyn ReadAt>>>,
    /// Ranges of blocks fetched.
    fetches: AtomicU64,
}

/// Neighbouring blocks that are read together.
struct BlockRun {
    blocks: Range<u64>,
    /// The bytes of the object that the blocks hold.
    span: Range<u64>,
    /// Blocks whose bytes are still missing, ascending.
    missing: Vec<Range<u64>>,
    /// The bytes of the blocks; empty before the first one is found.
    buffer: Vec<u8>,
    /// The bytes of all blocks, if a single fetch returned them; replaces the buffer.
    fetched: Option<Bytes>,
}

impl BlockRun {
    /// The part of the buffer for these bytes of the object, which must be in the run.
    fn part(&mut self, span: &Range<u64>) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = vec![0; (self.span.end - self.span.start) as usize];
        }
        &mut self.buffer[(span.start - self.span.start) as usize..(span.end - self.span.start) as usize]
    }
}

impl fmt::Debug for CachedObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CachedObject").field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

impl CachedObject {
    pub(super) fn new(cache: Arc<BlockCache>, name: &str, size: u64, open: OpenSource) -> CachedObject {
        let source = Arc::new(Source { open, opened: Mutex::new(None), fetches: AtomicU64::new(0) });
        CachedObject { cache, name: name.into(), size, lasting: false, source }
    }

    /// The same object; blocks read through the returned handle are evicted last.
    pub fn lasting(&self) -> CachedObject {
        CachedObject { lasting: true, ..self.clone() }
    }

    /// The object on its store. If it is opened now, also returns the outcome of reading `ranges`, which takes no
    /// further round trip.
    fn source(&self, ranges: &[Range<u64>]) -> Result<(Arc<dyn ReadAt>, Option<FirstRead>), ReadError> {
        let mut source = lock(&self.source.opened);
        if let Some(source) = &*source {
            return Ok((Arc::clone(source), None));
        }
        // Counted before the request, because a change of the count shows that the search waits for a volume.
        reads::add_to_current(ReadStats { requests: 1, ..ReadStats::default() });
        self.count_requests(ranges.len());
        let start = self.cache.clock.elapsed_ns();
        let OpenedObject { object, read } = (self.source.open)(ranges).map_err(|error| error.into_read_error(0, 0))?;
        let waited_ns = self.cache.waited_since(start);
        reads::add_to_current(ReadStats { waited_ns, ..ReadStats::default() });
        if object.len() != self.size {
            let reason = format!("{} has {} bytes, {} were written", self.name, object.len(), self.size);
            return Err(ReadError::Failed { offset: 0, len: 0, kind: ErrorKind::Corrupt, reason });
        }
        Ok((Arc::clone(source.insert(object)), Some(read)))
    }

    /// The bytes that neighbouring blocks hold, limited by the object's end.
    fn span_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * BLOCK_BYTES..(blocks.end * BLOCK_BYTES).min(self.size)
    }

    /// The blocks that contain these ranges, ascending and disjoint.
    fn blocks_of(&self, ranges: &[Range<u64>]) -> Result<Vec<Range<u64>>, ReadError> {
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            let len = range.end.saturating_sub(range.start);
            if range.end > self.size || range.start > range.end {
                return Err(ReadError::PastEnd { offset: range.start, len: len as usize, size: self.size });
            }
            if len > 0 {
                all.push(range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES));
            }
        }
        all.sort_unstable_by_key(|blocks| blocks.start);
        Ok(merged(all, 0))
    }

    /// Reads the missing blocks that are in the cache and fetches the others.
    fn fill(&self, runs: &mut [BlockRun]) -> Result<(), ReadError> {
        loop {
            let missing: Vec<Range<u64>> = runs.iter().flat_map(|run| run.missing.iter().cloned()).collect();
            if missing.is_empty() {
                return Ok(());
            }
            let claim = self.cache.claim(&self.name, &missing, self.lasting);
            let fetching = FetchGuard { cache: &self.cache, name: &self.name, blocks: &claim.fetch };
            claim.here.iter().for_each(|(blocks, file)| self.read_cached(blocks.clone(), file, runs));
            if !claim.fetch.is_empty() {
                self.fetch(&claim.fetch, runs)?;
            }
            drop(fetching);
            if claim.here.is_empty() && claim.fetch.is_empty() {
                self.cache.wait_for_others(&self.name, &missing);
            }
        }
    }

    /// Reads cached blocks, which must be in one run; damaged ones are forgotten.
    fn read_cached(&self, blocks: Range<u64>, file: &ExtentFile, runs: &mut [BlockRun]) {
        let span = self.span_of(&blocks);
        let at = runs.partition_point(|run| run.blocks.end <= blocks.start);
        let Some(run) = runs.get_mut(at) else { return };
        match file.read_into(blocks.start, run.part(&span)) {
            Ok(true) => {
                let cached_bytes = span.end - span.start;
                self.cache.counters.bytes_read.fetch_add(cached_bytes, Ordering::Relaxed);
                reads::add_to_current(ReadStats { cached_reads: 1, cached_bytes, ..ReadStats::default() });
                run.missing = without(&run.missing, &blocks);
            }
            // Reads the blocks one by one to find the intact ones.
            _ if blocks.end - blocks.start > 1 => {
                blocks.for_each(|block| self.read_cached(block..block + 1, file, runs));
            }
            _ => self.cache.discard_damaged(&self.name, blocks.start),
        }
    }

    /// Fetches blocks and stores them.
    fn fetch(&self, wanted: &[Range<u64>], runs: &mut [BlockRun]) -> Result<(), ReadError> {
        // The last block comes with the end of the object, which is read on opening.
        let is_end = wanted.last().is_some_and(|blocks| blocks.end * BLOCK_BYTES >= self.size);
        let early = if is_end { Vec::new() } else { merged(wanted.to_vec(), GAP_BLOCKS) };
        let is_short = early.iter().map(|blocks| blocks.end - blocks.start).sum::<u64>() <= EARLY_BLOCKS_MAX;
        let early = if is_short { early } else { Vec::new() };
        let spans_of = |fetches: &[Range<u64>]| fetches.iter().map(|blocks| self.span_of(blocks)).collect::<Vec<_>>();
        let (source, first_read) = self.source(&spans_of(&early))?;
        let mut wanted = wanted.to_vec();
        if self.cache.writes
            && let Some((start, bytes)) = source.take_tail()
        {
            let first = start / BLOCK_BYTES;
            let fetched_bytes = bytes.len() as u64;
            self.cache.counters.bytes_fetched.fetch_add(fetched_bytes, Ordering::Relaxed);
            reads::add_to_current(ReadStats { fetched_bytes, ..ReadStats::default() });
            self.cache.store_blocks(&self.name, first, &bytes, true);
            let tail = first..first + fetched_bytes.div_ceil(BLOCK_BYTES);
            self.add_fetched(&tail, &bytes, runs);
            wanted = without(&wanted, &tail);
        }
        if let Some(read) = first_read.filter(|_| !early.is_empty()) {
            return self.take_fetched(&early, read, runs);
        }
        let fetches = merged(wanted, GAP_BLOCKS);
        if fetches.is_empty() {
            return Ok(());
        }
        self.count_requests(fetches.len());
        let start = self.cache.clock.elapsed_ns();
        let answered = source.read_ranges(&spans_of(&fetches));
        let waited_ns = self.cache.waited_since(start);
        reads::add_to_current(ReadStats { waited_ns, ..ReadStats::default() });
        self.take_fetched(&fetches, answered, runs)
    }

    /// Counts requests. They are counted before their answers arrive, because a change of the count shows that a reader
    /// waits.
    fn count_requests(&self, requests: usize) {
        for counter in [&self.cache.counters.fetches, &self.source.fetches] {
            counter.fetch_add(requests as u64, Ordering::Relaxed);
        }
        reads::add_to_current(ReadStats { requests: requests as u64, ..ReadStats::default() });
    }

    /// Stores fetched blocks and adds them to the runs that contain them.
    fn take_fetched(
        &self,
        fetches: &[Range<u64>],
        answered: FirstRead,
        runs: &mut [BlockRun],
    ) -> Result<(), ReadError> {
        for (blocks, bytes) in fetches.iter().zip(&answered?) {
            let fetched_bytes = bytes.len() as u64;
            reads::add_to_current(ReadStats { fetched_bytes, ..ReadStats::default() });
            self.cache.counters.bytes_fetched.fetch_add(fetched_bytes, Ordering::Relaxed);
            self.cache.store_blocks(&self.name, blocks.start, bytes, self.lasting);
            self.add_fetched(blocks, bytes, runs);
        }
        Ok(())
    }

    /// Adds fetched blocks to the runs that contain them.
    fn add_fetched(&self, blocks: &Range<u64>, bytes: &Bytes, runs: &mut [BlockRun]) {
        let whole = self.span_of(blocks);
        assert_eq!(bytes.len() as u64, whole.end - whole.start, "a store returns exactly the requested bytes");
        let first = runs.partition_point(|run| run.blocks.end <= blocks.start);
        for run in runs[first..].iter_mut().take_while(|run| run.blocks.start < blocks.end) {
            if run.blocks == *blocks {
                run.fetched = Some(bytes.clone());
                run.missing.clear();
                continue;
            }
            let common = run.blocks.start.max(blocks.start)..run.blocks.end.min(blocks.end);
            let span = self.span_of(&common);
            let (from, to) = ((span.start - whole.start) as usize, (span.end - whole.start) as usize);
            run.part(&span).copy_from_slice(&bytes[from..to]);
            run.missing = without(&run.missing, &common);
        }
    }
}

impl ReadAt for CachedObject {
    fn len(&self) -> u64 {
        self.size
    }

    fn request_count(&self) -> u64 {
        self.source.fetches.load(Ordering::Relaxed)
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        let past_end = ReadError::PastEnd { offset, len, size: self.size };
        let end = offset.checked_add(len as u64).ok_or(past_end)?;
        let mut read = self.read_ranges(std::slice::from_ref(&(offset..end)))?;
        Ok(read.pop().unwrap_or_default())
    }

    fn is_cached(&self, ranges: &[Range<u64>]) -> bool {
        self.blocks_of(ranges).is_ok_and(|blocks| self.cache.contains_all(&self.name, &blocks))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
        let run_of = |blocks: Range<u64>| {
            let (span, missing) = (self.span_of(&blocks), vec![blocks.clone()]);
            BlockRun { blocks, span, missing, buffer: Vec::new(), fetched: None }
        };
        let mut runs: Vec<BlockRun> = self.blocks_of(ranges)?.into_iter().map(run_of).collect();
        self.fill(&mut runs)?;
        let bytes_of = |run: BlockRun| (run.span, run.fetched.unwrap_or_else(|| run.buffer.into()));
        let runs: Vec<(Range<u64>, Bytes)> = runs.into_iter().map(bytes_of).collect();
        let part = |range: &Range<u64>| {
            let at = runs.partition_point(|(span, _)| span.end <= range.start);
            match runs.get(at).filter(|_| !range.is_empty()) {
                Some((span, bytes)) => {
                    bytes.slice((range.start - span.start) as usize..(range.end - span.start) as usize)
                }
                None => Bytes::new(),
            }
        };
        Ok(ranges.iter().map(part).collect())
    }
}

/// Merges ascending ranges with at most `gap` between them.
fn merged(ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end + gap => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// The ranges without the numbers in `removed`.
fn without(ranges: &[Range<u64>], removed: &Range<u64>) -> Vec<Range<u64>> {
    let split =
        |range: &Range<u64>| [range.start..range.end.min(removed.start), range.start.max(removed.end)..range.end];
    ranges.iter().flat_map(split).filter(|range| !range.is_empty()).collect()
}
