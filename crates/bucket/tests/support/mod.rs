//! Batches to encode, and a slow but simple evaluation of term queries for comparison.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use quarry_bucket::{BucketReader, EncodedBucket, MAX_PAGE_EVENTS, MemoryObject};
use quarry_event::segment::{contains_word, for_each_token, lower_token};
use quarry_event::term::MetaField;
use quarry_event::value::spelling::{is_spelling, numbers_spelled};
use quarry_event::{EventBatch, Metadata, TermQuery, TextMark};

pub fn open(encoded: &EncodedBucket) -> BucketReader {
    BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).unwrap()
}

/// All kinds of marks.
pub const MARKS: [TextMark; 4] =
    [TextMark::UnbrokenBlank, TextMark::XmlToken, TextMark::XmlValue, TextMark::JsonLetter];

fn metadata(host: &str, source: &str) -> Metadata {
    Metadata { index: "main".into(), host: host.into(), source: source.into(), sourcetype: "Syslog".into() }
}

/// `events` events, one second apart, each with a token of its own, every second one with a field of its own, and one
/// host per page.
pub fn numbered_batch(events: usize) -> EventBatch {
    let mut batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    for row in 0..events {
        let meta = batch.intern(&metadata(&format!("host-{}", row / MAX_PAGE_EVENTS), "/var/log/a"));
        batch.push(format!("Row {row} unique{row} level=INFO").as_bytes(), row as i64 * 1_000_000_000, meta);
        if row % 2 == 0 {
            batch.fields.push(row as u32, "Row", &format!("R{row}"));
        }
    }
    batch
}

