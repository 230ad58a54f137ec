//! Randomised log formats: benchmark that asks Quarry, DuckDB and ClickHouse (chdb) the same questions, one engine
//! after the other.
//!
//! ```text
//! cargo xtask bench --shapes [--seed N] [--start SECONDS] [--mb M] [--only SHAPE,…] [--sealed]
//!   [--load | --ingest] [--quick] [--no-chdb] [--folder DIR] [--keep]
//! ```
//!
//! Each run uses a new seed unless one is given, so that no engine can be tuned to the data. Per shape, the generator
//! writes the texts and the parsed table; `quarry add oneshot` indexes the texts (wall, CPU, memory, disk before and
//! after compaction, compared with zstd and Parquet); then each of the following engines answers every question once: a
//! Quarry server over HTTP without the cache of partial states, DuckDB over Parquet with parsed columns, DuckDB over
//! Parquet with the text alone, and ClickHouse over both. All engines have two threads. CPU time is that of the
//! answering process without its startup; its resolution is a nanosecond. Answers are compared: each difference from
//! DuckDB is listed and fails the run; a difference from ClickHouse is only a remark.
//!
//! The databases are installed from the Python package index into an environment in the target directory. Without
//! DuckDB nothing can be compared and the run ends; without chdb it continues and says so. Every measurement is written
//! as a line of JSON to `shapes.jsonl` in the directory.
//!
//! Not here: the shapes and their questions (`dev/eventgen/src/shapes`).

mod answers;
mod load;
mod peer;
mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use quarry_eventgen::shapes::{self, Query, Shape, Written};
use serde_json::{Value, json};

use self::answers::{Answer, differs, from_csv};
use self::load::Load;
use self::peer::Peer;
use self::report::{AnsweredQuestion, Cost, Engine, Report};
use super::ingest;
use super::keep_partial_states;
use super::server::{Connection, Server};
use crate::python::target_folder;

const USAGE: &str = "usage: cargo xtask bench --shapes [--seed N] [--start SECONDS] [--mb M] [--only SHAPE,…] [--sealed] [--load | --ingest] [--quick] [--no-chdb] [--folder DIR] [--keep]";
const DAY_S: u64 = 86_400;
/// Salt of the seed for the second draw of a shape.
const MORE_SALT: u64 = 0x4C0A_D5ED;
/// Default megabytes of text per shape: more than a slab holds, so that compaction has several buckets to merge.
const MEGABYTES: u64 = 100;

