//! Functions of stats and similar commands: a variant for each with its properties for the planner, and a table row for
//! each of its names.
//!
//! `quarry_eval::aggregate::functions` defines how values are aggregated. [`StatsFunction::depends_on`] says whether
//! rows may be folded in parallel and the states merged.

use quarry_event::time::Span as TimeSpan;
use serde::{Deserialize, Serialize};

use self::StatsFunction::{
    Avg, Count, Dc, Earliest, EarliestTime, EstDc, EstDcError, First, Last, Latest, LatestTime, List, Max, Min, Mode,
    Per, Percentile, Range, Rate, SeriesRate, Sparkline, Stdev, StdevP, Sum, SumSq, Values, Var, VarP,
};
use super::{Arity, FunctionHelp, ResultType, between, exactly};

/// A stats function, with the parameters that are part of its name.
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
        /// Kind of percentile.
        kind: PercentileKind,
        /// Method of computation; the parser leaves the default, which the node's setting replaces later.
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
        /// Whether the sum of the rates is returned rather than their mean.
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

/// Kinds of percentiles, by the name of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PercentileKind {
    /// `perc`, `p`, `median`.
    Default,
    /// `exactperc`.
    Exact,
    /// `upperperc`.
    Upper,
}

/// Algorithm for exact percentiles, which are computed from all numbers rather than estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PercentileMethod {
    /// The number at the percentile's rank (nearest-rank method).
    #[default]
    NearestRank,
    /// Linear interpolation between the two nearest numbers.
    Interpolated,
}

/// Dependence of an aggregate on anything besides the values of its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DependsOn {
    /// No dependence: rows may be folded in parallel, in any order.
    Nothing,
    /// The order of rows, which are therefore folded one after the other.
    Order,
    /// The `_time` of rows, which is required; rows may be folded in parallel.
    Time,
}

impl StatsFunction {
    /// Dependence of the result on anything besides the values, and its type.
    fn dependence_and_type(&self) -> (DependsOn, ResultType) {
        match self {
            Count | Dc | EstDc | EstDcError | Sum | SumSq | Avg | Range => (DependsOn::Nothing, ResultType::Number),
            Stdev | StdevP | Var | VarP | Percentile { .. } => (DependsOn::Nothing, ResultType::Number),
            Min | Max | Mode => (DependsOn::Nothing, ResultType::Any),
            Values => (DependsOn::Nothing, ResultType::Text),
            First | Last => (DependsOn::Order, ResultType::Any),
            List => (DependsOn::Order, ResultType::Text),
            Earliest | Latest => (DependsOn::Time, ResultType::Any),
            EarliestTime | LatestTime | Rate | SeriesRate { .. } | Per(_) => (DependsOn::Time, ResultType::Number),
            Sparkline { .. } => (DependsOn::Time, ResultType::Text),
        }
    }

    /// The function's name in a search; the name of a percentile ends with the percentage.
    pub fn name(&self) -> String {
        match self {
            Percentile { percent, kind: PercentileKind::Default, .. } => format!("perc{percent}"),
            Percentile { percent, kind: PercentileKind::Exact, .. } => format!("exactperc{percent}"),
            Percentile { percent, kind: PercentileKind::Upper, .. } => format!("upperperc{percent}"),
            Sparkline { .. } => "sparkline".to_owned(),
            SeriesRate { sum: true } => "rate_sum".to_owned(),
            SeriesRate { sum: false } => "rate_avg".to_owned(),
            function => {
                // Names of one letter are abbreviations of other names.
                let is_name = |row: &&StatsRow| row.function.as_ref() == Some(function) && row.help.name.len() > 1;
                STATS_FUNCTIONS.iter().find(is_name).map_or_else(String::new, |row| row.help.name.to_owned())
            }
        }
    }

    /// Dependence of the result on anything besides the values; determines how rows may be folded.
    pub fn depends_on(&self) -> DependsOn {
        self.dependence_and_type().0
    }

    /// Type of the function's non-null results.
    pub fn result(&self) -> ResultType {
        self.dependence_and_type().1
    }
}

const SECONDS_PER_MINUTE: u32 = 60;
const SECONDS_PER_HOUR: u32 = 3_600;
const SECONDS_PER_DAY: u32 = 86_400;

