//! A search has the same result whether its condition is tested early (term dictionary, raw text, metadata) or on
//! finished rows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "filtering/constant_values.rs"]
mod constant_values;
#[path = "filtering/derived_values.rs"]
mod derived_values;
#[path = "filtering/escapes_by_host.rs"]
mod escapes_by_host;
#[path = "filtering/keyed_values.rs"]
mod keyed_values;
#[path = "filtering/line_counts.rs"]
mod line_counts;
#[path = "filtering/quantities.rs"]
mod quantities;
#[path = "filtering/written_values.rs"]
mod written_values;

use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Store, StoreOptions};
use quarry_testworld::{NoTables, engine, lines, request, rows_of};

const EVENTS: [&str; 12] = [
    "user=alice status=200 path=/a/b msg=\"all fine\"",
    "user=bob status=404 path=/missing msg=\"not found\"",
    "user=Alice status=500 err=timeout-42 ip=10.1.2.3",
    "{\"user\":\"carol\",\"status\":200,\"tags\":[\"x\",\"y\"],\"note\":\"a \\\"quoted\\\" word\"}",
    "{\"user\":\"dave\",\"status\":404,\"nested\":{\"deep\":\"value\"}}",
    "plain words without any pairs, error: disk full",
    "ERROR user=eve status=404 took=12ms",
    "user=alice",
    "status=-1 user=zoë",
    "alice bob carol",
    "path=/a/b.c?d=e user=frank",
    "user=alice status=2000",
];

/// Events whose JSON strings contain escapes that a search may write differently.
const ESCAPED: [&str; 12] = [
    "{\"name\":\"Jos\\u00e9\"}",
    "{\"name\":\"José\"}",
    "{\"name\":\"JOS\\u00C9\"}",
    "{\"text\":\"line1\\nline2\"}",
    "{\"text\":\"tab\\u0009here\"}",
    "{\"text\":\"a\\u0026b \\u003cé\\u003e\"}",
    "{\"text\":\"a&b <\\u00e9>\"}",
    "{\"text\":\"a\\u0026b \\u003c\\u00e9\\u003e\"}",
    "{\"text\":\"\\ud83d\\ude00\"}",
    "{\"text\":\"\\u007f\"}",
    "{\"text\":\"C:\\\\new\"}",
    "{\"text\":\"a b\"}",
];

fn store(dir: &std::path::Path, sealed: bool) -> Arc<Store> {
    store_of(&EVENTS, dir, sealed)
}

fn store_of(events: &[&str; 12], dir: &std::path::Path, sealed: bool) -> Arc<Store> {
    let store = Store::open(StoreOptions::at(dir), ManualClock::shared(1_000_000_000)).unwrap();
    for (host, from) in [("web", 0), ("db", 6)] {
        let mut batch = EventBatch::default();
        let meta = Metadata {
            index: "main".into(),
            host: host.into(),
            source: "/var/log/x.log".into(),
            sourcetype: "generic_single_line".into(),
        };
        let meta = batch.intern(&meta);
        for (at, event) in events.iter().enumerate().skip(from).take(6) {
            batch.push(event.as_bytes(), at as i64 * 1_000_000_000, meta);
        }
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }
    if sealed {
        store.seal_all().unwrap();
    }
    store
}

fn times(engine: &Engine, store: &Arc<Store>, search: &str) -> Vec<String> {
    let request = request(&format!("{search} | table _time"));
    let mut job = engine.start(request, store.clone()).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
    let batches = rows_of(&mut job).unwrap_or_else(|error| panic!("{search}: {error}"));
    let times = batches.iter().flat_map(|batch| {
        let column = batch.column_by_name("_time").unwrap();
        (0..batch.num_rows()).map(|row| arrow::util::display::array_value_to_string(column, row).unwrap())
    });
    times.collect()
}

