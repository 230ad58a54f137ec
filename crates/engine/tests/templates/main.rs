//! A search has the same result whether texts are plain or made of templates and columns.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod all_fields;
mod chains;
mod conditions;
mod derived_fields;
mod extracts;
mod json;
mod mixed_numbers;
mod nested_json;
mod phrases;
mod prefixes;
mod reports;
mod rex;
mod shaper;
mod shared_texts;
mod source_reports;
mod text_values;
mod value_counts;
mod xml;

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::datatypes::{DataType, Float64Type};
use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, LookupTable, SearchRequest};
use quarry_event::value::format_number;
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::{MemoryStore, Segment};
use quarry_testworld::{FixedSnapshot, OneTable, request};
use shaper::{HandMade, SplitOptions};

const URGENCIES: &str =
    "level,urgency,owner\nINFO,low,\nWARN,middle,ops\nERROR,high,ops\nERROR,high,dev\n200,fine,\n007,spy,bond\n";

const BREAKS: &[u8] = b" =\",:;[]{}()/?&\t";

const SPLIT_OPTIONS: [SplitOptions; 8] = [
    SplitOptions {
        breaks: BREAKS,
        shift: 0,
        digits_only: true,
        nested: false,
        no_numbers: false,
        knows_json: true,
        dictionary: 8,
        quotes: false,
        outliers: 0,
        rows_known: false,
    },
    SplitOptions {
        breaks: BREAKS,
        shift: 0,
        digits_only: false,
        nested: false,
        no_numbers: false,
        knows_json: false,
        dictionary: 40,
        quotes: false,
        outliers: 0,
        rows_known: true,
    },
    SplitOptions {
        breaks: b" =\"",
        shift: 0,
        digits_only: true,
        nested: true,
        no_numbers: false,
        knows_json: true,
        dictionary: 8,
        quotes: true,
        outliers: 7,
        rows_known: false,
    },
    SplitOptions {
        breaks: BREAKS,
        shift: 1,
        digits_only: false,
        nested: false,
        no_numbers: true,
        knows_json: false,
        dictionary: 1000,
        quotes: false,
        outliers: 0,
        rows_known: true,
    },
    SplitOptions {
        breaks: b" ",
        shift: 0,
        digits_only: false,
        nested: false,
        no_numbers: true,
        knows_json: true,
        dictionary: 0,
        quotes: false,
        outliers: 3,
        rows_known: false,
    },
    SplitOptions {
        breaks: b"\"",
        shift: 0,
        digits_only: false,
        nested: true,
        no_numbers: false,
        knows_json: false,
        dictionary: 8,
        quotes: true,
        outliers: 0,
        rows_known: true,
    },
    SplitOptions {
        breaks: b" =\",:{}",
        shift: 2,
        digits_only: true,
        nested: false,
        no_numbers: false,
        knows_json: true,
        dictionary: 4,
        quotes: false,
        outliers: 5,
        rows_known: false,
    },
    SplitOptions {
        breaks: b"",
        shift: 0,
        digits_only: false,
        nested: false,
        no_numbers: true,
        knows_json: false,
        dictionary: 500,
        quotes: false,
        outliers: 0,
        rows_known: true,
    },
];