const MEDIAN: StatsFunction =
    Percentile { percent: 50.0, kind: PercentileKind::Default, method: PercentileMethod::NearestRank };

/// A function of stats.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsRow {
    /// Name, arguments and help line.
    pub help: FunctionHelp,
    /// The function in the syntax tree; `None` if it also depends on a percentage after the name, or on a function in
    /// parentheses.
    pub function: Option<StatsFunction>,
}

/// A row of the table.
const fn row(syntax: &'static str, arity: Arity, function: Option<StatsFunction>, summary: &'static str) -> StatsRow {
    StatsRow { help: FunctionHelp::new(syntax, arity, summary), function }
}

/// All functions, by name; `perc`, `p`, `exactperc` and `upperperc` are followed by a number.
pub static STATS_FUNCTIONS: &[StatsRow] = &[
    row("avg(field)", exactly(1), Some(Avg), "mean of the numeric values"),
    row("c(field)", between(0, 1), Some(Count), "number of rows, or of values"),
    row("count(field)", between(0, 1), Some(Count), "number of rows, or of values"),
    row("dc(field)", exactly(1), Some(Dc), "number of distinct values"),
    row("distinct_count(field)", exactly(1), Some(Dc), "number of distinct values"),
    row("earliest(field)", exactly(1), Some(Earliest), "value of the oldest event"),
    row("earliest_time(field)", exactly(1), Some(EarliestTime), "time of the oldest event with a value"),
    row("estdc(field)", exactly(1), Some(EstDc), "number of distinct values, counted exactly like dc"),
    row("estdc_error(field)", exactly(1), Some(EstDcError), "relative error of estdc: 0, because it counts exactly"),
    row("exactperc<N>(field)", exactly(1), None, "exact percentile"),
    row("first(field)", exactly(1), Some(First), "first value seen"),
    row("last(field)", exactly(1), Some(Last), "last value seen"),
    row("latest(field)", exactly(1), Some(Latest), "value of the newest event"),
    row("latest_time(field)", exactly(1), Some(LatestTime), "time of the newest event with a value"),
    row("list(field)", exactly(1), Some(List), "the first 100 values, in order"),
    row("max(field)", exactly(1), Some(Max), "greatest value"),
    row("mean(field)", exactly(1), Some(Avg), "mean of the numeric values"),
    row("median(field)", exactly(1), Some(MEDIAN), "middle value"),
    row("min(field)", exactly(1), Some(Min), "smallest value"),
    row("mode(field)", exactly(1), Some(Mode), "most frequent value"),
    row("p<N>(field)", exactly(1), None, "percentile"),
    row("per_day(field)", exactly(1), Some(Per(SECONDS_PER_DAY)), "sum scaled to a day (timechart)"),
    row("per_hour(field)", exactly(1), Some(Per(SECONDS_PER_HOUR)), "sum scaled to an hour (timechart)"),
    row("per_minute(field)", exactly(1), Some(Per(SECONDS_PER_MINUTE)), "sum scaled to a minute (timechart)"),
    row("per_second(field)", exactly(1), Some(Per(1)), "sum scaled to a second (timechart)"),
    row("perc<N>(field)", exactly(1), None, "percentile"),
    row("range(field)", exactly(1), Some(Range), "difference between the greatest and smallest value"),
    row("rate(field)", exactly(1), Some(Rate), "change of a counter per second"),
    row("sparkline(count, span)", between(0, 2), None, "a small chart of an aggregate over time"),
    row("stdev(field)", exactly(1), Some(Stdev), "sample standard deviation"),
    row("stdevp(field)", exactly(1), Some(StdevP), "population standard deviation"),
    row("sum(field)", exactly(1), Some(Sum), "sum of the numeric values"),
    row("sumsq(field)", exactly(1), Some(SumSq), "sum of squares"),
    row("upperperc<N>(field)", exactly(1), None, "upper estimate of a percentile"),
    row("values(field)", exactly(1), Some(Values), "distinct values in lexicographic order"),
    row("var(field)", exactly(1), Some(Var), "sample variance"),
    row("varp(field)", exactly(1), Some(VarP), "population variance"),
];

/// The function of this lower-case name.
pub fn stats_function(name: &str) -> Option<&'static StatsRow> {
    STATS_FUNCTIONS.binary_search_by_key(&name, |function| function.help.name).ok().map(|at| &STATS_FUNCTIONS[at])
}
