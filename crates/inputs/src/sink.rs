//! The interface between inputs and the store: events, and positions of files.

use std::error::Error;
use std::sync::Arc;

use quarry_event::{EventBatch, SentRequest};
use quarry_stdx::{ErrorKind, Fault, HasKind};

/// Failure of a sink.
pub type SinkError = Box<dyn Error + Send + Sync>;

/// Identity of a file: its first bytes (decompressed), within a scope.
///
/// The identity does not include the name, so a rotated or compressed copy is recognised. Files with equal first bytes
/// are distinguished by [`FilePosition::tail_hash`] and have different variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Separates files of equal content: name of the index, followed by a salt that the user may set.
    pub scope: String,
    /// The first 256 bytes, or the whole content of a file that was shorter when first read.
    pub head: Vec<u8>,
    /// Number that distinguishes files with the same head.
    pub variant: u32,
}

/// Read position of a file. The store keeps a hash of the file's first bytes instead of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// Identity of the file.
    pub identity: Arc<FileIdentity>,
    /// Decompressed bytes whose events are stored.
    pub offset: u64,
    /// xxh3 of up to 256 bytes before `offset`; of all bytes before it if a compressed file was found to be damaged.
    pub tail_hash: u64,
    /// Absolute path the file was read from.
    pub path: String,
    /// Hashes at smaller offsets, to recognise a shorter copy; at most [`MILESTONES_MAX`](crate::file::MILESTONES_MAX).
    pub milestones: Vec<u32>,
}

/// Accepts events and is responsible for their durability.
pub trait Sink {
    /// Returns the positions of every identity whose head is a prefix of `head` (up to 256 bytes), so that a file that
    /// was shorter when it was first read is recognised. There may be several positions, because files may share their
    /// first bytes. Accepted positions that are not durable yet are included.
    fn positions(&mut self, scope: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError>;

    /// Accepts a batch; events and position become durable together. Blocks while the store is busy.
    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError>;

    /// Returns an emptied batch for reuse; `None` if the caller should allocate one.
    fn spare_batch(&mut self) -> Option<EventBatch> {
        None
    }

    /// Sets the groups of indexers to which the following batches are sent, as configured for the input. Used by
    /// forwarders only.
    fn set_routing(&mut self, _groups: Option<&str>) {}

    /// Called when the file whose positions were looked up last has no more data for now, so that other files with the
    /// same beginning may be read.
    fn end_file(&mut self) {}

    /// Waits until everything accepted is durable.
    fn flush(&mut self) -> Result<(), SinkError>;
}

/// Reason why an [`EventStore`] did not store events.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Refused temporarily, because too much is in progress or the disk is full. The sender should retry.
    #[error("{0}")]
    Busy(SinkError),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
    /// Refused for good, because the events exceed a limit.
    #[error("{0}")]
    Refused(SinkError),
    /// Refused for good, because the index of the events has no stanza and there are too many such indexes.
    #[error("{0}")]
    IndexRefused(SinkError),
    /// The store failed.
    #[error("{0}")]
    Failed(SinkError),
}

impl HasKind for AppendError {
    fn kind(&self) -> ErrorKind {
        match self {
            AppendError::Busy(_) => ErrorKind::Busy,
            AppendError::Refused(_) | AppendError::IndexRefused(_) => ErrorKind::Invalid,
            AppendError::Stopping | AppendError::Failed(_) => ErrorKind::Unavailable,
        }
    }
}

/// Pending result of an append.
pub trait Receipt: Send {
    /// True if [`Receipt::wait`] would return at once.
    fn is_done(&self) -> bool;
    /// Waits until the events are durable or storing them has failed.
    fn wait(self: Box<Self>) -> Result<(), AppendError>;
    /// Like [`Receipt::wait`]; adds to `refused` the events that were not written because the store refused them after
    /// it had accepted the append, so that they can be appended again. Not every store returns them.
    fn wait_for_all(self: Box<Self>, _refused: &mut Vec<EventBatch>) -> Result<(), AppendError> {
        self.wait()
    }
}

/// A store for inputs that tell their senders when events are stored.
pub trait EventStore: Send + Sync {
    /// Stores events. May block while many appends are in progress.
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError>;
    /// Stores events of a sender that numbers its batches. The position becomes durable together with the events, and
    /// never before the position of an earlier batch. Not every store supports positions.
    fn append_at(&self, batch: EventBatch, _position: FilePosition) -> Result<Box<dyn Receipt>, AppendError> {
        self.append(batch)
    }
    /// Begins the request with this key. Not every store remembers requests.
    fn begin_request(&self, key: u128) -> SentRequest {
        SentRequest { key, id: 0 }
    }
    /// Stores a part of a request begun with [`EventStore::begin_request`]. A part that was stored before, but never
    /// answered, is not stored again.
    fn append_sent(&self, batch: EventBatch, _request: &SentRequest) -> Result<Box<dyn Receipt>, AppendError> {
        self.append(batch)
    }
    /// Called when the senders of these requests are about to be answered; from then on, the same content is a new
    /// request. After an error, the senders must not be answered.
    fn record_answered(&self, _requests: &[SentRequest]) -> Result<(), SinkError> {
        Ok(())
    }
    /// Called when the request failed and its sender is about to be asked to repeat it.
    fn record_failure(&self, _request: &SentRequest) {}
    /// Waits for appends in progress and returns the last stored offset of a sender; 0 if there is none.
    fn known_offset(&self, _scope: &str, _name: &[u8]) -> Result<u64, SinkError> {
        Ok(0)
    }
    /// Returns an emptied batch for reuse; `None` if the caller should allocate one.
    fn spare_batch(&self) -> Option<EventBatch> {
        None
    }
    /// Receives warnings about events; the same warning may be repeated.
    fn warn(&self, _text: &str) {}
    /// Fails if an append would now be refused for lack of room.
    fn check_room(&self) -> Result<(), AppendError> {
        Ok(())
    }
    /// Fails with the reason if this index accepts no events.
    fn check_index(&self, index: &str) -> Result<(), Fault>;
}
