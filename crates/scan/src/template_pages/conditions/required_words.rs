//! Required words: prefilters for rows that only the text can decide. A text without such a word cannot match. The
//! words come from a phrase or from the value of a field.
//!
//! Searching for a word takes less time than rebuilding the undecided texts if the word is rare and not part of a
//! number. Words that rule out few rows are abandoned.
//!
//! Not here: how a word is found on templates and dictionaries ([`crate::template_pages::words`]).

use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_eval::EngineError;
use quarry_event::Metadata;
use quarry_event::segment::{WordBound, is_breaker};
use quarry_event::value::parse_ipv4;
use quarry_spl::ast::SearchPattern;

use super::{Condition, Conditions, with_row_restriction};
use crate::derive::Scope;
use crate::template_pages::outcome::{NO, Outcome, UNDECIDED, YES};
use crate::template_pages::page::PageReader;
use crate::template_pages::words::{Word, has_non_hex_letter};

/// Shortest run of a phrase that is searched for by itself, in bytes.
const RUN_BYTES_MIN: usize = 2;
/// Maximum number of runs searched per phrase.
const RUNS_MAX: usize = 4;
/// If fewer than one in this many rows of a page are undecided, their texts are rebuilt without searching for runs.
const RARE_UNDECIDED_DIVISOR: usize = 8;
/// Maximum number of values of a test whose words are searched for. For more values, testing the field itself is faster.
const VALUES_MAX: usize = 32;
/// Shortest word of a value that is searched for, in bytes.
const WORD_BYTES_MIN: usize = 3;
/// Minimum number of digits of a number that counts as rare.
const NUMBER_DIGITS_MIN: usize = 5;
/// Number of pages with few rows ruled out, after which the search for runs or words is abandoned.
const FRUITLESS_PAGES_MAX: usize = 3;

/// Words for a field test: the text of every event that passes the test contains at least one of the words or a
/// backslash. Empty if no such words are known.
#[derive(Default)]
pub(crate) struct RequiredWords {
    pub(crate) words: Vec<String>,
    /// Sourcetypes with events that can meet the condition although their text contains none of the words.
    pub(crate) except: Vec<String>,
    /// Whether events with index-time fields can meet the condition although their text contains none of the words.
    pub(crate) may_be_indexed: bool,
    /// Events of XML, whose text need not contain the words if it has a mark (`TextMark::XmlValue`).
    pub(crate) xml: Option<Scope>,
}

/// Compiled form of [`RequiredWords`].
#[derive(Default)]
pub(super) struct CompiledWords {
    /// Each word, and parts of it to search for first.
    words: Vec<(usize, Runs)>,
    except: Vec<String>,
    may_be_indexed: bool,
    xml: Option<Scope>,
    /// Number of pages in which the words ruled out few rows.
    fruitless_pages: AtomicUsize,
}

impl CompiledWords {
    /// The words, if every event of the page needs one of them, and if they have ruled out enough rows so far.
    fn words_for(&self, page: &PageReader<'_>) -> &[(usize, Runs)] {
        let metas: &[Metadata] = &page.slab.metas;
        let is_excepted = |meta: &Metadata| self.except.iter().any(|name| meta.sourcetype.eq_ignore_ascii_case(name));
        let is_in_vain = self.fruitless_pages.load(Ordering::Relaxed) >= FRUITLESS_PAGES_MAX;
        let is_exempt = metas.iter().any(is_excepted)
            || (self.may_be_indexed && page.may_hold_fields())
            || self.xml.as_ref().is_some_and(|scope| page.slab.may_divide_xml_values(scope));
        if self.words.is_empty() || is_in_vain || is_exempt { &[] } else { &self.words }
    }
}

/// Parts of a phrase that every text with the phrase contains: whole numbers, then runs of bytes without breakers, the
/// longest first.
#[derive(Default)]
pub(super) struct Runs {
    words: Vec<usize>,
    /// Number of pages in which the runs ruled out few rows.
    fruitless_pages: AtomicUsize,
}

