//! The turn in which a job works: searches run so many at a time.
//!
//! Not here: who has which turn (api).

/// A turn, over when it is dropped. A job has it while it works, not while it is paused.
pub trait WorkTurn: Send {
    /// The rows of the job turn out to be many: others may have to work first. `let_go` is called before it waits for that.
    fn grow(self: Box<Self>, let_go: &mut dyn FnMut()) -> Option<Box<dyn WorkTurn>>;
}
