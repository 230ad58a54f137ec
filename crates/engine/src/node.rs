//! Node information other than events, for the commands that read it: rest, loadjob, history.
//!
//! The engine asks a [`NodeSource`], whose implementation knows configuration and jobs. Without a node, as in a search
//! over files, such commands fail with a message that says so.

use arrow::record_batch::RecordBatch;
use quarry_conf::Permissions;
use quarry_eval::EngineError;
use quarry_eval::pattern::Wildcard;
use quarry_eval::rows::{ColumnBuilder, batch_of};
use quarry_stdx::Fault;

/// The value of `splunk_server=` that every node accepts.
pub(crate) const THIS_NODE: &str = "local";

/// One entry of an endpoint: fields with their values, in order.
pub type NodeEntry = Vec<(String, Vec<String>)>;

/// A request for the entries of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EntriesRequest<'r> {
    /// Path of the endpoint, without arguments.
    pub path: &'r str,
    /// Arguments for the endpoint as in a URL, `NAME=VALUE` joined with `&`.
    pub arguments: &'r str,
    /// Condition on the entries.
    pub search: Option<&'r str>,
    /// Maximum number of entries; 0 for all.
    pub count: usize,
}

impl EntriesRequest<'_> {
    /// Selects the requested entries from all entries of an endpoint.
    pub fn select(&self, mut entries: Vec<NodeEntry>) -> Vec<NodeEntry> {
        if let Some(wanted) = self.search {
            entries.retain(|entry| matches_search(entry, wanted));
        }
        if self.count > 0 {
            entries.truncate(self.count);
        }
        entries
    }
}

/// The stored result of a search.
#[derive(Clone, Debug, Default)]
pub struct JobResult {
    /// Rows of the result.
    pub rows: Vec<RecordBatch>,
    /// Whether the rows are events.
    pub events: bool,
    /// Messages of the search.
    pub messages: Vec<String>,
    /// Whether the search ended before it had read all events, or found more rows than a job keeps.
    pub is_partial: bool,
}

/// A search that deletes events.
#[derive(Clone, Copy, Debug)]
pub struct DeletionRecord<'a> {
    /// Id of the search.
    pub sid: &'a str,
    /// Text of the search as written.
    pub search: &'a str,
    /// Number of events that the search found.
    pub events: u64,
}

/// An open session of a search's user at the REST interface of the node, for a program that the search runs. The
/// session ends when this value is dropped.
pub struct NodeSession {
    key: String,
    uri: String,
    end: Option<Box<dyn FnOnce() + Send>>,
}

impl NodeSession {
    /// A session with this key at this URI; `end` ends the session.
    pub fn new(key: String, uri: String, end: Box<dyn FnOnce() + Send>) -> NodeSession {
        NodeSession { key, uri, end: Some(end) }
    }

    /// The key of the session.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The URI of the REST interface.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }
}

impl Drop for NodeSession {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

/// Node information available to commands.
pub trait NodeSource: Send + Sync {
    /// Name of the node, `splunk_server` of its events.
    fn name(&self) -> String {
        THIS_NODE.to_owned()
    }
    /// The entries of an endpoint such as `/services/server/info` that this source reads itself and the user may see;
    /// `None` if there is no such endpoint, an error if the user may not access it.
    fn entries(&self, _path: &str, _viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        Ok(None)
    }
    /// The answer of the node's REST interface to a request; without such an interface, the source's own entries that
    /// match the request.
    fn listed(&self, request: &EntriesRequest<'_>, viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        Ok(self.entries(request.path, viewer)?.map(|entries| request.select(entries)))
    }
    /// Existing endpoints, for suggestions.
    fn endpoints(&self) -> Vec<String> {
        Vec::new()
    }
    /// The result of the job with this id; `None` if there is no such job that the user may see.
    fn job(&self, _sid: &str, _viewer: &Permissions) -> Result<Option<JobResult>, Fault> {
        Ok(None)
    }
    /// Id of a job of a saved search: of the jobs that the user may see, the one `offset` runs before the latest.
    fn saved_job(&self, _name: &str, _offset: usize, _viewer: &Permissions) -> Option<String> {
        None
    }
    /// Records that events are about to be deleted; if this fails, the events are not deleted.
    fn record_deletion(&self, _viewer: &Permissions, _record: &DeletionRecord<'_>) -> Result<(), Fault> {
        Ok(())
    }
    /// Opens a session of the user at the node's REST interface; `None` without such an interface.
    fn open_session(&self, _viewer: &Permissions) -> Option<NodeSession> {
        None
    }
    /// Earlier searches that the user may see, newest first; `None` if searches are not recorded.
    fn history(&self, _viewer: &Permissions) -> Option<Vec<NodeEntry>> {
        None
    }
}

/// No node: only events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNode;

impl NodeSource for NoNode {}

/// Whether an entry matches `search=`: it must match every word, either `name=value` with wildcards or a text that
/// occurs in any value.
fn matches_search(entry: &NodeEntry, wanted: &str) -> bool {
    wanted.split_whitespace().all(|word| match word.split_once('=') {
        Some((name, value)) => {
            let name = if name == "name" { "title" } else { name };
            let pattern = Wildcard::new(value.trim_matches('"'), false);
            entry.iter().any(|(field, values)| field == name && values.iter().any(|text| pattern.is_match(text)))
        }
        None => {
            let word = word.trim_matches(['"', '*']).to_lowercase();
            entry.iter().any(|(_, values)| values.iter().any(|text| text.to_lowercase().contains(&word)))
        }
    })
}

/// Entries as rows, with fields in order of appearance.
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
