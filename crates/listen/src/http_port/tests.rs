//! Hostile clients of one kind at a time, over loopback sockets. `cargo xtask storms` runs more at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use quarry_conf::SslSettings;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// A short limit for tests that wait until it has passed.
const SHORT: Duration = Duration::from_millis(100);

/// A port under test.
struct TestPort {
    address: SocketAddr,
    /// Signals that `/wait` is running, and lets it end.
    go_on: Arc<[Notify; 2]>,
    /// Number of hooks of `/hooked` that ran.
    hook_runs: Arc<AtomicU64>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

async fn later() -> &'static str {
    tokio::task::yield_now().await;
    "later"
}

/// An answer whose hook increments `count`.
fn hooked(count: Arc<AtomicU64>) -> axum::response::Response {
    let hook = ResponseHook::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    (axum::Extension(hook), "hooked").into_response()
}

async fn port(bounds: Bounds, acceptor: Option<TlsAcceptor>) -> TestPort {
    secured_port(bounds, acceptor.map_or(Security::Clear, Security::Tls)).await
}

async fn secured_port(bounds: Bounds, security: Security) -> TestPort {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let go_on: Arc<[Notify; 2]> = Arc::default();
    let (waits, ends, confirms) = (Arc::clone(&go_on), Arc::clone(&go_on), Arc::clone(&go_on));
    let counted: Arc<AtomicU64> = Arc::default();
    let count = Arc::clone(&counted);
    let wait = move || async move {
        waits[0].notify_one();
        waits[1].notified().await;
        "done"
    };
    let router = Router::new()
        .route("/", get(|| async { "served" }))
        .route("/wait", get(wait))
        .route("/later", get(later))
        .route("/hooked", get(move || async move { hooked(count) }))
        .route("/endless", get(move || async move { endless(ends) }))
        .route("/take", post(|body: axum::body::Bytes| async move { format!("took {}", body.len()) }))
        .route("/authenticate", post(move |request: axum::extract::Request| authenticate(request, confirms)))
        .route("/refuse", post(|| async { (StatusCode::PAYLOAD_TOO_LARGE, "too much") }));
    let (stop, stopped) = oneshot::channel::<()>();
    let port = HttpPort { name: "port".to_owned(), listener, security, router, bounds };
    let served = tokio::spawn(port.serve(async { drop(stopped.await) }));
    TestPort { address, go_on, hook_runs: counted, stop, served }
}

/// Marks the connection as authenticated, signals this to the test, and reads the body.
async fn authenticate(request: axum::extract::Request, says: Arc<[Notify; 2]>) -> String {
    request.extensions().get::<ClientProof>().unwrap().confirm();
    says[0].notify_one();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await;
    body.map_or_else(|error| error.to_string(), |body| format!("took {}", body.len()))
}

/// An endless body, which signals when it is dropped.
struct Endless(Arc<[Notify; 2]>);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0[1].notify_one();
    }
}

fn endless(says: Arc<[Notify; 2]>) -> Body {
    let parts = futures::stream::unfold(Endless(says), |endless| async {
        endless.0[0].notify_one();
        Some((Ok::<_, Infallible>(vec![0; 1 << 16]), endless))
    });
    Body::from_stream(parts)
}

/// Sends a request over a new connection; returns everything received.
async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    all_of(stream).await
}

/// Reads until the connection ends.
async fn all_of(mut stream: impl AsyncRead + Unpin) -> String {
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8(answer).unwrap()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn idle_connections_do_not_block_new_clients() {
    let tested = port(Bounds::for_test(2), None).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(tested.address).await.unwrap());
    }
    assert!(ask(tested.address, GET).await.ends_with("served"));
    assert_eq!(all_of(idle.remove(0)).await, "", "the connection idle longest was closed");
}

/// A request whose body is incomplete.
const INCOMPLETE: &str = "POST /take HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 9\r\n\r\nabc";

