//! An HTTP port with bounded connections, so that idle or hostile clients cannot lock out others.
//!
//! HTTP/1 and HTTP/2 are distinguished by the first bytes. A connection that does not send a request head in time is
//! closed. A port may accept both TLS and plain HTTP, which it distinguishes by the first byte, and may require TLS of
//! clients on other machines. At the connection limit, the connection that has been idle longest is closed for a new
//! one; if all are active, the new one is refused. TLS handshakes count as idle. Connections of clients that have not
//! authenticated ([`ClientProof`]), even active ones, are closed before those of clients that have ([`admission`]).
//! Bodies must keep arriving, and answers must keep being read. Each request carries its [`Origin`] and [`Scheme`].
//!
//! Not here: handling requests, limiting the size of bodies.

mod admission;
mod answer_body;
mod connection_queue;
mod delegate;
mod limits;
mod lingering_close;
mod proxy_headers;
mod refused_head;
mod request_body;
mod response_hooks;
mod slow_reader;
#[cfg(test)]
mod tests;
mod unbounded_body;
mod unread_body;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::uri::Scheme;
use axum::http::{Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use quarry_auth::Origin;
use quarry_inputs::ClientProof;
use quarry_inputs::hec::ResponseHook;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use admission::{Admission, REFUSAL_TIMEOUT};
use answer_body::AnswerBody;
use connection_queue::{Closing, OpenRequest};
pub(crate) use connection_queue::{ConnectionQueue, ConnectionState};
pub use limits::Bounds;
pub(crate) use limits::connections_max;
use lingering_close::Lingering;
use proxy_headers::is_forwarded;
use refused_head::RefusedHead;
use request_body::{Pace, RequestBody, Unread};
use response_hooks::{HookedSocket, ResponseHooks};
use slow_reader::PacedWriter;
use unbounded_body::UnboundedBody;
use unread_body::UnreadBody;

/// Maximum number of concurrent requests of an HTTP/2 connection; the client must wait with further ones.
const STREAMS_MAX: u32 = 128;
/// Flow-control window of an HTTP/2 connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// Interval of HTTP/2 pings on an idle connection, and the timeout of their answer.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
const TLS_REQUIRED: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 81\r\n\
    Connection: close\r\n\r\nthis port speaks TLS with other machines: write https:// in place of http:// here";
/// First byte of a TLS handshake record (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;
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
    /// Clients on this machine may use TLS or not; clients on other machines must use it.
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
    admission: Admission,
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

/// Tells a plain HTTP client to use TLS.
async fn answer_tls_required(mut stream: TcpStream) {
    let reported = async {
        stream.write_all(TLS_REQUIRED).await?;
        Lingering::new(stream, REFUSAL_TIMEOUT).shutdown().await
    };
    // The client may have disconnected.
    drop(tokio::time::timeout(REFUSAL_TIMEOUT, reported).await);
}

/// Permit for a connection, and the handle by which shutdown waits for the connection.
struct ConnectionGuard {
    stopping: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
    _alive: mpsc::Sender<()>,
}

/// Registers a request of a connection, and lets its handler report that the client has authenticated.
fn register_request(
    connection: &Arc<ConnectionState>,
    request: &mut hyper::Request<Incoming>,
    pace: Pace,
) -> Arc<OpenRequest> {
    let open = Arc::new(OpenRequest::new(connection, request.body().is_end_stream(), pace.bytes));
    let weak = Arc::downgrade(&open);
    request.extensions_mut().insert(ClientProof::new(move || {
        if let Some(request) = weak.upgrade() {
            request.mark_authenticated();
        }
    }));
    open
}

impl HttpPort {
    /// Serves connections until `stop` resolves, and then answers the running requests, for a limited time.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let HttpPort { name, listener, security, router, bounds } = self;
        let (stopping_sender, stopping) = watch::channel(false);
        let (alive, mut all_gone) = mpsc::channel(1);
        let admission = Admission::new(bounds, security.has_handshakes());
        // If the local address is unknown, no client counts as local.
        let address = listener.local_addr().map_or(Origin::UNKNOWN.address, |address| address.ip());
        let shared = Arc::new(Shared { router, security, bounds, address, admission });
        let mut tell = tokio::time::interval(LOG_INTERVAL);
        tell.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                _ = tell.tick() => {
                    shared.admission.log_counts(&name);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                shared.admission.free_descriptor();
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let Some(place) = shared.admission.admit().await else {
                shared.admission.refuse(stream);
                continue;
            };
            let presence = ConnectionGuard { stopping: stopping.clone(), _place: place, _alive: alive.clone() };
            // The connection is registered here and not when its task first runs, because the next connection may
            // arrive before that.
            let waiter = shared.admission.new_connection();
            tokio::spawn(Arc::clone(&shared).serve_connection(presence, waiter, stream, peer));
        }
        shared.admission.log_counts(&name);
        stopping_sender.send_replace(true);
        drop(listener);
        drop(alive);
        // The channel carries no messages; it closes when the last connection ends.
        let _: Option<()> = all_gone.recv().await;
    }
}

