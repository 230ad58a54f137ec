//! Streams rows to a client in small chunks, with bounded buffering; a search whose client does not read releases
//! resources.
//!
//! A client that reads nothing for [`STALL_AFTER`] is *stalled*: its search gives up its slot and waits, with little
//! memory, until the client reads again and a slot is free. After [`STALL_TIMEOUT`] the answer is aborted. An answer is
//! also aborted immediately if all stalled answers together hold [`STALLED_BYTES_MAX`], because rows may be long.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use quarry_search::SearchError;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::search_slots::{SlotPermit, SlotPool, SlotPurpose};

/// Maximum number of answers in progress, including stalled ones; further requests are refused. Each answer has a
/// thread and some pages of events.
pub const ANSWERS_MAX: usize = 256;
/// Approximate size of a chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Number of chunks buffered for a client; then the search waits.
const CHUNKS_MAX: usize = 2;
/// Maximum bytes of rows and text held by stalled answers together; an answer that would exceed it is aborted.
pub(crate) const STALLED_BYTES_MAX: usize = 256 << 20;
/// Approximate bytes that a stalled answer holds besides its text.
const STALLED_ANSWER_BYTES: usize = 1 << 20;
/// Time without reading after which a client is stalled.
const STALL_AFTER: Duration = Duration::from_millis(100);
/// Time without reading after which a client's answer is aborted.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A chunk of a body, or the error that ends it.
pub(crate) type Chunk = Result<Bytes, SearchError>;

/// The client has disconnected or has read nothing for too long, or the stalled answers hold too much memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientGone;

#[derive(Clone, Copy)]
struct OutletTimeouts {
    stall_after: Duration,
    stall_max: Duration,
}

/// Sends rows to a client. Its methods block and must not be called on async threads.
pub(crate) struct Outlet {
    sender: mpsc::Sender<Chunk>,
    /// Text of the next chunk so far.
    text: String,
    /// Whether a chunk has been sent.
    has_sent: bool,
    /// The search slot, held while the search works for the client.
    slot: Option<SlotPermit>,
    slots: Arc<SlotPool>,
    user: String,
    patience: OutletTimeouts,
    permit: AnswerPermit,
}

/// Permits for answers in progress.
#[derive(Clone)]
pub(crate) struct AnswerPermits {
    answers: Arc<Semaphore>,
    /// Kilobytes available to stalled answers.
    stalled: Arc<Semaphore>,
}

/// Permit for an answer, released when dropped.
pub(crate) struct AnswerPermit {
    stalled: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
}

impl AnswerPermits {
    pub(crate) fn for_server() -> AnswerPermits {
        AnswerPermits::new(ANSWERS_MAX, STALLED_BYTES_MAX)
    }

    fn new(answers: usize, stalled_bytes: usize) -> AnswerPermits {
        AnswerPermits {
            answers: Arc::new(Semaphore::new(answers)),
            stalled: Arc::new(Semaphore::new(stalled_bytes >> 10)),
        }
    }

    /// A permit, if one is available.
    pub(crate) fn try_acquire(&self) -> Option<AnswerPermit> {
        let permit = Arc::clone(&self.answers).try_acquire_owned().ok()?;
        Some(AnswerPermit { stalled: Arc::clone(&self.stalled), _permit: permit })
    }
}

/// Called before waiting for a stalled client, to release data that can be recomputed.
pub(crate) type ReleaseMemory<'l> = &'l mut dyn FnMut();

/// Receiver of a body's chunks.
pub(crate) type Chunks = mpsc::Receiver<Chunk>;

impl Outlet {
    /// An outlet to `user`; `permit` is the slot held while the search works, if any.
    pub(crate) fn new(
        slots: &Arc<SlotPool>,
        user: &str,
        permit: Option<SlotPermit>,
        place: AnswerPermit,
    ) -> (Outlet, Chunks) {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let (slots, user) = (Arc::clone(slots), user.to_owned());
        let patience = OutletTimeouts { stall_after: STALL_AFTER, stall_max: STALL_TIMEOUT };
        (
            Outlet { sender, text: String::new(), has_sent: false, slot: permit, slots, user, patience, permit: place },
            chunks,
        )
    }

