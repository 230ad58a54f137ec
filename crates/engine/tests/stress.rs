//! Searches at extremes: very many fields, keys and indexes, and very large events. Each search returns correct results
//! and accounts for no more memory than its limit.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use quarry_engine::{EngineOptions, SearchRequest, SnapshotSource};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, MemoryStore, Store, StoreOptions};
use quarry_testworld::{engine, request};

const MEGABYTE: usize = 1 << 20;
const SECOND: i64 = 1_000_000_000;

/// A search over some events within a memory limit, and the assertion about its rows.
struct Case {
    name: &'static str,
    events: fn() -> EventBatch,
    search: &'static str,
    megabytes: usize,
    rows: usize,
    columns: usize,
    /// The first row's cells, if the test checks them.
    first: &'static str,
}

const CASES: [Case; 8] = [
    Case {
        name: "100,000 names of fields, sorted",
        events: many_fields,
        search: "search * | sort 0 _time",
        megabytes: 64,
        rows: 10_000,
        // A search that shows all fields shows a thousand, in addition to those that every event has.
        columns: 1_007,
        first: "",
    },
    Case {
        name: "100,000 names of fields, one of them in the search",
        events: many_fields,
        search: "search * | stats count(k77777_7) as one sum(k77777_7) as sum",
        megabytes: 64,
        rows: 1,
        columns: 2,
        first: "one=1 sum=77777",
    },
    Case {
        name: "an event of 10 MB",
        events: large_event,
        search: "search * | eval bytes=len(_raw) | sort 0 _raw | stats count max(bytes) as most",
        megabytes: 64,
        rows: 1,
        columns: 2,
        first: "count=101 most=10485760",
    },
    Case {
        name: "an event of 10 MB in a transaction",
        events: large_event,
        search: "search * | transaction host maxevents=50 | eval bytes=len(_raw) | stats count max(bytes) as most",
        megabytes: 64,
        rows: 1,
        columns: 2,
        first: "count=3 most=10486054",
    },
    Case {
        name: "a million keys",
        events: EventBatch::default,
        search: "| makeresults count=1000000 | streamstats count as n | eval key=\"a key of its own, number \".n \
                 | stats count max(n) as n by key | stats count sum(n) as sum",
        megabytes: 64,
        rows: 1,
        columns: 2,
        first: "count=1000000 sum=500000500000",
    },
    Case {
        name: "a million rows sorted",
        events: EventBatch::default,
        search: "| makeresults count=1000000 | streamstats count as n | eval key=\"a key, number \".(n*7919%1000003) \
                 | sort 0 - num(n) | head 1 | table n",
        megabytes: 64,
        rows: 1,
        columns: 1,
        first: "n=1000000",
    },
    Case {
        name: "a window of 100,000 rows",
        events: EventBatch::default,
        search: "| makeresults count=200000 | streamstats count as n \
                 | streamstats window=100000 sum(n) as sum avg(n) as avg min(n) as min max(n) as max dc(n) as dc \
                   first(n) as first last(n) as last \
                 | tail 1 | table sum avg min max dc first last",
        megabytes: 256,
        rows: 1,
        columns: 7,
        first: "sum=15000050000 avg=150000.5 min=100001 max=200000 dc=100000 first=100001 last=200000",
    },
    Case {
        name: "every event a transaction",
        events: EventBatch::default,
        search: "| makeresults count=200000 | streamstats count as n | eval _time=1000000-n, key=\"k\".n \
                 | transaction key maxspan=1m | stats count sum(eventcount) as events",
        megabytes: 64,
        rows: 1,
        columns: 2,
        first: "count=200000 events=200000",
    },
];

fn batch() -> EventBatch {
    let mut batch = EventBatch { index_time: SECOND, ..EventBatch::default() };
    let text: Arc<str> = "x".into();
    batch.intern(&Metadata { index: "main".into(), host: text.clone(), source: text.clone(), sourcetype: text });
    batch
}

