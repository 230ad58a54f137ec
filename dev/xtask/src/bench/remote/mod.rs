//! Benchmark of searches over buckets on a remote S3 store: cold, from the cache, and for comparison on the same data
//! on the local disk.
//!
//! `cargo xtask bench --remote DIR [--latency MS]` takes a directory with the `syslog.log` of the comparison generator.
//! The data is added and compacted, unless an earlier run has done so, and copied. The copy is moved to a volume of
//! versitygw, behind a proxy that delays every request. Each search then runs on a new server with an empty cache, and
//! several more times on that server. Answers must equal those of the local data. Requests and bytes are counted by the
//! proxy. Further measurements are searches with a part of the data in the cache ([`shares`]), a search at the
//! bandwidth limit of the store, and ingest with upload ([`upload`]). At the end every missed goal is listed. With
//! `--requests NAME`, only the searches whose name contains NAME run, and their requests are listed, each with its time
//! since the search began, to show how many requests follow one another; with `--bandwidth MB`, on a store limited to
//! that many megabytes per second.

mod shares;
mod upload;

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quarry_s3world::{CONTAINER, FaultProxy, Faults, Gateway, KEY_ID, SECRET};

use super::ingest::{add, compact, folder_bytes};
use super::queries::{QUERIES, RUNS};
use super::server::{Connection, Server};
use super::{keep_partial_states, quarry};

const USAGE: &str = "usage: cargo xtask bench --remote DIR [--latency MS] [--requests NAME [--bandwidth MB]] \
                     (DIR with syslog.log in it)";
/// Default delay of a request.
const LATENCY_MS: u64 = 20;
/// Limited bandwidth of the store for one search; lower than the rate that client, proxy and server reach on one
/// machine.
const LIMIT_BYTES_PER_SECOND: u64 = 20_000_000;
/// Searches for rare events. The goals of a cold run: at most [`RARE_TIMES_MAX`] times the time on cached data plus
/// [`ROUND_TRIPS`] sequential requests, and at most [`RARE_SHARE_MAX`] percent of the stored bytes read.
const RARE: [&str; 4] = ["Q3 every1k", "Q4 every100k dc", "Q5 needle", BY_ID];
/// The search for an id that one line has.
const BY_ID: &str = "one id";
const RARE_TIMES_MAX: f64 = 3.0;
const RARE_SHARE_MAX: f64 = 2.0;
const ROUND_TRIPS: f64 = 4.0;
/// The search that reads every text, and how many times the duration of the transfer it may take.
const DENSE: &str = "whole texts";
const DENSE_TIMES_MAX: f64 = 1.3;
/// The search for the first rows, and how long it may take in addition to its requests.
const FIRST_ROWS: &str = "newest 100";
const FIRST_ROWS_MS_MAX: f64 = 300.0;
/// Maximum ratio of the times of searches on cached data and on local data, and the minimum difference that counts,
/// because smaller ones are noise.
const CACHED_TIMES_MAX: f64 = 1.05;
const NOISE_MS: f64 = 1.0;
/// Minimum ratio of the ingest rate with upload to the rate without.
const UPLOAD_RATIO_MIN: f64 = 0.8;
/// Maximum number of checks whether all buckets are uploaded; each takes as long as starting a process.
const UPLOAD_CHECKS_MAX: usize = 5_000;
/// Bytes read to find an id: more than two lines.
const ID_BYTES_READ: usize = 4_096;
/// A search that reads no bucket.
const WITHOUT_EVENTS: &str = "| makeresults";
/// Searches in addition to those of the comparison: over the texts of all events, for the newest events in two orders,
/// and of averages.
const EXTRA_SEARCHES: &[(&str, &str)] = &[
    ("whole texts", "index=main | eval n=len(_raw) | stats sum(n)"),
    ("newest 100", "index=main | head 100 | table _raw"),
    ("newest 10000 sorted", "index=main level=ERROR | sort 0 - user_id | head 10 | table user_id"),
    ("avg of numbers", "index=main | stats avg(latency_ms) max(latency_ms) by host"),
];

