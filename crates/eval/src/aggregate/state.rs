//! Serialized form of state columns, in which a folder spills its states and merges them again.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};

use super::state_column::StateColumn;
use crate::rows::multi_type;

/// Digits of a position in a sequence entry.
const POSITION_DIGITS: usize = 20;
/// Digits of a value's index within its row.
const PLACE_DIGITS: usize = 3;

/// The item field of a list of numbers.
pub(crate) fn number_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Float64, true))
}

/// Type of a part's state column.
pub(crate) fn state_type(part: StateColumn) -> DataType {
    match part {
        StateColumn::Values | StateColumn::Numbers => DataType::Int64,
        StateColumn::MinText | StateColumn::MaxText => DataType::Utf8View,
        // A sum is stored as two numbers and its scale: a rounded state would depend on the order of merging.
        StateColumn::MinNumber
        | StateColumn::MaxNumber
        | StateColumn::Sum
        | StateColumn::SumOfSquares
        | StateColumn::Moments
        | StateColumn::Digest { .. }
        | StateColumn::Sparkline { .. } => DataType::List(number_item()),
        StateColumn::Distinct | StateColumn::Sequence | StateColumn::Tally | StateColumn::Pick(_) => multi_type(),
    }
}

/// An entry of a `list` state; entries sort by the position of their value.
pub(crate) fn sequence_entry(position: u64, place: usize, value: &str) -> String {
    format!("{position:0POSITION_DIGITS$}{place:0PLACE_DIGITS$}{value}")
}

/// The value of a sequence entry.
pub(crate) fn sequence_value(entry: &str) -> &str {
    entry.get(POSITION_DIGITS + PLACE_DIGITS..).unwrap_or_default()
}
