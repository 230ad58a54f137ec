//! Searches have the same results before and after compaction stores extracted fields, whatever the rules of the search.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, SnapshotSource};
use quarry_event::template::{StoredExtraction, StoredValues, TemplateSet, TextSlice, ValueParts};
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, IndexSelector, Store, StoreOptions};
use quarry_testworld::{NoTables, SECOND, START, lines, request, rows_of};
use tempfile::tempdir;

const PROPS: &str = r#"
[proxy]
KV_MODE = none
EXTRACT-all = ^\S+ (?<client>\S+) (?<took>\d+|-) "(?<agent>[^"]*)" (?:\{(?<captured>[^}]*)\} )?(?<note>.*?) - (?:(?<verb>[A-Z]+) )?(?<area>\w+)(?:\.(?<domain>\w+))?(?: (?<tail>.*))?$
EXTRACT-city = at (?<city>\w+) in note
FIELDALIAS-src = client AS src
EVAL-slow = if(took > 80, "yes", "no")
[trace]
KV_MODE = none
EXTRACT-trace = ^(?<op>\w+) (?<words>.*?) ?id=(?<id>\S+) (?<span>[0-9a-f]+-[0-9a-f]+)(?: <(?<mail>[^>]*)>)?(?: in (?<ms>\d+))?(?: (?<rest>.*))?$
EXTRACT-number = ^0x(?<number>\w+) in id
[sliced]
KV_MODE = none
EXTRACT-all = ^(?<severity>[IWE])\d{4} (?<file>[^: ]+):(?<line>\d+) (?<remark>.*?) ?(?<result>[A-Z_]+)/(?<status>\d+) conn=0x(?<conn>[0-9a-f]*)(?: (?<more>.*))?$
[leef]
KV_MODE = none
REPORT-leef = leef_head, leef_pairs
FIELDALIAS-person = person AS who
EVAL-kind = coalesce(kind_name, "none")
[mixed]
KV_MODE = auto
EXTRACT-level = (?<level>WARN|INFO) .*? (?<word>\w+)$
EXTRACT-user = ^(?<user>w\d) in word
"#;

const TRANSFORMS: &str = r#"
[leef_head]
REGEX = ^LEEF:2.0\|(?<vendor>[^|]*)\|(?<event>[^|]*)\|(?<ext>.*)$
[leef_pairs]
SOURCE_KEY = ext
DELIMS = "^", "="
"#;

/// Transforms of rules that depend on each other.
const CHAINED: &str = r#"
[names_of_q]
SOURCE_KEY = q
REGEX = (\w)-(\d)
FORMAT = $1::$2
[last_word]
REGEX = (\w+)$
FORMAT = N::$1
[of_m]
SOURCE_KEY = M
REGEX = (\w)
FORMAT = Z::$1
[tildes]
DELIMS = " ", "~"
CLEAN_KEYS = false
"#;

/// The same fields by other rules.
const OTHER_PROPS: &str = "
[proxy]
KV_MODE = none
EXTRACT-all = ^\\S+ (?<client>[^ .]+)\\S* (?<took>\\d+)
EXTRACT-note = \" (?<note>\\w+)
[leef]
KV_MODE = none
REPORT-leef = leef_head
[mixed]
KV_MODE = auto
";

/// An additional rule for a field that the transforms might produce as well, because they take field names from the
/// texts.
const MORE_PROPS: &str = "\n[leef]\nEXTRACT-new = \\|e(?<newfield>\\d+)\\|\n";

const EVENTS: u64 = 1_500;

fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn free_text(at: u64) -> String {
    let words = ["at", "rest", "Köln", "moved", "12", "x-y", "the", "(end)", "a=b", "-", "\"q", "::1"];
    (0..at % 6).map(|n| words[((at >> (n * 3)) % 12) as usize]).collect::<Vec<_>>().join(" ")
}

fn proxy(row: u64) -> String {
    let at = mixed(row);
    if at % 97 == 5 {
        return format!("note {} without form", free_text(at));
    }
    let client = if at % 5 == 1 { format!("fe80::{:x}", at % 90) } else { format!("10.0.{}.{}", at % 4, at % 250) };
    let took = if at % 7 == 2 { "-".to_owned() } else { (at % 120).to_string() };
    let agent = ["curl/8.1", "Mozilla/5.0 (X11; é)", "", "bot x"][(at >> 3) as usize % 4];
    let captured = if at.is_multiple_of(3) { format!("{{{}|{}}} ", at % 9, free_text(at >> 2)) } else { String::new() };
    let verb = if at.is_multiple_of(4) { "" } else { ["GET ", "POST "][at as usize % 2] };
    let domain = if at.is_multiple_of(6) { String::new() } else { format!(".d{}", (at >> 5) % 40) };
    let tail = if at.is_multiple_of(8) { String::new() } else { format!(" {}", free_text(at >> 7)) };
    format!("t{row} {client} {took} \"{agent}\" {captured}{} - {verb}area{}{domain}{tail}", free_text(at >> 1), at % 5)
}

