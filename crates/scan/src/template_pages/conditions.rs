//! The search condition evaluated on codes: for each event of a page yes, no or maybe.
//!
//! Words are handled by [`super::words`]. A field test is evaluated once per distinct text of a dictionary, on typed
//! numbers, or on the values of a page, always with the same filter that tests extracted fields. A value that is equal
//! as a number but not as text must be decided by the event text, because a search for a value also requires it as
//! written. For few rows, only their own values are read ([`point_reads`]).

mod point_reads;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray};
use quarry_eval::EngineError;
use quarry_eval::expr::ExprContext;
use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::row_filter::{RowFilter, network_of};
use quarry_eval::rows;
use quarry_event::Metadata;
use quarry_event::segment::{WordBound, WordPattern, is_breaker};
use quarry_event::template::{ColumnKind, ColumnValues, CountedValues, NumberFormat, TEXT_COLUMN};
use quarry_event::value::{MAX_EXACT_INTEGER, parse_ipv4, parse_number};
use quarry_spl::ast::{CompareOp, SearchExpr, SearchPattern};
use quarry_stdx::number::u32_of;

use super::columns::{field_column, number_texts, text_array};
use super::field_locations::FieldLocations;
use super::outcome::{MAYBE, NO, Outcome, YES};
use super::page::{PageReader, Rows};
use super::slab::Slab;
use super::value_location::ValueLocation;
use super::verdicts::ByValue;
use super::words::Word;
use crate::event_fields::{is_given, is_given_column, is_in_text, metadata_text};

/// Shortest run of a phrase that is searched for by itself, in bytes.
const RUN_MIN: usize = 2;
/// Maximum number of runs searched per phrase.
const RUNS_MAX: usize = 4;
/// If fewer than one in this many rows of a page are in doubt, their texts are rebuilt without looking for runs.
const FEW_DOUBTS: usize = 8;
/// Shortest word of a value that is looked for, in bytes.
const WORD_MIN: usize = 3;
/// Digits of a number from which on it is rare.
const NUMBER_MIN: usize = 5;
/// Number of pages in which searching for runs ruled out little, after which it is given up.
const PAGES_IN_VAIN: usize = 3;

/// A compiled condition with its tests.
pub(crate) struct Conditions {
    root: Condition,
    words: Vec<Word>,
    tests: Vec<FieldTest>,
    metas: Vec<MetadataTest>,
}

enum Condition {
    Same(u8),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    /// A word, and runs that every text with this word contains.
    Word(usize, Runs),
    /// A field test, and words of which at least one must occur in the text; consulted where only the text can decide.
    Field(usize, NeededWords),
    Metadata(usize),
}

/// A test of an extracted field.
pub(super) struct FieldTest {
    name: String,
    filter: RowFilter,
    /// Values that the text must also contain as written.
    as_written: Vec<String>,
    /// The only comparison.
    compare: Option<(CompareOp, String)>,
}

struct MetadataTest {
    field: String,
    filter: RowFilter,
    early: Option<(Vec<WordPattern>, bool)>,
}

/// Evaluation of a field test in one slab.
pub(super) struct FieldPlan {
    /// Answer by key, for templates in which no variable decides.
    base: Vec<u8>,
    columns: Vec<(u32, ColumnPlan)>,
    /// By key: whether the field is composed of several parts; empty if that is never so.
    composite: Vec<bool>,
    /// Whether the field is computed for some events.
    computed: bool,
    /// Whether a single column decides the test.
    alone: bool,
}

/// Evaluation of a field test on a column.
enum ColumnPlan {
    Same(u8),
    Codes(Vec<u8>),
    /// Compared with one number: the answer if equal, and the answer otherwise.
    Equal(i64, u8, u8),
    Integers,
    Decimals(f64),
    Texts,
}

/// Words of which at least one occurs in the text of every event that passes a test, unless the text contains a
/// backslash; none if none is known.
#[derive(Default)]
pub(crate) struct WrittenWords {
    pub(crate) words: Vec<String>,
    /// Sourcetypes whose events may pass without.
    pub(crate) except: Vec<String>,
}

/// The same, compiled.
#[derive(Default)]
struct NeededWords {
    words: Vec<usize>,
    except: Vec<String>,
    /// Pages in which they ruled out little.
    in_vain: AtomicUsize,
}

