//! Reads through a cache return the object's content, even if the cache is damaged, full or removed.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicI64;

use proptest::prelude::*;
use quarry_bucket::{ReadAt, ReadError};
use quarry_stdx::{Clock, ErrorKind};

use super::*;
use crate::OpenedObject;

#[derive(Debug, Default)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now_ns(&self) -> i64 {
        self.elapsed_ns()
    }

    fn elapsed_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An object on a store that counts fetches and can become unreachable.
#[derive(Debug, Default)]
struct Remote {
    bytes: Bytes,
    fetched: Mutex<Vec<Range<u64>>>,
    is_down: Mutex<bool>,
}

struct Source(Arc<Remote>);

impl ReadAt for Source {
    fn len(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        if *lock(&self.0.is_down) {
            let (kind, reason) = (ErrorKind::Unavailable, "out of reach".to_owned());
            return Err(ReadError::Failed { offset, len, kind, reason });
        }
        lock(&self.0.fetched).push(offset..offset + len as u64);
        Ok(self.0.bytes.slice(offset as usize..offset as usize + len))
    }
}

/// An object that is opened, and ranges of it.
fn opened(object: impl ReadAt + 'static, ranges: &[Range<u64>]) -> Result<OpenedObject, BlobError> {
    let read = object.read_ranges(ranges);
    Ok(OpenedObject { object: Arc::new(object), read })
}

impl Remote {
    fn of(len: usize) -> Arc<Remote> {
        let bytes: Vec<u8> = (0..len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
        Arc::new(Remote { bytes: bytes.into(), ..Remote::default() })
    }

    fn through(self: &Arc<Remote>, cache: &Arc<BlockCache>, name: &str, lasting: bool) -> Arc<dyn ReadAt> {
        let remote = Arc::clone(self);
        let open: OpenSource = Box::new(move |ranges| opened(Source(Arc::clone(&remote)), ranges));
        let object = cache.object(name, self.bytes.len() as u64, open);
        Arc::new(if lasting { object.lasting() } else { object })
    }

    /// Starts and ends of the fetches since the last call.
    fn fetched(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut *lock(&self.fetched)).into_iter().map(|range| (range.start, range.end)).collect()
    }
}

const BLOCK: u64 = BLOCK_BYTES;

fn limits(bytes_max: u64) -> CacheLimits {
    CacheLimits { bytes_max, files_max: usize::MAX, free_bytes_min: 0 }
}

fn open(folder: &Path, bytes_max: u64) -> Arc<BlockCache> {
    BlockCache::open(folder, limits(bytes_max), Arc::new(Hands::default())).unwrap()
}

#[test]
fn blocks_are_fetched_once_and_neighbours_together() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), u64::MAX);
    let remote = Remote::of(200 * BLOCK as usize + 5);
    let object = remote.through(&cache, "v/a/1.bucket", false);
    assert_eq!(object.read_at(10, 20).unwrap(), remote.bytes.slice(10..30));
    assert_eq!(remote.fetched(), [(0, BLOCK)]);
    let ranges = [BLOCK - 1..3 * BLOCK, 4 * BLOCK..4 * BLOCK + 1, 100 * BLOCK + 7..100 * BLOCK + 9, 0..0];
    let read = object.read_ranges(&ranges).unwrap();
    for (range, read) in ranges.iter().zip(read) {
        assert_eq!(read, remote.bytes.slice(range.start as usize..range.end as usize));
    }
    // Block 0 is cached; block 3 lies between two requested ranges and is fetched with them.
    assert_eq!(remote.fetched(), [(BLOCK, 5 * BLOCK), (100 * BLOCK, 101 * BLOCK)]);
    assert_eq!(object.read_at(200 * BLOCK, 5).unwrap().len(), 5);
    assert_eq!(remote.fetched(), [(200 * BLOCK, 200 * BLOCK + 5)]);
    object.read_ranges(&[0..5 * BLOCK, 200 * BLOCK + 2..200 * BLOCK + 5]).unwrap();
    assert_eq!(remote.fetched(), []);
    let size = remote.bytes.len() as u64;
    for (offset, len) in [(size - 1, 2), (size + 1, 0), (u64::MAX, 1), (0, usize::MAX)] {
        assert!(matches!(object.read_at(offset, len), Err(ReadError::PastEnd { .. })), "{offset} {len}");
    }
    let figures = cache.stats();
    assert_eq!((figures.fetches, figures.bytes, figures.damaged_blocks), (4, 7 * BLOCK, 0));
}

