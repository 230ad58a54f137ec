//! Syntax of commands that read other than plain events: tstats, datamodel, from, metadata, rest and kin.

use quarry_event::time::Span as TimeSpan;

use super::{Aggregate, SearchExpr, SeriesOptions, Span, TimeModifiers};

/// `tstats`.
#[derive(Clone, Debug, PartialEq)]
pub struct TstatsCommand {
    /// Aggregates, at least one.
    pub aggregates: Vec<Aggregate>,
    /// What is read.
    pub source: TstatsSource,
    /// `where`, time modifiers taken out.
    pub filter: SearchExpr,
    /// Time modifiers of `where`.
    pub time: TimeModifiers,
    /// `by`.
    pub by: Vec<TstatsSplit>,
    /// `prestats=f`: the next reporting command finishes the aggregates.
    pub prestats: bool,
    /// `append=f`: adds to the rows so far.
    pub append: bool,
    /// `chart=t` of mstats: a column for each value of the BY field, as timechart gives; how they are limited.
    pub chart: Option<SeriesOptions>,
    /// `summariesonly=f`.
    pub summaries_only: bool,
    /// `fillnull_value=`: what stands for a missing BY value; without it the row drops out.
    pub fill_null: Option<String>,
}

/// What `tstats` reads.
#[derive(Clone, Debug, PartialEq)]
pub enum TstatsSource {
    /// Index-time fields of the indexes that `where` names.
    Indexes,
    /// `datamodel=MODEL[.OBJECT...]`.
    DataModel(DataModelName),
    /// Measurements of metrics: `mstats`.
    Metrics,
    /// A namespace that `tscollect` wrote.
    Namespace(String, Span),
    /// `sid=`: the result of a `tscollect` job.
    Job(String, Span),
}

/// A data model and one of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataModelName {
    /// Name of the model.
    pub model: String,
    /// Name of the object; the last one of a path.
    pub object: Option<String>,
    /// Place in the text.
    pub span: Span,
}

/// One BY field of `tstats`.
#[derive(Clone, Debug, PartialEq)]
pub struct TstatsSplit {
    /// Name as written, e.g. `host`, `Processes.dest`, `PREFIX(level=)`.
    pub field: String,
    /// `span=` where one is given.
    pub span: Option<TimeSpan>,
    /// Place in the text.
    pub place: Span,
}

/// `datamodel`.
#[derive(Clone, Debug, PartialEq)]
pub struct DataModelCommand {
    /// Model and object; `None` lists the models.
    pub name: Option<DataModelName>,
    /// What to do with it.
    pub mode: DataModelMode,
    /// `strict_fields=t`: keep only fields of the model.
    pub strict_fields: bool,
}

/// What `datamodel` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataModelMode {
    /// The definition.
    Definition,
    /// Events, fields named `Object.field`.
    Search,
    /// Events, fields with their own names.
    Flat,
}

/// `from`.
#[derive(Clone, Debug, PartialEq)]
pub enum FromCommand {
    /// `datamodel:MODEL.OBJECT`.
    DataModel(DataModelName),
    /// `lookup:NAME`, `inputlookup:NAME`.
    Lookup(String, Span),
    /// `savedsearch:NAME`.
    SavedSearch(String, Span),
    /// `searchtxn`: transactions of a stanza of transactiontypes.conf.
    Transactions(SearchTxnCommand),
}

/// `searchtxn`.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchTxnCommand {
    /// Stanza of transactiontypes.conf.
    pub kind: String,
    /// Its place.
    pub span: Span,
    /// `max_terms=1000`: events whose values are looked for, at most.
    pub terms_max: usize,
    /// `use_disjunct=t`: whether one value in common is enough.
    pub any: bool,
    /// `eventsonly=f`: the events instead of the transactions.
    pub events_only: bool,
    /// What transactions must hold, as written.
    pub condition: String,
}

/// `savedsearch`.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedSearchCommand {
    /// Name of the saved search.
    pub name: String,
    /// Place of the name.
    pub span: Span,
    /// Replacements of `$key$` in its text.
    pub tokens: Vec<(String, String)>,
    /// Whether `$key$` is replaced (`nosubstitution=f`).
    pub substitutes: bool,
}

/// `metadata`.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataCommand {
    /// `type=`: `hosts`, `sources` or `sourcetypes`.
    pub kind: String,
    /// `index=`; every index searched by default when empty.
    pub indexes: Vec<String>,
}
