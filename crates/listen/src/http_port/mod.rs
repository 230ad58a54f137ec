//! An HTTP port with bounded connections, so that idle or hostile clients cannot lock out others.
//!
//! HTTP/1 and HTTP/2 are distinguished by the first bytes. A connection that does not send a request head in time is
//! closed. A port may accept both TLS and plain HTTP, which it distinguishes by the first byte, and may require TLS of
//! clients on other machines. At the connection limit, the connection that has been idle longest is closed for a new
//! one; if all are active, the new one is refused. TLS handshakes count as idle. On a port where clients must log in
//! ([`ClientProof`]), the connection of a client that has not done so also counts as idle while the body of its request
//! is incomplete, and it is closed before those of known clients. Bodies must keep arriving, and answers must keep being
//! read. Each request carries its [`Origin`].
//!
//! Not here: handling requests, limiting the size of bodies.

mod answer_notes;
mod idle_connections;
mod limits;
mod lingering_close;
mod proxy_headers;
mod refused_head;
mod request_body;
mod slow_reader;
#[cfg(test)]
mod tests;
mod unbounded_body;
mod unread_body;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::{Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use quarry_auth::{ClientProof, Origin};
use quarry_inputs::hec::ResponseHook;
use quarry_stdx::log;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use answer_notes::{AnswerNotes, NotingSocket};
use idle_connections::{ActiveRequest, AnswerBody};
pub(crate) use idle_connections::{ConnectionState, IdleConnections};
pub use limits::Bounds;
pub(crate) use limits::connections_max;
use lingering_close::Lingering;
use proxy_headers::is_forwarded;
use refused_head::RefusedHead;
use request_body::{RequestBody, Unread};
use slow_reader::PacedWriter;
use unbounded_body::UnboundedBody;
use unread_body::UnreadBody;

/// Maximum concurrent requests of an HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// Flow-control window of an HTTP/2 connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// Interval of HTTP/2 pings on an idle connection, and the timeout of their answer.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of refusals being written at a time.
const REFUSALS_MAX: usize = 64;
/// Timeout of writing a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 5\r\n\
    Content-Length: 50\r\nConnection: close\r\n\r\ntoo many connections are active; please retry soon";
const TLS_REQUIRED: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 81\r\n\
    Connection: close\r\n\r\nthis port speaks TLS with other machines: write https:// in place of http:// here";
/// First byte of a TLS handshake record (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Time to wait until a connection that was requested to close frees its permit.
const PERMIT_WAIT: Duration = Duration::from_millis(100);
/// Pause after a failed accept, usually a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time in which an idle connection must close at shutdown.
const IDLE_STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of log messages about closed and refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Use of TLS on a port.
#[derive(Clone)]
pub enum Security {
    /// TLS is never used.
    Clear,
    /// TLS is always used.
    Tls(TlsAcceptor),
    /// TLS is used by clients that start with it, as remote clients must.
    TlsBeyond(TlsAcceptor),
}

impl Security {
    fn has_handshakes(&self) -> bool {
        !matches!(self, Security::Clear)
    }
}

/// Protocol indicated by the first byte of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetectedProtocol {
    Handshake,
    Clear,
}

/// A listening port.
pub struct HttpPort {
    /// Name in the log.
    pub name: String,
    /// The socket.
    pub listener: TcpListener,
    /// Use of TLS.
    pub security: Security,
    /// The handler of requests.
    pub router: Router,
    /// Limits of its connections.
    pub bounds: Bounds,
}

/// State shared by all connections of a port.
struct Shared {
    router: Router,
    security: Security,
    bounds: Bounds,
    /// Local address.
    address: IpAddr,
    idle: IdleConnections,
    /// Idle connections of clients that have not proven who they are.
    unproven: IdleConnections,
    /// Connections in their handshake.
    shaking: IdleConnections,
    counts: Counts,
}

/// Counts of closed and refused connections since the last log message.
#[derive(Default)]
struct Counts {
    closed: AtomicU64,
    refused: AtomicU64,
    unshaken: AtomicU64,
}

