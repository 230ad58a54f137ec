//! Syntax of commands that look for patterns in all rows: predict, kmeans, the anomaly commands, associate,
//! correlate, arules, erex, selfjoin, bucketdir, cofilter, diff, localize, relevancy.

use quarry_event::time::Span as TimeSpan;

use super::{FieldPattern, Span};

/// A command that looks for patterns.
#[derive(Clone, Debug, PartialEq)]
pub enum AnalyticsCommand {
    /// `predict`.
    Predict(PredictCommand),
    /// `kmeans`.
    KMeans(KMeansCommand),
    /// `anomalies`.
    Anomalies(AnomaliesCommand),
    /// `anomalousvalue`.
    AnomalousValue(AnomalousValueCommand),
    /// `anomalydetection` by histograms.
    AnomalyDetection(AnomalyDetectionCommand),
    /// `associate`.
    Associate(AssociateCommand),
    /// `correlate`.
    Correlate,
    /// `cofilter`.
    Cofilter(CofilterCommand),
    /// `diff`.
    Diff(DiffCommand),
    /// `localize`.
    Localize(LocalizeCommand),
    /// `relevancy`: words that the search asks for, in lower case.
    Relevancy(Vec<String>),
    /// `arules`.
    Arules(ArulesCommand),
    /// `erex`.
    Erex(ErexCommand),
    /// `selfjoin`.
    SelfJoin(SelfJoinCommand),
    /// `bucketdir`.
    BucketDir(BucketDirCommand),
    /// `analyzefields classfield=FIELD`.
    AnalyzeFields(String),
}

/// `predict`.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictCommand {
    /// Series, each with its name in the output.
    pub series: Vec<(String, String)>,
    /// `algorithm=LLP5`.
    pub algorithm: PredictAlgorithm,
    /// `future_timespan=5`: rows added behind the last.
    pub future: usize,
    /// `correlate=`: the series that [`PredictAlgorithm::Beside`] looks at.
    pub correlate: Option<String>,
    /// `holdback=0`: rows at the end that are not looked at.
    pub holdback: usize,
    /// `period=`: rows of a season; found out when absent.
    pub period: Option<usize>,
    /// `upperNN=NAME`: percent and name of the upper bound.
    pub upper: (f64, Option<String>),
    /// `lowerNN=NAME`.
    pub lower: (f64, Option<String>),
}

/// Models of `predict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictAlgorithm {
    /// A level that wanders.
    Level,
    /// A level and a slope that wander.
    Trend,
    /// A level and a season.
    Season,
    /// The mean of a level with a slope and of a season.
    TrendAndSeason,
    /// Levels of two series that follow them alike.
    TwoLevels,
    /// A level, and what another series tells of the same moment.
    Beside,
}

/// `kmeans`.
#[derive(Clone, Debug, PartialEq)]
pub struct KMeansCommand {
    /// `k=2`: groups, or from fewest to most.
    pub groups: (usize, usize),
    /// `reps=10`: starts, of which the best counts.
    pub starts: usize,
    /// `maxiters=10000`.
    pub rounds: usize,
    /// `t=0`: movement of the centres that ends a start.
    pub tolerance: f64,
    /// `dt=sqeuclidean`.
    pub distance: KMeansDistance,
    /// `cfield=CLUSTERNUM`.
    pub output: String,
    /// `showcentroid=t`.
    pub shows_centre: bool,
    /// Fields; empty is every field with numbers.
    pub fields: Vec<FieldPattern>,
}

/// Distances of `kmeans`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KMeansDistance {
    /// `l1`, `cityblock`.
    Sum,
    /// `sqeuclidean`, `l2`.
    Squares,
    /// `cosine`.
    Angle,
}

/// `anomalies`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnomaliesCommand {
    /// `threshold=0.01`: rows less unexpected than this drop out.
    pub threshold: f64,
    /// `labelonly=f`: every row stays.
    pub label_only: bool,
    /// `normalize=t`: numbers count as alike.
    pub normalizes: bool,
    /// `maxvalues=100`: rows before that are looked at.
    pub window: usize,
    /// `field=_raw`.
    pub field: String,
    /// `denylist=`: a table of texts that are no news, and its place.
    pub denied: Option<(String, Span)>,
    /// `denylistthreshold=0.05`: share of new pieces up to which a row is like one of them.
    pub denied_threshold: f64,
    /// `BY`.
    pub by: Vec<FieldPattern>,
}

