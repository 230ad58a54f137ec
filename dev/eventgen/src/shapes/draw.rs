//! Random building blocks of shapes: pools of names and values with skewed frequencies, ids, sentences.

use std::collections::BTreeSet;

use crate::irregular_logs::vocabulary;
use crate::random::Chance;

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
    pub(crate) fn new(values: Vec<String>, chance: &mut Chance) -> Pool {
        let skew = 0.5 + chance.unit() * 0.8;
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
    pub(crate) fn of(values: &[&str], chance: &mut Chance) -> Pool {
        let mut values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        shuffle(&mut values, chance);
        Pool::new(values, chance)
    }

    /// Makes a pool of `count` distinct values from `make`, or of fewer if `make` does not return as many.
    pub(crate) fn distinct(count: u64, chance: &mut Chance, mut make: impl FnMut(&mut Chance) -> String) -> Pool {
        let mut seen = BTreeSet::new();
        let mut values = Vec::new();
        for _ in 0..count * 4 {
            let value = make(chance);
            if seen.insert(value.clone()) {
                values.push(value);
            }
            if values.len() as u64 == count {
                break;
            }
        }
        Pool::new(values, chance)
    }

    pub(crate) fn pick(&self, chance: &mut Chance) -> &str {
        let drawn = chance.unit() * self.cumulative.last().copied().unwrap_or_default();
        let at = self.cumulative.partition_point(|sum| *sum < drawn);
        self.values.get(at.min(self.values.len().saturating_sub(1))).map_or("", String::as_str)
    }

    pub(crate) fn values(&self) -> &[String] {
        &self.values
    }
}

fn shuffle<T>(values: &mut [T], chance: &mut Chance) {
    for at in (1..values.len()).rev() {
        values.swap(at, chance.below(at as u64 + 1) as usize);
    }
}

/// Picks `count` of `choices` in random order.
pub(crate) fn some_of(choices: &[&'static str], count: usize, chance: &mut Chance) -> Vec<&'static str> {
    let mut choices = choices.to_vec();
    shuffle(&mut choices, chance);
    choices.truncate(count);
    choices
}

/// Number from `low` to `high`, both inclusive.
pub(crate) fn between(low: u64, high: u64, chance: &mut Chance) -> u64 {
    low + chance.below(high - low + 1)
}

/// Number from `low` to `high` with a uniformly distributed order of magnitude.
pub(crate) fn magnitude(low: u64, high: u64, chance: &mut Chance) -> u64 {
    let (low, high) = ((low as f64).ln(), (high as f64).ln());
    (low + (high - low) * chance.unit()).exp() as u64
}

/// Random share between `low` and `high`.
pub(crate) fn share(low: f64, high: f64, chance: &mut Chance) -> f64 {
    low + (high - low) * chance.unit()
}

/// True with probability `share`.
pub(crate) fn happens(share: f64, chance: &mut Chance) -> bool {
    chance.unit() < share
}

/// A name such as `refund-worker`.
pub(crate) fn service(chance: &mut Chance) -> String {
    format!("{}-{}", chance.pick(NAME_WORDS), chance.pick(NAME_ENDS))
}

/// A word such as `ledger`.
pub(crate) fn noun(chance: &mut Chance) -> &'static str {
    let words: &[&'static str] = NAME_WORDS;
    words[chance.below(words.len() as u64) as usize]
}

/// A user name such as `greta.k17`.
pub(crate) fn user(chance: &mut Chance) -> String {
    let letter = char::from(b'a' + chance.below(26) as u8);
    format!("{}.{letter}{}", chance.pick(FIRST_NAMES), chance.below(100))
}

/// An address in 10.0.0.0/8 or, without `private`, any ordinary address.
pub(crate) fn address(private: bool, chance: &mut Chance) -> String {
    let first = if private { 10 } else { 11 + chance.below(180) };
    format!("{first}.{}.{}.{}", chance.below(256), chance.below(256), 1 + chance.below(254))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(digits: usize, chance: &mut Chance) -> String {
    let mut text = String::with_capacity(digits + 16);
    while text.len() < digits {
        text.push_str(&format!("{:016x}", chance.next()));
    }
    text.truncate(digits);
    text
}

/// Random UUID in its usual form.
pub(crate) fn uuid(chance: &mut Chance) -> String {
    let digits = hex(32, chance);
    format!("{}-{}-4{}-a{}-{}", &digits[..8], &digits[8..12], &digits[13..16], &digits[17..20], &digits[20..])
}

/// A vocabulary of English-like words, and sentences of them.
#[derive(Clone, Debug)]
pub(crate) struct Words(Pool);

impl Words {
    /// Chooses a part of the vocabulary in random order.
    pub(crate) fn draw(chance: &mut Chance) -> Words {
        let mut words = vocabulary();
        shuffle(&mut words, chance);
        words.truncate(magnitude(1_500, 9_000, chance) as usize);
        Words(Pool::new(words, chance))
    }

    pub(crate) fn word(&self, chance: &mut Chance) -> &str {
        self.0.pick(chance)
    }

    /// `count` words separated by blanks.
    pub(crate) fn phrase(&self, count: u64, chance: &mut Chance) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.word(chance)).collect();
        words.join(" ")
    }
}

/// Non-ASCII texts as they occur in names and messages.
pub(crate) const FOREIGN: &[&str] =
    &["Zürich", "São Paulo", "naïve", "Łódź", "東京", "Ærø", "crème brûlée", "Ωmega", "🚚 dispatched", "Ñandú"];