/// Command line options.
struct Options {
    seed: u64,
    start_s: u64,
    megabytes: u64,
    only: Vec<String>,
    /// Run searches on sealed buckets, before compaction.
    is_sealed: bool,
    /// Skip zstd -19, which takes most of the time.
    is_quick: bool,
    has_chdb: bool,
    /// Measure searches during ingest and with many clients instead of single queries.
    is_load: bool,
    /// Run no queries.
    is_ingest: bool,
    folder: PathBuf,
    keep: bool,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Options, String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // The events are of the day before yesterday, which is recent enough for formats without a year or with an age
        // limit.
        let start_s = (now.as_secs() / DAY_S - 2) * DAY_S;
        let mut options = Options {
            seed: now.as_nanos() as u64 % 1_000_000_007,
            start_s,
            megabytes: MEGABYTES,
            only: Vec::new(),
            is_sealed: false,
            is_quick: false,
            has_chdb: true,
            is_load: false,
            is_ingest: false,
            folder: target_folder().join("bench/shapes"),
            keep: false,
        };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let mut value = || rest.next().cloned().ok_or_else(|| format!("{option} needs a value\n{USAGE}"));
            let number = |text: String| text.parse::<u64>().map_err(|error| format!("{option} {text}: {error}"));
            match option.as_str() {
                "--seed" => options.seed = number(value()?)?,
                "--start" => options.start_s = number(value()?)?,
                "--mb" => options.megabytes = number(value()?)?,
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--folder" => options.folder = PathBuf::from(value()?),
                "--sealed" => options.is_sealed = true,
                "--load" => options.is_load = true,
                "--ingest" => options.is_ingest = true,
                "--no-chdb" => options.has_chdb = false,
                "--quick" => options.is_quick = true,
                "--keep" => options.keep = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Measures all shapes, or the named ones.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::read(arguments)?;
    let (seed, start_s) = (options.seed, options.start_s);
    println!("seed {seed}: again with --seed {seed} --start {start_s} --mb {}", options.megabytes);
    std::fs::create_dir_all(&options.folder).map_err(|error| format!("{}: {error}", options.folder.display()))?;
    let mut duckdb = Peer::start(Engine::DUCKDB, &options.folder)?;
    let started = match options.has_chdb && !options.is_load && !options.is_ingest {
        true => Peer::start(Engine::CHDB, &options.folder),
        false => Err("the command line says so".to_owned()),
    };
    let mut chdb = match started {
        Ok(peer) => Some(peer),
        Err(reason) => {
            println!("ClickHouse is skipped: {reason}");
            None
        }
    };
    let mut report = Report::new(seed, &options.folder.join("shapes.jsonl"))?;
    for mut shape in shapes::shapes(seed) {
        if options.only.is_empty() || options.only.iter().any(|name| name == shape.name()) {
            measure(shape.as_mut(), &options, &mut duckdb, chdb.as_mut(), &mut report)?;
        }
    }
    report.finish()
}

fn measure(
    shape: &mut dyn Shape,
    options: &Options,
    duckdb: &mut Peer,
    mut chdb: Option<&mut Peer>,
    report: &mut Report,
) -> Result<(), String> {
    let place = options.folder.join(shape.name());
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    }
    let written = shapes::write(shape, options.seed, options.megabytes * 1_000_000, options.start_s as i64, &place)
        .map_err(|error| format!("{}: {error}", place.display()))?;
    let data = place.join("quarry");
    let columns: Vec<Value> = shape.columns().iter().map(|column| json!([column.name, column.kind.sql()])).collect();
    let loaded = duckdb.ask(&json!({"load": place, "columns": columns}))?;
    if let Some(chdb) = chdb.as_deref_mut() {
        chdb.ask(&json!({"load": place, "columns": columns}))?;
    }
    drop(std::fs::remove_file(place.join("parsed.ndjson")));
    let figures = index(shape, &written, &data, options, duckdb)?;
    report.ingested(shape.name(), written.bytes, written.events, &figures, &loaded);
    keep_partial_states(&data, false)?;
    if options.is_ingest {
        // With `--ingest`, only the figures of indexing are reported, as done above.
    } else if options.is_load {
        measure_load(shape, &written, options, &data, duckdb, report)?;
    } else {
        measure_questions(shape, &written, &data, duckdb, chdb, report)?;
    }
    if !options.keep {
        std::fs::remove_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    }
    Ok(())
}

/// Runs every query separately.
fn measure_questions(
    shape: &dyn Shape,
    written: &Written,
    data: &Path,
    duckdb: &mut Peer,
    mut chdb: Option<&mut Peer>,
    report: &mut Report,
) -> Result<(), String> {
    let server = Server::start(data)?;
    let mut connection = server.connect()?;
    // These queries open the buckets and the Parquet files, so that no question includes that cost.
    connection.search("index=main | head 1 | fields _time")?;
    duckdb.ask(&json!({"sql": "select max(t) from parsed"}))?;
    duckdb.ask(&json!({"sql": "select max(t) from lines"}))?;
    for query in shape.queries(&written.samples) {
        let answered = ask(shape.name(), &query, &server, &mut connection, duckdb, chdb.as_deref_mut())?;
        report.add(answered)?;
    }
    report.shape_ended(shape.name());
    Ok(())
}

/// Runs the queries during ingest, and with many clients.
fn measure_load(
    shape: &mut dyn Shape,
    written: &Written,
    options: &Options,
    data: &Path,
    duckdb: &mut Peer,
    report: &mut Report,
) -> Result<(), String> {
    let queries = shape.queries(&written.samples);
    let more = data.with_file_name("more");
    let (seed, bytes) = (options.seed ^ MORE_SALT, options.megabytes * 1_000_000);
    let second = shapes::write(shape, seed, bytes, (options.start_s + DAY_S) as i64, &more)
        .map_err(|error| format!("{}: {error}", more.display()))?;
    drop(std::fs::remove_file(more.join("parsed.ndjson")));
    let load = Load { data, more: &more, more_bytes: second.bytes, shape, queries: &queries };
    report.loaded(shape.name(), &load.measure(duckdb)?);
    Ok(())
}