/// Ids that are nearly unique, beside free text, so that their columns would take more than half of the text's bytes.
fn trace(row: u64) -> String {
    let at = mixed(row);
    let id = match at % 9 {
        0 => "-".to_owned(),
        1 => format!("é{at:x}"),
        2 => format!("{}", at % 10_000),
        _ => format!("0x{:016x}", at.wrapping_mul(0x9e37_79b9)),
    };
    let span = format!("{:x}-{:x}", mixed(at), mixed(at + 1) % 900_000);
    let mail = match at % 4 {
        0 => String::new(),
        1 => " <>".to_owned(),
        _ => format!(" <u{}@host{}.example>", mixed(at + 2) % 500_000, at % 3),
    };
    let ms = if at.is_multiple_of(3) { String::new() } else { format!(" in {}", mixed(at + 3) % 700_000) };
    let rest = if at.is_multiple_of(5) { String::new() } else { format!(" {}", free_text(at >> 9)) };
    format!("op{} {} id={id} {span}{mail}{ms}{rest}", at % 6, free_text(at >> 3))
}

/// Fields that begin or end inside a word, beside free text.
fn sliced(row: u64) -> String {
    let at = mixed(row);
    let severity = ["I", "W", "E"][(at % 3) as usize];
    let file = ["main.go", "über.go", "sync.go"][(at >> 4) as usize % 3];
    let result = ["TCP_HIT", "TCP_MISS", "UDP_HIT"][(at >> 6) as usize % 3];
    let id = if at.is_multiple_of(400) { String::new() } else { format!("{:012x}", mixed(at) >> 16) };
    let more = if at.is_multiple_of(7) { String::new() } else { format!(" {}", free_text(at >> 5)) };
    let (line, status) = (at % 70, 200 + at % 5);
    format!("{severity}1130 {file}:{line} {} {result}/{status} conn=0x{id}{more}", free_text(at >> 2))
}

fn leef(row: u64) -> String {
    let at = mixed(row);
    let mut pairs = vec![format!("src=10.1.{}.{}", at % 9, at % 200)];
    if !at.is_multiple_of(3) {
        pairs.push(format!("usr=user{}", at % 30));
    }
    if at % 50 == 7 {
        pairs.push(format!("rare={}", at % 4));
    }
    pairs.push(format!("msg={}", free_text(at)));
    format!("LEEF:2.0|v{}|e{}|{}", at % 2, at % 12, pairs.join("^"))
}

fn unruly(row: u64) -> String {
    let at = mixed(row);
    let level = ["WARN", "INFO", "DEBUG"][at as usize % 3];
    format!("{level} user=u{} {} w{}", at % 20, free_text(at), at % 15)
}

