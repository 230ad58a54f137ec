//! `rex` has the same results whether the scan runs it on templates or on texts.

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
    r#"rex "status=(?<s>\d+) took=\d+\.(?<t>\d) msg=.connection" | stats count by s, t"#,
    r#"rex "user_id=(?<u>\d+) ip=(?<i>\S+) url=/api/v2/items/\d+.page=\d*5" | stats count by i | sort i"#,
    r#"rex "nginx\[(?<p>\d+)\]: level=(?<l>\w+) .* every3" | stats count by l"#,
    r#"rex field=msg "shard-(?<s>\d)" | stats count by s"#,
    r#"rex field=msg "connection (?<n>\d+)" | rex field=msg "w(?<w>\d+)zebra" | stats sum(n) max(w) by level"#,
    r#"rex field=url "items/(?<item>\d+)" | rex field=url "page=(?<page>\d+)$" | stats sum(item) count by page"#,
    r#"rex field=ip "^(?<net>\d+\.\d+)" | stats count by net"#,
    r#"rex field=status "^(?<class>\d)" | stats count by class, level"#,
    r#"rex field=status "(?<status>\d)\d+$" | stats count by status"#,
    r#"rex field=level "(?<first>.)(?<rest>.*)" | stats count by first rest"#,
    r#"rex field=user "(?<u>[^a-c]+)" | stats count by u, user"#,
    r#"rex field=note "\"(?<quoted>[^\"]*)\" (?<w>word)" | stats count by quoted w"#,
    r#"rex field=v "(?<n>\d+)" | stats count by n"#,
    r#"rex field=tags{} "(?<t>y\d)" | stats count by t"#,
    r#"rex field=missing "(?<m>.)" | stats count, count(m)"#,
    r#"rex field=code "(?<c>\d)\d*" | rex "code-(?<d>\d)" | stats count by c d"#,
    r#"rex field=took "(?<whole>\d*)\.(?<part>\d*)" | stats sum(whole) by part"#,
    r#"rex field=num "(?<x>(?=\d)\d+)" | stats sum(x)"#,
    r#"rex field=host "(?<h>\d)" | rex field=msg "(?<m>every\d)" | stats count by h m"#,
    r#"rex "shard-(?<a>\d)" | rex field=msg "(?<b>every\d)" | rex field=b "(?<c>\d)" | stats count by a b c"#,
    r#"rex field=msg "(?<m>every\d)" | where isnotnull(m) | table _time m level"#,
    r#"rex field=msg "(?<m>every\d)" | stats count by m msg"#,
    r#"rex field=a.b "(?<b>\d)" | sort 5 - b | table b"#,
    r#"rex field=msg "(?<url>every\d)" | stats count by url"#,
    // The commands after the first patterns drop rows, which the scan may omit before it evaluates the other
    // patterns.
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | search a=3 | stats count by m"#,
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | search a=3 OR a=4 | search a!=4 | stats count by m level"#,
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | search NOT a=3 | stats count by m"#,
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | search level=INFO a<4 | stats count by m, a"#,
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | stats count by a, m"#,
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | stats count by m, a, nothing"#,
    r#"rex "code-(?<code>\d)" | rex "msg=.(?<m>.*)." | search code=5 | stats count by m"#,
    r#"rex "code-(?<code>\d)" | rex "msg=.(?<m>.*)." | search code=* NOT nothing=* | stats count by m"#,
    r#"rex "never (?<status>there)" | rex "msg=.(?<m>.*)." | search status=200 | stats count by m"#,
    r#"rex "user=(?<u>\w+)" | rex "msg=.(?<m>.*)." | search u=alice | table _time u m"#,
    r#"rex "user=(?<u>[a-z]{3})" | rex "msg=.(?<m>.*)." | search u IN (ali, BOB) | table _time u m"#,
    r#"rex "(?<t>took)=(?<v>[\d.]+)" | rex "msg=.(?<m>.*)." | search v=12 | table _time v m"#,
    r#"rex "msg=.(?<m>.*)." | rex "w(?<w>\d+)zebra" | search w=77 | table _time w m"#,
    r#"rex "msg=.(?<first>\w+)" | search first=connection | table _time first"#,
    r#"rex "msg=.(?<m>.*)." | search user=alice level=i* | stats count by m"#,
    r#"search user=alice | table _time user level"#,
    r#"search status=404 NOT level=INFO | stats count by user"#,
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | search a=3 sourcetype=* "shard" | stats count by m"#,
    r#"rex "(?<eventtype>level)" | rex "msg=.(?<m>.*)." | search eventtype=level | stats count by m"#,
    r#"rex "shard-(?<a>\d)" | rex "msg=.(?<m>.*)." | search date_hour=* a=3 | stats count by m"#,
    r#"eval msg=level | rex field=msg "(?<m>[A-Z])" | stats count by m"#,
    // Values that few rows have, found by the words of their texts: whole tokens, beginnings and ends of tokens, words
    // between minor breakers, other case, values of rules where the pattern finds nothing, and escapes.
    r#"rex "by (?<w>w\d+)zebra" | rex "msg=.(?<m>.*)." | search w=W5 | table _time w m"#,
    r#"rex "by w(?<w>\d+z\w+) on" | rex "msg=.(?<m>.*)." | search w=5zebra | table _time w m"#,
    r#"rex "by (?<w>\w+) on" | rex "msg=.(?<m>.*)." | search w=w5Zebra | table _time w m"#,
    r#"rex "by (?<w>\w+) on" | rex "msg=.(?<m>.*)." | search NOT w=w5zebra | stats count by w m"#,
    r#"rex "by (?<w>\w+) on" | rex "msg=.(?<m>.*)." | search w=w5zebra OR w=w7zebra level=WARN | table _time w m"#,
    r#"rex "by (?<w>\w+) on" | rex "msg=.(?<m>.*)." | search w=w5zebra OR NOT w=* | stats count by m"#,
    r#"rex "by (?<w>\w+) on" | rex "msg=.(?<m>.*)." | search w IN (w5zebra, w51zebra, zebra) | table _time w m"#,
    r#"rex "by (?<w>\w+) on" | rex "msg=.(?<m>.*)." | search w=w5zebra level=ERROR | table _time w m"#,
    r#"rex "zebra on (?<s>shard-\d) " | rex "msg=.(?<m>.*)." | search s=Shard-3 | table _time s m"#,
    r#"rex "zebra on sha(?<s>rd-\d) " | rex "msg=.(?<m>.*)." | search s=rd-3 | table _time s m"#,
    r#"rex "(?<p>shard-\d after \d+)%" | rex "msg=.(?<m>.*)." | search p="shard-3 after 3" | table _time p m"#,
    r#"rex "level (?<level>never)" | rex "code-(?<c>\d+)" | search level=warn | table _time level c"#,
    r#"rex "level (?<user>never)" | rex "code-(?<c>\d+)" | search user=zoë | table _time user c"#,
    r#"rex "level (?<v>never)" | rex "code-(?<c>\d+)" | search v=ä5 | table _time v c"#,
    r#"rex "level (?<d>never)" | rex "code-(?<c>\d+)" | search d="dave eve" | table _time d c"#,
    r#"rex "level (?<zone>never)" | rex "code-(?<c>\d+)" | search zone=north | table _time zone c"#,
];

#[test]
fn groups_have_the_same_values() {
    let conditions = ["*", "NOT level=INFO"];
    let searches = PATTERNS.iter().flat_map(|pattern| {
        conditions.iter().map(move |condition| (format!("search {condition} | {pattern}"), TimeRange::ALL))
    });
    compare(searches);
}

#[test]
fn groups_in_page_ranges_have_the_same_values() {
    let range = TimeRange { earliest: Some(10_000_000_000), latest: Some(1_020_000_000_000) };
    compare(PATTERNS.iter().map(|pattern| (format!("search * | {pattern}"), range)));
}
