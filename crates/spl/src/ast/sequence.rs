//! Syntax of the commands that look from row to row: autoregress, delta, trendline, uniq and their kin.

/// A command whose answer for a row depends on the rows before it.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceCommand {
    /// `autoregress`.
    AutoRegress(AutoRegressCommand),
    /// `delta`.
    Delta(DeltaCommand),
    /// `trendline`.
    TrendLine(Vec<Trend>),
    /// `uniq`.
    Uniq,
}

/// `autoregress`.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoRegressCommand {
    /// Field copied.
    pub field: String,
    /// `AS`; only for one distance.
    pub output: Option<String>,
    /// Least distance in rows.
    pub first: usize,
    /// Greatest distance in rows.
    pub last: usize,
}

/// `delta`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaCommand {
    /// Field compared.
    pub field: String,
    /// Field written.
    pub output: String,
    /// `p=1`: how many rows back.
    pub distance: usize,
}

/// One line of `trendline`.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// How values are weighted.
    pub kind: TrendKind,
    /// Rows averaged.
    pub period: usize,
    /// Field averaged.
    pub field: String,
    /// Field written.
    pub output: String,
}

/// Moving averages of `trendline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrendKind {
    /// `sma`: all alike.
    Simple,
    /// `wma`: newer ones more, linearly.
    Weighted,
    /// `ema`: newer ones more, by a share of what is left.
    Exponential,
}
