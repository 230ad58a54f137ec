//! Where an input's events go, and how a file is known again.

use std::error::Error;
use std::sync::Arc;

use quarry_event::{EventBatch, SentRequest};
use quarry_stdx::Fault;

/// Failure of a sink.
pub type SinkError = Box<dyn Error + Send + Sync>;

/// What makes a file the same file: its first bytes (of the unpacked content), within one scope.
///
/// A name is no part of it, so a rotated or packed copy is known. Files with equal first bytes are told apart by
/// [`FilePosition::tail_hash`] and get different variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// What keeps files of equal content apart: the index the events go to, and a salt that the user set behind it.
    pub scope: String,
    /// The first 256 bytes, or the whole content of a file that was shorter when it was first read.
    pub head: Vec<u8>,
    /// Counts files that share the head.
    pub variant: u32,
}

/// How far a file has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// Which file.
    pub identity: Arc<FileIdentity>,
    /// Unpacked bytes whose events are stored.
    pub offset: u64,
    /// xxh3 of up to 256 bytes before `offset`; of all bytes before it where a packed file was found to be damaged.
    pub tail_hash: u64,
    /// Absolute path the file was read from.
    pub path: String,
    /// Hashes of what lies before some smaller offsets, by which a shorter copy is known; at most
    /// [`MILESTONES_MAX`](crate::file::MILESTONES_MAX).
    pub milestones: Vec<u32>,
}

/// Takes events and answers for them.
pub trait Sink {
    /// Positions of files that may begin with `head` (up to 256 bytes): of every identity whose head is a prefix of
    /// it, so that a file that was shorter then is known now. Several where files share their first bytes. What was
    /// accepted counts, durable or not.
    fn positions(&mut self, scope: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError>;

    /// Takes a batch; the events and the position become durable together. Blocks while the store is busy.
    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError>;

    /// An empty batch that was accepted before, for its memory; `None` when a new one will do.
    fn spare_batch(&mut self) -> Option<EventBatch> {
        None
    }

    /// What comes next is for these groups of indexers, as the input that reads says. Only a forwarder asks.
    fn set_routing(&mut self, _groups: Option<&str>) {}

    /// Nothing more comes for now of the file whose positions were asked last: others that begin like it may be read.
    fn end_file(&mut self) {}

    /// Waits until everything accepted is durable.
    fn flush(&mut self) -> Result<(), SinkError>;
}

/// Why events that came over the network were not taken.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Not now: too much is on its way, or the disk is full. The sender shall come again.
    #[error("{0}")]
    Busy(SinkError),
    /// The node stops.
    #[error("the node is stopping")]
    Stopping,
    /// The events cannot be stored, now or later: what they are is beyond a limit.
    #[error("{0}")]
    Refused(SinkError),
    /// The store failed.
    #[error("{0}")]
    Failed(SinkError),
}

/// Answers for events that were handed over.
pub trait Receipt: Send {
    /// Whether [`Receipt::wait`] returns at once.
    fn is_done(&self) -> bool;
    /// Returns when the events survive a crash, or when that failed.
    fn wait(self: Box<Self>) -> Result<(), AppendError>;
}

/// Where inputs put events whose senders are told when they are stored.
pub trait EventStore: Send + Sync {
    /// Takes events. Blocks while the store is busy.
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError>;
    /// Takes events of a sender that numbers its batches: the position becomes durable together with them, and of one
    /// sender never one without those before it. Not every store keeps positions.
    fn append_at(&self, batch: EventBatch, _position: FilePosition) -> Result<Box<dyn Receipt>, AppendError> {
        self.append(batch)
    }
    /// A request with this key begins. Not every store remembers requests.
    fn sent_request(&self, key: u128) -> SentRequest {
        SentRequest { key, id: 0 }
    }
    /// Takes events that are a part of such a request: what was stored of it and never answered is not stored again.
    fn append_sent(&self, batch: EventBatch, _request: &SentRequest) -> Result<Box<dyn Receipt>, AppendError> {
        self.append(batch)
    }
    /// The sender of a request is about to be answered: the same content is a new request from now on.
    fn answered(&self, _request: &SentRequest) {}
    /// The sender of a request is about to be told to send it again.
    fn gave_up(&self, _request: &SentRequest) {}
    /// The offset that was stored last for a sender; nothing of it may be on its way. 0 where none was.
    fn known_offset(&self, _scope: &str, _name: &[u8]) -> Result<u64, SinkError> {
        Ok(0)
    }
    /// An empty batch that was appended before, for its memory; `None` when a new one will do.
    fn spare_batch(&self) -> Option<EventBatch> {
        None
    }
    /// Hears what is odd about events, in words; the same may come often.
    fn tell(&self, _text: &str) {}
    /// Why this index takes no events, if it does not.
    fn check_index(&self, index: &str) -> Result<(), Fault>;
}
