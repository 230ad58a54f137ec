//! Ports for text over TCP.
//!
//! A connection waits for data without holding a thread or a buffer. After a short read, the connection waits a moment
//! for more data, so that a sender of single lines does not cause an append per line.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quarry_conf::SenderHost;
use quarry_event::EventBatch;
use quarry_inputs::AppendError;
use quarry_inputs::network::{Appender, RawStream, Template};
use quarry_pipeline::PipelineError;
use quarry_stdx::log;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::limits::{ConnectionPermit, Limits};
use super::read_slots::ReadBuffers;
use super::{Port, PortGroup, wait_stopped};
use crate::sockets::listen_on;
use crate::stream::{Connection, first_bytes, is_full_probe, read_now};
use crate::tls::HANDSHAKE_TIMEOUT;

/// Pause after a short read.
pub(super) const GATHER_PAUSE: Duration = Duration::from_millis(5);
/// Pause before an append to a busy store is retried.
pub(super) const BUSY_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Interval at which the end of a connection waits for the results of its appends.
const SETTLE_INTERVAL: Duration = Duration::from_millis(5);
/// Pause after a failed accept, usually a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Bytes of text after which a batch is stored.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// Number of events after which a batch is stored.
pub(super) const BATCH_EVENTS: usize = 65_536;
/// Bytes that a connection may read per turn (`read_slots`) even if `queueSize` is smaller.
const TURN_BYTES_MIN: usize = 64 << 10;

/// Listens and accepts connections until the socket closes.
pub(super) fn listen(
    group: &PortGroup,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
) -> std::io::Result<SocketAddr> {
    let listener = listen_on(address)?;
    let bound = listener.local_addr()?;
    let ports: Vec<_> = group.0.iter().map(|port| (Arc::clone(port), Arc::new(port.template(bound)))).collect();
    let group = group.clone();
    tokio::spawn(async move {
        let serve = |stanza: usize, stream, peer| {
            let (port, template) = ports[stanza].clone();
            drop(tokio::spawn(serve_connection(port, template, acceptor.clone(), stream, peer)));
        };
        accept_connections(&listener, &group, serve).await;
        // The listener is dropped before `group`: when its ports are dropped, another socket may be opened at this
        // address.
        drop(listener);
    });
    Ok(bound)
}

