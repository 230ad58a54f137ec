//! A proxy that forwards HTTP requests one by one and injects faults of networks and servers into some of them.
//!
//! The fault of a request depends on the seed, on the request's method, path and range, and on the number of equal
//! requests before it. Order and timing do not matter, and a repeated request may succeed. As long as faults are
//! possible, each connection carries one request, so that requests do not affect each other. Otherwise connections to
//! both sides are kept after reads, as with a real store, so that a measurement does not count a new connection for
//! each request.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Maximum bytes of a message head.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Bytes between two pauses of a slow body.
const SLOW_BYTES: usize = 4096;
/// Bytes sent at a time over a link of limited bandwidth.
const LINK_BYTES: usize = 64 << 10;

/// Faults to inject. Each rate is per thousand requests; a request has at most one fault.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Seed that determines which requests fail.
    pub seed: u64,
    /// Delay of each answer.
    pub latency: Duration,
    /// Maximum bytes per second of the bodies of all answers together; 0 for no limit.
    pub bytes_per_second: u64,
    /// The request is answered with 503 instead of being forwarded, as by an overloaded store.
    pub refused: u64,
    /// The request is forwarded, so that it takes effect, and then answered with 500.
    pub failed: u64,
    /// The connection is closed before the request is forwarded.
    pub reset_before: u64,
    /// The connection is closed after the request has taken effect, without an answer.
    pub reset_after: u64,
    /// The answer is aborted in the middle.
    pub truncated: u64,
    /// One bit of the answer's body is flipped.
    pub corrupted: u64,
    /// The answer's body is sent in pieces with a pause of 5 ms between them.
    pub slow: u64,
    /// The request is not answered; the connection stays open until the client closes it.
    pub stalled: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Refused,
    Failed,
    ResetBefore,
    ResetAfter,
    Truncated,
    Corrupted,
    Slow,
    Stalled,
}

impl Faults {
    /// The kinds of faults with their rates.
    fn rates(&self) -> [(u64, Fault); 8] {
        [
            (self.refused, Fault::Refused),
            (self.failed, Fault::Failed),
            (self.reset_before, Fault::ResetBefore),
            (self.reset_after, Fault::ResetAfter),
            (self.truncated, Fault::Truncated),
            (self.corrupted, Fault::Corrupted),
            (self.slow, Fault::Slow),
            (self.stalled, Fault::Stalled),
        ]
    }

    /// Whether a request may have a fault; delays and limits of bandwidth do not count.
    fn are_possible(&self) -> bool {
        self.rates().iter().any(|(rate, _)| *rate > 0)
    }

    fn choose(&self, request: &str, times: u64) -> Fault {
        let drawn = xxh3_64_with_seed(format!("{request} {times}").as_bytes(), self.seed) % 1000;
        let mut end = 0;
        let hit = self.rates().into_iter().find(|(share, _)| {
            end += share;
            drawn < end
        });
        hit.map_or(Fault::None, |(_, fault)| fault)
    }
}

/// A request that the proxy received.
#[derive(Clone, Debug)]
pub struct ProxiedRequest {
    /// The first line and the headers, as the client sent them.
    pub head: String,
    /// Time at which the head had arrived.
    pub arrived: Instant,
    /// Time at which the forwarded request was done; `None` before that, and for a request that was not forwarded.
    pub answered: Option<Instant>,
    /// Set if a fault was injected.
    pub faulty: bool,
}

impl ProxiedRequest {
    /// Value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

/// A running proxy; it stops when the value is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: String,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    faults: Mutex<Faults>,
    seen: Mutex<Vec<ProxiedRequest>>,
    /// First lines of the requests being served, by request number.
    open: Mutex<BTreeMap<u64, String>>,
    connections: AtomicU64,
    times: Mutex<BTreeMap<String, u64>>,
    answered_bytes: AtomicU64,
    /// Time at which all data sent so far will have passed the link of limited bandwidth.
    passed: Mutex<Option<Instant>>,
    ended: AtomicBool,
    end: (Mutex<bool>, Condvar),
}

