//! Who may read now: as many connections at a time as there are processors, each with a buffer and a batch that stay.
//!
//! Memory for bytes that were read does not grow with connections, and a busy store stops reading altogether.

use std::sync::{Arc, Mutex, PoisonError};

use quarry_event::EventBatch;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Turns at a time, at least and at most.
const TURNS: (usize, usize) = (2, 8);
/// Bytes of a turn's read buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// What a turn works with.
#[derive(Debug)]
pub(crate) struct Desk {
    /// Takes what is read.
    pub(crate) buffer: Vec<u8>,
    /// Takes events; empty between turns.
    pub(crate) batch: EventBatch,
}

/// All turns.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Semaphore,
    desks: Arc<Mutex<Vec<Desk>>>,
}

/// A turn; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    desks: &'a Mutex<Vec<Desk>>,
    desk: Option<Desk>,
}

impl Turns {
    /// Turns for this machine.
    pub(crate) fn new() -> Turns {
        let processors = std::thread::available_parallelism().map_or(TURNS.0, usize::from);
        Turns { free: Semaphore::new(processors.clamp(TURNS.0, TURNS.1)), desks: Arc::default() }
    }

    /// Waits for a turn.
    pub(crate) async fn wait(&self) -> Turn<'_> {
        // It is never closed.
        let permit = self.free.acquire().await.ok();
        let desk = self.desks.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let desk = desk.unwrap_or_else(|| Desk { buffer: vec![0; BUFFER_BYTES], batch: EventBatch::default() });
        Turn { _permit: permit, desks: &self.desks, desk: Some(desk) }
    }
}

impl Turn<'_> {
    /// Runs `work` with the desk, on a thread that may wait.
    pub(crate) fn run<T>(&mut self, work: impl FnOnce(&mut Desk) -> T) -> Option<T> {
        let desk = self.desk.as_mut()?;
        Some(tokio::task::block_in_place(|| work(desk)))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            self.desks.lock().unwrap_or_else(PoisonError::into_inner).push(desk);
        }
    }
}