/// Runs all searches and prints the table.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let folder = arguments.first().map(PathBuf::from).ok_or(USAGE)?;
    let Options { latency, listed, bytes_per_second } = options_of(&arguments[1..])?;
    let gateway = Gateway::start().ok_or("versitygw is needed")?;
    let proxy = FaultProxy::start(gateway.address(), Faults::default());
    let (local, far) = (folder.join("quarry-local"), folder.join("quarry-far"));
    make_local(&folder.join("syslog.log"), &local)?;
    copy_to_volume(&local, &far, &proxy)?;
    let stored = folder_bytes(&local.join("db"));
    println!("{:.1} MB of buckets, {} ms more for each request", stored as f64 / 1e6, latency.as_millis());
    println!(
        "{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "search", "local ms", "cold ms", "cached ms", "requests", "MB", "% of data"
    );
    proxy.set(Faults { latency, bytes_per_second, ..Faults::default() });
    let local_server = Server::start(&local)?;
    let mut here = local_server.connect()?;
    let mut missed: Vec<String> = Vec::new();
    let by_id = format!("{} | table level user_id", id_in_the_middle(&folder.join("syslog.log"))?);
    let searches = QUERIES.iter().map(|(name, search, _)| (*name, *search)).chain(EXTRA_SEARCHES.iter().copied());
    let searches = searches.chain([(BY_ID, by_id.as_str())]);
    let searches = searches.filter(|(name, _)| listed.is_none_or(|listed| name.contains(listed)));
    for (name, search) in searches {
        let (expected, local_ms) = median(&mut here, search)?;
        empty_cache(&far)?;
        let server = Server::start(&far)?;
        let mut connection = server.connect()?;
        // Data that a server loads once, for its first search, is not counted.
        connection.oneshot(WITHOUT_EVENTS)?;
        let (requests, bytes) = (proxy.requests().len(), proxy.answered_bytes());
        let start = Instant::now();
        let answer = connection.search(search)?;
        let cold_ms = start.elapsed().as_secs_f64() * 1000.0;
        if listed.is_some() {
            list_requests(&proxy, requests, start);
        }
        let (requests, bytes) = (proxy.requests().len() - requests, proxy.answered_bytes() - bytes);
        let (again, cached_ms) = median(&mut connection, search)?;
        if answer != expected || again != expected {
            return Err(format!("{name}: the answer is not that of the local data:\n{answer}\n{expected}"));
        }
        let measured = Measured { name, local_ms, cold_ms, cached_ms, requests, bytes };
        missed.extend(measured.print_and_judge(stored, latency));
    }
    drop(here);
    drop(local_server);
    if listed.is_some() {
        return Ok(());
    }
    shares::run(&far)?;
    missed.extend(measure_limited_bandwidth(&far, &proxy, latency)?);
    proxy.set(Faults::default());
    let ratio = upload::run(&folder.join("syslog.log"), &folder, &proxy.url())?;
    if ratio < UPLOAD_RATIO_MIN {
        missed.push(format!("ingest with upload: {ratio:.2} of that without, at least {UPLOAD_RATIO_MIN}"));
    }
    println!("\n{} goals missed", missed.len());
    missed.iter().for_each(|goal| println!("  {goal}"));
    Ok(())
}

/// Figures of one search.
struct Measured<'a> {
    name: &'a str,
    local_ms: f64,
    cold_ms: f64,
    cached_ms: f64,
    requests: usize,
    bytes: u64,
}

