//! Syntax of commands that look at all rows of a table: makecontinuous, timewrap, concurrency, outlier,
//! cluster, require.

use super::FieldPattern;
use quarry_event::time::Span as TimeSpan;

/// A command that needs every row.
#[derive(Clone, Debug, PartialEq)]
pub enum TablesCommand {
    /// `makecontinuous`.
    MakeContinuous(MakeContinuousCommand),
    /// `timewrap`.
    TimeWrap(TimeWrapCommand),
    /// `concurrency`.
    Concurrency(ConcurrencyCommand),
    /// `outlier`.
    Outlier(OutlierCommand),
    /// `cluster`.
    Cluster(ClusterCommand),
    /// `require`: a search without rows fails.
    Require,
}

/// `makecontinuous`.
#[derive(Clone, Debug, PartialEq)]
pub struct MakeContinuousCommand {
    /// Field that gets no gaps.
    pub field: String,
    /// How far its values are apart.
    pub step: ContinuousStep,
    /// `start=` and `end=`, for numbers.
    pub bounds: (Option<f64>, Option<f64>),
}

/// How far values of a continuous field are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ContinuousStep {
    /// Nothing was said: by the smallest usual span that gives at most so many rows.
    Bins(usize),
    /// `span=5m`.
    Time(TimeSpan),
    /// `span=10`.
    Number(f64),
}

/// `timewrap`.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeWrapCommand {
    /// Length of a period.
    pub span: TimeSpan,
    /// Name of its unit: `day`, `week`.
    pub unit: &'static str,
    /// `align=now`: periods end now, not at the end of the range.
    pub ends_now: bool,
    /// `series=`.
    pub series: WrapSeries,
}

/// How series of `timewrap` are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrapSeries {
    /// `latest_day`, `1day_before`.
    Relative,
    /// `s0`, `s1`.
    Short,
    /// The start of the period in this format.
    Exact(String),
}

/// `concurrency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcurrencyCommand {
    /// `duration=`.
    pub duration: String,
    /// `start=_time`.
    pub start: String,
    /// `output=concurrency`.
    pub output: String,
}

/// `outlier`.
#[derive(Clone, Debug, PartialEq)]
pub struct OutlierCommand {
    /// `action=rm`: the row drops out; else the number is cut off.
    pub removes: bool,
    /// `mark=f`: `000` before numbers that were cut off.
    pub marks: bool,
    /// `param=2.5`: spans of quartiles from the median.
    pub factor: f64,
    /// `uselower=f`: low numbers are outliers too.
    pub lower: bool,
    /// Fields; empty is every field.
    pub fields: Vec<FieldPattern>,
}

/// `cluster`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterCommand {
    /// `t=0.8`: how alike texts of a cluster are, above 0 and below 1.
    pub threshold: f64,
    /// `delims=`: characters between words; `None` is everything but letters and digits.
    pub delimiters: Option<String>,
    /// `showcount=f`.
    pub shows_count: bool,
    /// `countfield=cluster_count`.
    pub count_field: String,
    /// `labelfield=cluster_label`.
    pub label_field: String,
    /// `field=_raw`.
    pub field: String,
    /// `labelonly=f`: every row stays and gets a label.
    pub label_only: bool,
    /// `match=termlist`.
    pub matching: ClusterMatch,
}

/// What makes texts of `cluster` alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterMatch {
    /// The same words in the same order.
    TermList,
    /// The same words.
    TermSet,
    /// The same runs of three characters.
    NGramSet,
}
