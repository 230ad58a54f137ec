//! Transforms (`REPORT-`) asked of templates cut what they cut out of texts.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::{compare_in, compare_with, engine_of};

/// Cells that `EXTRACT` and automatic fields also make, that alias, calculated field and lookup read, in several orders.
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
[added]
DELIMS = ","
FIELDS = gap, number
MV_ADD = true
"#;

/// Rows with delimiters, quotes and escapes inside of values, with too few and too many cells, empty ones, blanks and
/// quotes that nothing closes.
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
    store.append(batch).unwrap();
    store
}

const ASKED: &[&str] = &[
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
fn cells_of_rows_are_the_same() {
    let engine = engine_of(PROPS, TRANSFORMS);
    compare_in(&rows(), &engine, searches(ROW_CONDITIONS, ASKED));
}

#[test]
fn cells_of_other_texts_are_the_same() {
    let engine = engine_of(PROPS, TRANSFORMS);
    compare_with(&engine, searches(WORD_CONDITIONS, WORDS));
}