impl Measured<'_> {
    /// Prints the figures; returns the goals they miss. `stored` are the bytes of all buckets.
    fn print_and_judge(&self, stored: u64, latency: Duration) -> Vec<String> {
        let Measured { name, local_ms, cold_ms, cached_ms, requests, bytes } = *self;
        let (megabytes, share) = (bytes as f64 / 1e6, bytes as f64 * 100.0 / stored as f64);
        println!(
            "{name:<24} {local_ms:>9.1} {cold_ms:>9.1} {cached_ms:>9.1} {requests:>9} {megabytes:>9.2} {share:>9.2}"
        );
        let trips_ms = ROUND_TRIPS * latency.as_secs_f64() * 1000.0;
        let goal = |what: &str, found: f64, most: f64| {
            (found > most).then(|| format!("{name}: {what} {found:.1}, at most {most:.1}"))
        };
        let mut missed = Vec::new();
        missed.extend(goal("cached ms", cached_ms, (local_ms * CACHED_TIMES_MAX).max(local_ms + NOISE_MS)));
        if RARE.contains(&name) {
            missed.extend(goal("cold ms", cold_ms, cached_ms * RARE_TIMES_MAX + trips_ms));
            missed.extend(goal("% of data", share, RARE_SHARE_MAX));
        }
        if name == FIRST_ROWS {
            missed.extend(goal("cold ms", cold_ms, FIRST_ROWS_MS_MAX + trips_ms));
        }
        missed
    }
}

/// The `request_id` of a line in the middle of the log.
fn id_in_the_middle(log: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let mut file = fs::File::open(log).map_err(failed)?;
    let middle = file.metadata().map_err(failed)?.len() / 2;
    file.seek(SeekFrom::Start(middle)).map_err(failed)?;
    let mut bytes = vec![0; ID_BYTES_READ];
    let read = file.read(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
    let id = text.split("request_id=").nth(1).and_then(|rest| rest.split(' ').next());
    id.map(str::to_owned).ok_or_else(|| format!("{}: no request_id in the middle", log.display()))
}

/// Options of the command line.
struct Options<'a> {
    /// Delay of a request.
    latency: Duration,
    /// Name of `--requests`.
    listed: Option<&'a str>,
    /// Bandwidth of the store for the listed searches; 0 for no limit.
    bytes_per_second: u64,
}

fn options_of(arguments: &[String]) -> Result<Options<'_>, String> {
    let mut options = Options { latency: Duration::from_millis(LATENCY_MS), listed: None, bytes_per_second: 0 };
    for option in arguments.chunks(2) {
        match option {
            [name, value] if name == "--latency" => {
                options.latency = Duration::from_millis(value.parse().map_err(|_| USAGE)?);
            }
            [name, value] if name == "--requests" => options.listed = Some(value.as_str()),
            [name, value] if name == "--bandwidth" => {
                options.bytes_per_second = value.parse::<u64>().map_err(|_| USAGE)?.saturating_mul(1_000_000);
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    match options.listed {
        None if options.bytes_per_second > 0 => Err(USAGE.to_owned()),
        _ => Ok(options),
    }
}

/// Prints each request after the first `before` ones: milliseconds from `start` to its arrival and to its answer,
/// range, and first line.
fn list_requests(proxy: &FaultProxy, before: usize, start: Instant) {
    for request in proxy.requests().iter().skip(before) {
        let ms_until = |time: Instant| time.saturating_duration_since(start).as_secs_f64() * 1000.0;
        let (at, answered) = (ms_until(request.arrived), request.answered.map_or(f64::NAN, ms_until));
        let line = request.head.lines().next().unwrap_or_default();
        println!("  {at:>8.1} {answered:>8.1} {:<32} {line}", request.header("range").unwrap_or_default());
    }
}

/// Measures the dense search with an empty cache on a store of limited bandwidth.
fn measure_limited_bandwidth(far: &Path, proxy: &FaultProxy, latency: Duration) -> Result<Option<String>, String> {
    let search = EXTRA_SEARCHES.iter().find(|(name, _)| *name == DENSE).map(|(_, search)| *search).unwrap_or_default();
    empty_cache(far)?;
    let server = Server::start(far)?;
    let mut connection = server.connect()?;
    proxy.set(Faults { latency, bytes_per_second: LIMIT_BYTES_PER_SECOND, ..Faults::default() });
    let (before, start) = (proxy.answered_bytes(), Instant::now());
    connection.search(search)?;
    let (bytes, seconds) = (proxy.answered_bytes() - before, start.elapsed().as_secs_f64());
    proxy.set(Faults { latency, ..Faults::default() });
    let transfer = bytes as f64 / LIMIT_BYTES_PER_SECOND as f64;
    let times = seconds / transfer;
    println!(
        "\n{DENSE}, store limited to {} MB/s: {:.1} MB take {transfer:.2} s, the search {seconds:.2} s ({times:.2} times)",
        LIMIT_BYTES_PER_SECOND / 1_000_000,
        bytes as f64 / 1e6,
    );
    Ok((times > DENSE_TIMES_MAX).then(|| format!("{DENSE}: {times:.2} times the transfer, at most {DENSE_TIMES_MAX}")))
}

fn empty_cache(far: &Path) -> Result<(), String> {
    let cache = far.join("cache");
    match cache.exists() {
        true => fs::remove_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display())),
        false => Ok(()),
    }
}

