//! Cache of remote objects' blocks on the local disk.
//!
//! Objects never change, so a cached block never becomes stale. Reads are split into blocks of 8 KiB. Cached blocks are
//! read and verified against their checksums. Missing blocks are fetched and stored: neighbouring blocks as one run,
//! and all runs concurrently. If several readers miss a block, one of them fetches it and the others wait. Blocks live
//! in files of up to 1 MiB ([`extent`]), which are evicted one by one when the cache or the disk is full
//! ([`eviction`]). No search depends on a cache file: a block that is missing or damaged is fetched, and a failed write
//! is ignored.
//!
//! The files survive a restart. Not here: which objects exist, and complete local copies.

mod eviction;
mod extent;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use quarry_bucket::{ReadAt, ReadError};
use quarry_stdx::{ErrorKind, SharedClock};

use self::eviction::EvictionOrder;
use self::extent::ExtentFile;
use crate::BlobError;
use crate::reads::{self, ReadStats};

/// Size of a cached block, equal to that of a checksum block of remote objects.
const BLOCK_BYTES: u64 = crate::s3::BLOCK_BYTES;
/// Blocks per file, one bit each in a [`BlockSet`].
const EXTENT_BLOCKS: usize = BlockSet::BITS as usize;
/// Maximum open files.
const FILES_MAX: usize = 512;
/// Maximum number of blocks between two missing blocks that are fetched with them, to save a request.
const GAP_BLOCKS: u64 = 1;
/// Bytes written between two checks of the disk's free space; [`BlockCache::set_bytes_max`] checks it as well.
const SPACE_CHECK_BYTES: u64 = 16 << 20;
/// Divisor of the cache size: if the disk is full, the quotient is evicted.
const FULL_DISK_DIVISOR: u64 = 8;
/// Time to wait for another reader's fetch before checking again.
const FETCH_WAIT: Duration = Duration::from_secs(1);

/// Size limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum bytes of all files.
    pub bytes_max: u64,
    /// Maximum number of files. A file with a single block takes as much memory as one with all its blocks.
    pub files_max: usize,
    /// Bytes to keep free on the disk.
    pub free_bytes_min: u64,
}

/// Statistics since the cache was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Current size in bytes.
    pub bytes: u64,
    /// Bytes read from the cache.
    pub bytes_read: u64,
    /// Bytes fetched on a miss.
    pub bytes_fetched: u64,
    /// Runs of blocks fetched.
    pub fetches: u64,
    /// Bytes removed to stay within the limits.
    pub bytes_evicted: u64,
    /// Damaged blocks that were fetched again.
    pub damaged_blocks: u64,
    /// Runs of blocks that could not be written.
    pub failed_writes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    bytes_read: AtomicU64,
    bytes_fetched: AtomicU64,
    fetches: AtomicU64,
    bytes_evicted: AtomicU64,
    damaged_blocks: AtomicU64,
    failed_writes: AtomicU64,
}

/// Blocks of a file, as a bit set.
type BlockSet = u128;

/// Key of a file: the name of the object, and the number of the file within the object.
type Key = (Arc<str>, u32);

/// State of a file.
#[derive(Debug, Default)]
struct Extent {
    /// Cached blocks; unknown until the file is opened.
    present: BlockSet,
    /// Blocks that readers are fetching.
    being_fetched: BlockSet,
    /// Whether the file was opened or created since the start.
    is_known: bool,
}

#[derive(Debug, Default)]
struct State {
    extents: BTreeMap<Key, Extent>,
    order: EvictionOrder<Key>,
    files: BTreeMap<Key, Arc<ExtentFile>>,
    /// Bytes written since the last check of free space.
    kept: u64,
}

/// A block cache in its own folder.
#[derive(Debug)]
pub struct BlockCache {
    folder: PathBuf,
    bytes_max: AtomicU64,
    files_max: usize,
    free_bytes_min: u64,
    clock: SharedClock,
    /// Whether blocks are written; otherwise the cache is read-only.
    writes: bool,
    state: Mutex<State>,
    /// Signalled when a fetch ends.
    fetched: Condvar,
    counters: Counters,
}

/// Opens an object on its store.
pub type OpenSource = Box<dyn Fn() -> Result<Arc<dyn ReadAt>, BlobError> + Send + Sync>;