#[tokio::test]
async fn clients_that_do_not_authenticate_do_not_block_others() {
    for (sent, security) in
        [INCOMPLETE, "GET / HTTP/1.1\r\nX: ", ""].into_iter().flat_map(|sent| [(sent, false), (sent, true)])
    {
        let security = if security { Security::TlsBeyond(tls(&[]).0) } else { Security::Clear };
        let tested = secured_port(Bounds::for_test(4).for_unauthenticated_clients(), security).await;
        // A client that has authenticated sends a part of its body and then waits; it keeps its connection.
        let mut known = TcpStream::connect(tested.address).await.unwrap();
        known.write_all(INCOMPLETE.replace("take", "authenticate").as_bytes()).await.unwrap();
        tested.go_on[0].notified().await;
        let mut slow = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(tested.address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            slow.push(stream);
            assert!(ask(tested.address, GET).await.ends_with("served"), "{sent:?}");
        }
        assert_eq!(all_of(slow.remove(0)).await, "", "the connection that has waited longest was closed");
        known.write_all(b"defghi").await.unwrap();
        assert!(all_of(known).await.ends_with("took 9"), "{sent:?}");
    }
}

/// A client that authenticates and then keeps its connection idle.
async fn known_client(tested: &TestPort) -> TcpStream {
    let mut known = TcpStream::connect(tested.address).await.unwrap();
    known
        .write_all(INCOMPLETE.replace("take", "authenticate").replace("Connection: close\r\n", "").as_bytes())
        .await
        .unwrap();
    known.write_all(b"defghi").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"took 9") {
        answer.push(known.read_u8().await.unwrap());
    }
    tested.go_on[0].notified().await;
    known
}

/// Connects over HTTP/2 with a window of 0 bytes, requests `path` and receives the head of the answer. The task ends
/// with the connection.
async fn stalled_client(address: SocketAddr, path: &str) -> (h2::RecvStream, JoinHandle<()>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        h2::client::Builder::new().initial_window_size(0).handshake::<_, axum::body::Bytes>(stream).await.unwrap();
    let connection = tokio::spawn(async { drop(connection.await) });
    let request = axum::http::Request::get(format!("http://h{path}")).body(()).unwrap();
    let (answer, _) = sender.send_request(request, true).unwrap();
    (answer.await.unwrap().into_body(), connection)
}

#[tokio::test]
async fn unauthenticated_clients_that_read_no_answer_do_not_block_others() {
    for is_secured in [false, true] {
        let security = if is_secured { Security::TlsBeyond(tls(&[]).0) } else { Security::Clear };
        let tested = secured_port(Bounds::for_test(4).for_unauthenticated_clients(), security).await;
        let mut known = known_client(&tested).await;
        let mut stalled = Vec::new();
        for _ in 0..20 {
            stalled.push(stalled_client(tested.address, "/").await);
            assert!(ask(tested.address, GET).await.ends_with("served"));
        }
        stalled.remove(0).1.await.unwrap();
        known.write_all(GET.as_bytes()).await.unwrap();
        assert!(all_of(known).await.ends_with("served"));
    }
}

#[tokio::test]
async fn unauthenticated_clients_do_not_block_others_while_the_server_works_for_them() {
    for path in ["/wait", "/endless"] {
        let tested = port(Bounds::for_test(4).for_unauthenticated_clients(), None).await;
        let mut known = known_client(&tested).await;
        let mut busy = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(tested.address).await.unwrap();
            stream.write_all(GET.replace("/ ", &format!("{path} ")).as_bytes()).await.unwrap();
            tested.go_on[0].notified().await;
            busy.push(stream);
            assert!(ask(tested.address, GET).await.ends_with("served"), "{path}");
        }
        let mut answer = Vec::new();
        drop(busy.remove(0).read_to_end(&mut answer).await);
        assert!(!String::from_utf8_lossy(&answer).contains("done"), "{path}");
        known.write_all(GET.as_bytes()).await.unwrap();
        assert!(all_of(known).await.ends_with("served"), "{path}");
    }
}

