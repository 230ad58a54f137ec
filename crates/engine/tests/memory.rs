//! Searches have the same result with little memory as with much, or end with an error that names the limit.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::record_batch::RecordBatch;
use quarry_engine::{EngineOptions, Job};
use quarry_event::{EventBatch, Metadata};
use quarry_store::MemoryStore;
use quarry_testworld::{engine, lines, request};

/// The rows as texts, each with the names of its fields, or the error.
fn run_search(search: &str, memory_bytes: usize) -> Result<Vec<String>, String> {
    run_search_on(search, memory_bytes, Arc::new(MemoryStore::new("main")))
}

fn run_search_on(search: &str, memory_bytes: usize, store: Arc<MemoryStore>) -> Result<Vec<String>, String> {
    read_batches(search, memory_bytes, store, |_, _| ())
}

/// Runs a search as [`run_search`] does, and calls `between` after each batch.
fn read_batches(
    search: &str,
    memory_bytes: usize,
    store: Arc<MemoryStore>,
    mut between: impl FnMut(&Job, &RecordBatch),
) -> Result<Vec<String>, String> {
    let options = EngineOptions { memory_bytes, ..EngineOptions::default() };
    let engine = engine(&options);
    let request = request(search);
    let mut job = engine.start_on_reader_thread(request, store).map_err(|faults| faults[0].message.clone())?;
    let mut found = Vec::new();
    while let Some(batch) = job.next_batch() {
        let batch = batch.map_err(|error| error.to_string())?;
        between(&job, &batch);
        found.extend(lines(&[batch]));
    }
    Ok(found)
}

/// 30,000 rows with 10,000 keys, unordered.
const ROWS: &str = "| makeresults count=30000 | streamstats count as n | fields n \
    | eval key=\"key number \".((n*7919)%10000), value=(n*31)%1000, class=\"c\".(n%7)";