const SEARCHES: &[&str] = &[
    "| stats count",
    "| stats count by client | sort - count client | head 20",
    "| stats count by domain",
    "| stats count by area verb",
    "| stats count avg(took) sum(took) max(took) by area",
    "| stats dc(note) dc(captured) dc(tail) by agent",
    "| stats count by city",
    "| stats count by src slow | sort src | head 30",
    "| stats count by usr",
    "| stats count by vendor event",
    "| stats values(rare) count(rare) dc(msg)",
    "| stats count by level word",
    "| stats count by user level",
    "| top 5 domain",
    "| rare 5 word",
    "| timechart span=10m count by verb",
    "| dedup domain | sort domain | table domain",
    "| sort 0 - took client _time | head 15 | table took client note",
    "domain=d7 | stats count by area",
    "domain=D7 | stats count",
    "domain=d* | stats count",
    "domain!=d7 | stats count",
    "NOT domain=* | stats count by sourcetype",
    "took>100 | stats count by domain",
    "took=\"-\" | stats count",
    "took IN (5, 6, 7) verb=GET | stats count by area",
    "client=10.0.1.53 | stats count by area",
    "client=fe80::* | stats count",
    "client=10.0.0.0/23 | stats count",
    "src=10.1.3.* | stats count by event",
    "agent=\"\" | stats count",
    "agent=\"Mozilla/5.0 (X11; é)\" | stats count by verb",
    "city=rest | stats count",
    "note=\"at rest\" | stats count",
    "note=*moved* | stats count",
    "msg=*Köln* | stats count by usr",
    "rare=3 | stats count by vendor",
    "usr=user7 event=e4 | stats count",
    "level=WARN word=w3 | stats count by user",
    "slow=yes | stats count by domain",
    "d7 | stats count by sourcetype",
    "| where took > 110 | stats count by verb",
    "| eval k=domain.\"/\".area | stats count by k",
    "| rex field=note \"(?<first>\\w+)\" | stats count by first",
    "| rex field=domain \"d(?<number>\\d+)\" | stats sum(number)",
    "| spath input=note | stats count",
    "| eventstats avg(took) as mean by area | where took > mean | stats count",
    "| fields d* | stats count(domain)",
    "sourcetype=proxy | head 3",
    "sourcetype=leef usr=user7 | head 3 | table *",
    "| stats count by tail | sort - count tail | head 20",
    "| stats count(eval(took > 50)) as slow by domain",
    "d*=d7 | stats count",
    "| stats count by kind",
    "| stats count by newfield",
    "newfield=7 | stats count",
    "NOT newfield=* | stats count by sourcetype",
    "| rex \"(?<newfield>v\\d)\" | stats count by newfield",
    "sourcetype=leef | stats count by nothing vendor",
    "sourcetype=leef | table * | stats count by event",
    "| stats count(who) count(person) by vendor",
    "sourcetype=leef | stats count(kin*) dc(us*) by vendor",
    "| stats dc(id) dc(span) dc(mail) count(id) count(mail) by op",
    "| stats count by id | sort - count id | head 20",
    "| stats min(ms) max(ms) avg(ms) sum(ms) by op",
    "| stats min(id) max(id) max(span) by sourcetype",
    "| stats count by mail | sort - count mail | head 20",
    "| stats dc(number) max(number)",
    "id=0x* | stats count by op",
    "id=4711 | stats count",
    "id=\"-\" | stats count by op",
    "id!=0x* | stats dc(id)",
    "NOT id=* | stats count by sourcetype",
    "id=é* | stats count",
    "ms>600000 | stats count by op",
    "mail=\"\" | stats count by op",
    "mail=u4*@host1.example | stats count",
    "span=*-1* | stats count by op",
    "| sort 0 - ms | head 20 | table ms id span mail",
    "| sort 0 span | head 20 | table span id",
    "sourcetype=trace | dedup mail | stats count",
    "sourcetype=trace | head 5 | table *",
    "| where ms > 650000 | stats count by id | sort id",
    "| eval k=id.\"/\".span | stats dc(k)",
    "| rex field=span \"-(?<low>\\w+)\" | stats dc(low)",
    "| rex field=mail \"@(?<at>.*)\" | stats count by at",
    "| spath input=id | stats count",
    "| timechart span=10m dc(id) max(ms)",
    "| eval l=len(id) | stats count by l",
    "| stats count by rest words | sort - count rest words | head 20",
    "domain::d7 | stats count",
    "| stats count by severity file",
    "| stats count avg(line) max(status) by result",
    "| stats dc(conn) min(conn) max(conn) by severity",
    "sourcetype=sliced | stats count by conn | sort - count conn | head 20",
    "severity=W line>40 | stats count by file",
    "file=über.go status=203 | stats count by result",
    "file=*.go result!=TCP_* | stats dc(conn) count",
    "conn=0* | stats count",
    "conn=\"\" | stats count by severity",
    "NOT severity=* | stats count by sourcetype",
    "| where line % 7 = 3 | stats count by result status",
    "| eval k=file.\":\".line | stats count by k",
    "| timechart span=10m count by result",
    "| sort 0 - conn | head 20 | table conn file line",
    "sourcetype=sliced | dedup file severity | table file severity result",
    "sourcetype=sliced | head 5 | table *",
];

fn props_of(props: &str) -> Arc<PropsResolver> {
    let file = |file: &str, text: &str| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.to_owned(),
        text: text.to_owned(),
    };
    Arc::new(PropsResolver::new(&Layers::new([
        file("props.conf", props),
        file("transforms.conf", &[TRANSFORMS, CHAINED].concat()),
    ])))
}

fn engine_of(props: &str) -> Engine {
    Engine::new(&EngineOptions::default(), props_of(props), Arc::new(NoTables)).unwrap()
}

fn answers(store: &Arc<Store>, props: &str) -> Vec<(String, Vec<String>)> {
    let engine = engine_of(props);
    let searches = SEARCHES.iter().map(|search| match search.starts_with('|') {
        true => format!("search index=main {search}"),
        false => format!("search index=main ({}", search.replacen(" |", ") |", 1)),
    });
    let tstats = ["| tstats count where index=main by domain", "| tstats count where index=main domain=d7"];
    let all = searches.chain(tstats.map(str::to_owned));
    let source: Arc<dyn SnapshotSource> = Arc::clone(store) as _;
    all.map(|text| {
        let mut job = engine.start(request(&text), Arc::clone(&source)).unwrap();
        let sorted = |line: String| {
            // A batch without values of a field need not have its column.
            let mut fields: Vec<&str> = line.split(" | ").filter(|field| !field.ends_with('=')).collect();
            fields.sort_unstable();
            fields.join(" | ")
        };
        let found: Vec<String> = lines(&rows_of(&mut job).unwrap()).into_iter().map(sorted).collect();
        (text, found)
    })
    .collect()
}