#[tokio::test]
async fn slots_are_reserved_for_unauthenticated_clients() {
    let tested = port(Bounds::for_test(16).for_unauthenticated_clients(), None).await;
    let mut known = Vec::new();
    for _ in 0..16 {
        known.push(known_client(&tested).await);
    }
    // Two of the 16 slots are reserved for unauthenticated clients, so the two authenticated connections that have been
    // idle longest are closed.
    for _ in 0..2 {
        assert_eq!(all_of(known.remove(0)).await, "");
    }
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(tested.address).await.unwrap());
        assert!(ask(tested.address, GET).await.ends_with("served"));
    }
    for mut known in known {
        known.write_all(GET.as_bytes()).await.unwrap();
        assert!(all_of(known).await.ends_with("served"));
    }
}

#[tokio::test]
async fn answers_must_be_read_over_http2_too() {
    let pace = Pace { window: SHORT, bytes: 1 << 20 };
    let tested = port(Bounds { pace, ..Bounds::for_test(2) }, None).await;
    for path in ["/", "/endless"] {
        stalled_client(tested.address, path).await.1.await.unwrap();
    }
}

#[tokio::test]
async fn a_body_before_authentication_must_arrive_in_a_short_time() {
    let bounds = Bounds { authentication_wait: SHORT, ..Bounds::for_test(4).for_unauthenticated_clients() };
    let tested = port(bounds, None).await;
    // An authenticated client has more time: it completes its body after the request of the unauthenticated client has
    // timed out.
    let mut known = TcpStream::connect(tested.address).await.unwrap();
    known.write_all(INCOMPLETE.replace("take", "authenticate").as_bytes()).await.unwrap();
    tested.go_on[0].notified().await;
    let answer = ask(tested.address, INCOMPLETE).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    known.write_all(b"defghi").await.unwrap();
    assert!(all_of(known).await.ends_with("took 9"));
}

#[tokio::test]
async fn a_client_beyond_the_limit_is_answered_with_the_reason() {
    let tested = port(Bounds::for_test(1), None).await;
    let mut busy = TcpStream::connect(tested.address).await.unwrap();
    busy.write_all(format!("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n{GET}").as_bytes()).await.unwrap();
    tested.go_on[0].notified().await;
    let answer = ask(tested.address, GET).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("please retry soon"), "{answer}");
    tested.go_on[1].notify_one();
    let answers = all_of(busy).await;
    assert!(answers.contains("done") && answers.ends_with("served"), "{answers}");
}

