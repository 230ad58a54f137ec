//! Tests of one field against literals.
//!
//! A few values are compared one after the other. Many values (from a subsearch or a long IN) are looked up by
//! lower-case text and by number; patterns are always compared.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use quarry_event::value::{Number, parse_exact_number};
use quarry_spl::ast::CompareOp;

use crate::expr::{Literal, compare_column, holds};
use crate::functions::Network;
use crate::pattern::Wildcard;
use crate::rows::{ColumnReader, DictionaryColumn};

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
}

impl ValueTest {
    /// Compiles a test; `*` in the value is a wildcard of `=` and `!=`.
    pub(super) fn new(op: CompareOp, value: &str, case_sensitive: bool) -> ValueTest {
        ValueTest {
            op,
            literal: Literal::new(value),
            wildcard: Wildcard::new(value, case_sensitive),
            network: network_of(value),
        }
    }

    /// Whether one value passes.
    #[inline]
    fn passes(&self, text: &str) -> bool {
        match self.op {
            CompareOp::Eq => self.equals(text),
            CompareOp::Ne => !self.equals(text),
            op => holds(op, self.literal.order_text(text)),
        }
    }

    /// Whether the value equals that of the test: as a text or by its wildcards, as a number if both are numeric (`200`
    /// equals `200.0`), or as an address of the test's network.
    #[inline]
    fn equals(&self, text: &str) -> bool {
        self.wildcard.is_match(text)
            || (self.literal.is_number() && self.literal.order_text(text).is_eq())
            || self.network.is_some_and(|network| network.contains(text))
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
}

impl FieldTest {
    /// Combines tests; many equality tests become a set.
    pub(super) fn new(tests: Vec<ValueTest>) -> FieldTest {
        if tests.len() < SET_TESTS_MIN {
            return FieldTest { tests, set: None };
        }
        let mut set = EqualitySet::default();
        let mut rest = Vec::new();
        for test in tests {
            if !set.try_add(&test) {
                rest.push(test);
            }
        }
        FieldTest { tests: rest, set: Some(Arc::new(set)) }
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

    /// The open rows with a value that passes the tests.
    pub(super) fn run(&self, reader: &ColumnReader, open: &BooleanBuffer) -> BooleanBuffer {
        if self.tests.iter().any(ValueTest::is_presence) {
            return BooleanBuffer::collect_bool(open.len(), |row| open.value(row) && !reader.is_null(row));
        }
        match (reader, self.tests.as_slice()) {
            (ColumnReader::Null(rows), _) => BooleanBuffer::new_unset(*rows),
            (ColumnReader::Int(_) | ColumnReader::Float(_), [test])
                if self.set.is_none() && test.literal.is_number() =>
            {
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

/// Values, at least one of which must be equal.
#[derive(Debug, Default)]
struct EqualitySet {
    texts: HashSet<Box<[u8]>, FixedState>,
    numbers: HashSet<NumberKey, FixedState>,
    tests: Vec<ValueTest>,
}

/// A key that is equal for equal numbers.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum NumberKey {
    Int(i64),
    Float(u64),
}

impl EqualitySet {
    /// Adds a test if a lookup can answer it.
    fn try_add(&mut self, test: &ValueTest) -> bool {
        if test.network.is_some() {
            return false;
        }
        let Some(text) = test.wildcard.folded_text().filter(|_| test.op == CompareOp::Eq) else { return false };
        self.texts.insert(text.to_ascii_lowercase().into_boxed_slice());
        self.numbers.extend(test.literal.number().map(number_key));
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
            || (!self.numbers.is_empty()
                && parse_exact_number(text).is_some_and(|number| self.numbers.contains(&number_key(number))))
    }
}

fn number_key(number: Number) -> NumberKey {
    match number {
        Number::Int(value) => NumberKey::Int(value),
        Number::Nanos(_) => NumberKey::Float(number.as_f64().to_bits()),
        Number::Float(value) => match Number::of_float(value) {
            Number::Int(value) => NumberKey::Int(value),
            _ => NumberKey::Float(value.to_bits()),
        },
    }
}

/// The rows that are true; null counts as false.
fn set_bits(found: &BooleanArray) -> BooleanBuffer {
    match found.nulls() {
        Some(nulls) => found.values() & nulls.inner(),
        None => found.values().clone(),
    }
}
