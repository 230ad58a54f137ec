//! Ingest of one file into a new data directory: wall time, CPU time, peak memory, bytes on disk before and after
//! compaction.

use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::figures::Figures;
use super::quarry;

/// Interval at which the memory of the process is read; the kernel records its peak.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Adds `input` to a new data directory at `data`, compacts it and records the figures under `name`.
pub(super) fn run(input: &Path, data: &Path, name: &str, figures: &mut Figures) -> Result<(), String> {
    let bytes = std::fs::metadata(input).map_err(|error| format!("{}: {error}", input.display()))?.len();
    if data.exists() {
        std::fs::remove_dir_all(data).map_err(|error| format!("{}: {error}", data.display()))?;
    }
    let added = add(input, None, data)?;
    figures.add(&format!("{name} ingest wall s"), added.wall_s);
    figures.add(&format!("{name} ingest MB/s"), bytes as f64 / 1e6 / added.wall_s);
    figures.add(&format!("{name} ingest CPU s"), added.cpu_s);
    figures.add(&format!("{name} ingest peak MB"), added.peak_bytes as f64 / 1e6);
    figures.add(&format!("{name} disk MB"), folder_bytes(data) as f64 / 1e6);
    let cpu_s = compact(data)?;
    figures.add(&format!("{name} compaction CPU s"), cpu_s);
    figures.add(&format!("{name} disk compacted MB"), folder_bytes(data) as f64 / 1e6);
    Ok(())
}

/// Cost of adding a file.
pub(super) struct AddCost {
    /// Wall seconds.
    pub(super) wall_s: f64,
    /// User and system seconds.
    pub(super) cpu_s: f64,
    /// Peak memory of the process.
    pub(super) peak_bytes: u64,
}

/// Adds a file to a data directory, with the given sourcetype or a guessed one.
pub(super) fn add(input: &Path, sourcetype: Option<&str>, data: &Path) -> Result<AddCost, String> {
    let before = cpu_seconds_of_children();
    let start = Instant::now();
    let mut add = quarry(data);
    add.args(["add", "oneshot", "--zone", "UTC"]).arg(input).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(sourcetype) = sourcetype {
        add.args(["--sourcetype", sourcetype]);
    }
    let (status, peak_bytes) = watch(add.spawn().map_err(|error| format!("cannot run quarry: {error}"))?)?;
    let wall_s = start.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("add oneshot {} ended with {status}", input.display()));
    }
    Ok(AddCost { wall_s, cpu_s: cpu_seconds_of_children() - before, peak_bytes })
}

/// Adds a file through the server of a data directory, even if it was added before.
pub(super) fn add_by_server(input: &Path, sourcetype: &str, index: &str, data: &Path) -> Result<(), String> {
    let mut add = quarry(data);
    add.args(["add", "oneshot", "--again", "--zone", "UTC", "--sourcetype", sourcetype, "--index", index]).arg(input);
    let added = add.output().map_err(|error| format!("cannot run quarry: {error}"))?;
    if !added.status.success() {
        return Err(format!("add oneshot {}: {}", input.display(), String::from_utf8_lossy(&added.stderr)));
    }
    Ok(())
}

/// Compacts a data directory and returns the CPU seconds used.
pub(super) fn compact(data: &Path) -> Result<f64, String> {
    let before = cpu_seconds_of_children();
    let compact =
        quarry(data).args(["bucket", "compact"]).output().map_err(|error| format!("cannot run quarry: {error}"))?;
    if !compact.status.success() {
        return Err(format!("bucket compact: {}", String::from_utf8_lossy(&compact.stderr)));
    }
    Ok(cpu_seconds_of_children() - before)
}

/// Waits for a process; returns its status and peak memory in bytes.
fn watch(mut child: Child) -> Result<(ExitStatus, u64), String> {
    let status_file = format!("/proc/{}/status", child.id());
    let (ended, end) = channel();
    let waiter = std::thread::spawn(move || ended.send(child.wait()));
    let mut peak = 0;
    let outcome = loop {
        let text = std::fs::read_to_string(&status_file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1_024);
        match end.recv_timeout(POLL_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(status) => break status.map_err(|error| format!("cannot wait for quarry: {error}")),
            Err(RecvTimeoutError::Disconnected) => break Err("nobody waited for quarry".to_owned()),
        }
    };
    drop(waiter.join());
    Ok((outcome?, peak))
}

/// User and system time of all child processes that have been waited for.
fn cpu_seconds_of_children() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain blanks; the times of children are fields 16 and 17, in ticks of 1/100 s.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Bytes of all files in a directory.
pub(super) fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
