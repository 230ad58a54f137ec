//! JSON as a part of the text: at the end of a line, in the middle, or as a string of JSON. Commands and functions that
//! read the field with it give the same values whether they are pushed down into the scan or not.

use std::sync::Arc;

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;
use quarry_testworld::FixedSnapshot;

use super::json::Rng;
use super::{compare_in, engine_with, run_search};

const PROPS: &str = "[tail]\nKV_MODE = none\nEXTRACT-j = ^\\S+\\t(?<level>\\w+)\\t(?<msg>[^\\t]*)(?:\\t(?<json>\\{.*\\}))?$\n\
    [syslog]\nKV_MODE = none\nEXTRACT-j = (?<json>\\{.*\\})$\n\
    [middle]\nEXTRACT-j = msg=(?<json>\\{.*\\}) took\n\
    [klog]\nEXTRACT-j = \\] event (?<json>\\{.*\\})$\nEVAL-level = json_extract(json, \"level\")\n\
    [docker]\nKV_MODE = json\nFIELDALIAS-j = log AS json\n\
    [whole]\nKV_MODE = none\nEXTRACT-j = ^(?<json>\\{[^a].*)$\n";

const SOURCETYPES: [&str; 6] = ["tail", "syslog", "middle", "klog", "docker", "whole"];

/// A JSON object, sometimes one that parsers treat differently: truncated, with a control character, a lone surrogate,
/// a number beyond the range of a double, or text around it.
fn object(rng: &mut Rng) -> String {
    let mut object = rng.object(0);
    match rng.below(30) {
        0 => object.truncate(object.floor_char_boundary(object.len() / 2)),
        1 => object.push_str(" trailing"),
        2 => object = object.replace(':', ": "),
        3 => object = object.replacen("note\":\"", "note\":\"a\u{1}", 1),
        4 => object = object.replacen("note\":\"", "note\":\"\\ud800", 1),
        5 => object = object.replacen("\"took\":", "\"took\":1e999,\"took\":", 1),
        6 => object = object.replacen("\"took\":", "\"took\":1e3,\"big\":123456789012345678901234567890,\"t\":", 1),
        7 => object = "null".to_owned(),
        8 => object = object.replacen("\"user\":", "\"_time\":1,\"user\":", 1),
        _ => {}
    }
    object
}

fn line(sourcetype: &str, rng: &mut Rng) -> String {
    let (object, number) = (object(rng), rng.below(90));
    let level = rng.of(&["INFO", "WARN", "ERROR"]);
    match sourcetype {
        "tail" if number < 20 => format!("12:00:{number:02}Z\t{level}\tslow query"),
        "tail" => format!("12:00:{number}Z\t{level}\trequest completed\t{object}"),
        "syslog" => format!("<{number}>1 web{} app {number} - {object}", number % 3),
        "middle" => format!("level={level} msg={object} took={number}ms"),
        "klog" => format!("I1120 10:00:{number:02}.1 7 file.go:{number}] event {object}"),
        "docker" => {
            let log = object.replace('\\', "\\\\").replace('"', "\\\"").replace('\u{1}', "\\u0001");
            format!("{{\"log\":\"{log}\\n\",\"stream\":\"{}\"}}", rng.of(&["stdout", "stderr"]))
        }
        _ => object,
    }
}

fn store(sourcetype: &str, seed: u64) -> MemoryStore {
    let mut rng = Rng(seed);
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let meta = batch.intern(&Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/x.log".into(),
        sourcetype: sourcetype.into(),
    });
    for at in 0..60 {
        batch.push(line(sourcetype, &mut rng).as_bytes(), at * 1_000_000_000, meta);
    }
    store.append(batch).unwrap();
    store
}

const PATHS: [&str; 14] = [
    "level",
    "took",
    "user",
    "note",
    "k1",
    "f",
    "a.b",
    "in",
    "in.note",
    "in.in.user",
    "tags",
    "tags{}",
    "tags{1}",
    "big",
];

/// Pairs of equivalent searches: in the first, the first command can be pushed down; in the second, a command before it
/// prevents the push-down.
fn searches() -> Vec<[String; 2]> {
    let mut all = Vec::new();
    let mut add = |head: &str, search: String| {
        all.push([format!("{head} | {search}"), format!("{head} | eval json=json, _raw=_raw | {search}")]);
    };
    for path in PATHS {
        add("*", format!("spath input=json path={path} output=o | stats count by o"));
        add("*", format!("spath input=json path={path} | table _time \"{path}\" level"));
        add("*", format!("spath input=json | stats count by \"{path}\""));
        add("level=INFO", format!("spath input=json | table level \"{path}\" json"));
        add("*", format!("eval o=json_extract(json, \"{path}\") | stats count by o"));
        add(
            "*",
            format!("where isnotnull(spath(json, \"{path}\")) | eval o=spath(json, \"{path}\") | stats count by o"),
        );
        add("*", format!("eval o=json_extract_exact(json, \"{path}\") | table o"));
        add("*", format!("spath | stats count by \"{path}\""));
        add("*", format!("eval o=json_extract(_raw, \"{path}\") | stats count by o"));
    }
    for search in [
        "spath input=json path=level output=l | spath input=json path=user output=u | stats count by l u",
        "spath input=json path=level | search level=WARN | stats count",
        "spath input=json path=took output=level | sort 5 level | table level",
        "spath input=json | stats avg(took) by level",
        "spath input=json | timechart span=10s count by level",
        "spath input=json | stats latest(user) by host",
        "spath input=json | stats count by host source",
        "spath input=json | where took>5 | stats count",
        "spath input=json path=in output=i | spath input=i path=note output=n | stats count by n",
        "spath input=json path=in output=i | eval n=json_extract(i, \"note\") | stats count by n",
        "spath input=json | spath input=note | stats count by level user",
        "spath input=json | stats count",
        "rex field=json \"\\\"user\\\":(?<u>\\w+)\" | stats count by u",
        "rex field=json \"^\\{.*(?<n>note)\" | spath input=json path=level output=l | stats count by l n",
        "where json_extract(json, \"took\")>7 | stats count by level",
        "stats sum(eval(json_extract(json, \"took\"))) count(eval(json_extract(json, \"level\")=\"INFO\"))",
        "spath input=json path=user output=u | stats count by u json",
        "spath input=json | head 3 | table user took",
        "eval a=json_extract(json, \"user\"), json=\"{\\\"user\\\":1}\", b=json_extract(json, \"user\") | stats count by a b",
        "spath input=nothing path=a output=o | stats count by o",
        "eval o=json_extract(nothing, \"a\") | stats count by o",
    ] {
        add("*", search.to_owned());
    }
    all
}

#[test]
fn paths_of_fields_give_the_same_values_in_columns_and_commands() {
    let engine = engine_with(PROPS);
    for (at, sourcetype) in SOURCETYPES.into_iter().enumerate() {
        let store = store(sourcetype, 40 + at as u64);
        let plain = Arc::new(FixedSnapshot(store.snapshot().segments));
        // The searches are distributed over the sourcetypes, so that each sourcetype is searched by every fifth search.
        let searches: Vec<[String; 2]> = searches().into_iter().skip(at % 5).step_by(5).collect();
        for [pushed, command] in &searches {
            let found = run_search(&engine, &plain, pushed, TimeRange::ALL);
            assert_eq!(found, run_search(&engine, &plain, command, TimeRange::ALL), "{sourcetype}: {pushed}");
        }
        compare_in(&store, &engine, searches.into_iter().map(|[pushed, _]| (pushed, TimeRange::ALL)));
    }
}
