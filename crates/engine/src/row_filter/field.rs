//! Tests of one field against literals.

use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use quarry_spl::ast::CompareOp;

use crate::expr::{Literal, compare_column, holds};
use crate::pattern::Wildcard;
use crate::rows::ColumnReader;

/// `op value` of a search condition.
#[derive(Clone, Debug)]
pub(super) struct ValueTest {
    op: CompareOp,
    literal: Literal,
    wildcard: Wildcard,
}

impl ValueTest {
    /// Compiles a test; `*` in the value is a wildcard of `=` and `!=`.
    pub(super) fn new(op: CompareOp, value: &str, case_sensitive: bool) -> ValueTest {
        ValueTest { op, literal: Literal::new(value), wildcard: Wildcard::new(value, case_sensitive) }
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

    /// Equal as texts, or as numbers if both are some: `200` is `200.0`.
    #[inline]
    fn equals(&self, text: &str) -> bool {
        self.wildcard.is_match(text) || (self.literal.is_number() && self.literal.order_text(text).is_eq())
    }

    /// Whether only being there counts.
    fn is_presence(&self) -> bool {
        self.op == CompareOp::Eq && self.wildcard.is_any()
    }
}

/// The open rows of which a value passes a test.
pub(super) fn any_matches(reader: &ColumnReader, tests: &[ValueTest], open: &BooleanBuffer) -> BooleanBuffer {
    if tests.iter().any(ValueTest::is_presence) {
        return BooleanBuffer::collect_bool(open.len(), |row| open.value(row) && !reader.is_null(row));
    }
    match (reader, tests) {
        (ColumnReader::Null(rows), _) => BooleanBuffer::new_unset(*rows),
        (ColumnReader::Int(_) | ColumnReader::Float(_), [test]) if test.literal.is_number() => {
            open & &set_bits(&compare_column(reader, test.op, &test.literal))
        }
        (ColumnReader::Text(texts), [test]) => {
            let passes = |row| open.value(row) && texts.is_valid(row) && test.passes(texts.value(row));
            BooleanBuffer::collect_bool(open.len(), passes)
        }
        (ColumnReader::Multi(..), tests) => BooleanBuffer::collect_bool(open.len(), |row| {
            open.value(row) && reader.values(row).any(|text| tests.iter().any(|test| test.passes(&text)))
        }),
        (reader, tests) => {
            let mut scratch = String::new();
            BooleanBuffer::collect_bool(open.len(), |row| {
                let text = if open.value(row) { reader.text(row, &mut scratch) } else { None };
                text.is_some_and(|text| tests.iter().any(|test| test.passes(text)))
            })
        }
    }
}

/// The rows that are true; null is not.
fn set_bits(found: &BooleanArray) -> BooleanBuffer {
    match found.nulls() {
        Some(nulls) => found.values() & nulls.inner(),
        None => found.values().clone(),
    }
}
