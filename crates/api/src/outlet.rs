//! The way of rows to a client: small chunks, few at a time, and a search that makes room while its client reads nothing.
//!
//! A client that takes nothing for [`STALL_AFTER`] is *stalled*: its search gives its turn to another and waits, with what
//! little it holds, until the client reads on and there is a turn again. After [`STALL_MAX`] the answer is cut off.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use quarry_search::SearchError;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use crate::turns::{Turn, Turns};

/// Answers on their way at once, with those of stalled clients. Each has a thread and some pages of events.
pub const ANSWERS_MAX: usize = 256;
/// Bytes of a chunk, about.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for a client.
const CHUNKS_MAX: usize = 2;
/// Time without reading after which a client is stalled.
const STALL_AFTER: Duration = Duration::from_millis(100);
/// Time without reading after which its answer is cut off.
const STALL_MAX: Duration = Duration::from_secs(60);

/// A chunk of a body, or why there are no more.
pub(crate) type Chunk = Result<Bytes, SearchError>;

/// The client has left, or reads nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// Times of an outlet.
#[derive(Clone, Copy)]
struct Patience {
    stall_after: Duration,
    stall_max: Duration,
}

/// Where rows go. Its calls block: not for async threads.
pub(crate) struct Outlet {
    sender: mpsc::Sender<Chunk>,
    /// What the next chunk holds so far.
    text: String,
    /// The turn of the search while it works for the client.
    turn: Option<Turn>,
    turns: Arc<Turns>,
    user: String,
    patience: Patience,
    /// Its place among the answers on their way.
    _place: OwnedSemaphorePermit,
}

/// Where a body's chunks come from.
pub(crate) type Chunks = mpsc::Receiver<Chunk>;

impl Outlet {
    /// The way of an answer to `user`; `turn` is held while the search works, where it does.
    pub(crate) fn new(
        turns: &Arc<Turns>,
        user: &str,
        turn: Option<Turn>,
        place: OwnedSemaphorePermit,
    ) -> (Outlet, Chunks) {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let (turns, user) = (Arc::clone(turns), user.to_owned());
        let patience = Patience { stall_after: STALL_AFTER, stall_max: STALL_MAX };
        (Outlet { sender, text: String::new(), turn, turns, user, patience, _place: place }, chunks)
    }

    /// Adds what `write` writes, a row or less, and sends what is a chunk then.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut String)) -> Result<(), Gone> {
        write(&mut self.text);
        if self.text.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Sends what there is.
    pub(crate) fn flush(&mut self) -> Result<(), Gone> {
        if self.text.is_empty() {
            return Ok(());
        }
        let text = std::mem::take(&mut self.text);
        self.send(Ok(Bytes::from(text)))
    }

    /// Ends the answer with the reason in a chunk's place: the status is sent already.
    pub(crate) fn fail(&mut self, error: SearchError) -> Result<(), Gone> {
        self.flush()?;
        self.send(Err(error))
    }

    fn send(&mut self, chunk: Chunk) -> Result<(), Gone> {
        let chunk = match self.sender.try_send(chunk) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(Gone),
            Err(mpsc::error::TrySendError::Full(chunk)) => chunk,
        };
        Handle::current().block_on(self.send_when_read(chunk))
    }

    async fn send_when_read(&mut self, chunk: Chunk) -> Result<(), Gone> {
        let Patience { stall_after, stall_max } = self.patience;
        if let Ok(room) = timeout(stall_after, self.sender.reserve()).await {
            room.map_err(|_| Gone)?.send(chunk);
            return Ok(());
        }
        // Others work meanwhile.
        let had_turn = self.turn.take().is_some();
        let room = timeout(stall_max, self.sender.reserve()).await;
        room.map_err(|_| Gone)?.map_err(|_| Gone)?.send(chunk);
        if had_turn {
            self.turn = tokio::select! {
                turn = self.turns.take(&self.user) => Some(turn.map_err(|_| Gone)?),
                () = self.sender.closed() => return Err(Gone),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    async fn outlet(turns: &Arc<Turns>, patience: Patience) -> (Outlet, Chunks) {
        let turn = turns.take("eva").await.unwrap();
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let (outlet, chunks) = Outlet::new(turns, "eva", Some(turn), place);
        (Outlet { patience, ..outlet }, chunks)
    }

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stalled_client_holds_two_chunks_and_no_turn_and_goes_on_when_it_reads() {
        let turns = Turns::of_server();
        let (mut outlet, mut chunks) = outlet(&turns, Patience { stall_after: SHORT, stall_max: LONG }).await;
        let rows = 10 * CHUNK_BYTES;
        let writing = tokio::task::spawn_blocking(move || {
            (0..rows).try_for_each(|_| outlet.write(|text| text.push('x'))).and_then(|()| outlet.flush())
        });
        while chunks.len() < CHUNKS_MAX || !turns.is_idle() {
            tokio::task::yield_now().await;
        }
        let mut read = 0;
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk.unwrap();
            assert!(chunk.len() <= CHUNK_BYTES);
            read += chunk.len();
        }
        assert_eq!((read, writing.await.unwrap()), (rows, Ok(())));
        assert!(turns.is_idle());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_reads_nothing_for_long_or_leaves_is_given_up() {
        let turns = Turns::of_server();
        for leaves in [false, true] {
            let stall_max = if leaves { LONG } else { SHORT };
            let (mut outlet, chunks) = outlet(&turns, Patience { stall_after: SHORT, stall_max }).await;
            let chunks = (!leaves).then_some(chunks);
            let write = move || (0..10).try_for_each(|_| outlet.write(|text| text.push_str(&"x".repeat(CHUNK_BYTES))));
            assert_eq!(tokio::task::spawn_blocking(write).await.unwrap(), Err(Gone));
            drop(chunks);
        }
        assert!(turns.is_idle());
    }
}
