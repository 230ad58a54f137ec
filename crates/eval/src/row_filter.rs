//! Conditions of `search` on rows: field tests, keywords on `_raw`, AND, OR, NOT.
//!
//! A condition is compiled once and evaluated column-wise. Each test examines only rows that are still undecided, and
//! tests of `_raw`, which are the most expensive, come last within the same AND or OR.
//!
//! Unlike in `where`, values are literals and comparison is case-insensitive. A row without the field passes no test
//! of that field, including `!=`, but it does pass `NOT field=x`. A multivalue passes if one of its values does.
//! `field::value` compares texts; how `=` compares numbers depends on where the condition stands ([`NumberEquality`]).
//!
//! Not here: pruning of events by terms and time before they are read.

mod field;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::record_batch::RecordBatch;
use quarry_event::segment::{WordBound, WordPattern};
use quarry_spl::ast::{CompareOp, FieldPattern, SearchExpr, SearchPattern};

use crate::EngineError;
use crate::expr::ExprContext;
use crate::pattern::Wildcard;
use crate::rows::{self, ColumnReader};

pub use field::network_of;
use field::{FieldTest, ValueTest};

/// The column that keywords are compared with.
const RAW_FIELD: &str = "_raw";

/// A compiled search condition.
#[derive(Clone, Debug)]
pub struct RowFilter {
    test: FilterNode,
}

#[derive(Clone, Debug)]
enum FilterNode {
    All,
    And(Vec<FilterNode>),
    Or(Vec<FilterNode>),
    Not(Box<FilterNode>),
    Raw(Box<WordPattern>),
    Field(FieldName, FieldTest),
}

#[derive(Clone, Debug)]
enum FieldName {
    Plain(String),
    Pattern(Wildcard),
}

/// Rule by which `=` and `!=` consider a value equal to a number of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberEquality {
    /// If value and number are equal as numbers: `01` and `1e0` equal `1`.
    Value,
    /// If the value is the number as written, or another spelling of the number ([`quarry_event::value::spelling`]) in
    /// a row whose `_raw` contains the number as a word.
    Word,
    /// If the value is the number as written.
    Text,
}

/// The rule for a field and a value of a condition; the last argument says whether the comparison is part of a NOT or
/// its operator is `!=`.
pub type NumberRule<'a> = &'a dyn Fn(&str, &str, bool) -> NumberEquality;

impl RowFilter {
    /// Compiles a condition. Subsearches must already be replaced by their results.
    pub fn new(expr: &SearchExpr, _: &ExprContext) -> Result<RowFilter, EngineError> {
        RowFilter::with_number_rule(expr, &|_, _, _| NumberEquality::Value)
    }

    /// Like [`RowFilter::new`], with a rule for the numbers of the condition.
    pub fn with_number_rule(expr: &SearchExpr, rule: NumberRule<'_>) -> Result<RowFilter, EngineError> {
        Ok(RowFilter { test: compile(expr, rule)? })
    }

    /// Whether the condition tests `_raw` for words.
    pub fn reads_text(&self) -> bool {
        self.test.reads_text()
    }

    /// Parses and compiles the text of a condition, for `searchmatch()`.
    pub fn parse(text: &str, context: &ExprContext) -> Result<RowFilter, EngineError> {
        let expr = quarry_spl::parse_condition(text).map_err(|remarks| {
            let reason = remarks.first().map_or_else(|| "it cannot be read".to_owned(), ToString::to_string);
            EngineError::invalid(format!("search condition '{text}': {reason}"))
        })?;
        RowFilter::new(&expr, context)
    }

    /// The rows that pass; never null.
    pub fn matches(&self, rows: &RecordBatch) -> Result<BooleanArray, EngineError> {
        let everything = BooleanBuffer::new_set(rows.num_rows());
        Ok(BooleanArray::new(self.test.run(rows, &everything), None))
    }
}

fn compile(expr: &SearchExpr, rule: NumberRule<'_>) -> Result<FilterNode, EngineError> {
    let word = |pattern: &SearchPattern, bound, case_sensitive| {
        FilterNode::Raw(Box::new(WordPattern::new(&pattern.text, bound, case_sensitive)))
    };
    Ok(match expr {
        SearchExpr::All => FilterNode::All,
        SearchExpr::And(parts) => FilterNode::combine(compile_parts(parts, rule)?, FilterNode::And),
        SearchExpr::Or(parts) => FilterNode::combine(merge_alternatives(compile_parts(parts, rule)?), FilterNode::Or),
        SearchExpr::Not(part) => {
            let negated = |field: &str, value: &str, _: bool| rule(field, value, true);
            FilterNode::Not(Box::new(compile(part, &negated)?))
        }
        SearchExpr::Keyword(pattern) => word(pattern, WordBound::Breaker, false),
        SearchExpr::Term(pattern) => word(pattern, WordBound::Major, false),
        SearchExpr::Case(pattern) => word(pattern, WordBound::Breaker, true),
        SearchExpr::Compare { field, op, value, case_sensitive } => {
            let numbers = rule(&field.text, &value.text, *op == CompareOp::Ne);
            let test = ValueTest::new(*op, &value.text, *case_sensitive, numbers);
            FilterNode::Field(name_of(field), FieldTest::new(vec![test]))
        }
        SearchExpr::In { field, values } => {
            let tests = values
                .iter()
                .map(|value| ValueTest::new(CompareOp::Eq, &value.text, false, rule(&field.text, &value.text, false)));
            FilterNode::Field(name_of(field), FieldTest::new(tests.collect()))
        }
        SearchExpr::Indexed { field, value } => {
            FilterNode::Field(name_of(field), FieldTest::new(vec![ValueTest::of_term(&value.text)]))
        }
        SearchExpr::Subsearch(pipeline) => {
            return Err(EngineError::Invalid {
                message: "a subsearch cannot be used here; run it first and write its result".to_owned(),
                span: Some(pipeline.span),
            });
        }
    })
}

