//! A store with events of some shapes, and engines with and without kept states.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, LookupSource, LookupTable, SearchRequest, SnapshotSource};
use quarry_event::shape::{Dictionary, Shapes};
use quarry_event::{EventBatch, FieldColumns, Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs, TimeRange};
use quarry_stdx::ManualClock;
use quarry_store::{
    AppendRequest, Deletion, IndexSelector, PageInfo, Segment, ShapedPage, SlabIdentity, Snapshot, Store, StoreError,
    StoreOptions,
};

pub(crate) const SECOND: i64 = 1_000_000_000;
/// When the first event happened.
pub(crate) const START: i64 = 1_700_000_000 * SECOND;

pub(crate) struct NoTables;

impl LookupSource for NoTables {
    fn table(&self, _: &str) -> Result<Option<LookupTable>, String> {
        Ok(None)
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A store that counts the pages of sealed slabs that are read.
pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    reads: Arc<AtomicU64>,
    /// What happens while a sealed slab is read.
    pub(crate) interruption: Arc<Interruption>,
}

impl SnapshotSource for World {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        let mut snapshot = Store::snapshot(&self.store, indexes, range);
        for segment in &mut snapshot.segments {
            *segment = Arc::new(Counted {
                inner: Arc::clone(segment),
                reads: Arc::clone(&self.reads),
                interruption: Arc::clone(&self.interruption),
            });
        }
        Ok(snapshot)
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// What happens in the middle of a search: once, at a read that is counted from when it was set.
#[derive(Default)]
pub(crate) struct Interruption(Mutex<Option<(u64, Work)>>);

impl std::fmt::Debug for Interruption {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Interruption")
    }
}

impl Interruption {
    /// Runs `work` at read number `at`, from 0.
    pub(crate) fn set(&self, at: u64, work: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((at, Box::new(work)));
    }

    /// Forgets what did not happen; tells whether it was still to come.
    pub(crate) fn clear(&self) -> bool {
        self.0.lock().unwrap().take().is_some()
    }

    /// A read.
    fn step(&self) {
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

/// All rows of a store of one index whose place in their page is a multiple of `by`.
pub(crate) fn every(store: &Store, index: &str, by: usize) -> Deletion {
    let mut deletion = Deletion::default();
    for segment in store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL).segments {
        for page in 0..segment.pages().len() {
            let rows: Vec<u32> = (0..segment.pages()[page].events).step_by(by).collect();
            assert!(segment.note_deleted(page, &rows, &mut deletion));
        }
    }
    deletion
}

#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Segment>,
    reads: Arc<AtomicU64>,
    interruption: Arc<Interruption>,
}

impl Counted {
    fn count(&self) {
        if self.inner.identity().is_some() {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.interruption.step();
        }
    }
}

impl Segment for Counted {
    fn bucket(&self) -> &str {
        self.inner.bucket()
    }
    fn index(&self) -> &str {
        self.inner.index()
    }
    fn sequence(&self) -> u64 {
        self.inner.sequence()
    }
    fn identity(&self) -> Option<SlabIdentity> {
        self.inner.identity()
    }
    fn metas(&self) -> Arc<[Metadata]> {
        self.inner.metas()
    }
    fn pages(&self) -> &[PageInfo] {
        self.inner.pages()
    }
    fn candidate_pages(&self, query: &TermQuery, fields: &dyn FieldColumns) -> Result<PageSet, StoreError> {
        self.count();
        self.inner.candidate_pages(query, fields)
    }
    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        self.count();
        self.inner.read_page(page, columns)
    }
    fn may_hold_fields(&self, page: usize) -> bool {
        self.inner.may_hold_fields(page)
    }
    fn shapes(&self) -> Result<Option<Arc<Shapes>>, StoreError> {
        self.count();
        self.inner.shapes()
    }
    fn dictionary(&self, column: u32) -> Result<Arc<Dictionary>, StoreError> {
        self.inner.dictionary(column)
    }
    fn is_shaped(&self, page: usize) -> bool {
        self.inner.is_shaped(page)
    }
    fn shaped_page(&self, page: usize) -> Result<Option<Box<dyn ShapedPage>>, StoreError> {
        self.count();
        self.inner.shaped_page(page)
    }
}

/// Event number `at`.
fn text(at: u64) -> String {
    let user = ["alice", "bob", "Carol", "dave", "zoë"][(at * 7 % 5) as usize];
    let status = [200, 200, 404, 500, 301][(at * 3 % 5) as usize];
    match at % 4 {
        0 => format!("user={user} status={status} took={}.25 path=/a/{} level=INFO", at % 50, at % 9),
        1 => format!("user={user} status={status} took={}.5 level=error not found", at % 31),
        2 => {
            format!("{{\"user\":\"{user}\",\"status\":{status},\"tags\":[\"x\",\"t{}\"],\"took\":{}}}", at % 3, at % 17)
        }
        _ => format!("plain words of {user} code-{status} ERROR found not {}", at % 11),
    }
}

