//! State columns that the states of aggregates consist of.

use serde::{Deserialize, Serialize};

/// Maximum number of values kept by `list` (limits.conf `[stats] list_maxsize`).
pub const LIST_VALUES_MAX: usize = 100;

/// One state column of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateColumn {
    /// Values of the field.
    Values,
    /// Count of numeric values.
    Numbers,
    /// Sum of the numbers.
    Sum,
    /// Sum of their squares.
    SumOfSquares,
    /// Smallest number.
    MinNumber,
    /// Largest number.
    MaxNumber,
    /// Smallest non-numeric text.
    MinText,
    /// Largest non-numeric text.
    MaxText,
    /// Count, mean and sum of squared deviations.
    Moments,
    /// Distinct values.
    Distinct,
    /// First values in order, at most [`LIST_VALUES_MAX`].
    Sequence,
    /// Distinct values with their counts.
    Tally,
    /// Sketch of the distribution of numbers.
    Digest {
        /// Whether it must never be rounded.
        exact: bool,
    },
    /// The values of one row with its key.
    Pick(PickKey),
    /// Numbers per time span; the span in seconds, if requested.
    Sparkline {
        /// Seconds.
        width: Option<i64>,
        /// Values that count.
        reads: LineReads,
    },
}

/// Values of a row that a sparkline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LineReads {
    /// The numeric ones.
    Numbers,
    /// Only their presence.
    Values,
    /// Their distinct texts.
    Distinct,
}

/// Order by which a [`StateColumn::Pick`] selects a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PickKey {
    /// First in order of arrival at the command.
    First,
    /// Last in that order.
    Last,
    /// Smallest `_time`.
    Earliest,
    /// Largest `_time`.
    Latest,
}
