//! Commands that read what the node knows beside events: rest, loadjob, history, dbinspect.
//!
//! The engine asks a [`NodeSource`]; who implements it knows the configuration and the jobs. Buckets are asked of the
//! source of events. Without a node, as in a search over files, there is nothing to ask and the message says so.

use arrow::record_batch::RecordBatch;
use quarry_conf::Permissions;
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_spl::ast::{DbInspectCommand, LoadJobCommand, LoadedJob, NodeCommand, RestCommand, Stage};
use quarry_store::{BucketListing, IndexSelector, ListingState};

mod answer;

use crate::EngineError;
use crate::command::{CommandContext, RowIter, of_batches};
use crate::commands::spans::TimeSpans;
use crate::functions::percent_decode;
use crate::rows::{self, ColumnBuilder, Value, batch_of};
use crate::run::Runner;

/// Entries that an endpoint answers at most.
const ENTRIES_MAX: usize = 100_000;
/// Bytes of a megabyte.
const MEGABYTE: f64 = 1_048_576.0;

/// What every node answers to in `splunk_server=`.
const THIS_NODE: &str = "local";

/// One entry of an endpoint: fields with their values, in order.
pub type NodeEntry = Vec<(String, Vec<String>)>;

/// The result of a search that ended.
#[derive(Clone, Debug, Default)]
pub struct KeptJob {
    /// Its rows.
    pub rows: Vec<RecordBatch>,
    /// Whether they are events.
    pub events: bool,
    /// What the search had to say.
    pub messages: Vec<String>,
}

/// A search that deletes events.
#[derive(Clone, Copy, Debug)]
pub struct DeletionRecord<'a> {
    /// Its name.
    pub sid: &'a str,
    /// Its text as written.
    pub search: &'a str,
    /// How many events it found.
    pub events: u64,
}

/// What commands may ask of the node they run on.
pub trait NodeSource: Send + Sync {
    /// Name of the node, `splunk_server` of its events.
    fn name(&self) -> String {
        THIS_NODE.to_owned()
    }
    /// The entries that a user sees of an endpoint such as `/services/server/info`; `None` when there is no such endpoint,
    /// an error where the user may not ask it.
    fn entries(&self, _path: &str, _viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, String> {
        Ok(None)
    }
    /// The endpoints there are, for a suggestion.
    fn endpoints(&self) -> Vec<String> {
        Vec::new()
    }
    /// What is kept of the job of this id; `None` when nothing is that the user may see.
    fn job(&self, _sid: &str, _viewer: &Permissions) -> Result<Option<KeptJob>, String> {
        Ok(None)
    }
    /// Id of the job that ran a saved search so many runs ago, among those that the user may see.
    fn saved_job(&self, _name: &str, _offset: usize, _viewer: &Permissions) -> Option<String> {
        None
    }
    /// Puts on record that events are about to be deleted; they are not where that fails.
    fn note_deletion(&self, _viewer: &Permissions, _record: &DeletionRecord<'_>) -> Result<(), String> {
        Ok(())
    }
    /// Searches that ran before and that the user may see, newest first; `None` when they are not recorded.
    fn history(&self, _viewer: &Permissions) -> Option<Vec<NodeEntry>> {
        None
    }
}

/// No node: only events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNode;

impl NodeSource for NoNode {}

impl Runner {
    /// The rows of a command that reads facts of the node, and the commands after it.
    pub(crate) fn node_command(&self, command: &NodeCommand, rest: &[Stage]) -> Result<RowIter, EngineError> {
        let batches = match command {
            NodeCommand::Rest(command) => vec![self.rest(command)?],
            NodeCommand::LoadJob(command) => self.loaded(command)?,
            NodeCommand::History => match self.node.history(&self.context.permissions) {
                Some(entries) => vec![timed(&table_of(&entries)?)?],
                None => {
                    self.context.messages.push("history: searches that ran are not recorded here");
                    Vec::new()
                }
            },
            NodeCommand::DbInspect(command) => vec![self.inspected(command)?],
        };
        self.chain(of_batches(batches), rest, &self.context)
    }

