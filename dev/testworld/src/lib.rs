//! Test stores for searches, shared by the tests of several crates.
//!
//! [`CountedStore`] is a store that counts reads of sealed slabs; an [`Interruption`] runs a closure in the middle of a
//! search, at a given read; a [`FixedSnapshot`] never changes; a [`Recorder`] is a node that records side effects. Most
//! tests run a search and read its rows with [`request`], [`engine`], [`rows_of`] and [`lines`]. [`segment_of`] has the
//! methods that wrappers of segments share; [`coded_rows`] has the same rows in several codings. Only tests depend on
//! this crate. Not here: events, which each test creates itself.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

pub mod coded_rows;
mod recorder;
mod tables;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use quarry_blob::{BlobStore, MemoryBlobStore, S3Credentials, S3Settings, S3Store};
use quarry_conf::{Layers, Permissions, PropsResolver};
use quarry_engine::{Engine, EngineError, EngineOptions, Job, SearchRequest, SearchShape, SnapshotSource, SummaryFile};
use quarry_event::template::{Dictionary, TemplateSet};
use quarry_event::{EventBatch, FieldColumns, Metadata, Page, PageColumns, PageSet, TermQuery, TimeRange};
use quarry_s3world::{CONTAINER, KEY_ID, SECRET};
use quarry_stdx::{Fault, ManualClock, SystemClock};
use quarry_store::{
    AppendRequest, BucketListing, Deletion, IndexSelector, PageInfo, RemoteOptions, RemotePath, Segment, SlabIdentity,
    Snapshot, Store, StoreError, StoreOptions, StoredSlab, TemplatePage,
};

pub use self::recorder::Recorder;
pub use self::tables::{NoTables, OneTable};

/// Nanoseconds per second.
pub const SECOND: i64 = 1_000_000_000;
/// Time of the first event.
pub const START: i64 = 1_700_000_000 * SECOND;

/// Request for a search by the owner over `main` and all time, with a fixed current time and in UTC. Tests replace the
/// members that they need to change.
pub fn request(text: &str) -> SearchRequest {
    SearchRequest {
        text: text.to_owned(),
        prefix: 0,
        pipeline: None,
        shape: SearchShape::default(),
        range: TimeRange::ALL,
        now: 0,
        zone: jiff::tz::TimeZone::UTC,
        default_indexes: vec!["main".to_owned()],
        permissions: Arc::new(Permissions::owner()),
        sid: None,
    }
}

/// An engine without rules of props.conf and without lookup tables.
pub fn engine(options: &EngineOptions) -> Engine {
    Engine::new(options, Arc::new(PropsResolver::new(&Layers::new([]))), Arc::new(NoTables)).unwrap()
}

/// All rows of a search, or the error that it ends with.
pub fn rows_of(job: &mut Job) -> Result<Vec<RecordBatch>, EngineError> {
    std::iter::from_fn(|| job.next_batch()).collect()
}

/// Total number of rows.
pub fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Formats each row as `NAME=VALUE` of every column, including missing values.
pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let line = |batch: &RecordBatch, row: usize| {
        let schema = batch.schema();
        let cells = schema.fields().iter().zip(batch.columns());
        let cells =
            cells.map(|(field, column)| format!("{}={}", field.name(), array_value_to_string(column, row).unwrap()));
        cells.collect::<Vec<_>>().join(" | ")
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| line(batch, row))).collect()
}

/// A snapshot that does not change.
#[derive(Debug)]
pub struct FixedSnapshot(pub Vec<Arc<dyn Segment>>);

impl SnapshotSource for FixedSnapshot {
    fn snapshot(&self, _: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(Snapshot { segments: self.0.clone(), ..Snapshot::default() })
    }
}

/// Methods of [`Segment`] for its identity and for lookups of tokens, delegated to the segment in this field.
#[macro_export]
macro_rules! segment_of {
    ($inner:tt) => {
        fn bucket(&self) -> &str {
            self.$inner.bucket()
        }
        fn index(&self) -> &str {
            self.$inner.index()
        }
        fn origin(&self) -> u64 {
            self.$inner.origin()
        }
        fn metas(&self) -> std::sync::Arc<[quarry_event::Metadata]> {
            self.$inner.metas()
        }
        fn pages(&self) -> &[quarry_store::PageInfo] {
            self.$inner.pages()
        }
        fn candidate_pages(
            &self,
            query: &quarry_event::TermQuery,
            fields: &dyn quarry_event::FieldColumns,
        ) -> Result<quarry_event::PageSet, quarry_store::StoreError> {
            self.$inner.candidate_pages(query, fields)
        }
    };
}