fn compile_parts(parts: &[SearchExpr], rule: NumberRule<'_>) -> Result<Vec<FilterNode>, EngineError> {
    let mut tests = parts.iter().map(|part| compile(part, rule)).collect::<Result<Vec<_>, _>>()?;
    tests.sort_by_key(FilterNode::cost);
    Ok(tests)
}

/// Merges tests of one field among the branches of an OR into one test with a lookup: a subsearch may yield thousands
/// of tests.
fn merge_alternatives(parts: Vec<FilterNode>) -> Vec<FilterNode> {
    let mut joined: Vec<FilterNode> = Vec::new();
    let mut by_name = hashbrown::HashMap::<String, (usize, Vec<ValueTest>), foldhash::fast::FixedState>::default();
    for part in parts {
        match part {
            FilterNode::Field(FieldName::Plain(name), tests) => match by_name.get_mut(&name) {
                Some((_, known)) => known.extend(tests.into_tests()),
                None => {
                    by_name.insert(name.clone(), (joined.len(), tests.into_tests()));
                    joined.push(FilterNode::All);
                }
            },
            other => joined.push(other),
        }
    }
    for (name, (at, tests)) in by_name {
        joined[at] = FilterNode::Field(FieldName::Plain(name), FieldTest::new(tests));
    }
    joined
}

fn name_of(field: &FieldPattern) -> FieldName {
    if field.is_wildcard() {
        FieldName::Pattern(Wildcard::new(&field.text, true))
    } else {
        FieldName::Plain(field.text.clone())
    }
}

impl FilterNode {
    /// Combines the parts with `join`, or returns a single part.
    fn combine(mut parts: Vec<FilterNode>, join: fn(Vec<FilterNode>) -> FilterNode) -> FilterNode {
        match parts.len() {
            1 => parts.pop().unwrap_or(FilterNode::All),
            _ => join(parts),
        }
    }

    fn reads_text(&self) -> bool {
        match self {
            FilterNode::All => false,
            FilterNode::Raw(_) => true,
            FilterNode::Field(_, tests) => tests.reads_text(),
            FilterNode::Not(part) => part.reads_text(),
            FilterNode::And(parts) | FilterNode::Or(parts) => parts.iter().any(FilterNode::reads_text),
        }
    }

    /// Relative cost per row.
    fn cost(&self) -> u8 {
        match self {
            FilterNode::All => 0,
            FilterNode::Field(..) => 1,
            FilterNode::Raw(_) => 2,
            FilterNode::Not(part) => part.cost(),
            FilterNode::And(parts) | FilterNode::Or(parts) => parts.iter().map(FilterNode::cost).max().unwrap_or(0),
        }
    }

    /// The rows of `open` that pass; all other bits are false.
    fn run(&self, rows: &RecordBatch, open: &BooleanBuffer) -> BooleanBuffer {
        match self {
            FilterNode::All => open.clone(),
            FilterNode::And(parts) => {
                let mut passing = open.clone();
                for part in parts {
                    if passing.count_set_bits() == 0 {
                        break;
                    }
                    passing = part.run(rows, &passing);
                }
                passing
            }
            FilterNode::Or(parts) => {
                let mut passing = BooleanBuffer::new_unset(rows.num_rows());
                for part in parts {
                    let undecided = open & &!&passing;
                    if undecided.count_set_bits() == 0 {
                        break;
                    }
                    passing = &passing | &part.run(rows, &undecided);
                }
                passing
            }
            FilterNode::Not(part) => open & &!&part.run(rows, open),
            FilterNode::Raw(pattern) => match rows::column(rows, RAW_FIELD) {
                Some(array) => raw_matches(&ColumnReader::new(array), pattern, open),
                None => BooleanBuffer::new_unset(rows.num_rows()),
            },
            FilterNode::Field(FieldName::Plain(name), tests) => match rows::column(rows, name) {
                Some(array) => tests.run_in(rows, &ColumnReader::new(array), open),
                None => BooleanBuffer::new_unset(rows.num_rows()),
            },
            FilterNode::Field(FieldName::Pattern(names), tests) => {
                let mut passing = BooleanBuffer::new_unset(rows.num_rows());
                for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
                    if names.is_match(field.name()) && !rows::is_hidden(field.name()) {
                        passing = &passing | &tests.run_in(rows, &ColumnReader::new(array), open);
                    }
                }
                passing
            }
        }
    }
}

/// The rows of `open` whose text contains the word.
fn raw_matches(reader: &ColumnReader, pattern: &WordPattern, open: &BooleanBuffer) -> BooleanBuffer {
    if let ColumnReader::Text(texts) = reader {
        let found = |row| open.value(row) && texts.is_valid(row) && pattern.is_match(texts.value(row).as_bytes());
        return BooleanBuffer::collect_bool(open.len(), found);
    }
    let mut scratch = String::new();
    BooleanBuffer::collect_bool(open.len(), |row| {
        open.value(row) && reader.text(row, &mut scratch).is_some_and(|text| pattern.is_match(text.as_bytes()))
    })
}

#[cfg(test)]
mod tests;