impl FaultProxy {
    /// Starts a proxy for the server at `server` (`HOST:PORT`).
    pub fn start(server: &str, faults: Faults) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address").to_string();
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            faults: Mutex::new(faults),
            seen: Mutex::default(),
            open: Mutex::default(),
            connections: AtomicU64::new(0),
            times: Mutex::default(),
            answered_bytes: AtomicU64::new(0),
            passed: Mutex::default(),
            ended: AtomicBool::new(false),
            end: Default::default(),
        });
        let serving = Arc::clone(&shared);
        let acceptor = thread::spawn(move || {
            for client in listener.incoming() {
                if serving.ended.load(Ordering::SeqCst) {
                    break;
                }
                let (shared, Ok(client)) = (Arc::clone(&serving), client) else { continue };
                // Clients that disconnect in the middle of a request are part of these tests.
                thread::spawn(move || drop(shared.serve(client)));
            }
        });
        FaultProxy { address, shared, acceptor: Some(acceptor) }
    }

    /// URL of the proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the faults for the following requests.
    pub fn set(&self, faults: Faults) {
        *lock(&self.shared.faults) = faults;
    }

    /// Total size of the bodies of all answers so far.
    pub fn answered_bytes(&self) -> u64 {
        self.shared.answered_bytes.load(Ordering::Relaxed)
    }

    /// First lines of the requests that were received but not answered yet.
    pub fn open_requests(&self) -> Vec<String> {
        lock(&self.shared.open).values().cloned().collect()
    }

    /// Requests received so far.
    pub fn requests(&self) -> Vec<ProxiedRequest> {
        lock(&self.shared.seen).clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        *lock(&self.shared.end.0) = true;
        self.shared.end.1.notify_all();
        // This connection wakes the accepting thread.
        drop(TcpStream::connect(&self.address));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
    }
}

/// Guard of a request being served.
struct OpenRequest<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        lock(&self.shared.open).remove(&self.number);
    }
}

impl Shared {
    /// Serves the requests of a connection.
    fn serve(&self, client: TcpStream) -> io::Result<()> {
        // Head and body are written separately; without this, the body would wait for the receipt of the head.
        client.set_nodelay(true)?;
        let mut client = BufReader::new(client);
        let mut server = None;
        while self.serve_one(&mut client, &mut server)? {}
        client.get_ref().shutdown(Shutdown::Both)
    }

