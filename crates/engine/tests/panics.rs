//! A panic in a search ends it with an error that says where, however events are read, and never with an incomplete
//! answer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_engine::{Engine, EngineOptions, Job, SearchRequest, SnapshotSource};
use quarry_event::{EventBatch, Metadata, Page, PageColumns, TimeRange};
use quarry_spl::Diagnostic;
use quarry_store::{IndexSelector, MemoryStore, Segment, Snapshot, StoreError};
use quarry_testworld::{count, engine, request};

/// Events, one page of which panics when read while it is armed.
struct ArmedStore {
    store: MemoryStore,
    armed: Arc<AtomicBool>,
}

impl SnapshotSource for ArmedStore {
    fn snapshot(&self, _: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        assert!(range.latest != Some(5), "the injected panic of the snapshot");
        let mut snapshot = self.store.snapshot();
        for segment in &mut snapshot.segments {
            *segment = Arc::new(PanickingSegment { inner: Arc::clone(segment), armed: Arc::clone(&self.armed) });
        }
        Ok(snapshot)
    }
}

#[derive(Debug)]
struct PanickingSegment {
    inner: Arc<dyn Segment>,
    armed: Arc<AtomicBool>,
}

impl Segment for PanickingSegment {
    quarry_testworld::segment_of!(inner);
    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        assert!(page != 3 || !self.armed.load(Ordering::Relaxed), "the injected panic of page 3");
        self.inner.read_page(page, columns)
    }
}

const EVENTS: i64 = 40_000;

fn world() -> (Engine, Arc<ArmedStore>) {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch::default();
    let meta = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() };
    let meta = batch.intern(&meta);
    (0..EVENTS).for_each(|at| batch.push(format!("number={at} class=c{}", at % 7).as_bytes(), at, meta));
    store.append(batch).unwrap();
    (engine(&EngineOptions::default()), Arc::new(ArmedStore { store, armed: Arc::new(AtomicBool::new(true)) }))
}

/// Number of rows, or the error; checks that it is the same on a search thread and on the reader's thread.
fn run_search(engine: &Engine, world: &Arc<ArmedStore>, search: &str, range: TimeRange) -> Result<usize, String> {
    let queued = rows_of(engine, Engine::start, world, search, range);
    assert_eq!(rows_of(engine, Engine::start_on_reader_thread, world, search, range), queued, "{search}");
    queued
}

type Start = fn(&Engine, SearchRequest, Arc<dyn SnapshotSource>) -> Result<Job, Vec<Diagnostic>>;

fn rows_of(
    engine: &Engine,
    start: Start,
    world: &Arc<ArmedStore>,
    search: &str,
    range: TimeRange,
) -> Result<usize, String> {
    let request = SearchRequest { range, ..request(search) };
    let source: Arc<dyn SnapshotSource> = Arc::<ArmedStore>::clone(world);
    let mut job = start(engine, request, source).map_err(|faults| faults[0].message.clone())?;
    let rows = quarry_testworld::rows_of(&mut job);
    rows.map(|rows| count(&rows)).map_err(|error| error.to_string())
}

#[test]
fn a_panic_while_events_are_read_is_an_error_of_the_search() {
    let (engine, world) = world();
    for (search, rows, stage) in [
        ("class=* | stats count by number", 40_000, "while events were read and folded: the injected panic of page 3"),
        ("class=c1", 5_715, "while events were read in order of time: the injected panic of page 3"),
        ("class=* | sort 0 number", 40_000, "the injected panic of page 3"),
        ("class=* | eval n=number | dedup class", 7, "the injected panic of page 3"),
        ("| makeresults | append [search class=* | stats count]", 2, "the injected panic of page 3"),
        ("class=* | timechart count", 1, "the injected panic of page 3"),
    ] {
        world.armed.store(true, Ordering::Relaxed);
        let error = run_search(&engine, &world, search, TimeRange::ALL).expect_err(search);
        assert!(error.contains("internal error") && error.contains(stage), "{search}: {error}");
        // The engine and its threads remain usable.
        world.armed.store(false, Ordering::Relaxed);
        assert_eq!(run_search(&engine, &world, search, TimeRange::ALL), Ok(rows), "{search}");
    }
}

#[test]
fn a_panic_on_the_search_thread_is_reported_as_its_error() {
    let (engine, world) = world();
    let range = TimeRange { earliest: Some(0), latest: Some(5) };
    let error = run_search(&engine, &world, "class=*", range).unwrap_err();
    assert!(error.contains("internal error while commands were run: the injected panic of the snapshot"), "{error}");
}
