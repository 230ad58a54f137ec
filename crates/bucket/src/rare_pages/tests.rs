//! Candidate pages and filters of template slabs against the tokens of the texts themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use quarry_event::segment::{for_each_token, lower_token};
use quarry_event::{AnyColumn, EventBatch, Metadata, TermQuery};

use super::*;
use crate::columns::tests::{add_templates, split_by_words};
use crate::encode::tests::SPLITTER;
use crate::templates::TemplateSlab;
use crate::{EncodeOptions, Locators, MAX_PAGE_EVENTS, MemoryObject, SlabFacts, TermFilter, encode, verify_against};

/// Lower-cased tokens and the pages of each.
type Truth = BTreeMap<String, u64>;

fn batch<'a>(texts: impl IntoIterator<Item = &'a str>) -> EventBatch {
    let word = |word: &str| word.into();
    let meta = Metadata { index: word("main"), host: word("h"), source: word("s"), sourcetype: word("t") };
    let mut batch = EventBatch { metas: vec![meta], ..EventBatch::default() };
    for (at, text) in texts.into_iter().enumerate() {
        batch.push(text.as_bytes(), at as i64, 0);
    }
    batch
}

fn truth_of(events: &EventBatch) -> Truth {
    let (mut truth, mut lower) = (Truth::new(), Vec::new());
    for row in 0..events.len() {
        for_each_token(events.raw(row), |token| {
            lower_token(token, &mut lower);
            let token = String::from_utf8(lower.clone()).unwrap();
            *truth.entry(token).or_default() |= 1 << (row / MAX_PAGE_EVENTS);
        });
    }
    truth
}

struct OpenBucket {
    reader: BucketReader,
    filter: TermFilter,
    truths: Vec<Truth>,
}

fn open_bucket(slabs: &[EventBatch], located: bool) -> OpenBucket {
    let locators = Locators::included_if(located);
    let encoded = encode(slabs, &EncodeOptions { locators, ..EncodeOptions::default() }).unwrap();
    verify_against(&encoded, slabs).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).unwrap();
    reader.check().unwrap();
    let filter = TermFilter::open(&encoded.filter).unwrap();
    OpenBucket { reader, filter, truths: slabs.iter().map(truth_of).collect() }
}

impl OpenBucket {
    fn pages(&self, slab: usize, query: &TermQuery) -> u64 {
        let unfiltered = self.reader.candidate_pages(slab, query, &AnyColumn).unwrap().0;
        let may_hold = |token: &[u8]| {
            let query = TermQuery::Token(std::str::from_utf8(token).unwrap().into());
            self.filter.may_match_slab(slab, &query, SlabFacts::UNKNOWN)
        };
        let found = self.reader.candidate_pages_with_filter(slab, query, &AnyColumn, &may_hold).unwrap().0;
        assert_eq!(found & !unfiltered, 0, "the filter adds no page");
        found
    }

    /// Asserts that no page with a token, or with its prefix, is missing from the candidates, and that the filter
    /// contains the token.
    fn assert_covers(&self, every: usize) {
        for (slab, truth) in self.truths.iter().enumerate() {
            for (token, pages) in truth.iter().step_by(every) {
                let query = TermQuery::Token(token.as_str().into());
                assert!(
                    self.filter.may_match(&query) && self.filter.may_match_slab(slab, &query, SlabFacts::UNKNOWN),
                    "{token}"
                );
                let found = self.pages(slab, &query);
                assert_eq!(pages & !found, 0, "{token} in {pages:b}, found {found:b}");
                let half = token.chars().take(token.chars().count().div_ceil(2)).collect::<String>();
                for prefix in [half.as_str(), token.as_str()] {
                    let starting = truth.iter().filter(|(token, _)| token.starts_with(prefix));
                    let expected = starting.fold(0, |all, (_, pages)| all | pages);
                    let found = self.pages(slab, &TermQuery::Prefix(prefix.into()));
                    assert_eq!(expected & !found, 0, "{prefix}* in {expected:b}, found {found:b}");
                }
            }
        }
    }
}

/// Numbers that look random and are the same in every run.
struct SeededRandom(u64);

