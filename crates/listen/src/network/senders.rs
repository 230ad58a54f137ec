//! Connected Quarry forwarders, one connection each.
//!
//! A disconnected forwarder reconnects at once, while appends of its old connection may still be in progress. The
//! number of the forwarder's last stored batch is looked up only when the old connection has ended, so that no batch is
//! stored twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedMutexGuard, watch};

/// Maximum number of remembered forwarders. Once it is reached, forwarders without a connection are forgotten; if all
/// are connected, a new one is refused.
const SENDERS_MAX: usize = 65_536;

/// All connected forwarders.
#[derive(Debug, Default)]
pub(crate) struct Senders(Mutex<BTreeMap<String, Arc<SenderSlot>>>);

/// Entry of one forwarder.
#[derive(Debug)]
struct SenderSlot {
    busy: Arc<tokio::sync::Mutex<()>>,
    /// Number of the latest connection.
    latest: watch::Sender<u64>,
}

/// A connection's ownership of an entry, released when dropped.
#[derive(Debug)]
pub(crate) struct SenderEntry {
    _busy: OwnedMutexGuard<()>,
    latest: watch::Receiver<u64>,
    number: u64,
    // This reference keeps the entry in the list.
    _place: Arc<SenderSlot>,
}

impl Senders {
    /// Asks the connection that holds the entry of `sender` to end, waits until it has ended, and takes over the entry.
    /// `None` if a still later connection took over, or if too many forwarders are remembered.
    pub(crate) async fn acquire(&self, sender: &str) -> Option<SenderEntry> {
        let place = self.register(sender)?;
        let mut number = 0;
        place.latest.send_modify(|latest| {
            *latest += 1;
            number = *latest;
        });
        let latest = place.latest.subscribe();
        let busy = Arc::clone(&place.busy).lock_owned().await;
        let held = SenderEntry { _busy: busy, latest, number, _place: place };
        // A later connection took over.
        (!held.is_replaced()).then_some(held)
    }

    fn register(&self, sender: &str) -> Option<Arc<SenderSlot>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= SENDERS_MAX {
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        if places.len() >= SENDERS_MAX && !places.contains_key(sender) {
            return None;
        }
        let made = || Arc::new(SenderSlot { busy: Arc::default(), latest: watch::Sender::new(0) });
        Some(Arc::clone(places.entry(sender.to_owned()).or_insert_with(made)))
    }
}

impl SenderEntry {
    fn is_replaced(&self) -> bool {
        *self.latest.borrow() != self.number
    }

    /// Resolves when another connection of the same sender arrives.
    pub(crate) async fn wait_replaced(&mut self) {
        let number = self.number;
        // The channel lives as long as this value.
        drop(self.latest.wait_for(|latest| *latest != number).await);
    }
}

#[cfg(test)]
mod tests {
    use super::Senders;

    #[test]
    fn new_connections_of_a_sender_replace_the_previous_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let senders = Senders::default();
            let mut first = senders.acquire("a").await.unwrap();
            assert!(senders.acquire("b").await.is_some(), "another sender does not wait");
            let (second, ()) = tokio::join!(senders.acquire("a"), async {
                first.wait_replaced().await;
                drop(first);
            });
            assert!(!second.unwrap().is_replaced());
        });
    }
}