fn assert_equal(found: &[(String, Vec<String>)], expected: &[(String, Vec<String>)], when: &str) {
    for ((text, found), (_, expected)) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{when}: {text}");
    }
}

fn append(store: &Store, sourcetype: &str, host: &str, from: u64, event: fn(u64) -> String, fields: &[(&str, &str)]) {
    let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
    let (index, host, sourcetype): (Arc<str>, Arc<str>, Arc<str>) = ("main".into(), host.into(), sourcetype.into());
    let meta = batch.intern(&Metadata { index, host, source: Arc::clone(&sourcetype), sourcetype });
    for row in from..from + EVENTS {
        batch.push(event(row).as_bytes(), START + row as i64 * SECOND, meta);
        let at = (row - from) as u32;
        batch.fields.extend(fields.iter().map(|(name, value)| (at, name, value)));
    }
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
}

/// Names of the stored fields of each sealed slab.
fn stored_names(store: &Store) -> Vec<BTreeSet<String>> {
    let segments = store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).segments;
    let sets = segments.iter().filter_map(|segment| segment.template_set().unwrap());
    sets.map(|set| set.extractions.iter().map(|stored| stored.name.to_string()).collect()).collect()
}

/// The stored list of all field names that rules take from the texts.
fn names_of_texts(store: &Store) -> BTreeSet<String> {
    let segments = store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).segments;
    let sets = segments.iter().filter_map(|segment| segment.template_set().unwrap()?.extracted_names.clone());
    sets.flat_map(|known| known.names.iter().map(|name| name.to_string()).collect::<Vec<_>>()).collect()
}

/// Names of the stored fields whose values are parts of the texts.
fn stored_as_parts(store: &Store) -> BTreeSet<String> {
    let segments = store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).segments;
    let sets = segments.iter().filter_map(|segment| segment.template_set().unwrap());
    let is_parts = |stored: &&StoredExtraction| matches!(stored.values, StoredValues::Parts(_));
    let names = |set: Arc<TemplateSet>| -> Vec<String> {
        set.extractions.iter().filter(is_parts).map(|stored| stored.name.to_string()).collect()
    };
    sets.flat_map(names).collect()
}

/// The location of a field's values in each slab that stores the field.
fn stored_values(store: &Store, name: &str) -> Vec<StoredValues> {
    let segments = store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).segments;
    let sets = segments.iter().filter_map(|segment| segment.template_set().unwrap());
    let all = sets.flat_map(|set| set.extractions.clone());
    all.filter(|stored| *stored.name == *name).map(|stored| stored.values).collect()
}

/// Whether some slab stores values of a field as slices of the variables of its texts.
fn has_slices(store: &Store, name: &str) -> bool {
    let is_slice = |value: &ValueParts| value.slice != TextSlice::Whole;
    let is_sliced = |values: &StoredValues| matches!(values, StoredValues::Parts(parts) if parts.parts.iter().flatten().any(is_slice));
    stored_values(store, name).iter().any(is_sliced)
}

fn store_fields(store: &Store, props: &str) {
    let extraction = engine_of(props).slab_extraction();
    store.store_extractions(Box::new(move || Some(Arc::clone(&extraction))));
}