/// The bytes of a summary.
#[derive(Debug)]
pub struct MemorySummary(pub Vec<u8>);

impl SummaryFile for MemorySummary {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        let end = (offset as usize).checked_add(length);
        let part = end.and_then(|end| self.0.get(offset as usize..end));
        part.map(Bytes::copy_from_slice).ok_or_else(|| Fault::invalid("it is too short"))
    }
}

/// Options of a store whose sealed buckets are uploaded to a volume in memory; the cache has no room for local copies
/// or for blocks read from the volume.
pub fn on_memory_volume(options: StoreOptions) -> StoreOptions {
    on_volume(options, Arc::new(MemoryBlobStore::default()))
}

/// Like [`on_memory_volume`], with a volume below `prefix` in the container of an S3 server at `url`.
pub fn on_s3(options: StoreOptions, url: &str, prefix: &str) -> StoreOptions {
    let key = S3Credentials::Key { id: KEY_ID.to_owned(), secret: SECRET.to_owned(), token: None };
    let settings = S3Settings { prefix: prefix.to_owned(), ..S3Settings::new(CONTAINER, &[url], key) };
    on_volume(options, Arc::new(S3Store::open(settings, SystemClock::shared()).unwrap()))
}

fn on_volume(options: StoreOptions, volume: Arc<dyn BlobStore>) -> StoreOptions {
    let remote = RemoteOptions {
        volumes: [("far".to_owned(), volume)].into(),
        default: Some(RemotePath { volume: "far".to_owned(), path: "$_index_name".to_owned() }),
        of_index: [].into(),
        cache_bytes_max: 0,
        eviction_padding: 0,
        hotlist_recency_secs: 0,
        hotlist_of_index: [].into(),
        uploads_max: 1,
        orphan_grace_secs: 86_400,
        new_store_id: "00000000000000fa".to_owned(),
    };
    StoreOptions { remote: Some(Arc::new(remote)), ..options }
}

/// A store that counts the reads of its sealed slabs.
pub struct CountedStore {
    /// The store.
    pub store: Arc<Store>,
    reads: Arc<AtomicU64>,
    /// Action that runs while a sealed slab is read.
    pub interruption: Arc<Interruption>,
    counts_terms: bool,
    text: fn(u64) -> String,
}

