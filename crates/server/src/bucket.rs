//! `quarry bucket list|stats|verify|compact|thaw`: the verbs for buckets on disk. They run in this process or, if a
//! server is running, through the server.
//!
//! This process and the server produce the same JSON rows, from which the other output formats are made.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use quarry_event::value::parse_number;
use quarry_ingest::IngestError;
use quarry_search::cell::{format_iso_time, write_csv};
use quarry_stdx::number::f64_of;
use quarry_stdx::{ErrorKind, HasKind, log};
use quarry_store::{BucketCopies, CompactionReport, ListingState, Store};
use serde_json::{Value, json};

use crate::cli::{ListForm, ThawArgs};
use crate::data_directory::{Settings, open_existing, open_read_only};
use crate::failure::{self, Failure};
use crate::output::grid::{Grid, Heading};
use crate::output::line_folding::fold_text;
use crate::output::pager::Pager;
use crate::output::shown_times::to_millis;
use crate::server_client::Remote;
use crate::{terminal, zone};

const LIST_COLUMNS: &[&str] = &[
    "bucket",
    "index",
    "state",
    "events",
    "deleted",
    "raw_bytes",
    "stored_bytes",
    "slabs",
    "level",
    "copies",
    "earliest",
    "latest",
];
const STATS_COLUMNS: &[&str] =
    &["index", "buckets", "events", "earliest", "latest", "raw_bytes", "stored_bytes", "ratio", "deleted"];
const VERIFY_COLUMNS: &[&str] = &["bucket", "ok", "reason"];
const COMPACT_COLUMNS: &[&str] = &["bucket", "first", "last", "parts", "events", "bytes_before", "bytes_after"];

/// Prints one line per bucket.
pub(crate) fn list(data_dir: &Path, form: ListForm) -> Result<u8, Failure> {
    let rows = match Remote::find(data_dir) {
        Some(remote) => remote.buckets()?,
        None => list_buckets(&*open_read_only(data_dir, &Settings::of_data_dir_quietly(data_dir))?),
    };
    print(&rows, LIST_COLUMNS, form)?;
    Ok(0)
}

/// Prints one line per index.
pub(crate) fn stats(data_dir: &Path, form: ListForm) -> Result<u8, Failure> {
    let rows = match Remote::find(data_dir) {
        Some(remote) => remote.buckets()?,
        None => list_buckets(&*open_read_only(data_dir, &Settings::of_data_dir_quietly(data_dir))?),
    };
    print(&stats_of(&rows), STATS_COLUMNS, form)?;
    Ok(0)
}

/// Prints one line per bucket with its damage, if any; fails if a bucket is damaged or cannot be read.
pub(crate) fn verify(data_dir: &Path, form: ListForm) -> Result<u8, Failure> {
    // Opening a store reads its log; a running server has read its log at the start.
    let (rows, log) = match Remote::find(data_dir) {
        Some(remote) => (remote.verify()?, ""),
        None => match open_read_only(data_dir, &Settings::of_data_dir_quietly(data_dir)) {
            Ok(store) => (verify_buckets(&store), " and the log"),
            // Damage found while opening is reported like damage found by verification.
            Err(IngestError::Store(error)) if error.kind() == ErrorKind::Corrupt => {
                log::error(error);
                return Ok(failure::PARTIAL);
            }
            Err(error) => return Err(error.into()),
        },
    };
    print(&rows, VERIFY_COLUMNS, form)?;
    let failed = |row: &&Value| row["ok"] != true;
    let (damaged, unread): (Vec<&Value>, Vec<&Value>) =
        rows.as_array().into_iter().flatten().filter(failed).partition(|row| row["damaged"] != false);
    if damaged.is_empty() && unread.is_empty() {
        let count = rows.as_array().map_or(0, Vec::len);
        let buckets = if count == 1 { "bucket" } else { "buckets" };
        log::info(format!("{count} {buckets}{log} verified, none damaged"));
        return Ok(0);
    }
    if !damaged.is_empty() {
        log::info(format!(
            "{} damaged: searches that need damaged data report the damage, and their answers lack the lost events",
            damaged.len()
        ));
    }
    if !unread.is_empty() {
        log::info(format!(
            "{} not verified, because they cannot be read now: searches that need them report it, and answer without them",
            unread.len()
        ));
    }
    Ok(failure::PARTIAL)
}