impl NeededWords {
    /// The words, if all events with this metadata need one, and they have ruled out enough so far.
    fn of(&self, metas: &[Metadata]) -> &[usize] {
        let is_excepted = |meta: &Metadata| self.except.iter().any(|name| meta.sourcetype.eq_ignore_ascii_case(name));
        let is_in_vain = self.in_vain.load(Ordering::Relaxed) >= PAGES_IN_VAIN;
        if self.words.is_empty() || is_in_vain || metas.iter().any(is_excepted) { &[] } else { &self.words }
    }
}

/// Whole numbers of a phrase, and its runs without breakers, the longest first.
#[derive(Default)]
struct Runs {
    words: Vec<usize>,
    /// Pages in which they ruled out little.
    in_vain: AtomicUsize,
}

impl Conditions {
    /// Compiles a condition. `written` returns the words that events need to pass a test.
    pub(crate) fn new(
        expr: &SearchExpr,
        context: &ExprContext,
        written: &dyn Fn(&SearchExpr) -> WrittenWords,
    ) -> Result<Conditions, EngineError> {
        let mut all =
            Conditions { root: Condition::Same(YES), words: Vec::new(), tests: Vec::new(), metas: Vec::new() };
        all.root = match expr {
            // Conjuncts that every event must pass.
            SearchExpr::And(parts) if !parts.is_empty() => {
                let each = parts.iter().map(|part| all.compile_with_words(part, context, written));
                Condition::And(each.collect::<Result<_, _>>()?)
            }
            other => all.compile_with_words(other, context, written)?,
        };
        Ok(all)
    }

    /// Compiles a conjunct together with the words that the text must then contain.
    fn compile_with_words(
        &mut self,
        expr: &SearchExpr,
        context: &ExprContext,
        written: &dyn Fn(&SearchExpr) -> WrittenWords,
    ) -> Result<Condition, EngineError> {
        let mut condition = self.compile(expr, context)?;
        if let Condition::Field(_, needed) = &mut condition {
            let WrittenWords { words: mut patterns, except } = written(expr);
            needed.except = except;
            if !patterns.iter().all(|pattern| is_quickly_found(pattern)) {
                patterns.clear();
            }
            if !patterns.is_empty() {
                // After a backslash, values may be written with escapes.
                patterns.push("*\\*".to_owned());
            }
            for pattern in patterns {
                self.words.push(Word::new(&pattern, WordBound::Breaker, false));
                needed.words.push(self.words.len() - 1);
            }
        }
        Ok(condition)
    }

    /// Whether every event matches.
    pub(super) fn is_always(&self) -> bool {
        matches!(self.root, Condition::Same(YES))
    }

    pub(super) fn words(&self) -> &[Word] {
        &self.words
    }

    pub(super) fn tests(&self) -> &[FieldTest] {
        &self.tests
    }