impl CountedStore {
    /// Opens a store in `dir` with slabs of `slab_events` events, whose clock is long after [`START`]. Event number
    /// `at` has the text `text(at)`. If `counts_terms` is set, a lookup in a term dictionary counts as a read.
    pub fn open(dir: &Path, slab_events: usize, counts_terms: bool, text: fn(u64) -> String) -> Arc<CountedStore> {
        let options = StoreOptions { slab_events, ..StoreOptions::at(dir) };
        let store = Store::open(options, ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
        Arc::new(CountedStore { store, reads: Arc::default(), interruption: Arc::default(), counts_terms, text })
    }

    /// Appends events `from..until` to an index; their times are a second apart on average, shifted back by `late`
    /// seconds.
    pub fn append(&self, index: &str, from: u64, until: u64, late: i64) {
        /// Events per batch; slabs are only closed between batches.
        const BATCH: usize = 50;
        (from..until).step_by(BATCH).for_each(|at| self.append_batch(index, at..until.min(at + BATCH as u64), late));
    }

    /// Like [`CountedStore::append`], in one batch.
    pub fn append_batch(&self, index: &str, events: Range<u64>, late: i64) {
        let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
        let metas = ["web", "db"].map(|host| {
            batch.intern(&Metadata {
                index: index.into(),
                host: host.into(),
                source: "/var/log/x.log".into(),
                sourcetype: "mixed".into(),
            })
        });
        for at in events {
            // Three events share each time.
            let time = START + (at as i64 / 3 * 3 - late) * SECOND;
            batch.push((self.text)(at).as_bytes(), time, metas[(at / 10 % 2) as usize]);
        }
        self.store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }

    /// Number of reads of sealed slabs since the last call.
    pub fn reads(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

impl SnapshotSource for CountedStore {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        let mut snapshot = Store::snapshot(&self.store, indexes, range);
        for segment in &mut snapshot.segments {
            *segment = Arc::new(CountedSegment {
                inner: Arc::clone(segment),
                reads: Arc::clone(&self.reads),
                interruption: Arc::clone(&self.interruption),
                counts_terms: self.counts_terms,
            });
        }
        Ok(snapshot)
    }

    fn buckets(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Option<Vec<BucketListing>>, StoreError> {
        self.store.buckets_of(indexes, range).map(Some)
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// An action that runs once in the middle of a search, at a given read counted from the call of `set`.
#[derive(Default)]
pub struct Interruption(Mutex<Option<(u64, Work)>>);

impl std::fmt::Debug for Interruption {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Interruption")
    }
}

impl Interruption {
    /// Runs `work` at read number `at`, counted from 0.
    pub fn set(&self, at: u64, work: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((at, Box::new(work)));
    }

    /// Removes an action that has not run; returns true if there was one.
    pub fn clear(&self) -> bool {
        self.0.lock().unwrap().take().is_some()
    }

    /// Counts a read.
    pub fn step(&self) {
        let mut planned = self.0.lock().unwrap();
        match planned.as_mut() {
            None => {}
            Some((left, _)) if *left > 0 => *left -= 1,
            Some(_) => {
                let work = planned.take();
                drop(planned);
                work.into_iter().for_each(|(_, work)| work());
            }
        }
    }
}

/// Deletion of all rows of an index whose position in their page is a multiple of `by`.
pub fn deletion_of_every(store: &Store, index: &str, by: usize) -> Deletion {
    let mut deletion = Deletion::default();
    for segment in store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL).segments {
        for page in 0..segment.pages().len() {
            let rows: Vec<u32> = (0..segment.pages()[page].events).step_by(by).collect();
            assert!(segment.add_to_deletion(page, &rows, &mut deletion));
        }
    }
    deletion
}

/// A segment that counts its reads.
#[derive(Debug)]
struct CountedSegment {
    inner: Arc<dyn Segment>,
    reads: Arc<AtomicU64>,
    interruption: Arc<Interruption>,
    counts_terms: bool,
}

impl CountedSegment {
    fn count(&self) {
        if self.inner.stored().is_some() {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.interruption.step();
        }
    }
}

impl Segment for CountedSegment {
    fn bucket(&self) -> &str {
        self.inner.bucket()
    }
    fn index(&self) -> &str {
        self.inner.index()
    }
    fn origin(&self) -> u64 {
        self.inner.origin()
    }
    fn identity(&self) -> Option<SlabIdentity> {
        self.inner.identity()
    }
    fn stored(&self) -> Option<StoredSlab> {
        self.inner.stored()
    }
    fn metas(&self) -> Arc<[Metadata]> {
        self.inner.metas()
    }
    fn pages(&self) -> &[PageInfo] {
        self.inner.pages()
    }
    fn candidate_pages(&self, query: &TermQuery, fields: &dyn FieldColumns) -> Result<PageSet, StoreError> {
        if self.counts_terms {
            self.count();
        }
        self.inner.candidate_pages(query, fields)
    }
    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        self.count();
        self.inner.read_page(page, columns)
    }
    fn may_hold_fields(&self, page: usize) -> bool {
        self.inner.may_hold_fields(page)
    }
    fn template_set(&self) -> Result<Option<Arc<TemplateSet>>, StoreError> {
        self.count();
        self.inner.template_set()
    }
    fn dictionary(&self, column: u32) -> Result<Arc<Dictionary>, StoreError> {
        self.inner.dictionary(column)
    }
    fn has_templates(&self, page: usize) -> bool {
        self.inner.has_templates(page)
    }
    fn template_page(&self, page: usize) -> Result<Option<Box<dyn TemplatePage>>, StoreError> {
        self.count();
        self.inner.template_page(page)
    }
}
