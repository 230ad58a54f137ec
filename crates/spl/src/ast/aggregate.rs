//! Aggregates of the stats family and their functions.

use quarry_event::time::Span as TimeSpan;
use serde::{Deserialize, Serialize};

use super::{Expr, FieldPattern, Span};

/// One aggregate of the stats family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// Function.
    pub function: StatsFunction,
    /// Argument; `None` for a bare `count`.
    pub arg: AggregateArg,
    /// Output name: the `AS` name, or the text as written, e.g. `sum(bytes)`, `count`, `count(eval(x>1))`.
    pub name: String,
    /// Whether `AS` was given.
    pub renamed: bool,
    /// Place in the text.
    pub span: Span,
}

impl Aggregate {
    /// Whether its argument is a pattern, which stands for one aggregate per matching field.
    pub fn has_wildcard(&self) -> bool {
        matches!(&self.arg, AggregateArg::Field(field) if field.is_wildcard())
    }
}

/// Prefix of the internal names of aggregates inside an `eval(...)`.
pub const PART_PREFIX: &str = "__part";

/// `eval(EXPR)` of chart and timechart: an expression over aggregates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComputedAggregate {
    /// Index of its first part among the aggregates.
    pub at: usize,
    /// Number of its parts.
    pub parts: usize,
    /// The expression; its fields are the names of the parts.
    pub expr: Expr,
    /// Output name: the `AS` name, or the text as written.
    pub name: String,
    /// Place in the text.
    pub span: Span,
}

/// Argument of an aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AggregateArg {
    /// None: `count`.
    Rows,
    /// A field or wildcard pattern.
    Field(FieldPattern),
    /// `eval(EXPR)`.
    Eval(Expr),
}

/// Stats functions (tier 1 of spl-usage).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StatsFunction {
    /// `count`, `c`.
    Count,
    /// `dc`, `distinct_count`.
    Dc,
    /// `estdc`.
    EstDc,
    /// `estdc_error`.
    EstDcError,
    /// `sum`.
    Sum,
    /// `sumsq`.
    SumSq,
    /// `avg`, `mean`.
    Avg,
    /// `min`.
    Min,
    /// `max`.
    Max,
    /// `range`.
    Range,
    /// `stdev`.
    Stdev,
    /// `stdevp`.
    StdevP,
    /// `var`.
    Var,
    /// `varp`.
    VarP,
    /// `median`, `perc<N>`, `p<N>`, `exactperc<N>`, `upperperc<N>`.
    Percentile {
        /// 0 to 100.
        percent: f64,
        /// Which estimate.
        kind: PercentileKind,
        /// How the percentile is computed; the parser leaves the default, which the node's setting replaces later.
        method: PercentileMethod,
    },
    /// `mode`.
    Mode,
    /// `values`.
    Values,
    /// `list`.
    List,
    /// `first`.
    First,
    /// `last`.
    Last,
    /// `earliest`.
    Earliest,
    /// `latest`.
    Latest,
    /// `earliest_time`.
    EarliestTime,
    /// `latest_time`.
    LatestTime,
    /// `rate`.
    Rate,
    /// `rate_avg` and `rate_sum` of mstats: the combined rates of a group's time series.
    SeriesRate {
        /// Whether their sum is returned rather than their mean.
        sum: bool,
    },
    /// `per_second`, `per_minute`, `per_hour`, `per_day`: seconds of the unit (timechart only).
    Per(u32),
    /// `sparkline(agg, span)`.
    Sparkline {
        /// Inner function.
        inner: Box<StatsFunction>,
        /// Span of one point.
        span: Option<TimeSpan>,
    },
}

/// Percentile estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PercentileKind {
    /// `perc`, `p`, `median`.
    Default,
    /// `exactperc`.
    Exact,
    /// `upperperc`.
    Upper,
}

/// How a percentile is computed if all numbers are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PercentileMethod {
    /// The number at that rank (nearest-rank method).
    #[default]
    NearestRank,
    /// Linear interpolation between the two nearest numbers.
    Interpolated,
}
