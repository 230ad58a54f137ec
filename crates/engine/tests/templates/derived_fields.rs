//! Aliases, calculated fields and automatic lookups have the same results on columns as on texts.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::{compare_in, compare_with, engine_of};

/// Rules that depend on one another, on fields that events lack or have several times, and on fields that patterns
/// create.
const PROPS: &str = r##"
[kv]
EXTRACT-shard = on shard-(?<shard>\d+) after (?<percent>\d+)%
EXTRACT-word = (?<word>\w+)zebra
FIELDALIAS-plain = status AS code, user AS who, missing AS lost
FIELDALIAS-over = level AS quoted
FIELDALIAS-new = level ASNEW x, ip ASNEW address, status ASNEW level
FIELDALIAS-twice = user_id AS number, number AS of_alias
FIELDALIAS-found = shard AS piece, word ASNEW piece
FIELDALIAS-meta = host AS machine
EVAL-grade = case(status>=500, "bad", status>=400, "poor", isnotnull(status), "good")
EVAL-took = tostring(took * 2)
EVAL-named = coalesce(who, user, "nobody")
EVAL-pair = level . "-" . status
EVAL-parts = split(ip, ".")
EVAL-when = strftime(_time, "%M")
EVAL-site = host . "/" . sourcetype
EVAL-gone = null()
EVAL-status2 = if(isnull(status), 0, status + 1)
EVAL-third = tonumber(shard) + 1
LOOKUP-urgency = urgencies level OUTPUT urgency owner
LOOKUP-new = urgencies level AS pair OUTPUTNEW urgency AS grade

[json]
KV_MODE = json
FIELDALIAS-plain = status AS code, tags{} AS label, a.b AS deep
FIELDALIAS-missing = user AS who
EVAL-named = upper(user)
EVAL-many = mvcount('tags{}')
EVAL-status = status . "!"
LOOKUP-urgency = urgencies level AS status OUTPUT urgency

[cut]
EXTRACT-code = code-(?<code>\d+) (?<level>\w+)
FIELDALIAS-code = code AS status, made AS number
EVAL-grade = if(level="ERROR", "bad", "good")
LOOKUP-both = urgencies level urgency AS nothing OUTPUTNEW owner

[esc]
KV_MODE = auto_escaped
FIELDALIAS-s = s AS status, k ASNEW t
EVAL-named = replace(k, "\d", "#")
EVAL-s = s . ""
LOOKUP-urgency = urgencies level OUTPUT owner, urgency
"##;

const REPORTS: &[&str] = &[
    "stats count by code",
    "stats count by code, level",
    "stats count by who, lost, quoted",
    "stats count by x, address",
    "stats count, sum(number), dc(of_alias) by level",
    "stats count by piece, machine",
    "stats count, sum(took) by grade",
    "stats count by named",
    "stats count by pair, parts",
    "stats count by when, site, gone",
    "stats count, avg(status2), sum(third) by host",
    "stats count by urgency",
    "stats count by owner, urgency, level",
    "stats values(owner), values(label), values(deep), sum(many) by sourcetype",
    "stats count by status",
    "stats count by s, t, k",
    "top owner",
    "chart count over grade by level",
    "timechart span=5m count by named",
    "eval x=upper(grade), y=code+1 | stats count, sum(y) by x",
    "where match(named, \"^[a-c]\") | stats count by code",
    "rex field=named \"(?<initial>\\w)\" | stats count by initial",
    "rex \"accepted by (?<word>\\w\\d)\" | stats count by word, piece",
    "rex \"user_id=(?<grade>\\d)\" | stats count by grade, code",
    "sort 7 - took | table took code",
    "sort 5 code, -number | table code number",
    "table _time level code who grade took owner urgency named parts status t",
    "table *",
    "fields code grade owner | head 20",
    "head 10",
    "stats count",
];

