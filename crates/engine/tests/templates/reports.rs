//! Transforms (`REPORT-`) extract the same from templates as from texts.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::{compare_in, compare_with, engine_of};

/// Cells whose names are also produced by `EXTRACT` and automatic extraction, or read by aliases, calculated fields and
/// lookups; in several orders.
const PROPS: &str = r#"
[kv]
EXTRACT-level = level=(?<level>INF)
REPORT-cells = words
FIELDALIAS-third = third AS nick

[json]
REPORT-cells = commas, words

[cut]
REPORT-cells = colons, words
EVAL-twice = number . number
LOOKUP-urgency = urgencies level OUTPUT urgency

[esc]
KV_MODE = auto_escaped
REPORT-cells = keeping

[rows]
KV_MODE = none
REPORT-rows = rows

[keeping]
REPORT-rows = keeping_rows

[data]
REPORT-data = data, verb, address, twice
EXTRACT-half = ^(?<half>\d+)\. in where
EXTRACT-initial = ^(?<initial>\w) in user

[both]
REPORT-rows = commas, rows, added
"#;

const TRANSFORMS: &str = r#"
[words]
DELIMS = " ="
FIELDS = first, level, third, user, status, third, m-n
[commas]
DELIMS = ","
FIELDS = first, name, status
[colons]
DELIMS = " :"
FIELDS = first, second, user, who, code, level, number
[keeping]
DELIMS = " "
FIELDS = k, second, s, t
KEEP_EMPTY_VALS = true
[rows]
DELIMS = ","
FIELDS = stamp, name, "x-y", text, number, gap, tail, tail
[keeping_rows]
DELIMS = ",;"
FIELDS = stamp, name, x-y, text, number, gap, tail, tail
CLEAN_KEYS = false
KEEP_EMPTY_VALS = true
[data]
REGEX = <D N=['"]([^'"]+)['"]>([^<]*)</D>
FORMAT = $1::$2
[verb]
REGEX = (Built|Torn) (?:\w+ )?(\d+) for (\w+):([\d.]*)
FORMAT = verb::$1 number::$2 zone::"to $3" where::$4 no-zone::$3-$2 code::x
[address]
REGEX = (?<where>\d+\.\d+)\b
[twice]
REGEX = (?<name>[a-z]+)=(?<number>\d+)
KEEP_EMPTY_VALS = true
[added]
DELIMS = ","
FIELDS = gap, number
MV_ADD = true
"#;

/// Rows with delimiters, quotes and escapes inside values, with too few or too many cells, empty cells, blanks and
/// unclosed quotes.
fn rows() -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let metas = ["rows", "keeping", "both"].map(|sourcetype| {
        batch.intern(&Metadata {
            index: "main".into(),
            host: "db1".into(),
            source: "/var/log/rows.csv".into(),
            sourcetype: sourcetype.into(),
        })
    });
    for at in 0..216i64 {
        let (user, level) =
            (["ann", "bob", "zoë"][(at % 3) as usize], ["LOG", "ERROR", "PANIC"][(at / 3 % 3) as usize]);
        let text = match at / 3 % 18 {
            0 => format!("t{at},\"{user}\",{level},\"took {at} ms\",{at},,end"),
            1 => format!("t{at},\"{user}\",{level},\"a, b; {at}\",{at},,end"),
            2 => format!("t{at},\"{user}\",{level},\"said \"\"hi, {at}\"\" to {user}\",{at},,end"),
            3 => format!("t{at},\"{user}\",{level},\"a \\\" b, {at}\",{at},x\\,y,end"),
            4 => format!("t{at},\"{user}\",{level}"),
            5 => format!("t{at},{user},{level},,{at},,,last{at},more,\"{user}\""),
            6 => format!("t{at},\"\",,\" \",{at}, , end {at} "),
            7 => format!("t{at}, \"{user}\" ,{level},\" {at} \",{at}.5,\"\",\"\""),
            8 => format!("t{at},\"{user},{level},never closed,{at},,end"),
            9 => format!("t{at},{user}\",{level}\",{at}"),
            10 => format!("t{at},\\{user},{level}\\,{at},\\\\,{at}\\"),
            11 => format!("{at}"),
            12 => String::new(),
            13 => ",".repeat(at as usize % 11),
            14 => format!("t{at},\"{user}\"x,x\"{user}\",\"\"\"{at}\"\"\",{at},\",\",\"end\""),
            15 => format!("t{at},\"{user}\",{level},\"line {at}\n  and, another\",{at},,end\n"),
            16 => format!(
                "t{at},{},{level},{}5,{at},-{at},0{at}",
                "\"".repeat(at as usize % 5),
                " ".repeat(at as usize % 4)
            ),
            _ => format!("t{at},name={user},number={at},text=\"x,{at}\",{at}"),
        };
        batch.push(text.as_bytes(), at * 1_000_000_000, metas[(at % 3) as usize]);
    }
    let data = batch.intern(&Metadata {
        index: "main".into(),
        host: "win1".into(),
        source: "security".into(),
        sourcetype: "data".into(),
    });
    for at in 0..120i64 {
        let (user, code) = (["ann", "bob", "zoë"][(at % 3) as usize], ["4624", "4625"][(at / 3 % 2) as usize]);
        let text = match at % 10 {
            0 => {
                format!("<E><C>{code}</C><D N='user'>{user}</D><D N=\"host-name\">h{at}</D><D N='code'>{code}</D></E>")
            }
            1 => format!("<E><D N='user'></D><D N='user'>{user} {at}</D><D N='code'>{at}</D></E>"),
            2 => format!("<E><D N='{user}'>{at}</D><D N='n{at}'>{user}</D><D N='user'>x{at}</D></E>"),
            3 => format!("<E><D N='text'>a <b> {at}</D><D N='user'>{user}</D></E>"),
            4 => format!("<D N='a b'>{user}</D><D N='a_b'>{at}</D><D N='host'>{at}</D> left={at}"),
            5 => format!("Built tcp {at} for inside:10.{at}.0.1 name={at}"),
            6 => format!("Torn {at} for {user}:{at}.5 and outside:10.0.{at}.9 number=x"),
            7 => format!("Torn {at} for in{}:{}", at % 4, if at % 4 == 0 { String::new() } else { format!("1{at}") }),
            8 => format!("Built {user} for x:{at} where={at}.{at} name=7 name={at}"),
            _ => format!("{user} {at}"),
        };
        batch.push(text.as_bytes(), (300 + at) * 1_000_000_000, data);
    }
    store.append(batch).unwrap();
    store
}

