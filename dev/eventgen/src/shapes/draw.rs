//! Random building blocks of shapes: pools of names and values with skewed frequencies, ids, sentences.

use std::collections::BTreeSet;

use crate::irregular_logs::vocabulary;
use crate::random::Rng;

/// Words for the names of services, users, tables and files.
const NAME_WORDS: &[&str] = &[
    "account",
    "alert",
    "audit",
    "basket",
    "billing",
    "cache",
    "catalog",
    "checkout",
    "config",
    "courier",
    "delivery",
    "device",
    "export",
    "feed",
    "fraud",
    "gateway",
    "geo",
    "identity",
    "import",
    "index",
    "invoice",
    "ledger",
    "loyalty",
    "mail",
    "media",
    "meter",
    "notify",
    "offer",
    "order",
    "partner",
    "payment",
    "planner",
    "price",
    "profile",
    "quota",
    "rating",
    "refund",
    "report",
    "return",
    "risk",
    "router",
    "sales",
    "search",
    "session",
    "shipping",
    "stock",
    "supplier",
    "survey",
    "tax",
    "ticket",
    "token",
    "tracking",
    "upload",
    "voucher",
    "wallet",
    "warehouse",
    "webhook",
];
const NAME_ENDS: &[&str] = &["api", "worker", "svc", "job", "proxy", "store", "sync", "edge", "core", "ui"];
const FIRST_NAMES: &[&str] = &[
    "ada", "ben", "chloe", "dirk", "eva", "finn", "greta", "hugo", "ines", "jana", "karl", "lena", "marek", "nora",
    "olaf", "petra", "quentin", "rosa", "sven", "tilda", "ugo", "vera", "wim", "xenia", "yves", "zora",
];

/// Values of a field with Zipf frequencies: the r-th is 1/r^skew as frequent as the first.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    values: Vec<String>,
    cumulative: Vec<f64>,
}

impl Pool {
    /// Makes a pool of the given values with a random skew.
    pub(crate) fn new(values: Vec<String>, rng: &mut Rng) -> Pool {
        let skew = 0.5 + rng.unit() * 0.8;
        let mut sum = 0.0;
        let cumulative = (1..=values.len())
            .map(|rank| {
                sum += (rank as f64).powf(-skew);
                sum
            })
            .collect();
        Pool { values, cumulative }
    }

    /// Makes a pool of fixed values in random order.
    pub(crate) fn of(values: &[&str], rng: &mut Rng) -> Pool {
        let mut values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        shuffle(&mut values, rng);
        Pool::new(values, rng)
    }

    /// Makes a pool of `count` distinct values from `make`, or of fewer if `make` does not return as many.
    pub(crate) fn distinct(count: u64, rng: &mut Rng, mut make: impl FnMut(&mut Rng) -> String) -> Pool {
        let mut seen = BTreeSet::new();
        let mut values = Vec::new();
        for _ in 0..count * 4 {
            let value = make(rng);
            if seen.insert(value.clone()) {
                values.push(value);
            }
            if values.len() as u64 == count {
                break;
            }
        }
        Pool::new(values, rng)
    }

    pub(crate) fn pick(&self, rng: &mut Rng) -> &str {
        let drawn = rng.unit() * self.cumulative.last().copied().unwrap_or_default();
        let at = self.cumulative.partition_point(|sum| *sum < drawn);
        self.values.get(at.min(self.values.len().saturating_sub(1))).map_or("", String::as_str)
    }

    pub(crate) fn values(&self) -> &[String] {
        &self.values
    }
}

fn shuffle<T>(values: &mut [T], rng: &mut Rng) {
    for at in (1..values.len()).rev() {
        values.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

/// Picks `count` of `choices` in random order.
pub(crate) fn some_of(choices: &[&'static str], count: usize, rng: &mut Rng) -> Vec<&'static str> {
    let mut choices = choices.to_vec();
    shuffle(&mut choices, rng);
    choices.truncate(count);
    choices
}

/// Number from `low` to `high`, both inclusive.
pub(crate) fn between(low: u64, high: u64, rng: &mut Rng) -> u64 {
    low + rng.below(high - low + 1)
}

/// Number from `low` to `high` with a uniformly distributed order of magnitude.
pub(crate) fn magnitude(low: u64, high: u64, rng: &mut Rng) -> u64 {
    let (low, high) = ((low as f64).ln(), (high as f64).ln());
    (low + (high - low) * rng.unit()).exp() as u64
}

/// Random share between `low` and `high`.
pub(crate) fn share(low: f64, high: f64, rng: &mut Rng) -> f64 {
    low + (high - low) * rng.unit()
}

/// True with probability `share`.
pub(crate) fn happens(share: f64, rng: &mut Rng) -> bool {
    rng.unit() < share
}

/// A name such as `refund-worker`.
pub(crate) fn service(rng: &mut Rng) -> String {
    format!("{}-{}", rng.pick(NAME_WORDS), rng.pick(NAME_ENDS))
}

/// A word such as `ledger`.
pub(crate) fn noun(rng: &mut Rng) -> &'static str {
    let words: &[&'static str] = NAME_WORDS;
    words[rng.below(words.len() as u64) as usize]
}

/// A user name such as `greta.k17`.
pub(crate) fn user(rng: &mut Rng) -> String {
    let letter = char::from(b'a' + rng.below(26) as u8);
    format!("{}.{letter}{}", rng.pick(FIRST_NAMES), rng.below(100))
}

/// An address in 10.0.0.0/8 or, without `private`, any ordinary address.
pub(crate) fn address(private: bool, rng: &mut Rng) -> String {
    let first = if private { 10 } else { 11 + rng.below(180) };
    format!("{first}.{}.{}.{}", rng.below(256), rng.below(256), 1 + rng.below(254))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(digits: usize, rng: &mut Rng) -> String {
    let mut text = String::with_capacity(digits + 16);
    while text.len() < digits {
        text.push_str(&format!("{:016x}", rng.next()));
    }
    text.truncate(digits);
    text
}

/// Random UUID in its usual form.
pub(crate) fn uuid(rng: &mut Rng) -> String {
    let digits = hex(32, rng);
    format!("{}-{}-4{}-a{}-{}", &digits[..8], &digits[8..12], &digits[13..16], &digits[17..20], &digits[20..])
}

/// A vocabulary of English-like words, and sentences of them.
#[derive(Clone, Debug)]
pub(crate) struct Words(Pool);

impl Words {
    /// Chooses a part of the vocabulary in random order.
    pub(crate) fn draw(rng: &mut Rng) -> Words {
        let mut words = vocabulary();
        shuffle(&mut words, rng);
        words.truncate(magnitude(1_500, 9_000, rng) as usize);
        Words(Pool::new(words, rng))
    }

    pub(crate) fn word(&self, rng: &mut Rng) -> &str {
        self.0.pick(rng)
    }

    /// `count` words separated by blanks.
    pub(crate) fn phrase(&self, count: u64, rng: &mut Rng) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.word(rng)).collect();
        words.join(" ")
    }
}

/// Non-ASCII texts as they occur in names and messages.
pub(crate) const FOREIGN: &[&str] =
    &["Zürich", "São Paulo", "naïve", "Łódź", "東京", "Ærø", "crème brûlée", "Ωmega", "🚚 dispatched", "Ñandú"];
