//! The interface between the API and its node; implemented by the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::tz::TimeZone;
use quarry_conf::{CollectionLimits, Permissions, Roles};
use quarry_engine::Explanation;
use quarry_event::TimeNs;
use quarry_inputs::file::WatchedFile;
use quarry_search::SearchService;
use quarry_search::jobs::FilePreview;
use quarry_stdx::{ErrorKind, Fault, HasKind};

/// A file to index once.
#[derive(Clone, Debug)]
pub struct AddFile {
    /// Path on the node's machine.
    pub path: String,
    /// Index of the events.
    pub index: String,
    /// Sourcetype; guessed when absent.
    pub sourcetype: Option<String>,
    /// Host field.
    pub host: Option<String>,
    /// Source field.
    pub source: Option<String>,
    /// Whether to index the file even if the same bytes were indexed before.
    pub again: bool,
    /// Zone of times without a zone; the node's zone by default.
    pub zone: Option<String>,
}

/// A file to preview.
#[derive(Clone, Debug)]
pub struct PreviewFile {
    /// Path on the node's machine.
    pub path: String,
    /// Sourcetype; guessed when absent.
    pub sourcetype: Option<String>,
    /// Zone of times without a zone; the node's zone by default.
    pub zone: Option<String>,
    /// Maximum number of events shown; a few by default.
    pub events: Option<usize>,
}

/// A text to preview.
#[derive(Clone, Debug)]
pub struct PreviewText {
    /// The text, usually the beginning of a file.
    pub text: Vec<u8>,
    /// Source field, usually the name of the file.
    pub source: String,
    /// Sourcetype; guessed when absent.
    pub sourcetype: Option<String>,
    /// Zone of times without a zone; the node's zone by default.
    pub zone: Option<String>,
    /// Maximum number of events shown; a few by default.
    pub events: Option<usize>,
}

/// A kind of modular input that comes with an app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModularInput {
    /// Scheme: the stanzas of the input in inputs.conf are `[SCHEME://NAME]`.
    pub scheme: String,
    /// The app that contains the program of the input.
    pub app: String,
    /// Display name.
    pub title: String,
    /// Description of the data that the input reads, for users.
    pub description: String,
    /// Whether the program writes XML rather than text.
    pub is_xml: bool,
    /// Whether one process serves all stanzas.
    pub is_single: bool,
    /// Settings of the stanzas.
    pub arguments: Vec<ModularInputArgument>,
}

/// A setting of a modular input's stanzas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModularInputArgument {
    /// Name of the setting.
    pub name: String,
    /// Display name.
    pub title: String,
    /// Meaning of the setting, for users.
    pub description: String,
    /// `string`, `number` or `boolean`.
    pub data_type: String,
    /// Validation rule for the values.
    pub validation: String,
    /// Whether a new stanza requires the setting.
    pub is_required: bool,
    /// Whether a change of a stanza requires the setting.
    pub is_required_on_edit: bool,
}

/// A token of the HTTP Event Collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorToken {
    /// Name of the token's stanza after `http://`.
    pub name: String,
    /// The secret that senders present.
    pub token: String,
    /// Description for users.
    pub description: Option<String>,
    /// Whether the token is disabled.
    pub disabled: bool,
    /// Default index.
    pub index: Option<String>,
    /// Allowed indexes; empty means any.
    pub indexes: Vec<String>,
    /// Default `host`.
    pub host: Option<String>,
    /// Default `source`.
    pub source: Option<String>,
    /// Default `sourcetype`.
    pub sourcetype: Option<String>,
    /// Whether answers contain an acknowledgment id.
    pub use_ack: bool,
}

/// A change of a token.
#[derive(Clone, Debug)]
pub struct TokenChange {
    /// Name of the token.
    pub name: String,
    /// Whether the token is created; otherwise a token of this name must exist.
    pub is_new: bool,
    /// Settings as inputs.conf names them.
    pub settings: Vec<(String, String)>,
}

/// Error when a token is written or removed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// No token has this name.
    #[error("there is no token {name}: GET data/inputs/http lists the existing ones")]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// A token with this name or secret exists.
    #[error("a token {what} already exists: choose another, or change that one")]
    Exists {
        /// The duplicate: name or secret.
        what: String,
    },
    /// A setting is invalid.
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