const CONDITIONS: &[&str] = &[
    "*",
    "code=404",
    "code=404.0",
    "code!=404",
    "NOT code=404",
    "NOT code!=404",
    "code=*",
    "NOT code=*",
    "code>300 code<=404",
    "code IN (200, 500)",
    "code IN (4*, 5*)",
    "who=ALICE",
    "who=\"dave*\"",
    "lost=*",
    "NOT lost=1",
    "quoted=INFO",
    "x=info",
    "address=10.1.0.0/16",
    "number>50000",
    "of_alias=*",
    "piece=3",
    "NOT piece=3",
    "piece!=w1*",
    "piece>3",
    "machine=web1",
    "grade=bad",
    "grade=BAD",
    "NOT grade=good",
    "grade!=good",
    "grade=*o*",
    "took=17.6",
    "took>17",
    "NOT took>17",
    "named=nobody",
    "named=ALICE OR grade=poor",
    "pair=INFO-200",
    "parts=10",
    "NOT parts=10",
    "parts!=10",
    "parts=3 every1",
    "when=16",
    "site=web*kv",
    "gone=*",
    "NOT gone=*",
    "status2=201",
    "status2=0",
    "third>4",
    "urgency=high",
    "urgency=hi*",
    "NOT urgency=high",
    "owner=ops",
    "owner=dev",
    "owner!=ops",
    "NOT owner=ops",
    "owner=*",
    "label=y13",
    "deep=13",
    "many=2",
    "status=\"200!\"",
    "status=200",
    "status=404",
    "NOT status=404",
    "status=*!",
    "s=404",
    "t=\"v*\"",
    "level=ERROR grade=bad",
    "level=INFO OR owner=dev",
    "every3 grade=good NOT owner=*",
    "zebra code=500",
    "host=web1 NOT (grade=bad OR code=302)",
    "sourcetype=kv owner=ops number>300",
    "word=w1* piece=*",
    "word=w1*",
    "NOT word=w1*",
    "word!=w11 shard>3",
    "shard=3",
    "percent<10 OR shard=5",
    "gr*=bad",
    "grade::bad",
    "CASE(INFO) grade=good",
];

fn searches(conditions: &[&str], range: TimeRange) -> Vec<(String, TimeRange)> {
    let all = conditions.iter().flat_map(|condition| REPORTS.iter().map(move |report| (condition, report)));
    all.map(|(condition, report)| (format!("search {condition} | {report}"), range)).collect()
}

#[test]
fn conditions_select_the_same_events() {
    let shown = [
        "table _time _raw",
        "table _raw code grade owner word",
        "stats count by host",
        "stats count by code, grade, owner",
        "stats count by word",
    ];
    let all = CONDITIONS.iter().flat_map(|condition| shown.iter().map(move |shown| (condition, shown)));
    let searches = all.map(|(condition, shown)| (format!("search {condition} | {shown}"), TimeRange::ALL));
    compare_with(&engine_of(PROPS, ""), searches);
}

#[test]
fn reports_give_the_same_rows() {
    let conditions = ["*", "every1", "code=404", "NOT grade=bad", "owner=ops", "host=web1 word=*"];
    compare_with(&engine_of(PROPS, ""), searches(&conditions, TimeRange::ALL).into_iter());
}

#[test]
fn page_ranges_give_the_same_rows() {
    let range = TimeRange { earliest: Some(10_000_000_000), latest: Some(1_020_000_000_000) };
    compare_with(&engine_of(PROPS, ""), searches(&["*", "NOT code=404", "grade=good"], range).into_iter());
}

/// One source with one set of extraction rules, as in most indexes: plain aliases need no evaluation
/// per row.
fn one_source() -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let metas: Vec<u32> = (0..3)
        .map(|host| {
            batch.intern(&Metadata {
                index: "main".into(),
                host: format!("web{host}").into(),
                source: "/var/log/app.log".into(),
                sourcetype: "app".into(),
            })
        })
        .collect();
    for at in 0..400u32 {
        let (level, code) = (["INFO", "WARN", "ERROR"][at as usize % 3], [200, 404, 500, 7][at as usize / 3 % 4]);
        let text = match at % 40 {
            // The key occurs inside a value, or twice.
            38 => format!("id={at} level={level} code={code} note=\"code={at} level=X\""),
            39 => format!("id={at} code={code} code={at} code2=0{code}"),
            _ if at % 5 == 0 => format!("id={at} level={level} note=\"none of it\""),
            _ => format!("id={at} level={level} code={code} size={}.50 code2=0{code} note=\"size {at}\"", at % 17),
        };
        batch.push(text.as_bytes(), i64::from(at) * 1_000_000_000, metas[at as usize % 3]);
        if at % 97 == 11 {
            batch.fields.push(at, "code", "given");
        }
        if at % 97 == 12 {
            batch.fields.push(at, "EventCode", "200");
        }
    }
    store.append(batch).unwrap();
    store
}

