//! Turns: permits to read from a connection, one per processor within limits, each with a reused buffer and batch.
//!
//! Memory for received data therefore does not grow with the number of connections, and a busy store stops all reading.

use std::sync::{Arc, Mutex, PoisonError};

use quarry_event::EventBatch;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Minimum and maximum number of turns.
const SLOTS_MIN_MAX: (usize, usize) = (2, 8);
/// Size of a read buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// Buffers of a turn, reused by the next.
#[derive(Debug)]
pub(crate) struct ReadBuffers {
    /// Read buffer.
    pub(crate) buffer: Vec<u8>,
    /// Batch for events; empty between turns.
    pub(crate) batch: EventBatch,
}

/// All turns.
#[derive(Debug)]
pub(crate) struct ReadSlots {
    free: Semaphore,
    free_buffers: Arc<Mutex<Vec<ReadBuffers>>>,
}

/// A turn; ends when dropped.
#[derive(Debug)]
pub(crate) struct ReadSlot<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    free_buffers: &'a Mutex<Vec<ReadBuffers>>,
    buffers: Option<ReadBuffers>,
}

impl ReadSlots {
    /// Creates the turns for the processors of this machine.
    pub(crate) fn new() -> ReadSlots {
        let processors = std::thread::available_parallelism().map_or(SLOTS_MIN_MAX.0, usize::from);
        ReadSlots {
            free: Semaphore::new(processors.clamp(SLOTS_MIN_MAX.0, SLOTS_MIN_MAX.1)),
            free_buffers: Arc::default(),
        }
    }

    /// Waits for a turn.
    pub(crate) async fn acquire(&self) -> ReadSlot<'_> {
        // The semaphore is never closed.
        let permit = self.free.acquire().await.ok();
        let buffers = self.free_buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let buffers =
            buffers.unwrap_or_else(|| ReadBuffers { buffer: vec![0; BUFFER_BYTES], batch: EventBatch::default() });
        ReadSlot { _permit: permit, free_buffers: &self.free_buffers, buffers: Some(buffers) }
    }
}

impl ReadSlot<'_> {
    /// Runs `work` with the turn's buffers on a thread that may block.
    pub(crate) fn run<T>(&mut self, work: impl FnOnce(&mut ReadBuffers) -> T) -> Option<T> {
        let buffers = self.buffers.as_mut()?;
        Some(tokio::task::block_in_place(|| work(buffers)))
    }
}

impl Drop for ReadSlot<'_> {
    fn drop(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            self.free_buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
        }
    }
}
