//! Searches that ask for too much end with an answer or a clear error, in little memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use quarry_engine::{EngineOptions, IngestExpressions};
use quarry_event::{EventBatch, ExpressionCompiler, ExpressionValue, Metadata};
use quarry_store::MemoryStore;
use quarry_testworld::{engine, request};

/// Enough stack to parse a search, but not to run it.
const SMALL_STACK_BYTES: usize = 512 << 10;
/// Default stack size of a thread.
const THREAD_STACK_BYTES: usize = 2 << 20;

/// The last line of the answer, or the error, followed by the messages.
fn run_search(store: &Arc<MemoryStore>, search: &str) -> String {
    let engine = engine(&EngineOptions::default());
    let mut job = match engine.start(request(search), store.clone()) {
        Ok(job) => job,
        Err(faults) => return faults[0].message.clone(),
    };
    let mut last = String::new();
    while let Some(batch) = job.next_batch() {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return error.to_string(),
        };
        let Some(row) = batch.num_rows().checked_sub(1) else { continue };
        let cells =
            batch.columns().iter().map(|column| arrow::util::display::array_value_to_string(column, row).unwrap());
        last = cells.collect::<Vec<_>>().join(" ");
    }
    let partial = if job.is_partial() { "PARTIAL " } else { "" };
    format!("{last} {partial}{}", job.messages().join(" "))
}

#[test]
fn a_long_and_deep_search_runs_on_a_thread_with_a_small_stack() {
    let store = Arc::new(MemoryStore::new("main"));
    let engine = engine(&EngineOptions::default());
    let deep = format!("{}n+1{}", "(".repeat(60), ")".repeat(60));
    // Each command pulls rows from the previous command.
    let text = format!(
        "| makeresults | streamstats count AS n{}",
        format!(" | streamstats sum(n) AS n | eval n={deep}").repeat(49)
    );
    let run = move || {
        let request = request(&text);
        // The first search is dropped after its first batch, the second is cancelled before it starts.
        let mut job = engine.start_on_reader_thread(request.clone(), store.clone()).unwrap();
        assert!(job.next_batch().is_some());
        drop(job);
        let mut job = engine.start_on_reader_thread(request.clone(), store.clone()).unwrap();
        job.stopper().cancel();
        assert!(job.next_batch().is_none() && job.is_partial());
        let mut job = engine.start_on_reader_thread(request, store).unwrap();
        let batch = job.next_batch().unwrap().unwrap();
        let at = batch.schema().index_of("n").unwrap();
        arrow::util::display::array_value_to_string(batch.column(at), 0).unwrap()
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), "50");
}

/// Expressions of `props.conf` and `transforms.conf` are compiled and computed on threads of the pipeline.
#[test]
fn a_long_and_deep_ingest_expression_runs_on_a_thread_of_the_pipeline() {
    let text = format!("{}n{}{}", "(".repeat(60), "+n".repeat(500), ")".repeat(60));
    let run = move || {
        let compiled = IngestExpressions::new(jiff::tz::TimeZone::UTC, 0).compile(&text).unwrap();
        assert_eq!(compiled.evaluate(&[ExpressionValue::Integer(2)], 0).unwrap(), ExpressionValue::Integer(1002));
    };
    let thread = std::thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_long_and_deep_search_is_explained_on_a_thread_with_a_small_stack() {
    let chain = format!("{}n{}{}", "(".repeat(60), "+n".repeat(500), ")".repeat(60));
    let text = format!("| makeresults | eval n=2, m={chain} | where {chain}>1 | stats sum(eval({chain})) AS s");
    let run = move || {
        let engine = engine(&EngineOptions::default());
        engine.explain(request(&text), None).unwrap();
        let mut job = engine.start(request(&text), Arc::new(MemoryStore::new("main"))).unwrap();
        let batch = job.next_batch().unwrap().unwrap();
        arrow::util::display::array_value_to_string(batch.column(0), 0).unwrap()
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), "1002");
}

#[test]
fn excess_is_refused_or_truncated_with_a_message() {
    let store = Arc::new(MemoryStore::new("main"));
    for (search, expected) in [
        ("| makeresults count=10000 | eval y=mvrange(0,100000) | stats count", "expression bytes = 268435456"),
        (
            "| makeresults count=100000 | eval k=1 | join max=0 k [| makeresults count=50000 | eval k=1] | stats count",
            "5000000 join: the first 5000000 joined rows are kept, and the others dropped",
        ),
        ("| makeresults | eval x=mvrange(0,100000) | mvexpand x | stats count", "100000"),
        (
            "| makeresults count=3 | eval x=mvrange(0,2) | mvexpand x | eval y=mvrange(0,3) | mvexpand y | stats count",
            "18",
        ),
        ("| makeresults | eval a=substr(\"abc\",1,-1).\"|\".substr(\"abc\",2,-1) | table a", "|"),
        (
            "| makeresults | eval a=printf(\"%700s\",\"x\") | eval a=replace(a,\"\",a) | eval a=replace(a,\"\",a) | eval a=replace(a,\"\",a) | eval l=if(isnull(a),\"none\",len(a)) | table l",
            "none",
        ),
        ("| makeresults count=20000000", "count = 10000000"),
        ("| makeresults | eval x=mvrange(0,1000000) | eval n=mvcount(x) | table n", "values of a multivalue = 100000"),
        ("| makeresults | eval e=1000000 | eval n=mvcount(mvrange(0,e)) | table n", "values of a multivalue = 100000"),
        ("| makeresults | eval n=mvcount(mvrange(0,100000)) | table n", "100000 "),
        // `mvexpand` returns more rows than fit in one batch of any other command; none may be missing.
        ("| makeresults count=5000 | eval y=mvrange(0,1000) | mvexpand y | stats count", "5000000 "),
    ] {
        let answer = run_search(&store, search);
        assert!(answer.contains(expected), "{search}\ngives {answer}");
    }
}

