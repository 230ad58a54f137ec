//! The connection of one group of indexers. Records are sent in queue order; records that are unacknowledged when a
//! connection ends are sent to the next server, again in order.
//!
//! The link switches servers only when all records in flight are acknowledged, so that no event is split and no event
//! overtakes another.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quarry_conf::{OutputGroup, OutputServer};
use quarry_inputs::s2s::S2sError;
use quarry_inputs::s2s::sender::{Sender, SenderSettings, SentForm};
use quarry_listen::{Connection, wait_stopped};
use quarry_stdx::{Fault, SharedClock, log};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::balance::{Balance, BalanceSettings};
use crate::error::ForwardError;
use crate::spool::{Spool, SpoolReader};
use crate::tls;

/// Maximum numbers of records and of bytes in flight.
const WINDOW_RECORDS: usize = 256;
const WINDOW_BYTES: usize = 16 << 20;
/// Small records are collected until they have this many bytes, and then written together.
const WRITE_BYTES: usize = 256 << 10;
/// Size of the write buffer kept for reuse.
const REUSED_BUFFER_BYTES: usize = 4 << 20;
/// Size of the buffer for reading answers.
const READ_BYTES: usize = 4 << 10;
/// Interval at which timeouts are checked.
const TIMEOUT_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum wait for the first answer of a server, in seconds.
const ANSWER_TIMEOUT_S: u64 = 20;
/// Idle time after which a heartbeat byte is sent.
const HEARTBEAT_NS: i64 = 30_000_000_000;
const NANOS: i64 = 1_000_000_000;

/// A group of indexers with everything that its connections need.
pub struct Link {
    /// Settings of the group in outputs.conf.
    pub group: OutputGroup,
    /// Number of the group.
    pub number: usize,
    /// The queue.
    pub spool: Arc<Spool>,
    /// The clock of the node.
    pub clock: SharedClock,
    /// Name of this machine.
    pub host: String,
    /// Folder for certificates.
    pub data_dir: PathBuf,
    /// Set when the forwarder stops.
    pub stopping: watch::Receiver<bool>,
    /// Index of the first server to try.
    pub first: usize,
}

