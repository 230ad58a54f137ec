//! Phrases over separated values: short and empty values, percent-encoded breakers, escapes, letters beyond ASCII.

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::MemoryStore;

use super::json::Rng;
use super::{compare_in, engine_of};

const PROPS: &str = "[rules]\nEXTRACT-verb = \\[(?<verb>[^\\]]*)\\]\nEXTRACT-user = user:(?<user>[^,;]+)\n";
const WORDS: &[&str] = &[
    "block",
    "pass",
    "in",
    "out",
    "match",
    "state-mismatch",
    "",
    "",
    "a",
    "GET",
    "/owa/auth",
    "url=https%3a%2f%2fmail",
    "x%20y",
    "%",
    "20",
    "50%",
    "2526",
    "igb0",
    "zoë",
    "ÄRGER",
    "K",
    "Ошибка сети",
    "Straße → Süd",
    "日本語",
    "İzmir",
    "ÉÈÊËÂÄ",
    "\\\"q\\\"",
    "c:\\tmp",
    "--",
    "tcp",
    "0x1F",
];

fn value(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => rng.below(300).to_string(),
        1 => format!("10.{}.0.{}", rng.below(3), rng.below(256)),
        2 => format!("{:04}", rng.below(50)),
        3 => format!("{}.{:02}", rng.below(20), rng.below(100)),
        4 => format!("{} {}", rng.of(WORDS), rng.of(WORDS)),
        5 => format!("{}@{}.org", rng.of(WORDS), rng.of(&["canary", "mail", "x"])),
        _ => rng.of(WORDS).to_owned(),
    }
}

fn event(rng: &mut Rng) -> String {
    let mut text = match rng.below(3) {
        0 => format!("20/Nov/2026:00:00:{:02} +0000 filter[{}]: ", rng.below(60), rng.below(9)),
        1 => format!("user:{},[{}] ", value(rng), value(rng)),
        _ => String::new(),
    };
    let between = rng.of(&[",", ",", " ", ", ", ";", "\t", "|"]);
    for at in 0..3 + rng.below(9) {
        text += if at > 0 { between } else { "" };
        text += &value(rng);
    }
    text
}

fn store(texts: &[String]) -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
    let meta = Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/x.log".into(),
        sourcetype: "rules".into(),
    };
    let meta = batch.intern(&meta);
    for (at, text) in (0i64..).zip(texts) {
        batch.push(text.as_bytes(), at * 1_000_000_000, meta);
    }
    store.append(batch).unwrap();
    store
}

/// A part of an event, perhaps in another case, with wildcards, or with another byte at one position.
fn phrase(rng: &mut Rng, texts: &[String]) -> String {
    let letters: Vec<char> = texts[rng.below(texts.len())].chars().collect();
    let start = rng.below(letters.len().max(1));
    let mut phrase: Vec<char> = letters.into_iter().skip(start).take(1 + rng.below(30)).collect();
    let place = rng.below(phrase.len().max(1));
    match rng.below(8) {
        0 => phrase = phrase.iter().flat_map(|letter| letter.to_uppercase()).collect(),
        1 => phrase.insert(place.min(phrase.len()), '*'),
        2 => phrase.insert(0, '*'),
        3 => phrase.push('*'),
        4 if !phrase.is_empty() => phrase[place] = 'x',
        _ => {}
    }
    let phrase: String = phrase.into_iter().collect();
    format!("\"{}\"", phrase.replace('\\', "\\\\").replace('"', "\\\""))
}

#[test]
fn phrases_over_separated_values_find_the_same_events() {
    for seed in 0..4 {
        let mut rng = Rng(seed);
        let texts: Vec<String> = (0..150).map(|_| event(&mut rng)).collect();
        let searches: Vec<String> = (0..150)
            .map(|_| {
                let phrase = phrase(&mut rng, &texts);
                let condition = match rng.below(9) {
                    0 => format!("NOT {phrase}"),
                    1 => format!("TERM({phrase})"),
                    2 => format!("CASE({phrase})"),
                    3 => format!("verb={phrase}"),
                    4 => format!("user={phrase}"),
                    5 => format!("{phrase} OR verb=block"),
                    _ => phrase,
                };
                format!("search {condition} | table _time")
            })
            .collect();
        compare_in(&store(&texts), &engine_of(PROPS, ""), searches.into_iter().map(|search| (search, TimeRange::ALL)));
    }
}
