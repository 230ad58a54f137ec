//! Columns of plain texts that hold short values of some events and sentences of others; patterns on such sentences.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::json::Rng;
use super::{compare_in, engine_of};

const PROPS: &str = concat!(
    "[prose]\nKV_MODE = none\n",
    "EXTRACT-a = chat-\\w+\\] (?<role>agent|customer) (?<who>\\S+): \n",
    "EXTRACT-b = commit (?<sha>\\S+) by (?<who>\\S+): (?<type>\\w+)\\((?<module>[^)]+)\\): \n",
);
const SENTENCES: &[&str] = &[
    "That is great, thank you :)",
    "I have refunded $# to your card ending in #.",
    "It should look like #-x@example.com.",
    "This is the third time I write about ticket #.",
    "My order # says \"late\".",
    "The app crashes (version 1.#).",
    "We tell you the *star* of #.",
    "Die Tür № # klemmt.",
];

/// Segments after the first one are read by patterns whose cost is known.
const SEGMENTS: i64 = 3;
/// More rows than a search of a whole page needs.
const SEGMENT_EVENTS: i64 = 400;

fn sentence(rng: &mut Rng) -> String {
    let number = format!("{:04}", rng.below(3000));
    rng.of(SENTENCES).replace('#', &number)
}

fn event(rng: &mut Rng) -> String {
    let who = format!("{}-{}", rng.of(&["indigo", "plasma", "zoë"]), rng.below(60));
    match rng.below(3) {
        0 => {
            let (kind, module) = (rng.of(&["fix", "feat", "chore"]), rng.of(&["core", "web"]));
            format!("commit {:06x} by {who}: {kind}({module}): {}", rng.below(1 << 20), sentence(rng))
        }
        _ => {
            let role = rng.of(&["agent", "customer"]);
            format!("[chat-{:04x}] {role} {who}: {} {}", rng.below(1 << 16), sentence(rng), sentence(rng))
        }
    }
}

fn store() -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut rng = Rng(7);
    for segment in 0..SEGMENTS {
        let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
        let meta = Metadata {
            index: "main".into(),
            host: "h1".into(),
            source: "/var/log/chat.log".into(),
            sourcetype: "prose".into(),
        };
        let meta = batch.intern(&meta);
        for at in 0..SEGMENT_EVENTS {
            batch.push(event(&mut rng).as_bytes(), (segment * SEGMENT_EVENTS + at) * 1_000_000_000, meta);
        }
        store.append(batch).unwrap();
    }
    store
}

#[test]
fn values_and_patterns_of_shared_columns_are_the_same() {
    let searches = [
        "stats count by type",
        "stats count by role type",
        "stats count dc(who) by type module",
        "eval z=upper(role).\"-\".type | stats count by z",
        "eval z=upper(module).\"-\".type | stats count by z",
        "dedup type module | table type module",
        "table type who role",
        "rex \"ending in (?<d>\\d0\\d\\d)\" | stats count by d",
        "regex _raw=\"ending in \\d0\\d0\" | table _raw",
        "regex _raw!=\"ticket \\d+\" | stats count by role",
        "rex \"look like (?<m>\\S+)@example\" | stats count dc(m) by role",
        "where match(_raw, \"third time I write about ticket 0\\d+\") | stats count by role",
        "rex \"version 1\\.(?<v>\\d)\" | rex \"ending in (?<d>\\d)\" | stats count by v d",
        "rex \"the \\*star\\* of (?<s>\\d)\" | stats count by s",
        "rex \"Tür № (?<n>\\d)\" | stats count by n",
        "rex \"absent word (?<n>\\d)\" | stats count by n",
    ];
    let searches = searches.iter().map(|search| (format!("search * | {search}"), TimeRange::ALL));
    compare_in(&store(), &engine_of(PROPS, ""), searches);
}