const SEARCHES: &[&str] = &[
    "stats count by name",
    "stats count by name, sourcetype, x_y",
    "stats count by text",
    "stats count, sum(number), dc(tail) by stamp",
    "stats values(gap), values(tail), values(x-y) by sourcetype",
    "table name x_y x-y text number gap tail",
    "eval x=upper(name), y=number+1 | stats count, sum(y) by x",
    "where match(text, \"ms$\") | stats count by tail",
    "rex field=text \"(?<digit>\\d)\" | stats count by digit",
    "sort 7 - num(number) | table number",
    "top tail",
    "fields name tail",
    "stats count",
];

const DATA: &[&str] = &[
    "stats count by user",
    "stats count by user, code",
    "stats count by verb, number, zone",
    "stats count by where, no_zone",
    "stats values(name), values(number), values(text) by sourcetype",
    "stats count by host_name, a_b, n12, ann",
    "stats count by left, host",
    "stats count by half, initial",
    "stats sum(number), dc(where) by verb",
    "table user code host_name a_b left text verb number zone where no_zone name missing",
    "stats count by missing",
];

const DATA_CONDITIONS: &[&str] = &[
    "sourcetype=data",
    "sourcetype=data user=ann",
    "user=\"bob*\"",
    "sourcetype=data code=4624",
    "sourcetype=data NOT code=*",
    "number=15",
    "number>50 verb=Torn",
    "zone=\"to inside\"",
    "where=10*",
    "sourcetype=data missing=1",
    "sourcetype=data name=7",
    "half=10",
    "sourcetype=data NOT initial=a",
];

const ROW_CONDITIONS: &[&str] = &[
    "*",
    "name=ann",
    "name=\"ann*\" number>30",
    "NOT tail=end",
    "x_y=LOG OR x-y=LOG",
    "text=\"took 5*\"",
    "text=\"*hi, *\"",
    "gap=*",
    "NOT gap=*",
    "number=12",
    "number=12.0",
    "tail=\"\"",
    "ERROR",
    "na*=bob",
];

const WORDS: &[&str] = &[
    "stats count by level",
    "stats count by first, third",
    "stats count by status, sourcetype",
    "stats count by user, m_n",
    "stats values(third), values(status), values(k) by host",
    "stats count by nick, third",
    "stats count by twice, number",
    "stats count by urgency, level",
    "stats count by second, s, t",
    "table first level third user status nick name code number k second s t",
];

