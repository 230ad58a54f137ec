//! Searches for index-time fields have the same results while events are in memory, in sealed slabs, after compaction,
//! and with some events deleted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "index_time_fields/numbers.rs"]
mod numbers;

use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, SnapshotSource};
use quarry_event::{EventBatch, IndexedFields, Metadata, PageColumns, TimeRange};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, IndexSelector, Store, StoreOptions};
use quarry_testworld::{NoTables, SECOND, START, lines, request, rows_of};
use tempfile::tempdir;

const PROPS: &str = "
[iis]
KV_MODE = none
EXTRACT-area = ^/(?<area>\\w+) in cs_uri_stem
FIELDALIAS-client = c_ip AS client
EVAL-slow = if(time_taken > 80, \"yes\", \"no\")
[csv]
KV_MODE = auto
[hec]
KV_MODE = auto
";

/// Number of events of each sourcetype in a batch.
const EVENTS: u64 = 1_500;

fn mixed(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// Text and fields of an event whose fields are the columns of its text, without missing values.
fn iis(row: u64) -> (String, Vec<(&'static str, String)>) {
    let at = mixed(row);
    let names = ["date", "cs_method", "cs_uri_stem", "cs_uri_query", "cs_username", "c_ip", "sc_status", "time_taken"];
    let cells = [
        "2026-10-01".to_owned(),
        ["GET", "GET", "POST", "HEAD"][at as usize % 4].to_owned(),
        ["/shop/item", "/api/v1/orders", "/login"][at as usize % 3].to_owned(),
        if at % 5 < 3 { "-".to_owned() } else { format!("id={}&user=u{}", at % 1_000, at % 7) },
        if at.is_multiple_of(3) { "-".to_owned() } else { format!("CORP\\user{}", at % 50) },
        format!("10.0.{}.{}", at % 40, at % 250),
        [200, 200, 200, 404, 500][at as usize % 5].to_string(),
        (at % 100).to_string(),
    ];
    let fields = names.into_iter().zip(cells.clone()).filter(|(_, cell)| cell != "-").collect();
    (cells.join(" "), fields)
}

/// Text and fields of an event with quoted, empty and missing cells, and with pairs in a cell.
fn csv(row: u64) -> (String, Vec<(&'static str, String)>) {
    let at = mixed(row);
    let message = match at % 4 {
        0 => String::new(),
        1 => format!("said \"\"no\"\", twice {}", at % 9),
        2 => format!("user=pair{} code={}", at % 5, at % 3),
        _ => format!("plain {}", at % 200),
    };
    let user = if at.is_multiple_of(6) { String::new() } else { format!("u{}", at % 30) };
    let mut fields = vec![("id", row.to_string())];
    if !message.is_empty() {
        fields.push(("msg", message.replace("\"\"", "\"")));
    }
    if !user.is_empty() {
        fields.push(("user", user.clone()));
    }
    if at.is_multiple_of(10) {
        return (format!("{row},\"{message}\",{user}"), fields);
    }
    fields.push(("amount", format!("{}.{:02}", at % 90, at % 100)));
    (format!("{row},\"{message}\",{user},{}.{:02}", at % 90, at % 100), fields)
}

/// Text and fields of an event whose fields are not in its text.
fn hec(row: u64) -> (String, Vec<(&'static str, String)>) {
    let at = mixed(row);
    let mut fields = vec![("zone", ["north", "South", "east"][at as usize % 3].to_owned())];
    fields.push(("code", if at.is_multiple_of(2) { format!("{}", at % 4) } else { format!("{}.0", at % 4) }));
    if at.is_multiple_of(3) {
        fields.extend([("tag", "a".to_owned()), ("tag", format!("b{}", at % 4)), ("tag", "a".to_owned())]);
    } else {
        fields.push(("tag", format!("b{}", at % 4)));
    }
    if at % 300 == 7 {
        fields.push(("rare", format!("r{at}")));
    }
    if at % 4 == 1 {
        fields.push(("long", "x".repeat(200 + at as usize % 50)));
    }
    fields.push(("empty", String::new()));
    (format!("m {} status={} zone=text", at % 5, at % 3), fields)
}

/// Text and fields of an event whose fields are cells between tabs: an id, case variants, breakers, percent codes, other
/// alphabets, long values, empty cells, several values of a field, and sometimes a text without the fields.
fn cells(row: u64) -> (String, Vec<(&'static str, String)>) {
    let at = mixed(row);
    let names = ["id", "method", "path", "name", "agent", "code"];
    let cells = [
        // The letter keeps ids from being equal as numbers: `00e1` and `0e7` are both 0.
        format!("f{:011x}", at & 0xfff_ffff_ffff),
        ["GET", "get", "Post"][at as usize % 3].to_owned(),
        format!("/shop/item-{}/%2{}b?q=\"{}\"", at % 300, at % 10, at % 7),
        ["ΣΟΦΟΣ", "σοφος", "Größe", "İx", "Kelvin", "50%"][at as usize % 6].to_owned(),
        format!("Mozilla/5.0+({}) {}", at % 4, "y".repeat(if at.is_multiple_of(50) { 300 } else { 2 })),
        if at.is_multiple_of(4) { String::new() } else { (at % 600).to_string() },
    ];
    let mut fields: Vec<(&str, String)> =
        names.into_iter().zip(cells.clone()).filter(|(_, cell)| !cell.is_empty()).collect();
    if at.is_multiple_of(701) {
        fields.push(("code", "7000".to_owned()));
    }
    let text = if at % 503 == 1 { "other text".to_owned() } else { cells.join("\t") };
    (text, fields)
}

type Source = fn(u64) -> (String, Vec<(&'static str, String)>);
const SOURCES: [(&str, Source); 3] = [("iis", iis), ("csv", csv), ("hec", hec)];

fn append(store: &Store, sources: &[(&str, Source)], from: u64) {
    for (sourcetype, event) in sources {
        let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: "h".into(),
            source: (*sourcetype).into(),
            sourcetype: (*sourcetype).into(),
        });
        for row in from..from + EVENTS {
            let (text, fields) = event(row);
            batch.push(text.as_bytes(), START + row as i64 * SECOND, meta);
            let at = (row - from) as u32;
            batch.fields.extend(fields.into_iter().map(|(name, value)| (at, name, value)));
        }
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }
}

const SEARCHES: &[&str] = &[
    "| stats count",
    "| stats count by sc_status",
    "| stats count by cs_username",
    "| stats avg(time_taken) sum(time_taken) min(time_taken) by cs_method",
    "| stats dc(c_ip) by sc_status",
    "| stats count by slow",
    "| stats count by client | sort - count client | head 5",
    "| stats count by area",
    "| stats count by user",
    "| stats count sum(amount) by zone",
    "| stats count by code",
    "| stats count values(tag) by zone",
    "| stats count by tag",
    "| stats count(rare) values(rare)",
    "| stats count by status",
    "| stats count by empty",
    "| stats dc(long) max(id) by sourcetype",
    "| stats count by msg | sort msg | head 30",
    "| top 3 c_ip",
    "| timechart span=10m count by sc_status",
    "sc_status=500 | stats count by cs_method",
    "sc_status>=404 | stats count by sc_status",
    "sc_status!=200 | stats count by sc_status",
    "NOT sc_status=200 | stats count by sourcetype",
    "sc_status IN (404, 500) cs_method=GET | stats count",
    "cs_username=* | stats count",
    "cs_username=CORP* | stats count by sc_status",
    "c_ip=10.0.3.53 | stats count by sc_status",
    "c_ip=10.0.0.0/20 | stats count",
    "c_ip=10.0.7.* | stats count",
    "client=10.0.3.53 | stats count",
    "area=shop | stats count by sc_status",
    "slow=yes | stats count",
    "user=u7 | stats count by sourcetype",
    "user=pair2 | stats count by sourcetype",
    "msg=\"said \\\"no\\\", twice 4\" | stats count",
    "msg=plain* | stats count",
    "amount>50 | stats count avg(amount)",
    "zone=north | stats count",
    "zone=text | stats count",
    "zone::north | stats count",
    "zone::NORTH tag::b2 | stats count",
    "sc_status::404 | stats count",
    "NOT zone::north | stats count by sourcetype",
    "code=2 | stats count",
    "tag=a | stats count by zone",
    "tag=b1 | stats count",
    "rare=* | stats count",
    "status=1 | stats count by zone",
    "id=77 | table id msg user amount",
    "sourcetype=iis | sort - time_taken, c_ip, _time | head 10 | table time_taken c_ip cs_uri_stem",
    "sourcetype=iis | head 3",
    "sourcetype=hec | head 3",
    "sourcetype=csv user=u7 | head 3 | table *",
    "| fields c* | stats count(c_ip) count(cs_method) count(code)",
    "s*=500 | stats count",
    "| rex field=cs_uri_query \"id=(?<number>\\d+)\" | stats dc(number)",
    "| where time_taken > 95 | stats count by cs_method",
    "| dedup zone | table zone",
];

const TSTATS: &[&str] = &[
    "| tstats count where index=main by sc_status",
    "| tstats count where index=main sourcetype=iis c_ip=10.0.3.53",
    "| tstats avg(time_taken) max(time_taken) where index=main by cs_method",
    "| tstats count where index=main by zone tag",
    "| tstats count dc(user) where index=main",
    "| tstats count where index=main area=shop",
];

const CELL_SEARCHES: &[&str] = &[
    "| stats count dc(id) by method",
    "| stats count by path | sort - count path | head 20",
    "| stats count by name",
    "| stats count by code",
    "| stats dc(agent) max(code)",
    "method::get | stats count",
    "method::GET code::17 | stats count values(id)",
    "method=post | stats count",
    "NOT method::post | stats count",
    "NOT code::17 | stats count",
    "code::17 | stats count values(id)",
    "code::7000 | stats count values(id)",
    "code::71* | stats count",
    "code=17 | stats count",
    "code>590 | stats count by code",
    "name::σοφος | stats count",
    "name::ΣΟΦΟΣ | stats count",
    "name::größe | stats count",
    "name::kelvin | stats count",
    "name::50% | stats count",
    "name=50% | stats count",
    "name::İx | stats count",
    "name::Kelvin method::get | stats count",
    "path::\"/shop/item-17/%27b?q=\\\"3\\\"\" | stats count",
    "path=\"/shop/item-17/*\" | stats count",
    "path::\"/shop/item-1*\" | stats count",
    "path=*item-17* | stats count",
    "TERM(item-17) | stats count",
    "item-17 | stats count",
    "\"item-17/%27b\" | stats count",
    "agent=\"mozilla/5.0+(1) yy\" | stats count",
    "agent::\"mozilla/5.0+(1) yy\" | stats count",
    "agent=*yyyyy | stats count",
    "other text | stats count dc(id)",
    "id::feedfacefeed | stats count",
    "id=f0* | stats count",
    "(code::17 OR code::18) method::get | stats count",
    "code IN (17, 18, 7000) | stats count by code",
    "| head 5 | table id method path name agent code",
    "| walklex index=main type=fieldvalue | stats sum(count) dc(term)",
    "| typeahead prefix=\"code=1\" index=main count=20 | stats count",
];

const CELL_TSTATS: &[&str] = &[
    "| tstats count where index=main by method",
    "| tstats count where index=main code=17",
    "| tstats count where index=main code::17 by method",
    "| tstats count dc(id) where index=main name=größe",
    "| tstats count where index=main code=7000 by code",
    "| tstats count where index=main TERM(item-17)",
];

/// An engine with these rules for fields.
fn engine_with(props: &str) -> Engine {
    let layer =
        ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".to_owned(), text: props.to_owned() };
    let props = Arc::new(PropsResolver::new(&Layers::new([layer])));
    Engine::new(&EngineOptions::default(), props, Arc::new(NoTables)).unwrap()
}

fn answers(store: &Arc<Store>) -> Vec<(String, Vec<String>)> {
    answers_to(store, SEARCHES.iter().copied(), TSTATS)
}

fn answers_to<'a>(
    store: &Arc<Store>,
    searches: impl Iterator<Item = &'a str>,
    tstats: &[&str],
) -> Vec<(String, Vec<String>)> {
    let engine = engine_with(PROPS);
    let searches = searches.map(|search| match search.starts_with('|') {
        true if search.starts_with("| walklex") || search.starts_with("| typeahead") => search.to_owned(),
        true => format!("search index=main {search}"),
        false => format!("search index=main ({}", search.replacen(" |", ") |", 1)),
    });
    let all = searches.chain(tstats.iter().map(|search| (*search).to_owned()));
    let source: Arc<dyn SnapshotSource> = Arc::clone(store) as _;
    all.map(|text| {
        let mut job = engine.start(request(&text), Arc::clone(&source)).unwrap();
        // The order of the columns of a result with all fields is not part of the answer.
        let sorted = |line: String| {
            let mut fields: Vec<&str> = line.split(" | ").collect();
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

/// Number of index-time fields with columns in each sealed slab with templates.
fn field_columns(store: &Store) -> Vec<usize> {
    let segments = store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).segments;
    segments.iter().filter_map(|segment| Some(segment.template_set().unwrap()?.fields.len())).collect()
}

#[test]
fn answers_do_not_depend_on_storage() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { slab_events: 2_000, ..StoreOptions::at(dir.path()) };
    let store = Store::open(options, ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    append(&store, &SOURCES, 0);
    append(&store, &SOURCES, EVENTS);
    let hot = answers(&store);
    let found = hot.iter().filter(|(_, lines)| !lines.is_empty()).count();
    assert!(found * 10 > hot.len() * 9, "most searches find something: {found} of {}", hot.len());
    store.seal_all().unwrap();
    assert!(field_columns(&store).iter().sum::<usize>() > 10, "{:?}", field_columns(&store));
    assert_equal(&answers(&store), &hot, "sealed");
    store.compact_all().unwrap();
    assert!(field_columns(&store).iter().sum::<usize>() > 10, "{:?}", field_columns(&store));
    assert_equal(&answers(&store), &hot, "compacted");
}

/// Covers fields that are cells of the texts, in an index of their own and in one with sourcetypes whose fields are not
/// in the texts.
#[test]
fn answers_about_cells_do_not_depend_on_storage() {
    for sources in [&[("cells", cells as Source)][..], &[("cells", cells as Source), ("hec", hec), ("iis", iis)]] {
        let dir = tempdir().unwrap();
        let options = StoreOptions { slab_events: 6_000, ..StoreOptions::at(dir.path()) };
        let store = Store::open(options, ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
        for batch in 0..6 {
            append(&store, sources, batch * EVENTS);
        }
        // Ids that occur, and ids that do not.
        let of_row = |row: u64| cells(row).1[0].1.clone();
        let ids = [0, 1, 4_095, 4_096, 8_999].map(of_row).into_iter().chain([of_row(99_999), "f00d".to_owned()]);
        let needles: Vec<String> = ids
            .flat_map(|id| {
                [format!("id::{id} | table id method"), format!("id={id} | table path"), format!("{id} | stats count")]
            })
            .collect();
        let ask =
            || answers_to(&store, CELL_SEARCHES.iter().copied().chain(needles.iter().map(String::as_str)), CELL_TSTATS);
        let hot = ask();
        let found = hot.iter().filter(|(_, lines)| !lines.is_empty()).count();
        assert!(found * 10 > hot.len() * 8, "most searches find something: {found} of {}", hot.len());
        store.seal_all().unwrap();
        assert!(field_columns(&store).iter().any(|columns| *columns >= 5), "{:?}", field_columns(&store));
        assert_equal(&ask(), &hot, "sealed");
        store.compact_all().unwrap();
        assert_equal(&ask(), &hot, "compacted");
    }
}

#[test]
fn parts_of_slabs_and_fields_by_row_are_read_like_whole_pages() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { slab_events: 2_000, ..StoreOptions::at(dir.path()) };
    let store = Store::open(options, ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    append(&store, &SOURCES, 0);
    store.seal_all().unwrap();
    let deletion = quarry_testworld::deletion_of_every(&store, "main", 3);
    store.delete(&deletion).unwrap();
    let sealed = answers(&store);
    for segment in store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).segments {
        for page in 0..segment.pages().len() {
            let all = segment.read_page(page, PageColumns::ALL).unwrap();
            let named = quarry_event::FieldNames::of(["zone", "tag"]);
            let some = segment.read_page(page, PageColumns { fields: named, ..PageColumns::NONE }).unwrap();
            let wanted = |fields: &IndexedFields| -> IndexedFields {
                let wanted = fields.iter().filter(|field| ["zone", "tag"].contains(&&**field.name));
                wanted.map(|field| (field.row, field.name, field.value)).collect()
            };
            assert_eq!(wanted(&some.fields), wanted(&all.fields));
        }
    }
    store.compact_all().unwrap();
    assert_equal(&answers(&store), &sealed, "compacted after a deletion");
}