/// Prints one line per merge, and the totals; fails if a bucket had to be skipped.
pub(crate) fn compact(data_dir: &Path, form: ListForm) -> Result<u8, Failure> {
    let report = match Remote::find(data_dir) {
        Some(remote) => remote.compact()?,
        None => compaction_json(&compact_closed(data_dir)?),
    };
    print(&report["merges"], COMPACT_COLUMNS, form)?;
    let [buckets, after, bytes, bytes_after] =
        ["buckets_before", "buckets_after", "bytes_before", "bytes_after"].map(|key| text(&report[key]));
    log::info(format!(
        "before: {buckets} sealed buckets, {bytes} bytes in all; after: {after} buckets, {bytes_after} bytes"
    ));
    let skipped = report["skipped"].as_array().map(Vec::as_slice).unwrap_or_default();
    for skip in skipped {
        let bucket = skip["bucket"].as_str().filter(|bucket| !bucket.is_empty());
        let what = bucket.map_or_else(|| "some buckets".to_owned(), |bucket| format!("bucket {bucket}"));
        log::warning(format!("{what} not compacted: {}", text(&skip["reason"])));
    }
    Ok(if skipped.is_empty() { 0 } else { failure::PARTIAL })
}

/// Compacts a data directory that no server has opened.
fn compact_closed(data_dir: &Path) -> Result<CompactionReport, Failure> {
    let settings = Settings::of_data_dir(data_dir);
    let store = open_existing(data_dir, &settings)?;
    let service = settings.search_settings(Some(data_dir)).service(Arc::clone(&store) as _)?;
    let extraction = service.engine().slab_extraction();
    store.store_extractions(Box::new(move || Some(Arc::clone(&extraction))));
    Ok(store.compact_all()?)
}

/// Thaws an archived bucket.
pub(crate) fn thaw(data_dir: &Path, arguments: &ThawArgs) -> Result<u8, Failure> {
    let ThawArgs { folder, index } = arguments;
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
    let thawed = match Remote::find(data_dir) {
        Some(remote) => remote.thaw(index, &folder.display().to_string())?,
        None => {
            let settings = Settings::of_data_dir(data_dir);
            settings.check_index(index)?;
            thaw_json(&open_existing(data_dir, &settings)?.thaw(index, &folder)?)
        }
    };
    writeln!(std::io::stdout(), "{}", text(&thawed["bucket"]))?;
    Ok(0)
}

/// A thawed bucket as an object.
pub(crate) fn thaw_json(bucket: &str) -> Value {
    json!({ "bucket": bucket })
}

/// The report of a compaction as an object.
pub(crate) fn compaction_json(report: &CompactionReport) -> Value {
    let merge = |merge: &quarry_store::Merge| {
        json!({
            "bucket": merge.bucket,
            "first": merge.inputs.first(),
            "last": merge.inputs.last(),
            "parts": merge.inputs.len(),
            "events": merge.events,
            "bytes_before": merge.bytes_before,
            "bytes_after": merge.bytes_after,
        })
    };
    let skip = |skipped: &quarry_store::Damage| json!({ "bucket": skipped.bucket, "reason": skipped.reason });
    json!({
        "buckets_before": report.buckets_before,
        "buckets_after": report.buckets_after,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
        "merges": report.merges.iter().map(merge).collect::<Vec<_>>(),
        "skipped": report.skipped.iter().map(skip).collect::<Vec<_>>(),
    })
}

/// Lists the buckets of an open store as rows.
pub(crate) fn list_buckets(store: &Store) -> Value {
    let state = |state| match state {
        ListingState::Hot => "hot",
        ListingState::Sealing => "sealing",
        ListingState::Sealed => "sealed",
    };
    let copies = |copies| match copies {
        BucketCopies::Local => "local",
        BucketCopies::Uploading => "uploading",
        BucketCopies::Both => "local and remote",
        BucketCopies::Remote => "remote",
    };
    let zone = zone::machine();
    let row = |bucket: quarry_store::BucketListing| {
        json!({
            "bucket": bucket.id,
            "index": bucket.index,
            "state": state(bucket.state),
            "events": bucket.events,
            "deleted": bucket.deleted,
            "raw_bytes": bucket.raw_bytes,
            "stored_bytes": bucket.stored_bytes,
            "slabs": bucket.slabs,
            "level": bucket.level,
            "copies": copies(bucket.copies),
            "earliest": format_iso_time(bucket.time_min, &zone),
            "latest": format_iso_time(bucket.time_max, &zone),
        })
    };
    store.buckets().into_iter().map(row).collect()
}