#[test]
fn stored_fields_are_what_the_rules_extract() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { slab_events: 2_000, ..StoreOptions::at(dir.path()) };
    let store = Store::open(options, ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    append(&store, "proxy", "h", 0, proxy, &[]);
    append(&store, "leef", "h", 0, leef, &[]);
    append(&store, "trace", "h", 0, trace, &[]);
    append(&store, "mixed", "h", 0, unruly, &[]);
    append(&store, "sliced", "h", 0, sliced, &[]);
    append(&store, "proxy", "h2", EVENTS, proxy, &[]);
    store.seal_all().unwrap();
    let (own, other) = (answers(&store, PROPS), answers(&store, OTHER_PROPS));
    let more = answers(&store, &[PROPS, MORE_PROPS].concat());
    assert_ne!(own, more, "the further rule finds something");
    assert_same_precedence(&store);
    let found = own.iter().filter(|(_, lines)| !lines.is_empty()).count();
    let empty: Vec<&String> = own.iter().filter(|(_, lines)| lines.is_empty()).map(|(text, _)| text).collect();
    assert!(found * 10 > own.len() * 9, "most searches find something, but not {empty:#?}");
    assert!(stored_names(&store).iter().all(BTreeSet::is_empty), "sealing stores no extractions");
    store_fields(&store, PROPS);
    store.compact_all().unwrap();
    let names: BTreeSet<String> = stored_names(&store).into_iter().flatten().collect();
    // The last two are fields that rules read. No event has them, but a transform might produce them.
    let expected = ["domain", "verb", "took", "usr", "src", "kind_name", "who"];
    assert!(expected.iter().all(|name| names.contains(*name)), "{names:?}");
    assert!(stored_as_parts(&store).contains("id"), "{:?}", stored_as_parts(&store));
    for name in ["severity", "file"] {
        assert!(has_slices(&store, name), "{name}: {:?}", stored_values(&store, name));
    }
    assert_equal(&answers(&store, PROPS), &own, "compacted");
    assert_equal(&answers(&store, OTHER_PROPS), &other, "compacted, other rules");
    assert_equal(&answers(&store, &[PROPS, MORE_PROPS].concat()), &more, "compacted, a further rule");
    assert!(names_of_texts(&store).contains("rare"), "{:?}", names_of_texts(&store));
    assert_same_precedence(&store);
    let deletion = quarry_testworld::deletion_of_every(&store, "main", 3);
    store.delete(&deletion).unwrap();
    let remaining = answers(&store, PROPS);
    store.compact_all().unwrap();
    assert_equal(&answers(&store, PROPS), &remaining, "compacted after a deletion");
}