/// Activity of a disk since the machine started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskActivity {
    /// Name of the device.
    pub device: String,
    /// Type of the file system.
    pub file_system: String,
    /// Folder where the file system is mounted.
    pub mount_point: String,
    /// Seconds since the machine started.
    pub seconds: f64,
    /// Number of completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of completed writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time during which at least one request was in progress, in milliseconds.
    pub busy_ms: u64,
    /// Sum of the durations of all requests, in milliseconds.
    pub waited_ms: u64,
}

/// Settings that limit concurrent searches: limits.conf, `[search]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchLimits {
    /// `base_max_searches`.
    pub base: usize,
    /// `max_searches_per_cpu`.
    pub per_cpu: usize,
    /// `max_rt_search_multiplier`.
    pub real_time_multiplier: usize,
}

/// State of a node: name, resources, background failures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeCondition {
    /// Name of the node.
    pub name: String,
    /// Name of the machine.
    pub host: String,
    /// Host of events whose input sets no host.
    pub input_host: String,
    /// Address of the management port; empty if the node has no such port.
    pub management: String,
    /// Whether server.conf has a key for the nodes of a cluster.
    pub has_cluster_key: bool,
    /// Time without a request after which a session ends, as configured: `1h`.
    pub session_timeout: String,
    /// `session_timeout` in seconds.
    pub session_timeout_s: u64,
    /// Data directory of the node.
    pub folder: String,
    /// Start time of the node, in nanoseconds since 1970.
    pub started: TimeNs,
    /// Cores of the machine.
    pub cores: usize,
    /// Memory of the machine.
    pub memory: DiskSpace,
    /// Memory of the process; 0 if unknown.
    pub process_bytes: u64,
    /// Space of the data directory's file system.
    pub disk: DiskSpace,
    /// Free space required to accept events.
    pub disk_free_min: u64,
    /// Activity of the disk with the data directory; `None` if the disk is not a device of this machine.
    pub disk_activity: Option<DiskActivity>,
    /// Bytes of the events that the node has taken since it started.
    pub taken_bytes: u64,
    /// Bytes of the catalog's file; `None` if the catalog is not a file.
    pub catalog_bytes: Option<u64>,
    /// Settings for concurrent searches.
    pub search_limits: SearchLimits,
    /// Background failures with their times, oldest first.
    pub faults: Vec<(TimeNs, String)>,
    /// Faults of inputs that do not run as configured, with the times when they were found.
    pub input_faults: Vec<(TimeNs, String)>,
}

/// Total and free bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Total bytes.
    pub all: u64,
    /// Free bytes.
    pub free: u64,
}

/// Text of a request, to be indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedText {
    /// Target index.
    pub index: String,
    /// Host of the events.
    pub host: String,
    /// Source of the events.
    pub source: String,
    /// Sourcetype, whose rules break the text into events.
    pub sourcetype: String,
    /// The text, which may contain several events.
    pub text: Vec<u8>,
}

/// Operations of a node. Calls block; the API runs them off its async threads.
pub trait Node: Send + Sync {
    /// The search service for a viewer in the namespace of a user and an app: `-` means all, `nobody` no user.
    fn search_service_in(&self, user: &str, app: &str, viewer: &Permissions) -> Result<Arc<SearchService>, Fault>;

    /// The search service for a viewer without a namespace: all apps and the viewer's private objects.
    fn search_service_of(&self, viewer: &Permissions) -> Result<Arc<SearchService>, Fault>;

    /// Like [`Node::search_service_of`] without blocking; `None` if files have to be read.
    fn cached_search_service_of(&self, viewer: &Permissions) -> Option<Arc<SearchService>>;

    /// Writes to buckets the events of an index that are only in the write-ahead log; returns when they are written.
    fn roll_hot_buckets(&self, index: &str) -> Result<(), Fault>;

    /// Notifies the node that a conf file has changed; returns when the inputs have adopted the change, or after a
    /// timeout.
    fn notify_configuration_changed(&self, conf: &str);

    /// A remark on a stanza of inputs.conf that was changed or removed; `None` if the inputs run as configured.
    fn input_warning(&self, stanza: &str) -> Option<String>;

