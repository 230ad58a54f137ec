//! A port without a socket, and stores, for tests of protocols.

use std::sync::Arc;

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
        Ok(Box::new(FailsLater))
    }

    fn check_index(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

impl Receipt for FailsLater {
    fn is_done(&self) -> bool {
        false
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        Err(AppendError::Failed("the disk".into()))
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
