//! State columns that the states of aggregates consist of.

use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::{PercentileKind, StatsFunction};

/// Maximum number of values kept by `list` (limits.conf `[stats] list_maxsize`).
pub const LIST_VALUES_MAX: usize = 100;

/// One state column of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
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
        /// What is read of the values.
        reads: LineReads,
    },
}

/// What a sparkline reads of a row's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineReads {
    /// The numeric ones.
    Numbers,
    /// Only their presence.
    Values,
    /// Which they are.
    Distinct,
}

/// Which row a [`StateColumn::Pick`] selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The state columns of a function.
pub fn parts_of(function: &StatsFunction) -> Vec<StateColumn> {
    match function {
        StatsFunction::Count | StatsFunction::EstDcError => vec![StateColumn::Values],
        StatsFunction::Dc | StatsFunction::EstDc | StatsFunction::Values => vec![StateColumn::Distinct],
        StatsFunction::Sum | StatsFunction::Per(_) => vec![StateColumn::Sum, StateColumn::Numbers],
        StatsFunction::SumSq => vec![StateColumn::SumOfSquares, StateColumn::Numbers],
        StatsFunction::Avg => vec![StateColumn::Sum, StateColumn::Numbers],
        StatsFunction::Min => vec![StateColumn::MinNumber, StateColumn::MinText],
        StatsFunction::Max => vec![StateColumn::MaxNumber, StateColumn::MaxText],
        StatsFunction::Range => vec![StateColumn::MinNumber, StateColumn::MaxNumber],
        StatsFunction::Stdev | StatsFunction::StdevP | StatsFunction::Var | StatsFunction::VarP => {
            vec![StateColumn::Moments]
        }
        StatsFunction::Percentile { kind, .. } => vec![StateColumn::Digest { exact: *kind == PercentileKind::Exact }],
        StatsFunction::Mode => vec![StateColumn::Tally],
        StatsFunction::List => vec![StateColumn::Sequence],
        StatsFunction::First => vec![StateColumn::Pick(PickKey::First)],
        StatsFunction::Last => vec![StateColumn::Pick(PickKey::Last)],
        StatsFunction::Earliest | StatsFunction::EarliestTime => vec![StateColumn::Pick(PickKey::Earliest)],
        StatsFunction::Latest | StatsFunction::LatestTime => vec![StateColumn::Pick(PickKey::Latest)],
        StatsFunction::Rate | StatsFunction::SeriesRate { .. } => {
            vec![StateColumn::Pick(PickKey::Earliest), StateColumn::Pick(PickKey::Latest)]
        }
        StatsFunction::Sparkline { span, inner } => {
            let width = span.as_ref().map(|span| crate::spans::length_of(span) / NS_PER_SEC);
            let reads = match **inner {
                StatsFunction::Count => LineReads::Values,
                StatsFunction::Dc => LineReads::Distinct,
                _ => LineReads::Numbers,
            };
            vec![StateColumn::Sparkline { width, reads }]
        }
    }
}