    fn compile(&mut self, expr: &SearchExpr, context: &ExprContext) -> Result<Condition, EngineError> {
        let mut all =
            |parts: &[SearchExpr]| parts.iter().map(|part| self.compile(part, context)).collect::<Result<Vec<_>, _>>();
        Ok(match expr {
            SearchExpr::All => Condition::Same(YES),
            SearchExpr::And(parts) if parts.is_empty() => Condition::Same(YES),
            SearchExpr::And(parts) => Condition::And(all(parts)?),
            SearchExpr::Or(parts) => Condition::Or(all(parts)?),
            SearchExpr::Not(part) => Condition::Not(Box::new(self.compile(part, context)?)),
            SearchExpr::Keyword(pattern) => self.word(pattern, WordBound::Breaker, false),
            SearchExpr::Term(pattern) => self.word(pattern, WordBound::Major, false),
            SearchExpr::Case(pattern) => self.word(pattern, WordBound::Breaker, true),
            SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } | SearchExpr::Indexed { field, .. } => {
                let name = field.text.clone();
                if METADATA_FIELDS.contains(&name.as_str()) {
                    let filter = RowFilter::new(expr, context)?;
                    self.metas.push(MetadataTest { field: name, filter, early: early_metadata(expr) });
                    Condition::Metadata(self.metas.len() - 1)
                } else if is_given_column(&name) {
                    // Events with an index-time field of this name are decided by their text.
                    Condition::Same(NO)
                } else if field.is_wildcard() || is_given(&name) {
                    Condition::Same(MAYBE)
                } else {
                    self.tests.push(FieldTest::new(expr, name, context)?);
                    Condition::Field(self.tests.len() - 1, NeededWords::default())
                }
            }
            SearchExpr::Subsearch(_) => Condition::Same(MAYBE),
        })
    }

    fn word(&mut self, pattern: &SearchPattern, bound: WordBound, case_sensitive: bool) -> Condition {
        self.words.push(Word::new(&pattern.text, bound, case_sensitive));
        let word = self.words.len() - 1;
        let is_between =
            |letter: char| letter == '*' || u8::try_from(letter).is_ok_and(|byte| byte.is_ascii() && is_breaker(byte));
        // Runs that may be part of a number or an address would be searched for in every one of them, which takes
        // longer than rebuilding texts.
        let is_word = |run: &&str| run.len() >= RUN_MIN && has_letter_beyond_hex(run);
        let mut runs: Vec<&str> = pattern.text.split(is_between).filter(is_word).collect();
        runs.retain(|run| run.len() < pattern.text.len());
        // Longer runs are usually rarer.
        runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
        runs.dedup();
        // Numbers are rarer still, and cheaper to look for.
        let numbers = whole_numbers(&pattern.text).into_iter().map(str::to_owned);
        let words = numbers.chain(runs.into_iter().map(|run| format!("*{run}*"))).take(RUNS_MAX);
        let words = words.map(|run| {
            self.words.push(Word::new(&run, WordBound::Breaker, case_sensitive));
            self.words.len() - 1
        });
        Condition::Word(word, Runs { words: words.collect(), in_vain: AtomicUsize::new(0) })
    }

    /// The answer for every event of a page.
    pub(super) fn run(&self, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        self.answer(&self.root, page)
    }

    /// Whether a tested field is composed of several parts in this slab.
    pub(super) fn tests_composites(&self, slab: &Slab) -> Result<bool, EngineError> {
        for (at, test) in self.tests.iter().enumerate() {
            let plan = slab.test(at, test)?;
            if !plan.composite.is_empty() || plan.computed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a tested field is computed in this slab.
    pub(super) fn tests_computed(&self, slab: &Slab) -> bool {
        self.tests.iter().any(|test| slab.is_computed_for(&test.name))
    }

    /// The answers by value of one column, if a single column decides.
    pub(super) fn by_value(&self, slab: &Slab) -> Result<Option<ByValue>, EngineError> {
        self.answer_by_value(&self.root, slab)
    }

    fn answer_by_value(&self, condition: &Condition, slab: &Slab) -> Result<Option<ByValue>, EngineError> {
        let all = |parts: &[Condition], start: u8, both: fn(u8, u8) -> u8| {
            let mut all = Some(ByValue::Same(start));
            for part in parts {
                let (Some(so_far), Some(part)) = (all, self.answer_by_value(part, slab)?) else { return Ok(None) };
                all = so_far.join(part, both);
            }
            Ok(all)
        };
        match condition {
            Condition::Same(answer) => Ok(Some(ByValue::Same(*answer))),
            Condition::And(parts) => all(parts, YES, u8::min),
            Condition::Or(parts) => all(parts, NO, u8::max),
            Condition::Not(part) => Ok(self.answer_by_value(part, slab)?.map(ByValue::not)),
            Condition::Word(at, _) => Ok(slab.word(*at, &self.words[*at])?.by_value(&slab.template_set)),
            Condition::Field(at, _) => {
                let test = &self.tests[*at];
                test.by_value(slab.test(*at, test)?.as_ref(), slab)
            }
            Condition::Metadata(at) => {
                let answers = self.metas[*at].answers(&slab.metas)?;
                Ok(match answers.split_first() {
                    Some((first, rest)) if rest.iter().all(|answer| answer == first) => Some(ByValue::Same(*first)),
                    _ => None,
                })
            }
        }
    }

    fn answer(&self, condition: &Condition, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        Ok(match condition {
            Condition::Same(answer) => Outcome::Same(*answer),
            Condition::And(parts) => {
                let mut all = Outcome::Same(YES);
                for part in parts {
                    let found = self.answer_where(&all, part, page)?;
                    all = all.and(found);
                    if all.is_same(NO) {
                        break;
                    }
                }
                all
            }
            Condition::Or(parts) => {
                let mut all = Outcome::Same(NO);
                for part in parts {
                    all = all.or(self.answer(part, page)?);
                    if all.is_same(YES) {
                        break;
                    }
                }
                all
            }
            Condition::Not(part) => self.answer(part, page)?.not(),
            Condition::Word(at, runs) => {
                let word = &self.words[*at];
                let plan = page.slab.word(*at, word)?;
                if plan.reads_spans() {
                    let possible = self.without_runs(page.relevant(), runs, page)?;
                    if possible.doubts(page.len()) == 0 {
                        return Ok(Outcome::Same(NO));
                    }
                    let found = with_rest(&possible, page, |page| word.run(&plan, page))?;
                    return Ok(found.where_possible(possible));
                }
                let found = word.run(&plan, page)?;
                self.without_runs(found, runs, page)?
            }
            Condition::Field(at, needed) => {
                let test = &self.tests[*at];
                let plan = page.slab.test(*at, test)?;
                let found = test.run(&plan, page)?;
                // Events with an index-time field of this name become undecided again where the field is read.
                let words = if page.slab.reads(&test.name) { needed.of(&page.slab.metas) } else { &[] };
                let doubts = found.doubts(page.len());
                let found = self.without_absent(found, words, page)?;
                if !words.is_empty() && found.doubts(page.len()) * 2 > doubts {
                    needed.in_vain.fetch_add(1, Ordering::Relaxed);
                }
                found
            }
            Condition::Metadata(at) => self.metas[*at].run(page)?,
        })
    }

    /// The answer of a condition for the rows whose answer in the rest of a conjunction is not no.
    fn answer_where(
        &self,
        rest: &Outcome,
        condition: &Condition,
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        match rest {
            Outcome::Same(_) => self.answer(condition, page),
            Outcome::Each(_) => with_rest(rest, page, |page| self.answer(condition, page)),
        }
    }

    /// Turns a word's maybes into no where the text lacks one of its runs. A run that rules out few is the last one
    /// tried; it took as long as reading the texts.
    fn without_runs(&self, found: Outcome, runs: &Runs, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        if runs.words.is_empty() {
            return Ok(found);
        }
        let mut found = found;
        let mut doubts = found.doubts(page.len());
        for run in &runs.words {
            if doubts * FEW_DOUBTS < page.len() || runs.in_vain.load(Ordering::Relaxed) >= PAGES_IN_VAIN {
                break;
            }
            // An address in four columns is looked for with the phrase.
            if page.slab.word(*run, &self.words[*run])?.reads_spans() {
                continue;
            }
            found = self.without_absent(found, std::slice::from_ref(run), page)?;
            let left = found.doubts(page.len());
            if left * 2 > doubts {
                runs.in_vain.fetch_add(1, Ordering::Relaxed);
                break;
            }
            doubts = left;
        }
        Ok(found)
    }

    /// Turns a test's maybes into no where the text contains none of the words.
    fn without_absent(
        &self,
        found: Outcome,
        words: &[usize],
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        let is_told = match &found {
            Outcome::Same(answer) => *answer != MAYBE,
            Outcome::Each(answers) => !answers.contains(&MAYBE),
        };
        if is_told || words.is_empty() {
            return Ok(found);
        }
        let mut any = Outcome::Same(NO);
        for at in words {
            let word = &self.words[*at];
            let plan = page.slab.word(*at, word)?;
            any = any.or(word.run(&plan, page)?);
            if any.is_same(YES) || any.is_same(MAYBE) {
                return Ok(found);
            }
        }
        let any = any.into_each(page.len());
        let mut answers = found.into_each(page.len());
        let absent = answers.iter_mut().zip(any).filter(|(answer, any)| **answer == MAYBE && *any == NO);
        absent.for_each(|(answer, _)| *answer = NO);
        Ok(Outcome::Each(answers))
    }
}

/// Runs `ask` where these answers, and those of an outer conjunction, are not no.
fn with_rest<T>(
    rest: &Outcome,
    page: &mut PageReader<'_>,
    ask: impl FnOnce(&mut PageReader<'_>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let outer = page.rest.take();
    page.rest = Some(match &outer {
        Some(outer) => outer.clone().and(rest.clone()),
        None => rest.clone(),
    });
    let found = ask(page);
    page.rest = outer;
    found
}

/// Whether looking for this word takes less time than reading texts. One that may be part of a number or an address
/// would be looked for in the digits of each, and a short one is in most texts.
fn is_quickly_found(pattern: &str) -> bool {
    let inside = pattern.trim_matches('*');
    let is_whole = inside.len() == pattern.len();
    let is_short_number = inside.len() < NUMBER_MIN && inside.bytes().all(|byte| byte.is_ascii_digit());
    inside.len() >= WORD_MIN && !is_short_number && (is_whole || has_letter_beyond_hex(inside))
}

/// Whether no number has this in it, hexadecimal ones included.
fn has_letter_beyond_hex(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte | 0x20, b'g'..=b'z'))
}

