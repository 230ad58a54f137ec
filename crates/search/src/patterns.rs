//! Patterns of events: texts that differ only in some words, with the words that differ replaced by `*`.
//!
//! A word ends at a blank or after a mark such as `=`, so `user=eva` has the two words `user=` and `eva`. A date or a
//! time of day is a word of its own, and always a variable ([`super::written_times`]). A text is compared only with the
//! few patterns that have the same number of words and the same first word without a digit. The text joins the pattern
//! with which it shares the most words, if the share of equal words reaches a threshold, and the words that differ
//! become variables. Otherwise, the text begins a new pattern. The method follows Drain (He et al., "Drain: An Online
//! Log Parsing Approach with Fixed Depth Tree", 2017).
//!
//! As in Splunk, only the newest [`SAMPLE_MAX`] events are read. Not here: `cluster`, which compares sets of words.

use std::collections::BTreeMap;

use quarry_event::TimeNs;
use quarry_stdx::number::f64_of;

use crate::written_times::{TimedPart, split_times};

/// Maximum number of events read.
pub const SAMPLE_MAX: usize = 50_000;
/// Maximum number of patterns; further texts that fit no pattern are only counted.
const PATTERNS_MAX: usize = 5_000;
/// Maximum number of patterns with which a text is compared. At this limit, texts that fit no pattern are only
/// counted.
const COMPARED_MAX: usize = 200;
/// Maximum number of words of a text that are compared; further words are ignored.
const WORDS_MAX: usize = 200;
/// Marks after which a word ends.
const DELIMITERS: &str = "=:,;|\"'()[]{}<>/&?";
/// Maximum bytes of a text that are compared; the rest is ignored.
const TEXT_BYTES_MAX: usize = 4_096;
/// Text of a variable in a pattern.
const VARIABLE: &str = "*";
/// Stands for a word that is a date or a time; all such words are equal.
const TIME: &str = "\0";
/// Sensitivity if none is given.
pub const SENSITIVITY: f64 = 0.5;

/// A pattern and its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Words of the pattern, with a blank wherever the first text has blanks.
    pub text: String,
    /// Number of events.
    pub count: u64,
    /// The first text of the pattern.
    pub example: String,
    /// Times of the earliest and latest event, if known.
    pub times: Option<(TimeNs, TimeNs)>,
    /// The run of constant words that has the most letters: a phrase that finds the events.
    pub phrase: String,
}

/// Finds patterns in texts.
#[derive(Debug)]
pub struct PatternFinder {
    /// Minimum share of equal words for a text to join a pattern.
    threshold: f64,
    found: Vec<Group>,
    /// Indexes into `found`, by the number of words and the first word without a digit.
    by_start: BTreeMap<(usize, String), Vec<usize>>,
    read: u64,
    without: u64,
}

#[derive(Debug)]
struct Group {
    words: Vec<Option<String>>,
    /// For each word, whether a blank precedes it.
    blanks: Vec<bool>,
    count: u64,
    example: String,
    times: Option<(TimeNs, TimeNs)>,
}

impl PatternFinder {
    /// A finder with a sensitivity from 0 (few, wide patterns) to 1 (many, narrow patterns).
    pub fn new(sensitivity: f64) -> PatternFinder {
        let threshold = 0.3 + 0.6 * sensitivity.clamp(0.0, 1.0);
        PatternFinder { threshold, found: Vec::new(), by_start: BTreeMap::new(), read: 0, without: 0 }
    }

    /// Adds a text.
    pub fn add(&mut self, text: &str, time: Option<TimeNs>) {
        self.read += 1;
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX.min(text.len()))];
        let (words, blanks) = split_words(text);
        let key = (words.len(), first_stable_word(&words));
        let near = self.by_start.get(&key).map(Vec::as_slice).unwrap_or_default();
        let is_full = self.found.len() >= PATTERNS_MAX || near.len() >= COMPARED_MAX;
        let alike = near.iter().map(|at| (self.found[*at].equal_words(&words), *at));
        // Of equally similar patterns, the oldest one is chosen.
        let best = alike.max_by(|(left, a), (right, b)| left.cmp(right).then(b.cmp(a)));
        let is_enough = |equal: usize| f64_of(equal) >= self.threshold * f64_of(words.len());
        match best.filter(|(equal, _)| is_enough(*equal)) {
            Some((_, at)) => self.found[at].merge(&words, time),
            None if is_full => self.without += 1,
            None => {
                let words = words.iter().map(|word| Some((*word).to_owned())).collect();
                let times = time.map(|time| (time, time));
                let group = Group { words, blanks, count: 1, example: text.to_owned(), times };
                self.by_start.entry(key).or_default().push(self.found.len());
                self.found.push(group);
            }
        }
    }

    /// Number of texts read, and number of texts without a pattern because there are too many patterns.
    pub fn counts(&self) -> (u64, u64) {
        (self.read, self.without)
    }

    /// The patterns, most frequent first.
    pub fn finish(self) -> Vec<Pattern> {
        let mut found: Vec<Pattern> = self.found.into_iter().map(Group::into_pattern).collect();
        found.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        found
    }
}

