//! Ports for the data of forwarders.
//!
//! As with text, a connection reads and appends only while it holds a turn (a permit, `read_slots`). An acknowledgment
//! is sent when the events before it are on disk. If the store fails, the forwarder is disconnected without an
//! acknowledgment, so that it sends the events again. A forwarder that asks for no acknowledgments would not send them
//! again, so events that the store refuses after it has accepted them are appended again. Events that the store refuses
//! for good are dropped, counted and reported.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quarry_event::EventBatch;
use quarry_inputs::network::hand_over;
use quarry_inputs::s2s::{Forwarder, ForwarderDefaults, S2sError, wire};
use quarry_inputs::{AppendError, FileIdentity, FilePosition, Receipt, SinkError};
use quarry_stdx::Fault;
use quarry_stdx::number::u32_of;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::limits::ConnectionPermit;
use super::senders::SenderEntry;
use super::tcp::{BUSY_RETRY_DELAY, GATHER_PAUSE, accept_connections, accept_tls, host_of};
use super::{Port, PortGroup, wait_stopped};
use crate::sockets::listen_on;
use crate::stream::{Connection, first_bytes, is_full_probe, read_now, write};

/// Interval at which a session checks whether events are on disk.
const ACK_INTERVAL: Duration = Duration::from_millis(5);
/// Interval at which the events of silent channels are completed.
const CHANNEL_FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of appends awaiting acknowledgment; beyond it, the connection is not read.
const PENDING_APPENDS_MAX: usize = 64;
/// Bytes read from one forwarder per turn.
const TURN_BYTES: usize = 1 << 20;
/// Timeout of writing an answer; then the forwarder is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time from the first byte of a greeting, frame or packet to its last; then the forwarder is disconnected.
const INCOMPLETE_TIMEOUT: Duration = Duration::from_secs(120);
/// Scope of forwarders' batch numbers; it cannot be an index name.
const SENDER_SCOPE: &str = "\0forwarder";
/// Minimum protocol level at which packets are offered.
const PACKETS_LEVEL: u64 = 1;

/// Listens and accepts connections until the socket closes.
pub(super) fn listen(
    group: PortGroup,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
) -> std::io::Result<SocketAddr> {
    let listener = listen_on(address)?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        let serve = |stanza: usize, stream, peer| {
            let port = Arc::clone(&group.0[stanza]);
            drop(tokio::spawn(serve_connection(port, acceptor.clone(), stream, peer)));
        };
        accept_connections(&listener, &group, serve).await;
        // The listener is dropped before the stanzas: once they are gone, another socket may be opened at this address.
        drop(listener);
    });
    Ok(bound)
}

/// Serves one connection to its end.
async fn serve_connection(port: Arc<Port>, acceptor: Option<TlsAcceptor>, stream: TcpStream, peer: SocketAddr) {
    let _alive = port.shared.alive.clone();
    let limits = &port.shared.limits;
    let Some(place) = limits.acquire() else { return };
    let host = host_of(&port, peer).await;
    let Some(mut connection) = accept_tls((limits, &place), stream, acceptor, peer).await else { return };
    let input = &port.input;
    let defaults = ForwarderDefaults {
        index: input.index.clone(),
        host,
        source: input.source.clone().unwrap_or_else(|| "splunktcp".to_owned()),
        sourcetype: input.sourcetype.clone().unwrap_or_default(),
        tokens: port.shared.forwarder_tokens.clone(),
        offers_packets: input.protocol_level.is_none_or(|level| level >= PACKETS_LEVEL),
        props: Arc::clone(&port.shared.settings.props),
        typing: Arc::clone(&port.typing),
    };
    let forwarder = Forwarder::new(Arc::new(defaults));
    let begun = port.shared.settings.clock.elapsed_ns();
    let session = Session {
        port: &port,
        forwarder,
        pending_acks: VecDeque::new(),
        refused: Vec::new(),
        permit: place,
        numbers: None,
        since: Some(begun),
    };
    if let Err(error) = session.run(&mut *connection).await {
        limits.log_fault(&format!("[{}]: forwarder {peer} is disconnected: {error}", input.stanza));
    }
}