impl BlockCache {
    /// Opens the cache in `folder`, creating it if missing.
    pub fn open(folder: &Path, limits: CacheLimits, clock: SharedClock) -> Result<Arc<BlockCache>, BlobError> {
        fs::create_dir_all(folder).map_err(|error| BlobError::from_io("create folder", folder, &error))?;
        BlockCache::open_folder(folder, limits, clock, true)
    }

    /// Opens the cache read-only; a missing folder counts as an empty cache.
    pub fn open_read_only(folder: &Path, clock: SharedClock) -> Result<Arc<BlockCache>, BlobError> {
        // A limit would make it forget blocks that are in the folder.
        let limits = CacheLimits { bytes_max: u64::MAX, files_max: usize::MAX, free_bytes_min: 0 };
        BlockCache::open_folder(folder, limits, clock, false)
    }

    fn open_folder(
        folder: &Path,
        limits: CacheLimits,
        clock: SharedClock,
        writes: bool,
    ) -> Result<Arc<BlockCache>, BlobError> {
        let mut state = State::default();
        let mut found = list_extent_files(folder)?;
        found.sort_by_key(|file| file.modified);
        for file in found {
            state.order.touch(&file.key, false, i64::MIN / 2);
            state.order.set_bytes(&file.key, file.bytes);
            state.extents.insert(file.key, Extent::default());
        }
        let cache = BlockCache {
            folder: folder.to_owned(),
            bytes_max: AtomicU64::new(limits.bytes_max),
            files_max: limits.files_max,
            free_bytes_min: limits.free_bytes_min,
            clock,
            writes,
            state: Mutex::new(state),
            fetched: Condvar::new(),
            counters: Counters::default(),
        };
        if writes {
            let mut state = lock(&cache.state);
            cache.evict_to_limits(&mut state);
            cache.evict_to_free_space(&mut state);
            drop(state);
        }
        Ok(Arc::new(cache))
    }

    /// An object of `size` bytes, read through the cache; `open` is called when a block is missing.
    pub fn object(self: &Arc<BlockCache>, name: &str, size: u64, open: OpenSource) -> CachedObject {
        let source = Arc::new(Source { open, opened: Mutex::new(None), fetches: AtomicU64::new(0) });
        CachedObject { cache: Arc::clone(self), name: name.into(), size, lasting: false, source }
    }

