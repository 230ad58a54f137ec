//! The search slot that a job occupies while it runs. Slots limit the number of concurrent searches.
//!
//! Not here: the assignment of slots (api).

/// A slot, released when dropped. A running job holds a slot; a paused job holds none.
pub trait SearchSlot: Send {
    /// Exchanges the slot because the job turned out to have many rows; the job may then have to wait for other
    /// searches. `release_memory` is called before waiting.
    fn grow(self: Box<Self>, release_memory: &mut dyn FnMut()) -> Option<Box<dyn SearchSlot>>;
}