impl Shared {
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
                    // A connection that is to be closed must free its permit, even if data has arrived.
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
                        return self.serve_plain(presence, self.admission.ready_connection(), stream, peer).await;
                    }
                    Ok(Ok(DetectedProtocol::Clear)) => return answer_tls_required(stream).await,
                    // The client sent nothing or has disconnected.
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
        let stream = HookedSocket::new(stream);
        let hooks = stream.hooks();
        let shaken = tokio::select! {
            biased;
            () = waiter.close_requested() => return,
            shaken = tokio::time::timeout(self.bounds.handshake_wait, acceptor.accept(stream)) => shaken,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Ok(Ok(stream)) = shaken else {
            self.admission.count_failed_handshake();
            return;
        };
        drop(waiter);
        let waiter = self.admission.ready_connection();
        self.serve_requests(presence, waiter, stream, hooks, (peer, Scheme::HTTPS)).await;
    }

    async fn serve_plain(
        &self,
        presence: ConnectionGuard,
        waiter: ConnectionState,
        stream: TcpStream,
        peer: SocketAddr,
    ) {
        let stream = HookedSocket::new(stream);
        let hooks = stream.hooks();
        self.serve_requests(presence, waiter, stream, hooks, (peer, Scheme::HTTP)).await;
    }

    /// Answers the requests of a connection.
    async fn serve_requests<Io>(
        &self,
        presence: ConnectionGuard,
        waiter: ConnectionState,
        io: Io,
        hooks: ResponseHooks,
        (peer, scheme): (SocketAddr, Scheme),
    ) where
        Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let waiter = Arc::new(waiter);
        let (router, counted) = (self.router.clone(), Arc::clone(&waiter));
        let (address, Bounds { pace, left_wait, authentication_wait, .. }) = (self.address, self.bounds);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let open = register_request(&counted, &mut request, pace);
            add_origin(&mut request, peer, address);
            request.extensions_mut().insert(scheme.clone());
            let unread = Unread::default();
            let is_first_version = request.version() <= Version::HTTP_11;
            let left = is_first_version.then(|| UnreadBody::new(unread.clone(), request.headers(), left_wait));
            let body = |body| Body::new(RequestBody::new(body, unread, &open, pace, authentication_wait));
            let answered = router.clone().call(request.map(body));
            finish_answer(answered, left, open, hooks.clone(), !is_first_version)
        });
        let builder = self.builder();
        let mut serving = pin!(builder.serve_connection(TokioIo::new(self.filtered(io)), service));
        let mut first_head = pin!(tokio::time::sleep(self.bounds.first_head_wait));
        let (mut is_first, mut is_stopping, mut is_last_wait) = (true, false, false);
        let mut periods = tokio::time::interval(pace.window);
        periods.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = presence.stopping.clone();
        let mut stop_wait = pin!(tokio::time::sleep(Duration::MAX));
        loop {
            tokio::select! {
                biased;
                // The result does not matter: the client has the answer or has disconnected.
                _ = serving.as_mut() => return,
                () = waiter.close_requested() => match waiter.closing() {
                    Closing::Now => return,
                    // A request that has just arrived is still answered, but no further one is accepted.
                    Closing::AfterAnswers => serving.as_mut().graceful_shutdown(),
                    Closing::Spared => {}
                },
                _ = periods.tick() => {
                    if waiter.ends_stalled_period() {
                        return;
                    }
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
                    if is_last_wait || !waiter.is_busy() {
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

/// Adds the origin of a request, for its handlers.
fn add_origin(request: &mut hyper::Request<Incoming>, peer: SocketAddr, address: IpAddr) {
    let origin = Origin::of(peer.ip(), address, is_forwarded(request.headers(), request.uri().authority()));
    request.extensions_mut().insert(ConnectInfo(peer));
    request.extensions_mut().insert(origin);
}

/// The answer, once the rest of the request's body has been read as far as [`UnreadBody`] demands.
async fn finish_answer(
    answered: impl Future<Output = Result<Response<Body>, Infallible>>,
    left: Option<UnreadBody>,
    open: Arc<OpenRequest>,
    hooks: ResponseHooks,
    has_flow_control: bool,
) -> Result<Response<AnswerBody>, Infallible> {
    let mut answer = answered.await?;
    open.answered();
    if let Some(left) = left {
        answer = left.finish(answer).await;
    }
    if let Some(hook) = answer.extensions_mut().remove::<ResponseHook>() {
        hooks.add(hook);
    }
    Ok(answer.map(|body| AnswerBody::new(body, open, has_flow_control)))
}