    /// Drops all blocks of an object.
    pub fn remove_object(&self, name: &str) {
        let name: Arc<str> = name.into();
        let mut state = lock(&self.state);
        let range = (Arc::clone(&name), 0)..=(name, u32::MAX);
        let keys: Vec<Key> = state.extents.range(range).map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.drop_file(&mut state, key));
    }

    /// Evicts blocks until `bytes` are freed, or no evictable block is left.
    pub fn evict(&self, bytes: u64) {
        let mut state = lock(&self.state);
        let left = state.order.bytes().saturating_sub(bytes);
        self.shrink(&mut state, left);
    }

    /// Changes the maximum size, and evicts blocks if the disk has too little free space. The cache must give way even
    /// if nothing is written to it, because other files also fill the disk.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        let mut state = lock(&self.state);
        self.evict_to_limits(&mut state);
        self.evict_to_free_space(&mut state);
    }

    /// Current statistics.
    pub fn stats(&self) -> CacheStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            bytes: lock(&self.state).order.bytes(),
            bytes_read: of(&self.counters.bytes_read),
            bytes_fetched: of(&self.counters.bytes_fetched),
            fetches: of(&self.counters.fetches),
            bytes_evicted: of(&self.counters.bytes_evicted),
            damaged_blocks: of(&self.counters.damaged_blocks),
            failed_writes: of(&self.counters.failed_writes),
        }
    }

    /// Nanoseconds since `start`, an earlier reading of the clock.
    fn waited_since(&self, start: i64) -> u64 {
        u64::try_from(self.clock.elapsed_ns() - start).unwrap_or(0)
    }

    fn path(&self, (name, number): &Key) -> PathBuf {
        self.folder.join(&**name).join(number.to_string())
    }

    /// The open file of a cached extent; an invalid file is forgotten.
    fn file(&self, state: &mut State, key: &Key) -> Option<Arc<ExtentFile>> {
        if let Some(file) = state.files.get(key) {
            return Some(Arc::clone(file));
        }
        // An extent whose blocks are all still being fetched has no file yet.
        let extent = state.extents.get_mut(key).filter(|extent| !extent.is_known || extent.present != 0)?;
        let opened = ExtentFile::open(&self.path(key), first_block(key), self.writes);
        let Ok(file) = opened.map(Arc::new) else {
            let coming = extent.being_fetched;
            self.drop_file(state, key);
            if coming != 0 {
                state.extents.insert(key.clone(), Extent { being_fetched: coming, is_known: true, present: 0 });
            }
            return None;
        };
        if !extent.is_known {
            (extent.present, extent.is_known) = (file.present_blocks(), true);
            let bytes = extent.bytes();
            state.order.set_bytes(key, bytes);
        }
        keep_open(state, key, &file);
        Some(file)
    }

    /// Divides blocks into those in the cache, those that the caller must now fetch, and those that other readers are
    /// fetching.
    fn claim(&self, name: &Arc<str>, blocks: &BTreeSet<u64>, lasting: bool) -> Claim {
        let now = self.clock.elapsed_ns();
        let mut state = lock(&self.state);
        let mut claim = Claim::default();
        let mut file: Option<(Key, Option<Arc<ExtentFile>>)> = None;
        for block in blocks {
            let (key, bit) = place_of(name, *block);
            if file.as_ref().is_none_or(|(last, _)| *last != key) {
                let opened = self.file(&mut state, &key);
                state.order.touch(&key, lasting, now);
                file = Some((key.clone(), opened));
            }
            let extent = state.extents.entry(key).or_insert_with(|| Extent { is_known: true, ..Extent::default() });
            match &file {
                Some((_, Some(file))) if extent.present & bit != 0 => claim.here.push((*block, Arc::clone(file))),
                _ if extent.being_fetched & bit != 0 => claim.others = true,
                _ => {
                    extent.being_fetched |= bit;
                    claim.fetch.push(*block);
                }
            }
        }
        claim
    }

    /// Whether all blocks are cached.
    fn contains_all(&self, name: &Arc<str>, blocks: &BTreeSet<u64>) -> bool {
        let mut state = lock(&self.state);
        blocks.iter().all(|block| {
            let (key, bit) = place_of(name, *block);
            self.file(&mut state, &key).is_some()
                && state.extents.get(&key).is_some_and(|extent| extent.present & bit != 0)
        })
    }

    /// Waits until a fetch ends, but at most [`FETCH_WAIT`].
    fn wait(&self) {
        let state = lock(&self.state);
        drop(self.fetched.wait_timeout(state, FETCH_WAIT).unwrap_or_else(PoisonError::into_inner));
    }

    /// Stores neighbouring blocks, starting with number `block`; write failures are ignored.
    fn store_blocks(&self, name: &Arc<str>, block: u64, bytes: &Bytes, lasting: bool) {
        if !self.writes {
            return;
        }
        let mut at = 0;
        while at < bytes.len() {
            let first = block + at as u64 / BLOCK_BYTES;
            let (key, _) = place_of(name, first);
            let left = (first_block(&key) + EXTENT_BLOCKS as u64 - first) * BLOCK_BYTES;
            let end = bytes.len().min(at.saturating_add(left as usize));
            self.store_blocks_in(&key, first, &bytes[at..end], lasting);
            at = end;
        }
    }

    /// Stores neighbouring blocks of one file.
    fn store_blocks_in(&self, key: &Key, block: u64, bytes: &[u8], lasting: bool) {
        let file = {
            let mut state = lock(&self.state);
            match self.file(&mut state, key) {
                Some(file) => Ok(file),
                None => ExtentFile::create(&self.path(key), first_block(key)).map(|file| {
                    let file = Arc::new(file);
                    keep_open(&mut state, key, &file);
                    file
                }),
            }
        };
        let written = file.and_then(|file| file.write(block, bytes));
        let mut state = lock(&self.state);
        if let Err(error) = written {
            self.counters.failed_writes.fetch_add(1, Ordering::Relaxed);
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                let bytes_max = state.order.bytes() - state.order.bytes() / FULL_DISK_DIVISOR;
                self.shrink(&mut state, bytes_max);
            }
            return;
        }
        let count = (bytes.len() as u64).div_ceil(BLOCK_BYTES);
        let now = self.clock.elapsed_ns();
        let extent = state.extents.entry(key.clone()).or_default();
        extent.is_known = true;
        extent.present |= bit_range(block - first_block(key), count);
        let held = extent.bytes();
        if !state.order.contains(key) {
            state.order.touch(key, lasting, now);
        }
        state.order.set_bytes(key, held);
        state.kept += bytes.len() as u64;
        self.evict_to_limits(&mut state);
    }

    /// Evicts until the limits hold.
    fn evict_to_limits(&self, state: &mut State) {
        self.shrink(state, self.bytes_max.load(Ordering::Relaxed));
        if state.kept >= SPACE_CHECK_BYTES {
            self.evict_to_free_space(state);
        }
    }

    /// Evicts until the disk has the space that the cache must leave free.
    fn evict_to_free_space(&self, state: &mut State) {
        state.kept = 0;
        if self.free_bytes_min == 0 {
            return;
        }
        if let Ok(disk) = rustix::fs::statvfs(&self.folder) {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let missing = self.free_bytes_min.saturating_sub(free);
            let bytes_max = state.order.bytes().saturating_sub(missing);
            self.shrink(state, bytes_max);
        }
    }

    fn shrink(&self, state: &mut State, bytes_max: u64) {
        while state.order.bytes() > bytes_max || state.order.len() > self.files_max {
            let State { extents, order, .. } = &mut *state;
            let is_idle = |key: &Key| extents.get(key).is_none_or(|extent| extent.being_fetched == 0);
            let cache_bytes = self.bytes_max.load(Ordering::Relaxed);
            let Some(key) = order.next(cache_bytes, self.files_max, is_idle) else { return };
            let before = state.order.bytes();
            self.drop_file(state, &key);
            self.counters.bytes_evicted.fetch_add(before - state.order.bytes(), Ordering::Relaxed);
        }
    }

    fn drop_file(&self, state: &mut State, key: &Key) {
        state.extents.remove(key);
        state.order.remove(key);
        state.files.remove(key);
        if self.writes {
            // A file that cannot be removed is found at the next start.
            let path = self.path(key);
            drop(fs::remove_file(&path));
            path.parent().into_iter().for_each(|folder| drop(fs::remove_dir(folder)));
        }
    }

    /// Forgets damaged blocks.
    fn discard_damaged(&self, name: &Arc<str>, blocks: Range<u64>) {
        let mut state = lock(&self.state);
        for block in blocks {
            let (key, bit) = place_of(name, block);
            if let Some(extent) = state.extents.get_mut(&key).filter(|extent| extent.present & bit != 0) {
                extent.present &= !bit;
                let held = extent.bytes();
                state.order.set_bytes(&key, held);
                self.counters.damaged_blocks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Extent {
    fn bytes(&self) -> u64 {
        u64::from(self.present.count_ones()) * BLOCK_BYTES
    }
}

/// Sources of the blocks a reader needs.
#[derive(Default)]
struct Claim {
    here: Vec<(u64, Arc<ExtentFile>)>,
    fetch: Vec<u64>,
    /// Whether other readers are fetching some of the blocks.
    others: bool,
}

/// Guard: marks blocks as being fetched until it is dropped.
struct FetchGuard<'a> {
    cache: &'a BlockCache,
    name: &'a Arc<str>,
    blocks: &'a [u64],
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.cache.state);
        for block in self.blocks {
            let (key, bit) = place_of(self.name, *block);
            let Some(extent) = state.extents.get_mut(&key) else { continue };
            extent.being_fetched &= !bit;
            if extent.being_fetched == 0 && extent.present == 0 {
                self.cache.drop_file(&mut state, &key);
            }
        }
        self.cache.evict_to_limits(&mut state);
        drop(state);
        self.cache.fetched.notify_all();
    }
}

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
    /// Runs of blocks fetched.
    fetches: AtomicU64,
}