/// Verifies the buckets of an open store and returns the results as rows.
pub(crate) fn verify_buckets(store: &Store) -> Value {
    let row = |verdict: quarry_store::Verdict| match verdict.result {
        Ok(()) => json!({ "bucket": verdict.bucket, "ok": true }),
        Err(fault) => json!({
            "bucket": verdict.bucket,
            "ok": false,
            "damaged": fault.kind() == ErrorKind::Corrupt,
            "reason": fault.to_string(),
        }),
    };
    store.verify().into_iter().map(row).collect()
}

/// Totals of bucket rows per index.
fn stats_of(buckets: &Value) -> Value {
    let mut indexes: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for bucket in buckets.as_array().into_iter().flatten() {
        indexes.entry(bucket["index"].as_str().unwrap_or_default()).or_default().push(bucket);
    }
    let row = |(index, buckets): (&str, Vec<&Value>)| {
        let sum = |key: &str| buckets.iter().filter_map(|bucket| bucket[key].as_u64()).sum::<u64>();
        // Times in one zone may have different UTC offsets, so they are parsed before they are compared.
        let time = |text: &&str| text.parse::<Timestamp>().ok();
        let times = |key: &'static str| buckets.iter().filter_map(move |bucket| bucket[key].as_str());
        let (raw, stored) = (sum("raw_bytes"), sum("stored_bytes"));
        let ratio = if stored > 0 { (f64_of(raw) / f64_of(stored) * 10.0).round() / 10.0 } else { 0.0 };
        json!({
            "index": index,
            "buckets": buckets.len(),
            "events": sum("events"),
            "deleted": sum("deleted"),
            "raw_bytes": raw,
            "stored_bytes": stored,
            "ratio": ratio,
            "earliest": times("earliest").min_by_key(time),
            "latest": times("latest").max_by_key(time),
        })
    };
    indexes.into_iter().map(row).collect()
}

/// Prints rows in the requested format.
pub(crate) fn print(rows: &Value, columns: &[&str], form: ListForm) -> Result<(), Failure> {
    let mut out = Pager::open(form == ListForm::Table);
    let list = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    match form {
        ListForm::Json => {
            let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
            writeln!(out, "[{}]", lines.join(",\n"))?;
        }
        ListForm::Csv => {
            writeln!(out, "{}", columns.join(","))?;
            for row in list {
                let mut line = String::new();
                for (at, column) in columns.iter().enumerate() {
                    if at > 0 {
                        line.push(',');
                    }
                    write_csv(&text(&row[*column]), &mut line);
                }
                writeln!(out, "{line}")?;
            }
        }
        ListForm::Table => {
            let heading = |name: &&str| Heading {
                text: (*name).to_owned(),
                is_numeric: list.iter().all(|row| is_numeric(&row[*name])),
            };
            let terminal = terminal::width().map(usize::from);
            let mut grid = Grid::new(columns.iter().map(heading).collect(), terminal);
            for row in list {
                grid.push(columns.iter().map(|column| match terminal {
                    Some(_) => display_text(&row[*column]),
                    None => text(&row[*column]).into(),
                }));
            }
            let fit = grid.fit();
            grid.write_head(&fit, false, &mut out)?;
            grid.write_rows(&fit, &|_, line| line.to_owned(), &mut out)?;
            let left_out = grid.dropped_columns(&fit);
            if !left_out.is_empty() {
                let columns = if left_out.len() == 1 { "column" } else { "columns" };
                let text =
                    format!("… {} more {columns}: {} (use -o csv or -o json)", left_out.len(), left_out.join(", "));
                writeln!(out, "{}", terminal.map_or_else(|| text.clone(), |columns| fold_text(&text, columns)))?;
            }
        }
    }
    out.close()?;
    Ok(())
}

/// True if a cell is empty or a number, which the REST interface may send as text.
fn is_numeric(value: &Value) -> bool {
    match value {
        Value::Null | Value::Number(_) => true,
        Value::String(text) => text.is_empty() || parse_number(text).is_some(),
        _ => false,
    }
}

/// Text of a cell on a terminal; times get the same precision, so that they are aligned.
fn display_text(value: &Value) -> Cow<'static, str> {
    let text = text(value);
    Cow::Owned(to_millis(&text).map_or(text, Cow::into_owned))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