#[test]
fn slices_of_dictionary_texts_are_counted_like_the_values_of_events() {
    let dir = tempdir().unwrap();
    let store = Store::open(StoreOptions::at(dir.path()), ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    append(&store, "sliced", "h", 0, sliced, &[]);
    store.seal_all().unwrap();
    let reports = [
        "stats count by severity",
        "stats count(severity) count dc(severity) values(severity)",
        "top limit=0 severity",
        "stats count by file",
    ];
    let answers = || {
        let engine = engine_of(PROPS);
        let source: Arc<dyn SnapshotSource> = Arc::clone(&store) as _;
        let rows =
            |text: String| lines(&rows_of(&mut engine.start(request(&text), Arc::clone(&source)).unwrap()).unwrap());
        // A command in between needs each event.
        let of_events = reports.map(|report| rows(format!("search index=main | eval each=1 | {report}")));
        assert_eq!(reports.map(|report| rows(format!("search index=main | {report}"))), of_events);
        of_events
    };
    let sealed = answers();
    store_fields(&store, PROPS);
    store.compact_all().unwrap();
    assert!(has_slices(&store, "severity"), "{:?}", stored_values(&store, "severity"));
    assert_eq!(answers(), sealed);
    // Every event begins with its severity.
    for severity in ["E", "I", "W"] {
        let count = (0..EVENTS).filter(|row| sliced(*row).starts_with(severity)).count();
        let expected = [format!("severity={severity}"), format!("count={count}")];
        let has_all = |line: &String| expected.iter().all(|field| line.split(" | ").any(|known| known == field));
        assert!(sealed[0].iter().any(has_all), "{expected:?}: {:?}", sealed[0]);
    }
}

/// Asserts that a pattern that reads a field runs after automatic extraction, whether the search reads templates, texts
/// or stored columns.
fn assert_same_precedence(store: &Arc<Store>) {
    let engine = engine_of(PROPS);
    let source: Arc<dyn SnapshotSource> = Arc::clone(store) as _;
    let rows = |text: &str| lines(&rows_of(&mut engine.start(request(text), Arc::clone(&source)).unwrap()).unwrap());
    let named = rows("search index=main sourcetype=mixed | stats count by user");
    assert!(named.iter().any(|line| line.contains("u7")), "{named:?}");
    assert!(!named.iter().any(|line| line.contains("w3")), "all events have the field as a pair: {named:?}");
    for other in ["| table * |", "| table u* |"] {
        assert_eq!(rows(&format!("search index=main sourcetype=mixed {other} stats count by user")), named, "{other}");
    }
}

#[test]
fn index_time_fields_of_the_same_name_precede() {
    let dir = tempdir().unwrap();
    let store = Store::open(StoreOptions::at(dir.path()), ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    append(&store, "proxy", "h", 0, proxy, &[]);
    append(&store, "proxy", "sender", EVENTS, proxy, &[("domain", "d7"), ("note", "at home")]);
    store.seal_all().unwrap();
    let own = answers(&store, PROPS);
    store_fields(&store, PROPS);
    store.compact_all().unwrap();
    let names: BTreeSet<String> = stored_names(&store).into_iter().flatten().collect();
    assert!(names.contains("verb") && !names.contains("domain") && !names.contains("city"), "{names:?}");
    assert_equal(&answers(&store, PROPS), &own, "compacted");
}

/// Searches for a field with several values in some events.
const OF_LISTS: &[&str] = &[
    "| stats count by word",
    "| stats count(word) dc(word) values(word) by area",
    "| eval n=mvcount(word) | stats count by n",
    "| where mvcount(word) > 1 AND mvindex(word, 0)=\"rest\" | stats count by word",
    "| mvexpand word | stats count by word",
    "| eval w=mvjoin(word, \"+\") | stats count by w",
    "| sort 0 word _time | head 20 | table word",
    "| dedup word | stats count",
    "| top word",
    "| timechart span=10m count by word",
    "| streamstats count by word | stats max(count)",
    "| stats first(word) list(word) by verb",
    "| head 7 | table word",
    "word=rest | stats count by area",
    "word=rest word=moved | stats count",
    "word=re* | stats count",
    "word!=rest | stats count",
    "NOT word=* | stats count",
    "NOT word=rest | stats count",
    "word IN (rest, GET) | stats count by word",
];

/// The answers of [`OF_LISTS`] are the same in memory, sealed and compacted; returns how `word` is stored.
fn check_lists(event: fn(u64) -> String, props: &str, transforms: &str) -> Vec<StoredValues> {
    check_searches(event, (props, transforms), OF_LISTS, "word")
}

/// The answers of `searches` are the same in memory, sealed and compacted; returns how `field` is stored.
fn check_searches(
    event: fn(u64) -> String,
    (props, transforms): (&str, &str),
    searches: &[&str],
    field: &str,
) -> Vec<StoredValues> {
    let source = |file: &str, text: &str| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.to_owned(),
        text: text.to_owned(),
    };
    let layers = Layers::new([source("props.conf", props), source("transforms.conf", transforms)]);
    let resolver = Arc::new(PropsResolver::new(&layers));
    let engine = || Engine::new(&EngineOptions::default(), Arc::clone(&resolver), Arc::new(NoTables)).unwrap();
    let dir = tempdir().unwrap();
    let store = Store::open(StoreOptions::at(dir.path()), ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    append(&store, "proxy", "h", 0, event, &[]);
    let answers = || -> Vec<(String, Vec<String>)> {
        let (engine, source): (Engine, Arc<dyn SnapshotSource>) = (engine(), Arc::clone(&store) as _);
        let answer = |search: &&str| {
            let text = format!("search index=main {search}");
            let mut job = engine.start(request(&text), Arc::clone(&source)).unwrap();
            (text, lines(&rows_of(&mut job).unwrap()))
        };
        searches.iter().map(answer).collect()
    };
    let before = answers();
    assert!(before.iter().all(|(_, lines)| !lines.is_empty()), "{before:?}");
    store.seal_all().unwrap();
    assert_equal(&answers(), &before, "sealed");
    let extraction = engine().slab_extraction();
    store.store_extractions(Box::new(move || Some(Arc::clone(&extraction))));
    store.compact_all().unwrap();
    let segments = store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).segments;
    let sets = segments.iter().filter_map(|segment| segment.template_set().unwrap());
    assert_equal(&answers(), &before, "compacted");
    let stored = sets.flat_map(|set| set.extractions.clone()).filter(|stored| *stored.name == *field);
    stored.map(|stored| stored.values).collect()
}

#[test]
fn fields_of_several_values_are_stored_as_lists() {
    let props = "[proxy]\nKV_MODE = none\nREPORT-words = words\nEXTRACT-area = (?<area>area\\d)\n\
                 EXTRACT-verb = (?<verb>GET|POST)\n";
    let transforms = "[words]\nREGEX = \\b(at|rest|moved|GET|bot|curl|Köln)\\b\nFORMAT = word::$1\nMV_ADD = true\n";
    let stored = check_lists(proxy, props, transforms);
    assert!(matches!(stored[..], [StoredValues::Lists(_)]), "{stored:?}");
}

/// Windows events as text: names and values on lines, some names twice, values that differ from event to event.
fn logon(at: u64) -> String {
    let id = |salt: u64| format!("0x{:x}", (at + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24);
    let subject = if at.is_multiple_of(7) { "rest".to_owned() } else { id(1) };
    let name = format!("user{}", at % 1_009);
    let verb = ["GET", "POST"][(at % 2) as usize];
    let area = at % 4;
    match at % 3 {
        0 => format!(
            "{verb} Logon area{area}\nSubject:\n\tword:\t{}\nNew:\n\tword:\t{name}\n\tLogon ID:\t{}",
            subject,
            id(2)
        ),
        1 => format!("{verb} Logoff area{area}\nSubject:\n\tword:\t{}\n\tLogon ID:\t{}", id(3), id(4)),
        _ => format!("{verb} Process area{area}\nSubject:\n\tLogon ID:\t{}", id(5)),
    }
}

#[test]
fn lists_of_nearly_unique_values_are_read_from_the_columns_of_the_texts() {
    let props = "[proxy]\nKV_MODE = none\nREPORT-pairs = pairs\nEXTRACT-area = (?<area>area\\d)\n\
                 EXTRACT-verb = (?<verb>GET|POST)\n";
    let transforms = "[pairs]\nREGEX = \\n\\s*([^:\\n]+):[ \\t]+([^\\n]*)\nFORMAT = $1::$2\nMV_ADD = true\n";
    let stored = check_lists(logon, props, transforms);
    assert!(matches!(&stored[..], [StoredValues::Parts(parts)] if parts.is_list), "{stored:?}");
}

/// Numbers with units: integers, numbers with zeros at the end, numbers that a double writes with an exponent, and
/// numbers with up to five decimal places.
fn timed(row: u64) -> String {
    let at = mixed(row);
    let wait = match at % 8 {
        0 => format!("{}", at % 90),
        1 => format!("{}.{}0", at % 7, at % 9 + 1),
        2 => format!("0.00000{}", at % 9 + 1),
        3 | 4 => format!("{}.{:03}", at % 30, mixed(at) % 1_000),
        _ => format!("{}.{:04}7", at % 50, mixed(at) % 10_000),
    };
    if at % 61 == 7 {
        return format!("c{} took", at % 40);
    }
    format!("c{} took {wait}{} for job j{}", at % 40, ["ms", "s"][(at >> 9) as usize % 2], at % 3)
}

/// Numbers with three decimal places, nearly all below one, and some that a truncated event ends.
fn split(row: u64) -> String {
    let at = mixed(row);
    let (whole, fraction) = (if at % 40 == 3 { at % 9 } else { 0 }, 1 + mixed(at) % 899);
    match at % 61 {
        7 => format!("c{} wait={whole}.", at % 40),
        8 => format!("c{} wait={whole}.{} ms for job j1", at % 40, 1 + fraction % 9),
        _ => format!(
            "c{} wait={whole}.{fraction:03} {} for job j{}",
            at % 40,
            ["ms", "s"][(at >> 9) as usize % 2],
            at % 3
        ),
    }
}

/// Searches for numbers.
const OF_NUMBERS: &[&str] = &[
    "| stats count(wait) dc(wait) min(wait) max(wait) by unit",
    "| stats count by wait | sort 0 str(wait) | head 40",
    "| eval text=wait.\"!\" | stats count by text | sort 0 str(text) | head 40",
    "| where wait > 3.4 | stats count by job",
    "| where isnull(wait) | stats count",
    "| eval class=case(wait<1, \"low\", wait<20.5, \"mid\", true(), \"high\") | stats count by class unit",
    "| sort 0 - num(wait) _time | head 20 | table wait unit",
    "| timechart span=10m count(wait) max(wait)",
    "wait=3.40 | stats count",
    "wait=3.4 | stats count",
    "wait=0.000007 | stats count",
    "wait>0.5 wait<=20 | stats count by unit",
    "wait!=7 | stats count by unit",
    "unit=ms job!=j1 | stats count dc(wait) by job",
];

#[test]
fn numbers_of_several_scales_keep_their_values_in_columns() {
    let props = "[proxy]\nKV_MODE = none\nEXTRACT-wait = took (?<wait>[\\d.]+)(?<unit>ms|s) for job (?<job>\\w+)$\n";
    check_searches(timed, (props, ""), OF_NUMBERS, "wait");
}

#[test]
fn digits_before_and_after_a_point_are_one_number_in_columns() {
    let props = "[proxy]\nKV_MODE = none\nEXTRACT-wait = wait=(?<wait>[\\d.]+) (?<unit>ms|s) for job (?<job>\\w+)$\n";
    check_searches(split, (props, ""), OF_NUMBERS, "wait");
}

/// A rule whose fields the templates do not locate.
const WORDS_BEFORE_AB: &str = "EXTRACT-m = ^t\\d+ (?<words>.*?) ?ab(?<digit>\\d)(?: (?<opt>\\S+))?(?: (?<rest>.*))?$\n";

fn words(at: u64) -> String {
    free_text(at).replace('"', "")
}

/// Names and values.
type IndexTimeFields<'a> = &'a [(&'a str, &'a str)];

/// The answers of searches over the events of one source with the rules `searched`, before and after a compaction with
/// the rules `stored`; and the names of the fields that the compaction stores.
fn before_and_after(
    (event, fields): (fn(u64) -> String, IndexTimeFields<'_>),
    (stored, searched): (&str, &str),
    searches: &[&str],
) -> ([Vec<Vec<String>>; 2], BTreeSet<String>) {
    let dir = tempdir().unwrap();
    let store = Store::open(StoreOptions::at(dir.path()), ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    append(&store, "chained", "h", 0, event, fields);
    store.seal_all().unwrap();
    let answers = || {
        let engine = engine_of(searched);
        let source: Arc<dyn SnapshotSource> = Arc::clone(&store) as _;
        let answer =
            |text: &&str| lines(&rows_of(&mut engine.start(request(text), Arc::clone(&source)).unwrap()).unwrap());
        searches.iter().map(answer).collect()
    };
    let before = answers();
    store_fields(&store, stored);
    store.compact_all().unwrap();
    ([before, answers()], stored_names(&store).into_iter().flatten().collect())
}

#[test]
fn names_that_come_from_index_time_fields_are_not_absent() {
    let props =
        format!("[chained]\nKV_MODE = none\n{WORDS_BEFORE_AB}EXTRACT-q = (?<q>.*) in p\nREPORT-o = names_of_q\n");
    let event = |row| format!("t{row} {} ab{} x end", words(mixed(row)), row % 7);
    let searches = ["search index=main a=1 | stats count", "search index=main q=a-1 | stats count count(q)"];
    let ([before, after], _) = before_and_after((event, &[("p", "a-1")]), (&props, &props), &searches);
    assert_eq!(before, [[format!("count={EVENTS}")], [format!("count={EVENTS} | count(q)={EVENTS}")]]);
    assert_eq!(after, before);
}

#[test]
fn rules_that_change_the_order_of_others_change_their_digest() {
    let props = "[chained]\nKV_MODE = none\nEXTRACT-foo = foo=\\[(?<foo>[^\\]]*)\\]\n\
                 EXTRACT-x = (?<N>\\w)(?<M>\\w+) in foo\nREPORT-r = last_word\n";
    let more = format!("{props}REPORT-z = of_m\n");
    let event = |row| {
        let at = mixed(row);
        format!("t{row} foo=[{}d delta{}] {} 9{at:x}", ["a", "b", "c"][at as usize % 3], at % 9, free_text(at))
    };
    let searches = ["search index=main | stats dc(N) count(Z)", "search index=main N=c | stats count"];
    for (stored, searched) in [(props, &*more), (&more, props)] {
        let ([before, after], names) = before_and_after((event, &[]), (stored, searched), &searches);
        assert!(!names.is_empty(), "something is stored");
        assert_eq!(after, before);
    }
}

#[test]
fn hidden_fields_of_the_texts_are_not_absent() {
    let props = format!("[chained]\nKV_MODE = none\n{WORDS_BEFORE_AB}REPORT-t = tildes\n");
    let event = |row| format!("t{row} {} ab{} x~{row} __h~1", words(mixed(row)), row % 7);
    let searches = ["search index=main __h=* | stats count", "search index=main x=7 | stats count"];
    let ([before, after], names) = before_and_after((event, &[]), (&props, &props), &searches);
    assert_eq!(before, [[format!("count={EVENTS}")], ["count=1".to_owned()]]);
    assert!(!names.is_empty(), "something is stored");
    assert_eq!(after, before);
}

/// If a group does not participate in the match of its pattern, a later rule that extracts the same field from another
/// field still applies.
#[test]
fn a_group_without_a_value_leaves_the_field_to_later_rules() {
    let props = "[chained]\nKV_MODE = none\nEXTRACT-d = \\[(?<fd>\\d+)\nEXTRACT-c = ^(?:p2=(?<ff>\\S*))?2026\n\
                 EXTRACT-e = (?<ff>\\S+) in fd\nEXTRACT-m = (?<fr>\\w+) .* (?<tail>\\w+)$\n";
    let event = |row: u64| match row % 3 {
        0 => format!("2026-01-01T00:00:00Z k a none {}x{row}", free_text(mixed(row))),
        _ => format!("2026-01-01T00:00:00Z k a [{}] x{row}", row % 10),
    };
    let searches = ["search index=main | stats count(ff) count(fd)", "search index=main ff=7 | stats count by fd"];
    let ([before, after], names) = before_and_after((event, &[]), (props, props), &searches);
    assert_eq!(before, [["count(ff)=1000 | count(fd)=1000"], ["fd=7 | count=100"]]);
    assert!(!names.is_empty(), "something is stored");
    assert_eq!(after, before);
}
