//! Load on a server: searches during ingest, and many clients at once.
//!
//! `--load` measures this instead of single questions. A shape's events are first indexed and compacted as usual. Then
//!
//! - one client repeatedly asks the shape's questions while the same server adds a second draw of the shape to the same
//!   index, and again when everything is sealed and compacted; before that, the second draw is added to another index
//!   without searches, for comparison;
//! - [`CLIENTS`] clients ask Quarry all questions, each client beginning at a different one, and then the same is
//!   measured with as many threads of DuckDB over the parsed table.
//!
//! Only wall times are compared; answers are checked by the runs of single questions.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quarry_eventgen::shapes::{Query, Shape};
use serde_json::{Value, json};

use super::super::ingest;
use super::super::server::Server;
use super::append_to;
use super::peer::Peer;

/// Number of concurrent clients for which the performance goal is stated.
const CLIENTS: usize = 16;
/// Time during which clients send queries.
const MEASURED: Duration = Duration::from_secs(10);
/// Rounds over all questions while no events are added.
const ROUNDS_ALONE: usize = 2;
/// Index to which events are added without concurrent searches.
const OTHER_INDEX: &str = "load_alone";

/// Load test of a server: events are added while it is searched.
pub(super) struct Load<'a> {
    /// Data directory that contains the first draw.
    pub(super) data: &'a Path,
    /// Folder with the files of the second draw.
    pub(super) more: &'a Path,
    /// Total size of these files.
    pub(super) more_bytes: u64,
    pub(super) shape: &'a dyn Shape,
    pub(super) queries: &'a [Query],
}

impl Load<'_> {
    /// Measures everything; returns the figures by name.
    pub(super) fn measure(&self, duckdb: &mut Peer) -> Result<Vec<(&'static str, f64)>, String> {
        append_to(&self.data.join("etc/system/local/indexes.conf"), &format!("[{OTHER_INDEX}]\n"))?;
        let server = Server::start(self.data)?;
        let mut figures = self.clients(&server, duckdb)?;
        let megabytes = self.more_bytes as f64 / 1e6;
        let before = latencies(&server, self.queries, ROUNDS_ALONE)?;
        let alone_s = self.add(&server, OTHER_INDEX)?;
        let is_done = AtomicBool::new(false);
        let (beside, added) = std::thread::scope(|scope| {
            let searches = scope.spawn(|| latencies_until(&server, self.queries, &is_done));
            let added = self.add(&server, "main");
            is_done.store(true, Ordering::Relaxed);
            let beside = searches.join().map_err(|_| "the searching client panicked".to_owned());
            (beside.and_then(|outcome| outcome), added)
        });
        let (beside, beside_s) = (beside?, added?);
        // Searches during indexing are compared with searches after it, over compacted buckets.
        drop(server);
        ingest::compact(self.data)?;
        let server = Server::start(self.data)?;
        let after = latencies(&server, self.queries, ROUNDS_ALONE)?;
        let both = [("before", &before), ("beside", &beside), ("after", &after)];
        for (name, times) in both {
            println!(
                "  searches {name:<7} p50 {:>8.1} ms  p95 {:>8.1} ms",
                quantile(times, 0.5),
                quantile(times, 0.95)
            );
        }
        figures.extend([
            ("ingest alone MB/s", megabytes / alone_s),
            ("ingest beside searches MB/s", megabytes / beside_s),
            ("ingest beside / alone", alone_s / beside_s),
            ("search p95 beside ms", quantile(&beside, 0.95)),
            ("search p95 after ms", quantile(&after, 0.95)),
            ("search p95 beside / after", quantile(&beside, 0.95) / quantile(&after, 0.95)),
            ("search p50 beside / after", quantile(&beside, 0.5) / quantile(&after, 0.5)),
        ]);
        Ok(figures)
    }

    /// Adds the second draw through the running server; returns the seconds until all of it is sealed.
    ///
    /// The time until the last event is acknowledged would say little, because a server holds several slabs that wait
    /// for their seal.
    fn add(&self, server: &Server, index: &str) -> Result<f64, String> {
        let start = Instant::now();
        for file in self.shape.files() {
            ingest::add_by_server(&self.more.join(file.name), file.sourcetype, index, self.data)?;
        }
        server.connect()?.roll_hot_buckets(index)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Queries per second with many concurrent clients.
    fn clients(&self, server: &Server, duckdb: &mut Peer) -> Result<Vec<(&'static str, f64)>, String> {
        let start = Instant::now();
        let client = |number: usize| -> Result<usize, String> {
            let mut connection = server.connect()?;
            let mut answered = 0;
            let first = number * self.queries.len() / CLIENTS;
            for query in self.queries.iter().cycle().skip(first) {
                if start.elapsed() > MEASURED {
                    break;
                }
                connection.search(&query.spl)?;
                answered += 1;
            }
            Ok(answered)
        };
        let answered = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
            let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked".to_owned())?);
            joined.sum::<Result<usize, String>>()
        })?;
        let quarry = answered as f64 / start.elapsed().as_secs_f64();
        let statements: Vec<&String> = self.queries.iter().map(|query| &query.parsed).collect();
        let reply =
            duckdb.ask(&json!({"clients": CLIENTS, "seconds": MEASURED.as_secs(), "statements": statements}))?;
        let rate = |reply: &Value| reply["per_second"].as_f64().unwrap_or(f64::NAN);
        Ok(vec![
            ("questions/s, 16 clients", quarry),
            ("DuckDB's", rate(&reply)),
            ("Quarry's / DuckDB's", quarry / rate(&reply)),
        ])
    }
}

/// Times in milliseconds of all queries, run in this number of rounds.
fn latencies(server: &Server, queries: &[Query], rounds: usize) -> Result<Vec<f64>, String> {
    let mut connection = server.connect()?;
    let mut times = Vec::new();
    for query in std::iter::repeat_n(queries, rounds).flatten() {
        let asked = Instant::now();
        connection.search(&query.spl)?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// Times in milliseconds of the queries, which are run one after the other, again and again, until `is_done` is set.
fn latencies_until(server: &Server, queries: &[Query], is_done: &AtomicBool) -> Result<Vec<f64>, String> {
    let mut connection = server.connect()?;
    let mut times = Vec::new();
    for query in queries.iter().cycle() {
        if is_done.load(Ordering::Relaxed) {
            break;
        }
        let asked = Instant::now();
        connection.search(&query.spl)?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// Quantile `share` of the times; NaN if there are no times.
fn quantile(times: &[f64], share: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let at = (times.len() as f64 * share) as usize;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