/// Texts of several sources, with everything that makes extraction difficult.
fn events() -> Vec<(usize, String)> {
    let mut events = Vec::new();
    for at in 0..60i64 {
        let level = ["INFO", "WARN", "ERROR", "info"][(at % 4) as usize];
        let status = [200, 404, 500, 302, 200][(at % 5) as usize];
        let user = ["alice", "bob", "Carol", "zoë", "dave eve"][(at % 5) as usize];
        let tail = if at % 3 == 0 { "every3" } else { "every1" };
        let number = at * 7_919 % 100_000;
        events.push((
            0,
            format!(
                "2026-11-20T00:00:{:02}.021Z host{:02} nginx[{}]: level={level} user_id={number} ip=10.{}.0.{} \
             url=/api/v2/items/{}?page={at} status={status} took={}.{} msg=\"connection {number} accepted by \
             w{at}zebra on shard-{} after {at}% {tail}\"",
                at % 60,
                at % 7,
                1000 + at,
                at % 5,
                at * 3 % 256,
                at * 31,
                at,
                at % 10,
                at % 9
            ),
        ));
        events.push((
            0,
            match at % 12 {
                0 => format!("a=1 a=2 a={at} b="),
                1 => format!("key = value{at} x==y z!=4 w=-{at}"),
                2 => format!("quoted=\" {user} \" other=\"{at}\" tail=\"open {at}"),
                3 => format!("{user}={at} status=200.0 v=007"),
                4 => format!("path=/a%20b/{at} next=%41x{at} 100%{at} done"),
                5 => format!("status={status}, level:{level};n={at}|m={}&k=\"\"", -at),
                6 => "plain words without any pairs, error: disk full".to_owned(),
                7 => format!(
                    "--x--{at}--y-- (paren{at}) <{user}> (took={at}.5) [n={at}] {{w=a({at})}} 'user=u{at}' host=in{at}"
                ),
                8 => format!("num={:.2} neg=-{}.50 big=9007199254740993{at}", at as f64 / 4.0, at),
                9 => String::new(),
                10 => format!("esc=\"a \\\"b\\\" {at}\" c=\"x\\\\{at}\" d={user}"),
                _ => format!("status={status} alice{at} bob status={at}"),
            },
        ));
        events.push((
            1,
            match at % 6 {
                0 => format!("{{\"user\":\"{user}\",\"status\":{status},\"took\":{}.5,\"ok\":{}}}", at, at % 4 == 0),
                1 => format!("{{\"a\":{{\"b\":{at}}},\"tags\":[\"x\",\"y{at}\"],\"level\":\"{level}\"}}"),
                2 => format!("{{\"note\":\"a \\\"quoted\\\" word {at}\",\"status\":\"{status}\",\"n\":null}}"),
                3 => format!("{{\"k{at}\":1,\"status\":{status}, \"empty\":\"\"}} trailing"),
                4 => format!("{{\"status\": {status} , \"msg\": \"status=99 level={level}\", \"status2\": -{at}}}"),
                _ => format!("  {{\"u\":\"{user}\",\"v\":\"\\u00e4{at}\"}}"),
            },
        ));
        events.push((2, format!("{} {at} user={user} code-{status} {level}:{number} made={at}", at % 3)));
        events.push((3, format!("k=\"v \\\"{at}\\\" {user}\" s={status} t=\"plain {at}\" level={level}")));
    }
    events
}

fn store() -> MemoryStore {
    let store = MemoryStore::new("main");
    let events = events();
    for (part, chunk) in events.chunks(events.len() / 2 + 1).enumerate() {
        let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
        let metas: Vec<u32> = [("web1", "kv"), ("web2", "json"), ("db1", "cut"), ("db2", "esc")]
            .into_iter()
            .map(|(host, sourcetype)| {
                batch.intern(&Metadata {
                    index: "main".into(),
                    host: host.into(),
                    source: "/var/log/x.log".into(),
                    sourcetype: sourcetype.into(),
                })
            })
            .collect();
        for (at, (source, text)) in chunk.iter().enumerate() {
            batch.push(text.as_bytes(), (part * 1_000 + at / 2) as i64 * 1_000_000_000, metas[*source]);
            if at % 50 == 17 {
                batch.fields.push(at as u32, "status", "404");
                batch.fields.push(at as u32, "zone", "north");
            }
        }
        store.append(batch).unwrap();
    }
    store
}

fn engine() -> Engine {
    engine_with(PROPS)
}

const PROPS: &str =
    "[json]\nKV_MODE = json\n[cut]\nEXTRACT-code = code-(?<code>\\d+) (?<level>\\w+)\n[esc]\nKV_MODE = auto_escaped\n";

