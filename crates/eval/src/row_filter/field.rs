//! Tests of one field against literals.
//!
//! A few values are compared one after the other. Many values (from a subsearch or a long IN) are looked up by
//! lower-case text and by number; patterns are always compared.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use quarry_event::segment::contains_word;
use quarry_event::value::spelling::numbers_spelled;
use quarry_event::value::{Number, parse_exact_number};
use quarry_spl::ast::CompareOp;
use quarry_stdx::number::integer_part;

use super::{NumberEquality, RAW_FIELD};
use crate::expr::{Literal, compare_column, holds};
use crate::functions::Network;
use crate::pattern::Wildcard;
use crate::rows::{self, ColumnReader, DictionaryColumn};

/// Minimum number of tests of a field for which a lookup replaces comparisons.
const SET_TESTS_MIN: usize = 8;

/// `op value` of a search condition.
#[derive(Clone, Debug)]
pub(super) struct ValueTest {
    op: CompareOp,
    literal: Literal,
    wildcard: Wildcard,
    /// The network, if the value has the form `10.0.0.0/8`; Splunk compares such values in the same way.
    network: Option<Network>,
    numbers: NumberEquality,
}

impl ValueTest {
    /// Compiles a test; `*` in the value is a wildcard of `=` and `!=`.
    pub(super) fn new(op: CompareOp, value: &str, case_sensitive: bool, numbers: NumberEquality) -> ValueTest {
        ValueTest {
            op,
            literal: Literal::new(value),
            wildcard: Wildcard::new(value, case_sensitive),
            network: network_of(value),
            numbers,
        }
    }

    /// Compiles the test of a term, which is a text even if it is written like a number or a network.
    pub(super) fn of_term(value: &str) -> ValueTest {
        ValueTest { network: None, ..ValueTest::new(CompareOp::Eq, value, false, NumberEquality::Text) }
    }

    #[inline]
    fn passes(&self, text: &str) -> bool {
        match self.op {
            CompareOp::Eq => self.equals(text),
            CompareOp::Ne => !self.equals(text),
            op => holds(op, self.literal.order_text(text)),
        }
    }

    /// Whether a value equals the value of the test: as a text or by wildcards, as a number if the test compares
    /// numbers (`200` equals `200.0`), or as an address of the test's network.
    #[inline]
    fn equals(&self, text: &str) -> bool {
        self.wildcard.is_match(text)
            || (self.numbers == NumberEquality::Value
                && self.literal.is_number()
                && self.literal.order_text(text).is_eq())
            || self.network.is_some_and(|network| network.contains(text))
    }

    /// The number of the test, if the test also accepts other spellings of the number.
    fn spelled_number(&self) -> Option<&str> {
        let accepts = self.op == CompareOp::Eq && self.numbers == NumberEquality::Word && self.literal.is_number();
        accepts.then(|| self.literal.text())
    }

    /// Whether the test compares numbers by value, so that numbers need not be converted to texts.
    fn is_of_numbers(&self) -> bool {
        let compares_texts = matches!(self.op, CompareOp::Eq | CompareOp::Ne) && self.numbers != NumberEquality::Value;
        self.literal.is_number() && !compares_texts
    }

    /// Whether the test requires only that a value is present.
    fn is_presence(&self) -> bool {
        self.op == CompareOp::Eq && self.wildcard.is_any()
    }
}

/// The network in a search value.
pub fn network_of(value: &str) -> Option<Network> {
    if value.contains('/') { Network::parse(value) } else { None }
}

/// Tests of a field, at least one of which must pass.
#[derive(Clone, Debug)]
pub(super) struct FieldTest {
    /// Tests that are evaluated one after the other.
    tests: Vec<ValueTest>,
    /// Equality tests that are looked up.
    set: Option<Arc<EqualitySet>>,
    /// Numbers whose other spellings pass in rows whose text contains the number.
    spelled: Option<Arc<SpelledNumbers>>,
}

impl FieldTest {
    /// Combines tests; many equality tests become a set.
    pub(super) fn new(tests: Vec<ValueTest>) -> FieldTest {
        let spelled: SpelledNumbers = tests.iter().filter_map(ValueTest::spelled_number).collect();
        let spelled = (!spelled.numbers.is_empty()).then(|| Arc::new(spelled));
        if tests.len() < SET_TESTS_MIN {
            return FieldTest { tests, set: None, spelled };
        }
        let mut set = EqualitySet::default();
        let mut rest = Vec::new();
        for test in tests {
            if !set.try_add(&test) {
                rest.push(test);
            }
        }
        FieldTest { tests: rest, set: Some(Arc::new(set)), spelled }
    }