/// Accepts connections until the ports of the group stop; `serve` also gets the index of the sender's stanza.
pub(super) async fn accept_connections(
    listener: &TcpListener,
    group: &PortGroup,
    serve: impl Fn(usize, TcpStream, SocketAddr),
) {
    let Some(mut stopping) = group.0.first().map(|port| port.shared.stopping.clone()) else { return };
    loop {
        let accepted = tokio::select! {
            () = wait_stopped(&mut stopping) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(stanza) = group.find_stanza(peer.ip()) {
                    serve(stanza, stream, peer);
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// Serves one connection to its end.
async fn serve_connection(
    port: Arc<Port>,
    template: Arc<Template>,
    acceptor: Option<TlsAcceptor>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let _alive = port.shared.alive.clone();
    let limits = &port.shared.limits;
    let Some(place) = limits.acquire() else { return };
    let host = host_of(&port, peer).await;
    let Some(mut connection) = accept_tls((limits, &place), stream, acceptor, peer).await else { return };
    let stream = RawStream::new(template, host);
    let appender = Appender::new(Arc::clone(&port.store));
    Session { port: &port, stream, appender, permit: place, peer }.run(&mut *connection).await;
}

/// The `host` of data from `peer`.
pub(super) async fn host_of(port: &Port, peer: SocketAddr) -> String {
    match port.input.sender_host {
        SenderHost::Address => peer.ip().to_canonical().to_string(),
        SenderHost::Name => port.shared.names.resolve(peer.ip()).await,
        SenderHost::Fixed => port.input.host.as_ref().unwrap_or(&port.shared.settings.host).clone(),
    }
}

/// Performs the TLS handshake if the port uses TLS, and returns the connection.
pub(super) async fn accept_tls(
    (limits, place): (&Limits, &ConnectionPermit<'_>),
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    peer: SocketAddr,
) -> Option<Box<dyn Connection>> {
    let Some(acceptor) = acceptor else { return Some(Box::new(stream)) };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => shaken,
        () = place.close_requested() => return None,
    };
    match shaken {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            limits.log_fault(&format!("{peer}: no TLS connection: {error}"));
            None
        }
        Err(_) => {
            let seconds = HANDSHAKE_TIMEOUT.as_secs();
            limits.log_fault(&format!("{peer}: no TLS connection: its handshake took more than {seconds} seconds"));
            None
        }
    }
}

/// Reason for completing the last event of a connection.
#[derive(Clone, Copy)]
enum SessionState {
    Silent,
    Ended,
}

struct Session<'a> {
    port: &'a Port,
    stream: RawStream,
    appender: Appender,
    permit: ConnectionPermit<'a>,
    peer: SocketAddr,
}

impl Session<'_> {
    async fn run(mut self, connection: &mut dyn Connection) {
        let mut stopping = self.port.shared.stopping.clone();
        let silence = Duration::from_secs(self.port.input.done_seconds.max(1));
        loop {
            let read = tokio::select! {
                // Received data takes precedence over a request to close.
                biased;
                () = wait_stopped(&mut stopping) => break,
                read = first_bytes(connection) => read,
                () = self.permit.close_requested() => break,
                () = tokio::time::sleep(silence), if !self.stream.is_idle() || !self.appender.is_settled() => {
                    self.end_events(SessionState::Silent).await;
                    // Events that the store refuses later must not wait for the next data.
                    self.settle().await;
                    continue;
                }
            };
            let Ok(first) = read else { break };
            if first.is_empty() {
                break;
            }
            self.permit.mark_active();
            if !is_full_probe(&first) {
                tokio::time::sleep(GATHER_PAUSE).await;
            }
            let mut turn = self.port.shared.turns.acquire().await;
            if turn.run(|buffers| self.read(connection, &first, buffers)).is_none_or(|flow| flow.is_break()) {
                break;
            }
        }
        self.end_events(SessionState::Ended).await;
        self.settle().await;
    }

    /// Completes and stores the last event, and drops the pipeline. At a silence, an incomplete octet-counted message
    /// is kept.
    async fn end_events(&mut self, state: SessionState) {
        let now = self.port.shared.settings.clock.now_ns();
        let mut turn = self.port.shared.turns.acquire().await;
        turn.run(|buffers| {
            let ended = match state {
                SessionState::Silent => self.stream.pause(now, &mut buffers.batch),
                SessionState::Ended => self.stream.finish(now, &mut buffers.batch),
            };
            self.report(ended);
            self.permit.set_held(self.stream.held_bytes());
            self.append(buffers);
        });
    }

    /// Waits until the appends of the connection are stored or lost, so that events that the store refuses later are
    /// kept. The turn is not held meanwhile.
    async fn settle(&mut self) {
        while !self.appender.is_settled() {
            while !self.appender.is_done() {
                tokio::time::sleep(SETTLE_INTERVAL).await;
            }
            let mut turn = self.port.shared.turns.acquire().await;
            turn.run(|buffers| self.append(buffers));
        }
    }

    /// Logs an error of the settings.
    fn report(&self, outcome: Result<(), PipelineError>) {
        if let Err(error) = outcome {
            log::error(format!("[{}]: {error}", self.port.input.stanza));
        }
    }

    /// Reads the data available after `first` and stores it.
    fn read(&mut self, connection: &mut dyn Connection, first: &[u8], buffers: &mut ReadBuffers) -> ControlFlow<()> {
        let now = self.port.shared.settings.clock.now_ns();
        let begun = self.stream.begin(now);
        if begun.is_err() {
            self.report(begun);
            return ControlFlow::Break(());
        }
        self.stream.push(first, &mut buffers.batch);
        let mut left = self.port.input.queue_bytes.max(TURN_BYTES_MIN);
        let mut flow = ControlFlow::Continue(());
        while left > 0 {
            let most = buffers.buffer.len().min(left);
            match read_now(connection, &mut buffers.buffer[..most]) {
                Ok(Some(0)) | Err(_) => flow = ControlFlow::Break(()),
                Ok(None) => {}
                Ok(Some(count)) => {
                    self.stream.push(&buffers.buffer[..count], &mut buffers.batch);
                    left -= count;
                    if buffers.batch.raw.len() >= BATCH_BYTES || buffers.batch.len() >= BATCH_EVENTS {
                        self.append(buffers);
                    }
                    continue;
                }
            }
            break;
        }
        if self.permit.set_held(self.stream.held_bytes()) {
            let ended = self.stream.finish(now, &mut buffers.batch);
            self.report(ended);
            self.permit.set_held(self.stream.held_bytes());
        }
        self.append(buffers);
        flow
    }

    /// Stores the batch; waits while the store is busy.
    fn append(&mut self, buffers: &mut ReadBuffers) {
        append(&mut self.appender, &mut buffers.batch, self.port, &self.peer);
    }
}

/// Stores a batch, after the events that the store has refused meanwhile; waits while the store is busy, unless the
/// server stops.
pub(super) fn append(appender: &mut Appender, batch: &mut EventBatch, port: &Port, from: &dyn std::fmt::Display) {
    while_busy(appender, batch, (port, from), Appender::append);
}

/// Repeats an append, or the wait for appends, while the store is busy, unless the server stops. Events that are lost
/// are counted and logged.
pub(super) fn while_busy(
    appender: &mut Appender,
    batch: &mut EventBatch,
    (port, from): (&Port, &dyn std::fmt::Display),
    mut attempt: impl FnMut(&mut Appender, &mut EventBatch) -> Result<(), AppendError>,
) {
    loop {
        match attempt(appender, batch) {
            Ok(()) => return,
            Err(AppendError::Busy(_)) if !*port.shared.stopping.borrow() => {
                std::thread::park_timeout(BUSY_RETRY_DELAY);
            }
            Err(error) => {
                port.shared.limits.lost.fetch_add(1, Ordering::Relaxed);
                log::error(format!("[{}]: events of {from} are lost: {error}", port.input.stanza));
                *batch = EventBatch::default();
                if matches!(error, AppendError::Busy(_)) {
                    appender.drop_refused();
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_inputs::EventStore;
    use tokio::io::AsyncWriteExt;

    use super::super::tests::{FailsLater, FullLog, port_of};
    use super::*;

    /// Number of lost batches of a connection that sends `text` to a port with this store.
    async fn lost_from(text: &[u8], store: Arc<dyn EventStore>) -> u64 {
        let (port, _clock, _open) = port_of(store);
        let peer = SocketAddr::from(([192, 0, 2, 1], 514));
        let stream = RawStream::new(Arc::new(port.template(peer)), "h".to_owned());
        let appender = Appender::new(Arc::clone(&port.store));
        let permit = port.shared.limits.acquire().unwrap();
        let (mut sender, mut connection) = tokio::io::duplex(1 << 10);
        sender.write_all(text).await.unwrap();
        drop(sender);
        Session { port: &port, stream, appender, permit, peer }.run(&mut connection).await;
        port.shared.limits.lost.load(Ordering::Relaxed)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn events_that_are_lost_after_the_end_of_a_connection_are_counted() {
        assert_eq!(lost_from(b"text", Arc::new(FailsLater)).await, 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn events_that_the_log_refuses_are_stored_before_their_connection_ends() {
        let store = Arc::new(FullLog::with_refusals(2));
        assert_eq!(lost_from(b"one\ntwo\n", store.clone()).await, 0);
        assert_eq!(store.texts().join("\n"), "one\ntwo");
    }
}
