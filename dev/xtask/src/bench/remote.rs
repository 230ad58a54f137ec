//! Benchmark of searches over buckets on a remote S3 store: cold, from the cache, and for comparison on the same data
//! on the local disk.
//!
//! `cargo xtask bench --remote DIR [--latency MS]` takes a directory with the `syslog.log` of the comparison generator.
//! The data is added and compacted once, copied, and the copy moved to a volume of versitygw, behind a proxy that
//! delays every request. Each search then runs on a new server with an empty cache, and several more times on that
//! server. Answers must equal those of the local data. Requests and bytes are counted by the proxy.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quarry_s3world::{CONTAINER, FaultProxy, Faults, Gateway, KEY_ID, SECRET};

use super::ingest::{add, compact, folder_bytes};
use super::queries::{QUERIES, RUNS};
use super::server::{Connection, Server};
use super::{keep_partial_states, quarry};

const USAGE: &str = "usage: cargo xtask bench --remote DIR [--latency MS] (DIR with syslog.log in it)";
/// Default delay of a request.
const LATENCY_MS: u64 = 20;
/// Maximum checks whether all buckets are uploaded; each takes as long as starting a process.
const LOOKS_MAX: usize = 5_000;
/// Additional searches beside those of the comparison: all texts, the newest events, and a line that exists once.
const MORE: &[(&str, &str)] = &[
    ("whole texts", "index=main | eval n=len(_raw) | stats sum(n)"),
    ("newest 100", "index=main | head 100 | table _raw"),
    ("newest 10000 sorted", "index=main level=ERROR | sort 0 - user_id | head 10 | table user_id"),
    ("avg of numbers", "index=main | stats avg(latency_ms) max(latency_ms) by host"),
];

/// Runs all searches and prints the table.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let folder = arguments.first().map(PathBuf::from).ok_or(USAGE)?;
    let latency = match arguments.get(1).map(String::as_str) {
        None => Duration::from_millis(LATENCY_MS),
        Some("--latency") => {
            let given = arguments.get(2).and_then(|text| text.parse().ok()).ok_or(USAGE)?;
            Duration::from_millis(given)
        }
        Some(_) => return Err(USAGE.to_owned()),
    };
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
    proxy.set(Faults { latency, ..Faults::default() });
    let here = Server::start(&local)?;
    let mut here = here.connect()?;
    let searches = QUERIES.iter().map(|(name, search, _)| (*name, *search)).chain(MORE.iter().copied());
    for (name, search) in searches {
        let (expected, local_ms) = median(&mut here, search)?;
        let cache = far.join("cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
        }
        let server = Server::start(&far)?;
        let mut connection = server.connect()?;
        let (requests, bytes) = (proxy.seen().len(), proxy.answered_bytes());
        let start = Instant::now();
        let answer = connection.search(search)?;
        let cold_ms = start.elapsed().as_secs_f64() * 1000.0;
        let (requests, bytes) = (proxy.seen().len() - requests, proxy.answered_bytes() - bytes);
        let (again, cached_ms) = median(&mut connection, search)?;
        if answer != expected || again != expected {
            return Err(format!("{name}: the answer is not that of the local data:\n{answer}\n{expected}"));
        }
        let (megabytes, share) = (bytes as f64 / 1e6, bytes as f64 * 100.0 / stored as f64);
        println!(
            "{name:<24} {local_ms:>9.1} {cold_ms:>9.1} {cached_ms:>9.1} {requests:>9} {megabytes:>9.2} {share:>9.2}"
        );
    }
    Ok(())
}

/// The answer of a search and the median of its times in milliseconds, without the first run.
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
    let url = proxy.url();
    let indexes = format!(
        "[main]\nremotePath = volume:far/$_index_name\n[volume:far]\nstorageType = remote\npath = s3://{CONTAINER}/bench\n\
         remote.s3.endpoint = {url}\nremote.s3.access_key = {KEY_ID}\nremote.s3.secret_key = {SECRET}\n"
    );
    write(far, "indexes.conf", &indexes)?;
    // The disk has less free space than this, so no local copy is kept.
    write(far, "server.conf", "[cachemanager]\neviction_padding = 1000000000\n")?;
    let server = Server::start(far)?;
    for _ in 0..LOOKS_MAX {
        if is_far(far)? {
            drop(server);
            return write(far, "server.conf", "");
        }
    }
    Err("the buckets were not uploaded".to_owned())
}

/// Whether all buckets of the data are only on the volume.
fn is_far(far: &Path) -> Result<bool, String> {
    let listed = quarry(far).args(["bucket", "list", "-o", "csv"]).output();
    let listed = listed.map_err(|error| format!("cannot run quarry: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut of_main = listed.lines().filter(|line| line.starts_with("main~")).peekable();
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