/// Runs a search repeatedly; returns its answer and the median time in milliseconds without the first run.
fn median(connection: &mut Connection<'_>, search: &str) -> Result<(String, f64), String> {
    let answer = connection.search(search)?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        connection.search(search)?;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok((answer, times[times.len() / 2]))
}

/// Adds and compacts the data, unless an earlier run has done so.
fn make_local(input: &Path, local: &Path) -> Result<(), String> {
    if !local.exists() {
        add(input, None, local)?;
        compact(local)?;
    }
    keep_partial_states(local, false)
}

/// Copies the data and moves its buckets to the volume.
fn copy_to_volume(local: &Path, far: &Path, proxy: &FaultProxy) -> Result<(), String> {
    if far.exists() {
        fs::remove_dir_all(far).map_err(|error| format!("{}: {error}", far.display()))?;
    }
    copy_folder(local, far)?;
    write(far, "indexes.conf", &volume_conf(&proxy.url(), "bench"))?;
    // This requires more free space than the disk has, so no local copy is kept.
    write(far, "server.conf", "[cachemanager]\neviction_padding = 1000000000\n")?;
    let server = Server::start(far)?;
    wait_until_uploaded(far)?;
    drop(server);
    write(far, "server.conf", "")
}

/// Text of indexes.conf for a data directory whose index `main` is on a volume.
fn volume_conf(url: &str, prefix: &str) -> String {
    format!(
        "[main]\nremotePath = volume:far/$_index_name\n[volume:far]\nstorageType = remote\npath = s3://{CONTAINER}/{prefix}\n\
         remote.s3.endpoint = {url}\nremote.s3.access_key = {KEY_ID}\nremote.s3.secret_key = {SECRET}\n"
    )
}

fn wait_until_uploaded(far: &Path) -> Result<(), String> {
    for _ in 0..UPLOAD_CHECKS_MAX {
        if is_uploaded(far)? {
            return Ok(());
        }
    }
    Err("the buckets were not uploaded".to_owned())
}

/// True if all sealed buckets of the data are only on the volume.
fn is_uploaded(far: &Path) -> Result<bool, String> {
    let listed = quarry(far).args(["bucket", "list", "-o", "csv"]).output();
    let listed = listed.map_err(|error| format!("cannot run quarry: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let is_sealed = |line: &&str| line.starts_with("main~") && !line.contains(",hot,");
    let mut of_main = listed.lines().filter(is_sealed).peekable();
    Ok(of_main.peek().is_some() && of_main.all(|line| line.contains(",remote,")))
}

fn write(data: &Path, name: &str, text: &str) -> Result<(), String> {
    let file = data.join("etc/system/local").join(name);
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (inner, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(failed)?.is_dir() {
            copy_folder(&inner, &copy)?;
        } else {
            fs::copy(&inner, &copy).map_err(failed)?;
        }
    }
    Ok(())
}