    /// Serves a request. `server` is the connection to the server that an earlier request has left. Returns whether the
    /// connection can carry another request.
    fn serve_one(
        &self,
        client: &mut BufReader<TcpStream>,
        server: &mut Option<BufReader<TcpStream>>,
    ) -> io::Result<bool> {
        let head = read_head(client)?;
        if self.ended.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).insert(number, head.lines().next().unwrap_or_default().to_owned());
        let _open = OpenRequest { shared: self, number };
        let mut body = vec![0; length(&head).unwrap_or(0)];
        client.read_exact(&mut body)?;
        let (faults, fault, seen) = self.choose_fault(&head);
        self.pause(faults.latency);
        match fault {
            Fault::ResetBefore => Ok(false),
            Fault::Refused => refuse(client.get_mut(), 503, "SlowDown").map(|()| false),
            Fault::Stalled => {
                self.wait_for_stop();
                Ok(false)
            }
            // Only answers to range reads are sure to have a length.
            _ => {
                let is_kept = !faults.are_possible() && head.starts_with("GET ") && header(&head, "range").is_some();
                let server = is_kept.then_some(server);
                let is_kept = self.forward(client.get_mut(), server, (&head, &body), (&faults, fault))?;
                self.record_answer(seen);
                Ok(is_kept)
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark lists when requests arrived")]
    fn choose_fault(&self, head: &str) -> (Faults, Fault, usize) {
        let faults = lock(&self.faults).clone();
        let line = head.lines().next().unwrap_or_default();
        let request = format!("{line} {}", header(head, "range").unwrap_or_default());
        let times = *lock(&self.times).entry(request.clone()).and_modify(|times| *times += 1).or_insert(1);
        let fault = faults.choose(&request, times);
        let (head, arrived) = (head.to_owned(), Instant::now());
        let mut seen = lock(&self.seen);
        seen.push(ProxiedRequest { head, arrived, answered: None, faulty: fault != Fault::None });
        (faults, fault, seen.len() - 1)
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark lists when requests were answered")]
    fn record_answer(&self, seen: usize) {
        lock(&self.seen)[seen].answered = Some(Instant::now());
    }

    /// Passes a request, its head and body, to the server, and the answer to the client. `kept` holds the connection to
    /// the server between requests, and is `None` if no connection may be kept; returns whether both connections are
    /// kept.
    fn forward(
        &self,
        client: &mut TcpStream,
        mut kept: Option<&mut Option<BufReader<TcpStream>>>,
        (head, body): (&str, &[u8]),
        (faults, fault): (&Faults, Fault),
    ) -> io::Result<bool> {
        let with_connection = |head: &str, is_kept: bool| match is_kept {
            true => head.to_owned(),
            false => with_connection_close(head),
        };
        let request = [with_connection(head, kept.is_some()).as_bytes(), body].concat();
        let earlier = kept.as_mut().and_then(|server| server.take());
        // The server may have closed the kept connection meanwhile.
        let answered = earlier.and_then(|server| ask(server, &request).ok());
        let (mut answer, answer_head) = match answered {
            Some(answered) => answered,
            None => ask(BufReader::new(TcpStream::connect(&self.server)?), &request)?,
        };
        let mut answer_body = Vec::new();
        match length(&answer_head) {
            _ if head.starts_with("HEAD ") => {}
            Some(length) => drop(answer.by_ref().take(length as u64).read_to_end(&mut answer_body)?),
            None => drop(answer.read_to_end(&mut answer_body)?),
        }
        match fault {
            Fault::Failed => return refuse(client, 500, "InternalError").map(|()| false),
            Fault::ResetAfter => return Ok(false),
            Fault::Truncated => answer_body.truncate(answer_body.len() / 2),
            Fault::Corrupted if !answer_body.is_empty() => {
                let at = xxh3_64_with_seed(head.as_bytes(), faults.seed) as usize % answer_body.len();
                answer_body[at] ^= 1;
            }
            _ => {}
        }
        self.answered_bytes.fetch_add(answer_body.len() as u64, Ordering::Relaxed);
        let is_kept = kept.is_some() && length(&answer_head).is_some() && header(&answer_head, "connection").is_none();
        client.write_all(with_connection(&answer_head, is_kept).as_bytes())?;
        if fault == Fault::Slow {
            for piece in answer_body.chunks(SLOW_BYTES) {
                client.write_all(piece)?;
                self.pause(Duration::from_millis(5));
            }
        } else if faults.bytes_per_second > 0 {
            for piece in answer_body.chunks(LINK_BYTES) {
                self.throttle(piece.len(), faults.bytes_per_second);
                client.write_all(piece)?;
            }
        } else {
            client.write_all(&answer_body)?;
        }
        if let Some(server) = kept.filter(|_| is_kept) {
            *server = Some(answer);
        }
        Ok(is_kept)
    }

    /// Waits until this number of bytes has passed the link that all answers share.
    #[expect(clippy::disallowed_methods, reason = "a link of limited bandwidth takes time")]
    fn throttle(&self, bytes: usize, bytes_per_second: u64) {
        let now = Instant::now();
        let wait = {
            let mut passed = lock(&self.passed);
            let until = passed.map_or(now, |passed| passed.max(now))
                + Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64);
            *passed = Some(until);
            until - now
        };
        self.pause(wait);
    }

    /// Waits for the given time, or until the proxy stops.
    fn pause(&self, time: Duration) {
        if !time.is_zero() {
            drop(self.end.1.wait_timeout_while(lock(&self.end.0), time, |ended| !*ended));
        }
    }

    fn wait_for_stop(&self) {
        drop(self.end.1.wait_while(lock(&self.end.0), |ended| !*ended));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a request to the server; returns the connection and the head of the answer.
fn ask(mut server: BufReader<TcpStream>, request: &[u8]) -> io::Result<(BufReader<TcpStream>, String)> {
    server.get_mut().write_all(request)?;
    let head = read_head(&mut server)?;
    Ok((server, head))
}

fn read_head(reader: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    let mut limited = reader.take(HEAD_BYTES_MAX);
    while !head.ends_with("\r\n\r\n") {
        if limited.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let of = |line: &'a str| line.split_once(':').filter(|(found, _)| found.eq_ignore_ascii_case(name));
    head.lines().find_map(of).map(|(_, value)| value.trim())
}

fn length(head: &str) -> Option<usize> {
    header(head, "content-length")?.parse().ok()
}

/// Sets `Connection: close` in a message head.
fn with_connection_close(head: &str) -> String {
    let kept = head.trim_end().lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    kept.map(|line| format!("{line}\r\n")).collect::<String>() + "Connection: close\r\n\r\n"
}

fn refuse(client: &mut TcpStream, status: u16, code: &str) -> io::Result<()> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as told</Message></Error>");
    write!(client, "HTTP/1.1 {status} no\r\nContent-Type: application/xml\r\n")?;
    write!(client, "Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