/// Long numbers and addresses that are words of every text with this phrase, since what bounds them is part of the
/// phrase or bounds it. They are compared with columns of numbers without formatting any.
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
        let is_number = piece.len() >= NUMBER_MIN && piece.bytes().all(|byte| byte.is_ascii_digit());
        // Behind a percent sign, the first digits may be part of an encoded breaker.
        let is_bounded = !matches!(before.last(), Some(b'*' | b'%')) && after != Some(&b'*');
        if is_bounded && piece.len() < phrase.len() && (is_number || parse_ipv4(piece).is_some()) {
            found.push(piece);
        }
    }
    found
}

/// The patterns of the early metadata test, and whether one of them must match or none may.
fn early_metadata(expr: &SearchExpr) -> Option<(Vec<WordPattern>, bool)> {
    let whole = |value: &SearchPattern, case| WordPattern::new(&value.text, WordBound::Whole, case);
    match expr {
        SearchExpr::Compare { op: CompareOp::Eq, value, case_sensitive, .. } => {
            Some((vec![whole(value, *case_sensitive)], true))
        }
        SearchExpr::Compare { op: CompareOp::Ne, value, case_sensitive, .. } => {
            Some((vec![whole(value, *case_sensitive)], false))
        }
        SearchExpr::In { values, .. } => Some((values.iter().map(|value| whole(value, false)).collect(), true)),
        SearchExpr::Indexed { value, .. } => Some((vec![whole(value, false)], true)),
        _ => None,
    }
}

