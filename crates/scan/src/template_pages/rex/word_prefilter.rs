//! Prefilter of patterns on event texts: an event that lacks a word of every match has no match.
//!
//! The words of a page are searched for in its columns ([`crate::template_pages::words`]), whose values are contiguous.
//! This takes far less time than running the pattern on the free text of each row, or than rebuilding the texts of rows
//! that the plans of the pattern leave undecided. As long as the plans answer nearly all rows without reading texts, no
//! words are searched for.
//!
//! Not here: literals in the windows of a planned template ([`crate::template_pages::literals`]).

use std::cmp::Reverse;
use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::pattern::Regex;
use quarry_event::segment::{WordBound, is_breaker};

use crate::template_pages::literals::Hits;
use crate::template_pages::outcome::{Outcome, YES};
use crate::template_pages::page::{PageReader, Rows};
use crate::template_pages::pattern_cost::PatternCost;
use crate::template_pages::words::{Word, WordPlan, has_non_hex_letter};

/// Shortest word that is searched for, in bytes.
const WORD_BYTES_MIN: usize = 3;
/// Maximum number of words; the longest are kept, because they are usually the rarest.
const WORDS_MAX: usize = 2;
/// Minimum number of rows for which searching a whole page pays off.
const ROWS_MIN: usize = 256;
/// If fewer than one in this many rows required a text so far, no words are searched for.
const ROWS_PER_TEXT_MAX: u64 = 8;
/// A page counts as fruitless if the words exclude fewer than one in this many of its rows.
const USEFUL_EXCLUSION_DIVISOR: usize = 16;
/// Number of fruitless pages of a slab after which the words are abandoned.
const FRUITLESS_PAGES_MAX: usize = 3;

/// Words that the text of every match contains.
pub(super) struct WordPrefilter(Vec<Word>);

/// The prefilter in one slab.
#[derive(Default)]
pub(super) struct SlabPrefilter {
    /// A plan for each word, once the prefilter is in use; `None` for a word that may lie across columns, which would
    /// have to be looked for row by row.
    plans: Option<Vec<Option<WordPlan>>>,
    fruitless_pages: usize,
}

impl SlabPrefilter {
    /// Drops the plans. Later searches know whether the words are fruitless.
    pub(super) fn stop_reading(&mut self) {
        self.plans = None;
    }
}

impl WordPrefilter {
    pub(super) fn of(regex: &Regex) -> WordPrefilter {
        let literals = regex.required_literals();
        let words = words_of(&literals);
        WordPrefilter(words.iter().map(|word| Word::new(&format!("*{word}*"), WordBound::Breaker, true)).collect())
    }

    /// The rows of a page that may match; `None` for all rows. `rows` are asked for; `cost` is that of the pattern so
    /// far. `known` is the result of an earlier search, if there is one, or becomes the result.
    pub(super) fn possible_rows(
        &self,
        slab: &mut SlabPrefilter,
        rows: &Rows,
        cost: &PatternCost,
        known: &mut Option<Arc<Hits>>,
        page: &mut PageReader<'_>,
    ) -> Result<Option<Arc<Hits>>, EngineError> {
        if known.is_some() {
            return Ok(known.clone());
        }
        let is_cheap = slab.plans.is_none() && cost.texts * ROWS_PER_TEXT_MAX <= cost.rows;
        if self.0.is_empty() || is_cheap || rows.len() < ROWS_MIN || slab.fruitless_pages >= FRUITLESS_PAGES_MAX {
            return Ok(None);
        }
        if slab.plans.is_none() {
            let plan = |word: &Word| Ok(Some(page.slab.plan_word(word)?).filter(|plan| !plan.reads_spans()));
            slab.plans = Some(self.0.iter().map(plan).collect::<Result<_, EngineError>>()?);
        }
        let (mut possible, mut excluded) = (Outcome::Same(YES), 0);
        for (word, plan) in self.0.iter().zip(slab.plans.iter().flatten()) {
            let Some(plan) = plan else { continue };
            possible = possible.and(word.run(plan, page)?);
            excluded = rows.iter().filter(|row| !possible.is_possible(*row as usize)).count();
            // Searching for a further word would take as long as reading the remaining texts.
            if excluded * 2 >= rows.len() {
                break;
            }
        }
        if excluded < rows.len() / USEFUL_EXCLUSION_DIVISOR {
            slab.fruitless_pages += 1;
        }
        let mut hits = Hits::none(page.len());
        (0..page.len()).filter(|row| possible.is_possible(*row)).for_each(|row| hits.set(row));
        *known = Some(Arc::new(hits));
        Ok(known.clone())
    }
}

/// The words of literals that every match contains, longest first. A word that may be part of a number would have to be
/// compared with every number.
fn words_of(literals: &[Box<[u8]>]) -> Vec<&str> {
    let is_between =
        |letter: char| letter == '*' || u8::try_from(letter).is_ok_and(|byte| byte.is_ascii() && is_breaker(byte));
    let texts = literals.iter().filter_map(|literal| std::str::from_utf8(literal).ok());
    let words = texts.flat_map(|text| text.split(is_between));
    let mut words: Vec<&str> = words.filter(|word| word.len() >= WORD_BYTES_MIN && has_non_hex_letter(word)).collect();
    words.sort_by_key(|word| (Reverse(word.len()), *word));
    words.dedup();
    words.truncate(WORDS_MAX);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_longest_between_breakers() {
        for (pattern, expected) in [
            (r"ending in \d0\d0", vec!["ending"]),
            (r"look like (?<m>\S+)@example", vec!["example", "like"]),
            (r"ticket #(?<tk>[0-9a-f]{6})", vec!["ticket"]),
            (r"commit (?<sha>[0-9a-f]{40}) by \S+: ", vec!["commit"]),
            (r"\(#(?<pr>\d+)\)", vec![]),
            (r"decade (\d+)", vec![]),
            (r"x\*star\*y", vec!["star"]),
            (r"(?:look|see) (\S+)", vec![]),
        ] {
            let literals = Regex::new(pattern).unwrap().required_literals();
            assert_eq!(words_of(&literals), expected, "{pattern}");
        }
    }
}
