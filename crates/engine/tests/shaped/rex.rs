//! `rex` that the scan runs on templates gives what it gives on texts.

use quarry_event::TimeRange;

use super::compare;

const PATTERNS: &[&str] = &[
    r#"rex "on shard-(?<shard>\d+) " | stats count by shard"#,
    r#"rex "on shard-(?<shard>\d+)" | stats count by shard, host"#,
    r#"rex "(?i)ON SHARD-(?<shard>\d) after (?<percent>\d+%)" | stats count, dc(percent) by shard"#,
    r#"rex "after (?<percent>\d+)%" | stats sum(percent), avg(percent), max(percent)"#,
    r#"rex "took=(?<t>[\d.]+)" | stats sum(t), min(t), max(t) by host"#,
    r#"rex "status=(?<status>4\d\d)" | stats count by status"#,
    r#"rex "level=(?<level>INF)O" | stats count by level"#,
    r#"rex "(?<level>INFO|WARN)[^a-z]" | stats count by level, sourcetype"#,
    r#"rex "status\W+(?<code>\d)(?<rest>\d*)(?<dot>\.\d)?" | stats count by code, rest, dot"#,
    r#"rex "status\W+(?<code>\d)(?<rest>\d*)(?<dot>\.\d)?" | stats count, count(dot) by code"#,
    r#"rex "user=(?<user>\w+)" | stats values(user) by host"#,
    r#"rex "user=(?<user>[^ ]+) " | stats values(user) by host"#,
    r#"rex "ip=(?<net>\d+\.\d+)\.(?<device>\d+\.\d+) " | stats count by net, device"#,
    r#"rex "(?<ip>\d+\.\d+\.\d+\.\d+)" | stats count by ip"#,
    r#"rex "^(?<first>\S+) " | stats count by first"#,
    r#"rex "^(?<first>\w+)=(?<second>[^ ]*)" | stats count by first, second"#,
    r#"rex "(?<last>\w+)\W*$" | stats count by last"#,
    r#"rex "\b(?<word>[a-z]{5})\b" | stats count by word"#,
    r#"rex "(?<word>\w+)" | stats count by word"#,
    r#"rex "(?<v>\d+)(?=%)" | stats count by v"#,
    r#"rex "(?<v>\d*)" | stats count by v"#,
    r#"rex "(?<q>\"[^\"]*\")" | stats count by q"#,
    r#"rex "msg=.(?<msg>.*)." | stats count by msg"#,
    r#"rex "zebra (?<msg>.*)" | stats dc(msg), values(msg) by status"#,
    r#"rex "zo(?<letter>.)" | stats count by letter"#,
    r#"rex field=_raw "w(?<w>\d+)zebra" | stats dc(w), sum(w)"#,
    r#"rex "shard-(?<a>\d)" | rex "level=(?<b>\w)" | stats count by a, b"#,
    r#"rex "shard-(?<a>\d)" | rex "level=(?<a>\w)" | stats count by a"#,
    r#"rex "shard-(?<a>\d)" | rex field=a "(?<b>[0-4])" | stats count by a, b"#,
    r#"rex "shard-(?<a>\d)" | where a>4 | stats count by a, level"#,
    r#"rex "shard-(?<a>\d)" | eval b=a*2 | stats sum(b) by level"#,
    r#"rex "shard-(?<a>\d)" | rename a as level | stats count by level"#,
    r#"rex "shard-(?<a>\d)" | timechart span=1m count by a"#,
    r#"rex "shard-(?<a>\d)" | top a"#,
    r#"rex "shard-(?<a>\d)" | stats count"#,
    r#"rex "shard-(?<a>\d)" | stats count by b"#,
    r#"rex "shard-(?<a>\d)" | stats count(eval(a>2)), dc(_raw)"#,
    r#"rex "shard-(?<a>\d)" | table _time a level"#,
    r#"rex "shard-(?<a>\d)" | head 7 | stats count by a"#,
    r#"rex max_match=2 "(?<a>\d)" | stats count by a"#,
    r#"rex offset_field=place "(?<a>\d)" | stats count by a, place"#,
    r#"rex "(?<host>host\d+)" | stats count by host"#,
    r#"rex "(?<_time>\d+)" | stats count by _time"#,
    r#"rex "(?<status>never there)" | stats count by status"#,
    r#"rex "code-(?<code>\d)" | stats count by code, level"#,
    r#"rex "nothing (?<new>x)" | stats count, count(new)"#,
];

#[test]
fn groups_are_the_same() {
    let conditions = ["*", "NOT level=INFO"];
    let searches = PATTERNS.iter().flat_map(|pattern| {
        conditions.iter().map(move |condition| (format!("search {condition} | {pattern}"), TimeRange::ALL))
    });
    compare(searches);
}

#[test]
fn groups_in_parts_of_pages_are_the_same() {
    let range = TimeRange { earliest: Some(10_000_000_000), latest: Some(1_020_000_000_000) };
    compare(PATTERNS.iter().map(|pattern| (format!("search * | {pattern}"), range)));
}