/// Checks how many events each condition finds in each state of the storage, with these search-time rules.
fn check_matches(props: &str, events: &[(&'static str, String)], expected: &[(&str, usize)]) {
    let folder = tempfile::tempdir().unwrap();
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: props.into() };
    let props = Arc::new(PropsResolver::new(&Layers::new([source])));
    let engine = Engine::new(&EngineOptions::default(), props, Arc::new(NoTables)).unwrap();
    for (name, form) in [("hot", Form::Hot), ("sealed", Form::Sealed), ("compacted", Form::Compacted)] {
        let store = quantities::store(events, form, &folder.path().join(name));
        for (search, matches) in expected {
            assert_eq!(times(&engine, &store, search).len(), *matches, "{search}, {name}");
        }
    }
}

#[test]
fn early_filtering_does_not_change_results() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&EngineOptions::default());
    for sealed in [false, true] {
        let store = store(&folder.path().join(sealed.to_string()), sealed);
        for (condition, matches) in [
            ("alice", 5),
            ("ALICE status=200", 1),
            ("user=alice", 4),
            ("user=alice NOT status=*", 1),
            ("status!=200", 6),
            ("NOT status=200", 10),
            ("status>=404", 5),
            ("status IN (200, 500)", 3),
            ("user=a* OR user=bob", 5),
            ("host=web error", 1),
            ("host=w* user=*", 5),
            ("host!=web", 6),
            ("NOT host=web user=alice", 2),
            ("\"not found\"", 1),
            ("TERM(err=timeout-42)", 1),
            ("timeout", 1),
            ("CASE(ERROR)", 1),
            ("nested.deep=value", 1),
            ("tags{}=y", 1),
            ("path=\"/a/b\"", 1),
            ("path=/a/*", 2),
            ("(user=alice OR user=bob) status=*", 4),
            ("user=zoë", 1),
            ("disk NOT (user=* OR status=*)", 1),
            ("source=*.log sourcetype=generic_single_line alice carol", 1),
            ("sourcetype=none", 0),
            ("took=12", 0),
            ("status=2000", 1),
        ] {
            let early = times(&engine, &store, condition);
            let late = times(&engine, &store, &format!("* | search {condition}"));
            assert_eq!(early, late, "{condition}, sealed: {sealed}");
            assert_eq!(early.len(), matches, "{condition}, sealed: {sealed}");
            assert!(early.is_sorted_by(|a, b| a >= b), "{condition} is not newest first: {early:?}");
        }
    }
}

#[test]
fn values_are_found_however_json_escapes_them() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&EngineOptions::default());
    for sealed in [false, true] {
        let store = store_of(&ESCAPED, &folder.path().join(sealed.to_string()), sealed);
        for (condition, matches) in [
            ("name=José", 3),
            ("name=JOSÉ", 3),
            ("text=\"A&B <É>\"", 3),
            ("name IN (José, none)", 3),
            ("text=\"line1\nline2\"", 1),
            ("text=\"tab\there\"", 1),
            ("text=\"a&b <é>\"", 3),
            ("text=😀", 1),
            ("text=\"\u{7f}\"", 1),
            ("text=\"C:\\\\new\"", 1),
            ("text=\"a b\"", 1),
            ("text=José", 0),
        ] {
            let early = times(&engine, &store, condition);
            let late = times(&engine, &store, &format!("* | search {condition}"));
            assert_eq!(early, late, "{condition}, sealed: {sealed}");
            assert_eq!(early.len(), matches, "{condition}, sealed: {sealed}");
        }
    }
}

/// Values of XML, as elements and attributes write them.
const ENTITIES: [&str; 12] = [
    "<e><user>M&amp;C</user></e>",
    "<e user=\"M&#38;C\"/>",
    "<e><user>A &lt;b&gt;</user></e>",
    "<e><user>zo&#xeb;</user></e>",
    "<e><user>zoë</user></e>",
    "<e user=\"O&apos;Hara\"></e>",
    "<e user=\"O'Hara\"></e>",
    "<e><user><![CDATA[M&C]]></user></e>",
    "<e><user>plain name</user></e>",
    "<e><user>M C</user></e>",
    "<e><user>amp</user></e>",
    "user=\"M&C\"",
];

#[test]
fn values_are_found_however_xml_escapes_them() {
    let folder = tempfile::tempdir().unwrap();
    let layers = Layers::new([ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: "props.conf".into(),
        text: "[generic_single_line]\nKV_MODE = xml\n".into(),
    }]);
    let engine =
        Engine::new(&EngineOptions::default(), Arc::new(PropsResolver::new(&layers)), Arc::new(NoTables)).unwrap();
    for sealed in [false, true] {
        let store = store_of(&ENTITIES, &folder.path().join(sealed.to_string()), sealed);
        let mut found = 0;
        for value in ["M&C", "A <b>", "zoë", "O'Hara", "plain name", "M C", "none & none"] {
            for condition in [format!("user=\"{value}\""), format!("user IN (\"{value}\", none)")] {
                let early = times(&engine, &store, &condition);
                let late = times(&engine, &store, &format!("* | search {condition}"));
                assert_eq!(early, late, "{condition}, sealed: {sealed}");
                found += early.len();
            }
        }
        assert!(found >= 12, "only {found} events have the values");
    }
}