#[test]
fn all_values_of_many_rows_are_expanded() {
    let store = Arc::new(MemoryStore::new("main"));
    let whole = run_search(&store, "| makeresults count=4096 | eval y=mvrange(0,3000) | mvexpand y | stats count");
    assert!(whole.starts_with("12288000") && !whole.contains("PARTIAL"), "{whole}");
}

#[test]
fn binary_data_makes_a_bounded_number_of_fields() {
    let store = Arc::new(MemoryStore::new("main"));
    let mut batch = EventBatch::default();
    let meta = Metadata {
        index: "main".into(),
        host: "h".into(),
        source: "s".into(),
        sourcetype: "generic_single_line".into(),
    };
    let meta = batch.intern(&meta);
    for event in 0..20_000 {
        let text: String = (0..8).map(|at| format!("field{}=value{at} ", event * 8 + at)).collect();
        batch.push(text.as_bytes(), 0, meta);
    }
    store.append(batch).unwrap();
    let answer = run_search(&store, "* | head 3");
    assert!(answer.contains("more than 1000 different fields"), "{answer}");
    assert!(run_search(&store, "* | stats count").starts_with("20000"));
    // A requested field is found regardless of the limit.
    assert!(run_search(&store, "field159999=value7 | stats count(field159999)").starts_with('1'));
}

#[test]
fn numbers_written_differently_form_separate_series() {
    let store = Arc::new(MemoryStore::new("main"));
    let mut batch = EventBatch::default();
    let meta = Metadata {
        index: "main".into(),
        host: "h".into(),
        source: "s".into(),
        sourcetype: "generic_single_line".into(),
    };
    let meta = batch.intern(&meta);
    for minute in 0..50 {
        for event in ["a=005 b=1", "a=5 b=1", "a=5.0 b=1", "a=005 b=1"] {
            batch.push(event.as_bytes(), minute * 60_000_000_000, meta);
        }
    }
    store.append(batch).unwrap();
    for chart in ["timechart span=1m count by a", "chart count over _time span=1m by a"] {
        let sums =
            run_search(&store, &format!("* | {chart} | stats sum(\"005\") as x, sum(\"5\") as y, sum(\"5.0\") as z"));
        assert_eq!(sums.trim(), "100 50 50", "{chart}");
    }
}

#[test]
fn options_without_effect_are_reported() {
    let store = Arc::new(MemoryStore::new("main"));
    let answer = run_search(&store, "| makeresults | eval a=1 | stats allnum=true sum(*)");
    assert!(answer.contains("allnum= is not supported yet; it has no effect"), "{answer}");
    assert!(!run_search(&store, "| makeresults | stats count by _time").contains("no effect"));
}

/// `mvmap` may repeat a long text for each of many values.
#[test]
fn mapped_multivalues_have_limits() {
    let store = Arc::new(MemoryStore::new("main"));
    let values = "| makeresults | eval x=mvrange(0,100000), y=mvjoin(x, \"\")";
    let long = run_search(&store, &format!("{values} | eval z=mvmap(x, y) | eval c=mvcount(z) | table c"));
    assert!(long.contains("bytes of a multivalue = "), "{long}");
    let many = run_search(&store, &format!("{values} | eval z=mvmap(x, x) | eval w=mvmap(x, z) | table _time"));
    assert!(many.contains("values of a multivalue = 100000"), "{many}");
    let fine = run_search(&store, &format!("{values} | eval z=mvmap(x, x + 1) | eval c=mvcount(z) | table c"));
    assert_eq!(fine.trim(), "100000");
}

/// A multivalue that every row gets, or that `mvexpand` and `join` repeat, is not copied for thousands of rows at once.
#[test]
fn long_multivalues_are_repeated_in_little_memory() {
    let store = Arc::new(MemoryStore::new("main"));
    let rows = "| makeresults count=60000 | streamstats count AS n";
    let answered =
        run_search(&store, &format!("{rows} | eventstats values(n) AS v | head 1 | eval c=mvcount(v) | table c"));
    assert_eq!(answered.trim(), "60000");
    let lists = "| makeresults | eval a=mvrange(0,50000), b=mvrange(0,50000)";
    let joined = format!("{rows} | eval k=1 | join k [{lists} | eval k=1] | stats count");
    for search in [format!("{lists} | mvexpand a | stats count"), joined] {
        let refused = run_search(&store, &search);
        assert!(refused.contains("values of repeated multivalues = 16777216"), "{search}: {refused}");
    }
}
