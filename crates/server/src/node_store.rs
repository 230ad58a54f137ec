//! The store of a running node as network inputs and programs see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_event::EventBatch;
use quarry_inputs::{AppendError, EventStore, FilePosition, Receipt, SentRequest, SinkError};
use quarry_store::{AppendRequest, SentRequest as StoredRequest, StoreError, Ticket};

use crate::node::LocalNode;
use crate::store_sink::{checkpoint_of, set_of};

/// The node's store as network inputs see it; batches go round the pipeline sets.
pub(crate) struct NodeStore {
    node: Arc<LocalNode>,
    sets_used: AtomicUsize,
}

impl NodeStore {
    /// The store of `node`.
    pub(crate) fn new(node: &Arc<LocalNode>) -> NodeStore {
        NodeStore { node: Arc::clone(node), sets_used: AtomicUsize::new(0) }
    }
}

impl EventStore for NodeStore {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        self.node.throughput.note(&batch);
        let set = self.sets_used.fetch_add(1, Ordering::Relaxed);
        let appended = self.node.store.append_in(set, AppendRequest { batch, checkpoint: None });
        appended.map(|ticket| -> Box<dyn Receipt> { Box::new(Stored(ticket)) }).map_err(refusal)
    }

    fn append_at(&self, batch: EventBatch, position: FilePosition) -> Result<Box<dyn Receipt>, AppendError> {
        self.node.throughput.note(&batch);
        // Of one sender always the same, so that nothing overtakes what came before it.
        let set = set_of(&position.identity);
        let request = AppendRequest { batch, checkpoint: Some(checkpoint_of(position)) };
        let appended = self.node.store.append_in(set, request);
        appended.map(|ticket| -> Box<dyn Receipt> { Box::new(Stored(ticket)) }).map_err(refusal)
    }

    fn sent_request(&self, key: u128) -> SentRequest {
        let StoredRequest { key, id } = self.node.store.sent_request(key);
        SentRequest { key, id }
    }

    fn append_sent(&self, batch: EventBatch, request: &SentRequest) -> Result<Box<dyn Receipt>, AppendError> {
        self.node.throughput.note(&batch);
        let set = self.sets_used.fetch_add(1, Ordering::Relaxed);
        let appended = self.node.store.append_sent(set, batch, &known(request));
        appended.map(|ticket| -> Box<dyn Receipt> { Box::new(Stored(ticket)) }).map_err(refusal)
    }

    fn answered(&self, request: &SentRequest) {
        if let Err(error) = self.node.store.answered(&known(request)) {
            self.tell(&format!("a request that is sent again after a crash may be taken for a repetition: {error}"));
        }
    }

    fn gave_up(&self, request: &SentRequest) {
        self.node.store.gave_up(&known(request));
    }

    fn known_offset(&self, scope: &str, name: &[u8]) -> Result<u64, SinkError> {
        self.node.store.settle()?;
        let known = self.node.store.checkpoints_of(name, scope)?;
        let own = known.iter().map(|logged| &logged.checkpoint).filter(|known| known.head_bytes as usize == name.len());
        Ok(own.map(|known| known.offset).max().unwrap_or(0))
    }

    fn spare_batch(&self) -> Option<EventBatch> {
        self.node.store.spare_batch()
    }

    fn tell(&self, text: &str) {
        self.node.tell_once(text);
    }

    fn check_index(&self, index: &str) -> Result<(), String> {
        self.node.settings.check_index(index)?;
        self.node.store.check_index(index).map_err(|error| error.to_string())
    }
}

fn known(request: &SentRequest) -> StoredRequest {
    StoredRequest { key: request.key, id: request.id }
}

struct Stored(Ticket);

impl Receipt for Stored {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.0.wait().map_err(refusal)
    }
}

/// What a sender is to make of a failure: whether it helps to come again.
fn refusal(error: StoreError) -> AppendError {
    match error {
        StoreError::Full { .. } | StoreError::SealStalled { .. } => AppendError::Busy(error.into()),
        StoreError::Closed => AppendError::Stopping,
        StoreError::TooLarge { .. } | StoreError::InvalidBatch { .. } | StoreError::TooManyIndexes { .. } => {
            AppendError::Refused(error.into())
        }
        _ => AppendError::Failed(error.into()),
    }
}
