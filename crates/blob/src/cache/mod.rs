//! Cache of remote objects' blocks on the local disk.
//!
//! Objects never change, so a cached block never becomes stale. Reads are split into blocks of 8 KiB ([`object`]). Cached
//! blocks are read and verified against their checksums. Missing blocks are fetched and stored: neighbouring blocks
//! together, and all others concurrently. If several readers miss a block, one of them fetches it and the others wait.
//! Blocks live in files of up to 1 MiB ([`extent`]), which are evicted one by one when the cache or the disk is full
//! ([`eviction`]). No search depends on a cache file: a block that is missing or damaged is fetched, and a failed write
//! is ignored.
//!
//! The files survive a restart. Not here: which objects exist, and complete local copies.

mod eviction;
mod extent;
mod object;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quarry_stdx::SharedClock;

use self::eviction::EvictionOrder;
use self::extent::ExtentFile;
pub use self::object::{CachedObject, OpenSource};
use crate::BlobError;

/// Size of a cached block, equal to that of a checksum block of remote objects.
const BLOCK_BYTES: u64 = crate::s3::BLOCK_BYTES;
/// Blocks per file, one bit each in a [`BlockSet`].
const EXTENT_BLOCKS: usize = BlockSet::BITS as usize;
/// Maximum number of open files.
const FILES_MAX: usize = 512;
/// Bytes written between two checks of the disk's free space; [`BlockCache::set_bytes_max`] checks it as well.
const SPACE_CHECK_BYTES: u64 = 16 << 20;
/// If the disk is full, the size of the cache divided by this number is evicted.
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

impl BlockCache {
    /// Opens the cache in `folder`, creating it if missing.
    pub fn open(folder: &Path, limits: CacheLimits, clock: SharedClock) -> Result<Arc<BlockCache>, BlobError> {
        fs::create_dir_all(folder).map_err(|error| BlobError::from_io("create folder", folder, &error))?;
        BlockCache::open_folder(folder, limits, clock, true)
    }

    /// Opens the cache read-only; a missing folder counts as an empty cache.
    pub fn open_read_only(folder: &Path, clock: SharedClock) -> Result<Arc<BlockCache>, BlobError> {
        // With a limit, the cache would forget blocks that are in the folder.
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
        CachedObject::new(Arc::clone(self), name, size, open)
    }

    /// Stores an object from `start`, a [`BlockCache::block_start`], to its end. The caller has verified the content.
    /// These blocks are evicted last.
    pub fn store_object(&self, name: &str, start: u64, content: &Bytes) {
        assert!(start.is_multiple_of(BLOCK_BYTES), "blocks are stored whole");
        self.store_blocks(&Arc::from(name), start / BLOCK_BYTES, content, true);
    }

    /// Offset of the block that contains the byte at this offset.
    pub fn block_start(offset: u64) -> u64 {
        offset - offset % BLOCK_BYTES
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
    fn claim(&self, name: &Arc<str>, blocks: &[Range<u64>], lasting: bool) -> Claim {
        let now = self.clock.elapsed_ns();
        let mut state = lock(&self.state);
        let mut claim = Claim::default();
        for (key, wanted) in parts_by_file(name, blocks) {
            let file = self.file(&mut state, &key);
            state.order.touch(&key, lasting, now);
            let first = first_block(&key);
            let extent = state.extents.entry(key).or_insert_with(|| Extent { is_known: true, ..Extent::default() });
            let here = if file.is_some() { wanted & extent.present } else { 0 };
            let fetch = wanted & !here & !extent.being_fetched;
            extent.being_fetched |= fetch;
            if let Some(file) = file {
                claim.here.extend(ranges_of(here, first).map(|blocks| (blocks, Arc::clone(&file))));
            }
            claim.fetch.extend(ranges_of(fetch, first));
        }
        claim
    }

    /// Whether all blocks are cached.
    fn contains_all(&self, name: &Arc<str>, blocks: &[Range<u64>]) -> bool {
        let mut state = lock(&self.state);
        parts_by_file(name, blocks).all(|(key, wanted)| {
            self.file(&mut state, &key).is_some()
                && state.extents.get(&key).is_some_and(|extent| extent.present & wanted == wanted)
        })
    }

    /// Waits while other readers are fetching all of these blocks, but at most [`FETCH_WAIT`].
    fn wait_for_others(&self, name: &Arc<str>, blocks: &[Range<u64>]) {
        let is_being_fetched = |state: &mut State| {
            parts_by_file(name, blocks).all(|(key, wanted)| {
                state.extents.get(&key).is_some_and(|extent| extent.being_fetched & wanted == wanted)
            })
        };
        let waited = self.fetched.wait_timeout_while(lock(&self.state), FETCH_WAIT, is_being_fetched);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
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
        if lasting || !state.order.contains(key) {
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

    /// Forgets a damaged block.
    fn discard_damaged(&self, name: &Arc<str>, block: u64) {
        let mut state = lock(&self.state);
        let (key, bit) = place_of(name, block);
        if let Some(extent) = state.extents.get_mut(&key).filter(|extent| extent.present & bit != 0) {
            extent.present &= !bit;
            let held = extent.bytes();
            state.order.set_bytes(&key, held);
            self.counters.damaged_blocks.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Extent {
    fn bytes(&self) -> u64 {
        u64::from(self.present.count_ones()) * BLOCK_BYTES
    }
}

/// Sources of the blocks a reader needs; blocks that other readers are fetching are omitted.
#[derive(Default)]
struct Claim {
    here: Vec<(Range<u64>, Arc<ExtentFile>)>,
    fetch: Vec<Range<u64>>,
}

/// Guard: marks blocks as being fetched until it is dropped.
struct FetchGuard<'a> {
    cache: &'a BlockCache,
    name: &'a Arc<str>,
    blocks: &'a [Range<u64>],
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let mut state = lock(&self.cache.state);
        for (key, fetched) in parts_by_file(self.name, self.blocks) {
            let Some(extent) = state.extents.get_mut(&key) else { continue };
            extent.being_fetched &= !fetched;
            if extent.being_fetched == 0 && extent.present == 0 {
                self.cache.drop_file(&mut state, &key);
            }
        }
        self.cache.evict_to_limits(&mut state);
        drop(state);
        self.cache.fetched.notify_all();
    }
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

/// The files that contain these blocks, and the blocks in each of them.
fn parts_by_file<'a>(name: &'a Arc<str>, blocks: &'a [Range<u64>]) -> impl Iterator<Item = (Key, BlockSet)> + 'a {
    let blocks_per_file = EXTENT_BLOCKS as u64;
    blocks.iter().flat_map(move |range| {
        let numbers = range.start / blocks_per_file..range.end.div_ceil(blocks_per_file);
        numbers.map(move |number| {
            let first = number * blocks_per_file;
            let (from, to) = (range.start.max(first), range.end.min(first + blocks_per_file));
            // The number overflows only for objects of 4 PiB, which do not occur.
            ((Arc::clone(name), u32::try_from(number).unwrap_or(u32::MAX)), bit_range(from - first, to - from))
        })
    })
}

/// The blocks of a set as ascending ranges; `first` is the number of the file's first block.
fn ranges_of(mut blocks: BlockSet, first: u64) -> impl Iterator<Item = Range<u64>> {
    std::iter::from_fn(move || {
        if blocks == 0 {
            return None;
        }
        let from = u64::from(blocks.trailing_zeros());
        let count = u64::from((blocks >> from).trailing_ones());
        blocks &= !bit_range(from, count);
        Some(first + from..first + from + count)
    })
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