impl MetadataTest {
    fn answers(&self, metas: &[Metadata]) -> Result<Vec<u8>, EngineError> {
        let texts: Vec<&str> = metas.iter().map(|meta| metadata_text(meta, &self.field)).collect();
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
        let exact = self.filter.matches(&rows::batch_of([(self.field.as_str(), array)], texts.len())?)?;
        let answers = texts.iter().zip(exact.values()).map(|(text, exact)| {
            let early = self.early.as_ref().map_or(exact, |(patterns, wanted)| {
                patterns.iter().any(|pattern| pattern.is_match(text.as_bytes())) == *wanted
            });
            match (early, exact) {
                (true, true) => YES,
                (false, false) => NO,
                _ => MAYBE,
            }
        });
        Ok(answers.collect())
    }

    fn run(&self, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let answers = self.answers(&page.slab.metas)?;
        match answers.split_first() {
            Some((first, rest)) if rest.iter().all(|answer| answer == first) => Ok(Outcome::Same(*first)),
            _ => Ok(Outcome::by_code(&page.metas()?, &answers)),
        }
    }
}

impl FieldTest {
    fn new(expr: &SearchExpr, name: String, context: &ExprContext) -> Result<FieldTest, EngineError> {
        let (values, compare) = match expr {
            SearchExpr::Compare { op: CompareOp::Eq, value, .. } => {
                (vec![value], Some((CompareOp::Eq, value.text.clone())))
            }
            SearchExpr::Compare { op, value, .. } => (Vec::new(), Some((*op, value.text.clone()))),
            SearchExpr::In { values, .. } => (values.iter().collect(), None),
            SearchExpr::Indexed { value, .. } => (vec![value], Some((CompareOp::Eq, value.text.clone()))),
            _ => (Vec::new(), None),
        };
        let as_written = match values.iter().all(|value| is_in_text(&name, value)) {
            true => values.iter().map(|value| value.text.clone()).collect(),
            false => Vec::new(),
        };
        Ok(FieldTest { filter: RowFilter::new(expr, context)?, name, as_written, compare })
    }

    /// The field.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The answers for values as they occur in the text.
    fn of_texts(&self, texts: &ArrayRef) -> Result<Vec<u8>, EngineError> {
        let reader = rows::ColumnReader::new(texts);
        let mut scratch = String::new();
        let mut answers = self.of_values(texts)?;
        if self.as_written.is_empty() {
            return Ok(answers);
        }
        for (row, answer) in answers.iter_mut().enumerate().filter(|(_, answer)| **answer == YES) {
            let text = reader.text(row, &mut scratch).unwrap_or_default();
            if !self.as_written.iter().any(|value| value.eq_ignore_ascii_case(text)) {
                *answer = MAYBE;
            }
        }
        Ok(answers)
    }

    fn of_values(&self, values: &ArrayRef) -> Result<Vec<u8>, EngineError> {
        let found = self.filter.matches(&rows::batch_of([(self.name.as_str(), Arc::clone(values))], values.len())?)?;
        Ok(found.values().iter().map(|found| if found { YES } else { NO }).collect())
    }