fn engine_with(props: &str) -> Engine {
    engine_of(props, "")
}

fn engine_of(props: &str, transforms: &str) -> Engine {
    let sources = [("props.conf", props), ("transforms.conf", transforms)].map(|(file, text)| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.into(),
        text: text.into(),
    });
    let layers = Layers::new(sources);
    let table = LookupTable { case_sensitive: false, ..LookupTable::of_csv(URGENCIES) };
    let tables = Arc::new(OneTable { name: "urgencies", table });
    Engine::new(&EngineOptions::default(), Arc::new(PropsResolver::new(&layers)), tables).unwrap()
}

/// A value as text, as results contain it. A list of one value is shown as that value, because the list depends on
/// neighbouring rows.
fn shown(column: &ArrayRef, row: usize) -> String {
    let show = |column: &ArrayRef, row: usize| match column.as_primitive_opt::<Float64Type>() {
        Some(numbers) => format_number(numbers.value(row)),
        None => arrow::util::display::array_value_to_string(column, row).unwrap(),
    };
    match column.as_list_opt::<i32>().map(|lists| lists.value(row)) {
        Some(list) if list.len() == 1 => show(&list, 0),
        _ => show(column, row),
    }
}

fn run_search(engine: &Engine, source: &Arc<FixedSnapshot>, search: &str, range: TimeRange) -> Vec<String> {
    let request = SearchRequest { range, ..request(search) };
    let mut job = engine.start(request, source.clone()).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
    let mut found = Vec::new();
    while let Some(batch) = job.next_batch() {
        let batch = batch.unwrap_or_else(|error| panic!("{search}: {error}"));
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let mut cells: Vec<String> = (schema.fields().iter().zip(batch.columns()))
                .filter(|(_, column)| column.data_type() != &DataType::Null && column.is_valid(row))
                .map(|(field, column)| format!("{}={}", field.name(), shown(column, row)))
                .collect();
            cells.sort();
            found.push(cells.join(" | "));
        }
    }
    assert!(job.messages().is_empty(), "{search}: {:?}", job.messages());
    found
}