impl Conditions {
    /// Compiles the words that events need to pass a test.
    pub(super) fn compile_required_words(&mut self, written: RequiredWords) -> CompiledWords {
        let RequiredWords { words: mut patterns, except, may_be_indexed, xml } = written;
        if patterns.len() > VALUES_MAX || !patterns.iter().all(|pattern| is_cheap_to_search(pattern)) {
            patterns.clear();
        }
        if !patterns.is_empty() {
            // A text with a backslash may contain the value with escapes.
            patterns.push("*\\*".to_owned());
        }
        let words = patterns.iter().map(|pattern| self.word_and_runs(pattern, WordBound::Breaker, false));
        CompiledWords { words: words.collect(), except, may_be_indexed, xml, fruitless_pages: AtomicUsize::new(0) }
    }

    /// Compiles a phrase, and the numbers and runs that every text with the phrase contains.
    pub(super) fn word(&mut self, pattern: &SearchPattern, bound: WordBound, case_sensitive: bool) -> Condition {
        let (word, runs) = self.word_and_runs(&pattern.text, bound, case_sensitive);
        Condition::Word(word, runs)
    }

    fn word_and_runs(&mut self, pattern: &str, bound: WordBound, case_sensitive: bool) -> (usize, Runs) {
        self.words.push(Word::new(pattern, bound, case_sensitive));
        let word = self.words.len() - 1;
        let is_between =
            |letter: char| letter == '*' || u8::try_from(letter).is_ok_and(|byte| byte.is_ascii() && is_breaker(byte));
        // Runs that may be part of a number or an address would have to be compared with every number, which takes
        // longer than rebuilding texts.
        let is_word = |run: &&str| run.len() >= RUN_BYTES_MIN && has_non_hex_letter(run);
        let mut runs: Vec<&str> = pattern.split(is_between).filter(is_word).collect();
        runs.retain(|run| run.len() < pattern.trim_matches('*').len());
        // Longer runs are usually rarer.
        runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
        runs.dedup();
        // Numbers are even rarer, and cheaper to search for.
        let numbers = whole_numbers(pattern).into_iter().map(str::to_owned);
        let words = numbers.chain(runs.into_iter().map(|run| format!("*{run}*"))).take(RUNS_MAX);
        let words = words.map(|run| {
            self.words.push(Word::new(&run, WordBound::Breaker, case_sensitive));
            self.words.len() - 1
        });
        (word, Runs { words: words.collect(), fruitless_pages: AtomicUsize::new(0) })
    }

    /// The answer of a phrase for every event of a page.
    pub(super) fn answer_word(
        &self,
        at: usize,
        runs: &Runs,
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        let word = &self.words[at];
        let plan = page.slab.word_plan(at, word)?;
        if plan.reads_spans() {
            let possible = self.exclude_by_runs(page.relevant_rows(), runs, page)?;
            if possible.count_undecided(page.len()) == 0 {
                return Ok(Outcome::Same(NO));
            }
            let found = with_row_restriction(&possible, page, |page| word.run(&plan, page))?;
            return Ok(found.where_possible(possible));
        }
        let found = word.run(&plan, page)?;
        self.exclude_by_runs(found, runs, page)
    }