impl SeededRandom {
    fn next_below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A log of requests with ids, addresses, times and a few odd lines.
pub(crate) fn log(seed: u64, events: usize) -> EventBatch {
    let mut dice = SeededRandom(seed);
    let mut texts = Vec::new();
    for at in 0..events {
        let (second, milli) = (at / 20 % 86_400, at % 20 * 50);
        let mut text =
            format!("2026-11-20T{:02}:{:02}:{:02}.{milli:03}Z", second / 3_600, second / 60 % 60, second % 60);
        let (host, pid, user) = (dice.next_below(20), dice.next_below(30_000), dice.next_below(1_000_000));
        write!(
            text,
            " host{host:02} Payments[{pid}]: user_id={user} request_id={:08x}{:08x}",
            dice.next_below(1 << 31),
            dice.next_below(1 << 31)
        )
        .unwrap();
        let ip = dice.next_below(1 << 16);
        write!(text, " ip=10.{}.{}.7 took={}.{}ms", ip / 256, ip % 256, dice.next_below(500), dice.next_below(10))
            .unwrap();
        let word = ["Accepted", "refused", "größe%20x"][dice.next_below(3) as usize];
        write!(
            text,
            " msg=\"connection {} {word} by w{:x}notify\"",
            dice.next_below(100_000_000),
            dice.next_below(1 << 24)
        )
        .unwrap();
        if dice.next_below(300) == 0 {
            text = format!("odd line number {} of {seed}", dice.next_below(1_000_000));
        }
        texts.push(text);
    }
    batch(texts.iter().map(String::as_str))
}

#[test]
fn logs_get_templates_and_ids_stay_out_of_the_dictionary() {
    let slabs = [log(1, 3 * MAX_PAGE_EVENTS - 100), log(2, MAX_PAGE_EVENTS + 50)];
    for located in [false, true] {
        assert_ids_are_found(&open_bucket(&slabs, located));
    }
}

fn assert_ids_are_found(opened: &OpenBucket) {
    assert!(opened.reader.template_set(0).unwrap().is_some(), "the log was not split into templates");
    opened.assert_covers(997);
    // Tokens of at least seven bytes are found in exactly the pages that contain them.
    let mut needles = 0;
    for (slab, truth) in opened.truths.iter().enumerate() {
        let ids =
            truth.iter().filter(|(token, _)| token.len() >= 12 || token.bytes().all(|byte| byte.is_ascii_digit()));
        for (token, pages) in ids.step_by(701) {
            let found = opened.pages(slab, &TermQuery::Token(token.as_str().into()));
            needles += usize::from(token.len() >= 7);
            assert!(found == *pages || token.len() < 7, "{token}: {found:b} for {pages:b}");
        }
    }
    assert!(needles > 20, "{needles} needles");
    let term_dictionary = opened.reader.stored_bytes_by_kind(0).unwrap();
    let term_dictionary: u64 =
        term_dictionary.iter().filter(|(kind, _)| kind.starts_with("term dictionary")).map(|(_, bytes)| bytes).sum();
    assert!(term_dictionary < 8_000, "{term_dictionary} bytes of term dictionary");
}

#[test]
fn most_absent_tokens_are_excluded() {
    let opened = open_bucket(&[log(3, MAX_PAGE_EVENTS + 9)], false);
    let absent =
        (0..2_000u64).map(|at| TermQuery::Token(format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into()));
    let mut passed = 0;
    for query in absent {
        passed += usize::from(opened.filter.may_match(&query));
        assert_eq!(opened.pages(0, &query), 0, "{query:?}");
    }
    assert!(passed < 40, "{passed} of 2000 absent ids");
}

#[test]
fn ids_of_one_slab_are_rarely_reported_for_another_slab() {
    let opened = open_bucket(&[log(4, 600), log(5, 600)], true);
    for (slab, other) in [(0, 1), (1, 0)] {
        let unique = opened.truths[slab].keys().filter(|token| token.len() == 16);
        let elsewhere = unique
            .filter(|token| {
                opened.filter.may_match_slab(other, &TermQuery::Token(token.as_str().into()), SlabFacts::UNKNOWN)
            })
            .count();
        assert!(elsewhere < 20, "{elsewhere} ids of slab {slab} may be in {other}");
    }
}

fn arbitrary_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-c]{1,3}",
        "[0-9]{1,6}",
        "-?[0-9]{1,3}\\.[0-9]{2}",
        "[0-9a-f]{8}",
        "10\\.[0-9]\\.[0-9]{1,2}\\.1",
        "k%2",
        "%(20|3d|2526|7C)?",
        "[A-Zé%]{1,4}",
        "0{0,2}[1-9]",
        "",
    ];
    proptest::collection::vec((word, "[ =%]{0,2}"), 0..6)
        .prop_map(|words| words.into_iter().map(|(word, between)| word + &between).collect())
}

/// Splits texts at a byte that is not a breaker, so that most variables begin and end inside tokens.
fn split_at_twos(events: &EventBatch) -> Option<TemplateSlab> {
    let values: Vec<(u32, Vec<u8>)> = (0..events.len()).map(|row| (row as u32, events.raw(row).to_vec())).collect();
    let mut slab = TemplateSlab::default();
    add_templates(&mut slab, None, &values, events.len(), b'2');
    Some(slab)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The texts are split at breakers by one splitter, and inside tokens by the other.
    #[test]
    fn texts_split_anywhere_keep_their_tokens(texts in proptest::collection::vec(arbitrary_text(), 1..40)) {
        for splitter in [split_by_words, split_at_twos] {
            SPLITTER.set(Some(splitter));
            let opened = open_bucket(&[batch(texts.iter().map(String::as_str))], false);
            SPLITTER.set(None);
            opened.assert_covers(1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn logs_keep_their_tokens(seed in any::<u64>(), events in 1..2 * MAX_PAGE_EVENTS) {
        for located in [false, true] {
            let opened = open_bucket(&[log(seed, events)], located);
            opened.assert_covers(1 + opened.truths[0].len() / 100);
        }
    }
}