/// Events whose texts are their fields with a delimiter between them, apart from the events that `alter` changes.
/// A cell `-` is no field.
pub fn delimited_batch(
    events: usize,
    delimiter: char,
    cells: impl Fn(usize) -> Vec<(&'static str, String)>,
    alter: impl Fn(usize, String) -> String,
) -> EventBatch {
    let mut batch = EventBatch { index_time: 1_000, ..EventBatch::default() };
    for row in 0..events {
        let meta = batch.intern(&metadata("web", "u_ex.log"));
        let cells = cells(row);
        let text: Vec<&str> = cells.iter().map(|(_, value)| value.as_str()).collect();
        let text = alter(row, text.join(&delimiter.to_string()));
        batch.push(text.as_bytes(), row as i64 * 1_000_000_000, meta);
        for (name, value) in cells.into_iter().filter(|(_, value)| value != "-") {
            batch.fields.push(row as u32, name, &value);
        }
    }
    batch
}

/// Batches of delimited texts with cells of any content, some of them missing.
pub fn any_delimited_batch() -> impl Strategy<Value = EventBatch> {
    let cell = prop_oneof![
        3 => "[a-cA-C0-9]{1,6}",
        2 => "[a-c]{1,3}([=:./%-][a-dA-D0-9]{1,4}){0,3}",
        1 => Just("-".to_owned()),
        1 => "(%2|%20|K|ς|Σ|İ|é|\"){1,5}",
        1 => any::<String>(),
    ];
    let delimiter = prop::sample::select(vec![' ', '\t', ',', '%']);
    (prop::collection::vec(prop::collection::vec(cell, 4), 1..40), delimiter, any::<u8>()).prop_map(
        |(rows, delimiter, rare)| {
            let cells = |row: usize| {
                let names = ["date", "id", "user", "uri"];
                let mut cells: Vec<_> = names.into_iter().zip(rows[row % rows.len()].clone()).collect();
                cells[0].1 = format!("2026-11-{:02}", row % 28 + 1);
                cells[1].1 = format!("{:x}", row * 7_919);
                cells
            };
            let alter =
                |row: usize, text: String| if row % 256 == usize::from(rare) { format!("? {text}") } else { text };
            delimited_batch(6_000, delimiter, cells, alter)
        },
    )
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-c]{1,3}([ =:,.\"%/-][a-dA-D0-9]{1,4}){0,8}",
        1 => "(Ümlaut|ΣΑΣ|İx|日本|x){1,30}( %20| |=)[a-z]{0,300}",
        1 => "[a-f0-9]{8}-[a-f0-9]{4}-[A-F0-9]{12}",
        1 => "(a|&#99;|&|#|<!-- c -->|<b>|</b>|\\]\\]>|\\\\u0063|\u{b}|\u{a0}|é| |%){1,12}",
        1 => any::<String>(),
        1 => Just(String::new()),
    ]
}

fn field() -> impl Strategy<Value = (u32, String, String)> {
    let value =
        prop_oneof!["[a-cA-C0-9]{0,3}", any::<String>(), "[xÉ]{900,1500}", "[+-]?[0-3]([.]0{0,2})?", "[0-9]{1,3}[.]0"];
    (any::<u32>(), "[a-cA-C]{1,2}", value)
}

/// Batches of up to `distinct` different events, repeated so that some fill several pages.
pub fn any_batch(distinct: usize) -> impl Strategy<Value = EventBatch> {
    let events = prop::collection::vec((text(), any::<i64>(), 0..6u32), 0..distinct);
    let fields = prop::collection::vec(field(), 0..30);
    let metas = prop::collection::vec(("[a-bA-B]{0,3}", "[/a-b.]{0,4}"), 6);
    (events, fields, metas, any::<i64>(), prop_oneof![4 => Just(1usize), 1 => Just(9_000)]).prop_map(
        |(events, fields, metas, index_time, least)| {
            let mut batch = EventBatch { index_time, ..EventBatch::default() };
            batch.metas = metas.iter().map(|(host, source)| metadata(host, source)).collect();
            let times = if events.is_empty() { 0 } else { least.div_ceil(events.len()) };
            for (repeat, (text, time, meta)) in (0..times).flat_map(|at| events.iter().map(move |event| (at, event))) {
                let text = if repeat == 0 { text.clone() } else { format!("{text} n{}", repeat / 50) };
                batch.push(text.as_bytes(), time.wrapping_add(repeat as i64), *meta);
            }
            let rows = batch.len() as u32;
            let fields = fields.into_iter().filter(|_| rows > 0);
            let mut fields: Vec<_> = fields.map(|(row, name, value)| (row % rows, name, value)).collect();
            fields.sort_by_key(|field| field.0);
            batch.fields.extend(fields);
            batch
        },
    )
}

/// A query for content of `batch`, chosen by `seed`; `depth` bounds nesting.
pub fn query_for(batch: &EventBatch, seed: u64, depth: u32) -> TermQuery {
    let next = |salt: u64| (seed ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let pick = |len: usize, salt: u64| next(salt) as usize % len.max(1);
    let token = || -> String {
        let mut tokens = Vec::new();
        if !batch.is_empty() {
            for_each_token(batch.raw(pick(batch.len(), 1)), |token| tokens.push(lower_case_token(token)));
        }
        tokens.get(pick(tokens.len(), 2)).map_or("absent".into(), |token| String::from_utf8_lossy(token).into_owned())
    };
    match pick(if depth == 0 { 6 } else { 9 }, 3) {
        0 | 1 => TermQuery::Token(token().into()),
        2 => TermQuery::Prefix(token().chars().take(2).collect::<String>().into()),
        3 => match batch.fields.iter().nth(pick(batch.fields.len(), 4)) {
            Some(field) => {
                let (name, value) = ((**field.name).into(), field.value.to_lowercase());
                let number = numbers_spelled(&value).next().filter(|_| next(6) % 2 == 0);
                match number.map(str::to_owned) {
                    Some(number) => TermQuery::FieldNumber { name, number: number.into() },
                    None => TermQuery::Field { name, value: value.into() },
                }
            }
            None => TermQuery::All,
        },
        4 => {
            let host: String =
                batch.metas.get(pick(batch.metas.len(), 5)).map_or("x".into(), |meta| (*meta.host).into());
            let pattern = format!("{}*", host.to_lowercase().chars().take(1).collect::<String>());
            TermQuery::Meta { field: MetaField::Host, pattern: pattern.into() }
        }
        5 if next(7) % 2 == 0 => TermQuery::Marked(MARKS[pick(MARKS.len(), 8)]),
        5 => TermQuery::Token("surely-absent".into()),
        6 | 7 => TermQuery::And((0..3).map(|at| query_for(batch, next(10 + at), depth - 1)).collect()),
        _ => TermQuery::Or((0..2).map(|at| query_for(batch, next(20 + at), depth - 1)).collect()),
    }
}

fn lower_case_token(token: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    lower_token(token, &mut out);
    out
}

/// Pages holding an event for which `query` is true.
pub fn pages_by_brute_force(batch: &EventBatch, query: &TermQuery) -> u64 {
    let matching = (0..batch.len()).filter(|row| event_matches(batch, *row, query));
    matching.fold(0, |pages, row| pages | 1 << (row / MAX_PAGE_EVENTS))
}

/// Whether the event has an index-time field of this name with a value that passes the test in lower case.
fn has_field(batch: &EventBatch, row: usize, name: &str, passes: &dyn Fn(&str) -> bool) -> bool {
    let mut of_row = batch.fields.iter().filter(|field| field.row as usize == row && **field.name == *name);
    of_row.any(|field| passes(&field.value.to_lowercase()))
}

fn event_matches(batch: &EventBatch, row: usize, query: &TermQuery) -> bool {
    let has_token = |test: &dyn Fn(&[u8]) -> bool| {
        let mut found = false;
        for_each_token(batch.raw(row), |token| found |= test(&lower_case_token(token)));
        found
    };
    match query {
        TermQuery::All => true,
        TermQuery::None => false,
        TermQuery::Token(wanted) => has_token(&|token| token == wanted.as_bytes()),
        TermQuery::Prefix(prefix) => has_token(&|token| token.starts_with(prefix.as_bytes())),
        TermQuery::Value { tokens, .. } => event_matches(batch, row, tokens),
        TermQuery::Marked(mark) => mark.is_in(batch.raw(row)),
        TermQuery::IndexTimeFields => batch.fields.iter().any(|field| field.row as usize == row),
        TermQuery::And(parts) => parts.iter().all(|part| event_matches(batch, row, part)),
        TermQuery::Or(parts) => parts.iter().any(|part| event_matches(batch, row, part)),
        TermQuery::Meta { pattern, .. } => {
            let host = batch.metas[batch.meta[row] as usize].host.to_lowercase();
            pattern.strip_suffix('*').map_or(host == **pattern, |prefix| host.starts_with(prefix))
        }
        TermQuery::Field { name, value } => has_field(batch, row, name, &|text| *text == **value),
        TermQuery::FieldNumber { name, number } => {
            let is_in_text = || contains_word(batch.raw(row), number, false);
            has_field(batch, row, name, &|text| *text == **number || (is_spelling(number, text) && is_in_text()))
        }
    }
}
