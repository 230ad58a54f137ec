//! Implementation table of the stats functions: for each function the kind of state, and the function that turns the
//! state into a value.
//!
//! `stats` and similar commands keep states as columns ([`StateColumn`]) and finish them into a column of values
//! ([`super::finish`]); commands that need a value after each row keep one state at a time ([`super::running_state`]).
//! All of these commands use this table, so that a function has the same meaning in all commands. Names and planner
//! properties are in `quarry_spl::functions`.

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::Number;
use quarry_spl::functions::{PercentileKind, PercentileMethod, StatsFunction};

use super::digest::Digest;
use super::moments::Moments;
use super::ordered_numbers::OrderedNumbers;
use super::sparkline::{PointValue, value_of_point};
use super::state_column::{PickKey, SparklineInput, StateColumn};

/// The kind of a function's state, and how its value is computed from the state.
#[derive(Clone, Copy, Debug)]
pub enum FunctionBody {
    /// Number of values.
    Count,
    /// A constant, regardless of the values.
    Constant(i64),
    /// Computed from the sum of the numbers, or of their squares, and their count; null without numbers.
    Sum {
        /// Whether squares are summed.
        squares: bool,
        /// Computes the value from the sum and the count.
        value: fn(Number, i64) -> Option<Number>,
    },
    /// Computed from the count, the sum and the sum of squares of the numbers.
    Moments(fn(&Moments) -> Option<f64>),
    /// The smallest or the largest value; numbers come before texts.
    Extreme {
        /// Whether the largest value is selected.
        largest: bool,
    },
    /// Computed from the smallest and the largest number.
    Bounds(fn(Number, Number) -> Number),
    /// A percentile.
    Percentile(Percentile),
    /// Computed from the distinct values.
    Distinct(DistinctResult),
    /// The most frequent value.
    Mode,
    /// The first values in order.
    List,
    /// A value of one selected row.
    Pick {
        /// Order by which the row is selected.
        key: PickKey,
        /// Value of the row to show.
        shown: PickResult,
    },
    /// Computed from the earliest and the latest row.
    Change(fn(TimedNumber, TimedNumber) -> Option<Number>),
    /// One number per time span.
    Sparkline {
        /// Length of a span in seconds, if requested.
        width: Option<i64>,
        /// Values that contribute to the number of a span.
        reads: SparklineInput,
        /// Computes the number of a span; `None` for unsupported functions.
        point: Option<PointValue>,
    },
}

/// Time and number of a row.
pub type TimedNumber = (TimeNs, Number);

/// Percentile to compute from the numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    percent: f64,
    kind: PercentileKind,
    method: PercentileMethod,
}

/// Result of a function over distinct values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistinctResult {
    /// The number of distinct values.
    Count,
    /// The distinct values, sorted.
    Values,
}

/// Result of a function that selects a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickResult {
    /// The values of the field.
    Values,
    /// The time of the row.
    Time,
}

impl FunctionBody {
    /// The implementation of `function`.
    pub fn of(function: &StatsFunction) -> FunctionBody {
        let pick = |key, shown| FunctionBody::Pick { key, shown };
        match function {
            StatsFunction::Count => FunctionBody::Count,
            StatsFunction::Dc | StatsFunction::EstDc => FunctionBody::Distinct(DistinctResult::Count),
            // The error is 0, because distinct values are counted exactly.
            StatsFunction::EstDcError => FunctionBody::Constant(0),
            // Timechart scales the sums of `per_*` by its span.
            StatsFunction::Sum | StatsFunction::Per(_) => {
                FunctionBody::Sum { squares: false, value: |sum, _| Some(sum) }
            }
            StatsFunction::SumSq => FunctionBody::Sum { squares: true, value: |sum, _| Some(sum) },
            StatsFunction::Avg => {
                FunctionBody::Sum { squares: false, value: |sum, count| sum.divided_by(Number::Int(count)) }
            }
            StatsFunction::Min => FunctionBody::Extreme { largest: false },
            StatsFunction::Max => FunctionBody::Extreme { largest: true },
            StatsFunction::Range => FunctionBody::Bounds(|low, high| high.minus(low)),
            StatsFunction::Stdev => FunctionBody::Moments(|moments| moments.variance(true).map(f64::sqrt)),
            StatsFunction::StdevP => FunctionBody::Moments(|moments| moments.variance(false).map(f64::sqrt)),
            StatsFunction::Var => FunctionBody::Moments(|moments| moments.variance(true)),
            StatsFunction::VarP => FunctionBody::Moments(|moments| moments.variance(false)),
            StatsFunction::Percentile { percent, kind, method } => {
                FunctionBody::Percentile(Percentile { percent: *percent, kind: *kind, method: *method })
            }
            StatsFunction::Mode => FunctionBody::Mode,
            StatsFunction::Values => FunctionBody::Distinct(DistinctResult::Values),
            StatsFunction::List => FunctionBody::List,
            StatsFunction::First => pick(PickKey::First, PickResult::Values),
            StatsFunction::Last => pick(PickKey::Last, PickResult::Values),
            StatsFunction::Earliest => pick(PickKey::Earliest, PickResult::Values),
            StatsFunction::Latest => pick(PickKey::Latest, PickResult::Values),
            StatsFunction::EarliestTime => pick(PickKey::Earliest, PickResult::Time),
            StatsFunction::LatestTime => pick(PickKey::Latest, PickResult::Time),
            StatsFunction::Rate | StatsFunction::SeriesRate { .. } => FunctionBody::Change(rate),
            StatsFunction::Sparkline { inner, span } => {
                let width = span.as_ref().map(|span| crate::spans::length_of(span) / NS_PER_SEC);
                let reads = match FunctionBody::of(inner) {
                    FunctionBody::Count => SparklineInput::Values,
                    FunctionBody::Distinct(_) => SparklineInput::Distinct,
                    _ => SparklineInput::Numbers,
                };
                FunctionBody::Sparkline { width, reads, point: value_of_point(inner) }
            }
        }
    }