#[test]
fn an_object_is_opened_and_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), u64::MAX);
    let (remote, asked) = (Remote::of(10 * BLOCK as usize), Arc::<Mutex<Vec<Vec<(u64, u64)>>>>::default());
    let object = |name: &str| {
        let (remote, asked) = (Arc::clone(&remote), Arc::clone(&asked));
        let open: OpenSource = Box::new(move |ranges| {
            lock(&asked).push(ranges.iter().map(|range| (range.start, range.end)).collect());
            opened(Source(Arc::clone(&remote)), ranges)
        });
        cache.object(name, 10 * BLOCK, open)
    };
    let data = object("v/data");
    assert_eq!(data.read_at(5 * BLOCK + 3, 10).unwrap(), remote.bytes.slice(5 * BLOCK as usize + 3..)[..10]);
    data.read_at(0, 1).unwrap();
    // The end of an object is usually read on opening.
    object("v/end").read_at(10 * BLOCK - 1, 1).unwrap();
    assert_eq!(*lock(&asked), [vec![(5 * BLOCK, 6 * BLOCK)], vec![]]);
    assert_eq!(remote.fetched(), [(5 * BLOCK, 6 * BLOCK), (0, BLOCK), (9 * BLOCK, 10 * BLOCK)]);
    assert_eq!(cache.stats().fetches, 3);
}

#[test]
fn the_number_of_files_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let limits = CacheLimits { files_max: 3, ..limits(u64::MAX) };
    let cache = BlockCache::open(folder.path(), limits, Arc::new(Hands::default())).unwrap();
    let remote = Remote::of(10);
    let read = |name: &str| remote.through(&cache, name, false).read_at(0, 10).unwrap();
    ["1", "2", "3", "4", "5"].into_iter().for_each(|name| assert_eq!(read(name), remote.bytes));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    remote.fetched();
    ["3", "4", "5"].into_iter().for_each(|name| drop(read(name)));
    assert_eq!(remote.fetched(), []);
}

#[test]
fn cache_survives_restart_and_objects_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let remote = Remote::of(3 << 20);
    let whole = |cache: &Arc<BlockCache>, name: &str| {
        let object = remote.through(cache, name, false);
        assert_eq!(object.read_at(0, 3 << 20).unwrap(), remote.bytes);
    };
    let cache = open(folder.path(), u64::MAX);
    ["v/a/1", "v/a/10"].into_iter().for_each(|name| whole(&cache, name));
    remote.fetched();
    drop(cache);
    let cache = open(folder.path(), u64::MAX);
    assert!(cache.stats().bytes >= 6 << 20);
    *lock(&remote.is_down) = true;
    ["v/a/1", "v/a/10"].into_iter().for_each(|name| whole(&cache, name));
    assert_eq!(cache.stats().bytes, 6 << 20);
    cache.remove_object("v/a/1");
    assert!(!folder.path().join("v/a/1").exists() && folder.path().join("v/a/10").exists());
    whole(&cache, "v/a/10");
    let gone = remote.through(&cache, "v/a/1", false).read_at(0, 1).unwrap_err();
    assert!(gone.to_string().contains("out of reach"), "{gone}");
    // A failed fetch does not delay the next one.
    *lock(&remote.is_down) = false;
    whole(&cache, "v/a/1");
    let reader = BlockCache::open_read_only(folder.path(), Arc::new(Hands::default())).unwrap();
    remote.fetched();
    whole(&reader, "v/a/10");
    assert_eq!(remote.fetched(), []);
    whole(&reader, "v/b/7");
    assert!(!folder.path().join("v/b").exists(), "a read-only cache writes nothing");
    remote.fetched();
    whole(&reader, "v/a/10");
    assert_eq!(remote.fetched(), [], "it still knows what it has");
}

