//! A store with events of some shapes, and engines with and without cached states.

use std::path::Path;
use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, SearchRequest};
use quarry_event::{EventBatch, Metadata, TimeNs, TimeRange};
use quarry_store::AppendRequest;
pub(crate) use quarry_testworld::{CountedStore as World, SECOND, START, deletion_of_every};
use quarry_testworld::{NoTables, lines, request, rows_of};

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
    World::open(dir, slab_events, true, text)
}

/// Appends events, each with a key of its own.
pub(crate) fn append_keys(world: &World, keys: u64) {
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
    world.store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
}

/// An engine that caches at most `partial_state_bytes` bytes of states.
pub(crate) fn engine(partial_state_bytes: usize, props: &str) -> Engine {
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: props.into() };
    let options = EngineOptions { partial_state_bytes, ..EngineOptions::default() };
    Engine::new(&options, Arc::new(PropsResolver::new(&Layers::new([source]))), Arc::new(NoTables)).unwrap()
}

/// Cache limit that holds the states of every search in these tests.
pub(crate) const SUFFICIENT_BYTES: usize = 64 << 20;

/// Result of a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchOutcome {
    pub(crate) rows: Vec<String>,
    pub(crate) messages: Vec<String>,
    /// Pages that may match, pages done, events scanned, events that matched.
    pub(crate) figures: [u64; 4],
    pub(crate) partial: bool,
}

#[derive(Clone)]
pub(crate) struct TestSearch {
    pub(crate) text: String,
    pub(crate) range: TimeRange,
    pub(crate) now: TimeNs,
    pub(crate) zone: jiff::tz::TimeZone,
}

impl TestSearch {
    pub(crate) fn new(text: &str) -> TestSearch {
        let zone = jiff::tz::TimeZone::UTC;
        TestSearch { text: text.to_owned(), range: TimeRange::ALL, now: START + 1_000_000 * SECOND, zone }
    }

    /// A search over the events between these seconds after [`START`].
    pub(crate) fn within(text: &str, from: i64, until: i64) -> TestSearch {
        let range = TimeRange { earliest: Some(START + from * SECOND), latest: Some(START + until * SECOND) };
        TestSearch { range, ..TestSearch::new(text) }
    }

    pub(crate) fn run(&self, engine: &Engine, world: &Arc<World>) -> SearchOutcome {
        self.run_counting_skipped_pages(engine, world).0
    }

    /// The answer and how many pages were not read.
    pub(crate) fn run_counting_skipped_pages(&self, engine: &Engine, world: &Arc<World>) -> (SearchOutcome, u64) {
        let request =
            SearchRequest { range: self.range, now: self.now, zone: self.zone.clone(), ..request(&self.text) };
        let source: Arc<World> = Arc::clone(world);
        let mut job = engine.start(request, source).unwrap_or_else(|faults| panic!("{}: {faults:?}", self.text));
        let rows = lines(&rows_of(&mut job).unwrap_or_else(|error| panic!("{}: {error}", self.text)));
        let progress = job.progress();
        let figures =
            [progress.pages_total(), progress.pages_done(), progress.events_scanned(), progress.events_matched()];
        let answer = SearchOutcome { rows, messages: job.messages(), figures, partial: job.is_partial() };
        (answer, progress.pages_cached())
    }
}

impl TestSearch {
    /// Starts the search and stops it immediately.
    pub(crate) fn stop_early(&self, engine: &Engine, world: &Arc<World>) {
        let request =
            SearchRequest { range: self.range, now: self.now, zone: self.zone.clone(), ..request(&self.text) };
        let source: Arc<World> = Arc::clone(world);
        let mut job = engine.start(request, source).unwrap();
        job.stopper().finish_early();
        while job.next_batch().is_some() {}
    }
}