/// Reason why a session ended early.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error(transparent)]
    Protocol(#[from] S2sError),
    #[error("its events cannot be stored: {0}")]
    Store(String),
    #[error("it was silent for {0} seconds")]
    Silent(u64),
    #[error("its message was incomplete after {0} seconds")]
    Unfinished(u64),
    #[error("the unfinished text of all forwarders exceeds the server's limit")]
    HoldsTooMuch,
    #[error("it does not read the answers")]
    Deaf,
    #[error("it opened another connection")]
    Replaced,
    #[error("it sent a numbered batch before its greeting was answered")]
    Unnumbered,
}

/// Receipts of batches, and the ids to acknowledge once these batches are stored.
type Acknowledgment = (Vec<Box<dyn Receipt>>, Vec<u64>);

struct Session<'a> {
    port: &'a Port,
    forwarder: Forwarder,
    /// Appends in progress, and the ids they will acknowledge.
    pending_acks: VecDeque<Acknowledgment>,
    /// Events that the store accepted and then refused, and that the forwarder will not send again.
    refused: Vec<EventBatch>,
    permit: ConnectionPermit<'a>,
    /// State of a forwarder that numbers its batches.
    numbers: Option<Numbers>,
    /// Monotonic time at which the current incomplete greeting, frame or packet began.
    since: Option<i64>,
}

/// State of a forwarder that numbers its batches.
struct Numbers {
    identity: Arc<FileIdentity>,
    sender_entry: SenderEntry,
    /// Number of the last stored batch.
    last: u64,
}