#[test]
fn damaged_truncated_or_missing_files_are_refetched() {
    let folder = tempfile::tempdir().unwrap();
    let remote = Remote::of((2 * EXTENT_BLOCKS + 2) * BLOCK as usize);
    for (at, harm) in (0..).zip(["flip", "sum", "cut", "magic", "remove", "flip open"]) {
        let name = format!("v/{at}");
        let whole = |cache: &Arc<BlockCache>| {
            let object = remote.through(cache, &name, false);
            assert_eq!(object.read_at(0, remote.bytes.len()).unwrap(), remote.bytes, "{harm}");
        };
        let cache = open(folder.path(), u64::MAX);
        whole(&cache);
        remote.fetched();
        let path = folder.path().join(&name).join("1");
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let kept = harm.ends_with("open").then_some(cache);
        match harm {
            "flip" | "flip open" => file.write_all_at(&[0xff, 0xff], 4_096 + 3 * BLOCK).unwrap(),
            "sum" => file.write_all_at(&[0xff, 0xff], 8 + 3 * 8).unwrap(),
            "cut" => file.set_len(4_096 + 3 * BLOCK + 1).unwrap(),
            "magic" => file.write_all_at(b"x", 0).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        let cache = kept.unwrap_or_else(|| open(folder.path(), u64::MAX));
        whole(&cache);
        let fetched: u64 = remote.fetched().iter().map(|(start, end)| end - start).sum();
        let expected = match harm {
            "cut" => EXTENT_BLOCKS as u64 - 3,
            "magic" | "remove" => EXTENT_BLOCKS as u64,
            _ => 1,
        };
        assert_eq!(fetched, expected * BLOCK, "{harm}");
        whole(&cache);
        assert_eq!(remote.fetched(), [], "{harm}");
    }
}

#[test]
fn full_caches_keep_lasting_entries() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 8 << 20);
    let (filter, data) = (Remote::of(1 << 20), Remote::of(40 << 20));
    let lasting = filter.through(&cache, "v/filter", true);
    lasting.read_at(0, 1 << 20).unwrap();
    let object = data.through(&cache, "v/data", false);
    for start in (0..40 << 20).step_by(1 << 20) {
        object.read_at(start, 1 << 20).unwrap();
        assert!(cache.stats().bytes <= 8 << 20);
    }
    filter.fetched();
    lasting.read_at(0, 1 << 20).unwrap();
    assert_eq!(filter.fetched(), []);
    assert_eq!(cache.stats().bytes_evicted, 33 << 20);
    let on_disk: u64 = list_extent_files(folder.path()).unwrap().iter().map(|file| file.bytes).sum();
    assert!(on_disk <= 9 << 20, "{on_disk}");
    // A smaller cache shrinks when it is opened.
    drop(cache);
    assert!(open(folder.path(), 2 << 20).stats().bytes <= 2 << 20);
}

#[test]
fn stored_objects_are_evicted_last() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), 8 << 20);
    let (filter, data) = (Remote::of(512 << 10), Remote::of(40 << 20));
    // The blocks of one of the two objects were read before, like any other blocks.
    filter.through(&cache, "v/known", false).read_at(0, 512 << 10).unwrap();
    filter.fetched();
    let names = ["v/known", "v/new"];
    names.iter().for_each(|name| cache.store_object(name, 0, &filter.bytes));
    let object = data.through(&cache, "v/data", false);
    for start in (0..40 << 20).step_by(1 << 20) {
        object.read_at(start, 1 << 20).unwrap();
    }
    for name in names {
        let read = filter.through(&cache, name, false).read_at(0, 512 << 10).unwrap();
        assert_eq!((read, filter.fetched()), (filter.bytes.clone(), vec![]), "{name}");
    }
}

#[test]
fn unwritable_caches_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), u64::MAX);
    // A file occupies the path of the object's folder.
    fs::write(folder.path().join("v"), b"").unwrap();
    let remote = Remote::of(1 << 20);
    let object = remote.through(&cache, "v/a", false);
    for _ in 0..2 {
        assert_eq!(object.read_at(0, 1 << 20).unwrap(), remote.bytes);
    }
    assert_eq!((cache.stats().failed_writes, cache.stats().bytes), (2, 0));
}

#[test]
fn concurrent_readers_fetch_each_block_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), u64::MAX);
    let remote = Remote::of(300 * BLOCK as usize);
    std::thread::scope(|scope| {
        for reader in 0..8_usize {
            let (cache, remote) = (&cache, &remote);
            scope.spawn(move || {
                let object = remote.through(cache, "v/a", reader == 0);
                for step in 0..100 {
                    let start = (reader * 31 + step * 37) % 290 * BLOCK as usize + step;
                    assert_eq!(
                        object.read_at(start as u64, 40_000).unwrap(),
                        remote.bytes.slice(start..start + 40_000)
                    );
                }
            });
        }
    });
    let mut blocks = BTreeSet::new();
    for (start, end) in remote.fetched() {
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            assert!(blocks.insert(block), "block {block} was fetched twice");
        }
    }
}

#[test]
fn truncated_objects_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), u64::MAX);
    let remote = Remote::of(100);
    let open: OpenSource = Box::new(move |ranges| opened(Source(Arc::clone(&remote)), ranges));
    let error = cache.object("v/a", 101, open).read_at(0, 1).unwrap_err();
    assert!(error.to_string().contains("has 100 bytes, 101 were written"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_ranges_in_any_order_read_correctly(
        len in 1_usize..400_000,
        reads in prop::collection::vec(prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 1..6), 1..20),
        blocks_max in 1_u64..40,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = open(folder.path(), blocks_max * BLOCK);
        let remote = Remote::of(len);
        for (at, ranges) in reads.iter().enumerate() {
            if at % 5 == 4 {
                cache = open(folder.path(), blocks_max * BLOCK);
            }
            let object = remote.through(&cache, "v/a", at % 3 == 0);
            let ranges: Vec<Range<u64>> = ranges.iter().map(|(start, share)| {
                let start = (start * len as f64) as u64;
                start..start + (share * (len as u64 - start) as f64) as u64
            }).collect();
            let read = object.read_ranges(&ranges).unwrap();
            for (range, read) in ranges.iter().zip(read) {
                prop_assert_eq!(read, remote.bytes.slice(range.start as usize..range.end as usize));
            }
        }
    }
}