const CONDITIONS: &[&str] = &[
    "*",
    "every1",
    "every3",
    "EVERY3",
    "every",
    "every*",
    "*ery3",
    "*zebra*",
    "w5zebra",
    "w*zebra",
    "zebra",
    "alice",
    "ali*",
    "carol",
    "zoë",
    "ZOË",
    "200",
    "404",
    "20",
    "0",
    "00",
    "021Z",
    "10.1.0.3",
    "10.1",
    "1.0",
    "level=INFO",
    "level=info",
    "level=\"INFO\"",
    "CASE(info)",
    "CASE(INFO)",
    "TERM(level=INFO)",
    "TERM(status=404)",
    "TERM(10.1.0.3)",
    "TERM(10.1.0.3*)",
    "\"accepted by\"",
    "\"accepted by w5zebra\"",
    "\"connection 7919 accepted\"",
    "\"shard-3 after\"",
    "shard-3",
    "shard",
    "status=404",
    "status=200",
    "status=200.0",
    "status!=200",
    "NOT status=200",
    "NOT status!=200",
    "status>=404",
    "status<300",
    "status>200.5",
    "status=4*",
    "status=*",
    "NOT status=*",
    "status IN (200, 500)",
    "status IN (2*, 500)",
    "user_id=7919",
    "user_id=07919",
    "user_id>50000",
    "user_id<=7919",
    "took=8.8",
    "took>8.5",
    "took=8.80",
    "took<3",
    "ip=10.1.0.3",
    "ip=10.1.0.0/16",
    "ip=10.1*",
    "ip!=10.1.0.3",
    "msg=\"connection*\"",
    "msg=*every3",
    "url=*page=5",
    "url!=*page=5",
    "NOT url=*page=5",
    "url=*items/155*",
    "url=*PAGE=1* OR msg=*every3",
    "url IN (*page=5, \"/api/v2/items/186?page=6\")",
    "url=*page=* status=200 level=INFO",
    "url>/api/v2/items/3",
    "msg!=connection*",
    "msg=\"*after 5%*\" url=*",
    "url=/api/v2/items/155?page=5",
    "a=1",
    "a=2",
    "w=-1",
    "n>3",
    "m<-3",
    "v=7",
    "v=007",
    "quoted=alice",
    "quoted=\"dave eve\"",
    "x=y",
    "z=4",
    "key=*",
    "num=3.5",
    "num=3.50",
    "num<2",
    "neg<-5",
    "big>9007199254740993",
    "user=alice",
    "user=ALICE",
    "user=zoë",
    "a.b=13",
    "tags{}=x",
    "tags{}=y13",
    "note=*word*",
    "ok=true",
    "empty=*",
    "status2<-5",
    "code=404",
    "code>=404",
    "level=ERROR",
    "made=6",
    "s=404",
    "k=*",
    "t=\"plain 3\"",
    "host=web1",
    "host!=web1",
    "host=web*",
    "host IN (db1, web2)",
    "sourcetype=json status=404",
    "NOT host=web1 404",
    "every1 OR status=404",
    "every1 AND status=404",
    "NOT (every1 OR status=404)",
    "NOT alice",
    "error",
    "x--",
    "x",
    "y",
    "paren5",
    "a%20b",
    "b",
    "20b",
    "41x4",
    "100%",
    "status::404",
    "_raw=*zebra*",
    "index=main every3",
    "\"\\\"b\\\"\"",
    "took>=1 took<20 NOT level=WARN",
    "user=bob status>300",
    "\"level:WARN\"",
    "level=WARN OR level:WARN",
    "page=5",
    "stat*=404",
    "*=404",
    "missing=1",
    "NOT missing=1",
    "missing!=1",
    "2026",
    "nginx",
    "1005",
    "nginx[1005]",
    "host03",
    "03",
    "\"[1005]:\"",
    "user_id=7919 msg=*7919*",
    "items/155",
    "v2",
    "/api/v2",
    "dave",
    "dave eve",
    "\"dave eve\"",
];

const REPORTS: &[&str] = &[
    "stats count",
    "stats count by host",
    "stats count by status",
    "stats count by status, host",
    "stats dc(user_id), avg(took), max(num), min(neg) by level",
    "stats count by ip",
    "stats values(user), count(tags{}) by sourcetype",
    "top 5 url",
    "stats count by msg | sort msg",
    "chart count over level by status",
    "timechart span=1m count by level",
    "head 5",
    "sort 7 - took",
    "sort - status, +host | head 4",
    "sort 3 level | table level user ip",
    "head 3 | table _time host status user_id took ip",
    "table _time _raw status level a tags{} a.b code v",
    "eval x=took*2, y=ip.\"!\" | stats sum(x) by y",
    "stats latest(status), earliest(level), first(user), last(ip)",
    "where status>300 | stats count by level",
    "fields status",
    "stats min(_time), max(_time), dc(_raw)",
];

fn compare(pairs: impl Iterator<Item = (String, TimeRange)>) {
    compare_with(&engine(), pairs);
}

fn compare_with(engine: &Engine, pairs: impl Iterator<Item = (String, TimeRange)>) {
    compare_in(&store(), engine, pairs);
}

