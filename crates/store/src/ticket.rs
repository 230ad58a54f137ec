//! The future result of an append.

use std::sync::{Arc, Condvar, Mutex};

use quarry_event::EventBatch;

use crate::StoreError;
use crate::sync::{lock, wait};

type Outcome = Result<(), StoreError>;

#[derive(Debug, Default)]
struct Slot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    outcome: Option<Outcome>,
    /// The events of an append that the log refused.
    refused: Option<EventBatch>,
}

/// Handle to wait for an append. Dropping it does not cancel the append.
#[derive(Debug)]
#[must_use = "the events are stored only when `wait` says so"]
pub struct Ticket {
    slot: Arc<Slot>,
    /// Tickets of the earlier parts of the same append.
    before: Vec<Ticket>,
}

impl Ticket {
    /// Waits until the events are durable and visible to every later snapshot, or have failed.
    pub fn wait(self) -> Result<(), StoreError> {
        self.before.into_iter().try_for_each(Ticket::wait)?;
        self.slot.wait().0
    }

    /// Like [`Ticket::wait`], but also waits after an error, and adds to `refused` the events of those parts of the
    /// append that the log refused. The caller may append them again; the other parts are stored or lost.
    pub fn wait_for_all(self, refused: &mut Vec<EventBatch>) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for ticket in self.before {
            outcome = outcome.and(ticket.wait_for_all(refused));
        }
        let (own, batch) = self.slot.wait();
        refused.extend(batch);
        outcome.and(own)
    }

    /// Whether `wait` would return immediately.
    pub fn is_done(&self) -> bool {
        lock(&self.slot.state).outcome.is_some() && self.before.iter().all(Ticket::is_done)
    }

    /// A ticket that waits for this one and for `before`.
    pub(crate) fn combined_with(self, before: Vec<Ticket>) -> Ticket {
        Ticket { before, ..self }
    }

    /// A ticket with a known result.
    pub(crate) fn done(outcome: Outcome) -> Ticket {
        let (promise, ticket) = promise_and_ticket();
        promise.fulfill(outcome);
        ticket
    }
}

/// The sending end of a ticket. If it is dropped without a result, because its thread ended, the ticket reports
/// `Closed`.
#[derive(Debug)]
pub(crate) struct Promise(Option<Arc<Slot>>);

/// A ticket and the promise that answers it.
pub(crate) fn promise_and_ticket() -> (Promise, Ticket) {
    let slot = Arc::new(Slot::default());
    (Promise(Some(slot.clone())), Ticket { slot, before: Vec::new() })
}

impl Slot {
    /// Waits for the outcome; also returns the events if the log refused them.
    fn wait(&self) -> (Outcome, Option<EventBatch>) {
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = state.outcome.take() {
                return (outcome, state.refused.take());
            }
            state = wait(&self.changed, state);
        }
    }
}

impl Promise {
    pub(crate) fn fulfill(mut self, outcome: Outcome) {
        self.set_outcome(outcome, None);
    }

    /// Reports that none of these events was written.
    pub(crate) fn refuse(mut self, error: StoreError, batch: EventBatch) {
        self.set_outcome(Err(error), Some(batch));
    }

    fn set_outcome(&mut self, outcome: Outcome, refused: Option<EventBatch>) {
        if let Some(slot) = self.0.take() {
            *lock(&slot.state) = SlotState { outcome: Some(outcome), refused };
            slot.changed.notify_all();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.set_outcome(Err(StoreError::Closed), None);
    }
}
