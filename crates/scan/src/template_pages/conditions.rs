//! The search condition evaluated on codes, in three-valued logic: yes, no or undecided for each event of a page.
//!
//! A [`Conditions`] is the tree of a condition; its leaves are words ([`super::words`]), field tests ([`field_test`])
//! and metadata tests. If only the text can decide, the words that a matching text must contain are searched for first
//! ([`required_words`]). If few rows of a page remain, only the values of these rows are read ([`point_reads`]).

mod field_plan;
mod field_test;
mod metadata_test;
mod planning;
mod point_reads;
mod required_words;

use quarry_eval::EngineError;
use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::row_filter::NumberRule;
use quarry_event::segment::WordBound;
use quarry_spl::ast::SearchExpr;

pub(super) use self::field_plan::FieldPlan;
use self::field_test::FieldTest;
use self::metadata_test::MetadataTest;
pub(crate) use self::required_words::RequiredWords;
use self::required_words::{CompiledWords, Runs};
use super::by_value::ByValue;
use super::outcome::{NO, Outcome, UNDECIDED, YES};
use super::page::PageReader;
use super::slab::Slab;
use super::words::Word;
use crate::event_fields::{is_index_time_column, is_intrinsic_field};

/// A compiled condition with its tests.
pub(crate) struct Conditions {
    root: Condition,
    words: Vec<Word>,
    tests: Vec<FieldTest>,
    metas: Vec<MetadataTest>,
}

enum Condition {
    /// The same answer for every event.
    Same(u8),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    /// A word or phrase, and parts of it to search for first.
    Word(usize, Runs),
    /// A field test, and its required words, which are consulted if only the text can decide.
    Field(usize, CompiledWords),
    Metadata(usize),
}

impl Conditions {
    /// Compiles a condition. `numbers` determines how numbers are compared. `written` returns the words that all texts
    /// matched by an expression contain.
    pub(crate) fn new(
        expr: &SearchExpr,
        numbers: NumberRule<'_>,
        written: &dyn Fn(&SearchExpr) -> RequiredWords,
    ) -> Result<Conditions, EngineError> {
        let mut all =
            Conditions { root: Condition::Same(YES), words: Vec::new(), tests: Vec::new(), metas: Vec::new() };
        all.root = match expr {
            // Every event must pass each of these conjuncts, so required words can be used for each.
            SearchExpr::And(parts) if !parts.is_empty() => {
                let each = parts.iter().map(|part| all.compile_with_words(part, numbers, written));
                Condition::And(each.collect::<Result<_, _>>()?)
            }
            other => all.compile_with_words(other, numbers, written)?,
        };
        Ok(all)
    }

    /// Compiles a conjunct together with its required words.
    fn compile_with_words(
        &mut self,
        expr: &SearchExpr,
        numbers: NumberRule<'_>,
        written: &dyn Fn(&SearchExpr) -> RequiredWords,
    ) -> Result<Condition, EngineError> {
        let mut condition = self.compile(expr, numbers)?;
        // A test of index-time values requires no words, because the text need not contain such a value.
        if let Condition::Field(at, needed) = &mut condition
            && !is_index_time_column(self.tests[*at].name())
        {
            *needed = self.compile_required_words(written(expr));
        }
        Ok(condition)
    }

    /// Whether every event matches the condition.
    pub(super) fn is_always(&self) -> bool {
        matches!(self.root, Condition::Same(YES))
    }

    pub(super) fn words(&self) -> &[Word] {
        &self.words
    }

    /// Names of the tested fields, in order.
    pub(super) fn tested_fields(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().map(FieldTest::name)
    }