    /// Whether the client has disconnected.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Appends the output of `write`, at most a row, and sends complete chunks.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut String),
        release_memory: ReleaseMemory<'_>,
    ) -> Result<(), ClientGone> {
        write(&mut self.text);
        if self.text.len() >= CHUNK_BYTES { self.flush(release_memory) } else { Ok(()) }
    }

    /// Sends buffered output.
    pub(crate) fn flush(&mut self, release_memory: ReleaseMemory<'_>) -> Result<(), ClientGone> {
        let mut text = Bytes::from(std::mem::take(&mut self.text));
        // A long row is split into several chunks; its text is released when the last chunk is sent.
        while !text.is_empty() {
            let len = if text.len() < 2 * CHUNK_BYTES { text.len() } else { CHUNK_BYTES };
            let chunk = text.split_to(len);
            self.send(Ok(chunk), text.len(), release_memory)?;
        }
        Ok(())
    }

    /// Ends the answer with an error; if nothing has been sent, discards the buffered output.
    pub(crate) fn fail_at_once(&mut self, error: SearchError) -> Result<(), ClientGone> {
        if !self.has_sent {
            self.text.clear();
        }
        self.fail(error)
    }

    /// Ends the answer with an error in place of a chunk, because the status may have been sent.
    pub(crate) fn fail(&mut self, error: SearchError) -> Result<(), ClientGone> {
        self.flush(&mut || {})?;
        self.send(Err(error), 0, &mut || {})
    }

    /// Sends a chunk; `more` bytes of text are still to be sent after it.
    fn send(&mut self, chunk: Chunk, more: usize, release_memory: ReleaseMemory<'_>) -> Result<(), ClientGone> {
        self.has_sent = true;
        let chunk = match self.sender.try_send(chunk) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ClientGone),
            Err(mpsc::error::TrySendError::Full(chunk)) => chunk,
        };
        Handle::current().block_on(self.send_when_read(chunk, more, release_memory))
    }

    async fn send_when_read(
        &mut self,
        chunk: Chunk,
        more: usize,
        release_memory: ReleaseMemory<'_>,
    ) -> Result<(), ClientGone> {
        let OutletTimeouts { stall_after, stall_max } = self.patience;
        if let Ok(room) = timeout(stall_after, self.sender.reserve()).await {
            room.map_err(|_| ClientGone)?.send(chunk);
            return Ok(());
        }
        release_memory();
        // The text counts twice, because the row itself takes about as much memory.
        let kilobytes = u32::try_from((STALLED_ANSWER_BYTES + 2 * more) >> 10).map_err(|_| ClientGone)?;
        let _held = self.permit.stalled.try_acquire_many(kilobytes).map_err(|_| ClientGone)?;
        // The slot is given up, so that other searches can run during the wait.
        let had_turn = self.slot.take().is_some();
        let room = timeout(stall_max, self.sender.reserve()).await;
        room.map_err(|_| ClientGone)?.map_err(|_| ClientGone)?.send(chunk);
        if had_turn {
            self.slot = tokio::select! {
                permit = self.slots.acquire(&self.user, SlotPurpose::Stream) => Some(permit.map_err(|_| ClientGone)?),
                () = self.sender.closed() => return Err(ClientGone),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn outlet(slots: &Arc<SlotPool>, patience: OutletTimeouts) -> (Outlet, Chunks) {
        outlet_with_permits(&AnswerPermits::for_server(), slots, patience).await
    }

    async fn outlet_with_permits(
        places: &AnswerPermits,
        slots: &Arc<SlotPool>,
        patience: OutletTimeouts,
    ) -> (Outlet, Chunks) {
        let permit = slots.acquire("eva", SlotPurpose::Stream).await.unwrap();
        let place = places.try_acquire().unwrap();
        let (outlet, chunks) = Outlet::new(slots, "eva", Some(permit), place);
        (Outlet { patience, ..outlet }, chunks)
    }

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test(flavor = "multi_thread")]
    async fn stalled_clients_hold_two_chunks_and_no_slot_until_they_read() {
        let slots = SlotPool::for_server(64);
        let (mut outlet, mut chunks) = outlet(&slots, OutletTimeouts { stall_after: SHORT, stall_max: LONG }).await;
        let rows = 10 * CHUNK_BYTES;
        let writing = tokio::task::spawn_blocking(move || {
            let written = (0..rows).try_for_each(|_| outlet.write(|text| text.push('x'), &mut || {}));
            written.and_then(|()| outlet.flush(&mut || {}))
        });
        while chunks.len() < CHUNKS_MAX || !slots.is_idle() {
            tokio::task::yield_now().await;
        }
        let mut read = 0;
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk.unwrap();
            assert!(chunk.len() <= CHUNK_BYTES);
            read += chunk.len();
        }
        assert_eq!((read, writing.await.unwrap()), (rows, Ok(())));
        assert!(slots.is_idle());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn clients_that_stop_reading_or_disconnect_are_dropped() {
        let slots = SlotPool::for_server(64);
        for leaves in [false, true] {
            let stall_max = if leaves { LONG } else { SHORT };
            let (mut outlet, chunks) = outlet(&slots, OutletTimeouts { stall_after: SHORT, stall_max }).await;
            let chunks = (!leaves).then_some(chunks);
            let row = |text: &mut String| text.push_str(&"x".repeat(CHUNK_BYTES));
            let write = move || (0..10).try_for_each(|_| outlet.write(row, &mut || {}));
            assert_eq!(tokio::task::spawn_blocking(write).await.unwrap(), Err(ClientGone));
            drop(chunks);
        }
        assert!(slots.is_idle());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn long_rows_are_split_and_stalled_answers_share_a_memory_limit() {
        let slots = SlotPool::for_server(64);
        let row_bytes = 10 * CHUNK_BYTES;
        // Room for one row, whose text counts twice.
        let places = AnswerPermits::new(2, STALLED_ANSWER_BYTES + 2 * row_bytes);
        let begin = |(mut outlet, chunks): (Outlet, Chunks)| {
            let writing = tokio::task::spawn_blocking(move || {
                let mut lets_go = 0;
                let written = outlet.write(|text| text.push_str(&"x".repeat(row_bytes)), &mut || lets_go += 1);
                (written, lets_go)
            });
            (writing, chunks)
        };
        let patience = OutletTimeouts { stall_after: SHORT, stall_max: LONG };
        let (first, mut chunks) = begin(outlet_with_permits(&places, &slots, patience).await);
        while !slots.is_idle() {
            tokio::task::yield_now().await;
        }
        let (second, _chunks) = begin(outlet_with_permits(&places, &slots, patience).await);
        assert_eq!(second.await.unwrap(), (Err(ClientGone), 1));
        let mut read = 0;
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk.unwrap();
            assert!(chunk.len() < 2 * CHUNK_BYTES);
            read += chunk.len();
        }
        let (written, lets_go) = first.await.unwrap();
        assert!(read == row_bytes && written == Ok(()) && lets_go > 0, "{read} {written:?} {lets_go}");
    }
}