    /// Senders that are connected to a TCP port of the node.
    fn port_peers(&self, port: u16) -> Result<Vec<SocketAddr>, Fault>;

    /// At most `most` of the files that the node watches, ordered by path. With `monitor`, only files of this `monitor`
    /// stanza are listed.
    fn watched_files(&self, monitor: Option<&str>, most: usize) -> Vec<WatchedFile>;

    /// Requests a restart of the server, which begins when the running requests, including the calling one, are
    /// answered.
    fn request_restart(&self) -> Result<(), Fault>;

    /// Name of the node.
    fn name(&self) -> String;

    /// The configured roles.
    fn roles(&self) -> Roles;

    /// Limits of collections.
    fn collection_limits(&self) -> CollectionLimits;

    /// Indexes a file; stops if `has_left` is set because the client has disconnected. Returns the report as a JSON
    /// object.
    fn add_file(&self, request: &AddFile, has_left: &Arc<AtomicBool>) -> Result<String, Fault>;
    /// Validates the name of an index.
    fn check_index_name(&self, name: &str) -> Result<(), Fault>;
    /// Indexes a text; returns when it is durable.
    fn receive(&self, received: &ReceivedText) -> Result<(), Fault>;
    /// Previews a file; returns a JSON object.
    fn preview(&self, request: &PreviewFile) -> Result<String, Fault>;
    /// Previews the events of a file, with these settings of props.conf for it in addition to those of the node.
    fn preview_events(&self, path: &str, props: &[(String, String)]) -> Result<FilePreview, Fault>;
    /// Previews a text; returns a JSON object.
    fn preview_text(&self, request: &PreviewText) -> Result<String, Fault>;
    /// Explains a search as text or as a JSON object.
    fn explanation(
        &self,
        text: &str,
        explanation: &Explanation,
        zone: &TimeZone,
        is_json: bool,
    ) -> Result<String, Fault>;
    /// Kinds of modular inputs by scheme. May run their programs.
    fn modular_inputs(&self) -> Vec<ModularInput>;
    /// Lets the program of a modular input check the stanza `SCHEME://NAME` with these settings, if the scheme requests
    /// such checks.
    fn check_modular_input(&self, scheme: &str, name: &str, settings: &BTreeMap<String, String>) -> Result<(), Fault>;
    /// Current state of the node.
    fn condition(&self) -> NodeCondition;
    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
    /// Buckets as a JSON array.
    fn buckets(&self) -> Result<String, Fault>;
    /// Verifies every bucket; returns a JSON array of buckets with their errors.
    fn verify(&self) -> Result<String, Fault>;
    /// Merges neighbouring buckets as far as their limits allow; returns the report as a JSON object.
    fn compact(&self) -> Result<String, Fault>;
    /// Thaws an archived bucket from a folder on the server; returns its id as a JSON object.
    fn thaw(&self, index: &str, folder: &str) -> Result<String, Fault>;
    /// Moves the buckets of an index to a volume, or to the data directory with `local`; returns the report as a JSON
    /// object.
    fn migrate(&self, index: &str, to: &str) -> Result<String, Fault>;
    /// Removes the local copy and the cached blocks of an uploaded bucket.
    fn evict_bucket(&self, id: &str) -> Result<(), Fault>;
    /// Removes local copies of uploaded buckets and cached blocks until this number of bytes is freed; without a
    /// number, removes as many as possible.
    fn evict_cache(&self, bytes: Option<u64>) -> Result<(), Fault>;
    /// Closes the files of a bucket.
    fn close_bucket(&self, id: &str) -> Result<(), Fault>;
    /// Removes the events of an index; returns the number of its buckets.
    fn remove_events(&self, index: &str) -> Result<usize, Fault>;
    /// Tokens of the HTTP Event Collector by name.
    fn collector_tokens(&self) -> Result<Vec<CollectorToken>, TokenError>;
    /// Whether the HTTP Event Collector listens.
    fn collector_listens(&self) -> bool;
    /// Writes a token to inputs.conf, effective at once if the collector listens; returns the token.
    fn write_collector_token(&self, change: &TokenChange) -> Result<CollectorToken, TokenError>;
    /// Removes a token from inputs.conf, effective at once.
    fn remove_collector_token(&self, name: &str) -> Result<(), TokenError>;
}
