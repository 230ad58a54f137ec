//! Groups that begin or end after the common prefix of a column's values (`0x(?<id>[0-9a-f]+)`).

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::{compare_in, engine_of};

const PROPS: &str = r"[proxy]
KV_MODE = none
EXTRACT-line = ^(?<took>\d+) (?<verb>[A-Z]+)/(?<status>\d+) (?<url>\S+) user-(?<user>\w*) (?:via (?<via>\w+) )?conn 0x(?<conn>[0-9a-f]+)$
EXTRACT-parts = conn (?<base>0x)(?<head>[0-9a-f]{2})(?<tail>\w*)
EXTRACT-half = us(?<half>er-\w+) .*conn (?<whole>0x\w+)
";

const SEARCHES: &[&str] = &[
    "* | stats dc(conn) dc(user) count(conn) count(user) by verb",
    "* | stats count as c by conn | stats count max(c)",
    "* | stats count by user half",
    "* | stats count values(base) dc(whole) by status",
    "* | stats dc(head) dc(tail) min(conn) max(conn)",
    "* | sort 7 - conn | table _time conn user whole",
    "* | top 5 user | table user count",
    "* | dedup user | stats count",
    "* | where conn>\"8\" | stats count by user",
    "* | rex field=conn \"^(?<first>.)\" | stats count by first",
    "* | rex \"conn 0x(?<rexed>\\w+)\" | stats dc(rexed) count(eval(rexed=conn)) as same",
    "* | timechart span=1m dc(conn) count(user)",
    "conn=00* | stats count by conn",
    "conn=*7 | stats count dc(user)",
    "user=u1 OR user=u2* | stats count by user",
    "NOT user=* | stats count by verb",
    "NOT conn=*a* user=u* | stats dc(conn)",
    "half=er-u3 | stats count by whole",
    "whole=0x0* | stats count",
];

/// Events whose `seed` decides how ids and users look: long or short ids, users with an empty or a non-ASCII name.
fn store(seed: u32) -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let meta = batch.intern(&Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/proxy.log".into(),
        sourcetype: "proxy".into(),
    });
    for at in 0..200u32 {
        let id = at.wrapping_mul(2_654_435_761) ^ seed;
        let user = match id % 11 {
            0 if seed % 2 == 1 => String::new(),
            0 => "zoë".to_owned(),
            other => format!("u{other}"),
        };
        let via = if id.is_multiple_of(3) { "via relay " } else { "" };
        let verb = ["GET", "POST"][(id % 2) as usize];
        let id = if seed % 3 == 2 { format!("{:02x}", id % 256) } else { format!("{id:010x}") };
        let text = format!("{} {verb}/{} /a/{} user-{user} {via}conn 0x{id}", at % 90, 200 + at % 5, at % 7);
        batch.push(text.as_bytes(), i64::from(at) * 1_000_000_000, meta);
    }
    store.append(batch).unwrap();
    store
}

#[test]
fn groups_after_a_prefix_are_the_same() {
    for seed in 0..6 {
        let searches = SEARCHES.iter().map(|search| (format!("search {search}"), TimeRange::ALL));
        compare_in(&store(seed), &engine_of(PROPS, ""), searches);
    }
}