/// Opens a store whose slabs are small.
pub(crate) fn open(dir: &Path, slab_events: usize) -> Arc<World> {
    let options = StoreOptions { slab_events, ..StoreOptions::at(dir) };
    let store = Store::open(options, ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    Arc::new(World { store, reads: Arc::default(), interruption: Arc::default() })
}

impl World {
    /// Appends events `from..until` to an index, a second apart, `late` seconds before their time.
    pub(crate) fn append(&self, index: &str, from: u64, until: u64, late: i64) {
        /// Events of a batch: a slab is closed between batches.
        const BATCH: usize = 50;
        (from..until).step_by(BATCH).for_each(|at| self.append_batch(index, at..until.min(at + BATCH as u64), late));
    }

    /// As [`World::append`], at once.
    pub(crate) fn append_batch(&self, index: &str, events: std::ops::Range<u64>, late: i64) {
        let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
        let metas: Vec<u32> = ["web", "db"]
            .into_iter()
            .map(|host| {
                batch.intern(&Metadata {
                    index: index.into(),
                    host: host.into(),
                    source: "/var/log/x.log".into(),
                    sourcetype: "mixed".into(),
                })
            })
            .collect();
        for at in events {
            // Not one instant per event: several meet.
            let time = START + (at as i64 / 3 * 3 - late) * SECOND;
            batch.push(text(at).as_bytes(), time, metas[(at / 10 % 2) as usize]);
        }
        self.store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }

    /// Appends events of one key each, all different.
    pub(crate) fn append_keys(&self, keys: u64) {
        let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: "keys".into(),
            source: "/var/log/keys.json".into(),
            sourcetype: "mixed".into(),
        });
        for at in 0..keys {
            batch.push(format!("{{\"k{at}\":\"v{}\"}}", at % 3).as_bytes(), START + at as i64 * SECOND, meta);
        }
        self.store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }

    /// Asks for pages of sealed slabs since the last call.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

/// An engine that keeps so many bytes of states.
pub(crate) fn engine(partial_state_bytes: usize, props: &str) -> Engine {
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: props.into() };
    let options = EngineOptions { partial_state_bytes, ..EngineOptions::default() };
    Engine::new(&options, Arc::new(PropsResolver::new(&Layers::new([source]))), Arc::new(NoTables)).unwrap()
}

/// Bytes that are enough for everything here.
pub(crate) const PLENTY: usize = 64 << 20;

/// What a search gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<String>,
    pub(crate) messages: Vec<String>,
    /// Pages that may match, pages done, events looked at, events that matched.
    pub(crate) figures: [u64; 4],
    pub(crate) partial: bool,
}

/// A question.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) range: TimeRange,
    pub(crate) now: TimeNs,
    pub(crate) zone: jiff::tz::TimeZone,
}

impl Question {
    pub(crate) fn new(text: &str) -> Question {
        let zone = jiff::tz::TimeZone::UTC;
        Question { text: text.to_owned(), range: TimeRange::ALL, now: START + 1_000_000 * SECOND, zone }
    }

    /// Between these seconds after the start.
    pub(crate) fn within(text: &str, from: i64, until: i64) -> Question {
        let range = TimeRange { earliest: Some(START + from * SECOND), latest: Some(START + until * SECOND) };
        Question { range, ..Question::new(text) }
    }

    pub(crate) fn ask(&self, engine: &Engine, world: &Arc<World>) -> Answer {
        self.ask_counting(engine, world).0
    }

    /// The answer and how many pages were not read.
    pub(crate) fn ask_counting(&self, engine: &Engine, world: &Arc<World>) -> (Answer, u64) {
        let request = SearchRequest {
            text: self.text.clone(),
            range: self.range,
            now: self.now,
            zone: self.zone.clone(),
            default_indexes: vec!["main".into()],
            permissions: std::sync::Arc::new(quarry_conf::Permissions::owner()),
            sid: None,
        };
        let source: Arc<World> = Arc::clone(world);
        let mut job = engine.start(request, source).unwrap_or_else(|faults| panic!("{}: {faults:?}", self.text));
        let mut rows = Vec::new();
        while let Some(batch) = job.next_batch() {
            let batch = batch.unwrap_or_else(|error| panic!("{}: {error}", self.text));
            for row in 0..batch.num_rows() {
                let cells: Vec<String> = (batch.schema().fields().iter().zip(batch.columns()))
                    .map(|(field, column)| {
                        let text = arrow::util::display::array_value_to_string(column, row).unwrap();
                        format!("{}={text}", field.name())
                    })
                    .collect();
                rows.push(cells.join(" | "));
            }
        }
        let progress = job.progress();
        let figures =
            [progress.pages_total(), progress.pages_done(), progress.events_scanned(), progress.events_matched()];
        let answer = Answer { rows, messages: job.messages(), figures, partial: job.is_partial() };
        (answer, progress.pages_kept())
    }
}

impl Question {
    /// Starts and stops at once.
    pub(crate) fn stop_early(&self, engine: &Engine, world: &Arc<World>) {
        let request = SearchRequest {
            text: self.text.clone(),
            range: self.range,
            now: self.now,
            zone: self.zone.clone(),
            default_indexes: vec!["main".into()],
            permissions: std::sync::Arc::new(quarry_conf::Permissions::owner()),
            sid: None,
        };
        let source: Arc<World> = Arc::clone(world);
        let mut job = engine.start(request, source).unwrap();
        job.stopper().finish_early();
        while job.next_batch().is_some() {}
    }
}
