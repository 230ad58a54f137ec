//! A port without a socket, and stores, for tests of protocols.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use quarry_conf::{Layers, NetworkInput, PropsResolver};
use quarry_event::EventBatch;
use quarry_inputs::network::AccessList;
use quarry_inputs::{AppendError, EventStore, InputSettings, Receipt};
use quarry_pipeline::EventTyping;
use quarry_stdx::{Fault, ManualClock};
use tokio::sync::{mpsc, watch};

use super::{Limits, Names, Port, ReadSlots, Senders, Shared};

/// A store that no event reaches.
pub(super) struct Nowhere;

impl EventStore for Nowhere {
    fn append(&self, _: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        Err(AppendError::Stopping)
    }

    fn check_index(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

/// A store that accepts events and fails to store them later.
pub(super) struct FailsLater;

impl EventStore for FailsLater {
    fn append(&self, _: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        Ok(Box::new(FailedLater(AtomicBool::new(false))))
    }

    fn check_index(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

/// Receipt of a batch that could not be stored. Only the first call of `is_done` returns false.
struct FailedLater(AtomicBool);

impl Receipt for FailedLater {
    fn is_done(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        Err(AppendError::Failed("the disk".into()))
    }
}

/// A store that accepts all batches but whose log refuses the first of them.
#[derive(Default)]
pub(super) struct FullLog {
    refusals: AtomicUsize,
    texts: Mutex<Vec<String>>,
}

impl FullLog {
    pub(super) fn with_refusals(count: usize) -> FullLog {
        FullLog { refusals: AtomicUsize::new(count), ..FullLog::default() }
    }

    /// The events in the log.
    pub(super) fn texts(&self) -> Vec<String> {
        self.texts.lock().unwrap().clone()
    }
}

impl EventStore for FullLog {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        if self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Ok(Box::new(Refused(batch)));
        }
        let texts = (0..batch.len()).map(|row| String::from_utf8_lossy(batch.raw(row)).into_owned());
        self.texts.lock().unwrap().extend(texts);
        Ok(Box::new(Stored))
    }

    fn check_index(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

/// Receipt of a batch that the log refuses.
pub(super) struct Refused(pub(super) EventBatch);

impl Receipt for Refused {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.wait_for_all(&mut Vec::new())
    }

    fn wait_for_all(self: Box<Self>, refused: &mut Vec<EventBatch>) -> Result<(), AppendError> {
        refused.push(self.0);
        Err(AppendError::Busy("no space left".into()))
    }
}

/// Receipt of a stored batch.
pub(super) struct Stored;

impl Receipt for Stored {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        Ok(())
    }
}

/// A port whose events go to `store`, its clock, and what keeps it open.
pub(super) fn port_of(
    store: Arc<dyn EventStore>,
) -> (Port, Arc<ManualClock>, (watch::Sender<bool>, mpsc::Receiver<()>)) {
    let layers = Layers::new([]);
    let input = NetworkInput::for_forwarders(&layers, "127.0.0.1:0".parse().unwrap());
    let (props, clock) = (Arc::new(PropsResolver::new(&layers)), ManualClock::shared(0));
    let settings = Arc::new(InputSettings {
        layers,
        props: Arc::clone(&props),
        clock: clock.clone(),
        host: "h".to_owned(),
        zone: jiff::tz::TimeZone::UTC,
        descriptors: 1_024,
    });
    let (stop, stopping) = watch::channel(false);
    let (alive, ended) = mpsc::channel(1);
    let (turns, limits) = (Arc::new(ReadSlots::new()), Arc::new(Limits::new()));
    let (names, senders) = (Arc::<Names>::default(), Arc::<Senders>::default());
    let shared = Arc::new(Shared { settings, forwarder_tokens: None, turns, limits, names, senders, stopping, alive });
    let typing = Arc::new(EventTyping::new(props));
    (Port { input, access: AccessList::default(), store, typing, shared }, clock, (stop, ended))
}