fn compare_in(store: &MemoryStore, engine: &Engine, pairs: impl Iterator<Item = (String, TimeRange)>) {
    let plain = store.snapshot().segments;
    // In the last two variants, each segment is split with other options.
    let manners = (0..SPLIT_OPTIONS.len()).map(|at| (at, 0)).chain([(0, 6), (5, 1)]);
    let shaped: Vec<Arc<FixedSnapshot>> = manners
        .map(|(first, step)| {
            let manner = |at: usize| SPLIT_OPTIONS[(first + at * step) % SPLIT_OPTIONS.len()];
            let segments = plain
                .iter()
                .enumerate()
                .map(|(at, segment)| HandMade::new(Arc::clone(segment), manner(at)) as Arc<dyn Segment>);
            Arc::new(FixedSnapshot(segments.collect()))
        })
        .collect();
    let plain = Arc::new(FixedSnapshot(plain));
    let mut faults = Vec::new();
    for (search, range) in pairs {
        let expected = run_search(engine, &plain, &search, range);
        for (manner, shaped) in shaped.iter().enumerate() {
            let found = run_search(engine, shaped, &search, range);
            if found != expected {
                let differs =
                    (0..found.len().max(expected.len())).find(|at| found.get(*at) != expected.get(*at)).unwrap();
                faults.push(format!(
                    "{search} (manner {manner}): {} rows, {} expected; row {differs}\n  found    {:?}\n  expected {:?}",
                    found.len(),
                    expected.len(),
                    found.get(differs),
                    expected.get(differs)
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{} differ\n{}", faults.len(), faults[..faults.len().min(25)].join("\n"));
}

#[test]
fn conditions_select_the_same_events() {
    compare(CONDITIONS.iter().map(|condition| (format!("search {condition} | table _time _raw"), TimeRange::ALL)));
}

#[test]
fn conditions_count_the_same_events() {
    compare(CONDITIONS.iter().map(|condition| (format!("search {condition} | stats count by host"), TimeRange::ALL)));
}

#[test]
fn reports_give_the_same_rows() {
    let conditions = ["*", "every1", "status=404", "alice OR zebra", "level=INFO user_id>300", "host=web1 *zebra*"];
    let searches = REPORTS.iter().flat_map(|report| {
        conditions.iter().map(move |condition| (format!("search {condition} | {report}"), TimeRange::ALL))
    });
    compare(searches);
}

/// A sort that keeps few rows skips events while it reads them.
#[test]
fn limited_sorts_are_prefixes_of_full_sorts() {
    let engine = engine();
    let plain = store().snapshot().segments;
    let shape = |segment: &Arc<dyn Segment>| HandMade::new(Arc::clone(segment), SPLIT_OPTIONS[0]) as Arc<dyn Segment>;
    let shaped: Arc<FixedSnapshot> = Arc::new(FixedSnapshot(plain.iter().map(shape).collect()));
    let plain = Arc::new(FixedSnapshot(plain));
    let keys = [
        "took",
        "- took",
        "- num(took)",
        "- str(took)",
        "status, -took",
        "- status, user",
        "level",
        "- level",
        "ip",
        "- ip",
        "host, -level",
        "- user",
        "neg",
        "_time",
        "- _time",
        "missing",
        "- missing, took",
        "-num(level)",
        "took desc",
    ];
    for (condition, keys) in ["*", "status=404", "alice OR zebra"].iter().flat_map(|c| keys.iter().map(move |k| (c, k)))
    {
        for after in ["", " | table _time host level took user", " | table _raw"] {
            let all =
                run_search(&engine, &plain, &format!("search {condition} | sort 0 {keys}{after}"), TimeRange::ALL);
            for source in [&plain, &shaped] {
                let short = format!("search {condition} | sort 5 {keys}{after}");
                let headed = format!("search {condition} | sort 0 {keys} | head 5{after}");
                for search in [short, headed] {
                    assert_eq!(
                        run_search(&engine, source, &search, TimeRange::ALL),
                        all[..all.len().min(5)],
                        "{search}"
                    );
                }
            }
        }
    }
}

#[test]
fn page_ranges_give_the_same_rows() {
    let range = TimeRange { earliest: Some(10_000_000_000), latest: Some(1_020_000_000_000) };
    let conditions = ["*", "every1", "status=404", "NOT status=404", "host=web2"];
    let searches = REPORTS
        .iter()
        .flat_map(|report| conditions.iter().map(move |condition| (format!("search {condition} | {report}"), range)));
    compare(searches);
}
