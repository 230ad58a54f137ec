//! `quarry add oneshot`: files into an index, with progress on a terminal and a summary at the end.
//!
//! A file that cannot be read is told and the others are added; the exit code then says that something failed.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::tz::TimeZone;
use quarry_event::time::NS_PER_SEC;
use quarry_inputs::file::{FileReport, OneshotOptions, Progress, Reached, add_file, expand};
use quarry_inputs::{InputError, Sink};
use serde_json::{Value, json};

use crate::cli::OneshotArgs;
use crate::failure::{self, Failure};
use crate::interrupt::Interrupt;
use crate::local::{self, Settings, StoreSink};
use crate::remote::Remote;

/// Redraws of the progress bar per second at most.
const DRAWS_PER_SECOND: u8 = 8;
/// Time between two pictures of a spinner.
const SPINNER_STEP: Duration = Duration::from_millis(120);

/// Adds the named files; gives the exit code.
pub(crate) fn run(data_dir: &Path, arguments: &OneshotArgs) -> Result<u8, Failure> {
    let files = expand(&arguments.files)?;
    let settings = Settings::of_data_dir(data_dir);
    settings.check_index(&arguments.index).map_err(Failure::Usage)?;
    let started = settings.clock.elapsed_ns();
    let mut total = Total::default();
    match Remote::find(data_dir) {
        Some(remote) => add_remotely(&remote, &files, arguments, &mut total)?,
        None => add_locally(data_dir, &settings, &files, arguments, &mut total)?,
    }
    let seconds = (settings.clock.elapsed_ns() - started) as f64 / NS_PER_SEC as f64;
    writeln!(std::io::stdout().lock(), "{}", total.summary(seconds))?;
    Ok(if total.failed > 0 {
        failure::STORAGE
    } else if total.interrupted {
        failure::PARTIAL
    } else {
        0
    })
}

fn add_locally(
    data_dir: &Path,
    settings: &Settings,
    files: &[PathBuf],
    arguments: &OneshotArgs,
    total: &mut Total,
) -> Result<(), Failure> {
    let store = local::open(data_dir, settings.clock.clone())?;
    let interrupt = Interrupt::install(|| crate::tell("stopping after this batch; press again to end at once"))?;
    let options = OneshotOptions {
        index: arguments.index.clone(),
        host: arguments.host.clone().unwrap_or_else(local::host_name),
        host_is_fixed: arguments.host.is_some(),
        source: arguments.source.clone(),
        sourcetype: arguments.sourcetype.clone(),
        again: arguments.again,
        zone: TimeZone::UTC,
        now: settings.clock.now_ns(),
    };
    let mut bar = Bar::new(interrupt);
    let mut sink = StoreSink::new(&store);
    for path in files {
        bar.begin(path);
        let added = add_file(path, &options, &settings.props, &mut sink, &mut bar);
        bar.end();
        if let Err(InputError::Sink { .. }) = &added {
            // The store takes nothing any more; the next file would fail alike.
            added?;
            break;
        }
        match &added {
            Ok(report) => total.take(path, report),
            Err(error) => total.fail(path, &error.to_string(), error.report()),
        }
        if total.interrupted {
            break;
        }
    }
    sink.flush().map_err(|error| Failure::Storage(format!("events cannot be stored: {error}")))?;
    bar.begin_sealing();
    let sealed = store.seal_all();
    bar.end();
    sealed?;
    store.messages().iter().for_each(|message| crate::tell(&format!("warning: {}", message.text)));
    Ok(())
}

fn add_remotely(remote: &Remote, files: &[PathBuf], arguments: &OneshotArgs, total: &mut Total) -> Result<(), Failure> {
    for path in files {
        let is_stream = path.as_os_str() == "-" || path.metadata().is_ok_and(|metadata| !metadata.is_file());
        if is_stream {
            let name = if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() };
            let text = format!("{name} is a stream and cannot be sent to the running server: write it to a file first");
            return Err(Failure::Usage(text));
        }
        let absolute = std::path::absolute(path)?.display().to_string();
        let mut form = vec![("name", absolute.as_str()), ("index", arguments.index.as_str())];
        let named =
            [("sourcetype", &arguments.sourcetype), ("host", &arguments.host), ("rename-source", &arguments.source)];
        form.extend(named.iter().filter_map(|(key, value)| value.as_deref().map(|value| (*key, value))));
        form.push(("again", if arguments.again { "1" } else { "0" }));
        match remote.add_file(&form) {
            Ok(report) => total.take(path, &of_json(&report)),
            Err(failure) => total.fail(path, &failure.text(), None),
        }
    }
    Ok(())
}

/// A report in the form a server sends it.
pub(crate) fn to_json(report: &FileReport) -> Value {
    json!({
        "bytes": report.bytes,
        "events": report.events,
        "bad_timestamps": report.bad_timestamps,
        "truncated_lines": report.truncated_lines,
        "skipped": report.skipped,
        "resumed_at": report.resumed_at,
        "interrupted": report.interrupted,
        "sourcetype": report.sourcetype,
        "shrunk": report.shrunk.map(|shrunk| [shrunk.expected, shrunk.found]),
        "problem": report.problem,
        "warnings": report.warnings,
    })
}

