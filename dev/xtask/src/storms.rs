//! `cargo xtask storms [--binary PATH]`: load tests with many concurrent hostile clients, and one ordinary client that
//! searches.
//!
//! First, 64 clients log in with wrong passwords. Then 70 concurrent clients request events, with rows of some bytes,
//! of a kilobyte, of 64 KB and of a megabyte. Some clients do not read their export at all, and others read only its
//! beginning. Answers of 8 MB (from oneshot searches, from jobs, and pages of one job) are read at once in some storms,
//! and as slowly as exports in others. From the start of a storm, the test measures and limits the memory of the server
//! and the duration of other searches, by the same user and by another user.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::soak_node;

/// Number of clients in a login storm.
const CLIENTS: usize = 64;
/// Number of logins of each client.
const LOGINS: usize = 20;
/// Number of clients that request events; more than the limit of concurrent searches.
const READERS: usize = 70;
/// Events to export: their number, the bytes of text added to each, and the assembly of lines. Long lines are also
/// added with a sourcetype whose events may have several lines.
const EVENTS: [(usize, usize, Lines); 5] = [
    (300_000, 0, Lines::Single),
    (100_000, 1_000, Lines::Single),
    (2_500, 64 << 10, Lines::Single),
    (160, 1 << 20, Lines::Single),
    (160, 1 << 20, Lines::Merged),
];
/// Of the clients that stall, every second one first reads the beginning of its answer: [`READ_BYTES`] of an export, or
/// [`READ_BYTES_OF_ANSWER`] of another answer.
const READ_EVERY: usize = 2;
const READ_BYTES: u64 = 24 << 20;
const READ_BYTES_OF_ANSWER: u64 = 2 << 20;
/// Bytes of events of an answer other than an export.
const ANSWER_BYTES: usize = 8 << 20;
/// Minimum number of searches by each other client during a storm.
const SEARCHES: usize = 30;
/// Maximum peak memory of the server, in MB.
const RESIDENT_MB_MAX: u64 = 1_000;
/// Maximum duration of a search of the same user and of another user; generous, because other work may run on the
/// machine.
const WAIT_MAX: Duration = Duration::from_secs(5);
const WAIT_MAX_OF_OTHERS: Duration = Duration::from_secs(2);
/// Name and password of the other user.
const OTHER: (&str, &str) = ("other", "a password of storms");
/// Maximum wait for the server.
const START_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Assembly of lines into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    Single,
    Merged,
}

#[expect(clippy::disallowed_methods, reason = "a tool that measures looks at the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Runs the storms.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let named = arguments.iter().position(|argument| argument == "--binary").and_then(|at| arguments.get(at + 1));
    let binary = named.map_or_else(soak_node::binary, |path| Ok(PathBuf::from(path)))?;
    let folder = std::env::temp_dir().join(format!("quarry-storms-{}", std::process::id()));
    let ran = storms(&binary, &folder);
    drop(std::fs::remove_dir_all(&folder));
    ran
}

/// Runs all storms, even if one exceeds its limits.
fn storms(binary: &Path, folder: &Path) -> Result<(), String> {
    let mut beyond = Vec::new();
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    for (events, wide, lines) in EVENTS {
        println!("{events} events of {lines:?} lines, with {wide} bytes added to each:");
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let log = folder.join("a.log");
        let line = |at: usize| {
            format!(
                "2026-11-20T{:02}:{:02}:{:02}Z host=web{} user=u{at} path=/a/b/c/{at} status={} bytes={} agent=\"Mozilla/5.0 (X11)\"{}\n",
                at / 3600 % 24,
                at / 60 % 60,
                at % 60,
                at % 7,
                200 + at % 5,
                at * 37 % 100_000,
                filler_text(at, wide)
            )
        };
        std::fs::write(&log, (0..events).map(line).collect::<String>()).map_err(cannot)?;
        let data = folder.join("data");
        let conf = data.join("etc/system/local");
        std::fs::create_dir_all(&conf).map_err(cannot)?;
        std::fs::write(conf.join("props.conf"), "[default]\nTRUNCATE = 0\n[merged]\nSHOULD_LINEMERGE = true\n")
            .map_err(cannot)?;
        let mut command = Command::new(binary);
        command.arg("--data-dir").arg(&data).args(["add", "oneshot"]).arg(&log);
        if lines == Lines::Merged {
            command.args(["--sourcetype", "merged"]);
        }
        let added = command.output();
        if !added.as_ref().is_ok_and(|added| added.status.success()) {
            return Err(format!("the events cannot be added: {added:?}"));
        }
        add_user(binary, &data)?;
        if wide == 0 {
            beyond.extend(login_storm(&Server::start(binary, &data, events)?)?);
        }
        for (asks, reads) in STORMS {
            beyond.extend(reader_storm(&Server::start(binary, &data, events)?, wide, asks, reads)?);
        }
        std::fs::remove_dir_all(folder).map_err(cannot)?;
    }
    if beyond.is_empty() { Ok(()) } else { Err(beyond.join("; ")) }
}