const ONE_SOURCE: &str = r#"
[app]
EXTRACT-digits = size (?<digits>\d+)"
FIELDALIAS-a = code AS EventCode, size ASNEW bytes, note ASNEW level, digits AS found
FIELDALIAS-b = code2 AS padded
EVAL-class = case(EventCode="404", "missing", EventCode>=500, "failed")
EVAL-name = level . ":" . class
EVAL-arrival = _indextime - _time
LOOKUP-level = urgencies level OUTPUTNEW urgency, owner AS class
"#;

const OF_ONE_SOURCE: &[&str] = &[
    "stats count",
    "stats count by EventCode",
    "stats count by EventCode, level, host",
    "stats count, sum(bytes), max(size) by EventCode",
    "stats count by padded",
    "stats count by found, digits",
    "stats count by class, name",
    "stats count by urgency, level",
    "stats count by arrival",
    "timechart span=1m count by EventCode",
    "sort 5 - EventCode | table EventCode code id",
    "sort 5 bytes | table bytes id",
    "table id EventCode bytes class name urgency arrival",
    "dedup EventCode | table EventCode",
    "head 3",
];

#[test]
fn aliases_of_one_source_give_the_same_values() {
    let conditions = [
        "*",
        "EventCode=404",
        "EventCode=given",
        "EventCode=200.0",
        "EventCode=007",
        "EventCode!=404",
        "NOT EventCode=404",
        "NOT EventCode=*",
        "EventCode>300",
        "EventCode IN (7, 500) host=web1",
        "padded=7",
        "padded=007",
        "bytes=3.5",
        "bytes=3.50",
        "found=1*",
        "NOT found=*",
        "class=missing",
        "NOT class=ops",
        "class=ops",
        "name=\"*:failed\" OR urgency=low",
        "arrival<0",
        "digits>300",
        "digits!=301 level=ERROR",
        "code=404 digits=*",
    ];
    let all = conditions.iter().flat_map(|condition| OF_ONE_SOURCE.iter().map(move |asked| (condition, asked)));
    let searches = all.map(|(condition, asked)| (format!("search {condition} | {asked}"), TimeRange::ALL));
    compare_in(&one_source(), &engine_of(ONE_SOURCE, ""), searches);
}

/// Two sources with the same fields, of which only one has the rule.
fn two_sources() -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let metas = ["app", "other"].map(|sourcetype| {
        batch.intern(&Metadata {
            index: "main".into(),
            host: "web1".into(),
            source: "/var/log/app.log".into(),
            sourcetype: sourcetype.into(),
        })
    });
    for at in 0..200u32 {
        let user = ["alice", "bob", "carol"][at as usize % 3];
        let text =
            if at % 7 == 0 { format!("id={at} path=/p{at}") } else { format!("id={at} user={user} path=/p{at}") };
        batch.push(text.as_bytes(), i64::from(at) * 1_000_000_000, metas[at as usize % 2]);
    }
    store.append(batch).unwrap();
    store
}

#[test]
fn a_rule_for_values_of_a_field_applies_to_its_sourcetype() {
    let searches = ["stats count by first, sourcetype", "stats dc(first) by sourcetype", "table _time first"];
    let rules = [
        "[app]\nEXTRACT-first = ^(?<first>..) in user\n",
        "[app]\nEXTRACT-first = ^(?<first>..) in user\n[other]\nEXTRACT-first = ^(?<first>...) in path\n",
        "[app]\nEXTRACT-first = ^(?<first>..) in user\n[other]\nEXTRACT-first = ^(?<first>..) in missing\n",
    ];
    for rules in rules {
        let searches = searches.map(|search| (format!("search * | {search}"), TimeRange::ALL));
        compare_in(&two_sources(), &engine_of(rules, ""), searches.into_iter());
    }
}
