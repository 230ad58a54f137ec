//! Benchmark of many users during ingest, of the first preview of a dense search, and of the cost of a oneshot search.
//!
//! `cargo xtask bench --users DIR` takes the directory of the comparison data (`syslog.log`) and indexes it unless an
//! earlier run has done so. Then
//!
//! - senders post the file to the event collector of the same server, into an index of its own, in bodies of
//!   [`BODY_BYTES`] at a total rate of [`RATE`], first without searches and then while [`USERS`] users search for
//!   needles;
//! - a job of a dense search over all events is created, and its preview is polled until it has a row;
//! - one user runs [`ONESHOTS`] needle searches, and the CPU time of the server is divided by their number.
//!
//! Goals: needle searches take at most 100 ms at the 95th percentile, ingest keeps 80 % of its rate without searches,
//! no request fails, and a preview appears within 300 ms. The CPU time of a oneshot is compared between binaries
//! (`QUARRY_BENCH_BINARY`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::figures::Figures;
use super::needles::needles_of;
use super::server::Server;
use super::{ingest, keep_partial_states};

/// Number of users that search concurrently.
const USERS: usize = 32;
/// Time during which users search: during ingest, and without it.
const MEASURED: Duration = Duration::from_secs(60);
const MEASURED_ALONE: Duration = Duration::from_secs(15);
/// Target rate of all senders together, in bytes per second.
const RATE: f64 = 50e6;
/// Number of sending connections.
const SENDERS: usize = 4;
/// Size of a body; it ends with a whole line.
const BODY_BYTES: usize = 1 << 20;
/// Number of oneshot searches whose cost is measured.
const ONESHOTS: usize = 2_000;
/// Number of previews measured; the median counts.
const PREVIEWS: usize = 5;
/// Index that the senders write to.
const OTHER_INDEX: &str = "users_beside";
/// Token of the senders.
const TOKEN: &str = "0c1a5f54-6f4e-4a3b-9a70-7d5e9c8b2f11";
/// Dense searches by name: a report, and a search for all events.
const DENSE: [(&str, &str); 2] = [("report", "index=main | stats count BY level"), ("events", "index=main")];
const USAGE: &str = "usage: cargo xtask bench --users DIR (DIR with syslog.log in it)";

/// Measures and prints everything.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let folder = arguments.first().map(PathBuf::from).ok_or(USAGE)?;
    let (input, data) = (folder.join("syslog.log"), folder.join("quarry-users"));
    let mut figures = Figures::load();
    if !data.exists() {
        ingest::run(&input, &data, "syslog.log", &mut figures)?;
    }
    let local = data.join("etc/system/local");
    keep_partial_states(&data, false)?;
    let conf = [
        ("indexes.conf", format!("[{OTHER_INDEX}]\n")),
        (
            "inputs.conf",
            format!(
                "[http]\ndisabled = 0\n[http://bench]\ntoken = {TOKEN}\nindex = {OTHER_INDEX}\nsourcetype = syslog\n"
            ),
        ),
    ];
    for (name, text) in conf {
        let file = local.join(name);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let server = Server::start_with(&data, &["--hec", "127.0.0.1:0"])?;
    previews(&server, &mut figures)?;
    let needles = needles_of(&input).map_err(|error| format!("{}: {error}", input.display()))?;
    oneshots(&server, &needles, &mut figures)?;
    let alone = Senders::new(&server, &input).during(MEASURED_ALONE, || Ok(()))?.0;
    figures.add("ingest alone MB/s", alone);
    let users = Users { server: &server, needles: &needles };
    let times = users.search_for(MEASURED_ALONE)?;
    figures.add("needle p95 ms, alone", quantile(&times, 0.95));
    let (beside, times) = Senders::new(&server, &input).during(MEASURED, || users.search_for(MEASURED))?;
    figures.add("ingest beside users MB/s", beside);
    figures.add("ingest beside / alone, %", beside / alone * 100.0);
    figures.add("needles/min beside ingest", times.len() as f64 / (MEASURED.as_secs_f64() / 60.0));
    figures.add("needle p50 ms, beside ingest", quantile(&times, 0.5));
    figures.add("needle p95 ms, beside ingest", quantile(&times, 0.95));
    figures.add("needle p99 ms, beside ingest", quantile(&times, 0.99));
    drop(server);
    figures.save(false)
}

/// Quantile `share` of sorted times.
fn quantile(times: &[f64], share: f64) -> f64 {
    let place = (times.len() as f64 * share) as usize;
    times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Users that search for needles, each on a connection of its own. An error of one user ends the measurement.
struct Users<'a> {
    server: &'a Server,
    needles: &'a [String],
}