    fn compile(&mut self, expr: &SearchExpr, numbers: NumberRule<'_>) -> Result<Condition, EngineError> {
        let mut all =
            |parts: &[SearchExpr]| parts.iter().map(|part| self.compile(part, numbers)).collect::<Result<Vec<_>, _>>();
        Ok(match expr {
            SearchExpr::All => Condition::Same(YES),
            SearchExpr::And(parts) if parts.is_empty() => Condition::Same(YES),
            SearchExpr::And(parts) => Condition::And(all(parts)?),
            SearchExpr::Or(parts) => Condition::Or(all(parts)?),
            SearchExpr::Not(part) => Condition::Not(Box::new(self.compile(part, numbers)?)),
            SearchExpr::Keyword(pattern) => self.word(pattern, WordBound::Breaker, false),
            SearchExpr::Term(pattern) => self.word(pattern, WordBound::Major, false),
            SearchExpr::Case(pattern) => self.word(pattern, WordBound::Breaker, true),
            SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } | SearchExpr::Indexed { field, .. } => {
                let name = field.text.clone();
                if METADATA_FIELDS.contains(&name.as_str()) {
                    self.metas.push(MetadataTest::new(expr, name)?);
                    Condition::Metadata(self.metas.len() - 1)
                } else if field.is_wildcard() || is_intrinsic_field(&name) {
                    Condition::Same(UNDECIDED)
                } else {
                    self.tests.push(FieldTest::new(expr, name, numbers)?);
                    Condition::Field(self.tests.len() - 1, CompiledWords::default())
                }
            }
            SearchExpr::Subsearch(_) => Condition::Same(UNDECIDED),
        })
    }

    /// The answer for every event of a page.
    pub(super) fn run(&self, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        self.evaluate(&self.root, page)
    }

    /// Whether a tested field has values that are composed from columns ([`FieldPlan::composite`]) or computed in this
    /// slab.
    pub(super) fn tests_composites(&self, slab: &Slab) -> Result<bool, EngineError> {
        for (at, test) in self.tests.iter().enumerate() {
            let plan = slab.test_plan(at, || test.plan(slab))?;
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

    /// The answers by value of one column, if the condition depends on that column only.
    pub(super) fn by_value(&self, slab: &Slab) -> Result<Option<ByValue>, EngineError> {
        self.evaluate_by_value(&self.root, slab)
    }

    fn evaluate_by_value(&self, condition: &Condition, slab: &Slab) -> Result<Option<ByValue>, EngineError> {
        let all = |parts: &[Condition], start: u8, both: fn(u8, u8) -> u8| {
            let mut all = Some(ByValue::Same(start));
            for part in parts {
                let (Some(so_far), Some(part)) = (all, self.evaluate_by_value(part, slab)?) else { return Ok(None) };
                all = so_far.join(part, both);
            }
            Ok(all)
        };
        match condition {
            Condition::Same(answer) => Ok(Some(ByValue::Same(*answer))),
            Condition::And(parts) => all(parts, YES, u8::min),
            Condition::Or(parts) => all(parts, NO, u8::max),
            Condition::Not(part) => Ok(self.evaluate_by_value(part, slab)?.map(ByValue::not)),
            Condition::Word(at, _) => Ok(slab.word_plan(*at, &self.words[*at])?.by_value(&slab.template_set)),
            Condition::Field(at, _) => {
                let test = &self.tests[*at];
                test.by_value(slab.test_plan(*at, || test.plan(slab))?.as_ref(), slab)
            }
            Condition::Metadata(at) => {
                let answers = self.metas[*at].test_metadata(&slab.metas)?;
                Ok(match answers.split_first() {
                    Some((first, rest)) if rest.iter().all(|answer| answer == first) => Some(ByValue::Same(*first)),
                    _ => None,
                })
            }
        }
    }

    fn evaluate(&self, condition: &Condition, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        Ok(match condition {
            Condition::Same(answer) => Outcome::Same(*answer),
            Condition::And(parts) => {
                let mut all = Outcome::Same(YES);
                for part in parts {
                    let found = self.evaluate_where_possible(&all, part, page)?;
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
                    all = all.or(self.evaluate(part, page)?);
                    if all.is_all(YES) {
                        break;
                    }
                }
                all
            }
            Condition::Not(part) => self.evaluate(part, page)?.not(),
            Condition::Word(at, runs) => self.answer_word(*at, runs, page)?,
            Condition::Field(at, needed) => {
                let test = &self.tests[*at];
                let plan = page.slab.test_plan(*at, || test.plan(page.slab))?;
                let found = test.run(&plan, page)?;
                self.exclude_by_required_words(found, (test.name(), needed), page)?
            }
            Condition::Metadata(at) => self.metas[*at].run(page)?,
        })
    }

    /// Evaluates a part of a conjunction for the rows that the parts before it do not reject.
    fn evaluate_where_possible(
        &self,
        rest: &Outcome,
        condition: &Condition,
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        match rest {
            Outcome::Same(_) => self.evaluate(condition, page),
            Outcome::Each(_) => with_row_restriction(rest, page, |page| self.evaluate(condition, page)),
        }
    }
}

/// Runs `ask` for rows that neither these answers nor the answers of an outer conjunction reject.
fn with_row_restriction<T>(
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