    /// Changes the undecided rows of a field test to no if their text contains none of the required words.
    pub(super) fn exclude_by_required_words(
        &self,
        found: Outcome,
        (field, needed): (&str, &CompiledWords),
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        // If the search extracts the field, events with an index-time field of this name become undecided again, so
        // excluding them here does no harm.
        let words = if page.slab.reads_field(field) { needed.words_for(page) } else { &[] };
        let doubts = found.count_undecided(page.len());
        let found = self.exclude_rows_without(found, words, page)?;
        if !words.is_empty() && found.count_undecided(page.len()) * 2 > doubts {
            needed.fruitless_pages.fetch_add(1, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Tests the rows of a page by the words of the condition alone, without the locations of fields: the answer is
    /// undecided for rows that may match, and no for all other rows. Must not be used for pages with index-time fields.
    pub(in crate::template_pages) fn rows_with_words(&self, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        self.possible_rows(&self.root, page)
    }

    /// Whether [`Conditions::rows_with_words`] may rule out rows of the slab.
    pub(in crate::template_pages) fn requires_words(&self, page: &PageReader<'_>) -> bool {
        let requires = |part: &Condition| match part {
            Condition::Word(..) => true,
            Condition::Field(_, needed) => !needed.words_for(page).is_empty(),
            _ => false,
        };
        match &self.root {
            Condition::And(parts) => parts.iter().any(requires),
            other => requires(other),
        }
    }

    fn possible_rows(&self, condition: &Condition, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        Ok(match condition {
            Condition::Same(answer) => Outcome::Same(*answer),
            Condition::And(parts) => {
                let mut all = Outcome::Same(YES);
                for part in parts {
                    let found = match &all {
                        Outcome::Same(_) => self.possible_rows(part, page)?,
                        Outcome::Each(_) => with_row_restriction(&all, page, |page| self.possible_rows(part, page))?,
                    };
                    all = all.and(found);
                    if all.is_all(NO) {
                        break;
                    }
                }
                all
            }
            Condition::Or(parts) => {
                let mut all = Outcome::Same(NO);
                for part in parts {
                    all = all.or(self.possible_rows(part, page)?);
                }
                all
            }
            Condition::Not(_) => Outcome::Same(UNDECIDED),
            Condition::Word(at, runs) => self.answer_word(*at, runs, page)?,
            Condition::Field(_, needed) => {
                self.exclude_rows_without(Outcome::Same(UNDECIDED), needed.words_for(page), page)?
            }
            Condition::Metadata(at) => self.metas[*at].run(page)?,
        })
    }

    /// Changes the undecided rows of a word test to no if their text lacks one of the word's runs. After a run that
    /// rules out few rows, no further run is tried, because searching for a run takes as long as reading the texts.
    fn exclude_by_runs(&self, found: Outcome, runs: &Runs, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        if runs.words.is_empty() {
            return Ok(found);
        }
        let mut found = found;
        let mut doubts = found.count_undecided(page.len());
        for run in &runs.words {
            if doubts * RARE_UNDECIDED_DIVISOR < page.len()
                || runs.fruitless_pages.load(Ordering::Relaxed) >= FRUITLESS_PAGES_MAX
            {
                break;
            }
            // A run that spans several columns, such as an address in four columns, is left to the test of the phrase
            // itself.
            if page.slab.word_plan(*run, &self.words[*run])?.reads_spans() {
                continue;
            }
            found = self.exclude_rows_without_run(found, *run, page)?;
            let left = found.count_undecided(page.len());
            if left * 2 > doubts {
                runs.fruitless_pages.fetch_add(1, Ordering::Relaxed);
                break;
            }
            doubts = left;
        }
        Ok(found)
    }

    /// Changes the undecided rows of a test to no if their text contains none of the words.
    fn exclude_rows_without(
        &self,
        found: Outcome,
        words: &[(usize, Runs)],
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        if is_decided(&found) || words.is_empty() {
            return Ok(found);
        }
        let mut any = Outcome::Same(NO);
        for (at, runs) in words {
            any = any.or(self.answer_word(*at, runs, page)?);
            if any.is_all(YES) || any.is_all(UNDECIDED) {
                return Ok(found);
            }
        }
        Ok(exclude_absent(found, any, page.len()))
    }

    /// Changes the undecided rows of a test to no if their text does not contain the run.
    fn exclude_rows_without_run(
        &self,
        found: Outcome,
        run: usize,
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        if is_decided(&found) {
            return Ok(found);
        }
        let word = &self.words[run];
        let present = word.run(&*page.slab.word_plan(run, word)?, page)?;
        Ok(exclude_absent(found, present, page.len()))
    }
}

/// Whether no row is undecided.
fn is_decided(found: &Outcome) -> bool {
    match found {
        Outcome::Same(answer) => *answer != UNDECIDED,
        Outcome::Each(answers) => !answers.contains(&UNDECIDED),
    }
}

/// Returns `found`, but with the answer no for undecided rows whose answer in `present` is no.
fn exclude_absent(found: Outcome, present: Outcome, rows: usize) -> Outcome {
    if present.is_all(YES) || present.is_all(UNDECIDED) {
        return found;
    }
    let present = present.into_each(rows);
    let mut answers = found.into_each(rows);
    let absent = answers.iter_mut().zip(present).filter(|(answer, present)| **answer == UNDECIDED && *present == NO);
    absent.for_each(|(answer, _)| *answer = NO);
    Outcome::Each(answers)
}

/// Whether searching for this word takes less time than reading texts. A word that may be part of a number or an
/// address would have to be compared with the digits of every number, and a short word occurs in most texts.
fn is_cheap_to_search(pattern: &str) -> bool {
    let inside = pattern.trim_matches('*');
    let is_whole = inside.len() == pattern.len();
    let is_short_number = inside.len() < NUMBER_DIGITS_MIN && inside.bytes().all(|byte| byte.is_ascii_digit());
    inside.len() >= WORD_BYTES_MIN && !is_short_number && (is_whole || has_non_hex_letter(inside))
}

/// Long numbers and addresses in a phrase that are words of every text with the phrase, because breakers within the
/// phrase, or the ends of the phrase, bound them. Such a number is compared with columns of numbers without formatting
/// the columns' numbers.
fn whole_numbers(phrase: &str) -> Vec<&str> {
    let is_between = |letter: char| {
        letter != '.' && (letter == '*' || u8::try_from(letter).is_ok_and(|byte| byte.is_ascii() && is_breaker(byte)))
    };
    let mut found = Vec::new();
    let mut end = 0;
    for piece in phrase.split(is_between) {
        let start = end;
        let (before, after) = phrase.as_bytes().split_at(start);
        let after = after.get(piece.len());
        // Breakers are single bytes.
        end = start + piece.len() + 1;
        let is_number = piece.len() >= NUMBER_DIGITS_MIN && piece.bytes().all(|byte| byte.is_ascii_digit());
        // After a percent sign, the first digits may be part of an encoded breaker.
        let is_bounded = !matches!(before.last(), Some(b'*' | b'%')) && after != Some(&b'*');
        if is_bounded && piece.len() < phrase.len() && (is_number || parse_ipv4(piece).is_some()) {
            found.push(piece);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_common_in_texts_or_numbers_are_not_searched() {
        for (pattern, expected) in [
            ("3e27e8c421742c31", true),
            ("*3e27e8c421742c31*", false),
            ("*kubelet*", true),
            ("10.1.2.3", true),
            ("12345", true),
            ("404", false),
            ("*I*", false),
            ("I", false),
        ] {
            assert_eq!(is_cheap_to_search(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn words_of_many_values_are_not_searched() {
        for (count, expected) in [(VALUES_MAX, VALUES_MAX + 1), (VALUES_MAX + 1, 0)] {
            let mut conditions =
                Conditions { root: Condition::Same(YES), words: Vec::new(), tests: Vec::new(), metas: Vec::new() };
            let words = (0..count).map(|number| format!("kubelet{number}")).collect();
            let compiled = conditions.compile_required_words(RequiredWords { words, ..RequiredWords::default() });
            assert_eq!(compiled.words.len(), expected, "the words and the backslash");
        }
    }

    #[test]
    fn whole_numbers_are_bounded_on_both_sides() {
        for (phrase, numbers) in [
            ("outside:167.53.205.102/443", vec!["167.53.205.102"]),
            ("TCP connection 90101548", vec!["90101548"]),
            ("id 12345 of 10.0.0.1,67890", vec!["12345", "10.0.0.1", "67890"]),
            ("connection 90101548*", vec![]),
            ("*12345 of", vec![]),
            ("a%2012345 b", vec![]),
            ("port 4431", vec![]),
            ("1.23456 s", vec![]),
            ("x12345 y", vec![]),
            ("90101548", vec![]),
            ("grün 12345", vec!["12345"]),
        ] {
            assert_eq!(whole_numbers(phrase), numbers, "{phrase}");
        }
    }
}
