//! The future result of an append.

use std::sync::{Arc, Condvar, Mutex};

use crate::StoreError;
use crate::sync::{lock, wait};

type Outcome = Result<(), StoreError>;

#[derive(Debug, Default)]
struct Slot {
    outcome: Mutex<Option<Outcome>>,
    given: Condvar,
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
        let mut outcome = lock(&self.slot.outcome);
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            outcome = wait(&self.slot.given, outcome);
        }
    }

    /// Whether `wait` would return immediately.
    pub fn is_done(&self) -> bool {
        lock(&self.slot.outcome).is_some() && self.before.iter().all(Ticket::is_done)
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

impl Promise {
    pub(crate) fn fulfill(mut self, outcome: Outcome) {
        self.set_outcome(outcome);
    }

    fn set_outcome(&mut self, outcome: Outcome) {
        if let Some(slot) = self.0.take() {
            *lock(&slot.outcome) = Some(outcome);
            slot.given.notify_all();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.set_outcome(Err(StoreError::Closed));
    }
}