impl fmt::Debug for CachedObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CachedObject").field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

impl CachedObject {
    /// The same object; blocks read through the returned handle are evicted last.
    pub fn lasting(&self) -> CachedObject {
        CachedObject { lasting: true, ..self.clone() }
    }

    /// The object on its store.
    fn source(&self) -> Result<Arc<dyn ReadAt>, ReadError> {
        let mut source = lock(&self.source.opened);
        if let Some(source) = &*source {
            return Ok(Arc::clone(source));
        }
        // Counted before the request, because a change of the count shows that the search waits for a volume.
        reads::add_to_current(ReadStats { requests: 1, ..ReadStats::default() });
        let start = self.cache.clock.elapsed_ns();
        let opened = (self.source.open)().map_err(|error| error.into_read_error(0, 0))?;
        let waited_ns = self.cache.waited_since(start);
        reads::add_to_current(ReadStats { waited_ns, ..ReadStats::default() });
        if opened.len() != self.size {
            let reason = format!("{} has {} bytes, {} were written", self.name, opened.len(), self.size);
            return Err(ReadError::Failed { offset: 0, len: 0, kind: ErrorKind::Corrupt, reason });
        }
        Ok(Arc::clone(source.insert(opened)))
    }

    /// Byte range of neighbouring blocks, limited by the object's end.
    fn extent_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * BLOCK_BYTES..(blocks.end * BLOCK_BYTES).min(self.size)
    }

    /// The blocks that contain these ranges.
    fn blocks_of(&self, ranges: &[Range<u64>]) -> Result<BTreeSet<u64>, ReadError> {
        let mut blocks = BTreeSet::new();
        for range in ranges {
            let len = range.end.saturating_sub(range.start);
            if range.end > self.size || range.start > range.end {
                return Err(ReadError::PastEnd { offset: range.start, len: len as usize, size: self.size });
            }
            if len > 0 {
                blocks.extend(range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES));
            }
        }
        Ok(blocks)
    }

    /// Adds the blocks to `found`: reads those in the cache and fetches the others.
    fn add_missing(&self, blocks: &BTreeSet<u64>, found: &mut BTreeMap<u64, Bytes>) -> Result<(), ReadError> {
        let mut left = blocks.clone();
        while !left.is_empty() {
            let claim = self.cache.claim(&self.name, &left, self.lasting);
            let fetching = FetchGuard { cache: &self.cache, name: &self.name, blocks: &claim.fetch };
            self.read_cached(&claim.here, found);
            if !claim.fetch.is_empty() {
                self.fetch(&claim.fetch, found)?;
            }
            drop(fetching);
            let before = left.len();
            left.retain(|block| !found.contains_key(block));
            if left.len() == before && claim.others {
                self.cache.wait();
            }
        }
        Ok(())
    }

    /// Reads cached blocks; damaged ones are forgotten.
    fn read_cached(&self, here: &[(u64, Arc<ExtentFile>)], found: &mut BTreeMap<u64, Bytes>) {
        let is_next = |(a, file): &(u64, Arc<ExtentFile>), (b, next): &(u64, Arc<ExtentFile>)| {
            a + 1 == *b && Arc::ptr_eq(file, next)
        };
        for run in here.chunk_by(is_next) {
            let Some((first, file)) = run.first() else { continue };
            let blocks = *first..*first + run.len() as u64;
            let range = self.extent_of(&blocks);
            match file.read(*first, (range.end - range.start) as usize) {
                Ok(Some(bytes)) => {
                    let cached_bytes = bytes.len() as u64;
                    self.cache.counters.bytes_read.fetch_add(cached_bytes, Ordering::Relaxed);
                    reads::add_to_current(ReadStats { cached_reads: 1, cached_bytes, ..ReadStats::default() });
                    insert(found, *first, &bytes);
                }
                // Reads the blocks one by one to find the intact ones.
                _ if run.len() > 1 => run.iter().for_each(|one| self.read_cached(std::slice::from_ref(one), found)),
                _ => self.cache.discard_damaged(&self.name, blocks),
            }
        }
    }

    /// Fetches blocks and stores them.
    fn fetch(&self, blocks: &[u64], found: &mut BTreeMap<u64, Bytes>) -> Result<(), ReadError> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in blocks {
            match runs.last_mut() {
                Some(run) if *block <= run.end + GAP_BLOCKS => run.end = block + 1,
                _ => runs.push(*block..block + 1),
            }
        }
        let source = self.source()?;
        if self.cache.writes
            && let Some((start, bytes)) = source.take_tail()
        {
            let end = start / BLOCK_BYTES;
            let fetched_bytes = bytes.len() as u64;
            self.cache.counters.bytes_fetched.fetch_add(fetched_bytes, Ordering::Relaxed);
            reads::add_to_current(ReadStats { fetched_bytes, ..ReadStats::default() });
            self.cache.store_blocks(&self.name, end, &bytes, true);
            insert(found, end, &bytes);
            runs.retain(|run| !run.clone().all(|block| found.contains_key(&block)));
        }
        let ranges: Vec<Range<u64>> = runs.iter().map(|run| self.extent_of(run)).collect();
        // Counted before the answer arrives, because tests use the counter to see that a reader is waiting.
        for fetches in [&self.cache.counters.fetches, &self.source.fetches] {
            fetches.fetch_add(runs.len() as u64, Ordering::Relaxed);
        }
        reads::add_to_current(ReadStats { requests: runs.len() as u64, ..ReadStats::default() });
        let start = self.cache.clock.elapsed_ns();
        let answered = source.read_ranges(&ranges);
        let waited_ns = self.cache.waited_since(start);
        let bytes = answered.iter().flatten().map(|bytes| bytes.len() as u64);
        reads::add_to_current(ReadStats { fetched_bytes: bytes.sum(), waited_ns, ..ReadStats::default() });
        let fetched = answered?;
        for (run, bytes) in runs.iter().zip(&fetched) {
            self.cache.counters.bytes_fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.cache.store_blocks(&self.name, run.start, bytes, self.lasting);
            insert(found, run.start, bytes);
        }
        Ok(())
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
        let blocks = self.blocks_of(ranges)?;
        let mut found = BTreeMap::new();
        self.add_missing(&blocks, &mut found)?;
        Ok(ranges.iter().map(|range| assemble(&found, range)).collect())
    }
}

