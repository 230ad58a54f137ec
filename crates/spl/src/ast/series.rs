//! Series of `chart` and `timechart`: split fields, and how series are limited and named.

use serde::{Deserialize, Serialize};

use super::{BinCommand, BinOptions, CompareOp, FieldPattern, StatsFunction};

/// A split field of chart/timechart with its binning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitField {
    /// Field name.
    pub field: FieldPattern,
    /// Binning options given after the name.
    pub bin: BinOptions,
}

impl SplitField {
    /// The `bin` command that runs before the chart; `None` without binning options.
    pub fn bin_command(&self) -> Option<BinCommand> {
        let is_binned = self.bin != BinOptions::default();
        is_binned.then(|| BinCommand { field: self.field.clone(), output: None, options: self.bin.clone() })
    }
}

/// Limits of the series of chart and timechart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesOptions {
    /// `limit=` (default `10`): number of series; 0 for all.
    pub limit: usize,
    /// Whether the series with the smallest values are kept (`limit=bottomN`).
    pub bottom: bool,
    /// `agg=`: function by which series are ranked.
    pub agg: Option<StatsFunction>,
    /// `useother=` (default `t`): whether the other series are merged into one.
    pub use_other: bool,
    /// `otherstr=` (default `OTHER`): name of the merged series.
    pub other_name: String,
    /// `usenull=` (default `t`): whether rows without the split field form a series.
    pub use_null: bool,
    /// `nullstr=` (default `NULL`): name of the series of rows without the split field.
    pub null_name: String,
    /// `where AGG in topN` / `where AGG > N`.
    pub filter: Option<SeriesFilter>,
    /// `sep=` (default `: `): separator between the names of aggregate and series.
    pub separator: String,
    /// `format=`: pattern for series names, such as `$AGG$: $VAL$`.
    pub format: Option<String>,
}

/// `where` clause of chart/timechart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesFilter {
    /// Aggregate over the series' cells.
    pub function: StatsFunction,
    /// Condition.
    pub test: SeriesTest,
}

/// Condition of a [`SeriesFilter`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SeriesTest {
    /// `in topN` (true) or `in bottomN` (false).
    In {
        /// Whether the greatest rather than the smallest series are kept.
        top: bool,
        /// Number of series.
        count: usize,
    },
    /// `< N`, `<= N`, `> N` or `>= N`.
    Compare {
        /// Operator.
        op: CompareOp,
        /// Right side.
        value: f64,
    },
}