/// 10,000 events, each with ten fields that no other event has.
fn many_fields() -> EventBatch {
    let mut batch = batch();
    for at in 0..10_000_i64 {
        let fields: Vec<String> =
            (0..10).map(|field| format!("k{}_{field}={}", at * 10 + field, at * 10 + field)).collect();
        batch.push(fields.join(" ").as_bytes(), at * 7_919 % 10_000 * SECOND, 0);
    }
    batch
}

/// One event of 10 MB among a hundred short ones.
fn large_event() -> EventBatch {
    let mut batch = batch();
    for at in 0..101_i64 {
        let text =
            if at == 50 { "large ".repeat(2 * MEGABYTE)[..10 * MEGABYTE].to_owned() } else { "short".to_owned() };
        batch.push(text.as_bytes(), at * SECOND, 0);
    }
    batch
}

struct SearchOutcome {
    rows: usize,
    columns: usize,
    first: String,
    most_bytes: usize,
}

fn run_search(search: &str, memory_bytes: usize, source: Arc<dyn SnapshotSource>) -> SearchOutcome {
    let options = EngineOptions { memory_bytes, ..EngineOptions::default() };
    let engine = engine(&options);
    let request = SearchRequest { now: 2_000_000 * SECOND, ..request(search) };
    let mut job = engine.start(request, source).map_err(|faults| faults[0].message.clone()).unwrap();
    let mut rows = job.result_rows();
    while let Some(batch) = job.next_batch() {
        rows.push(&batch.unwrap()).unwrap();
    }
    let mut answer =
        SearchOutcome { rows: rows.num_rows(), columns: rows.names().len(), first: String::new(), most_bytes: 0 };
    if let Some(batch) = rows.batches().next() {
        let batch = batch.unwrap();
        let schema = batch.schema();
        let cells = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
            let text = arrow::util::display::array_value_to_string(column, 0).unwrap();
            // Numbers are compared as displayed.
            format!("{}={}", field.name(), text.trim_end_matches(".0"))
        });
        answer.first = cells.collect::<Vec<_>>().join(" ");
    }
    answer.most_bytes = engine.peak_memory_bytes();
    answer
}

#[test]
fn results_are_correct_within_the_memory_limit() {
    for case in &CASES {
        let store = MemoryStore::new("main");
        store.append((case.events)()).unwrap();
        let answer = run_search(case.search, case.megabytes * MEGABYTE, Arc::new(store));
        assert_eq!(answer.rows, case.rows, "{}", case.name);
        assert_eq!(answer.columns, case.columns, "{}", case.name);
        if !case.first.is_empty() {
            assert_eq!(answer.first, case.first, "{}", case.name);
        }
        assert!(answer.most_bytes <= case.megabytes * MEGABYTE, "{}: {} bytes held", case.name, answer.most_bytes);
    }
}

#[test]
fn ten_thousand_indexes_of_one_event_each_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    let configured_indexes = (0..10_000).map(|at| format!("index{at}")).collect();
    let options = StoreOptions { configured_indexes, ..StoreOptions::at(folder.path()) };
    let store = Store::open(options, ManualClock::shared(2_000_000 * SECOND)).unwrap();
    let mut batch = EventBatch { index_time: SECOND, ..EventBatch::default() };
    let text: Arc<str> = "x".into();
    for at in 0..10_000_u32 {
        let (index, text) = (format!("index{at}"), text.clone());
        batch.metas.push(Metadata {
            index: index.as_str().into(),
            host: text.clone(),
            source: text.clone(),
            sourcetype: text,
        });
        batch.push(format!("n={at}").as_bytes(), i64::from(at) * SECOND, at);
    }
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    let search = "search index=* | stats count sum(n) as sum by index | stats count sum(sum) as sum";
    let answer = run_search(search, 64 * MEGABYTE, store);
    assert_eq!((answer.rows, answer.first.as_str()), (1, "count=10000 sum=49995000"));
    assert!(answer.most_bytes <= 64 * MEGABYTE);
}