/// Waits for the first byte and leaves it unread.
async fn detect_protocol(stream: &TcpStream) -> std::io::Result<DetectedProtocol> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ if first[0] == HANDSHAKE_RECORD => Ok(DetectedProtocol::Handshake),
        _ => Ok(DetectedProtocol::Clear),
    }
}

/// True if traffic from `peer` to a socket at `here` stays on this machine.
fn is_local_connection(here: IpAddr, peer: IpAddr) -> bool {
    let (here, peer) = (here.to_canonical(), peer.to_canonical());
    here == peer || (here.is_loopback() && peer.is_loopback())
}

/// Answers a plain HTTP client that it must use TLS.
async fn answer_tls_required(mut stream: TcpStream) {
    let reported = async {
        stream.write_all(TLS_REQUIRED).await?;
        Lingering::new(stream, REFUSAL_TIMEOUT).shutdown().await
    };
    // The client may have disconnected.
    drop(tokio::time::timeout(REFUSAL_TIMEOUT, reported).await);
}

/// Permit of a connection, and the handle by which shutdown waits for the connection.
struct ConnectionGuard {
    stopping: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
    _alive: mpsc::Sender<()>,
}

/// Registers a request of a connection, and adds the means to prove who its client is.
fn register_request(connection: &Arc<ConnectionState>, request: &mut hyper::Request<Incoming>) -> Arc<ActiveRequest> {
    let active = Arc::new(ActiveRequest::new(connection, request.body().is_end_stream()));
    let proven = Arc::downgrade(&active);
    request.extensions_mut().insert(ClientProof::new(move || {
        if let Some(request) = proven.upgrade() {
            request.prove();
        }
    }));
    active
}

impl HttpPort {
    /// Serves connections until `stop` resolves, and then answers the running requests, for a limited time.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let HttpPort { name, listener, security, router, bounds } = self;
        let places = Arc::new(Semaphore::new(bounds.connections));
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        let (stopping_sender, stopping) = watch::channel(false);
        let (alive, mut all_gone) = mpsc::channel(1);
        let (idle, unproven, shaking, counts) = Default::default();
        // If the local address is unknown, no client counts as local.
        let address = listener.local_addr().map_or(Origin::UNKNOWN.address, |address| address.ip());
        let shared = Arc::new(Shared { router, security, bounds, address, idle, unproven, shaking, counts });
        let mut tell = tokio::time::interval(LOG_INTERVAL);
        tell.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                _ = tell.tick() => {
                    shared.counts.log_counts(&name);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                shared.close_oldest();
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let Some(place) = shared.acquire_permit(&places).await else {
                shared.refuse(stream, &refusals);
                continue;
            };
            let presence = ConnectionGuard { stopping: stopping.clone(), _place: place, _alive: alive.clone() };
            // The connection is registered here and not when its task first runs, because the next connection may
            // arrive before that.
            let waiter = match shared.security.has_handshakes() {
                true => ConnectionState::new(&shared.shaking),
                false => shared.idle_connection(),
            };
            tokio::spawn(Arc::clone(&shared).serve_connection(presence, waiter, stream, peer));
        }
        shared.counts.log_counts(&name);
        stopping_sender.send_replace(true);
        drop(listener);
        drop(alive);
        // The channel carries no messages; it closes when the last connection ends.
        let _: Option<()> = all_gone.recv().await;
    }
}

impl Counts {
    fn log_counts(&self, name: &str) {
        let counts = [
            (&self.closed, "waiting connections were closed in favour of new ones: the limit was reached"),
            (&self.refused, "connections were refused: the maximum number was active"),
            (&self.unshaken, "connections were closed: their TLS handshake failed, or took too long"),
        ];
        for (count, what) in counts {
            let count = count.swap(0, Ordering::Relaxed);
            if count > 0 {
                log::warning(format!("{name}: {count} {what}"));
            }
        }
    }
}

impl Shared {
    /// The state of a connection that may send requests.
    fn idle_connection(&self) -> ConnectionState {
        match self.bounds.unproven {
            Some(_) => ConnectionState::unproven(&self.unproven, &self.idle),
            None => ConnectionState::new(&self.idle),
        }
    }

