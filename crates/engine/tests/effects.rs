//! A refused search has no side effects: all its commands, including those of subsearches, are checked before any of
//! them runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::sync::{Arc, Mutex};

use quarry_conf::{Layers, PropsResolver};
use quarry_engine::{
    CommandProcess, CommandSource, Engine, EngineError, EngineOptions, FillTable, KnowledgeSource, LookupSource,
    LookupTable, NodeSource, SnapshotSource, TableContext,
};
use quarry_event::{EventBatch, TimeRange};
use quarry_spl::macros::Macro;
use quarry_store::{IndexSelector, MemoryStore, Snapshot, StoreError};
use quarry_testworld::{count, request, rows_of};

/// A node that records side effects, with its lookup tables and models.
#[derive(Default)]
struct Node {
    doings: Mutex<Vec<String>>,
    tables: Mutex<HashMap<String, Vec<u8>>>,
    models: Mutex<HashMap<String, Vec<u8>>>,
}

impl Node {
    fn note(&self, what: String) {
        self.doings.lock().unwrap().push(what);
    }
}

impl LookupSource for Node {
    fn table(&self, name: &str) -> Result<Option<LookupTable>, quarry_stdx::Fault> {
        let found = self.tables.lock().unwrap().get(name).cloned();
        Ok(found.map(|csv| LookupTable::of_csv(String::from_utf8(csv).unwrap())))
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn write(&self, name: &str, _: Option<TableContext>, fill: FillTable<'_>) -> Result<(), quarry_stdx::Fault> {
        self.note(format!("table {name}"));
        let mut csv = Vec::new();
        fill(&mut csv)?;
        self.tables.lock().unwrap().insert(name.to_owned(), csv);
        Ok(())
    }

    fn dump_file(&self, _: &str, path: &str) -> Result<Box<dyn Write + Send>, quarry_stdx::Fault> {
        self.note(format!("dump {path}"));
        Ok(Box::new(std::io::sink()))
    }

    fn model(&self, name: &str, _: bool) -> Result<Option<Vec<u8>>, quarry_stdx::Fault> {
        Ok(self.models.lock().unwrap().get(name).cloned())
    }

    fn write_model(&self, name: &str, _: bool, bytes: &[u8]) -> Result<(), quarry_stdx::Fault> {
        self.note(format!("model {name}"));
        self.models.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove_model(&self, name: &str, _: bool) -> Result<bool, quarry_stdx::Fault> {
        self.note(format!("model {name} removed"));
        Ok(self.models.lock().unwrap().remove(name).is_some())
    }
}

impl CommandSource for Node {
    fn names(&self) -> BTreeSet<String> {
        BTreeSet::from(["launch".to_owned()])
    }

    fn start(&self, name: &str, _: bool) -> Result<Box<dyn CommandProcess>, quarry_stdx::Fault> {
        self.note(format!("program {name}"));
        Err(quarry_stdx::Fault::invalid("it was begun"))
    }

    fn check_alert(&self, name: &str) -> Result<(), quarry_stdx::Fault> {
        if name == "page" { Ok(()) } else { Err(quarry_stdx::Fault::invalid("there is none")) }
    }
}

impl KnowledgeSource for Node {
    fn macro_definition(&self, _: &str, _: usize) -> Option<Macro> {
        None
    }

    fn saved_search(&self, name: &str) -> Option<String> {
        (name == "Writer").then(|| "| makeresults | outputlookup saved.csv".to_owned())
    }
}

impl NodeSource for Node {}

impl SnapshotSource for Node {
    fn snapshot(&self, _: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(MemoryStore::new("none").snapshot())
    }

    fn keep(&self, events: EventBatch) -> Result<(), quarry_stdx::Fault> {
        self.note(format!("{} events", events.len()));
        Ok(())
    }
}

/// Runs a search on a new node; returns its result and its side effects.
fn run(text: &str) -> (Result<usize, EngineError>, Vec<String>) {
    let node = Arc::new(Node::default());
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    let engine = Engine::new(&EngineOptions::default(), props, node.clone()).unwrap();
    let engine = engine.with_commands(node.clone()).with_knowledge(node.clone()).with_node(node.clone());
    let request = request(text);
    let source: Arc<dyn SnapshotSource> = node.clone();
    let mut job = engine.start_here(request, source).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    let rows = rows_of(&mut job).map(|rows| count(&rows));
    drop(job);
    let doings = node.doings.lock().unwrap().clone();
    (rows, doings)
}

/// Searches that change something.
const WRITING: &[&str] = &[
    "| makeresults | outputlookup t.csv",
    "| makeresults | outputlookup append=true t.csv",
    "| makeresults | outputcsv t",
    "| makeresults | collect index=summary",
    "| makeresults | eval metric_name=\"a\", _value=1 | mcollect index=metrics",
    "| makeresults count=9 | streamstats count AS x | eval y=x*2 | fit LinearRegression y from x into m",
    "| makeresults | eval _raw=\"x\" | dump basefilename=d",
    "| makeresults | sendalert page",
    "| makeresults | launch",
    "| makeresults | script python x",
    "| savedsearch Writer",
    "| makeresults | map search=\"| makeresults | outputlookup mapped.csv\"",
    "| makeresults | map Writer",
    "| makeresults | foreach a [outputlookup each.csv]",
    "| makeresults | append [| makeresults | outputlookup inner.csv]",
    "| makeresults | appendpipe [outputlookup piped.csv]",
];

/// Searches with one of those in brackets.
const AROUND: &[&str] = &[
    "| makeresults | append [WRITING]",
    "| makeresults | appendcols [WRITING]",
    "| makeresults | join type=outer _time [WRITING]",
    "| makeresults | union [WRITING]",
    "| union [| makeresults] [WRITING]",
    "| set union [| makeresults] [WRITING]",
    "| multisearch [search a] [search b [WRITING | head 1 | eval search=\"x\" | fields search]]",
    "[WRITING | head 1 | eval search=\"x\" | fields search]",
    "| makeresults | search [WRITING | head 1 | eval search=\"x\" | fields search]",
    "| makeresults | where 1 < [WRITING | head 1 | eval search=\"2\" | fields search]",
    "| makeresults | append [| makeresults | append [WRITING]]",
    "| makeresults | appendpipe [append [WRITING]]",
    "| makeresults | foreach a [append [WRITING]]",
    "| makeresults | map [| makeresults | append [WRITING] REFUSED]",
];

/// Commands that cannot run.
const REFUSED: &[&str] = &[
    "lookup nosuch x",
    "inputlookup append=true nosuch",
    "makeresults",
    "rex \"(?<x>[\"",
    "apply nosuch",
    "extract nosuch",
    "sendalert nosuch",
    "append [| inputlookup nosuch]",
    "append [| loadjob 9.9]",
    "append [| savedsearch nosuch]",
    "append [| from datamodel:nosuch]",
    "append [| summary nosuch]",
    "join x [search a | lookup nosuch x]",
    "appendpipe [stats count | lookup nosuch x]",
    "multireport [lookup nosuch x]",
    "foreach x [lookup nosuch x]",
    "map nosuch",
    "where x > [| loadjob 9.9]",
    "search [| inputlookup nosuch]",
    "eval y=[| inputlookup nosuch | return $y]",
];

#[test]
fn nothing_is_done_when_a_later_command_is_refused() {
    let (all, first) = (usize::MAX, 1);
    // Every search of one table with every search of the other.
    for (writing_max, around_max, refused_max) in [(all, all, first), (all, first, all), (first, all, all)] {
        for writing in WRITING.iter().take(writing_max) {
            for around in AROUND.iter().take(around_max) {
                for refused in REFUSED.iter().take(refused_max) {
                    let behind = format!("| {refused}");
                    let text = around.replace("WRITING", writing);
                    let text = match text.contains("REFUSED") {
                        true => text.replace("REFUSED", &behind),
                        false => format!("{text} {behind}"),
                    };
                    let (outcome, doings) = run(&text);
                    assert!(matches!(outcome, Err(EngineError::Invalid { .. })), "{text}: {outcome:?}");
                    assert_eq!(doings, Vec::<String>::new(), "{text}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_done_when_the_first_command_is_refused() {
    for first in [
        "inputlookup nosuch",
        "loadjob 9.9",
        "summary nosuch",
        "deletemodel nosuch",
        "savedsearch nosuch",
        "datamodel nosuch",
        "from datamodel:nosuch",
        "makeresults | makeresults",
    ] {
        for writing in WRITING {
            let text = format!("| {first} | append [{writing}]");
            let (outcome, doings) = run(&text);
            assert!(matches!(outcome, Err(EngineError::Invalid { .. })), "{text}: {outcome:?}");
            assert_eq!(doings, Vec::<String>::new(), "{text}");
        }
    }
}

#[test]
fn searches_without_fault_do_what_they_say() {
    for writing in WRITING {
        for around in AROUND {
            let text = around.replace("WRITING", writing).replace("REFUSED", "| stats count");
            let (outcome, doings) = run(&text);
            let only_tried = writing.contains("launch") || writing.contains("script") || writing.contains("sendalert");
            assert!(outcome.is_ok() || only_tried, "{text}: {outcome:?}");
            assert!(!doings.is_empty() || writing.contains("sendalert"), "{text}: {outcome:?}");
        }
    }
}

#[test]
fn a_search_may_read_what_it_wrote_before() {
    for text in [
        "| makeresults | eval x=1 | append [| makeresults | eval x=1, y=2 | outputlookup new] | lookup new x",
        "| makeresults | eval x=1 | append [| makeresults | eval x=1, y=2 | outputlookup new] | inputlookup append=true new",
        "| makeresults | append [| makeresults | outputlookup new] | append [| inputlookup new]",
        "| makeresults | append [| makeresults | outputcsv new] | append [| inputcsv new]",
        "| makeresults count=9 | streamstats count AS x | eval y=x*2 | fit LinearRegression y from x into m | apply m",
        "| makeresults | eval x=1 | append [| makeresults count=9 | streamstats count AS x | eval y=x*2 \
         | fit LinearRegression y from x into m] | apply m",
        "| makeresults | outputlookup [| makeresults | return $nosuch]new",
    ] {
        let (outcome, doings) = run(text);
        assert!(outcome.is_ok() && !doings.is_empty(), "{text}: {outcome:?} {doings:?}");
    }
}
