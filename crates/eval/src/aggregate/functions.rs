//! Implementation table of the stats functions: for each function the kind of state, and the function that turns the
//! state into a value.
//!
//! `stats` and similar commands keep states as columns ([`StateColumn`]) and finish them into a column of values
//! ([`super::finish`]); commands that need a value after each row keep one state at a time ([`super::running_state`]).
//! Both use this table, so that a function has the same meaning in all commands. Names and planner properties are in
//! `quarry_spl::functions`.

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::Number;
use quarry_spl::functions::{PercentileKind, PercentileMethod, StatsFunction};

use super::digest::Digest;
use super::moments::Moments;
use super::sparkline::{PointValue, value_of_point};
use super::state_column::{LineReads, PickKey, StateColumn};

/// The kind of a function's state, and how its value is computed from the state.
#[derive(Clone, Copy, Debug)]
pub enum Body {
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
    /// Computed from count, mean and spread of the numbers.
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
    Distinct(OfDistinct),
    /// The most frequent value.
    Mode,
    /// The first values in order.
    List,
    /// A value of one selected row.
    Pick {
        /// Order by which the row is selected.
        key: PickKey,
        /// Value of the row to show.
        shown: OfRow,
    },
    /// Computed from the earliest and the latest row.
    Change(fn(Reading, Reading) -> Option<Number>),
    /// One number per time span.
    Sparkline {
        /// Length of a span in seconds, if requested.
        width: Option<i64>,
        /// Values that contribute to the number of a span.
        reads: LineReads,
        /// Computes the number of a span; `None` for unsupported functions.
        point: Option<PointValue>,
    },
}

/// Time and number of a row.
pub type Reading = (TimeNs, Number);

/// Percentile to compute from the numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    percent: f64,
    kind: PercentileKind,
    method: PercentileMethod,
}

/// Result of a function over distinct values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfDistinct {
    /// The number of distinct values.
    Count,
    /// The distinct values, in order.
    Values,
}

/// Result of a function that selects a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfRow {
    /// The values of the field.
    Values,
    /// The time of the row.
    Time,
}

impl Body {
    /// The implementation of `function`.
    pub fn of(function: &StatsFunction) -> Body {
        let pick = |key, shown| Body::Pick { key, shown };
        match function {
            StatsFunction::Count => Body::Count,
            StatsFunction::Dc | StatsFunction::EstDc => Body::Distinct(OfDistinct::Count),
            // The error is 0, because distinct values are counted exactly.
            StatsFunction::EstDcError => Body::Constant(0),
            // Timechart scales the sums of `per_*` by its span.
            StatsFunction::Sum | StatsFunction::Per(_) => Body::Sum { squares: false, value: |sum, _| Some(sum) },
            StatsFunction::SumSq => Body::Sum { squares: true, value: |sum, _| Some(sum) },
            StatsFunction::Avg => Body::Sum { squares: false, value: |sum, count| sum.divided_by(Number::Int(count)) },
            StatsFunction::Min => Body::Extreme { largest: false },
            StatsFunction::Max => Body::Extreme { largest: true },
            StatsFunction::Range => Body::Bounds(|low, high| high.minus(low)),
            StatsFunction::Stdev => Body::Moments(|moments| moments.variance(true).map(f64::sqrt)),
            StatsFunction::StdevP => Body::Moments(|moments| moments.variance(false).map(f64::sqrt)),
            StatsFunction::Var => Body::Moments(|moments| moments.variance(true)),
            StatsFunction::VarP => Body::Moments(|moments| moments.variance(false)),
            StatsFunction::Percentile { percent, kind, method } => {
                Body::Percentile(Percentile { percent: *percent, kind: *kind, method: *method })
            }
            StatsFunction::Mode => Body::Mode,
            StatsFunction::Values => Body::Distinct(OfDistinct::Values),
            StatsFunction::List => Body::List,
            StatsFunction::First => pick(PickKey::First, OfRow::Values),
            StatsFunction::Last => pick(PickKey::Last, OfRow::Values),
            StatsFunction::Earliest => pick(PickKey::Earliest, OfRow::Values),
            StatsFunction::Latest => pick(PickKey::Latest, OfRow::Values),
            StatsFunction::EarliestTime => pick(PickKey::Earliest, OfRow::Time),
            StatsFunction::LatestTime => pick(PickKey::Latest, OfRow::Time),
            StatsFunction::Rate | StatsFunction::SeriesRate { .. } => Body::Change(rate),
            StatsFunction::Sparkline { inner, span } => {
                let width = span.as_ref().map(|span| crate::spans::length_of(span) / NS_PER_SEC);
                let reads = match Body::of(inner) {
                    Body::Count => LineReads::Values,
                    Body::Distinct(_) => LineReads::Distinct,
                    _ => LineReads::Numbers,
                };
                Body::Sparkline { width, reads, point: value_of_point(inner) }
            }
        }
    }

    /// The columns of the function's state.
    pub fn states(self) -> Vec<StateColumn> {
        match self {
            Body::Count | Body::Constant(_) => vec![StateColumn::Values],
            Body::Sum { squares: false, .. } => vec![StateColumn::Sum, StateColumn::Numbers],
            Body::Sum { squares: true, .. } => vec![StateColumn::SumOfSquares, StateColumn::Numbers],
            Body::Moments(_) => vec![StateColumn::Moments],
            Body::Extreme { largest: false } => vec![StateColumn::MinNumber, StateColumn::MinText],
            Body::Extreme { largest: true } => vec![StateColumn::MaxNumber, StateColumn::MaxText],
            Body::Bounds(_) => vec![StateColumn::MinNumber, StateColumn::MaxNumber],
            Body::Percentile(percentile) => vec![StateColumn::Digest { exact: percentile.is_exact() }],
            Body::Distinct(_) => vec![StateColumn::Distinct],
            Body::Mode => vec![StateColumn::Tally],
            Body::List => vec![StateColumn::Sequence],
            Body::Pick { key, .. } => vec![StateColumn::Pick(key)],
            Body::Change(_) => vec![StateColumn::Pick(PickKey::Earliest), StateColumn::Pick(PickKey::Latest)],
            Body::Sparkline { width, reads, .. } => vec![StateColumn::Sparkline { width, reads }],
        }
    }

    /// Whether repeated values change nothing, so that one row can represent all rows with the same values.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Body::Distinct(_) | Body::Extreme { .. } | Body::Bounds(_))
    }

    /// Whether the function reads only numbers and ignores other values.
    pub fn is_of_numbers(self) -> bool {
        matches!(self, Body::Sum { .. } | Body::Moments(_) | Body::Bounds(_) | Body::Percentile(_))
    }

    /// Whether the function is a count, which is 0 without rows.
    pub fn is_count(self) -> bool {
        matches!(self, Body::Count | Body::Distinct(OfDistinct::Count))
    }
}

impl Percentile {
    /// Whether the percentile is never computed from rounded numbers.
    pub(crate) fn is_exact(self) -> bool {
        self.kind == PercentileKind::Exact
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
fn rate((from, low): Reading, (to, high): Reading) -> Option<Number> {
    let seconds = Number::Nanos(to.checked_sub(from).filter(|time| *time > 0)?);
    high.minus(low).divided_by(seconds)
}