/// Storage form of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Hot,
    Sealed,
    Compacted,
}

/// Rules whose values are whole tokens of the text, prefixes of tokens, parts of tokens (with and without adjacent
/// literals), cells between breakers, parts of other fields or of the source, or concatenations of several groups.
const RULES: &str = r#"
[lines]
SHOULD_LINEMERGE = false
EXTRACT-whole = who=\[(?<whole>[^\]]*)\]
EXTRACT-begin = id:(?<begin>[^ !]+)
EXTRACT-inside = t\s(?<inside>[^ ]+)
EXTRACT-part = who=\[.(?<part>[^\]]{2,9})
EXTRACT-optional = id:(?:(?<head>\w+)=)?\S*!\st(?:\s+(?<tail>\S+))?
EXTRACT-other = (?<other>[a-b]+) in whole
EXTRACT-hex = 0x(?<hex>[0-9a-f]+)ms
EXTRACT-open = \sn(?<open>[0-9a-f]+)
EXTRACT-folder = /(?<folder>[^/]*)/[^/]*$ in source
EXTRACT-made = (?<in_made>.+) in made
EXTRACT-given = (?<in_given>[^.]+) in given
REPORT-groups = groups, named, made, parts, several
FIELDALIAS-names = whole AS name1 begin ASNEW name2 inside AS name3 host AS name4
[cells]
SHOULD_LINEMERGE = false
KV_MODE = none
REPORT-cells = cells
[pairs]
SHOULD_LINEMERGE = false
KV_MODE = none
REPORT-pairs = pairs
[tags]
SHOULD_LINEMERGE = false
KV_MODE = none
EXTRACT-rest = \|(?<rest>.*)
REPORT-tags = tags, names, of_rest
"#;
const TRANSFORMS: &str = r#"
[groups]
REGEX = who=\[([^\]]*)\]\s?id:([^ !]+)
FORMAT = group1::$1 group2::$2
[named]
REGEX = t\s?(?<named>[^ ]+)
[made]
REGEX = who=\[(.)([^\]]*)\]
FORMAT = made::$2-$1
[parts]
SOURCE_KEY = group2
REGEX = ^.(?<part_of>.*)
[several]
REGEX = ([0-9a-f]{2})
FORMAT = several::$1
MV_ADD = true
[tags]
REGEX = (t\d)<([^>]*)>
FORMAT = $1::$2
[names]
REGEX = (?<_KEY_1>v\d)x(?<_VAL_1>[0-9a-f]+)
[of_rest]
SOURCE_KEY = rest
DELIMS = ";", ":"
[cells]
DELIMS = ","
FIELDS = first, second, third
[pairs]
DELIMS = ";", ":"
"#;

/// Lines of these three sourcetypes, with many different values.
fn lines_with_rules(count: u64) -> Vec<(&'static str, String)> {
    let mut seed = 7_u64;
    let mut below = |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    let joints = ["", ".", "-", "%20", "%2", "_", "é", "\u{b}", "=", "%"];
    let blanks = [" ", "\t", "\u{b}", "\u{c}", "\u{a0}", ""];
    let mut all = Vec::new();
    for _ in 0..count {
        let mut value = || {
            let joint = joints[below(joints.len() as u64) as usize];
            format!(
                "{:x}{joint}{:x}{}",
                below(4_096),
                below(4_096),
                joints[below(20).min(9) as usize].trim_end_matches("é")
            )
        };
        let (one, two, three, four) = (value(), value(), value(), value());
        let mut blank = || blanks[below(6) as usize];
        let (a, b) = (blank(), blank());
        let hex = below(60_000);
        all.push(("lines", format!("x{a}who=[{one}] id:{two}{b}! t{a}{three} 0x{hex:x}ms n{four}")));
        all.push(("tags", format!("t1<{one}>{a}t2<{two}> v1x{hex:x},{three}|k1:{four};k2:{a}{two};k1:{hex}")));
        all.push(("cells", format!("{a}{one}{b},\"{two}\",{b}\"a \"\"{three}\"\" b\"{a}")));
        all.push(("pairs", format!("k:{one}{a};l{b}:{two};m:\"{three}\"")));
    }
    all
}

