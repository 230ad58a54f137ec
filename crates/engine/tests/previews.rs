//! A preview is the answer that the search would give if there were only the newest events that it has read, and making
//! previews changes no answer.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, OnceLock};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use quarry_engine::{Engine, EngineOptions, Preview, Previews, SearchRequest, Slicing, SnapshotSource};
use quarry_stdx::Clock;
use quarry_testworld::{CountedStore, engine, lines, request, rows_of};

/// Number of events: some pages, the newest of which is not full.
const EVENTS: u64 = 20_000;
const PAGE: u64 = 4_096;
/// Events that are appended at once.
const BATCH: u64 = 50;

/// A clock that always makes a preview due, and that reads and records every preview.
#[derive(Debug, Default)]
struct PreviewRecorder {
    ticks: Mutex<i64>,
    previews: OnceLock<Arc<Previews>>,
    seen: Mutex<Vec<Preview>>,
}

impl Clock for PreviewRecorder {
    fn now_ns(&self) -> i64 {
        self.elapsed_ns()
    }

    fn elapsed_ns(&self) -> i64 {
        if let Some(preview) = self.previews.get().and_then(|previews| previews.poll()) {
            let mut seen = self.seen.lock().unwrap();
            if seen.last().is_none_or(|last| last.number < preview.number) {
                seen.push(preview);
            }
        }
        let mut ticks = self.ticks.lock().unwrap();
        *ticks += 1_000_000_000_000;
        *ticks
    }
}

struct World {
    store: Arc<CountedStore>,
    engine: Engine,
    _folder: tempfile::TempDir,
}

impl World {
    /// A world whose slabs are sealed at `slab_events` events.
    fn new(workers: usize, slab_events: usize) -> World {
        let folder = tempfile::tempdir().unwrap();
        let text = |at: u64| format!("n={at} kind=k{} size={} text", at % 7, at * 31 % 1_000);
        let store = CountedStore::open(folder.path(), slab_events, false, text);
        store.append("main", 0, EVENTS, 0);
        if slab_events < EVENTS as usize {
            store.store.seal_all().unwrap();
        }
        let slicing = Slicing { window_pages: 2, workers: Some(workers), ..Slicing::default() };
        let options = EngineOptions { slicing, ..EngineOptions::default() };
        World { store, engine: engine(&options), _folder: folder }
    }

    /// The rows of commands over all events, and their previews if they are `watched`.
    fn run_search(&self, search: &str, watched: Option<&Arc<PreviewRecorder>>) -> Vec<String> {
        let request = SearchRequest {
            now: quarry_testworld::START + 1_000_000 * quarry_testworld::SECOND,
            sid: Some("1.1".to_owned()),
            ..request(&format!("search * | {search}"))
        };
        let source: Arc<dyn SnapshotSource> = Arc::<CountedStore>::clone(&self.store);
        let mut job =
            self.engine.start_on_reader_thread(request, source).map_err(|faults| faults[0].message.clone()).unwrap();
        if let Some(watched) = watched {
            assert!(watched.previews.set(Arc::clone(job.previews())).is_ok());
            let clock: Arc<PreviewRecorder> = Arc::clone(watched);
            job.previews().enable(&(clock as quarry_stdx::SharedClock));
        }
        lines(&rows_of(&mut job).unwrap())
    }
}

/// Numbers of events that a preview may cover: those of the newest pages, or the count in the preview itself.
fn events_of(preview: &Preview, slab_events: u64) -> Vec<u64> {
    let rows = preview.rows.iter().map(|batch| batch.num_rows() as u64).sum();
    let counts = preview.rows.iter().filter_map(|batch| batch.column_by_name("count"));
    let counted = counts.flat_map(|counts| counts.as_primitive_opt::<Int64Type>().into_iter().flatten().flatten());
    let mut found = vec![rows, u64::try_from(counted.sum::<i64>()).unwrap()];
    // A batch that would exceed the limit of a slab begins a new slab.
    let (mut newest_pages, mut begin) = (Vec::new(), 0);
    while begin < EVENTS {
        let end = (begin + slab_events / BATCH * BATCH).min(EVENTS);
        newest_pages.extend((begin..end).step_by(PAGE as usize).map(|page| (page + PAGE).min(end) - page));
        begin = end;
    }
    found.extend(newest_pages.iter().rev().scan(0, |events, page| {
        *events += page;
        Some(*events)
    }));
    found
}

const SEARCHES: [&str; 17] = [
    "stats count sum(size) avg(size) dc(kind) first(n) last(n) latest(n) values(kind) by host",
    "stats count perc90(size) list(host) by kind | sort - count | head 3 | eval share=count*2",
    "eval big=if(size>500,1,0) | stats count by big, kind | where count > 3",
    "timechart span=1h count by kind",
    "chart count over host by kind",
    "chart avg(size) by kind | sort - \"avg(size)\"",
    "top limit=3 kind",
    "rare kind by host",
    "stats count by kind | eventstats sum(count) as total | fieldformat total=total.\" in all\"",
    "sort - size | table n size",
    "eventstats avg(size) as mean by kind | table n mean",
    "transaction kind maxevents=5 | table kind eventcount duration",
    "sort 5 size | table n size",
    "stats count max(n) by kind | append [search * | head 1 | fields n]",
    "join kind [search * | stats max(n) as most by kind] | table n kind most",
    "sort - size | appendcols [search * | head 3 | rename n as m | fields m] | table n m",
    "sort - size | appendpipe [stats count as all] | table n all",
];

#[test]
fn previews_are_results_over_the_newest_events() {
    // The remaining events are unsealed, sealed in one slab, or in several.
    for slab_events in [1 << 20, 19_999, 8_192] {
        let world = World::new(1, slab_events);
        for commands in SEARCHES {
            let watched = Arc::<PreviewRecorder>::default();
            let expected = world.run_search(commands, None);
            assert_eq!(world.run_search(commands, Some(&watched)), expected, "{commands}: previews change nothing");
            let seen = watched.seen.lock().unwrap();
            assert!(!seen.is_empty(), "{commands}: no preview");
            let last = seen.last().unwrap();
            for preview in [&seen[0], last] {
                let shown = lines(&preview.rows);
                let is_of = |events: u64| world.run_search(&format!("head {events} | {commands}"), None) == shown;
                assert!(
                    events_of(preview, slab_events as u64).into_iter().any(is_of),
                    "{commands}: {} {shown:?}",
                    preview.number
                );
            }
        }
    }
}

#[test]
fn workers_share_states_without_waiting_for_each_other() {
    let world = World::new(4, 4_096);
    for commands in ["stats count sum(size) by kind", "timechart count", "timechart count by host", "stats count by n"]
    {
        let watched = Arc::<PreviewRecorder>::default();
        let expected = world.run_search(commands, None);
        assert_eq!(world.run_search(commands, Some(&watched)), expected, "{commands}");
        // Another run, with the cached states of its windows.
        assert_eq!(world.run_search(commands, Some(&Arc::default())), expected, "{commands}");
    }
}

#[test]
fn commands_that_cannot_run_twice_have_no_preview() {
    let world = World::new(1, 1 << 20);
    for commands in [
        "stats count by kind | collect index=main testmode=true",
        "stats count by kind | map search=\"| makeresults\"",
        "head 5",
    ] {
        let watched = Arc::<PreviewRecorder>::default();
        world.run_search(commands, Some(&watched));
        assert!(watched.seen.lock().unwrap().is_empty(), "{commands}");
    }
}