    /// Closes the connection that has been idle longest, preferably one of an unproven client or in its handshake.
    fn close_oldest(&self) -> bool {
        // Stalled handshakes and slow heads are closed by age, so that neither displaces a client that has just
        // connected.
        let is_closed = self.unproven.close_oldest_of(&self.shaking) || self.idle.close_oldest();
        self.counts.closed.fetch_add(u64::from(is_closed), Ordering::Relaxed);
        is_closed
    }

    /// A permit for a new connection, closing an idle one if necessary; `None` if all are active.
    async fn acquire_permit(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        if self.security.has_handshakes() && self.shaking.len() >= self.bounds.handshakes && self.shaking.close_oldest()
        {
            self.counts.closed.fetch_add(1, Ordering::Relaxed);
        }
        let has_most = |most| self.unproven.len() + self.shaking.len() >= most;
        if self.bounds.unproven.is_some_and(has_most) && self.unproven.close_oldest_of(&self.shaking) {
            self.counts.closed.fetch_add(1, Ordering::Relaxed);
        }
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Some(place);
        }
        while self.close_oldest() {
            // The closed connection frees its permit shortly, unless it has just received a request.
            let place = tokio::time::timeout(PERMIT_WAIT, Arc::clone(places).acquire_owned()).await;
            if let Ok(Ok(place)) = place {
                return Some(place);
            }
        }
        None
    }

    /// Answers a client that the port has no room, unless too many are being refused. On a port with TLS, the
    /// connection is closed without an answer.
    fn refuse(&self, mut stream: TcpStream, refusals: &Arc<Semaphore>) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        if self.security.has_handshakes() {
            return;
        }
        let Ok(permit) = Arc::clone(refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let reported = async {
                stream.write_all(REFUSAL).await?;
                Lingering::new(stream, REFUSAL_TIMEOUT).shutdown().await
            };
            // The client may have disconnected.
            drop(tokio::time::timeout(REFUSAL_TIMEOUT, reported).await);
            drop(permit);
        });
    }

    /// Serves one connection to its end.
    async fn serve_connection(
        self: Arc<Self>,
        presence: ConnectionGuard,
        waiter: ConnectionState,
        stream: TcpStream,
        peer: SocketAddr,
    ) {
        let mut stopping = presence.stopping.clone();
        let acceptor = match &self.security {
            Security::Clear => return self.serve_plain(presence, waiter, stream, peer).await,
            Security::Tls(acceptor) => acceptor.clone(),
            Security::TlsBeyond(acceptor) => {
                let begun = tokio::select! {
                    biased;
                    // A connection that is to be closed must free its place, even if data has arrived.
                    () = waiter.close_requested() => return,
                    begun = tokio::time::timeout(self.bounds.first_head_wait, detect_protocol(&stream)) => begun,
                    _ = stopping.wait_for(|stopping| *stopping) => return,
                };
                match begun {
                    Ok(Ok(DetectedProtocol::Handshake)) => acceptor.clone(),
                    Ok(Ok(DetectedProtocol::Clear))
                        if stream.local_addr().is_ok_and(|here| is_local_connection(here.ip(), peer.ip())) =>
                    {
                        drop(waiter);
                        return self.serve_plain(presence, self.idle_connection(), stream, peer).await;
                    }
                    Ok(Ok(DetectedProtocol::Clear)) => return answer_tls_required(stream).await,
                    // The client sent nothing or has disconnected.
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
        let stream = NotingSocket::new(stream);
        let notes = stream.notes();
        let shaken = tokio::select! {
            biased;
            () = waiter.close_requested() => return,
            shaken = tokio::time::timeout(self.bounds.handshake_wait, acceptor.accept(stream)) => shaken,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Ok(Ok(stream)) = shaken else {
            self.counts.unshaken.fetch_add(1, Ordering::Relaxed);
            return;
        };
        drop(waiter);
        let waiter = self.idle_connection();
        self.serve_requests(presence, waiter, stream, notes, peer).await;
    }

    async fn serve_plain(
        &self,
        presence: ConnectionGuard,
        waiter: ConnectionState,
        stream: TcpStream,
        peer: SocketAddr,
    ) {
        let stream = NotingSocket::new(stream);
        let notes = stream.notes();
        self.serve_requests(presence, waiter, stream, notes, peer).await;
    }

    /// Answers the requests of a connection.
    async fn serve_requests<Io>(
        &self,
        presence: ConnectionGuard,
        waiter: ConnectionState,
        io: Io,
        notes: AnswerNotes,
        peer: SocketAddr,
    ) where
        Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let waiter = Arc::new(waiter);
        let (router, counted) = (self.router.clone(), Arc::clone(&waiter));
        let (address, Bounds { pace, left_wait, proof_wait, .. }) = (self.address, self.bounds);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let at_work = register_request(&counted, &mut request);
            add_origin(&mut request, peer, address);
            let unread = Unread::default();
            let is_first_version = request.version() <= Version::HTTP_11;
            let left = is_first_version.then(|| UnreadBody::new(unread.clone(), request.headers(), left_wait));
            let body = |body| Body::new(RequestBody::new(body, unread, &at_work, pace, proof_wait));
            let answered = router.clone().call(request.map(body));
            let notes = notes.clone();
            async move {
                let mut answer = finish_body(left, answered.await?).await;
                if let Some(note) = answer.extensions_mut().remove::<ResponseHook>() {
                    notes.add(note);
                }
                Ok::<_, Infallible>(answer.map(|body| AnswerBody { body, _at_work: at_work }))
            }
        });
        let builder = self.builder();
        let mut serving = pin!(builder.serve_connection(TokioIo::new(self.filtered(io)), service));
        let mut first_head = pin!(tokio::time::sleep(self.bounds.first_head_wait));
        let (mut is_first, mut is_stopping, mut is_last_wait) = (true, false, false);
        let mut stopping = presence.stopping.clone();
        let mut stop_wait = pin!(tokio::time::sleep(Duration::MAX));
        loop {
            tokio::select! {
                biased;
                // The result does not matter: the client has the answer or has disconnected.
                _ = serving.as_mut() => return,
                () = waiter.close_requested() => {
                    if !waiter.has_active_request() {
                        return;
                    }
                    // A request that has just arrived is still answered, but no further one is accepted.
                    serving.as_mut().graceful_shutdown();
                }
                () = first_head.as_mut(), if is_first => {
                    if !waiter.has_received_request() {
                        return;
                    }
                    is_first = false;
                }
                _ = stopping.wait_for(|stopping| *stopping), if !is_stopping => {
                    is_stopping = true;
                    stop_wait.set(tokio::time::sleep(self.bounds.stop_wait.min(IDLE_STOP_TIMEOUT)));
                    serving.as_mut().graceful_shutdown();
                }
                () = stop_wait.as_mut(), if is_stopping => {
                    if is_last_wait || !waiter.has_active_request() {
                        return;
                    }
                    is_last_wait = true;
                    stop_wait.set(tokio::time::sleep(self.bounds.stop_wait));
                }
            }
        }
    }

    /// The connection with the limits on heads, bodies without a length, slow clients and unread answers.
    fn filtered<Io: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: Io,
    ) -> UnboundedBody<RefusedHead<PacedWriter<Lingering<Io>>>> {
        let Bounds { pace, head_bytes, linger, .. } = self.bounds;
        let outgoing = PacedWriter::new(Lingering::new(io, linger), pace);
        UnboundedBody::new(RefusedHead::new(outgoing, head_bytes), head_bytes)
    }

    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let Bounds { head_bytes, head_wait, .. } = self.bounds;
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(head_wait).max_buf_size(head_bytes);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        builder
    }
}

/// Tells the handlers of a request from where it comes.
fn add_origin(request: &mut hyper::Request<Incoming>, peer: SocketAddr, address: IpAddr) {
    let origin = Origin::of(peer.ip(), address, is_forwarded(request.headers(), request.uri().authority()));
    request.extensions_mut().insert(ConnectInfo(peer));
    request.extensions_mut().insert(origin);
}

/// The answer, once the rest of the request's body has been read as far as [`UnreadBody`] demands.
async fn finish_body(left: Option<UnreadBody>, answer: Response<Body>) -> Response<Body> {
    match left {
        Some(left) => left.finish(answer).await,
        None => answer,
    }
}