impl Group {
    fn equal_words(&self, words: &[&str]) -> usize {
        self.words.iter().zip(words).filter(|(own, word)| own.as_deref() == Some(**word)).count()
    }

    fn merge(&mut self, words: &[&str], time: Option<TimeNs>) {
        self.count += 1;
        for (own, word) in self.words.iter_mut().zip(words) {
            if own.as_deref() != Some(*word) {
                *own = None;
            }
        }
        if let Some(time) = time {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }

    fn into_pattern(self) -> Pattern {
        let mut text = String::new();
        let (mut phrase, mut run) = (String::new(), String::new());
        for (at, word) in self.words.iter().enumerate() {
            let blank = if self.blanks[at] && at > 0 { " " } else { "" };
            text.push_str(blank);
            let word = word.as_deref().filter(|word| *word != TIME);
            text.push_str(word.unwrap_or(VARIABLE));
            match word {
                Some(word) => {
                    run.push_str(if run.is_empty() { "" } else { blank });
                    run.push_str(word);
                }
                None => run.clear(),
            }
            // Of runs with the same number of letters, the first one is kept.
            if letter_count(&run) > letter_count(&phrase) {
                phrase.clone_from(&run);
            }
        }
        let Group { count, example, times, .. } = self;
        Pattern { text, count, example, times, phrase }
    }
}

fn letter_count(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphabetic()).count()
}

/// The words of a text, and whether a blank precedes each.
fn split_words(text: &str) -> (Vec<&str>, Vec<bool>) {
    let (mut words, mut blanks) = (Vec::new(), Vec::new());
    for run in text.split_whitespace() {
        let mut is_first = true;
        for part in split_times(run) {
            let parts = match part {
                TimedPart::Time => TIME.split_inclusive(is_delimiter),
                TimedPart::Text(text) => text.split_inclusive(is_delimiter),
            };
            for word in parts {
                if words.len() == WORDS_MAX {
                    return (words, blanks);
                }
                words.push(word);
                blanks.push(is_first);
                is_first = false;
            }
        }
    }
    (words, blanks)
}

/// Whether a word ends after a mark.
fn is_delimiter(mark: char) -> bool {
    DELIMITERS.contains(mark)
}

/// The first word without a digit. Words with digits, such as times, addresses and numbers, usually vary.
fn first_stable_word(words: &[&str]) -> String {
    let is_fixed = |word: &&&str| **word != TIME && !word.chars().any(|c| c.is_ascii_digit());
    words.iter().find(is_fixed).copied().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str]) -> Vec<(String, u64)> {
        let mut finder = PatternFinder::new(SENSITIVITY);
        texts.iter().for_each(|text| finder.add(text, None));
        finder.finish().into_iter().map(|pattern| (pattern.text, pattern.count)).collect()
    }

    #[test]
    fn differing_words_become_wildcards() {
        let texts = ["10:01 login of eva failed after 3 s", "10:02 login of tom failed after 5 s", "10:03 disk full"];
        assert_eq!(found(&texts), [("* login of * failed after * s".to_owned(), 2), ("* disk full".to_owned(), 1)]);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn times_do_not_distinguish_patterns() {
        let texts: Vec<String> = (0..600)
            .map(|at| format!("2026-11-29T03:{:02}:{:02}.{at:03}Z level=INFO user=u{at} dur={at}", at / 60, at % 60))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(found(&texts), [("* level=INFO user=* dur=*".to_owned(), 600)]);
        let of_access = ["1.2.3.4 [29/Nov/2026:03:27:01 +0000] GET", "1.2.3.4 [30/Nov/2026:04:00:59 +0000] GET"];
        assert_eq!(found(&of_access), [("1.2.3.4 [* +0000] GET".to_owned(), 2)]);
    }

    #[test]
    fn every_text_is_counted_once_and_its_phrase_is_in_its_example() {
        let mut finder = PatternFinder::new(1.0);
        let words = ["get", "put", "of", "é", "7", "x"];
        for at in 0..PATTERNS_MAX * 3 {
            let text: Vec<&str> = (0..at % 7).map(|word| words[(at / (word + 1)) % words.len()]).collect();
            finder.add(&format!("{} w{}", text.join(" "), at % 6_000), Some(at as i64));
        }
        let (read, without) = finder.counts();
        let patterns = finder.finish();
        assert_eq!(patterns.iter().map(|pattern| pattern.count).sum::<u64>() + without, read);
        assert!(patterns.len() <= PATTERNS_MAX && patterns.windows(2).all(|pair| pair[0].count >= pair[1].count));
        for pattern in patterns {
            let example = pattern.example.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(example.contains(&pattern.phrase), "{pattern:?}");
        }
    }

    #[test]
    fn a_higher_sensitivity_gives_no_fewer_patterns() {
        let count = |sensitivity| {
            let mut finder = PatternFinder::new(sensitivity);
            (0..200).for_each(|at| finder.add(&format!("req a{} b{} c{} d e", at % 3, at % 5, at % 7), None));
            finder.finish().len()
        };
        assert!(count(0.0) <= count(0.5) && count(0.5) <= count(1.0), "{} {} {}", count(0.0), count(0.5), count(1.0));
    }
}