    /// The single tests that were combined.
    pub(super) fn into_tests(self) -> Vec<ValueTest> {
        let known = self.set.map(|set| set.tests.clone()).unwrap_or_default();
        self.tests.into_iter().chain(known).collect()
    }

    /// Whether one value passes.
    #[inline]
    fn passes(&self, text: &str) -> bool {
        self.tests.iter().any(|test| test.passes(text)) || self.set.as_ref().is_some_and(|set| set.contains(text))
    }

    /// Whether the tests read `_raw`.
    pub(super) fn reads_text(&self) -> bool {
        self.spelled.is_some()
    }

    /// The rows of `open` with a value that passes the tests.
    pub(super) fn run_in(&self, rows: &RecordBatch, reader: &ColumnReader, open: &BooleanBuffer) -> BooleanBuffer {
        let found = self.run(reader, open);
        match (&self.spelled, rows::column(rows, RAW_FIELD)) {
            (Some(spelled), Some(texts)) => {
                let rest = open & &!&found;
                &found | &spelled.run(reader, &ColumnReader::new(texts), &rest)
            }
            _ => found,
        }
    }

    /// Like [`FieldTest::run_in`], without other spellings of numbers.
    fn run(&self, reader: &ColumnReader, open: &BooleanBuffer) -> BooleanBuffer {
        if self.tests.iter().any(ValueTest::is_presence) {
            return BooleanBuffer::collect_bool(open.len(), |row| open.value(row) && !reader.is_null(row));
        }
        match (reader, self.tests.as_slice()) {
            (ColumnReader::Null(rows), _) => BooleanBuffer::new_unset(*rows),
            (ColumnReader::Int(_) | ColumnReader::Float(_), [test]) if self.set.is_none() && test.is_of_numbers() => {
                open & &set_bits(&compare_column(reader, test.op, &test.literal))
            }
            (ColumnReader::Text(texts), [test]) if self.set.is_none() => {
                let passes = |row| open.value(row) && texts.is_valid(row) && test.passes(texts.value(row));
                BooleanBuffer::collect_bool(open.len(), passes)
            }
            (ColumnReader::Dictionary(column), _) if column.texts.len() <= open.len() => self.run_codes(column, open),
            (ColumnReader::Mixed(mixed), _) => {
                &self.run(&mixed.numbers, open) | &self.run(&ColumnReader::Text(mixed.texts.clone()), open)
            }
            (ColumnReader::Multi(..), _) => BooleanBuffer::collect_bool(open.len(), |row| {
                open.value(row) && reader.values(row).any(|text| self.passes(&text))
            }),
            (reader, _) => {
                let mut scratch = String::new();
                BooleanBuffer::collect_bool(open.len(), |row| {
                    let text = if open.value(row) { reader.text(row, &mut scratch) } else { None };
                    text.is_some_and(|text| self.passes(text))
                })
            }
        }
    }
}

impl FieldTest {
    /// Like [`FieldTest::run`], but tests each dictionary text once.
    fn run_codes(&self, column: &DictionaryColumn, open: &BooleanBuffer) -> BooleanBuffer {
        let mut known: Vec<Option<bool>> = vec![None; column.texts.len()];
        BooleanBuffer::collect_bool(open.len(), |row| match column.code(row).filter(|_| open.value(row)) {
            Some(code) => *known[code].get_or_insert_with(|| self.passes(column.texts.value(code))),
            None => false,
        })
    }
}

/// Values, one of which a value of the field must equal.
#[derive(Debug, Default)]
struct EqualitySet {
    texts: HashSet<Box<[u8]>, FixedState>,
    numbers: HashSet<NumberKey, FixedState>,
    tests: Vec<ValueTest>,
}

/// Numbers whose other spellings are accepted, in lower case.
#[derive(Debug, Default)]
struct SpelledNumbers {
    numbers: HashSet<Box<str>, FixedState>,
}