/// Splits a run into its blocks and adds them to `found`.
fn insert(found: &mut BTreeMap<u64, Bytes>, first: u64, bytes: &Bytes) {
    let starts = (0..bytes.len()).step_by(BLOCK_BYTES as usize);
    for (block, start) in (first..).zip(starts) {
        found.insert(block, bytes.slice(start..bytes.len().min(start + BLOCK_BYTES as usize)));
    }
}

/// The bytes of a range, all of whose blocks are in `found`.
fn assemble(found: &BTreeMap<u64, Bytes>, range: &Range<u64>) -> Bytes {
    let len = (range.end - range.start) as usize;
    let (first, skipped) = (range.start / BLOCK_BYTES, (range.start % BLOCK_BYTES) as usize);
    if let Some(block) = found.get(&first).filter(|block| skipped + len <= block.len()) {
        return block.slice(skipped..skipped + len);
    }
    let mut bytes = BytesMut::with_capacity(len);
    for (number, block) in found.range(first..range.end.div_ceil(BLOCK_BYTES)) {
        let from = if *number == first { skipped } else { 0 };
        let to = block.len().min(from + len - bytes.len());
        bytes.extend_from_slice(&block[from..to]);
    }
    assert_eq!(bytes.len(), len, "all blocks of a range were found");
    bytes.freeze()
}

