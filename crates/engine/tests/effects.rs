//! A refused search has no side effects: all its commands, including those of subsearches, are checked before any of
//! them runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use quarry_conf::{Layers, PropsResolver};
use quarry_engine::{Engine, EngineError, EngineOptions, SnapshotSource};
use quarry_testworld::{Recorder, count, request, rows_of};

const SAVED_SEARCHES: &[(&str, &str)] = &[("Writer", "| makeresults | outputlookup saved.csv")];

/// Runs a search on a new node; returns its result and its side effects.
fn run(text: &str) -> (Result<usize, EngineError>, Vec<String>) {
    let node = Arc::new(Recorder::new(&[], SAVED_SEARCHES));
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    let engine = Engine::new(&EngineOptions::default(), props, node.clone()).unwrap();
    let engine = engine.with_commands(node.clone()).with_knowledge(node.clone()).with_node(node.clone());
    let request = request(text);
    let source: Arc<dyn SnapshotSource> = node.clone();
    let mut job = engine.start_on_reader_thread(request, source).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    let rows = rows_of(&mut job).map(|rows| count(&rows));
    drop(job);
    (rows, node.effects())
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

/// Searches that run a search of [`WRITING`] as a subsearch.
const ENCLOSING: &[&str] = &[
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
    // Each round combines all entries of two tables with the first entry of the third.
    for (writing_max, around_max, refused_max) in [(all, all, first), (all, first, all), (first, all, all)] {
        for writing in WRITING.iter().take(writing_max) {
            for around in ENCLOSING.iter().take(around_max) {
                for refused in REFUSED.iter().take(refused_max) {
                    let behind = format!("| {refused}");
                    let text = around.replace("WRITING", writing);
                    let text = match text.contains("REFUSED") {
                        true => text.replace("REFUSED", &behind),
                        false => format!("{text} {behind}"),
                    };
                    let (outcome, effects) = run(&text);
                    assert!(matches!(outcome, Err(EngineError::Invalid { .. })), "{text}: {outcome:?}");
                    assert_eq!(effects, Vec::<String>::new(), "{text}");
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
            let (outcome, effects) = run(&text);
            assert!(matches!(outcome, Err(EngineError::Invalid { .. })), "{text}: {outcome:?}");
            assert_eq!(effects, Vec::<String>::new(), "{text}");
        }
    }
}

#[test]
fn valid_searches_have_their_side_effects() {
    for writing in WRITING {
        for around in ENCLOSING {
            let text = around.replace("WRITING", writing).replace("REFUSED", "| stats count");
            let (outcome, effects) = run(&text);
            let only_tried = writing.contains("launch") || writing.contains("script") || writing.contains("sendalert");
            assert!(outcome.is_ok() || only_tried, "{text}: {outcome:?}");
            assert!(!effects.is_empty() || writing.contains("sendalert"), "{text}: {outcome:?}");
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
        let (outcome, effects) = run(text);
        assert!(outcome.is_ok() && !effects.is_empty(), "{text}: {outcome:?} {effects:?}");
    }
}
