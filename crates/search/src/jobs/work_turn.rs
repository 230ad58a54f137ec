//! The slot in which a job runs; the number of concurrent searches is limited.
//!
//! Not here: assigning slots (api).

/// A slot, released when dropped. A job holds it while it runs, not while it is paused.
pub trait WorkTurn: Send {
    /// The job turns out to have many rows, so it may have to wait for others. `let_go` is called before waiting.
    fn grow(self: Box<Self>, let_go: &mut dyn FnMut()) -> Option<Box<dyn WorkTurn>>;
}