/// Indexes the files of a shape; returns the figures by name.
fn index(
    shape: &dyn Shape,
    written: &Written,
    data: &Path,
    options: &Options,
    duckdb: &mut Peer,
) -> Result<Vec<(&'static str, f64)>, String> {
    configure(shape, data)?;
    let folder = data.parent().unwrap_or(data);
    let (mut wall_s, mut cpu_s, mut peak) = (0.0, 0.0, 0);
    for file in shape.files() {
        let added = ingest::add(&folder.join(file.name), Some(file.sourcetype), data)?;
        wall_s += added.wall_s;
        cpu_s += added.cpu_s;
        peak = peak.max(added.peak_bytes);
    }
    let (bytes, megabyte) = (written.bytes as f64, 1e6);
    let mut figures = vec![
        ("ingest MB/s", bytes / megabyte / wall_s),
        ("ingest CPU s/GB", cpu_s / (bytes / 1e9)),
        ("peak MB", peak as f64 / megabyte),
        ("sealed MB", ingest::folder_bytes(data) as f64 / megabyte),
    ];
    if !options.is_sealed {
        figures.push(("compaction CPU s/GB", ingest::compact(data)? / (bytes / 1e9)));
        figures.push(("compacted MB", ingest::folder_bytes(data) as f64 / megabyte));
    }
    let files: Vec<PathBuf> = shape.files().iter().map(|file| folder.join(file.name)).collect();
    for (name, level) in [("zstd -3 MB", 3), ("zstd -19 MB", 19)] {
        if level == 3 || !options.is_quick {
            let reply = duckdb.ask(&json!({"zstd": files, "level": level}))?;
            figures.push((name, reply["bytes"].as_f64().unwrap_or_default() / megabyte));
        }
    }
    Ok(figures)
}

/// Writes the configuration of a shape. A mixed shape may have several texts for one file.
fn configure(shape: &dyn Shape, data: &Path) -> Result<(), String> {
    let folder = data.join("etc/system/local");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    shape.conf().iter().try_for_each(|(name, text)| append_to(&folder.join(name), text))
}

fn append_to(file: &Path, text: &str) -> Result<(), String> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let outcome = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
    outcome.map_err(|error| format!("{}: {error}", file.display()))
}

/// Runs one query on all engines, one after the other.
fn ask(
    shape: &str,
    query: &Query,
    server: &Server,
    connection: &mut Connection<'_>,
    duckdb: &mut Peer,
    chdb: Option<&mut Peer>,
) -> Result<AnsweredQuestion, String> {
    let cpu_before = duckdb.cpu_of(server.process())?;
    let start = Instant::now();
    let answered = connection.search(&query.spl);
    let wall_s = start.elapsed().as_secs_f64();
    let cpu_s = duckdb.cpu_of(server.process())? - cpu_before;
    let (found, fault) = match answered {
        Ok(text) => (from_csv(&text)?, None),
        Err(fault) => (Answer::default(), Some(fault)),
    };
    let mut costs = vec![(Engine::Quarry, Cost { wall_s, cpu_s })];
    let mut differences: Vec<String> = fault.into_iter().map(|fault| format!("Quarry: {}", fault.trim())).collect();
    let mut remarks = Vec::new();
    let mut peers = vec![(Engine::DuckDbParsed, &query.parsed), (Engine::DuckDbRaw, &query.raw)];
    let mut others = [Some(duckdb), chdb];
    peers.extend([(Engine::ChDbParsed, &query.parsed), (Engine::ChDbRaw, &query.raw)]);
    for (engine, sql) in peers {
        let Some(peer) = others[usize::from(engine.is_chdb())].as_deref_mut() else { continue };
        match peer.query(sql) {
            Ok((cost, expected)) => {
                costs.push((engine, cost));
                let difference = differs(&found, &expected, query.ordered);
                // DuckDB is the reference. A difference from ClickHouse is only a remark.
                let place = if engine.is_chdb() { &mut remarks } else { &mut differences };
                place.extend(difference.map(|what| format!("{}: {what}", engine.name())));
            }
            Err(fault) => remarks.push(format!("{} failed: {fault}", engine.name())),
        }
    }
    Ok(AnsweredQuestion {
        shape: shape.to_owned(),
        query: query.clone(),
        rows: found.rows.len(),
        costs,
        differences,
        remarks,
    })
}