/// Whether a condition on the group of a `rex`, which may end inside a token, finds events. Asserts that the same
/// condition finds the same events if it is tested on finished rows.
fn is_found_after_rex(engine: &Engine, store: &Arc<Store>, value: &str) -> bool {
    let rex = r#"* | rex "id:(?<b>[^ !]{3,6})" | rex "who=.(?<w>[^\]]*)""#;
    let early = times(engine, store, &format!("{rex} | search b=\"{value}\""));
    let late = times(engine, store, &format!("{rex} | eval later=1 | search b=\"{value}\""));
    assert!(early == late, "b={value}: {} events instead of {}", early.len(), late.len());
    !early.is_empty()
}

#[test]
fn values_of_rules_are_found_wherever_they_begin_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [("props.conf", RULES), ("transforms.conf", TRANSFORMS)].map(|(file, text)| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.into(),
        text: text.into(),
    });
    let layers = Layers::new(sources);
    let engine =
        Engine::new(&EngineOptions::default(), Arc::new(PropsResolver::new(&layers)), Arc::new(NoTables)).unwrap();
    let events = lines_with_rules(700);
    let stores = [Form::Hot, Form::Sealed, Form::Compacted].map(|form| {
        let place = folder.path().join(format!("{form:?}"));
        let store = Store::open(StoreOptions::at(&place), ManualClock::shared(1_000_000_000)).unwrap();
        let append = |batch: EventBatch| {
            store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
            if form == Form::Compacted {
                store.seal_all().unwrap();
            }
        };
        let mut batch = EventBatch::default();
        for (at, (sourcetype, line)) in events.iter().enumerate() {
            let meta = Metadata {
                index: "main".into(),
                host: "web".into(),
                source: format!("/logs-{}a/x", at % 9).into(),
                sourcetype: (*sourcetype).into(),
            };
            let meta = batch.intern(&meta);
            batch.push(line.as_bytes(), at as i64 * 1_000_000_000, meta);
            // No text contains these values.
            if at % 700 == 0 {
                let row = u32::try_from(batch.len() - 1).unwrap();
                batch.fields.push(row, "given", &format!("zz{at}.yy"));
            }
            if (at + 1) % 900 == 0 {
                append(std::mem::take(&mut batch));
            }
        }
        append(batch);
        if form != Form::Hot {
            store.seal_all().unwrap();
        }
        if form == Form::Compacted {
            store.compact_all().unwrap();
        }
        store
    });
    let (mut compared, mut begun) = (0, 0);
    for field in [
        "hex", "open", "folder", "in_made", "in_given", "part_of", "several", "t1", "t2", "v1", "k1", "k2", "whole",
        "begin", "inside", "part", "head", "tail", "other", "first", "second", "third", "k", "l", "m", "name1",
        "name2", "name3", "name4", "group1", "group2", "named",
    ] {
        let text = format!("* {field}=* | mvexpand {field} | dedup {field} | head 12 | table {field}");
        let mut job = engine.start(request(&text), stores[0].clone()).unwrap();
        for row in lines(&rows_of(&mut job).unwrap()) {
            let value = row.split_once('=').unwrap().1;
            if value.is_empty() || value.contains(['"', '*', '\\']) {
                continue;
            }
            for store in &stores {
                let same = |condition: &str| {
                    let early = times(&engine, store, condition);
                    // After an `eval`, a condition is tested on finished rows only.
                    let late = times(&engine, store, &format!("* | eval later=1 | search {condition}"));
                    assert!(early == late, "{condition}: {} events instead of {}", early.len(), late.len());
                    early
                };
                assert!(!same(&format!("{field}=\"{value}\"")).is_empty(), "{field}={value:?}");
                same(&format!("{field} IN (\"{value}\", \"{value}x\")"));
                let (start, end) = value.split_at(value.floor_char_boundary(value.len() / 2));
                for pattern in [format!("{start}*"), format!("*{end}"), format!("{start}*{end}")] {
                    assert!(!same(&format!("{field}=\"{pattern}\"")).is_empty(), "{field}={pattern:?}");
                }
                same(&format!("{field}=\"{}\"", value.to_uppercase()));
                // `*` alone also matches fields derived from the time.
                if field.len() > 1 {
                    same(&format!("{}*=\"{value}\"", &field[..field.len() - 1]));
                }
                if field == "begin" {
                    begun +=
                        usize::from(is_found_after_rex(&engine, store, &value.chars().take(6).collect::<String>()));
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 400 && begun > 20, "{compared} comparisons, {begun} of a beginning");
}