/// An object whose last blocks were fetched when it was opened.
struct WithEnd(Source, Mutex<Option<(u64, Bytes)>>);

impl ReadAt for WithEnd {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        self.0.read_at(offset, len)
    }

    fn take_tail(&self) -> Option<(u64, Bytes)> {
        lock(&self.1).take()
    }
}

#[test]
fn tail_read_on_open_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(folder.path(), u64::MAX);
    let remote = Remote::of(10 * BLOCK as usize + 77);
    let of = Arc::clone(&remote);
    let with_end: OpenSource = Box::new(move |ranges| {
        let end = (7 * BLOCK, of.bytes.slice(7 * BLOCK as usize..));
        opened(WithEnd(Source(Arc::clone(&of)), Mutex::new(Some(end))), ranges)
    });
    let object = cache.object("v/a", remote.bytes.len() as u64, with_end);
    let read = |object: &CachedObject, range: Range<u64>| {
        let bytes = object.read_at(range.start, (range.end - range.start) as usize).unwrap();
        assert_eq!(bytes, remote.bytes.slice(range.start as usize..range.end as usize));
    };
    read(&object, 10 * BLOCK + 5..10 * BLOCK + 77);
    read(&object.lasting(), 7 * BLOCK..9 * BLOCK);
    assert_eq!((remote.fetched(), object.request_count()), (vec![], 0));
    read(&object, 6 * BLOCK + 1..8 * BLOCK);
    assert_eq!((remote.fetched(), object.request_count()), (vec![(6 * BLOCK, 7 * BLOCK)], 1));
    // Reading the end of an object together with missing blocks does not fetch the end again either.
    let both = cache.object("v/b", remote.bytes.len() as u64, {
        let of = Arc::clone(&remote);
        Box::new(move |ranges: &[Range<u64>]| {
            let end = (7 * BLOCK, of.bytes.slice(7 * BLOCK as usize..));
            opened(WithEnd(Source(Arc::clone(&of)), Mutex::new(Some(end))), ranges)
        })
    });
    let ranges = [0..BLOCK, 10 * BLOCK..10 * BLOCK + 3];
    let expected: Vec<Bytes> =
        ranges.iter().map(|range| remote.bytes.slice(range.start as usize..range.end as usize)).collect();
    assert_eq!(both.read_ranges(&ranges).unwrap(), expected);
    assert_eq!(remote.fetched(), [(0, BLOCK)]);
    // A read-only cache passes reads of missing blocks on to the object.
    let cache = BlockCache::open_read_only(folder.path(), Arc::new(Hands::default())).unwrap();
    let of = Arc::clone(&remote);
    let kept = Arc::new(WithEnd(Source(Arc::clone(&of)), Mutex::new(Some((7 * BLOCK, of.bytes.slice(..0))))));
    let given = Arc::clone(&kept);
    let open: OpenSource = Box::new(move |ranges| {
        let object: Arc<dyn ReadAt> = Arc::clone(&given) as Arc<dyn ReadAt>;
        let read = object.read_ranges(ranges);
        Ok(OpenedObject { object, read })
    });
    let object = cache.object("v/c", remote.bytes.len() as u64, open);
    read(&object, 0..5);
    assert!(lock(&kept.1).is_some());
}

#[test]
fn a_disk_that_others_have_filled_gets_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let limits = CacheLimits { bytes_max: u64::MAX, files_max: usize::MAX, free_bytes_min: u64::MAX };
    let cache = BlockCache::open(folder.path(), limits, Arc::new(Hands::default())).unwrap();
    let remote = Remote::of(20 * BLOCK as usize);
    remote.through(&cache, "v/a/1.bucket", false).read_at(0, 20 * BLOCK as usize).unwrap();
    assert_eq!(cache.stats().bytes, 20 * BLOCK, "too little was written for a check");
    cache.set_bytes_max(u64::MAX);
    assert_eq!((cache.stats().bytes, cache.stats().bytes_evicted), (0, 20 * BLOCK));
    // The blocks of an earlier run count as well.
    let full = open(folder.path(), u64::MAX);
    remote.through(&full, "v/a/1.bucket", false).read_at(0, 20 * BLOCK as usize).unwrap();
    drop(full);
    let cache = BlockCache::open(folder.path(), limits, Arc::new(Hands::default())).unwrap();
    assert_eq!(cache.stats().bytes, 0);
}
