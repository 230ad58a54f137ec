//! State columns: the parts of the states of aggregates.

use serde::{Deserialize, Serialize};

/// Maximum number of values kept by `list` (limits.conf `[stats] list_maxsize`); further values are dropped.
pub const LIST_VALUES_MAX: usize = 100;

/// One state column of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateColumn {
    /// Number of values of the field.
    Values,
    /// Number of numeric values.
    Numbers,
    /// Sum of the numbers.
    Sum,
    /// Sum of the squares of the numbers.
    SumOfSquares,
    /// Smallest number.
    MinNumber,
    /// Largest number.
    MaxNumber,
    /// Smallest non-numeric text.
    MinText,
    /// Largest non-numeric text.
    MaxText,
    /// Count, sum and sum of squares of the numbers, for variances.
    Moments,
    /// Distinct values.
    Distinct,
    /// First values in order, at most [`LIST_VALUES_MAX`].
    Sequence,
    /// Distinct values with their counts.
    Tally,
    /// Sketch of the distribution of numbers.
    Digest {
        /// Whether the sketch must never be rounded.
        exact: bool,
    },
    /// The values of one row, and the row's key.
    Pick(PickKey),
    /// Numbers per time span.
    Sparkline {
        /// Length of a span in seconds, if requested.
        width: Option<i64>,
        /// Values that contribute to the number of a span.
        reads: SparklineInput,
    },
}

/// Part of a row's values that a sparkline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SparklineInput {
    /// The numeric values.
    Numbers,
    /// The number of values.
    Values,
    /// The distinct texts of the values.
    Distinct,
}

/// Order by which a [`StateColumn::Pick`] selects a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PickKey {
    /// First in order of arrival at the command.
    First,
    /// Last in order of arrival at the command.
    Last,
    /// Smallest `_time`.
    Earliest,
    /// Largest `_time`.
    Latest,
}