/// A file left by an earlier run.
struct FoundFile {
    key: Key,
    bytes: u64,
    modified: SystemTime,
}

/// Extent files in a folder; other files are ignored.
fn list_extent_files(folder: &Path) -> Result<Vec<FoundFile>, BlobError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        let failed = |error: io::Error| BlobError::from_io("list", &inner, &error);
        let entries = match fs::read_dir(&inner) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed)?,
        };
        let name = inner.strip_prefix(folder).ok().and_then(Path::to_str).unwrap_or_default();
        let name: Arc<str> = name.into();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let facts = entry.metadata().map_err(failed)?;
            if facts.is_dir() {
                folders.push(entry.path());
            } else if let Some(number) = entry.file_name().to_str().and_then(|number| number.parse().ok()) {
                let bytes = facts.blocks().saturating_mul(512).min(EXTENT_BLOCKS as u64 * BLOCK_BYTES);
                let modified = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push(FoundFile { key: (Arc::clone(&name), number), bytes, modified });
            }
        }
    }
    Ok(found)
}

/// Keeps a file open, closing another one at the limit.
fn keep_open(state: &mut State, key: &Key, file: &Arc<ExtentFile>) {
    if state.files.len() >= FILES_MAX {
        state.files.pop_first();
    }
    state.files.insert(key.clone(), Arc::clone(file));
}

/// The file that contains a block, and its bit there.
fn place_of(name: &Arc<str>, block: u64) -> (Key, BlockSet) {
    let number = block / EXTENT_BLOCKS as u64;
    // The number overflows only for objects of 4 PiB, which do not occur.
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    ((Arc::clone(name), number), 1 << (block % EXTENT_BLOCKS as u64))
}

/// Number of the first block of a file.
fn first_block(key: &Key) -> u64 {
    u64::from(key.1) * EXTENT_BLOCKS as u64
}

/// `count` bits starting at `from`.
fn bit_range(from: u64, count: u64) -> BlockSet {
    let ones = if count >= u64::from(BlockSet::BITS) { BlockSet::MAX } else { (1 << count) - 1 };
    ones << from
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