#[test]
fn results_do_not_depend_on_memory() {
    let mut faults = Vec::new();
    for commands in [
        "stats count sum(value) avg(value) dc(n) values(n) list(n) mode(value) by key",
        "stats min(value) max(value) range(value) stdev(value) median(value) first(n) last(n) by key",
        "stats sparkline(count) as line count by class",
        "stats count(val*) by key",
        "eventstats count max(value) as most by class",
        "streamstats count sum(value) by class",
        "sort 0 value -n",
        "sort 0 key",
        "sort 20000 value n",
        "sort - class, key",
        "sort 0 value | sort 0 - num(n) | sort 0 str(key)",
        "reverse",
        "require",
        "appendpipe [stats count by class]",
        "appendpipe [where value<10 | eval class=\"x\"]",
        "tail 15000",
        "dedup class",
        "fillnull value=0",
        "bin bins=5 value",
        "append [| makeresults count=3 | eval key=\"x\"]",
        "join type=left value [| makeresults count=200 | streamstats count as value | eval more=value*2 | fields value more]",
        "chart count by class",
        "chart count over class by value limit=5",
        "top limit=7 value",
        "top limit=7 key",
        "eval key=case(n%3=0, \"t\".(n%4), n%3=1, n%5000, true(), key) | top limit=7 key",
        "rare limit=3 value by class",
        "eval _time=n | sort 0 - _time | transaction key maxspan=20s keepevicted=true",
        "eval _time=n | sort 0 - _time | transaction class maxevents=40 mvlist=value",
        "eval _time=n | sort 0 - _time | transaction class startswith=eval(value<100) maxpause=9s keeporphans=true",
    ] {
        let search = format!("{ROWS} | {commands}");
        let expected = run_search(&search, 1 << 30).unwrap();
        assert!(expected.len() > 2, "{commands}");
        match run_search(&search, 4 << 20) {
            Ok(found) if found == expected => {}
            Ok(found) => faults.push(format!("{commands}: {} rows of {}", found.len(), expected.len())),
            Err(error) => faults.push(format!("{commands}: {error}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_that_cannot_spill_report_the_memory_limit() {
    for commands in [
        "streamstats count by key",
        "dedup key",
        "stats values(key)",
        "eventstats count by key",
        "transaction n",
        // Commands that need all rows at once.
        "cluster field=key",
        "outlier value",
        "appendcols [| makeresults | eval more=1]",
        "makecontinuous n",
        "eval _time=n | concurrency duration=value",
        "eval _time=n | timewrap 1h",
        "kmeans k=2 value",
        "anomalousvalue action=annotate value",
        "analyzefields classfield=class",
        "anomalydetection value",
        "arules key class",
        "associate key class",
        "bucketdir pathfield=key sizefield=value",
        "correlate type=cocur",
        "mvcombine key",
        "selfjoin n",
        "anomalies field=key",
        "predict value",
        "erex more examples=\"number 1\"",
        "xyseries n key value",
    ] {
        let error = run_search(&format!("{ROWS} | {commands}"), 200 << 10).unwrap_err();
        assert!(error.contains("[search] max_mem_usage_mb"), "{commands}: {error}");
    }
}

/// Events in random order of time, each with one of many fields.
fn sparse_events(count: usize, fields: usize) -> Arc<MemoryStore> {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 7, ..EventBatch::default() };
    let text: Arc<str> = "x".into();
    batch.intern(&Metadata { index: "main".into(), host: text.clone(), source: text.clone(), sourcetype: text });
    for at in 0..count {
        let time = (at * 7919 % count) as i64 * 1_000_000_000;
        batch.push(format!("key{}=value{at} n={at}", at * 31 % fields).as_bytes(), time, 0);
    }
    store.append(batch).unwrap();
    Arc::new(store)
}

#[test]
fn sparse_columns_use_memory_only_for_their_values() {
    for commands in
        ["table *", "stats values(key*)", "sort 0 - n", "eventstats max(n) as most | stats count(key7*) max(most)"]
    {
        let search = format!("search * | {commands}");
        let ask = |memory_bytes| run_search_on(&search, memory_bytes, sparse_events(6_000, 300));
        let (mut expected, mut found) = (ask(1 << 30).unwrap(), ask(6 << 20).unwrap());
        assert!(!expected.is_empty(), "{commands}");
        // The number of columns in a batch depends on how rows are stored.
        for lines in [&mut expected, &mut found] {
            lines.iter_mut().for_each(|line| *line = line.split(' ').filter(|cell| !cell.ends_with('=')).collect());
        }
        assert_eq!(found, expected, "{commands}");
    }
}

#[test]
fn long_rows_are_read_in_small_batches_and_reread_after_release() {
    // Pages of several megabytes with overlapping times: each second has one event of each source.
    let store = Arc::new(MemoryStore::new("main"));
    for source in 0..3_usize {
        let mut batch = EventBatch::default();
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: "h".into(),
            source: format!("/s{source}").into(),
            sourcetype: "t".into(),
        });
        for at in 0..1_500_usize {
            let long = "x".repeat(if at % 100 == source { 300_000 } else { 2_000 });
            batch.push(format!("n={at} from={source} {long}").as_bytes(), at as i64 * 1_000_000_000, meta);
        }
        store.append(batch).unwrap();
    }
    for search in ["index=main", "index=main | eval m=n+1 | where m%7=1", "index=main | dedup 2 n", "index=main n<700"]
    {
        let mut batches = 0;
        let expected = read_batches(search, 1 << 30, store.clone(), |_, batch| {
            batches += 1;
            let texts = batch.column_by_name("_raw").unwrap().as_string_view();
            let bytes: usize = texts.iter().flatten().map(str::len).sum();
            assert!(batch.num_rows() == 1 || bytes <= 3 << 20, "{search}: {bytes} bytes in {} rows", batch.num_rows());
        });
        let expected = expected.unwrap();
        assert!(batches > 3 && expected.len() > 600, "{search}: {batches} batches of {} rows", expected.len());
        let mut releases = 0;
        let found = read_batches(search, 1 << 30, store.clone(), |job, _| {
            job.release_memory();
            releases += 1;
        });
        assert!(
            found.unwrap() == expected,
            "{search}: the rows differ if the search releases its memory ({releases} times)"
        );
    }
}

#[test]
fn generated_rows_end_when_the_search_finishes_early() {
    let all = 2_000_000;
    for search in
        ["| makeresults count=2000000 | eval x=1", "| makeresults count=2000000 annotate=true | streamstats count"]
    {
        let rows = read_batches(search, 64 << 20, Arc::new(MemoryStore::new("main")), |job, batch| {
            assert!(batch.num_rows() < all / 10, "{search}: {} rows at once", batch.num_rows());
            job.stopper().finish_early();
        });
        let rows = rows.unwrap();
        assert!(!rows.is_empty() && rows.len() < all / 4, "{search}: {} rows", rows.len());
    }
    let counted = run_search("| makeresults count=40000 | stats count", 64 << 20).unwrap();
    assert_eq!(counted, ["count=40000"]);
}