/// What commands on anomalies do with what they find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnomalyAction {
    /// Keep only anomalous rows.
    Filter,
    /// Keep all rows, with what was found.
    Annotate,
    /// A row per field instead.
    Summary,
}

/// `anomalousvalue`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnomalousValueCommand {
    /// `action=filter`.
    pub action: AnomalyAction,
    /// `pthresh=0.01`.
    pub threshold: f64,
    /// `minsupcount=100`: rows a field is in at least, and `minsupfreq=0.05`: their share.
    pub support: (usize, f64),
    /// `maxanofreq=0.05`: greatest share of rows that may be anomalous in a field.
    pub anomalous_share: f64,
    /// `minnormfreq=0.01`: a value this frequent must exist in a field of texts.
    pub normal_share: f64,
    /// Fields; empty is every field.
    pub fields: Vec<FieldPattern>,
}

/// `anomalydetection`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnomalyDetectionCommand {
    /// `action=filter`.
    pub action: AnomalyAction,
    /// `pthresh=`: probability below which a row is anomalous; found out when absent.
    pub threshold: Option<f64>,
    /// `cutoff=t`: few anomalies rather than many.
    pub cutoff: bool,
    /// Fields; empty is every field.
    pub fields: Vec<FieldPattern>,
}

/// `associate`.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociateCommand {
    /// `supcnt=100`: rows that have the value, at least.
    pub support: usize,
    /// `supfreq=0.1`: their share, at least.
    pub support_share: f64,
    /// `improv=0.5`: entropy that knowing the value takes away, at least.
    pub improvement: f64,
    /// Fields; empty is every field.
    pub fields: Vec<FieldPattern>,
}

/// `arules`.
#[derive(Clone, Debug, PartialEq)]
pub struct ArulesCommand {
    /// `sup=3`: rows that a rule holds in, at least.
    pub support: usize,
    /// `conf=0.5`.
    pub confidence: f64,
    /// Fields.
    pub fields: Vec<FieldPattern>,
}

/// `erex`.
#[derive(Clone, Debug, PartialEq)]
pub struct ErexCommand {
    /// Field made.
    pub output: String,
    /// `fromfield=_raw`.
    pub field: String,
    /// `examples=`.
    pub examples: Vec<String>,
    /// `counterexamples=`.
    pub counterexamples: Vec<String>,
    /// `maxtrainers=100`: rows looked at.
    pub rows: usize,
    /// Place of the examples.
    pub span: Span,
}

/// `selfjoin`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelfJoinCommand {
    /// `overwrite=t`: values of the other row win.
    pub overwrites: bool,
    /// `max=1`: other rows for each; 0 is all.
    pub max: usize,
    /// `keepsingle=f`: rows without another stay.
    pub keeps_single: bool,
    /// Fields that must be equal.
    pub fields: Vec<FieldPattern>,
}

/// `bucketdir`.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketDirCommand {
    /// `pathfield=`.
    pub path: String,
    /// `sizefield=`.
    pub size: String,
    /// `maxcount=10`.
    pub max: usize,
    /// `minfolders=` of `folderize`: paths that are left at least.
    pub least: usize,
    /// `countfield=`.
    pub count: Option<String>,
    /// `sep=/`.
    pub separator: String,
}

/// `cofilter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CofilterCommand {
    /// Field of those that have items.
    pub user: String,
    /// Field of the items.
    pub item: String,
}

/// `diff`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffCommand {
    /// `position1=1` and `position2=2`: rows that are compared, counted from 1; the second is the greater.
    pub positions: (usize, usize),
    /// `attribute=_raw`.
    pub field: String,
    /// `diffheader=f`.
    pub header: bool,
    /// `context=f`: the older form.
    pub context: bool,
    /// `maxlen=100000`: bytes of each text that are compared; 0 is all.
    pub bytes_max: usize,
}

/// `localize`; `None` is no time at all.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalizeCommand {
    /// `maxpause=1m`: longest time between two rows of a region.
    pub max_pause: Option<TimeSpan>,
    /// `timebefore=30s`: what a region begins earlier by.
    pub before: Option<TimeSpan>,
    /// `timeafter=30s`: what it ends later by.
    pub after: Option<TimeSpan>,
}