    fn rest(&self, command: &RestCommand) -> Result<RecordBatch, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let server = self.node.name();
        let is_asked = |name: &String| {
            let name = crate::pattern::Wildcard::new(name, false);
            name.is_match(THIS_NODE) || name.is_match(&server)
        };
        if !command.servers.is_empty() && !command.servers.iter().any(is_asked) {
            let names = command.servers.join(", ");
            let message = format!("rest: there is no server {names}; this node is called {server} and asks no other");
            self.context.messages.push(message);
            return batch_of(Vec::<(String, _)>::new(), 0);
        }
        let endpoint = command.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        let entries = self.entries_at(endpoint).map_err(|fault| invalid(format!("rest: {fault}")))?;
        let Some(mut entries) = entries else {
            let known = self.node.endpoints();
            let hint = match known.is_empty() {
                true => "this search runs without a node".to_owned(),
                false => format!("there are {}", known.join(", ")),
            };
            let message = format!("rest: there is no endpoint {endpoint}; {hint}");
            if command.strict {
                return Err(invalid(message));
            }
            self.context.messages.push(message);
            return batch_of(Vec::<(String, _)>::new(), 0);
        };
        if let Some(wanted) = &command.search {
            entries.retain(|entry| holds(entry, wanted));
        }
        let limit = if command.count == 0 { ENTRIES_MAX } else { command.count };
        entries.truncate(limit);
        if !command.fields.is_empty() {
            entries.iter_mut().for_each(|entry| {
                entry.retain(|(name, _)| name == "title" || command.fields.iter().any(|field| field == name));
            });
        }
        if command.as_text {
            let text = answer::text_of(&command.path, &entries).map_err(|fault| invalid(format!("rest: {fault}")))?;
            return table_of(&[vec![("splunk_server".to_owned(), vec![server]), ("value".to_owned(), vec![text])]]);
        }
        entries.iter_mut().for_each(|entry| entry.push(("splunk_server".to_owned(), vec![server.clone()])));
        table_of(&entries)
    }

    /// The entries of an endpoint, or the one whose name the path ends with, percent-encoded where it must be.
    fn entries_at(&self, endpoint: &str) -> Result<Option<Vec<NodeEntry>>, String> {
        let viewer = self.context.permissions.as_ref();
        if let Some(entries) = self.node.entries(endpoint, viewer)? {
            return Ok(Some(entries));
        }
        let Some((parent, name)) = endpoint.rsplit_once('/') else { return Ok(None) };
        let Some(mut entries) = self.node.entries(parent, viewer)? else { return Ok(None) };
        let name = percent_decode(name);
        entries.retain(|entry| entry.iter().any(|(field, values)| field == "title" && values.contains(&name)));
        Ok((!entries.is_empty()).then_some(entries))
    }

    fn loaded(&self, command: &LoadJobCommand) -> Result<Vec<RecordBatch>, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let sid = match &command.job {
            LoadedJob::Sid(sid) => sid.clone(),
            // Saved searches belong to apps here, so that any user and app leads to them.
            LoadedJob::Saved { name, .. } => {
                let found = self.node.saved_job(name, command.offset, &self.context.permissions);
                found.ok_or_else(|| invalid(format!("loadjob: no run of the saved search {name} is kept")))?
            }
        };
        match self.node.job(&sid, &self.context.permissions) {
            Ok(Some(job)) if command.events && !job.events => Err(invalid(format!(
                "loadjob: the events of job {sid} are not kept, only its result: drop events=true"
            ))),
            Ok(Some(job)) => {
                job.messages.iter().for_each(|message| self.context.messages.push(format!("job {sid}: {message}")));
                Ok(job.rows)
            }
            Ok(None) => Err(invalid(format!(
                "loadjob: no job {sid} is kept; run the search again, and find its id with `| history` or, of an answer over \
                 REST, in the header X-Quarry-Sid"
            ))),
            Err(fault) => Err(invalid(format!("loadjob: {fault}"))),
        }
    }

    fn inspected(&self, command: &DbInspectCommand) -> Result<RecordBatch, EngineError> {
        let Some(mut buckets) = self.source.buckets() else {
            return Err(EngineError::invalid(
                "dbinspect: this search runs without a data folder, so there are no buckets",
            ));
        };
        let wanted = if command.indexes.is_empty() { self.default_indexes.clone() } else { command.indexes.clone() };
        let wanted = IndexSelector::new(wanted);
        buckets.retain(|bucket| wanted.matches(&bucket.index));
        let range = self.context.range;
        buckets.retain(|bucket| {
            let begins_later = range.latest.is_some_and(|latest| bucket.time_min >= latest);
            let ends_before = range.earliest.is_some_and(|earliest| bucket.time_max < earliest);
            command.all_time || (!begins_later && !ends_before)
        });
        if command.corrupt_only {
            buckets.clear();
        }
        match command.span {
            None => buckets_table(&buckets, command, &self.node.name(), &self.context),
            Some(span) => {
                let mut spans = TimeSpans::new(span, None, &self.context)?;
                by_time(&buckets, |time| spans.floor(time))
            }
        }
    }
}

