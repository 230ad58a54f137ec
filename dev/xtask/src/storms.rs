//! `cargo xtask storms [--binary PATH]`: clients that mean no good, many at a time, and another one that only wants to search.
//!
//! First 64 clients log in with wrong passwords, then 70 clients export events and do not read them: some nothing, some
//! only the beginning; the same with rows of a kilobyte, of 64 KB and of a megabyte. What the server takes and how long
//! another search of the same user waits, from the first of these clients on, is told, and bounded.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::soak_node;

/// Clients of a storm.
const CLIENTS: usize = 64;
/// Logins of each.
const LOGINS: usize = 20;
/// Clients that do not read: more than searches run at once.
const STALLED: usize = 70;
/// Events to export: how many, and bytes of text added to each.
const EVENTS: [(usize, usize); 4] = [(300_000, 0), (100_000, 1_000), (2_500, 64 << 10), (160, 1 << 20)];
/// Exports of which the beginning is read, and bytes of it.
const READ_EVERY: usize = 2;
const READ_BYTES: u64 = 24 << 20;
/// Searches of the other client beside the exports.
const SEARCHES: usize = 30;
/// Most memory that the server may take at any moment, in MB.
const RESIDENT_MB_MAX: u64 = 1_000;
/// Longest wait of the other client; generous, as other work may run beside.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Longest wait for the server.
const START_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[expect(clippy::disallowed_methods, reason = "a tool that measures looks at the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Runs both storms.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let named = arguments.iter().position(|argument| argument == "--binary").and_then(|at| arguments.get(at + 1));
    let binary = named.map_or_else(soak_node::binary, |path| Ok(PathBuf::from(path)))?;
    let folder = std::env::temp_dir().join(format!("quarry-storms-{}", std::process::id()));
    let ran = storms(&binary, &folder);
    drop(std::fs::remove_dir_all(&folder));
    ran
}

/// Runs all of them, also behind one that takes too much.
fn storms(binary: &Path, folder: &Path) -> Result<(), String> {
    let mut beyond = Vec::new();
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    for (events, wide) in EVENTS {
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
                filling(at, wide)
            )
        };
        std::fs::write(&log, (0..events).map(line).collect::<String>()).map_err(cannot)?;
        let data = folder.join("data");
        let conf = data.join("etc/system/local");
        std::fs::create_dir_all(&conf).map_err(cannot)?;
        std::fs::write(conf.join("props.conf"), "[default]\nTRUNCATE = 0\n").map_err(cannot)?;
        let added = Command::new(binary).arg("--data-dir").arg(&data).args(["add", "oneshot"]).arg(&log).output();
        if !added.as_ref().is_ok_and(|added| added.status.success()) {
            return Err(format!("the events cannot be added: {added:?}"));
        }
        if wide == 0 {
            beyond.extend(login_storm(&Server::start(binary, &data, events)?)?);
        }
        beyond.extend(stalled_storm(&Server::start(binary, &data, events)?, wide)?);
        std::fs::remove_dir_all(folder).map_err(cannot)?;
    }
    if beyond.is_empty() { Ok(()) } else { Err(beyond.join("; ")) }
}