    /// Evaluation of the test in a slab.
    pub(super) fn plan(&self, slab: &Slab) -> Result<FieldPlan, EngineError> {
        let Some(field) = slab.field(&self.name) else {
            let (base, columns, computed) = (vec![MAYBE; slab.keys()], Vec::new(), slab.is_computed_for(&self.name));
            return Ok(FieldPlan { base, columns, composite: Vec::new(), computed, alone: false });
        };
        let mut base = vec![NO; slab.keys()];
        let mut columns: Vec<(u32, ColumnPlan)> = Vec::new();
        let mut composite = Vec::new();
        for (key, place) in field.places.iter().enumerate() {
            match place {
                // Values found by a pattern are tested on the text.
                _ if field.is_patterned(key as u32) || field.is_doubted(key as u32) => base[key] = MAYBE,
                ValueLocation::Absent => {}
                ValueLocation::Constant(text) => {
                    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values([text]));
                    base[key] = self.of_texts(&array)?.first().copied().unwrap_or(MAYBE);
                }
                ValueLocation::Nested(nested) if !nested.has_escapes() => {
                    for value in &nested.values {
                        if !columns.iter().any(|(known, _)| *known == value.column) {
                            columns.push((value.column, self.column_plan(value.column, slab)?));
                        }
                    }
                }
                ValueLocation::Composite(_)
                | ValueLocation::Escaped(_)
                | ValueLocation::Doubled(_)
                | ValueLocation::Pair(_)
                | ValueLocation::Nested(_)
                | ValueLocation::Derived => {
                    base[key] = MAYBE;
                    composite.resize(slab.keys(), false);
                    composite[key] = true;
                }
                ValueLocation::Text => base[key] = MAYBE,
                ValueLocation::Variable(column) => {
                    if !columns.iter().any(|(known, _)| known == column) {
                        columns.push((*column, self.column_plan(*column, slab)?));
                    }
                }
            }
        }
        Ok(FieldPlan {
            base,
            columns,
            composite,
            computed: slab.is_computed_for(&self.name),
            alone: field.column.is_some() && field.patterned.is_empty() && !field.by_text,
        })
    }

    fn column_plan(&self, column: u32, slab: &Slab) -> Result<ColumnPlan, EngineError> {
        match &slab.template_set.columns[column as usize].kind {
            ColumnKind::Dictionary { .. } => {
                let answers = self.of_texts(&slab.values(column)?)?;
                Ok(match answers.first() {
                    Some(first) if answers.iter().all(|answer| answer == first) => ColumnPlan::Same(*first),
                    _ => ColumnPlan::Codes(answers),
                })
            }
            ColumnKind::Numbers { format, min, max } => Ok(self.number_plan(*format, *min, *max)),
            _ => Ok(ColumnPlan::Texts),
        }
    }

    /// Numbers are compared as numbers where the text comparison agrees.
    fn number_plan(&self, format: NumberFormat, min: i64, max: i64) -> ColumnPlan {
        let Some((op, value)) = &self.compare else { return ColumnPlan::Texts };
        let exact = MAX_EXACT_INTEGER as i64;
        let is_exact = min >= -exact && max <= exact;
        let plain = !value.contains('*') && network_of(value).is_none();
        let is_number = parse_number(value).is_some();
        let (met, other) = match op {
            CompareOp::Eq => (YES, NO),
            CompareOp::Ne => (NO, YES),
            _ if !is_exact || !is_number => return ColumnPlan::Texts,
            _ => {
                return match format {
                    NumberFormat::Integer => ColumnPlan::Integers,
                    NumberFormat::Decimal { digits } => ColumnPlan::Decimals(10f64.powi(i32::from(digits))),
                    _ => ColumnPlan::Texts,
                };
            }
        };
        let typed = match format {
            NumberFormat::Integer | NumberFormat::Decimal { .. } => is_exact,
            NumberFormat::Ip4 | NumberFormat::Time(_) => true,
            NumberFormat::Padded { .. } | NumberFormat::Hex { .. } => !is_number,
        };
        match format.parse(value.as_bytes()) {
            Some(number) if typed && plain && (number < min || number > max) => ColumnPlan::Same(other),
            Some(number) if typed && plain => ColumnPlan::Equal(number, met, other),
            _ => ColumnPlan::Texts,
        }
    }

    /// The answer for every event of a page.
    fn run(&self, plan: &FieldPlan, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        if let ([(column, test)], true) = (plan.columns.as_slice(), plan.alone) {
            let found = self.of_column(*column, test, page)?;
            if found.is_same(NO) {
                return Ok(found);
            }
            let values = page.column(*column)?;
            let Some(rows) = &values.rows else { return Ok(found) };
            let mut each = vec![NO; page.len()];
            found.above_no(rows.len()).for_each(|(place, answer)| each[rows[place] as usize] = answer);
            return Ok(Outcome::Each(each));
        }
        let asks_composites = page.open.is_some() && (!plan.composite.is_empty() || plan.computed);
        if plan.columns.is_empty()
            && !asks_composites
            && let Some((first, rest)) = plan.base.split_first()
            && rest.iter().all(|answer| answer == first)
        {
            return Ok(Outcome::Same(*first));
        }
        let keys = page.keys()?;
        let mut each = Outcome::by_code(&keys, &plan.base).into_each(keys.len());
        if plan.computed {
            self.ask_computed(&mut each, page)?;
        }
        let Some(field) = page.slab.field(&self.name) else { return Ok(Outcome::Each(each)) };
        for (column, test) in &plan.columns {
            let found = self.of_column(*column, test, page)?;
            if found.is_same(NO) {
                continue;
            }
            let values = page.column(*column)?;
            for (place, answer) in found.above_no(values.values.len()) {
                let row = values.rows.as_ref().map_or(place, |rows| rows[place] as usize);
                let key = keys[row];
                let is_there = field.places.get(key as usize).is_some_and(|place| place.is_value_of(*column));
                if is_there && !field.is_patterned(key) && !field.is_doubted(key) {
                    each[row] = answer;
                }
            }
        }
        if asks_composites && !plan.composite.is_empty() {
            self.ask_composites(field, plan, &keys, &mut each, page)?;
        }
        page.rows_with_several(&field.repeating)?.into_iter().for_each(|row| each[row as usize] = MAYBE);
        Ok(Outcome::Each(each))
    }

    /// Decides open rows in which the field is composed of several parts, from the field's text.
    fn ask_composites(
        &self,
        field: &FieldLocations,
        plan: &FieldPlan,
        keys: &[u32],
        each: &mut [u8],
        page: &mut PageReader<'_>,
    ) -> Result<(), EngineError> {
        let is_composite = |row: &u32| plan.composite[keys[*row as usize] as usize];
        let rows: Vec<u32> = page.open.iter().flatten().copied().filter(is_composite).collect();
        let rows = Rows::Some(rows);
        if rows.is_empty() {
            return Ok(());
        }
        if let Some(texts) = field_column(field, &rows, page)? {
            let answers = self.of_texts(&texts)?;
            rows.iter().zip(answers).for_each(|(row, answer)| each[row as usize] = answer);
        }
        Ok(())
    }

    /// Decides rows for which the field was computed.
    fn ask_computed(&self, each: &mut [u8], page: &mut PageReader<'_>) -> Result<(), EngineError> {
        let Some(computed) = page.computed.take() else { return Ok(()) };
        let answers = match computed.column(&self.name) {
            Some(values) => self.of_values(values)?,
            None => vec![NO; computed.rows().len()],
        };
        let values = computed.column(&self.name).filter(|_| !self.as_written.is_empty()).map(rows::ColumnReader::new);
        let unwritten = page.slab.computed().and_then(|computed| computed.unwritten(&self.name));
        let metas = match unwritten {
            Some(unwritten) if unwritten.contains(&false) => Some(page.metas()?),
            _ => None,
        };
        // Rules may produce a value that the text does not contain; other values occur in the text as searched for.
        let is_free = |row: u32| match (unwritten, &metas) {
            (Some(unwritten), Some(metas)) => unwritten.get(metas[row as usize] as usize) == Some(&true),
            (unwritten, _) => unwritten.is_some(),
        };
        let mut scratch = String::new();
        for (place, (row, answer)) in computed.rows().iter().zip(answers).enumerate() {
            let is_written = |text: Option<&str>| {
                text.is_some_and(|text| self.as_written.iter().any(|value| value.eq_ignore_ascii_case(text)))
            };
            each[row as usize] = match &values {
                Some(values) if answer == YES && !is_free(row) && !is_written(values.text(place, &mut scratch)) => {
                    MAYBE
                }
                _ => answer,
            };
        }
        page.computed = Some(computed);
        Ok(())
    }

    /// The answers for the values of a column.
    fn of_column(&self, column: u32, plan: &ColumnPlan, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        if let ColumnPlan::Same(answer) = plan {
            return Ok(Outcome::Same(*answer));
        }
        if let ColumnPlan::Equal(wanted, _, other) = plan
            && page.holds_number(column, *wanted)? == Some(false)
        {
            return Ok(Outcome::Same(*other));
        }
        let values = page.column(column)?;
        Ok(match (plan, &values.values) {
            (ColumnPlan::Codes(answers), ColumnValues::Codes(codes)) => Outcome::by_code(codes, answers),
            (ColumnPlan::Texts, _) => Outcome::Each(self.of_texts(&texts_of(column, page)?)?),
            (plan, ColumnValues::Numbers(numbers)) => {
                self.of_numbers(plan, numbers)?.map_or(Outcome::Same(MAYBE), Outcome::Each)
            }
            _ => Outcome::Same(MAYBE),
        })
    }

    /// The answers for numbers compared as numbers.
    fn of_numbers(&self, plan: &ColumnPlan, numbers: &[i64]) -> Result<Option<Vec<u8>>, EngineError> {
        let array: ArrayRef = match plan {
            ColumnPlan::Equal(wanted, met, other) => {
                let answer = |number: &i64| if number == wanted { *met } else { *other };
                return Ok(Some(numbers.iter().map(answer).collect()));
            }
            ColumnPlan::Integers => Arc::new(numbers.iter().copied().collect::<Int64Array>()),
            // Both operands are exact, so the quotient is the double nearest to the decimal.
            ColumnPlan::Decimals(unit) => {
                Arc::new(numbers.iter().map(|number| Some(*number as f64 / unit)).collect::<Float64Array>())
            }
            ColumnPlan::Same(_) | ColumnPlan::Codes(_) | ColumnPlan::Texts => return Ok(None),
        };
        self.of_values(&array).map(Some)
    }

    /// The answers by value of one column, if a single column decides.
    fn by_value(&self, plan: &FieldPlan, slab: &Slab) -> Result<Option<ByValue>, EngineError> {
        if let ([(column, test)], true) = (plan.columns.as_slice(), plan.alone) {
            let answers = self.of_counted(*column, test, slab)?;
            return Ok(answers.map(|answers| ByValue::Values { column: *column, answers, rest: NO }));
        }
        if !plan.columns.is_empty() {
            return Ok(None);
        }
        Ok(match plan.base.split_first() {
            Some((first, rest)) if rest.iter().all(|answer| answer == first) => Some(ByValue::Same(*first)),
            // With one class, a key is a template number.
            Some(_) if slab.classes() == 1 => {
                Some(ByValue::Values { column: TEXT_COLUMN, answers: plan.base.clone(), rest: NO })
            }
            _ => None,
        })
    }

    /// The answers for the counted values of a column.
    fn of_counted(&self, column: u32, test: &ColumnPlan, slab: &Slab) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(counts) = slab.template_set.counts.get(&column) else { return Ok(None) };
        match (test, counts.values(), &slab.template_set.columns[column as usize].kind) {
            (ColumnPlan::Same(answer), values, _) => Ok(Some(vec![*answer; values.len()])),
            (ColumnPlan::Codes(answers), CountedValues::Codes(_), _) => Ok(Some(answers.clone())),
            (ColumnPlan::Texts, CountedValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
                let texts = number_texts(numbers.iter().map(|number| Some(*number)), *format)?;
                self.of_texts(&texts).map(Some)
            }
            (test, CountedValues::Numbers(numbers), _) => self.of_numbers(test, numbers),
            _ => Ok(None),
        }
    }
}

/// The values of a column in a page as texts.
fn texts_of(column: u32, page: &mut PageReader<'_>) -> Result<ArrayRef, EngineError> {
    let values = page.column(column)?;
    match (&values.values, &page.template_set().columns[column as usize].kind) {
        (ColumnValues::Texts { bytes, ends }, _) => text_array(bytes, ends),
        (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
            number_texts(numbers.iter().map(|number| Some(*number)), *format)
        }
        _ => {
            let rows: Vec<u32> = match &values.rows {
                Some(rows) => rows.to_vec(),
                None => (0..u32_of(values.values.len())).collect(),
            };
            let texts = page.texts(column, &rows)?;
            text_array(&texts.bytes, &texts.ends)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_in_most_texts_or_in_most_numbers_are_not_looked_for() {
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
            assert_eq!(is_quickly_found(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn numbers_of_a_phrase_are_those_bounded_on_both_sides() {
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
