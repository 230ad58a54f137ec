//! An explanation says what the search would do, without doing any of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_conf::{Layers, PropsResolver};
use quarry_engine::{
    Engine, EngineOptions, Explanation, Job, KnowledgeSource, Phase, Plan, SearchRequest, SearchShape, SnapshotSource,
    StageShape,
};
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_spl::macros::Macro;
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, IndexSelector, Snapshot, Store, StoreError, StoreOptions};
use quarry_testworld::{OneTable, rows_of};
use tempfile::tempdir;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_790_000_000 * SECOND;

struct KnownObjects;

impl KnowledgeSource for KnownObjects {
    fn macro_definition(&self, name: &str, arguments: usize) -> Option<Macro> {
        let known = name == "failed" && arguments == 1;
        known.then(|| Macro {
            arguments: vec!["least".into()],
            definition: "status>=$least$ error".into(),
            ..Macro::default()
        })
    }

    fn saved_search(&self, name: &str) -> Option<String> {
        (name == "daily").then(|| "index=other disk | stats count by host".to_owned())
    }
}

/// A source whose events can be searched but not stored.
struct Source(Arc<Store>);

impl SnapshotSource for Source {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(Store::snapshot(&self.0, indexes, range))
    }

    fn store_events(&self, _: EventBatch) -> Result<(), quarry_stdx::Fault> {
        panic!("events are kept")
    }
}

/// A store with two sealed slabs in `main`, an hour apart and with ten events each, the second with an error, and one
/// slab in `other`.
fn store(folder: &std::path::Path) -> Arc<Store> {
    let options = StoreOptions { slab_events: 10, ..StoreOptions::at(folder) };
    let store = Store::open(options, ManualClock::shared(START + 10_000 * SECOND)).unwrap();
    for (index, hour, word) in [("main", 0, "fine"), ("main", 1, "error"), ("other", 1, "disk")] {
        let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
        let meta = batch.intern(&Metadata {
            index: index.into(),
            host: "web".into(),
            source: "/var/log/x.log".into(),
            sourcetype: "lines".into(),
        });
        for at in 0..10 {
            let text = format!("status={} user=u{at} {word}", 500 + at);
            batch.push(text.as_bytes(), START + (hour * 3_600 + at) * SECOND, meta);
        }
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }
    store.seal_all().unwrap();
    store
}

fn request(text: &str) -> SearchRequest {
    SearchRequest { now: START + 8_000 * SECOND, ..quarry_testworld::request(text) }
}

fn engine() -> Engine {
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    // The table is read-only: if explaining a search ran the command that writes it, the explanation would fail.
    let tables = OneTable::of_csv("teams", "user,team\neva,red\n");
    let engine = Engine::new(&EngineOptions::default(), props, tables).unwrap();
    engine.with_knowledge(Arc::new(KnownObjects))
}

