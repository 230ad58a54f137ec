//! `EXTRACT` rules extract the same from templates as from texts.

use quarry_event::TimeRange;

use super::{compare_with, engine_with};

/// Rules that produce new fields, that precede automatic extraction, that overlap, and that are in a different order in
/// another source.
const PROPS: &str = r#"
[kv]
EXTRACT-shard = on shard-(?<shard>\d+) after (?<percent>\d+)%
EXTRACT-level = level=(?<level>INF)
EXTRACT-number = status=(?<status>4\d)(?<rest>\d*)
EXTRACT-zebra = (?<word>\w+)zebra
EXTRACT-line = ^(?<day>\d{4}-\d\d-\d\d)T(?<clock>\S+?)Z? host(?<node>\d\d) (?<app>\w+)\[(?<pid>\d+)\]: level=(?<lvl>\w+) user_id=(?<uid>\d+) ip=(?<ip>\d+\.\d+\.\d+\.\d+) url=(?<url>\S+) status=(?<st>\d{3}) took=(?<took>\d+\.\d)(?: msg="(?<msg>[^"]*)")?$

[json]
EXTRACT-user = user.{3}(?<user>\w+)
EXTRACT-status = "status":(?<status>\d)(?<rest>\d*)

[cut]
EXTRACT-code = code-(?<code>\d+) (?<level>\w+)
EXTRACT-number = status=(?<status>4\d)(?<rest>\d*)
EXTRACT-level = level=(?<level>INF)
EXTRACT-first = ^(?<first>\d) (?<word>\d+)
EXTRACT-line = ^(?<one>\d) (?<two>\d+) user=(?<who>.+?) code-(?<c>\d{3}) (?<lvl>\w+):(?<num>\d+) made=(?<made>\d+)$

[esc]
KV_MODE = auto_escaped
EXTRACT-level = level=(?<level>INF)
EXTRACT-t = t=.(?<t>\w+)
EXTRACT-of = (?<part>\d)$ in s
"#;

const REPORTS: &[&str] = &[
    "stats count by shard",
    "stats count, dc(percent), sum(percent) by shard, level",
    "stats count by level",
    "stats count by level, sourcetype",
    "stats count by status, rest",
    "stats count by user",
    "stats count by word",
    "stats values(word), count(rest) by sourcetype",
    "stats count by code, level, first",
    "stats count by t, level",
    "stats count by part, s",
    "stats dc(word), values(user) by host",
    "eval x=upper(level), y=status+1 | stats count, sum(y) by x",
    "where match(word, \"^w1\") | stats count by shard",
    "rex \"accepted by (?<word>\\w\\d)\" | stats count by word, shard",
    "rex field=word \"(?<digit>\\d)\" | stats count by digit",
    "timechart span=5m count by level",
    "stats count, dc(ip), sum(took) by st, lvl",
    "stats dc(url), values(clock) by node",
    "sort 5 - took | table took url pid",
    "top who, c",
    "where ip>\"10.2\" | stats max(uid), avg(made) by app",
    "rex field=msg \"by (?<by>\\w+)\" | stats count by by, day",
    "top shard",
    "table _time level status shard code t user",
    "eval n=len(_raw) | stats sum(n) by word, shard",
    "fields level | head 20",
];

const CONDITIONS: &[&str] = &[
    "*",
    "level=INF",
    "level=INFO",
    "status=40",
    "status=404 every1",
    "NOT code=404",
    "word=w1*",
    "shard>3 level=*",
    "zebra",
];

#[test]
fn rules_extract_the_same_values() {
    let engine = engine_with(PROPS);
    let searches = CONDITIONS.iter().flat_map(|condition| {
        REPORTS.iter().map(move |report| (format!("search {condition} | {report}"), TimeRange::ALL))
    });
    compare_with(&engine, searches);
}

#[test]
fn rules_extract_the_same_values_from_page_ranges() {
    let engine = engine_with(PROPS);
    let range = TimeRange { earliest: Some(10_000_000_000), latest: Some(1_020_000_000_000) };
    compare_with(&engine, REPORTS.iter().map(|report| (format!("search * | {report}"), range)));
}