impl<'a> FromIterator<&'a str> for SpelledNumbers {
    fn from_iter<I: IntoIterator<Item = &'a str>>(numbers: I) -> SpelledNumbers {
        SpelledNumbers { numbers: numbers.into_iter().map(|number| number.to_ascii_lowercase().into()).collect() }
    }
}

impl SpelledNumbers {
    /// The rows of `open` whose value is a spelling of a number and whose text contains this number as a word.
    fn run(&self, values: &ColumnReader, texts: &ColumnReader, open: &BooleanBuffer) -> BooleanBuffer {
        let (mut scratch, mut text) = (String::new(), String::new());
        BooleanBuffer::collect_bool(open.len(), |row| {
            let mut is_in_text = |value: &str| {
                numbers_spelled(value).any(|number| {
                    let number = number.to_ascii_lowercase();
                    self.numbers.contains(number.as_str())
                        && texts.text(row, &mut text).is_some_and(|text| contains_word(text.as_bytes(), &number, false))
                })
            };
            open.value(row)
                && match values {
                    ColumnReader::Multi(..) => values.values(row).any(|value| is_in_text(&value)),
                    _ => values.text(row, &mut scratch).is_some_and(is_in_text),
                }
        })
    }
}

/// Bound below which every integer has 64 bits: 2^63.
const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;

/// A key that is equal for equal numbers.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum NumberKey {
    Int(i64),
    Float(u64),
}

impl EqualitySet {
    /// Adds a test if a lookup can answer it.
    fn try_add(&mut self, test: &ValueTest) -> bool {
        // A number with more digits than a double has no key.
        if test.network.is_some() || matches!(test.literal.number(), Some(Number::Nanos(_))) {
            return false;
        }
        let Some(text) = test.wildcard.folded_text().filter(|_| test.op == CompareOp::Eq) else { return false };
        self.texts.insert(text.to_ascii_lowercase().into_boxed_slice());
        if test.numbers == NumberEquality::Value {
            self.numbers.extend(test.literal.number().map(number_key));
        }
        self.tests.push(test.clone());
        true
    }

    fn contains(&self, text: &str) -> bool {
        let known = if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.texts.contains(text.to_ascii_lowercase().as_bytes())
        } else {
            self.texts.contains(text.as_bytes())
        };
        known
            || (!self.numbers.is_empty() && parse_exact_number(text).is_some_and(|number| self.contains_number(number)))
    }

    fn contains_number(&self, number: Number) -> bool {
        let nearest = Number::Float(number.as_f64());
        match number {
            Number::Nanos(_) => self.numbers.contains(&number_key(nearest)) && nearest.total_cmp(number).is_eq(),
            Number::Int(_) | Number::Float(_) => self.numbers.contains(&number_key(number)),
        }
    }
}

fn number_key(number: Number) -> NumberKey {
    match number {
        Number::Int(value) => NumberKey::Int(value),
        Number::Float(_) | Number::Nanos(_) => {
            let value = number.as_f64();
            let is_integer = value.fract() == 0.0 && value.abs() < INTEGERS_END;
            if is_integer { NumberKey::Int(integer_part(value)) } else { NumberKey::Float(value.to_bits()) }
        }
    }
}

/// The rows that are true; null counts as false.
fn set_bits(found: &BooleanArray) -> BooleanBuffer {
    match found.nulls() {
        Some(nulls) => found.values() & nulls.inner(),
        None => found.values().clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_are_looked_up_as_they_are_compared() {
        let texts = [
            "1700000000.1234567",
            "1700000000.1234568",
            "1700000000.123456789",
            "1700000000.5",
            "1.7000000005e9",
            "10000000000000000",
            "1e16",
            "9007199254740992",
            "9007199254740993",
            "9007199254740993.0",
            "9223372036854775807",
            "9.3e18",
            "007",
            "7.0",
            "-0.0",
            "0",
            "ab",
            "AB",
        ];
        let test = |value: &str| ValueTest::new(CompareOp::Eq, value, false, NumberEquality::Value);
        let others = || (0..SET_TESTS_MIN).map(|at| test(&format!("other{at}")));
        for value in texts {
            let (one, many) =
                (FieldTest::new(vec![test(value)]), FieldTest::new(others().chain([test(value)]).collect()));
            for text in texts {
                assert_eq!(many.passes(text), one.passes(text), "{value} = {text}");
            }
        }
    }
}
