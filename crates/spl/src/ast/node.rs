//! Syntax of commands that read what the node knows beside events: rest, loadjob, history, dbinspect.

use quarry_event::time::Span as TimeSpan;

use super::Span;

/// A command that reads facts of the node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeCommand {
    /// `rest`.
    Rest(RestCommand),
    /// `loadjob`.
    LoadJob(LoadJobCommand),
    /// `history [events=f]`.
    History,
    /// `dbinspect`.
    DbInspect(DbInspectCommand),
}

/// `rest`.
#[derive(Clone, Debug, PartialEq)]
pub struct RestCommand {
    /// Path of the endpoint, from `/services`.
    pub path: String,
    /// Its place.
    pub span: Span,
    /// `count=0`: entries at most; 0 is all.
    pub count: usize,
    /// `search=`: a text that entries hold.
    pub search: Option<String>,
    /// `f=`: fields that are kept; empty is all.
    pub fields: Vec<String>,
    /// `strict=f`: an endpoint that is not there is an error.
    pub strict: bool,
    /// `splunk_server=`: names of the nodes that are asked, with `*`; empty is this one.
    pub servers: Vec<String>,
    /// `report_as=text`: the answer as one text instead of its entries.
    pub as_text: bool,
}

/// `loadjob`.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadJobCommand {
    /// What is loaded.
    pub job: LoadedJob,
    /// Its place.
    pub span: Span,
    /// `artifact_offset=0`: how many runs of a saved search back.
    pub offset: usize,
    /// `events=f`: the events of the search instead of its result.
    pub events: bool,
}

/// Which results `loadjob` reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadedJob {
    /// A search id.
    Sid(String),
    /// `savedsearch="user:app:name"`.
    Saved {
        /// Owner.
        user: String,
        /// App.
        app: String,
        /// Name.
        name: String,
    },
}

/// `dbinspect`.
#[derive(Clone, Debug, PartialEq)]
pub struct DbInspectCommand {
    /// `index=`; empty is the default index.
    pub indexes: Vec<String>,
    /// `timeformat=%m/%d/%Y:%H:%M:%S`.
    pub time_format: String,
    /// `span=`: buckets counted by time.
    pub span: Option<TimeSpan>,
    /// `corruptonly=f`.
    pub corrupt_only: bool,
    /// Whether the range of the search does not matter (`alltime=f`).
    pub all_time: bool,
}