const WORD_CONDITIONS: &[&str] = &[
    "*",
    "level=INF",
    "level=INFO",
    "status=404",
    "third=*",
    "user=alice",
    "number>100",
    "NOT name=*",
    "twice=*",
    "nick=1*",
];

fn searches<'s>(conditions: &'s [&str], asked: &'s [&str]) -> impl Iterator<Item = (String, TimeRange)> + 's {
    let all = conditions.iter().flat_map(move |condition| asked.iter().map(move |asked| (condition, asked)));
    all.map(|(condition, asked)| (format!("search {condition} | {asked}"), TimeRange::ALL))
}

#[test]
fn cells_of_rows_have_the_same_values() {
    let engine = engine_of(PROPS, TRANSFORMS);
    compare_in(&rows(), &engine, searches(ROW_CONDITIONS, SEARCHES));
}

#[test]
fn pattern_matches_have_the_same_values() {
    let engine = engine_of(PROPS, TRANSFORMS);
    compare_in(&rows(), &engine, searches(DATA_CONDITIONS, DATA));
}

#[test]
fn cells_of_other_texts_have_the_same_values() {
    let engine = engine_of(PROPS, TRANSFORMS);
    compare_with(&engine, searches(WORD_CONDITIONS, WORDS));
}

/// Texts of many cells between tabs or pipes: empty cells, cells with blanks, quotes, equals signs and letters beyond
/// ASCII, rows with more or fewer cells.
const CELLS_PROPS: &str = r#"
[tabs]
KV_MODE = none
REPORT-cells = tab_cells
EXTRACT-first = ^(?<begin>\S+) [^\t]*\t(?<second>[^\t]*)\t
EXTRACT-site = ^(?<site>[^/?]+)(?:/(?<path>[^?]*))? in url

[bars]
KV_MODE = none
REPORT-pairs = bar_pairs
EXTRACT-rule = \|rule=(?<rule_id>[^|]+)\|

[auto]
"#;

const CELLS_TRANSFORMS: &str = r#"
[tab_cells]
DELIMS = "\t"
FIELDS = stamp, action, category, user, url, size, note, tail
[bar_pairs]
DELIMS = "|", "="
"#;

fn separated_rows() -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let metas = ["tabs", "bars", "auto"].map(|sourcetype| {
        batch.intern(&Metadata {
            index: "main".into(),
            host: "fw1".into(),
            source: "/var/log/cells.log".into(),
            sourcetype: sourcetype.into(),
        })
    });
    for at in 0..300i64 {
        let of = |values: &[&'static str], step: i64| values[(at / step) as usize % values.len()];
        let action = of(&["Allowed", "Blocked", ""], 3);
        let category = of(&["Miscellaneous or Unknown", "Web Search", "-", "Büro → DC"], 5);
        let user = of(&["ann", "björn k", "", "o'neil, pat", "a=b", "k=1 l=2", "\"quoted one\"", "{\"k\":1}"], 7);
        let url = of(&["x.org/?a=1&b=2", "y.org", "z.net/größe/ü.png", ""], 2);
        let note = of(&["", "two words", "5", "q=\"a b\""], 11);
        let more = if at % 13 == 0 { 3 } else { 0 };
        let cells = [action.to_owned(), category.to_owned(), user.to_owned(), url.to_owned(), at.to_string()];
        let text = match at % 3 {
            0 => format!("t{at} x\t{}\t{note}\tend {at}{}", cells.join("\t"), "\tmore".repeat(more)),
            1 => {
                let keys = ["action", "category", "user", "url", "rule"];
                let pairs: Vec<String> = keys.iter().zip(&cells).map(|(key, cell)| format!("{key}={cell}")).collect();
                format!("time=t{at}|{}|note={note}{}", pairs.join("|"), "|more=1".repeat(more))
            }
            _ => format!("t{at} user=u{at}\t{}\t{note}\tcode={at}\tlevel=WARN\tend", cells.join("\t")),
        };
        batch.push(text.as_bytes(), at * 1_000_000_000, metas[(at % 3) as usize]);
    }
    store.append(batch).unwrap();
    store
}

const CELLS: &[&str] = &[
    "stats count by action, category",
    "stats count by user",
    "stats count by url, note",
    "stats count, sum(size), dc(tail) by stamp",
    "stats count by site, path, begin, second",
    "stats sum(rule), values(rule_id), count(more) by action",
    "table stamp action category user url size note tail site path rule rule_id time code level k q",
    "rex \"\\t(?<third>[^\\t]*)\\tend\" | stats count by third",
    "stats count by code, level, k",
];

