//! The costs of a job under the names of Splunk's job inspector.
//!
//! `command.search` is the time for reading events, which includes the times of the longer names: finding pages
//! (`.index`), reading texts (`.rawdata`), extracting fields (`.kv`), testing the condition (`.filter`), and the rules
//! of props.conf (`.rules`). `.rows` is the time of `search` commands after the first. Times are summed over all
//! workers.
//!
//! Not here: measuring costs (engine), and advice based on them (search).

use quarry_engine::{CostFigures, ScanPart};
use quarry_event::time::NS_PER_SEC;
use quarry_search::jobs::{JobStatus, ReadStats};
use quarry_stdx::number::f64_of;
use serde_json::{Map, Value, json};

/// Name of the time for reading events.
const SEARCH: &str = "command.search";

/// The costs of a job so far, by part; empty for a real-time search.
pub(super) fn performance(status: &JobStatus) -> Value {
    let mut parts = Map::new();
    let costs = &status.costs;
    let (index, pages) = (costs.scan_part(ScanPart::Index), costs.scan_part(ScanPart::Pages));
    if index.calls > 0 {
        parts.insert(
            SEARCH.to_owned(),
            json!({
                "duration_secs": seconds(index.time_ns.saturating_add(pages.time_ns)), "invocations": pages.calls,
                "input_count": status.scanned, "output_count": status.matched,
            }),
        );
        let pruned = costs.pruned;
        parts.insert(
            format!("{SEARCH}.index"),
            json!({
                "duration_secs": seconds(index.time_ns), "invocations": index.calls, "slabs": pruned.slabs,
                "slabs_left": pruned.slabs_left, "pages": pruned.pages, "pages_left": pruned.pages_left,
                "text_bytes_read": pruned.text_bytes,
            }),
        );
    }
    for (part, name) in [
        (ScanPart::RawData, "rawdata"),
        (ScanPart::Fields, "kv"),
        (ScanPart::Filter, "filter"),
        (ScanPart::Rules, "rules"),
    ] {
        let of = costs.scan_part(part);
        if of.calls > 0 {
            let timed = json!({ "duration_secs": seconds(of.time_ns), "invocations": of.calls });
            parts.insert(format!("{SEARCH}.{name}"), timed);
        }
    }
    for (name, of) in &costs.commands {
        let name = if name == "search" { format!("{SEARCH}.rows") } else { format!("command.{name}") };
        parts.insert(name, of_command(of));
    }
    add_remote_reads(&status.reads, &mut parts);
    Value::Object(parts)
}

fn of_command(of: &CostFigures) -> Value {
    json!({
        "duration_secs": seconds(of.time_ns), "invocations": of.calls,
        "input_count": of.rows_in, "output_count": of.rows_out,
    })
}

/// Reads of buckets on remote volumes, if there were any.
fn add_remote_reads(reads: &ReadStats, parts: &mut Map<String, Value>) {
    if reads.is_empty() {
        return;
    }
    let hit = json!({ "invocations": reads.cached_reads, "bytes": reads.cached_bytes });
    let miss = json!({
        "invocations": reads.requests, "bytes": reads.fetched_bytes, "duration_secs": seconds(reads.waited_ns),
    });
    parts.insert(format!("{SEARCH}.rawdata.bucketcache.hit"), hit);
    parts.insert(format!("{SEARCH}.rawdata.bucketcache.miss"), miss);
}

fn seconds(time_ns: u64) -> f64 {
    f64_of(time_ns) / f64_of(NS_PER_SEC)
}

/// The costs as lines of the job's log, the largest first.
pub(super) fn cost_lines(status: &JobStatus) -> Vec<String> {
    let Value::Object(parts) = performance(status) else { return Vec::new() };
    let took = |of: &Value| of["duration_secs"].as_f64().unwrap_or(0.0);
    let mut parts: Vec<(String, Value)> = parts.into_iter().collect();
    parts.sort_by(|(_, one), (_, other)| took(other).total_cmp(&took(one)));
    let line = |(name, of): (String, Value)| {
        let figures = of.as_object().into_iter().flatten();
        let figures: Vec<String> = figures.map(|(figure, value)| format!("{figure}={value}")).collect();
        format!("{name}: {}", figures.join(" "))
    };
    parts.into_iter().map(line).collect()
}