/// Reason why a connection failed.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("{0}")]
    Socket(#[from] std::io::Error),
    #[error("it could not be reached within {0} seconds")]
    Unreached(u64),
    #[error("TLS: {0}")]
    Tls(Fault),
    #[error("it did not answer the handshake in {0} seconds; is it a splunktcp port?")]
    Unanswered(u64),
    #[error("it sent no acknowledgment in {0} seconds")]
    Silent(u64),
    #[error("it read nothing in {0} seconds")]
    Stuck(u64),
    #[error("it ended the connection")]
    Ended,
    #[error("{0}")]
    Protocol(#[from] S2sError),
    #[error("{0}")]
    Queue(#[from] ForwardError),
}

/// Whether the last log entry about a server said that it was reached, so that only a change is logged.
#[derive(Default)]
struct Reachability {
    is_reached: Option<bool>,
}

/// Reason for ending a connection without an error.
enum ConnectionEnd {
    /// Switch to another server.
    Next,
    /// The forwarder stops.
    Stop,
}

/// Waits for writing to a server, at most for `seconds`.
async fn within<T>(seconds: u64, work: impl Future<Output = std::io::Result<T>>) -> Result<T, LinkError> {
    let done = tokio::time::timeout(Duration::from_secs(seconds), work).await;
    Ok(done.map_err(|_| LinkError::Stuck(seconds))??)
}

impl Link {
    /// Sends until the forwarder stops.
    pub async fn run(mut self) {
        let settings = BalanceSettings { seconds: self.group.balance_seconds, bytes: self.group.balance_bytes };
        let mut balance = Balance::new(settings, self.group.servers.len(), self.first);
        let mut reachability: Vec<Reachability> = self.group.servers.iter().map(|_| Reachability::default()).collect();
        let mut reader = self.spool.reader(self.number);
        loop {
            let now = self.clock.elapsed_ns();
            let server = match balance.choose(now) {
                Ok(server) => server,
                Err(until) => {
                    let wait =
                        Duration::from_nanos(until.saturating_sub(now).unsigned_abs()).max(TIMEOUT_CHECK_INTERVAL / 10);
                    if tokio::time::timeout(wait, wait_stopped(&mut self.stopping)).await.is_ok() {
                        return;
                    }
                    continue;
                }
            };
            let mut stopping = self.stopping.clone();
            let ended = tokio::select! {
                () = wait_stopped(&mut stopping) => return,
                ended = self.connection(server, &mut balance, &mut reader, &mut reachability[server]) => ended,
            };
            match ended {
                Ok(ConnectionEnd::Next) => {}
                Ok(ConnectionEnd::Stop) => return,
                Err(error) => {
                    balance.record_failure(server, self.clock.elapsed_ns());
                    if reachability[server].is_reached != Some(false) {
                        reachability[server].is_reached = Some(false);
                        let (name, address) = (&self.group.name, &self.group.servers[server].address);
                        log::warning(format!(
                            "[tcpout:{name}] {address}: {error}; the server will be tried again in its turn"
                        ));
                    }
                }
            }
        }
    }

    async fn connection(
        &self,
        server: usize,
        balance: &mut Balance,
        reader: &mut SpoolReader,
        reachability: &mut Reachability,
    ) -> Result<ConnectionEnd, LinkError> {
        let place = &self.group.servers[server];
        let stream = self.connect(place).await?;
        let (mut input, mut output) = tokio::io::split(stream);
        let sender = self.perform_handshake(place.token.clone(), &mut input, &mut output).await?;
        balance.record_connected(server, self.clock.elapsed_ns());
        if reachability.is_reached != Some(true) {
            reachability.is_reached = Some(true);
            let form = match sender.form() {
                Some(SentForm::Batches) => "whole batches",
                Some(SentForm::Packets) => "packets",
                Some(SentForm::Frames) => "frames",
                _ => "bare lines",
            };
            if self.group.use_ack && !sender.awaits_acks() {
                let text = "useACK = true: this server offers no acknowledgments; events sent to it count as delivered";
                log::warning(format!("[tcpout:{}] {}: {text}", self.group.name, place.address));
            }
            log::info(format!("[tcpout:{}] sends {form} to {}", self.group.name, place.address));
        }
        reader.rewind();
        let now = self.clock.elapsed_ns();
        let flight = ActiveConnection {
            link: self,
            server,
            balance,
            reader,
            sender,
            pending: Vec::new(),
            written: 0,
            window: VecDeque::new(),
            window_bytes: 0,
            progress: now,
            wrote: now,
            stuck: now,
            is_leaving: false,
        };
        flight.run(input, output).await
    }

    async fn connect(&self, place: &OutputServer) -> Result<Box<dyn Connection>, LinkError> {
        let longest = self.group.connect_seconds;
        let connected = tokio::time::timeout(Duration::from_secs(longest), async {
            let stream = TcpStream::connect(&place.address).await?;
            stream.set_nodelay(true)?;
            let Some(settings) = &place.tls else { return Ok::<Box<dyn Connection>, LinkError>(Box::new(stream)) };
            let (connector, name) = tls::connector(&self.data_dir, &place.address, settings).map_err(LinkError::Tls)?;
            let stream = connector
                .connect(name, stream)
                .await
                .map_err(|error| LinkError::Tls(Fault::unavailable(error.to_string())))?;
            Ok(Box::new(stream))
        });
        connected.await.map_err(|_| LinkError::Unreached(longest))?
    }

    async fn perform_handshake(
        &self,
        token: Option<String>,
        input: &mut ReadHalf<Box<dyn Connection>>,
        output: &mut WriteHalf<Box<dyn Connection>>,
    ) -> Result<Sender, LinkError> {
        let mut sender = Sender::new(SenderSettings {
            sender: format!("{}/{}", self.spool.name(), self.sender_safe_name()),
            host: self.host.clone(),
            use_ack: self.group.use_ack,
            is_cooked: self.group.is_cooked,
            token,
        });
        within(self.group.write_seconds, async {
            output.write_all(&sender.hello()).await?;
            output.flush().await
        })
        .await?;
        let longest = self.group.read_seconds.min(ANSWER_TIMEOUT_S);
        let answered = tokio::time::timeout(Duration::from_secs(longest), async {
            let mut buffer = [0; READ_BYTES];
            let mut reply = Vec::new();
            while sender.form().is_none() {
                let count = input.read(&mut buffer).await?;
                if count == 0 {
                    return Err(LinkError::Ended);
                }
                sender.take(&buffer[..count], &mut reply)?;
            }
            output.write_all(&reply).await?;
            output.flush().await?;
            Ok(())
        });
        answered.await.map_err(|_| LinkError::Unanswered(longest))??;
        Ok(sender)
    }

    /// The group's name, made safe for use in a sender's name.
    fn sender_safe_name(&self) -> String {
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let plain: String = self.group.name.chars().filter(is_plain).take(SENDER_NAME_MAX).collect();
        // Two names may be equal once they are shortened, so the hash of the full name is appended.
        format!("{plain}-{:016x}", fnv_hash_of(&self.group.name))
    }
}

/// Maximum length in characters of a group's name in a sender's name.
const SENDER_NAME_MAX: usize = 64;

/// FNV-1a hash of a name. This hash is enough: names are few and not hostile.
fn fnv_hash_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

struct ActiveConnection<'a> {
    link: &'a Link,
    server: usize,
    balance: &'a mut Balance,
    reader: &'a mut SpoolReader,
    sender: Sender,
    /// Bytes to write, and how many were written.
    pending: Vec<u8>,
    written: usize,
    /// Numbers and sizes of records in flight.
    window: VecDeque<(u64, usize)>,
    window_bytes: usize,
    /// Time of the last acknowledgement, or the last time at which nothing was in flight.
    progress: i64,
    /// Time of the last write, and the time since which pending bytes have been waiting.
    wrote: i64,
    stuck: i64,
    is_leaving: bool,
}

impl ActiveConnection<'_> {
    async fn run(
        mut self,
        mut input: ReadHalf<Box<dyn Connection>>,
        mut output: WriteHalf<Box<dyn Connection>>,
    ) -> Result<ConnectionEnd, LinkError> {
        let mut durable = self.link.spool.watch_durable();
        let mut stopping = self.link.stopping.clone();
        let mut buffer = [0; READ_BYTES];
        let write_seconds = self.link.group.write_seconds;
        loop {
            durable.mark_unchanged();
            self.fill()?;
            if self.is_leaving && self.pending.is_empty() && self.sender.waiting() == 0 {
                within(write_seconds, output.shutdown()).await?;
                return Ok(ConnectionEnd::Next);
            }
            tokio::select! {
                () = wait_stopped(&mut stopping) => return Ok(ConnectionEnd::Stop),
                wrote = output.write(&self.pending[self.written..]), if !self.pending.is_empty() => {
                    self.record_written(wrote?);
                    if self.pending.is_empty() {
                        within(write_seconds, output.flush()).await?;
                        self.commit_if_idle()?;
                    }
                }
                read = input.read(&mut buffer) => match read? {
                    0 => return Err(LinkError::Ended),
                    count => self.process_answers(&buffer[..count])?,
                },
                _ = durable.changed(), if self.pending.is_empty() => {}
                () = tokio::time::sleep(TIMEOUT_CHECK_INTERVAL) => {}
            }
            self.check_timeouts()?;
        }
    }

    /// Takes from the queue the records that may be sent now.
    fn fill(&mut self) -> Result<(), LinkError> {
        if !self.pending.is_empty() || self.is_leaving {
            return Ok(());
        }
        self.written = 0;
        self.pending.shrink_to(REUSED_BUFFER_BYTES);
        while self.pending.len() < WRITE_BYTES && self.window.len() < WINDOW_RECORDS && self.window_bytes < WINDOW_BYTES
        {
            let taken = match self.reader.next_record() {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(error) => {
                    log::error(format!("[tcpout:{}] cannot read the queue: {error}", self.link.group.name));
                    match error {
                        ForwardError::Lost { .. } => continue,
                        // Tried again after at most `TIMEOUT_CHECK_INTERVAL`.
                        _ => break,
                    }
                }
            };
            let before = self.pending.len();
            let (number, packed) = (taken.number, taken.packed);
            if let Err(error) = self.sender.write(number, packed, &mut self.pending) {
                if self.reader.count_unsent(number) {
                    log::error(format!("record {number} of the queue is skipped: {error}"));
                }
                continue;
            }
            if self.sender.awaits_acks() {
                let bytes = self.pending.len() - before;
                self.window.push_back((number, bytes));
                self.window_bytes += bytes;
            }
            self.balance.record_sent((self.pending.len() - before) as u64);
            if self.balance.should_switch(self.link.clock.elapsed_ns()) {
                self.is_leaving = true;
                break;
            }
        }
        self.stuck = self.link.clock.elapsed_ns();
        if self.pending.is_empty() {
            self.commit_if_idle()?;
        }
        Ok(())
    }

    fn record_written(&mut self, count: usize) {
        self.wrote = self.link.clock.elapsed_ns();
        self.stuck = self.wrote;
        self.written += count;
        if self.written >= self.pending.len() {
            self.pending.clear();
            self.written = 0;
        }
    }

    /// Advances the cursor if nothing is in flight: in that case, every record read from the queue has been delivered,
    /// cannot be sent, or is not for this group.
    fn commit_if_idle(&mut self) -> Result<(), LinkError> {
        if self.sender.waiting() == 0 {
            self.progress = self.link.clock.elapsed_ns();
            self.link.spool.acknowledge(self.link.number, self.reader.last_passed())?;
        }
        Ok(())
    }

    /// Processes answers.
    fn process_answers(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let before = self.sender.acknowledged();
        // After the handshake, answers need no reply.
        self.sender.take(bytes, &mut Vec::new())?;
        let Some(number) = self.sender.acknowledged().filter(|number| Some(*number) != before) else { return Ok(()) };
        self.progress = self.link.clock.elapsed_ns();
        self.balance.record_acknowledged(self.server);
        while self.window.front().is_some_and(|(first, _)| *first <= number) {
            self.window_bytes -= self.window.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        self.link.spool.acknowledge(self.link.number, number)?;
        Ok(())
    }

    /// Fails if the server does not respond, switches servers when it is time, and sends heartbeats.
    fn check_timeouts(&mut self) -> Result<(), LinkError> {
        let now = self.link.clock.elapsed_ns();
        let group = &self.link.group;
        let is_past = |since: i64, seconds: u64| {
            now.saturating_sub(since) > i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(NANOS)
        };
        if self.sender.waiting() > 0 && is_past(self.progress, group.read_seconds) {
            return Err(LinkError::Silent(group.read_seconds));
        }
        if !self.pending.is_empty() && is_past(self.stuck, group.write_seconds) {
            return Err(LinkError::Stuck(group.write_seconds));
        }
        self.is_leaving |= self.balance.should_switch(now);
        let speaks_packets = matches!(self.sender.form(), Some(SentForm::Batches | SentForm::Packets));
        let is_quiet = self.pending.is_empty() && now.saturating_sub(self.wrote) >= HEARTBEAT_NS;
        if speaks_packets && is_quiet && !self.is_leaving {
            self.pending.push(0);
            self.stuck = now;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use quarry_inputs::s2s::batch::BatchPacker;
    use quarry_stdx::ManualClock;
    use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

    use super::*;
    use crate::Record;
    use crate::spool::{GroupOptions, SpoolOptions};

    /// Time after which a test has failed because something waits without limit.
    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    /// A link whose timeouts of writing are over at once, with one record in its queue.
    fn link(folder: &std::path::Path) -> (Link, watch::Sender<bool>) {
        let clock = ManualClock::shared(0);
        let (spool, _) = Spool::open(SpoolOptions {
            folder: folder.to_owned(),
            limit_bytes: 1 << 20,
            free_bytes_min: 0,
            groups: vec![GroupOptions { name: "g".to_owned(), blocks: true }],
            drop_after: None,
            clock: clock.clone(),
            new_name: "name".to_owned(),
        })
        .unwrap();
        let mut batch = quarry_event::EventBatch::default();
        let [index, host, source, sourcetype] = ["i", "h", "s", "t"].map(Arc::from);
        let meta = batch.intern(&quarry_event::Metadata { index, host, source, sourcetype });
        batch.push(b"text", 0, meta);
        let mut packed = Vec::new();
        assert!(BatchPacker::default().pack(&batch, 0..1, &mut packed));
        spool.append(&[Record { groups: 1, packed: &packed, events: 1 }], None).unwrap();
        // The queue is synced once and then stops.
        spool.stop();
        spool.run();
        let group = OutputGroup {
            name: "g".to_owned(),
            servers: Vec::new(),
            use_ack: false,
            is_cooked: true,
            balance_seconds: 30,
            balance_bytes: 0,
            blocks: true,
            connect_seconds: 0,
            read_seconds: 60,
            write_seconds: 0,
        };
        let (stop, stopping) = watch::channel(false);
        let (host, data_dir) = ("h".to_owned(), folder.to_owned());
        (Link { group, number: 0, spool, clock, host, data_dir, stopping, first: 0 }, stop)
    }

    /// A connection that takes all bytes into a buffer of its own, as TLS does, but cannot send them.
    struct NeverSends(DuplexStream);

    impl AsyncRead for NeverSends {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            to: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, to)
        }
    }

    impl AsyncWrite for NeverSends {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn servers_that_read_nothing_are_left_after_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (link, _stop) = link(folder.path());
        let (here, _there) = tokio::io::duplex(1);
        let (mut input, mut output) = tokio::io::split(Box::new(here) as Box<dyn Connection>);
        let greeted = link.perform_handshake(None, &mut input, &mut output);
        let greeted = tokio::time::timeout(TEST_TIMEOUT, greeted).await.unwrap();
        assert!(matches!(greeted, Err(LinkError::Stuck(0))));

        let (here, _there) = tokio::io::duplex(1 << 10);
        let (input, output) = tokio::io::split(Box::new(NeverSends(here)) as Box<dyn Connection>);
        let settings = SenderSettings {
            sender: "s".to_owned(),
            host: "h".to_owned(),
            use_ack: false,
            is_cooked: false,
            token: None,
        };
        let mut balance = Balance::new(BalanceSettings { seconds: 30, bytes: 0 }, 1, 0);
        let mut reader = link.spool.reader(0);
        let connection = ActiveConnection {
            link: &link,
            server: 0,
            balance: &mut balance,
            reader: &mut reader,
            sender: Sender::new(settings),
            pending: Vec::new(),
            written: 0,
            window: VecDeque::new(),
            window_bytes: 0,
            progress: 0,
            wrote: 0,
            stuck: 0,
            is_leaving: false,
        };
        let ended = tokio::time::timeout(TEST_TIMEOUT, connection.run(input, output)).await.unwrap();
        assert!(matches!(ended, Err(LinkError::Stuck(0))));
        assert_eq!(link.spool.figures()[0].cursor, 0, "nothing counts as delivered");
    }
}
