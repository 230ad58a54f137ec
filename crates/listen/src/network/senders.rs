//! Forwarders of ours that send now, one connection each.
//!
//! A forwarder that was cut off comes again at once, while bytes of its old connection may still be on their way into
//! the store. What is stored of it is asked only when the old connection has ended, so that nothing is taken twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedMutexGuard, watch};

/// Names of senders that are remembered; those that nobody uses go before a new one comes.
const SENDERS_MAX: usize = 65_536;

/// Everybody who sends.
#[derive(Debug, Default)]
pub(crate) struct Senders(Mutex<BTreeMap<String, Arc<SenderTurn>>>);

/// One sender's place.
#[derive(Debug)]
struct SenderTurn {
    busy: Arc<tokio::sync::Mutex<()>>,
    /// Number of the connection that came last.
    latest: watch::Sender<u64>,
}

/// The place of a connection; free for the next when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    _busy: OwnedMutexGuard<()>,
    latest: watch::Receiver<u64>,
    number: u64,
    // Keeps the place in the list.
    _place: Arc<SenderTurn>,
}

impl Senders {
    /// Takes the place of `sender`, once the connection that has it has ended; that one is told to.
    pub(crate) async fn take(&self, sender: &str) -> Option<Held> {
        let place = self.place(sender)?;
        let mut number = 0;
        place.latest.send_modify(|latest| {
            *latest += 1;
            number = *latest;
        });
        let latest = place.latest.subscribe();
        let busy = Arc::clone(&place.busy).lock_owned().await;
        let held = Held { _busy: busy, latest, number, _place: place };
        // One that came later has the place.
        (!held.is_replaced()).then_some(held)
    }

    fn place(&self, sender: &str) -> Option<Arc<SenderTurn>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= SENDERS_MAX {
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        if places.len() >= SENDERS_MAX && !places.contains_key(sender) {
            return None;
        }
        let made = || Arc::new(SenderTurn { busy: Arc::default(), latest: watch::Sender::new(0) });
        Some(Arc::clone(places.entry(sender.to_owned()).or_insert_with(made)))
    }
}

impl Held {
    fn is_replaced(&self) -> bool {
        *self.latest.borrow() != self.number
    }

    /// Returns when another connection of the same sender has come.
    pub(crate) async fn replaced(&mut self) {
        let number = self.number;
        // The place, and so the other end, lives as long as this.
        drop(self.latest.wait_for(|latest| *latest != number).await);
    }
}

#[cfg(test)]
mod tests {
    use super::Senders;

    #[test]
    fn the_connection_that_came_last_has_the_place_once_the_one_before_has_ended() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let senders = Senders::default();
            let mut first = senders.take("a").await.unwrap();
            assert!(senders.take("b").await.is_some(), "another sender waits for nobody");
            let (second, ()) = tokio::join!(senders.take("a"), async {
                first.replaced().await;
                drop(first);
            });
            assert!(!second.unwrap().is_replaced());
        });
    }
}