/// One row per bucket.
fn buckets_table(
    buckets: &[BucketListing],
    command: &DbInspectCommand,
    server: &str,
    context: &CommandContext,
) -> Result<RecordBatch, EngineError> {
    let seconds = |time: i64| Value::Int(time.div_euclid(NS_PER_SEC));
    let state = |state: ListingState| match state {
        ListingState::Hot => "hot",
        ListingState::Sealing => "warm (sealing)",
        ListingState::Sealed => "warm",
    };
    type Cell<'c> = &'c dyn Fn(&BucketListing) -> Value<'static>;
    let cells: [(&str, Cell<'_>); 12] = [
        ("bucketId", &|bucket| Value::owned(bucket.id.clone())),
        ("endEpoch", &|bucket| seconds(bucket.time_max)),
        ("endTime", &|bucket| Value::owned(strftime(bucket.time_max, &command.time_format, &context.zone))),
        ("eventCount", &|bucket| Value::Int(bucket.events as i64)),
        ("id", &|bucket| Value::owned(bucket.id.rsplit('~').next().unwrap_or_default().to_owned())),
        ("index", &|bucket| Value::owned(bucket.index.clone())),
        ("rawSize", &|bucket| Value::Int(bucket.raw_bytes as i64)),
        ("sizeOnDiskMB", &|bucket| Value::owned(format!("{:.6}", bucket.stored_bytes as f64 / MEGABYTE))),
        ("splunk_server", &|_| Value::owned(server.to_owned())),
        ("startEpoch", &|bucket| seconds(bucket.time_min)),
        ("startTime", &|bucket| Value::owned(strftime(bucket.time_min, &command.time_format, &context.zone))),
        ("state", &|bucket| Value::text_of(state(bucket.state))),
    ];
    let columns = cells.into_iter().map(|(name, cell)| {
        let mut column = ColumnBuilder::new(buckets.len());
        buckets.iter().for_each(|bucket| column.push(cell(bucket)));
        (name, column.finish())
    });
    batch_of(columns, buckets.len())
}

/// How many buckets of each state begin in each span of time.
fn by_time(buckets: &[BucketListing], mut floor: impl FnMut(i64) -> i64) -> Result<RecordBatch, EngineError> {
    let mut counts: std::collections::BTreeMap<i64, (i64, i64)> = std::collections::BTreeMap::new();
    for bucket in buckets {
        let entry = counts.entry(floor(bucket.time_min)).or_default();
        match bucket.state {
            ListingState::Hot => entry.0 += 1,
            ListingState::Sealing | ListingState::Sealed => entry.1 += 1,
        }
    }
    let mut columns: [ColumnBuilder; 3] = std::array::from_fn(|_| ColumnBuilder::new(counts.len()));
    for (time, (hot, warm)) in &counts {
        columns[0].push(Value::Time(*time));
        columns[1].push_int(*hot);
        columns[2].push_int(*warm);
    }
    let names = ["_time", "hot", "warm"];
    batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), counts.len())
}

/// Whether an entry holds what `search=` asks: `name=value` with stars, or a text anywhere.
fn holds(entry: &NodeEntry, wanted: &str) -> bool {
    wanted.split_whitespace().all(|word| match word.split_once('=') {
        Some((name, value)) => {
            let pattern = crate::pattern::Wildcard::new(value.trim_matches('"'), false);
            entry.iter().any(|(field, values)| field == name && values.iter().any(|text| pattern.is_match(text)))
        }
        None => {
            let word = word.trim_matches(['"', '*']).to_lowercase();
            entry.iter().any(|(_, values)| values.iter().any(|text| text.to_lowercase().contains(&word)))
        }
    })
}

/// Entries as rows, the fields in the order they come.
fn table_of(entries: &[NodeEntry]) -> Result<RecordBatch, EngineError> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in entries.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let columns = names.iter().map(|name| {
        let mut column = ColumnBuilder::new(entries.len());
        for entry in entries {
            match entry.iter().find(|(field, _)| field == name) {
                Some((_, values)) => column.push_multi(values),
                None => column.push_null(),
            }
        }
        (*name, column.finish())
    });
    batch_of(columns.collect::<Vec<_>>(), entries.len())
}

/// Rows with `_time` as a time.
fn timed(rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let reader = rows::reader(rows, "_time");
    let mut times = ColumnBuilder::new(rows.num_rows());
    (0..rows.num_rows()).for_each(|row| match reader.number(row) {
        Some(seconds) => times.push_time((seconds * NS_PER_SEC as f64) as i64),
        None => times.push_null(),
    });
    rows::with_column(rows, "_time", times.finish())
}

/// Name of a command of the node.
pub(crate) fn name_of(command: &NodeCommand) -> &'static str {
    match command {
        NodeCommand::Rest(_) => "rest",
        NodeCommand::LoadJob(_) => "loadjob",
        NodeCommand::History => "history",
        NodeCommand::DbInspect(_) => "dbinspect",
    }
}