const CELL_CONDITIONS: &[&str] = &[
    "*",
    "action=Allowed",
    "category=\"Miscellaneous or Unknown\"",
    "\"Miscellaneous or Unknown\"",
    "\"Büro → DC\" NOT action=Blocked",
    "BÜRO",
    "user=\"björn k\"",
    "user=*",
    "NOT user=*",
    "note=\"\"",
    "size>100 OR rule<50",
    "site=z.net",
    "\"b=2\"",
    "category=\"Büro*\"",
    "sourcetype=auto code=77",
];

#[test]
fn cells_between_tabs_and_pipes_have_the_same_values() {
    let engine = engine_of(CELLS_PROPS, CELLS_TRANSFORMS);
    compare_in(&separated_rows(), &engine, searches(CELL_CONDITIONS, CELLS));
}

/// Transforms that read fields other than the event text. Fields that these transforms cannot produce are still read
/// from columns.
const SOURCES_PROPS: &str = r#"
[ext]
EXTRACT-head = ^V:(?<version>[\d.]+)\|(?<vendor>[^|]*)\|(?<event>[^|]*)\|(?<ext>.*)$
REPORT-a = ext_pairs, ext_first, path
FIELDALIAS-who = user AS who
EVAL-risk = case(level>=5, "high", true(), "low")

[auto]
EXTRACT-ext = \[(?<ext>[^\]]*)\]
REPORT-a = ext_pairs

[added]
EXTRACT-head = ^V:(?<version>[\d.]+)\|(?<vendor>[^|]*)\|(?<event>[^|]*)\|(?<ext>.*)$
REPORT-a = ext_added
"#;

const SOURCES_TRANSFORMS: &str = r#"
[ext_pairs]
SOURCE_KEY = ext
DELIMS = "\t", "="
[ext_first]
SOURCE_KEY = ext
REGEX = ^(?<first>\w+)=(?<event>\w+)
[path]
SOURCE_KEY = MetaData:Source
REGEX = /(?<file>\w+)\.log$
[ext_added]
SOURCE_KEY = ext
DELIMS = "\t", "="
MV_ADD = true
"#;

fn extended_rows() -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let metas = ["ext", "auto", "added"].map(|sourcetype| {
        batch.intern(&Metadata {
            index: "main".into(),
            host: "edr1".into(),
            source: "/var/log/edr.log".into(),
            sourcetype: sourcetype.into(),
        })
    });
    for at in 0..240i64 {
        let (user, level) = (["ann", "bob", "zoë x", ""][(at % 4) as usize], at % 9);
        let pairs = match at / 4 % 6 {
            0 => format!("user={user}\tlevel={level}\tvendor=other"),
            1 => format!("level={level}\tuser=\"{user}\"\tevent=x{at}"),
            2 => format!("user={user}\tuser=second\tlevel={level}\tversion=9"),
            3 => format!("src=10.0.{at}.1\tnote= a=b \tlevel={level}"),
            4 => "none".to_owned(),
            _ => String::new(),
        };
        let text = match at % 10 {
            8 => format!("no head user={user} [{pairs}]"),
            9 => format!("V:1.0||start {at}|{pairs}"),
            _ => format!("V:2.{}|Acme|{}|{pairs}", at % 3, ["login", "scan", "log out"][(at % 3) as usize]),
        };
        let text = if at % 3 == 1 { format!("{at} user=outer level={level} [{pairs}] end") } else { text };
        batch.push(text.as_bytes(), at * 1_000_000_000, metas[(at % 3) as usize]);
    }
    store.append(batch).unwrap();
    store
}

#[test]
fn transforms_of_other_fields_affect_only_the_fields_that_they_may_produce() {
    let conditions =
        ["*", "sourcetype=ext", "event=login", "user=ann", "level=4", "NOT user=*", "file=edr", "version=2.1 risk=low"];
    let reports = [
        "stats count by event",
        "stats count by version, vendor",
        "stats count by user",
        "stats count by who, risk",
        "stats count by first, file",
        "stats sum(level), dc(src), values(note) by vendor",
        "table event version vendor user level first file src note ext who",
        "rex field=ext \"level=(?<l>\\d)\" | stats count by l, event",
        "stats count by missing",
    ];
    let searches = conditions.iter().flat_map(|condition| {
        reports.iter().map(move |report| (format!("search {condition} | {report}"), TimeRange::ALL))
    });
    compare_in(&extended_rows(), &engine_of(SOURCES_PROPS, SOURCES_TRANSFORMS), searches);
}