    /// The columns of the function's state.
    pub fn states(self) -> Vec<StateColumn> {
        match self {
            FunctionBody::Count | FunctionBody::Constant(_) => vec![StateColumn::Values],
            FunctionBody::Sum { squares: false, .. } => vec![StateColumn::Sum, StateColumn::Numbers],
            FunctionBody::Sum { squares: true, .. } => vec![StateColumn::SumOfSquares, StateColumn::Numbers],
            FunctionBody::Moments(_) => vec![StateColumn::Moments],
            FunctionBody::Extreme { largest: false } => vec![StateColumn::MinNumber, StateColumn::MinText],
            FunctionBody::Extreme { largest: true } => vec![StateColumn::MaxNumber, StateColumn::MaxText],
            FunctionBody::Bounds(_) => vec![StateColumn::MinNumber, StateColumn::MaxNumber],
            FunctionBody::Percentile(percentile) => vec![StateColumn::Digest { exact: percentile.is_exact() }],
            FunctionBody::Distinct(_) => vec![StateColumn::Distinct],
            FunctionBody::Mode => vec![StateColumn::Tally],
            FunctionBody::List => vec![StateColumn::Sequence],
            FunctionBody::Pick { key, .. } => vec![StateColumn::Pick(key)],
            FunctionBody::Change(_) => vec![StateColumn::Pick(PickKey::Earliest), StateColumn::Pick(PickKey::Latest)],
            FunctionBody::Sparkline { width, reads, .. } => vec![StateColumn::Sparkline { width, reads }],
        }
    }

    /// Whether repeated values change nothing, so that one row can represent all rows with the same values.
    pub fn is_idempotent(self) -> bool {
        matches!(self, FunctionBody::Distinct(_) | FunctionBody::Extreme { .. } | FunctionBody::Bounds(_))
    }

    /// Whether the function reads only numbers and ignores other values.
    pub fn reads_only_numbers(self) -> bool {
        matches!(
            self,
            FunctionBody::Sum { .. } | FunctionBody::Moments(_) | FunctionBody::Bounds(_) | FunctionBody::Percentile(_)
        )
    }

    /// Whether the function is a count, which is 0 without rows.
    pub fn is_count(self) -> bool {
        matches!(self, FunctionBody::Count | FunctionBody::Distinct(DistinctResult::Count))
    }
}

impl Percentile {
    /// Whether all distinct numbers are kept, however many there are.
    pub(crate) fn is_exact(self) -> bool {
        self.kind == PercentileKind::Exact
    }

    /// The value of the percentile of these numbers.
    pub fn of_numbers(self, numbers: &OrderedNumbers) -> Option<Number> {
        numbers.percentile(self.percent, self.method)
    }

    /// The value of the percentile.
    pub(crate) fn of(self, digest: &mut Digest) -> Option<Number> {
        match self.kind {
            PercentileKind::Upper => digest.upper_percentile(self.percent, self.method),
            PercentileKind::Default | PercentileKind::Exact => digest.percentile(self.percent, self.method),
        }
    }
}

/// Change per second.
fn rate((from, low): TimedNumber, (to, high): TimedNumber) -> Option<Number> {
    let seconds = Number::Nanos(to.checked_sub(from).filter(|time| *time > 0)?);
    high.minus(low).divided_by(seconds)
}
