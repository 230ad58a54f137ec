//! What the node knows beside events, for the commands that read it: rest, loadjob, history.
//!
//! The engine asks a [`NodeSource`]; who implements it knows the configuration and the jobs. Without a node, as in a
//! search over files, there is nothing to ask and the message says so.

use arrow::record_batch::RecordBatch;
use quarry_conf::Permissions;
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnBuilder, batch_of};
use quarry_stdx::Fault;

/// What every node answers to in `splunk_server=`.
pub(crate) const THIS_NODE: &str = "local";

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
    fn entries(&self, _path: &str, _viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        Ok(None)
    }
    /// The endpoints there are, for a suggestion.
    fn endpoints(&self) -> Vec<String> {
        Vec::new()
    }
    /// What is kept of the job of this id; `None` when nothing is that the user may see.
    fn job(&self, _sid: &str, _viewer: &Permissions) -> Result<Option<KeptJob>, Fault> {
        Ok(None)
    }
    /// Id of the job that ran a saved search so many runs ago, among those that the user may see.
    fn saved_job(&self, _name: &str, _offset: usize, _viewer: &Permissions) -> Option<String> {
        None
    }
    /// Puts on record that events are about to be deleted; they are not where that fails.
    fn note_deletion(&self, _viewer: &Permissions, _record: &DeletionRecord<'_>) -> Result<(), Fault> {
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

/// Entries as rows, the fields in the order they come.
pub(crate) fn table_of(entries: &[NodeEntry]) -> Result<RecordBatch, EngineError> {
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
