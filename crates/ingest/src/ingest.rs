//! An open store with the state shared by all inputs of a node: network inputs, programs, watched files.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_catalog::CatalogError;
use quarry_event::{EventBatch, SentRequest};
use quarry_inputs::{AppendError, EventStore, FilePosition, InputSettings, Receipt, Sink, SinkError};
use quarry_stdx::{Fault, log};
use quarry_store::{AppendRequest, Store, StoreError, Ticket};

use crate::claims::Claims;
use crate::metrics::{BatchAmounts, Throughput};
use crate::monitors::SinkFactory;
use crate::store_sink::{StoreSink, checkpoint_of, pipeline_set_of};

/// Maximum number of distinct messages that are logged, each once; further ones are dropped.
const LOGGED_MESSAGES_MAX: usize = 1_000;

/// The write side of a running node.
pub struct Ingest {
    /// The open store.
    pub store: Arc<Store>,
    /// Settings of inputs.
    pub settings: Arc<InputSettings>,
    claims: Arc<Claims>,
    /// Counters of indexed events.
    pub(crate) throughput: Arc<Throughput>,
    /// Messages that have been logged.
    logged: Mutex<BTreeSet<String>>,
    /// Number of batches distributed so far, for round-robin over the pipeline sets.
    sets_used: AtomicUsize,
}

impl Ingest {
    /// Creates the write side of an open store.
    pub fn new(store: Arc<Store>, settings: InputSettings) -> Ingest {
        Ingest {
            store,
            settings: Arc::new(settings),
            claims: Arc::default(),
            throughput: Arc::default(),
            logged: Mutex::default(),
            sets_used: AtomicUsize::new(0),
        }
    }

    /// Bytes of the events that the store has taken since the node started.
    pub fn taken_bytes(&self) -> u64 {
        self.throughput.total_bytes()
    }

    /// A sink for a file read by pipeline set `set`.
    pub fn file_sink(&self, set: usize) -> StoreSink<'_> {
        StoreSink::new(&self.store, set, &self.claims).with_throughput(&self.throughput)
    }

    /// The receipt of a batch; counts its events if the store has taken them.
    fn receipt(
        &self,
        appended: Result<Ticket, StoreError>,
        amounts: &BatchAmounts,
    ) -> Result<Box<dyn Receipt>, AppendError> {
        let ticket = appended.map_err(append_error)?;
        self.throughput.count_events(amounts);
        Ok(Box::new(TicketReceipt(ticket)))
    }

    /// Fails while there is no room for a batch. A batch that is refused here stays with the input, which tries again;
    /// a queued batch that fails for lack of room would be lost.
    fn check_room_for(&self, batch: &EventBatch) -> Result<(), AppendError> {
        self.store.check_room_for(batch.raw.len() as u64).map_err(append_error)
    }

    /// Logs a message unless it was logged before.
    fn log_once(&self, text: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_MESSAGES_MAX && logged.insert(text.to_owned()) {
            log::warning(text);
        }
    }
}

impl SinkFactory for Ingest {
    fn sink(&self, worker: usize) -> Box<dyn Sink + '_> {
        Box::new(self.file_sink(worker))
    }
}

impl EventStore for Ingest {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        self.check_room_for(&batch)?;
        let amounts = BatchAmounts::of(&batch);
        let set = self.sets_used.fetch_add(1, Ordering::Relaxed);
        self.receipt(self.store.append_to_set(set, AppendRequest { batch, checkpoint: None }), &amounts)
    }

    fn append_at(&self, batch: EventBatch, position: FilePosition) -> Result<Box<dyn Receipt>, AppendError> {
        let amounts = BatchAmounts::of(&batch);
        // Each sender always uses the same set, so that its batches stay in order.
        let set = pipeline_set_of(&position.identity);
        let request = AppendRequest { batch, checkpoint: Some(checkpoint_of(position)) };
        self.receipt(self.store.append_to_set(set, request), &amounts)
    }

    fn begin_request(&self, key: u128) -> SentRequest {
        self.store.begin_request(key)
    }

    fn append_sent(&self, batch: EventBatch, request: &SentRequest) -> Result<Box<dyn Receipt>, AppendError> {
        self.check_room_for(&batch)?;
        let amounts = BatchAmounts::of(&batch);
        let set = self.sets_used.fetch_add(1, Ordering::Relaxed);
        self.receipt(self.store.append_sent(set, batch, request), &amounts)
    }

    fn record_answered(&self, requests: &[SentRequest]) -> Result<(), SinkError> {
        Ok(self.store.record_answered(requests)?)
    }

    fn record_failure(&self, request: &SentRequest) {
        if let Err(error) = self.store.record_failure(request) {
            self.log_once(&format!("a request may be wrongly taken for a retry after a crash: {error}"));
        }
    }

    fn known_offset(&self, scope: &str, name: &[u8]) -> Result<u64, SinkError> {
        self.store.wait_for_appends()?;
        let known = self.store.checkpoints_of(name, scope)?;
        let own = known.iter().map(|logged| &logged.checkpoint).filter(|known| known.head_bytes as usize == name.len());
        Ok(own.map(|known| known.offset).max().unwrap_or(0))
    }

    fn spare_batch(&self) -> Option<EventBatch> {
        self.store.spare_batch()
    }

    fn warn(&self, text: &str) {
        self.log_once(text);
    }

    fn check_room(&self) -> Result<(), AppendError> {
        self.store.check_room().map_err(append_error)
    }

    fn check_index(&self, index: &str) -> Result<(), Fault> {
        self.settings.check_index(index)?;
        Ok(self.store.check_index(index)?)
    }
}