impl Users<'_> {
    /// Runs searches for `time`; returns their sorted times in milliseconds.
    fn search_for(&self, time: Duration) -> Result<Vec<f64>, String> {
        let (start, next) = (Instant::now(), AtomicUsize::new(0));
        let user = || -> Result<Vec<f64>, String> {
            let mut connection = self.server.connect()?;
            let mut times = Vec::new();
            while start.elapsed() < time {
                let needle = &self.needles[next.fetch_add(1, Ordering::Relaxed) % self.needles.len()];
                let asked = Instant::now();
                let answer = connection.search(&format!("index=main {needle}"))?;
                times.push(asked.elapsed().as_secs_f64() * 1e3);
                if answer.trim_end().lines().count() < 2 {
                    return Err(format!("{needle} found nothing:\n{answer}"));
                }
            }
            Ok(times)
        };
        let times = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..USERS).map(|_| scope.spawn(user)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a user panicked".to_owned())?);
            joined.collect::<Result<Vec<_>, String>>()
        })?;
        let mut times: Vec<f64> = times.into_iter().flatten().collect();
        times.sort_by(f64::total_cmp);
        Ok(times)
    }
}

/// Senders that post a file repeatedly.
struct Senders<'a> {
    server: &'a Server,
    input: &'a Path,
    sent: AtomicU64,
    is_over: AtomicBool,
}

impl<'a> Senders<'a> {
    fn new(server: &'a Server, input: &'a Path) -> Senders<'a> {
        Senders { server, input, sent: AtomicU64::new(0), is_over: AtomicBool::new(false) }
    }

    /// Sends for at least this time and as long as `work` runs; returns the acknowledged megabytes per second and the
    /// result of `work`.
    fn during<T: Default + Send>(
        &self,
        time: Duration,
        work: impl FnOnce() -> Result<T, String> + Send,
    ) -> Result<(f64, T), String> {
        let start = Instant::now();
        let (found, sent, seconds) = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS).map(|number| scope.spawn(move || self.send(number, start))).collect();
            let found = work();
            while start.elapsed() < time && found.is_ok() {
                std::thread::park_timeout(time.saturating_sub(start.elapsed()));
            }
            let (sent, seconds) = (self.sent.load(Ordering::Relaxed), start.elapsed().as_secs_f64());
            self.is_over.store(true, Ordering::Relaxed);
            let ended: Result<Vec<()>, String> =
                senders.into_iter().map(|sender| sender.join().map_err(|_| "a sender panicked".to_owned())?).collect();
            (found.and_then(|found| ended.map(|_| found)), sent, seconds)
        });
        Ok((sent as f64 / 1e6 / seconds, found?))
    }

    fn send(&self, number: usize, start: Instant) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.input.display());
        let mut file = File::open(self.input).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        file.seek(SeekFrom::Start(size / SENDERS as u64 * number as u64)).map_err(failed)?;
        let mut lines = BufReader::with_capacity(BODY_BYTES, file);
        // The first line is incomplete.
        lines.read_until(b'\n', &mut Vec::new()).map_err(failed)?;
        let mut connection = self.server.connect_to_collector()?;
        while !self.is_over.load(Ordering::Relaxed) {
            let mut body = Vec::with_capacity(BODY_BYTES + 4_096);
            (&mut lines).take(BODY_BYTES as u64).read_to_end(&mut body).map_err(failed)?;
            lines.read_until(b'\n', &mut body).map_err(failed)?;
            if body.is_empty() {
                lines.seek(SeekFrom::Start(0)).map_err(failed)?;
                continue;
            }
            connection.collect(TOKEN, &body)?;
            let sent = self.sent.fetch_add(body.len() as u64, Ordering::Relaxed) + body.len() as u64;
            let due = Duration::from_secs_f64(sent as f64 / RATE);
            std::thread::park_timeout(due.saturating_sub(start.elapsed()));
        }
        Ok(())
    }
}

/// Measures the milliseconds from the request for a job to the first row of its preview.
fn previews(server: &Server, figures: &mut Figures) -> Result<(), String> {
    for (name, search) in DENSE {
        let mut times = Vec::new();
        for _ in 0..PREVIEWS {
            let mut connection = server.connect()?;
            let start = Instant::now();
            let job = connection.create_job(search)?;
            while !connection.has_preview(&job)? {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            times.push(start.elapsed().as_secs_f64() * 1e3);
            connection.remove_job(&job)?;
        }
        times.sort_by(f64::total_cmp);
        figures.add(&format!("first preview ms, {name}"), quantile(&times, 0.5));
        figures.add(&format!("slowest first preview ms, {name}"), quantile(&times, 1.0));
    }
    Ok(())
}

/// Measures the CPU time of the server per needle search.
fn oneshots(server: &Server, needles: &[String], figures: &mut Figures) -> Result<(), String> {
    let mut connection = server.connect()?;
    let mut ask = |count: usize| -> Result<(), String> {
        for needle in needles.iter().cycle().take(count) {
            connection.search(&format!("index=main {needle}"))?;
        }
        Ok(())
    };
    ask(ONESHOTS / 4)?;
    let (before, start) = (server.cpu_seconds()?, Instant::now());
    ask(ONESHOTS)?;
    let (cpu_s, wall_s) = (server.cpu_seconds()? - before, start.elapsed().as_secs_f64());
    figures.add("oneshot CPU us", cpu_s * 1e6 / ONESHOTS as f64);
    figures.add("oneshot wall us", wall_s * 1e6 / ONESHOTS as f64);
    Ok(())
}