fn of_json(report: &Value) -> FileReport {
    let number = |key: &str| report[key].as_u64().unwrap_or(0);
    let text = |key: &str| report[key].as_str().map(str::to_owned);
    let warnings = report["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shrunk = |at: usize| report["shrunk"][at].as_u64();
    FileReport {
        bytes: number("bytes"),
        events: number("events"),
        bad_timestamps: number("bad_timestamps"),
        truncated_lines: number("truncated_lines"),
        skipped: report["skipped"] == true,
        resumed_at: number("resumed_at"),
        interrupted: report["interrupted"] == true,
        sourcetype: text("sourcetype"),
        shrunk: shrunk(0).zip(shrunk(1)).map(|(expected, found)| quarry_inputs::file::Shrunk { expected, found }),
        problem: text("problem"),
        warnings: warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

/// Sums over all files.
#[derive(Default)]
struct Total {
    files: usize,
    skipped: usize,
    resumed: usize,
    failed: usize,
    bytes: u64,
    events: u64,
    bad_timestamps: u64,
    truncated_lines: u64,
    interrupted: bool,
}

impl Total {
    /// Adds a file that failed, with what was added of it before.
    fn fail(&mut self, path: &Path, text: &str, before: Option<&FileReport>) {
        self.failed += 1;
        crate::tell(&format!("error: {text}"));
        if let Some(report) = before {
            self.take(path, report);
        }
    }

    /// Adds one file and tells what is odd about it.
    fn take(&mut self, path: &Path, report: &FileReport) {
        let name = path.display();
        if let Some(shrunk) = report.shrunk {
            let (expected, found) = (shrunk.expected, shrunk.found);
            crate::tell(&format!(
                "warning: {name} became shorter while it was read: {expected} bytes at first, {found} in the end; what was read is indexed"
            ));
        }
        if let Some(problem) = &report.problem {
            crate::tell(&format!("warning: {name}: read as plain lines: {problem}"));
        }
        report.warnings.iter().for_each(|warning| crate::tell(&format!("warning: {name}: {warning}")));
        if report.resumed_at > 0 && !report.skipped {
            crate::tell(&format!("{name}: goes on at byte {}, where an earlier add had come to", report.resumed_at));
        }
        self.files += usize::from(!report.skipped);
        self.skipped += usize::from(report.skipped);
        self.resumed += usize::from(report.resumed_at > 0 && !report.skipped);
        self.bytes += report.bytes;
        self.events += report.events;
        self.bad_timestamps += report.bad_timestamps;
        self.truncated_lines += report.truncated_lines;
        self.interrupted |= report.interrupted;
    }

    fn summary(&self, seconds: f64) -> String {
        let plural = |count: usize| if count == 1 { "file" } else { "files" };
        let (events, bytes) = (HumanCount(self.events), self.bytes as f64 / 1e6);
        let rate = if seconds > 0.0 { bytes / seconds } else { 0.0 };
        let files = format!("{} {}", self.files, plural(self.files));
        let mut text = format!("added {events} events from {files}, {bytes:.1} MB in {seconds:.1} s ({rate:.0} MB/s)");
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                text.push_str(&format!("; {} {what}", HumanCount(count)));
            }
        };
        say(self.bad_timestamps, "without a timestamp that can be read");
        say(self.truncated_lines, "lines cut to TRUNCATE");
        say(self.skipped as u64, &format!("{} left out, added before (--again adds once more)", plural(self.skipped)));
        say(self.failed as u64, &format!("{} failed", plural(self.failed)));
        if self.interrupted {
            text.push_str("; stopped early, the same command goes on from here");
        }
        text
    }
}

/// Progress on a terminal; silent elsewhere.
struct Bar {
    bar: ProgressBar,
    interrupt: Interrupt,
    is_sized: bool,
}

impl Bar {
    fn new(interrupt: Interrupt) -> Bar {
        Bar { bar: ProgressBar::hidden(), interrupt, is_sized: false }
    }

    fn begin(&mut self, path: &Path) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
        self.bar = ProgressBar::with_draw_target(None, target).with_prefix(name);
        self.is_sized = false;
    }

    /// Shows that events are in the log and become buckets now.
    fn begin_sealing(&mut self) {
        if std::io::stderr().is_terminal() {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
            self.bar = ProgressBar::with_draw_target(None, target).with_message("events are safe; writing buckets");
            self.bar.enable_steady_tick(SPINNER_STEP);
        }
    }

    fn size(&mut self, bytes: u64) {
        self.is_sized = true;
        let style = "{prefix} {bar:24} {bytes}/{total_bytes} {bytes_per_sec} ETA {eta} {msg}";
        if bytes > 0
            && let Ok(style) = ProgressStyle::with_template(style)
        {
            self.bar.set_length(bytes);
            self.bar.set_style(style);
        }
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
    }
}

impl Progress for Bar {
    fn reached(&mut self, at: &Reached) -> ControlFlow<()> {
        if !self.bar.is_hidden() {
            if !self.is_sized {
                self.size(at.stored_bytes_all);
            }
            let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
            let rate = HumanCount((at.events as f64 / seconds) as u64);
            let mut message = format!("{} events {rate}/s", HumanCount(at.events));
            if at.bad_timestamps > 0 {
                message.push_str(&format!(" {} bad timestamps", HumanCount(at.bad_timestamps)));
            }
            if at.stored_bytes_all == 0 {
                message.push_str(&format!(" {}", HumanBytes(at.bytes)));
            }
            self.bar.set_position(at.stored_bytes);
            self.bar.set_message(message);
        }
        if self.interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