struct TicketReceipt(Ticket);

impl Receipt for TicketReceipt {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.0.wait().map_err(append_error)
    }

    fn wait_for_all(self: Box<Self>, refused: &mut Vec<EventBatch>) -> Result<(), AppendError> {
        self.0.wait_for_all(refused).map_err(append_error)
    }
}

/// Maps a store error to the sender's error, which tells whether a retry can help.
fn append_error(error: StoreError) -> AppendError {
    match error {
        StoreError::Full { .. } | StoreError::SealStalled { .. } => AppendError::Busy(error.into()),
        // The catalog is locked by another process, unreachable or out of space. These conditions are temporary.
        StoreError::Catalog(
            CatalogError::Busy { .. } | CatalogError::Unreachable { .. } | CatalogError::Full { .. },
        ) => AppendError::Busy(error.into()),
        StoreError::Closed => AppendError::Stopping,
        StoreError::TooLarge { .. } | StoreError::InvalidBatch { .. } => AppendError::Refused(error.into()),
        StoreError::TooManyIndexes { .. } => AppendError::IndexRefused(error.into()),
        _ => AppendError::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::{Layers, PropsResolver};
    use quarry_event::Metadata;
    use quarry_inputs::network::Appender;
    use quarry_stdx::ManualClock;
    use quarry_store::StoreOptions;

    use super::*;

    #[test]
    fn inputs_keep_their_events_while_the_disk_is_full() {
        let (folder, clock, layers) = (tempfile::tempdir().unwrap(), ManualClock::shared(0), Layers::new([]));
        let props = Arc::new(PropsResolver::new(&layers));
        let (host, zone, descriptors) = ("h".to_owned(), jiff::tz::TimeZone::UTC, 64);
        let settings = InputSettings { layers, props, clock: clock.clone(), host, zone, descriptors };
        let options = StoreOptions { free_bytes_min: u64::MAX, ..StoreOptions::at(folder.path()) };
        let node = Arc::new(Ingest::new(Store::open(options, clock).unwrap(), settings));
        let mut batch = EventBatch::default();
        let [index, host, source, sourcetype] = ["main", "h", "s", "t"].map(Arc::from);
        let meta = batch.intern(&Metadata { index, host, source, sourcetype });
        batch.push(b"text", 0, meta);
        let mut appender = Appender::new(node.clone());
        assert!(matches!(appender.append(&mut batch), Err(AppendError::Busy(_))));
        assert_eq!(batch.len(), 1, "the input still has its events");
        assert!(matches!(node.append_sent(batch, &SentRequest::default()), Err(AppendError::Busy(_))));
        node.store.close();
    }

    #[test]
    fn senders_retry_while_the_catalog_is_busy_or_unreachable() {
        let place = || "here".to_owned();
        let error = |error: CatalogError| append_error(error.into());
        assert!(matches!(error(CatalogError::Busy { place: place() }), AppendError::Busy(_)));
        let unreachable = CatalogError::Unreachable { place: place(), waited: 1, reason: "it is off".to_owned() };
        assert!(matches!(error(unreachable), AppendError::Busy(_)));
        let damaged = CatalogError::Corrupt { place: place(), reason: "a row is missing".to_owned() };
        assert!(matches!(error(damaged), AppendError::Failed(_)));
    }
}
