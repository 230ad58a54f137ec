//! What the API asks of the node it runs on; the server implements it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::tz::TimeZone;
use quarry_conf::{CollectionLimits, Permissions, Roles};
use quarry_engine::Explanation;
use quarry_event::TimeNs;
use quarry_search::SearchService;
use quarry_stdx::{ErrorKind, Fault, HasKind};

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
    /// Name of the zone of times that name none; the node's when absent.
    pub zone: Option<String>,
}

/// A file to preview.
#[derive(Clone, Debug)]
pub struct PreviewFile {
    /// Path on the node's machine.
    pub path: String,
    /// Sourcetype; guessed when absent.
    pub sourcetype: Option<String>,
    /// Name of the zone of times that name none; the node's when absent.
    pub zone: Option<String>,
    /// Events shown; a few when absent.
    pub events: Option<usize>,
}

/// A token of the HTTP Event Collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorToken {
    /// Name of its stanza behind `http://`.
    pub name: String,
    /// What senders show.
    pub token: String,
    /// Whether it is refused.
    pub disabled: bool,
    /// Index of events that name none.
    pub index: Option<String>,
    /// Indexes that events may name; empty is any.
    pub indexes: Vec<String>,
    /// `host` of events that name none.
    pub host: Option<String>,
    /// `source` of events that name none.
    pub source: Option<String>,
    /// `sourcetype` of events that name none.
    pub sourcetype: Option<String>,
    /// Whether answers carry an id that tells later when events are stored.
    pub use_ack: bool,
}

/// Settings that a token gets.
#[derive(Clone, Debug)]
pub struct TokenChange {
    /// Name of the token.
    pub name: String,
    /// Whether there must be none of this name, else one.
    pub is_new: bool,
    /// Settings as inputs.conf names them.
    pub settings: Vec<(String, String)>,
}

/// Why a token is not written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Nobody knows it.
    #[error("there is no token {name}: GET data/inputs/http lists those that are there")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// There is one.
    #[error("there is a token {what} already: choose another, or change that one")]
    Exists {
        /// Its name, or the word that senders show.
        what: String,
    },
    /// A setting cannot be as it is.
    #[error("{0}")]
    Invalid(String),
    /// The node failed.
    #[error("{0}")]
    Failed(String),
}

impl HasKind for TokenError {
    fn kind(&self) -> ErrorKind {
        match self {
            TokenError::Unknown { .. } => ErrorKind::NotFound,
            TokenError::Exists { .. } | TokenError::Invalid(_) => ErrorKind::Invalid,
            TokenError::Failed(_) => ErrorKind::Unavailable,
        }
    }
}

/// How a node is: what it is called, what it has and uses, what went wrong in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCondition {
    /// Its name.
    pub name: String,
    /// Name of its machine.
    pub host: String,
    /// Its data folder.
    pub folder: String,
    /// When it started, in nanoseconds since 1970.
    pub started: TimeNs,
    /// Cores of the machine.
    pub cores: usize,
    /// Bytes of the machine's memory, and of those that are free or can be made so.
    pub memory: Space,
    /// Bytes that the node has in memory; 0 where the system does not say.
    pub process_bytes: u64,
    /// Bytes of the file system of its data folder.
    pub disk: Space,
    /// Bytes that the file system must keep free, or nothing more is taken.
    pub disk_free_min: u64,
    /// What went wrong in the background and when, oldest first.
    pub faults: Vec<(TimeNs, String)>,
}

/// Bytes of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All of them.
    pub all: u64,
    /// Those that are free.
    pub free: u64,
}

/// Text to be indexed that comes with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedText {
    /// Where it goes.
    pub index: String,
    /// Host of its events.
    pub host: String,
    /// Source of its events.
    pub source: String,
    /// Sourcetype, which says how it is broken into events.
    pub sourcetype: String,
    /// The text.
    pub text: Vec<u8>,
}

/// Actions of a node. Calls block; the API runs them off its async threads.
pub trait Node: Send + Sync {
    /// Who runs a viewer's searches in the namespace of a user and an app: `-` is all of them, `nobody` no user.
    fn search_in(&self, user: &str, app: &str, viewer: &Permissions) -> Result<Arc<SearchService>, Fault>;

    /// Who runs a viewer's searches without a namespace: with what all apps have, and the viewer's own.
    fn search_of(&self, viewer: &Permissions) -> Result<Arc<SearchService>, Fault>;

    /// As [`Node::search_of`], at once; `None` where files have to be read for it.
    fn ready_search_of(&self, viewer: &Permissions) -> Option<Arc<SearchService>>;

    /// Takes note that a conf file has changed.
    fn configuration_changed(&self, conf: &str);

    /// The roles that the configuration has.
    fn roles(&self) -> Roles;

    /// The bounds of collections.
    fn collection_limits(&self) -> CollectionLimits;

    /// Indexes a file, until `has_left` says that nobody waits any more; gives the report as a JSON object.
    fn add_file(&self, request: &AddFile, has_left: &Arc<AtomicBool>) -> Result<String, Fault>;
    /// Refuses what cannot be the name of an index.
    fn check_index_name(&self, name: &str) -> Result<(), Fault>;
    /// Indexes a text; returns when it is durable.
    fn receive(&self, received: &ReceivedText) -> Result<(), Fault>;
    /// Tells what adding a file would make of it; gives a JSON object.
    fn preview(&self, request: &PreviewFile) -> Result<String, Fault>;
    /// What a search would do, as text or as a JSON object.
    fn explanation(
        &self,
        text: &str,
        explanation: &Explanation,
        zone: &TimeZone,
        is_json: bool,
    ) -> Result<String, Fault>;
    /// How the node is.
    fn condition(&self) -> NodeCondition;
    /// Buckets as a JSON array.
    fn buckets(&self) -> Result<String, Fault>;
    /// Checks every bucket; gives a JSON array of buckets with their faults.
    fn verify(&self) -> Result<String, Fault>;
    /// Merges neighbouring buckets as far as their limits allow; gives the report as a JSON object.
    fn compact(&self) -> Result<String, Fault>;
    /// Makes the archived bucket in a folder of the server's machine searchable again; gives its id as a JSON object.
    fn thaw(&self, index: &str, folder: &str) -> Result<String, Fault>;
    /// Tokens of the HTTP Event Collector by name.
    fn collector_tokens(&self) -> Result<Vec<CollectorToken>, TokenError>;
    /// Writes a token to inputs.conf and puts it in force; gives it as it is now.
    fn write_collector_token(&self, change: &TokenChange) -> Result<CollectorToken, TokenError>;
    /// Takes a token out of inputs.conf and out of force.
    fn remove_collector_token(&self, name: &str) -> Result<(), TokenError>;
}