/// Words of no sense, so many bytes of them, other ones for each event.
fn filling(at: usize, bytes: usize) -> String {
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
    /// Events that it has.
    events: usize,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
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
        let mut server = Server { child, address: String::new(), token: String::new(), events };
        let begun = now();
        while begun.elapsed() < START_MAX {
            let run: Option<Value> =
                std::fs::read_to_string(&run_file).ok().and_then(|text| serde_json::from_str(&text).ok());
            if let Some(run) = run {
                let text_of = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
                (server.address, server.token) = (text_of("mgmt"), text_of("token"));
                return Ok(server);
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        Err("the server does not start".to_owned())
    }

    /// The most memory that it had at any moment, in MB.
    fn most_mb(&self) -> Result<u64, String> {
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

    fn authorization(&self) -> String {
        format!("Authorization: Splunk {}\r\n", self.token)
    }

    /// One search of the client that means well; how long it took.
    fn search(&self) -> Result<Duration, String> {
        let begun = now();
        let body = "exec_mode=oneshot&output_mode=json&search=search+*+%7C+stats+count";
        let answer = self.ask("/services/search/jobs", &self.authorization(), body);
        let answer = answer.map_err(|error| format!("a search is not answered: {error}"))?;
        if !answer.contains(&format!("\"count\":\"{}\"", self.events)) {
            return Err(format!("a search is answered wrongly: {answer}"));
        }
        Ok(begun.elapsed())
    }
}

fn login_storm(server: &Server) -> Result<Option<String>, String> {
    let quiet = server.search()?;
    let before = server.most_mb()?;
    let is_over = AtomicBool::new(false);
    let (statuses, worst) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                worst = worst.max(server.search()?);
            }
            Ok::<_, String>(worst)
        });
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
        let worst = other.join().unwrap_or(Err("the other client panicked".to_owned()));
        (statuses, worst)
    });
    let of = |status: &str| statuses.iter().filter(|other| *other == status).count();
    let told = format!("401: {}, 429: {}, 503: {}", of("401"), of("429"), of("503"));
    let odd = statuses.len() - of("401") - of("429") - of("503");
    if odd > 0 || statuses.len() < CLIENTS * LOGINS {
        return Err(format!("logins: {odd} of {} are answered otherwise ({told})", statuses.len()));
    }
    verdict(&format!("{} wrong logins of {CLIENTS} clients ({told})", statuses.len()), server, before, quiet, worst?)
}

fn stalled_storm(server: &Server, wide: usize) -> Result<Option<String>, String> {
    let quiet = server.search()?;
    let before = server.most_mb()?;
    let body = "search=search+*&output_mode=json&preview=0";
    let (is_over, left) = (AtomicBool::new(false), AtomicUsize::new(SEARCHES));
    let stall = |number: usize| -> Result<TcpStream, String> {
        let failed = |error: std::io::Error| format!("an export does not begin: {error}");
        let mut stream = server.send("/services/search/jobs/export", &server.authorization(), body).map_err(failed)?;
        if number.is_multiple_of(READ_EVERY) {
            let read = std::io::copy(&mut (&mut stream).take(READ_BYTES), &mut std::io::sink());
            read.map_err(|error| format!("an export ends early: {error}"))?;
        }
        Ok(stream)
    };
    let (stalled, worst) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) || left.fetch_sub(1, Ordering::Relaxed) > 1 {
                worst = worst.max(server.search()?);
            }
            Ok::<_, String>(worst)
        });
        let stall = &stall;
        let clients: Vec<_> = (0..STALLED).map(|number| scope.spawn(move || stall(number))).collect();
        let stalled: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        (stalled, other.join().unwrap_or(Err("the other client panicked".to_owned())))
    });
    let panicked = |_| Err("a client panicked".to_owned());
    let stalled = stalled.into_iter().map(|client| client.unwrap_or_else(panicked)).collect::<Result<Vec<_>, _>>()?;
    verdict(&format!("{} exports that nobody reads, rows + {wide} bytes", stalled.len()), server, before, quiet, worst?)
}

/// Tells what a storm took, and gives it when that was too much.
fn verdict(
    what: &str,
    server: &Server,
    before: u64,
    quiet: Duration,
    worst: Duration,
) -> Result<Option<String>, String> {
    let most = server.most_mb()?;
    let told = format!(
        "{what}: {most} MB at most ({before} before), another search of the same user {} ms at worst ({} ms in quiet)",
        worst.as_millis(),
        quiet.as_millis()
    );
    println!("{told}");
    let is_beyond = most > RESIDENT_MB_MAX || worst > WAIT_MAX;
    Ok(is_beyond.then(|| format!("{told}: more than {RESIDENT_MB_MAX} MB or {} ms", WAIT_MAX.as_millis())))
}