#[tokio::test]
async fn requests_on_connections_being_closed_are_answered() {
    let tested = port(Bounds::for_test(1), None).await;
    for _ in 0..20 {
        let mut idle = TcpStream::connect(tested.address).await.unwrap();
        // The first request has been answered, so the connection is idle.
        idle.write_all(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"later") {
            answer.push(idle.read_u8().await.unwrap());
        }
        let mut first = idle.into_std().unwrap();
        // Both connections are established before the port accepts the first.
        let second = std::net::TcpStream::connect(tested.address).unwrap();
        std::io::Write::write_all(&mut first, GET.replace("/ ", "/later ").as_bytes()).unwrap();
        second.set_nonblocking(true).unwrap();
        let mut second = TcpStream::from_std(second).unwrap();
        assert!(all_of(TcpStream::from_std(first).unwrap()).await.ends_with("later"));
        drop(second.write_all(GET.as_bytes()).await);
        let answer = all_of(second).await;
        assert!(answer.ends_with("served") || answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
}

#[tokio::test]
async fn missing_heads_time_out() {
    let tested = port(Bounds { head_wait: SHORT, first_head_wait: SHORT, ..Bounds::for_test(9) }, None).await;
    for (sent, answers) in [
        ("", 0),
        ("GET / HTTP/1.1\r\nHost: ", 0),
        ("PRI * HTTP/2.0\r\n", 0),
        // A complete preface followed by nothing.
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 1),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET", 1),
    ] {
        let mut slow = TcpStream::connect(tested.address).await.unwrap();
        slow.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        drop(slow.read_to_end(&mut answer).await);
        let served = String::from_utf8_lossy(&answer).matches("served").count();
        assert_eq!(served, answers, "{sent:?}");
    }
}

#[tokio::test]
async fn oversized_heads_are_refused() {
    let tested = port(Bounds::for_test(9), None).await;
    let answer = ask(tested.address, &format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "h".repeat(40_000))).await;
    let bytes = Bounds::for_test(9).head_bytes;
    assert!(answer.starts_with("HTTP/1.1 431") && answer.contains(&format!(" {bytes} bytes and ")), "{answer}");
    let many: String = (0..200).map(|at| format!("X-{at}: y\r\n")).collect();
    let answer = ask(tested.address, &format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 431") && answer.contains(" 100 header fields\n"), "{answer}");
}

#[tokio::test]
async fn an_invalid_head_is_answered_with_the_reason() {
    let tested = port(Bounds::for_test(9), None).await;
    for head in ["nonsense\r\n\r\n", "GET / HTTP/7.3\r\n\r\n", "GET / HTTP/1.1\r\nHo st: h\r\n\r\n"] {
        let answer = ask(tested.address, head).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("cannot be read"), "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn slow_bodies_end_their_request() {
    let pace = Pace { window: SHORT, bytes: 10 };
    let tested = port(Bounds { pace, ..Bounds::for_test(9) }, None).await;
    let head = "POST /take HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 40\r\n\r\n";
    for sent in ["", "few"] {
        let answer = ask(tested.address, &format!("{head}{sent}")).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert!(ask(tested.address, &format!("{head}{}", "x".repeat(40))).await.ends_with("took 40"));
}

#[tokio::test]
async fn refusals_during_a_body_reach_the_client() {
    let tested = port(Bounds::for_test(9), None).await;
    let head = "POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 60000000\r\n\r\n";
    let stream = TcpStream::connect(tested.address).await.unwrap();
    let (read, mut write) = stream.into_split();
    let sent = tokio::spawn(async move {
        write.write_all(head.as_bytes()).await?;
        for _ in 0..300 {
            write.write_all(&[b'x'; 100_000]).await?;
        }
        write.shutdown().await
    });
    sent.await.unwrap().unwrap();
    let answer = all_of(read).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.ends_with("too much"), "{answer}");
}

#[tokio::test]
async fn early_refusals_keep_the_connection_or_announce_its_close() {
    let tested = port(Bounds { left_wait: SHORT, ..Bounds::for_test(4) }, None).await;
    let refused = |headers: &str, body: &str| format!("POST /refuse HTTP/1.1\r\nHost: h\r\n{headers}\r\n\r\n{body}");
    let (few, many) = ("x".repeat(200_000), "x".repeat(2 << 20));
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    // If little of the body is left unread, the next request is answered over the same connection.
    for request in
        [refused("Content-Length: 200000", &few), refused("Transfer-Encoding: chunked", &(chunk(&few) + "0\r\n\r\n"))]
    {
        let answer = ask(tested.address, &(request + GET)).await;
        assert!(answer.contains("413") && answer.ends_with("served"), "{answer}");
    }
    // If much of the body is left unread, or the client stops sending it, the connection is closed.
    for request in [
        refused("Content-Length: 2097152", &many),
        refused("Transfer-Encoding: chunked", &(chunk(&many) + "0\r\n\r\n")),
        refused("Content-Length: 200000", "half"),
        refused("Content-Length: 5\r\nExpect: 100-continue", ""),
    ] {
        let answer = ask(tested.address, &request).await;
        assert!(answer.contains("connection: close") && answer.ends_with("too much"), "{answer}");
    }
    let answer =
        ask(tested.address, &("POST /take HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nfour".to_owned() + GET))
            .await;
    assert!(answer.contains("took 4") && answer.ends_with("served"), "{answer}");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_endless_requests() {
    let tested = port(Bounds { stop_wait: SHORT, ..Bounds::for_test(9) }, None).await;
    let mut slow = TcpStream::connect(tested.address).await.unwrap();
    slow.write_all(b"POST /take HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\nfew").await.unwrap();
    assert!(ask(tested.address, GET).await.ends_with("served"), "the port has accepted both");
    tested.stop.send(()).unwrap();
    tested.served.await.unwrap();
    assert_eq!(all_of(slow).await, "");
}

#[tokio::test]
async fn shutdown_waits_for_requests_but_not_for_heads() {
    let tested = port(Bounds::for_test(9), None).await;
    let mut slow = TcpStream::connect(tested.address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut busy = TcpStream::connect(tested.address).await.unwrap();
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    tested.go_on[0].notified().await;
    tested.stop.send(()).unwrap();
    assert_eq!(all_of(slow).await, "");
    tested.go_on[1].notify_one();
    assert!(all_of(busy).await.ends_with("done"));
    tested.served.await.unwrap();
}

/// TLS configuration of both sides.
fn tls(protocols: &[&[u8]]) -> (TlsAcceptor, TlsConnector) {
    let folder = tempfile::tempdir().unwrap();
    let acceptor = crate::tls::acceptor(folder.path(), "localhost", &SslSettings::default(), protocols).unwrap();
    let pem = std::fs::read(folder.path().join("etc/auth/server.pem")).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    (acceptor, TlsConnector::from(Arc::new(config)))
}

async fn connect(address: SocketAddr, connector: &TlsConnector) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
}

#[tokio::test]
async fn silent_handshakes_do_not_block_new_clients() {
    let (acceptor, connector) = tls(&[]);
    for bounds in [Bounds::for_test(2), Bounds { handshakes: 2, ..Bounds::for_test(100) }] {
        let tested = port(bounds, Some(acceptor.clone())).await;
        let mut idle = Vec::new();
        for _ in 0..20 {
            idle.push(TcpStream::connect(tested.address).await.unwrap());
        }
        let mut stream = connect(tested.address, &connector).await;
        stream.write_all(GET.as_bytes()).await.unwrap();
        assert!(all_of(stream).await.ends_with("served"));
        assert_eq!(all_of(idle.remove(0)).await, "");
    }
}

#[tokio::test]
async fn missing_handshakes_time_out() {
    let tested = port(Bounds { handshake_wait: SHORT, ..Bounds::for_test(9) }, Some(tls(&[]).0)).await;
    for sent in [&b""[..], &[22, 3, 1, 2]] {
        let mut slow = TcpStream::connect(tested.address).await.unwrap();
        slow.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        drop(slow.read_to_end(&mut answer).await);
        assert!(answer.is_empty());
    }
}

/// Sends a request over HTTP/2 and returns the status and text of the answer.
async fn ask_h2(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> (u16, String) {
    let (mut sender, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = axum::http::Request::get("http://h/").body(()).unwrap();
    let (answer, _) = sender.send_request(request, true).unwrap();
    let answer = answer.await.unwrap();
    let status = answer.status().as_u16();
    let mut body = answer.into_body();
    let mut text = Vec::new();
    while let Some(part) = body.data().await {
        text.extend_from_slice(&part.unwrap());
    }
    (status, String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn http1_and_http2_work_with_and_without_tls() {
    let served = (200, "served".to_owned());
    let tested = port(Bounds::for_test(2), None).await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        idle.push(TcpStream::connect(tested.address).await.unwrap());
    }
    assert_eq!(ask_h2(TcpStream::connect(tested.address).await.unwrap()).await, served);
    let (acceptor, connector) = tls(&[b"h2"]);
    let tested = port(Bounds::for_test(2), Some(acceptor)).await;
    let stream = connect(tested.address, &connector).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(ask_h2(stream).await, served);
}

#[tokio::test]
async fn connections_are_idle_after_their_last_answer() {
    let tested = port(Bounds::for_test(1), None).await;
    let (mut sender, connection) =
        h2::client::handshake(TcpStream::connect(tested.address).await.unwrap()).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = |path: &str| axum::http::Request::get(format!("http://h{path}")).body(()).unwrap();
    let (long, _) = sender.send_request(request("/wait"), true).unwrap();
    tested.go_on[0].notified().await;
    let (short, _) = sender.send_request(request("/"), true).unwrap();
    assert_eq!(short.await.unwrap().status(), 200);
    let answer = ask(tested.address, GET).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "one of its requests is running: {answer}");
    tested.go_on[1].notify_one();
    let mut answer = long.await.unwrap().into_body();
    while answer.data().await.is_some() {}
    assert!(ask(tested.address, GET).await.ends_with("served"));
    drop(sender);
    drop(connection.await.unwrap());
}

#[tokio::test]
async fn clients_that_stop_reading_are_disconnected() {
    let pace = Pace { window: SHORT, bytes: 1 << 20 };
    let tested = port(Bounds { pace, ..Bounds::for_test(2) }, None).await;
    let mut silent = TcpStream::connect(tested.address).await.unwrap();
    silent.write_all(GET.replace("/ ", "/endless ").as_bytes()).await.unwrap();
    tested.go_on[0].notified().await;
    tested.go_on[1].notified().await;
    drop(silent);
}

#[tokio::test]
async fn tls_ports_accept_plain_local_connections() {
    let (acceptor, connector) = tls(&[]);
    let tested = secured_port(Bounds::for_test(9), Security::TlsBeyond(acceptor)).await;
    assert!(ask(tested.address, GET).await.ends_with("served"));
    let mut stream = connect(tested.address, &connector).await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(all_of(stream).await.ends_with("served"));
    // A silent client does not block others, and a stalled handshake is closed.
    let silent = TcpStream::connect(tested.address).await.unwrap();
    assert!(ask(tested.address, GET).await.ends_with("served"));
    let mut begun = TcpStream::connect(tested.address).await.unwrap();
    begun.write_all(&[HANDSHAKE_RECORD, 3, 1]).await.unwrap();
    begun.shutdown().await.unwrap();
    assert_eq!(all_of(begun).await, "");
    tested.stop.send(()).unwrap();
    assert_eq!(all_of(silent).await, "");
    tested.served.await.unwrap();
}

#[tokio::test]
async fn plain_http_from_other_machines_is_refused_with_the_reason() {
    let within = |here: &str, peer: &str| is_local_connection(here.parse().unwrap(), peer.parse().unwrap());
    assert!(within("127.0.0.1", "127.0.0.1") && within("127.0.0.1", "127.0.0.9") && within("::1", "::1"));
    assert!(within("192.0.2.5", "192.0.2.5") && within("::ffff:127.0.0.1", "127.0.0.1"));
    assert!(!within("192.0.2.5", "192.0.2.6") && !within("192.0.2.5", "127.0.0.1") && !within("::1", "2001:db8::1"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(answer_tls_required(listener.accept().await.unwrap().0));
    let reported = all_of(stream).await;
    let (head, body) = reported.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 400 ") && head.contains(&format!("Content-Length: {}", body.len())),
        "{reported}"
    );
    assert!(body.contains("https://"), "{reported}");
}

/// Text of a request for `/hooked`.
fn ask_hooked(headers: &str) -> String {
    format!("GET /hooked HTTP/1.1\r\nHost: h\r\n{headers}\r\n")
}

#[tokio::test]
async fn hooks_run_in_every_http_version_with_and_without_tls() {
    let (acceptor, connector) = tls(&[b"h2", b"http/1.1"]);
    let (clear, shaken) = (port(Bounds::for_test(9), None).await, port(Bounds::for_test(9), Some(acceptor)).await);
    let hook_runs = |tested: &TestPort| tested.hook_runs.load(Ordering::SeqCst);
    // Three requests at once; the last one ends the connection.
    let three = ask_hooked("") + &ask_hooked("") + &ask_hooked("Connection: close\r\n");
    assert_eq!(ask(clear.address, &three).await.matches("hooked").count(), 3);
    assert_eq!(hook_runs(&clear), 3);
    let mut stream = connect(shaken.address, &connector).await;
    stream.write_all(three.as_bytes()).await.unwrap();
    assert_eq!(all_of(stream).await.matches("hooked").count(), 3);
    assert_eq!(hook_runs(&shaken), 3);
    for tested in [&clear, &shaken] {
        let io: Box<dyn crate::stream::Connection> = match tested.address == clear.address {
            true => Box::new(TcpStream::connect(tested.address).await.unwrap()),
            false => Box::new(connect(tested.address, &connector).await),
        };
        let (mut sender, connection) = h2::client::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = || axum::http::Request::get("http://h/hooked").body(()).unwrap();
        let answers: Vec<_> = (0..20).map(|_| sender.send_request(request(), true).unwrap().0).collect();
        for (at, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.await.unwrap().status(), 200);
            assert!(hook_runs(tested) > 3 + at as u64, "the hook of a received answer has run");
        }
    }
}