/// Adds the other user.
fn add_user(binary: &Path, data: &Path) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("no other user can be added: {error}");
    let mut command = Command::new(binary);
    command.arg("--data-dir").arg(data).args(["user", "add", OTHER.0]).stdin(Stdio::piped());
    let mut adding = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(cannot)?;
    if let Some(input) = &mut adding.stdin {
        writeln!(input, "{}", OTHER.1).map_err(cannot)?;
    }
    let added = adding.wait_with_output().map_err(cannot)?;
    let reported = String::from_utf8_lossy(&added.stderr);
    if added.status.success() { Ok(()) } else { Err(format!("no other user can be added: {reported}")) }
}

/// Meaningless words of about this many bytes in all, different for each event.
fn filler_text(at: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 24);
    let mut state = at as u64 + 1;
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!(" {:x}", state >> 20));
    }
    text
}

/// A running server.
struct Server {
    child: Child,
    address: String,
    token: String,
    /// Session key of the other user.
    session: String,
    /// Number of events in its index.
    events: usize,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killing fails if the process has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    fn start(binary: &Path, data: &Path, events: usize) -> Result<Server, String> {
        let run_file = data.join("run/server.json");
        drop(std::fs::remove_file(&run_file));
        let mut command = Command::new(binary);
        command.arg("--data-dir").arg(data).args(["serve", "--mgmt", "127.0.0.1:0"]).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
        let mut server = Server { child, address: String::new(), token: String::new(), session: String::new(), events };
        let begun = now();
        while begun.elapsed() < START_MAX {
            let run: Option<Value> =
                std::fs::read_to_string(&run_file).ok().and_then(|text| serde_json::from_str(&text).ok());
            if let Some(run) = run {
                let text_of = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
                (server.address, server.token) = (text_of("mgmt"), text_of("token"));
                return server.log_in();
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
        Err("the server does not start".to_owned())
    }

    /// Peak memory, in MB.
    fn peak_mb(&self) -> Result<u64, String> {
        let status = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&status).map_err(|error| format!("{status}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        let kilobytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        kilobytes.map(|kilobytes| kilobytes >> 10).ok_or(format!("{status} has no VmHWM"))
    }

    fn send(&self, path: &str, authorization: &str, body: &str) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{authorization}Content-Type: \
             application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        Ok(stream)
    }

    fn ask(&self, path: &str, authorization: &str, body: &str) -> std::io::Result<String> {
        let mut answer = String::new();
        self.send(path, authorization, body)?.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Logs in as the other user.
    fn log_in(mut self) -> Result<Server, String> {
        let body = format!("username={}&password={}&output_mode=json", OTHER.0, OTHER.1.replace(' ', "+"));
        let answer = self.ask("/services/auth/login", "", &body).map_err(|error| format!("no login: {error}"))?;
        let key = answer.split_once("\"sessionKey\":\"").and_then(|(_, rest)| rest.split_once('"'));
        self.session = key.ok_or_else(|| format!("the login of the other user is refused: {answer}"))?.0.to_owned();
        Ok(self)
    }

    fn authorization(&self) -> String {
        format!("Authorization: Splunk {}\r\n", self.token)
    }

    /// Runs one search of an ordinary client and returns its duration.
    fn search(&self) -> Result<Duration, String> {
        self.search_as(&self.token)
    }

    fn search_as(&self, session: &str) -> Result<Duration, String> {
        let begun = now();
        let body = "exec_mode=oneshot&output_mode=json&search=search+*+%7C+stats+count";
        let answer = self.ask("/services/search/jobs", &format!("Authorization: Splunk {session}\r\n"), body);
        let answer = answer.map_err(|error| format!("a search is not answered: {error}"))?;
        if !answer.contains(&format!("\"count\":\"{}\"", self.events)) {
            return Err(format!("a search is answered wrongly: {answer}"));
        }
        Ok(begun.elapsed())
    }
}

fn login_storm(server: &Server) -> Result<Option<String>, String> {
    let quiet = server.search()?;
    let before = server.peak_mb()?;
    let is_over = AtomicBool::new(false);
    let (statuses, worst) = std::thread::scope(|scope| {
        let others = Others::begin(scope, server, &is_over);
        let log_in = |number: usize| {
            move || {
                let user = if number.is_multiple_of(2) { "admin" } else { "nobody-here" };
                let login = |at: usize| {
                    let body = format!("username={user}&password=wrong{number}-{at}");
                    server.ask("/services/auth/login", "", &body).unwrap_or_default()
                };
                (0..LOGINS).map(|at| login(at).get(9..12).unwrap_or("cut").to_owned()).collect::<Vec<String>>()
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(log_in(number))).collect();
        let statuses: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect();
        is_over.store(true, Ordering::Relaxed);
        (statuses, others.end())
    });
    let of = |status: &str| statuses.iter().filter(|other| *other == status).count();
    let reported = format!("401: {}, 429: {}, 503: {}", of("401"), of("429"), of("503"));
    let odd = statuses.len() - of("401") - of("429") - of("503");
    if odd > 0 || statuses.len() < CLIENTS * LOGINS {
        return Err(format!("logins: {odd} of {} got another status ({reported})", statuses.len()));
    }
    verdict(
        &format!("{} wrong logins of {CLIENTS} clients ({reported})", statuses.len()),
        server,
        before,
        quiet,
        worst?,
    )
}

/// Kinds of requests that the clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Exports,
    Oneshots,
    /// Jobs, whose rows the clients read when the jobs are done.
    Jobs,
    /// Rows of one job.
    Pages,
}

/// Pace at which clients read answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadPace {
    AtOnce,
    Stalled,
}

const STORMS: [(RequestKind, ReadPace); 6] = [
    (RequestKind::Exports, ReadPace::Stalled),
    (RequestKind::Oneshots, ReadPace::AtOnce),
    (RequestKind::Oneshots, ReadPace::Stalled),
    (RequestKind::Jobs, ReadPace::AtOnce),
    (RequestKind::Pages, ReadPace::AtOnce),
    (RequestKind::Pages, ReadPace::Stalled),
];

/// Number of events in an answer other than an export if each has this many added bytes.
fn rows_of_answer(wide: usize) -> usize {
    const SHORT: usize = 150;
    ANSWER_BYTES / (wide + SHORT)
}

impl Server {
    /// Starts a job, waits for its end and returns its name.
    fn job(&self, rows: usize) -> Result<String, String> {
        let body = format!("exec_mode=blocking&output_mode=json&max_count={rows}&search=search+*");
        let answer = self.ask("/services/search/jobs", &self.authorization(), &body);
        let answer = answer.map_err(|error| format!("a job is not answered: {error}"))?;
        let sid = answer.split_once("\"sid\":\"").and_then(|(_, rest)| rest.split_once('"'));
        sid.map(|(sid, _)| sid.to_owned()).ok_or_else(|| format!("a job does not begin: {answer}"))
    }

    /// Requests an answer with rows, which the caller reads; `page` is the job whose pages all clients read.
    fn rows(&self, asks: RequestKind, wide: usize, page: &str) -> Result<TcpStream, String> {
        let rows = rows_of_answer(wide);
        let results = |sid: &str| format!("/services/search/jobs/{sid}/results");
        let (path, body) = match asks {
            RequestKind::Exports => {
                ("/services/search/jobs/export".to_owned(), "search=search+*&output_mode=json&preview=0".to_owned())
            }
            RequestKind::Oneshots => (
                "/services/search/jobs".to_owned(),
                format!("exec_mode=oneshot&search=search+*&output_mode=json&count={rows}"),
            ),
            RequestKind::Jobs => (results(&self.job(rows)?), format!("output_mode=json&count={rows}")),
            RequestKind::Pages => (results(page), format!("output_mode=json&count={rows}")),
        };
        let failed = |error: std::io::Error| format!("an answer does not begin: {error}");
        self.send(&path, &self.authorization(), &body).map_err(failed)
    }
}

fn reader_storm(server: &Server, wide: usize, asks: RequestKind, reads: ReadPace) -> Result<Option<String>, String> {
    let quiet = server.search()?;
    let page = if asks == RequestKind::Pages { server.job(rows_of_answer(wide))? } else { String::new() };
    let before = server.peak_mb()?;
    let is_over = AtomicBool::new(false);
    let read = |number: usize| -> Result<TcpStream, String> {
        let failed = |error: std::io::Error| format!("an answer ends early: {error}");
        let mut stream = server.rows(asks, wide, &page)?;
        let sink = &mut std::io::sink();
        if reads == ReadPace::AtOnce {
            let bytes = std::io::copy(&mut stream, sink).map_err(failed)?;
            let least = (rows_of_answer(wide).min(server.events) * wide) as u64;
            if bytes <= least {
                return Err(format!("an answer has only {bytes} bytes, but its rows have {least}"));
            }
        } else if number.is_multiple_of(READ_EVERY) {
            let bytes = if asks == RequestKind::Exports { READ_BYTES } else { READ_BYTES_OF_ANSWER };
            std::io::copy(&mut (&mut stream).take(bytes), sink).map_err(failed)?;
        }
        Ok(stream)
    };
    let begun = now();
    let (answers, worst) = std::thread::scope(|scope| {
        let others = Others::begin(scope, server, &is_over);
        let read = &read;
        let clients: Vec<_> = (0..READERS).map(|number| scope.spawn(move || read(number))).collect();
        let answers: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        (answers, others.end())
    });
    let panicked = |_| Err("a client panicked".to_owned());
    let answers = answers.into_iter().map(|client| client.unwrap_or_else(panicked)).collect::<Result<Vec<_>, _>>()?;
    let took = begun.elapsed().as_millis();
    let what = format!("{} {asks:?} read {reads:?}, rows + {wide} bytes, {took} ms", answers.len());
    verdict(&what, server, before, quiet, worst?)
}

/// Clients that search during a storm, one after the other: the same user as in the storm and another one.
struct Others<'scope> {
    same: ScopedJoinHandle<'scope, Result<Duration, String>>,
    other: ScopedJoinHandle<'scope, Result<Duration, String>>,
}

impl<'scope> Others<'scope> {
    fn begin<'e>(scope: &'scope Scope<'scope, 'e>, server: &'scope Server, is_over: &'scope AtomicBool) -> Self {
        let searches = move |session: &'scope str| {
            let (mut worst, mut left) = (Duration::ZERO, SEARCHES);
            while !is_over.load(Ordering::Relaxed) || left > 0 {
                left = left.saturating_sub(1);
                worst = worst.max(server.search_as(session)?);
            }
            Ok(worst)
        };
        Others {
            same: scope.spawn(move || searches(&server.token)),
            other: scope.spawn(move || searches(&server.session)),
        }
    }

    fn end(self) -> Result<Waits, String> {
        let panicked = |_| Err("a client panicked".to_owned());
        Ok(Waits {
            same: self.same.join().unwrap_or_else(panicked)?,
            other: self.other.join().unwrap_or_else(panicked)?,
        })
    }
}

/// Longest durations of the other clients' searches.
struct Waits {
    same: Duration,
    other: Duration,
}

/// Reports the cost of a storm; returns a message if it exceeds a limit.
fn verdict(what: &str, server: &Server, before: u64, quiet: Duration, worst: Waits) -> Result<Option<String>, String> {
    let most = server.peak_mb()?;
    let reported = format!(
        "{what}: {most} MB at most ({before} before), another search of the same user {} ms at worst, of another user {} ms \
         ({} ms without load)",
        worst.same.as_millis(),
        worst.other.as_millis(),
        quiet.as_millis()
    );
    println!("{reported}");
    let is_beyond = most > RESIDENT_MB_MAX || worst.same > WAIT_MAX || worst.other > WAIT_MAX_OF_OTHERS;
    let (same, other) = (WAIT_MAX.as_millis(), WAIT_MAX_OF_OTHERS.as_millis());
    Ok(is_beyond.then(|| format!("{reported}: more than {RESIDENT_MB_MAX} MB, {same} or {other} ms")))
}
