//! Conditions of `search` on rows: field tests, keywords on `_raw`, AND, OR, NOT.
//!
//! Compiled once and evaluated column-wise. Each test examines only rows that are still undecided, and tests of
//! `_raw`, which are the most expensive, come last within the same AND or OR.
//!
//! Unlike in `where`, values are literals and comparison is case-insensitive. A row without the field passes no test
//! of that field, including `!=`, but it does pass `NOT field=x`. A multivalue passes if one of its values does. Not
//! here: pruning of events by terms and time before they are read.

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

impl RowFilter {
    /// Compiles a condition. Subsearches must already be replaced by their results.
    pub fn new(expr: &SearchExpr, _: &ExprContext) -> Result<RowFilter, EngineError> {
        Ok(RowFilter { test: compile(expr)? })
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

fn compile(expr: &SearchExpr) -> Result<FilterNode, EngineError> {
    let word = |pattern: &SearchPattern, bound, case_sensitive| {
        FilterNode::Raw(Box::new(WordPattern::new(&pattern.text, bound, case_sensitive)))
    };
    Ok(match expr {
        SearchExpr::All => FilterNode::All,
        SearchExpr::And(parts) => FilterNode::combine(compile_parts(parts)?, FilterNode::And),
        SearchExpr::Or(parts) => FilterNode::combine(merge_alternatives(compile_parts(parts)?), FilterNode::Or),
        SearchExpr::Not(part) => FilterNode::Not(Box::new(compile(part)?)),
        SearchExpr::Keyword(pattern) => word(pattern, WordBound::Breaker, false),
        SearchExpr::Term(pattern) => word(pattern, WordBound::Major, false),
        SearchExpr::Case(pattern) => word(pattern, WordBound::Breaker, true),
        SearchExpr::Compare { field, op, value, case_sensitive } => {
            FilterNode::Field(name_of(field), FieldTest::new(vec![ValueTest::new(*op, &value.text, *case_sensitive)]))
        }
        SearchExpr::In { field, values } => {
            let tests = values.iter().map(|value| ValueTest::new(CompareOp::Eq, &value.text, false));
            FilterNode::Field(name_of(field), FieldTest::new(tests.collect()))
        }
        SearchExpr::Indexed { field, value } => {
            FilterNode::Field(name_of(field), FieldTest::new(vec![ValueTest::new(CompareOp::Eq, &value.text, false)]))
        }
        SearchExpr::Subsearch(pipeline) => {
            return Err(EngineError::Invalid {
                message: "a subsearch cannot be used here; run it first and write its result".to_owned(),
                span: Some(pipeline.span),
            });
        }
    })
}

fn compile_parts(parts: &[SearchExpr]) -> Result<Vec<FilterNode>, EngineError> {
    let mut tests = parts.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    tests.sort_by_key(FilterNode::cost);
    Ok(tests)
}

/// Merges tests of one field among the branches of an OR into one test with a lookup: a subsearch may yield thousands.
fn merge_alternatives(parts: Vec<FilterNode>) -> Vec<FilterNode> {
    let mut joined: Vec<FilterNode> = Vec::new();
    let mut places = hashbrown::HashMap::<String, (usize, Vec<ValueTest>), foldhash::fast::FixedState>::default();
    for part in parts {
        match part {
            FilterNode::Field(FieldName::Plain(name), tests) => match places.get_mut(&name) {
                Some((_, known)) => known.extend(tests.into_tests()),
                None => {
                    places.insert(name.clone(), (joined.len(), tests.into_tests()));
                    joined.push(FilterNode::All);
                }
            },
            other => joined.push(other),
        }
    }
    for (name, (at, tests)) in places {
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
                Some(array) => tests.run(&ColumnReader::new(array), open),
                None => BooleanBuffer::new_unset(rows.num_rows()),
            },
            FilterNode::Field(FieldName::Pattern(names), tests) => {
                let mut passing = BooleanBuffer::new_unset(rows.num_rows());
                for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
                    if names.is_match(field.name()) && !rows::is_hidden(field.name()) {
                        passing = &passing | &tests.run(&ColumnReader::new(array), open);
                    }
                }
                passing
            }
        }
    }
}

/// The open rows whose text contains the word.
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