fn explain(text: &str) -> Explanation {
    let folder = tempdir().unwrap();
    let source = Arc::new(Source(store(folder.path())));
    engine().explain(request(text), Some(source)).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

/// Phase, shape and name of each command.
fn stages(explanation: &Explanation) -> Vec<(Phase, StageShape, &str)> {
    let stages = explanation.plan.stages.iter();
    stages.map(|stage| (stage.phase, stage.shape, stage.text.split(' ').next().unwrap())).collect()
}

#[test]
fn commands_run_where_they_can() {
    use Phase::{Map, MapReduce, Reduce, Scan};
    use StageShape::{AllRows, Fold, Generates, OrderedFold, OrderedRows, Rows};
    let found = explain(
        "error | rex \"user=(?<u>\\w+)\" | eval x=1 | lookup teams user AS u | where x>0 | stats count by u, x \
         | sort u | head 3 | stats count",
    );
    let wanted = [
        (Scan, Rows, "rex"),
        (Map, Rows, "eval"),
        (Map, Rows, "lookup"),
        (Map, Rows, "where"),
        (MapReduce, Fold, "stats"),
        (Reduce, AllRows, "sort"),
        (Reduce, OrderedRows, "head"),
        (Reduce, Fold, "stats"),
    ];
    assert_eq!(stages(&found), wanted);
    let events = found.plan.events.as_ref().unwrap();
    assert!(!events.in_order && !events.all_fields && events.fields == ["u"], "{events:?}");
    let found = explain("error | eval x=1 | dedup user | stats first(x)");
    let wanted = [(Reduce, Rows, "eval"), (Reduce, OrderedRows, "dedup"), (Reduce, OrderedFold, "stats")];
    assert_eq!(stages(&found), wanted);
    assert!(found.plan.events.as_ref().unwrap().in_order);
    let found = explain("| makeresults count=1000000000 | eval x=1 | outputlookup teams");
    assert_eq!(
        stages(&found),
        [(Reduce, Generates, "makeresults"), (Reduce, Rows, "eval"), (Reduce, AllRows, "outputlookup")]
    );
    assert!(found.plan.events.is_none());
    explain("error | collect index=main");
}

/// Names of a plan's commands.
fn commands(plan: &Plan) -> String {
    let parts = plan.to_string();
    let parts = parts.lines().skip(1).map(|part| part.split_once(' ').unwrap().1);
    parts.collect::<Vec<_>>().join(" | ")
}

fn rows(mut job: Job) -> Vec<RecordBatch> {
    rows_of(&mut job).unwrap()
}

#[test]
fn options_of_a_request_are_planned_and_explained_as_they_run() {
    let folder = tempdir().unwrap();
    let (engine, source) = (engine(), Arc::new(Source(store(folder.path()))));
    let none = SearchShape::default;
    let same = |host: &str| SearchShape { same_fields: vec![("host".to_owned(), host.to_owned())], ..none() };
    let printed = SearchShape { oldest_first: true, head: Some(3), text_only: true, ..none() };
    let until = |seconds| SearchShape { events_until: Some(START + seconds * SECOND), ..none() };
    let of_job = SearchShape { job: Some("1.2".to_owned()), ..none() };
    for (text, shape, wanted, count) in [
        ("error | eval x=1", none(), "eval", Some(10)),
        ("error | eval x=1", printed.clone(), "reverse | eval | head | fields", Some(3)),
        ("error | stats count by user", printed, "reverse | stats | head | fields", Some(3)),
        ("error | eval x=1", SearchShape { sample: 2, ..none() }, "where | eval", None),
        ("error | eval x=status", SearchShape { named_fields_only: true, ..none() }, "fields | eval", Some(10)),
        ("error | eval x=1 | stats count", until(1), "eval", Some(10)),
        ("error | stats count by user", until(-1), "", Some(0)),
        ("error", same("web"), "", Some(10)),
        ("error", same("db"), "", Some(0)),
        ("error", SearchShape { arrived_from: Some(START + SECOND), ..none() }, "", Some(0)),
        ("status=505 OR disk", SearchShape { is_condition: true, ..none() }, "", Some(2)),
    ] {
        let request = || SearchRequest { shape: shape.clone(), ..request(text) };
        let explained = engine.explain(request(), Some(Arc::<Source>::clone(&source))).unwrap();
        let names: Vec<&str> = stages(&explained).into_iter().map(|(.., name)| name).collect();
        assert_eq!(names.join(" | "), wanted, "{text} {shape:?}");
        let plan = engine.plan(request(), Arc::<Source>::clone(&source)).unwrap();
        assert_eq!(commands(&plan), wanted, "{text} {shape:?}");
        assert_eq!(plan.rounds(), explained.plan.exchanges, "{text} {shape:?}");
        let found = rows(engine.start(request(), Arc::<Source>::clone(&source)).unwrap());
        assert_eq!(rows(engine.start_plan(plan, request(), Arc::<Source>::clone(&source))), found, "{text} {shape:?}");
        let found: usize = found.iter().map(RecordBatch::num_rows).sum();
        assert!(count.is_none_or(|count| count == found), "{text} {shape:?}: {found} rows");
    }
    let added = SearchShape { head: Some(3), ..none() };
    let explained = engine.explain(SearchRequest { shape: added, ..request("error | eval x=1") }, None).unwrap();
    let texts: Vec<&str> = explained.plan.stages.iter().map(|stage| stage.text.as_str()).collect();
    assert_eq!(texts, ["eval x=1", "head (of the request)"]);
    let repeated = SearchShape { is_repeated: true, ..none() };
    for (text, shape, fault) in
        [("error | collect index=main", repeated, "side effects"), ("| makeresults", of_job, "generates rows")]
    {
        let request = || SearchRequest { shape: shape.clone(), ..request(text) };
        let faults = [
            engine.explain(request(), None).map(drop),
            engine.plan(request(), Arc::<Source>::clone(&source)).map(drop),
            engine.start(request(), Arc::<Source>::clone(&source)).map(drop),
        ];
        for found in faults {
            let found = format!("{:?}", found.unwrap_err());
            assert!(found.contains(fault), "{text}: {found}");
        }
    }
}

#[test]
fn pruning_steps_count_remaining_data() {
    let left = |text: &str| {
        let found = explain(text);
        let pruning_steps = found.plan.events.unwrap().pruning_steps;
        pruning_steps
            .iter()
            .map(|pruning_step| {
                (pruning_step.by, pruning_step.buckets, pruning_step.slabs, pruning_step.pages, pruning_step.events)
            })
            .collect::<Vec<_>>()
    };
    let slabs =
        |found: &[(&str, u64, u64, u64, u64)]| found.iter().map(|pruning_step| pruning_step.2).collect::<Vec<_>>();
    let all = left("*");
    assert_eq!(
        all.iter().map(|pruning_step| pruning_step.0).collect::<Vec<_>>(),
        ["stored", "index", "time", "metadata", "terms"]
    );
    assert_eq!(all.iter().map(|pruning_step| pruning_step.4).collect::<Vec<_>>(), [30, 20, 20, 20, 20]);
    assert_eq!(slabs(&left("error")), [3, 2, 2, 2, 1]);
    assert_eq!(slabs(&left("error earliest=1790000000 latest=1790000020")), [3, 2, 1, 1, 0]);
    assert_eq!(slabs(&left("host=db")), [3, 2, 2, 0, 0]);
    assert_eq!(slabs(&left("index=* disk")), [3, 3, 3, 3, 1]);
}

#[test]
fn macros_subsearches_and_saved_searches_are_explained_as_their_expansions() {
    let found = explain("`failed(503)` [search index=other disk | head 1 | fields user] | table user");
    assert_eq!(found.macros, [("failed(503)".to_owned(), "status>=503 error".to_owned())]);
    assert!(found.expanded.starts_with("status>=503 error ["), "{}", found.expanded);
    let events = found.plan.events.as_ref().unwrap();
    assert_eq!((events.terms.as_str(), events.tested_fields.join(" ").as_str()), ("error", "_raw status"));
    let [inner] = found.plan.subsearches.as_slice() else { panic!("{found:?}") };
    let events = inner.events.as_ref().unwrap();
    assert_eq!((events.indexes.join(" ").as_str(), events.terms.as_str()), ("other", "(index=other AND disk)"));
    assert_eq!(inner.stages[0].text, "head 1");
    let found = explain("| savedsearch daily | head 1");
    let [inner] = found.plan.subsearches.as_slice() else { panic!("{found:?}") };
    assert_eq!(inner.stages[0].text, "stats count by host");
    assert_eq!(inner.events.as_ref().unwrap().fields, ["host"]);
    let found = explain("| tstats count where index=other by host");
    assert_eq!(found.plan.stages[0].text, "tstats count where index=other by host (as stats)");
    assert_eq!(found.plan.events.unwrap().indexes, ["other"]);
}

#[test]
fn push_down_to_the_scan_is_explained() {
    for (text, wanted) in [
        ("* | sort 10 -took | table took", vec!["the 10 largest by took"]),
        ("* | sort 0 took | head 3 | table took", vec!["the 3 smallest by took"]),
        ("* | sort 10 -took", vec!["all fields of the 10 largest by took, found by took"]),
        ("* | where took>1", vec!["all fields of those that the first command keeps, found by took"]),
        (
            "* | eval s=took/1000 | where s>1 | dedup 2 user",
            vec![
                "all fields of those that the first 2 commands keep, and of these the first 2 of each user of every page, \
                 found by took, user",
            ],
        ),
        ("* | tail 5", vec!["all fields of the 5 oldest, found by _time"]),
        ("* | stats count by user", vec!["events with the same values as one row and their count"]),
        ("* | stats sum(took) by user", vec![]),
        (
            "| tstats count by host",
            vec!["index-time fields alone", "events with the same values as one row and their count"],
        ),
    ] {
        assert_eq!(explain(text).plan.events.unwrap().pushed_down, wanted, "{text}");
    }
}

#[test]
fn faults_are_reported_at_their_position() {
    let found = engine().explain(request("* | rex \"(?<x>[a\" | stats count"), None).unwrap_err();
    assert_eq!((found[0].span.start, found[0].span.end), (8, 17), "{found:?}");
    let found = engine().explain(request("* | join user [search x | lookup nothing user]"), None).unwrap_err();
    assert!(found[0].message.contains("no lookup table nothing"), "{found:?}");
    assert!(engine().explain(request("* | stats count"), None).unwrap().plan.events.unwrap().pruning_steps.is_empty());
}