impl Session<'_> {
    async fn run(mut self, connection: &mut dyn Connection) -> Result<(), SessionError> {
        let ended = self.exchange(connection).await;
        let flushed = if ended.is_ok() { self.flush_channels(true).await } else { Ok(()) };
        // Stored events are acknowledged whatever ended the session, because the forwarder sends everything else again.
        // A forwarder that has disconnected receives nothing.
        let (ids, stored) = tokio::task::block_in_place(|| self.take_acknowledged(true));
        if !matches!(ended, Err(SessionError::Deaf)) {
            drop(answer(connection, &wire::acknowledgment(&ids)).await);
        }
        let settled = self.settle().await;
        ended.and(flushed).and(stored).and(settled)
    }

    /// Receives and acknowledges events until the connection ends or has to end.
    async fn exchange(&mut self, connection: &mut dyn Connection) -> Result<(), SessionError> {
        let mut stopping = self.port.shared.stopping.clone();
        let mut heard = self.elapsed();
        loop {
            let pause = if self.pending_acks.is_empty() { CHANNEL_FLUSH_INTERVAL } else { ACK_INTERVAL };
            let read = tokio::select! {
                // Received data takes precedence over a request to close.
                biased;
                () = wait_stopped(&mut stopping) => break,
                () = wait_replaced(&mut self.numbers) => break,
                read = first_bytes(connection), if self.pending_acks.len() < PENDING_APPENDS_MAX => Some(read),
                () = self.permit.close_requested() => break,
                () = tokio::time::sleep(pause) => None,
            };
            match read {
                None => {
                    self.check_silence(heard)?;
                    if self.pending_acks.len() < PENDING_APPENDS_MAX {
                        self.check_progress()?;
                    } else {
                        self.since = self.since.map(|_| self.elapsed());
                    }
                    if self.forwarder.is_open() {
                        self.flush_channels(false).await?;
                    }
                }
                Some(Ok(first)) if !first.is_empty() => {
                    heard = self.elapsed();
                    if !is_full_probe(&first) {
                        tokio::time::sleep(GATHER_PAUSE).await;
                    }
                    let asked = self.elapsed();
                    let mut turn = self.port.shared.turns.acquire().await;
                    // Time spent waiting for a turn does not count against the forwarder.
                    let waited = self.elapsed().saturating_sub(asked);
                    self.since = self.since.map(|since| since.saturating_add(waited));
                    let flow = turn.run(|buffers| self.read(connection, &first, &mut buffers.buffer));
                    drop(turn);
                    let flow = flow.unwrap_or(Ok(ControlFlow::Break(())))?;
                    self.check_progress()?;
                    // The number must be known before the answer, which permits the forwarder to send batches.
                    self.load_numbers().await?;
                    let words = self.forwarder.take_answer();
                    answer(connection, &words).await?;
                    if flow.is_break() {
                        break;
                    }
                }
                Some(_) => break,
            }
            let (ids, stored) = self.take_acknowledged(false);
            answer(connection, &wire::acknowledgment(&ids)).await?;
            stored?;
            self.append_refused().await?;
        }
        Ok(())
    }

    /// Appends refused events again until they are stored or lost.
    async fn settle(&mut self) -> Result<(), SessionError> {
        let mut outcome = Ok(());
        while !self.refused.is_empty() {
            let appended = self.append_refused().await;
            let (_, stored) = tokio::task::block_in_place(|| self.take_acknowledged(true));
            outcome = outcome.and(appended).and(stored);
        }
        outcome
    }

    /// Appends events again that the store has refused.
    async fn append_refused(&mut self) -> Result<(), SessionError> {
        if self.refused.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(BUSY_RETRY_DELAY).await;
        let mut turn = self.port.shared.turns.acquire().await;
        let appended = turn.run(|_| {
            let (mut receipts, mut outcome) = (Vec::new(), Ok(()));
            for mut batch in std::mem::take(&mut self.refused) {
                match self.append(&mut batch) {
                    Ok(receipt) => receipts.extend(receipt),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            self.pending_acks.push_back((receipts, Vec::new()));
            outcome
        });
        appended.unwrap_or(Ok(()))
    }

    /// Looks up the last stored number of a forwarder that numbers its batches, once it has named itself.
    async fn load_numbers(&mut self) -> Result<(), SessionError> {
        let Some(sender) = self.forwarder.sender().filter(|_| self.numbers.is_none()) else { return Ok(()) };
        let sender = sender.to_owned();
        let held = self.port.shared.senders.acquire(&sender).await.ok_or(SessionError::Replaced)?;
        let head = sender.into_bytes();
        let asked = tokio::task::block_in_place(|| self.port.store.known_offset(SENDER_SCOPE, &head));
        let last = asked.map_err(|error| SessionError::Store(error.to_string()))?;
        let identity = Arc::new(FileIdentity { scope: SENDER_SCOPE.to_owned(), head, variant: 0 });
        self.numbers = Some(Numbers { identity, sender_entry: held, last });
        Ok(())
    }

    fn elapsed(&self) -> i64 {
        self.port.shared.settings.clock.elapsed_ns()
    }

    fn check_silence(&self, heard: i64) -> Result<(), SessionError> {
        let Some(seconds) = self.port.input.heartbeat_seconds.filter(|seconds| *seconds > 0) else { return Ok(()) };
        let silent = Duration::from_nanos(self.elapsed().saturating_sub(heard).unsigned_abs());
        if silent.as_secs() >= seconds { Err(SessionError::Silent(seconds)) } else { Ok(()) }
    }

    /// Fails if an incomplete message takes too long, because memory is held for it.
    fn check_progress(&self) -> Result<(), SessionError> {
        let Some(since) = self.since else { return Ok(()) };
        let taken = Duration::from_nanos(self.elapsed().saturating_sub(since).unsigned_abs());
        if taken >= INCOMPLETE_TIMEOUT { Err(SessionError::Unfinished(INCOMPLETE_TIMEOUT.as_secs())) } else { Ok(()) }
    }

    /// Completes the events of silent channels, or of all channels if `all` is set.
    async fn flush_channels(&mut self, all: bool) -> Result<(), SessionError> {
        let mut turn = self.port.shared.turns.acquire().await;
        let elapsed = self.elapsed();
        let stored = turn.run(|_| {
            self.forwarder.flush_silent(all, elapsed);
            self.store()
        });
        stored.unwrap_or(Ok(()))
    }

    /// Reads the data available after `first` and stores it.
    fn read(
        &mut self,
        connection: &mut dyn Connection,
        first: &[u8],
        buffer: &mut [u8],
    ) -> Result<ControlFlow<()>, SessionError> {
        let before = self.forwarder.messages();
        self.forwarder.push(first);
        let mut left = TURN_BYTES;
        let mut flow = ControlFlow::Continue(());
        loop {
            self.advance()?;
            if left == 0 || flow.is_break() {
                break;
            }
            let most = buffer.len().min(left);
            match read_now(connection, &mut buffer[..most]) {
                Ok(Some(0)) | Err(_) => flow = ControlFlow::Break(()),
                Ok(None) => break,
                Ok(Some(count)) => {
                    self.forwarder.push(&buffer[..count]);
                    left -= count;
                }
            }
        }
        self.store()?;
        if self.forwarder.messages() > 0 {
            self.permit.mark_active();
        }
        if !self.forwarder.is_inside_message() {
            self.since = None;
        } else if self.since.is_none() || self.forwarder.messages() > before {
            self.since = Some(self.elapsed());
        }
        if self.permit.set_held(self.forwarder.held_bytes()) {
            return Err(SessionError::HoldsTooMuch);
        }
        Ok(flow)
    }

    /// Processes buffered messages; stores full batches.
    fn advance(&mut self) -> Result<(), SessionError> {
        let clock = &self.port.shared.settings.clock;
        loop {
            match self.forwarder.advance(clock.now_ns(), clock.elapsed_ns()) {
                Ok(true) => self.store()?,
                Ok(false) => return Ok(()),
                Err(error) => {
                    // Data before the error is valid and is stored.
                    self.forwarder.flush_silent(true, clock.elapsed_ns());
                    self.store()?;
                    return Err(error.into());
                }
            }
        }
    }

    /// Stores the events read so far.
    fn store(&mut self) -> Result<(), SessionError> {
        for (number, batch) in self.forwarder.take_numbered() {
            self.store_numbered(number, batch)?;
        }
        let (batches, ids) = self.forwarder.take_batches();
        if let Some(reason) = self.forwarder.take_refused() {
            self.port.store.warn(&reason);
        }
        let mut receipts = Vec::new();
        for mut batch in batches {
            receipts.extend(self.append(&mut batch)?);
        }
        if !receipts.is_empty() || !ids.is_empty() {
            self.pending_acks.push_back((receipts, ids));
        }
        Ok(())
    }

    /// Stores a numbered batch unless it is already stored. After a transient failure, the forwarder sends the batch
    /// again; events that the store refuses for good are dropped.
    fn store_numbered(&mut self, number: u64, batch: EventBatch) -> Result<(), SessionError> {
        let shared = &self.port.shared;
        let Some(numbers) = &mut self.numbers else { return Err(SessionError::Unnumbered) };
        if number <= numbers.last {
            shared.limits.repeated.fetch_add(1, Ordering::Relaxed);
            self.pending_acks.push_back((Vec::new(), vec![number]));
            return Ok(());
        }
        let (port, has_token) = (self.port, self.forwarder.has_token());
        let (batch, refused) = with_open_index(batch, |index| check_index(port, index, has_token).is_ok());
        shared.limits.refused_events.fetch_add(refused, Ordering::Relaxed);
        if batch.is_empty() {
            self.pending_acks.push_back((Vec::new(), vec![number]));
            return Ok(());
        }
        let position = FilePosition {
            identity: Arc::clone(&numbers.identity),
            offset: number,
            tail_hash: 0,
            milestones: Vec::new(),
            path: format!("forwarder {}", String::from_utf8_lossy(&numbers.identity.head)),
        };
        // After a refusal, the events of each index are stored on their own, so that only those that cannot be stored
        // are dropped. They are stored without the position, which would otherwise become durable before all events
        // are.
        let copy = (!batch.has_single_index()).then(|| batch.clone());
        let events = batch.len() as u64;
        let receipts = match self.port.store.append_at(batch, position) {
            Ok(receipt) => vec![receipt],
            Err(AppendError::Refused(reason) | AppendError::IndexRefused(reason)) => match copy {
                Some(copy) => self.append_by_index(copy)?,
                None => {
                    self.drop_refused(events, &reason);
                    Vec::new()
                }
            },
            Err(error) => return Err(SessionError::Store(error.to_string())),
        };
        if let Some(numbers) = &mut self.numbers {
            numbers.last = number;
        }
        self.pending_acks.push_back((receipts, vec![number]));
        Ok(())
    }

    /// Stores the events of each index of a batch as a batch of its own; drops those that are refused.
    fn append_by_index(&self, batch: EventBatch) -> Result<Vec<Box<dyn Receipt>>, SessionError> {
        let mut receipts = Vec::new();
        for mut part in batch.split_by_index() {
            receipts.extend(self.append(&mut part)?);
        }
        Ok(receipts)
    }

    /// Counts and reports events that the store will never accept. The forwarder gets its acknowledgment all the same,
    /// because otherwise it would resend these events without end and never send the events after them.
    fn drop_refused(&self, events: u64, reason: &SinkError) {
        self.port.shared.limits.refused_events.fetch_add(events, Ordering::Relaxed);
        self.port.store.warn(&format!("{events} events of a forwarder are dropped: {reason}"));
    }

    /// Stores a batch; waits while the store is busy, unless the server stops.
    fn append(&self, batch: &mut EventBatch) -> Result<Option<Box<dyn Receipt>>, SessionError> {
        let (shared, store) = (&self.port.shared, &self.port.store);
        let index = batch.metas.first().map(|meta| Arc::clone(&meta.index)).unwrap_or_default();
        if check_index(self.port, &index, self.forwarder.has_token()).is_err() {
            // Events for a missing or forbidden index are dropped, as in Splunk.
            shared.limits.refused_events.fetch_add(batch.len() as u64, Ordering::Relaxed);
            return Ok(None);
        }
        let events = batch.len() as u64;
        loop {
            match hand_over(&**store, batch) {
                Ok(receipt) => return Ok(Some(receipt)),
                Err(AppendError::Busy(_)) if !*shared.stopping.borrow() => std::thread::park_timeout(BUSY_RETRY_DELAY),
                Err(AppendError::Refused(reason) | AppendError::IndexRefused(reason)) => {
                    self.drop_refused(events, &reason);
                    return Ok(None);
                }
                Err(error) => return Err(SessionError::Store(error.to_string())),
            }
        }
    }

    /// Whether the forwarder sends again what is not acknowledged.
    fn sends_again(&self) -> bool {
        self.numbers.is_some() || self.forwarder.wants_acks()
    }

    /// Ids of appends that are on disk; if `all` is set, waits for all appends. Also returns the first failure, at
    /// which the ids end: a forwarder sends batches again from there.
    fn take_acknowledged(&mut self, all: bool) -> (Vec<u64>, Result<(), SessionError>) {
        let sends_again = self.sends_again();
        let (mut acknowledged, mut outcome) = (Vec::new(), Ok(()));
        while let Some((receipts, ids)) = self.pending_acks.pop_front() {
            if !all && !receipts.iter().all(|receipt| receipt.is_done()) {
                self.pending_acks.push_front((receipts, ids));
                break;
            }
            let stored = if sends_again {
                receipts.into_iter().try_for_each(|receipt| receipt.wait())
            } else {
                self.keep_refused(receipts)
            };
            match stored {
                Ok(()) => acknowledged.extend(ids),
                Err(error) => {
                    outcome = outcome.and(Err(SessionError::Store(error.to_string())));
                    if sends_again {
                        self.pending_acks.clear();
                    }
                }
            }
        }
        (acknowledged, outcome)
    }

    /// Waits for appends and keeps the events that the store returns; fails if others are lost.
    fn keep_refused(&mut self, receipts: Vec<Box<dyn Receipt>>) -> Result<(), AppendError> {
        let mut outcome = Ok(());
        for receipt in receipts {
            let kept = self.refused.len();
            let stored = receipt.wait_for_all(&mut self.refused);
            if self.refused.len() == kept {
                outcome = outcome.and(stored);
            }
        }
        outcome
    }
}

/// Fails with the reason if a forwarder may not write to an index. Without a token a forwarder is not authenticated, so
/// it may write to internal indexes only if the settings of the port allow all internal indexes or name this one.
fn check_index(port: &Port, index: &str, has_token: bool) -> Result<(), Fault> {
    port.store.check_index(index)?;
    if !index.starts_with('_') || has_token || port.input.accepts_internal || port.input.index == index {
        return Ok(());
    }
    let reason = format!(
        "[{}]: forwarders may not write into {index}: their events for it are dropped; set acceptInternalIndexes = true, or give them a token, to keep them",
        port.input.stanza
    );
    port.store.warn(&reason);
    Err(Fault::denied(reason))
}

/// Keeps the events whose index accepts events; also returns the number of dropped events.
fn with_open_index(batch: EventBatch, takes: impl Fn(&str) -> bool) -> (EventBatch, u64) {
    let with_open_index: Vec<bool> = batch.metas.iter().map(|meta| takes(&meta.index)).collect();
    if with_open_index.iter().all(|is_housed| *is_housed) {
        return (batch, 0);
    }
    let mut kept = EventBatch { index_time: batch.index_time, ..EventBatch::default() };
    let mut fields = batch.fields.iter().peekable();
    for row in 0..batch.len() {
        let at = batch.meta[row] as usize;
        if with_open_index[at] {
            let meta = kept.intern(&batch.metas[at]);
            kept.push(batch.raw(row), batch.time[row], meta);
        }
        while let Some(field) = fields.next_if(|field| field.row as usize <= row) {
            if with_open_index[at] {
                kept.fields.push(u32_of(kept.len()) - 1, field.name, field.value);
            }
        }
    }
    let refused = (batch.len() - kept.len()) as u64;
    (kept, refused)
}

/// Resolves when another connection of the same forwarder arrives.
async fn wait_replaced(numbers: &mut Option<Numbers>) {
    match numbers {
        Some(numbers) => numbers.sender_entry.wait_replaced().await,
        None => std::future::pending().await,
    }
}

async fn answer(connection: &mut dyn Connection, bytes: &[u8]) -> Result<(), SessionError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let written = tokio::time::timeout(WRITE_TIMEOUT, write(connection, bytes)).await;
    written.map_err(|_| SessionError::Deaf)?.map_err(|_| SessionError::Deaf)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_event::{EventBatch, Metadata};
    use quarry_inputs::s2s::batch::BatchPacker;
    use quarry_inputs::s2s::sender::{Sender, SenderSettings, SentForm};
    use quarry_inputs::{EventStore, Receipt};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::tests::{Nowhere, Refused, Stored, port_of};
    use super::*;

    fn session_of(port: &Port, numbers: Option<Numbers>) -> Session<'_> {
        let (index, host, source, sourcetype) = Default::default();
        let (props, typing) = (Arc::clone(&port.shared.settings.props), Arc::clone(&port.typing));
        let defaults =
            ForwarderDefaults { index, host, source, sourcetype, tokens: None, offers_packets: true, props, typing };
        let forwarder = Forwarder::new(Arc::new(defaults));
        let permit = port.shared.limits.acquire().unwrap();
        let (pending_acks, refused) = (VecDeque::new(), Vec::new());
        Session { port, forwarder, pending_acks, refused, permit, numbers, since: Some(0) }
    }

    /// A session of a forwarder that numbers its batches.
    async fn numbered_session(port: &Port) -> Session<'_> {
        let sender_entry = port.shared.senders.acquire("f").await.unwrap();
        let identity = Arc::new(FileIdentity { scope: SENDER_SCOPE.to_owned(), head: b"f".to_vec(), variant: 0 });
        session_of(port, Some(Numbers { identity, sender_entry, last: 0 }))
    }

    /// Runs a session in which a forwarder connects, sends `text` after the time `after`, and disconnects.
    async fn session(text: &[u8], after: Duration) -> Result<(), SessionError> {
        let (port, clock, _open) = port_of(Arc::new(Nowhere));
        let session = session_of(&port, None);
        let (mut sender, mut connection) = tokio::io::duplex(1 << 10);
        clock.advance_ns(i64::try_from(after.as_nanos()).unwrap());
        sender.write_all(text).await.unwrap();
        drop(sender);
        session.run(&mut connection).await
    }

    /// A store that refuses the index `bad` for good, and fails for the index `down`.
    #[derive(Default)]
    struct Picky(std::sync::Mutex<Vec<(String, usize)>>);

    impl EventStore for Picky {
        fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
            let has = |index: &str| batch.metas.iter().any(|meta| &*meta.index == index);
            if has("bad") {
                return Err(AppendError::IndexRefused("one index too many".into()));
            }
            if has("down") {
                return Err(AppendError::Failed("the disk".into()));
            }
            let index = batch.metas[0].index.to_string();
            self.0.lock().unwrap().push((index, batch.len()));
            Ok(Box::new(Stored))
        }

        fn check_index(&self, _: &str) -> Result<(), Fault> {
            Ok(())
        }
    }

    fn batch_for(indexes: &[&str]) -> EventBatch {
        let mut batch = EventBatch::default();
        for (row, index) in indexes.iter().copied().enumerate() {
            let meta = Metadata { index: index.into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() };
            let meta = batch.intern(&meta);
            batch.push(row.to_string().as_bytes(), row as i64, meta);
        }
        batch
    }

    fn acknowledged(session: &mut Session<'_>) -> Vec<u64> {
        let (ids, stored) = session.take_acknowledged(false);
        stored.unwrap();
        ids
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn stored_events_are_acknowledged_whatever_ends_the_session() {
        let (port, _clock, _open) = port_of(Arc::new(Picky::default()));
        let session = session_of(&port, None);
        let (mut here, mut connection) = tokio::io::duplex(1 << 16);
        let exchange = async {
            let mut sender = Sender::new(SenderSettings {
                // Without a name, the forwarder sends packets.
                sender: String::new(),
                host: "h".to_owned(),
                use_ack: true,
                is_cooked: true,
                token: None,
            });
            here.write_all(&sender.hello()).await.unwrap();
            let (mut buffer, mut bytes) = ([0; 1 << 10], Vec::new());
            while sender.form().is_none() {
                let count = here.read(&mut buffer).await.unwrap();
                sender.take(&buffer[..count], &mut bytes).unwrap();
            }
            assert_eq!(sender.form(), Some(SentForm::Packets));
            let batch = batch_for(&["a", "a"]);
            let mut packed = Vec::new();
            assert!(BatchPacker::default().pack(&batch, 0..2, &mut packed));
            sender.write(1, &packed, &mut bytes).unwrap();
            // No packet begins with this byte.
            bytes.push(1);
            here.write_all(&bytes).await.unwrap();
            while sender.waiting() > 0 {
                let count = here.read(&mut buffer).await.unwrap();
                assert!(count > 0, "the session ends without an acknowledgment");
                sender.take(&buffer[..count], &mut Vec::new()).unwrap();
            }
            assert_eq!(sender.acknowledged(), Some(1));
        };
        let session = async move {
            let ended = session.run(&mut connection).await;
            drop(connection);
            ended
        };
        let (ended, ()) = tokio::join!(session, exchange);
        assert!(matches!(ended, Err(SessionError::Protocol(_))));
    }

    /// A receipt whose append failed.
    struct Unstored;

    impl Receipt for Unstored {
        fn is_done(&self) -> bool {
            true
        }

        fn wait(self: Box<Self>) -> Result<(), AppendError> {
            Err(AppendError::Failed("the disk".into()))
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failed_append_does_not_take_back_earlier_acknowledgments() {
        let (port, _clock, _open) = port_of(Arc::new(Nowhere));
        let mut session = numbered_session(&port).await;
        session.pending_acks.push_back((vec![Box::new(Stored)], vec![1]));
        session.pending_acks.push_back((vec![Box::new(Stored), Box::new(Unstored)], vec![2]));
        session.pending_acks.push_back((vec![Box::new(Stored)], vec![3]));
        let (ids, stored) = session.take_acknowledged(false);
        assert_eq!((ids, stored.is_err()), (vec![1], true));
        assert_eq!(session.take_acknowledged(true).0, [0; 0], "events after a gap are sent again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn batches_refused_for_good_are_acknowledged_and_counted_as_lost() {
        let store = Arc::new(Picky::default());
        let (port, _clock, _open) = port_of(store.clone());
        let mut session = numbered_session(&port).await;
        let lost = || port.shared.limits.refused_events.load(Ordering::Relaxed);
        session.store_numbered(1, batch_for(&["bad", "bad"])).unwrap();
        assert_eq!((acknowledged(&mut session), lost()), (vec![1], 2));
        session.store_numbered(2, batch_for(&["a", "bad", "b", "a"])).unwrap();
        assert_eq!((acknowledged(&mut session), lost()), (vec![2], 3));
        session.store_numbered(3, batch_for(&["a"])).unwrap();
        assert_eq!(acknowledged(&mut session), [3]);
        let stored = [("a", 2), ("b", 1), ("a", 1)].map(|(index, events)| (index.to_owned(), events));
        assert_eq!(*store.0.lock().unwrap(), stored);
        // A transient failure ends the session, so that the forwarder sends the batch again.
        assert!(matches!(session.store_numbered(4, batch_for(&["down"])), Err(SessionError::Store(_))));
        assert_eq!((acknowledged(&mut session), lost()), (vec![], 3));
        assert_eq!(session.numbers.as_ref().map(|numbers| numbers.last), Some(3));
    }

    fn refused(index: &str) -> Box<dyn Receipt> {
        Box::new(Refused(batch_for(&[index])))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn refused_batches_are_appended_again_whatever_ends_the_session() {
        let store = Arc::new(Picky::default());
        let (port, _clock, _open) = port_of(store.clone());
        let mut session = session_of(&port, None);
        session.pending_acks.push_back((vec![refused("a"), Box::new(Unstored), refused("b")], Vec::new()));
        session.pending_acks.push_back((vec![refused("c")], Vec::new()));
        let (sender, mut connection) = tokio::io::duplex(1 << 10);
        drop(sender);
        let ended = session.run(&mut connection).await;
        assert!(matches!(ended, Err(SessionError::Store(_))), "the events of one append are lost");
        assert_eq!(*store.0.lock().unwrap(), ["a", "b", "c"].map(|index| (index.to_owned(), 1)));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn refused_batches_that_the_forwarder_sends_again_are_not_kept() {
        let store = Arc::new(Picky::default());
        let (port, _clock, _open) = port_of(store.clone());
        let mut session = numbered_session(&port).await;
        session.pending_acks.push_back((vec![refused("a")], vec![7]));
        let (_sender, mut connection) = tokio::io::duplex(1 << 10);
        assert!(matches!(session.run(&mut connection).await, Err(SessionError::Store(_))));
        assert!(store.0.lock().unwrap().is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn senders_of_incomplete_messages_are_disconnected() {
        let late = INCOMPLETE_TIMEOUT + Duration::from_secs(1);
        let mut greeting = b"--splunk-cooked-mode-".to_vec();
        assert!(session(&greeting, Duration::from_secs(60)).await.is_ok());
        assert!(matches!(session(&greeting, late).await, Err(SessionError::Unfinished(120))));
        greeting.extend(b"v2--");
        greeting.resize(400, 0);
        assert!(session(&greeting, late).await.is_ok(), "the frame is complete, and no other has begun");
        greeting.extend([0, 0]);
        assert!(session(&greeting, late).await.is_ok(), "a frame has begun just now");
    }

    #[test]
    fn events_for_closed_indexes_are_dropped_and_others_keep_their_fields() {
        let mut batch = EventBatch::default();
        for (row, index) in ["a", "_x", "b", "a"].into_iter().enumerate() {
            let meta = Metadata { index: index.into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() };
            let meta = batch.intern(&meta);
            batch.push(row.to_string().as_bytes(), row as i64, meta);
            batch.fields.push(row as u32, "n", &row.to_string());
        }
        assert_eq!(with_open_index(batch.clone(), |_| true), (batch.clone(), 0));
        let (kept, refused) = with_open_index(batch, |index| !index.starts_with('_'));
        let texts: Vec<&[u8]> = (0..kept.len()).map(|row| kept.raw(row)).collect();
        let fields: Vec<(u32, &str)> = kept.fields.iter().map(|field| (field.row, field.value)).collect();
        assert_eq!((texts, refused), (vec![&b"0"[..], b"2", b"3"], 1));
        assert_eq!(fields, [(0, "0"), (1, "2"), (2, "3")]);
    }
}
