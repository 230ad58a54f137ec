//! What the API asks of the node it runs on; the server implements it.

use std::error::Error;

/// Failure of a node's action, as text for the client.
pub type NodeError = Box<dyn Error + Send + Sync>;

/// A file to index once.
#[derive(Clone, Debug)]
pub struct AddFile {
    /// Path on the node's machine.
    pub path: String,
    /// Index that takes the events.
    pub index: String,
    /// Sourcetype; guessed when absent.
    pub sourcetype: Option<String>,
    /// Host field.
    pub host: Option<String>,
    /// Source field.
    pub source: Option<String>,
    /// Index it even if the same bytes were indexed before.
    pub again: bool,
}

/// A file to preview.
#[derive(Clone, Debug)]
pub struct PreviewFile {
    /// Path on the node's machine.
    pub path: String,
    /// Sourcetype; guessed when absent.
    pub sourcetype: Option<String>,
    /// Events shown; a few when absent.
    pub events: Option<usize>,
}

/// Actions of a node. Calls block; the API runs them off its async threads.
pub trait Node: Send + Sync {
    /// Indexes a file; gives the report as a JSON object.
    fn add_file(&self, request: &AddFile) -> Result<String, NodeError>;
    /// Tells what adding a file would make of it; gives a JSON object.
    fn preview(&self, request: &PreviewFile) -> Result<String, NodeError>;
    /// Buckets as a JSON array.
    fn buckets(&self) -> Result<String, NodeError>;
    /// Checks every bucket; gives a JSON array of buckets with their faults.
    fn verify(&self) -> Result<String, NodeError>;
    /// Merges neighbouring buckets as far as their limits allow; gives the report as a JSON object.
    fn compact(&self) -> Result<String, NodeError>;
}
