//! `quarry add oneshot`: adds files to an index, with progress lines on a terminal and a final summary.
//!
//! If a file cannot be read, it is reported, the other files are added, and the exit code indicates failure. With
//! several pipeline sets, files are added in parallel and reported in the given order.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use indicatif::{DecimalBytes, HumanCount};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use quarry_conf::IndexesConf;
use quarry_event::time::NS_PER_SEC;
use quarry_ingest::{Claims, LookupOrder, OrderedSink, StoreSink, add_files, index_settings};
use quarry_inputs::file::{FileReport, OneshotOptions, Rotation, absolute_text, add_file, expand_each};
use quarry_inputs::{InputError, Sink};
use quarry_spl::closest_name;
use quarry_stdx::log;
use quarry_stdx::number::f64_of;
use quarry_store::Store;
use serde_json::{Value, json};

use crate::bars;
use crate::cli::OneshotArgs;
use crate::data_directory::{self, Settings};
use crate::failure::{self, Failure};
use crate::interrupt::Interrupt;
use crate::output::line_folding::fold_text;
use crate::remarks::Remarks;
use crate::server_client::Remote;
use crate::{terminal, zone};

/// Minimum bytes read for which the summary shows a rate.
const RATED_BYTES_MIN: u64 = 1_000_000;
/// Events whose times are further in the future than this get a note. Clocks differ by less; a wrong time zone shifts
/// times by more.
const FUTURE_TOLERANCE: SignedDuration = SignedDuration::from_mins(20);
/// Maximum number of file names in the summary.
const NAMES_MAX: usize = 5;
/// The name of standard input.
const STDIN: &str = "-";

/// Result of adding one file: its report, or the error and the report of the events added before the error.
type AddResult = Result<FileReport, (String, Option<FileReport>)>;

/// Adds the named files; returns the exit code.
pub(crate) fn run(data_dir: &Path, arguments: &OneshotArgs) -> Result<u8, Failure> {
    let (files, mut wrong) = expand_each(&arguments.files);
    // If some names match no file, the files of the other names are still added.
    if files.is_empty() && !wrong.is_empty() {
        return Err(wrong.swap_remove(0).into());
    }
    let settings = Settings::of_data_dir_quietly(data_dir);
    let faults_told = settings.report_faults(data_dir, false);
    if arguments.node.uri.is_none() {
        settings.check_index(&arguments.index)?;
    }
    let remote = Remote::of(&arguments.node, data_dir)?;
    if remote.is_none() && (arguments.node.auth.is_some() || arguments.node.token.is_some()) {
        let folder = data_dir.display();
        return Err(Failure::Usage(format!(
            "--auth and --token are for a server, and no server has {folder} open: leave them out, or name a node with \
             --uri"
        )));
    }
    let zone = zone::parse_option(arguments.zone.as_deref())?;
    // The zone is sent because the server may be in another time zone. `preview`, too, uses the zone of this machine.
    let zone_sent = arguments.zone.clone().or_else(|| zone::name(&zone::machine()));
    if files.iter().any(|file| file.as_os_str() == STDIN) && std::io::stdin().is_terminal() {
        log::info(terminal::TYPED_INPUT_NOTE);
    }
    let started = settings.clock.elapsed_ns();
    let told = ResultReporter { files: &files, inner: Mutex::default() };
    told.report_missing(&wrong);
    let seen = |remote: &Remote| IndexState::query_server(remote, &arguments.index);
    let [before, after] = match remote {
        Some(remote) => {
            let before = seen(&remote);
            match arguments.node.uri {
                Some(_) => send_files(&remote, zone_sent.as_deref(), arguments, &told, 0..files.len()),
                None => add_remotely(&remote, zone_sent.as_deref(), settings.pipeline_sets(), arguments, &told)?,
            }
            [before, seen(&remote)]
        }
        None => add_locally(data_dir, &settings, arguments, zone, &told)?.map(Some),
    };
    let mut total = told.end();
    if let Some(seen) = before.zip(after).filter(|_| total.events > 0) {
        let keeps = index_settings(&settings.layers, &arguments.index).frozen_time_period_seconds;
        // The settings of another node are not known here, so there is no note on its retention.
        let keeps = Some(keeps).filter(|_| arguments.node.uri.is_none());
        notes(&arguments.index, &seen, settings.clock.now_ns(), keeps)
            .iter()
            .for_each(|note| total.remarks.print(note));
    }
    if arguments.node.uri.is_none() {
        // These errors are reported each time, because the events just added were parsed without the erroneous
        // settings.
        let faults = total.sourcetypes.iter().flat_map(|name| settings.sourcetype_faults(name));
        let faults: Vec<String> = faults.filter(|fault| !faults_told.contains(fault)).collect();
        faults.iter().for_each(|fault| total.remarks.print(&format!("warning: {fault}")));
    }
    total.remarks.end();
    let seconds = f64_of(settings.clock.elapsed_ns() - started) / f64_of(NS_PER_SEC);
    let summary = total.summary(seconds);
    let summary =
        terminal::width().map_or_else(|| summary.clone(), |columns| fold_text(&summary, usize::from(columns)));
    writeln!(std::io::stdout().lock(), "{summary}")?;
    Ok(if total.failed > 0 {
        failure::STORAGE
    } else if total.interrupted || total.is_all_skipped() {
        failure::PARTIAL
    } else {
        0
    })
}

/// Names of a node's indexes, and the times of the oldest and the newest event in one index.
struct IndexState {
    names: Vec<String>,
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
}

impl IndexState {
    fn from_store(store: &Store, settings: &Settings, index: &str) -> IndexState {
        let stats = store.stats();
        let of_index = stats.iter().find(|stats| stats.index == index && stats.events > 0);
        let at = |time: i64| Timestamp::from_nanosecond(time.into()).ok();
        let oldest = of_index.and_then(|stats| at(stats.time_min));
        let newest = of_index.and_then(|stats| at(stats.time_max));
        let configured = IndexesConf::new(&settings.layers);
        let names = configured.names().map(str::to_owned).chain(stats.into_iter().map(|stats| stats.index)).collect();
        IndexState { names, oldest, newest }
    }

    /// Queries the server; `None` if this fails, as for a caller who may add events but not see the indexes.
    fn query_server(remote: &Remote, index: &str) -> Option<IndexState> {
        let (names, buckets) = (remote.index_names().ok()?, remote.buckets().ok()?);
        let of_index = buckets.as_array().into_iter().flatten().filter(|bucket| bucket["index"] == index);
        let times = |name: &str| of_index.clone().filter_map(|bucket| bucket[name].as_str()?.parse().ok()).collect();
        let [earliest, latest]: [Vec<Timestamp>; 2] = ["earliest", "latest"].map(times);
        Some(IndexState { names, oldest: earliest.into_iter().min(), newest: latest.into_iter().max() })
    }
}

/// Notes on an index that did not exist, on events in the future, and on events older than `keeps`, the retention of
/// the index in seconds.
fn notes(index: &str, (before, after): &(IndexState, IndexState), now: i64, keeps: Option<u64>) -> Vec<String> {
    let new_index = new_index_note(index, &before.names, "is new").map(|note| format!("note: {note}"));
    let now = Timestamp::from_nanosecond(now.into()).ok();
    let ahead = after.newest.filter(|newest| before.newest.is_none_or(|before| *newest > before)).zip(now);
    let ahead = ahead.map(|(newest, now)| newest.duration_since(now)).filter(|ahead| *ahead > FUTURE_TOLERANCE);
    let future = ahead.map(|ahead| {
        format!(
            "note: the newest of these events is {:.1} h in the future: if the times in the text are in another \
             zone, name it with --zone or TZ in props.conf; `quarry preview FILE` shows which zone was used",
            ahead.as_secs_f64() / 3_600.0
        )
    });
    let keeps = keeps.and_then(|keeps| Some(SignedDuration::from_secs(i64::try_from(keeps).ok()?)));
    let oldest = after.oldest.filter(|oldest| before.oldest.is_none_or(|before| *oldest < before));
    let age = oldest.zip(now).map(|(oldest, now)| now.duration_since(oldest));
    let too_old = age.zip(keeps).filter(|(age, keeps)| age > keeps).map(|(age, keeps)| {
        format!(
            "note: the oldest of these events is {} days old, and index {index} keeps events for {}: a server removes \
             buckets without newer events a day after they were added; `quarry edit index {index} \
             --frozenTimePeriodInSecs N` keeps them longer",
            age.as_hours() / 24,
            duration_text(keeps)
        )
    });
    new_index.into_iter().chain(future).chain(too_old).collect()
}

/// Formats a duration in the largest unit in which it is not zero.
fn duration_text(duration: SignedDuration) -> String {
    match (duration.as_hours() / 24, duration.as_hours(), duration.as_secs()) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, hours, _) => format!("{hours} h"),
        (days, ..) => format!("{days} days"),
    }
}

/// A note if no index has this name.
pub(crate) fn new_index_note(index: &str, known: &[String], what: &str) -> Option<String> {
    if known.iter().any(|name| name == index) {
        return None;
    }
    let shown = || known.iter().map(String::as_str).filter(|name| !name.starts_with('_'));
    let near = closest_name(index, shown()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Some(format!("there is no index `{index}`: it {what}{near}"))
}

fn add_locally(
    data_dir: &Path,
    settings: &Settings,
    arguments: &OneshotArgs,
    zone: Option<TimeZone>,
    told: &ResultReporter<'_>,
) -> Result<[IndexState; 2], Failure> {
    let store = data_directory::open_to_add(data_dir, settings)?;
    let before = IndexState::from_store(&store, settings, &arguments.index);
    let interrupt = Interrupt::install(|| log::info("stopping after this batch; press again to end at once"))?;
    let options = OneshotOptions {
        index: arguments.index.clone(),
        host: arguments.host.clone().unwrap_or_else(data_directory::host_name),
        host_is_fixed: arguments.host.is_some(),
        source: arguments.source.clone(),
        sourcetype: arguments.sourcetype.clone(),
        ignore_positions: arguments.again,
        scope: None,
        rotation: Rotation::None,
        ended: interrupt.flag(),
        zone,
        now: settings.clock.now_ns(),
    };
    let (claims, turns) = (Arc::new(Claims::default()), LookupOrder::default());
    add_files(settings.pipeline_sets(), told.files.len(), |set, files| {
        let mut sink = StoreSink::new(&store, set, &claims);
        let mut bar = bars::bar(interrupt.clone());
        while let Some(file) = files.take() {
            let path = &told.files[file];
            bar.begin(path);
            let mut in_turn = OrderedSink::new(&mut sink, &turns, file);
            let added = add_file(path, &options, &settings.props, &mut in_turn, &mut bar);
            drop(in_turn);
            sink.end_file();
            bar.end();
            let added = match added {
                // The store accepts no more events, so the next file would fail as well.
                Err(error @ InputError::Sink { .. }) => return Err(Failure::from(error)),
                Err(error) => Err((error.to_string(), error.report().cloned())),
                Ok(report) => Ok(report),
            };
            let is_interrupted = added.as_ref().is_ok_and(|report| report.interrupted);
            told.record_result(file, added);
            if is_interrupted {
                return Ok(ControlFlow::Break(()));
            }
        }
        sink.flush().map_err(|error| Failure::Storage(format!("events cannot be stored: {error}")))?;
        Ok(ControlFlow::Continue(()))
    })?;
    let sealing = bars::add_sealing_line();
    let sealed = store.seal_all();
    bars::remove(&sealing);
    sealed?;
    store.messages().iter().for_each(|message| log::warning(&message.text));
    Ok([before, IndexState::from_store(&store, settings, &arguments.index)])
}

/// Adds files through the server of this data directory; the server reads the files. Only this process can read
/// standard input and pipes, so it sends their content to the server.
fn add_remotely(
    remote: &Remote,
    zone: Option<&str>,
    sets: usize,
    arguments: &OneshotArgs,
    told: &ResultReporter<'_>,
) -> Result<(), Failure> {
    let files = told.files;
    let _interrupt = Interrupt::install(|| {
        log::info(
            "stopped: what the server has read is indexed; the same command continues files where they stopped, and \
             reads streams from the start",
        );
        std::process::exit(i32::from(failure::INTERRUPTED));
    })?;
    let is_stream =
        |path: &PathBuf| path.as_os_str() == STDIN || path.metadata().is_ok_and(|metadata| !metadata.is_file());
    // The server uses the configuration of this data directory, so the server has the same number of sets.
    add_files(sets, files.len(), |_, taken| {
        while let Some(file) = taken.take() {
            if is_stream(&files[file]) {
                send_files(remote, zone, arguments, told, file..file + 1);
                continue;
            }
            let absolute = absolute_text(&files[file]);
            let mut form = vec![("name", absolute.as_str()), ("index", arguments.index.as_str())];
            let named = [
                ("sourcetype", arguments.sourcetype.as_deref()),
                ("host", arguments.host.as_deref()),
                ("rename-source", arguments.source.as_deref()),
                ("zone", zone),
            ];
            form.extend(named.into_iter().filter_map(|(key, value)| Some((key, value?))));
            form.push(("again", if arguments.again { "1" } else { "0" }));
            let added = remote.add_file(&form).map(|report| from_json(&report));
            told.record_result(file, added.map_err(|failure| (interruption_text(&failure), None)));
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Error text for a file that the server stopped reading because of a failure.
fn interruption_text(failure: &Failure) -> String {
    match failure {
        Failure::Storage(text) => format!(
            "{text}; what the server had read of the file by then is indexed, and the same command continues from there"
        ),
        _ => failure.text(),
    }
}

/// Sends the content of files, one after the other, to a node that may be on another machine.
fn send_files(
    remote: &Remote,
    zone: Option<&str>,
    arguments: &OneshotArgs,
    told: &ResultReporter<'_>,
    which: Range<usize>,
) {
    let host = arguments.host.clone().unwrap_or_else(data_directory::host_name);
    for file in which {
        let path = &told.files[file];
        let named = absolute_text(path);
        let modified = path.metadata().ok().filter(std::fs::Metadata::is_file);
        let modified = modified.and_then(|metadata| metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map(|since| since.as_secs_f64().to_string());
        let name = if path.as_os_str() == STDIN { path.display().to_string() } else { named };
        let given = [
            ("name", Some(name.as_str())),
            ("index", Some(arguments.index.as_str())),
            ("host", Some(host.as_str())),
            ("sourcetype", arguments.sourcetype.as_deref()),
            ("rename-source", arguments.source.as_deref()),
            ("zone", zone),
            ("modified", modified.as_deref()),
            ("again", arguments.again.then_some("1")),
        ];
        let given: Vec<(&str, &str)> = given.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let sent = open_content(path).and_then(|content| remote.send_file(&given, content));
        told.record_result(file, sent.map(|report| from_json(&report)).map_err(|failure| (failure.text(), None)));
    }
}

/// Opens the content of a file, which is read while it is sent.
fn open_content(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path.as_os_str() == STDIN {
        return Ok(Box::new(std::io::stdin()));
    }
    let file = File::open(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(Box::new(file))
}

/// Reports results in the given order of files.
struct ResultReporter<'a> {
    files: &'a [PathBuf],
    inner: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    total: Total,
    /// Number of the next file to report.
    next: usize,
    /// Results of files after `next` that are done.
    done: BTreeMap<usize, AddResult>,
}

impl ResultReporter<'_> {
    /// Reports names that match no files.
    fn report_missing(&self, wrong: &[InputError]) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for error in wrong {
            inner.total.failed += 1;
            inner.total.remarks.print(&format!("error: {error}"));
        }
    }

    /// Records the result of a file.
    fn record_result(&self, file: usize, added: AddResult) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Results { total, next, done } = &mut *inner;
        done.insert(file, added);
        while let Some(added) = done.remove(next) {
            total.add(&self.files[*next], added);
            *next += 1;
        }
    }

    /// Reports the remaining results and returns the totals.
    fn end(self) -> Total {
        let Results { mut total, done, .. } = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.into_iter().for_each(|(file, added)| total.add(&self.files[file], added));
        total
    }
}

/// Formats a report as the JSON that a server sends.
pub(crate) fn to_json(report: &FileReport) -> Value {
    json!({
        "bytes": report.bytes,
        "events": report.events,
        "bad_timestamps": report.bad_timestamps,
        "truncated_lines": report.truncated_lines,
        "dropped_events": report.dropped_events,
        "skipped": report.skipped,
        "stored_as": report.stored_as,
        "resumed_at": report.resumed_at,
        "interrupted": report.interrupted,
        "sourcetype": report.sourcetype,
        "shrunk": report.shrunk.map(|shrunk| [shrunk.expected, shrunk.found]),
        "problem": report.problem,
        "warnings": report.warnings,
    })
}

fn from_json(report: &Value) -> FileReport {
    let number = |key: &str| report[key].as_u64().unwrap_or(0);
    let text = |key: &str| report[key].as_str().map(str::to_owned);
    let warnings = report["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shrunk = |at: usize| report["shrunk"][at].as_u64();
    FileReport {
        bytes: number("bytes"),
        events: number("events"),
        bad_timestamps: number("bad_timestamps"),
        truncated_lines: number("truncated_lines"),
        dropped_events: number("dropped_events"),
        skipped: report["skipped"] == true,
        stored_as: text("stored_as"),
        resumed_at: number("resumed_at"),
        interrupted: report["interrupted"] == true,
        sourcetype: text("sourcetype"),
        shrunk: shrunk(0).zip(shrunk(1)).map(|(expected, found)| quarry_inputs::file::ShrunkFile { expected, found }),
        problem: text("problem"),
        is_skipped_as_binary: false,
        has_unread_end: false,
        warnings: warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

/// Totals over all files.
#[derive(Default)]
struct Total {
    files: usize,
    skipped: Names,
    empty: Names,
    binary: usize,
    resumed: usize,
    failed: usize,
    bytes: u64,
    events: u64,
    bad_timestamps: u64,
    truncated_lines: u64,
    dropped_events: u64,
    interrupted: bool,
    sourcetypes: BTreeSet<String>,
    remarks: Remarks,
}

/// Files with the same result: their count and the first few names.
#[derive(Default)]
struct Names {
    count: usize,
    first: Vec<String>,
}

impl Names {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < NAMES_MAX {
            self.first.push(name());
        }
    }

    /// Lists the first names and the number of further names.
    fn list_names(&self) -> String {
        let rest = self.count - self.first.len();
        let more = if rest > 0 { format!(" and {} more", HumanCount(rest as u64)) } else { String::new() };
        format!("{}{more}", self.first.join(", "))
    }
}

impl Total {
    fn add(&mut self, path: &Path, added: AddResult) {
        match added {
            Ok(report) => self.add_report(path, &report),
            Err((text, before)) => self.fail(path, &text, before.as_ref()),
        }
    }

    /// Adds a failed file, with the counts of the events added before the error.
    fn fail(&mut self, path: &Path, text: &str, before: Option<&FileReport>) {
        self.failed += 1;
        self.remarks.print(&format!("error: {text}"));
        if let Some(report) = before {
            self.add_report(path, report);
        }
    }

    /// Adds one file and reports anything unusual about it.
    fn add_report(&mut self, path: &Path, report: &FileReport) {
        let name = path.display();
        if let Some(shrunk) = report.shrunk {
            let (expected, found) = (shrunk.expected, shrunk.found);
            self.remarks.print(&format!(
                "warning: {name} was truncated while it was read: {expected} bytes at first, {found} in the end; the \
                 bytes read are indexed"
            ));
        }
        if let Some(problem) = &report.problem {
            self.remarks.print(&format!("warning: {name}: read as plain lines: {problem}"));
        }
        report.warnings.iter().for_each(|warning| self.remarks.print(&format!("warning: {name}: {warning}")));
        if report.resumed_at > 0 && !report.skipped {
            self.remarks
                .print(&format!("{name}: continues at byte {}, where an earlier add stopped", report.resumed_at));
        }
        let is_unread = report.bytes == 0 && report.resumed_at == 0 && !report.interrupted;
        if report.skipped {
            let absolute = absolute_text(path);
            let other = report.stored_as.as_ref().filter(|stored| **stored != absolute);
            self.skipped.add(|| match other {
                Some(other) => format!("{name} (its content as {other})"),
                None => name.to_string(),
            });
        } else if is_unread && report.warnings.is_empty() {
            self.empty.add(|| name.to_string());
        } else if is_unread {
            self.binary += 1;
        } else {
            self.files += 1;
        }
        self.sourcetypes.extend(report.sourcetype.clone());
        self.resumed += usize::from(report.resumed_at > 0 && !report.skipped);
        self.bytes += report.bytes;
        self.events += report.events;
        self.bad_timestamps += report.bad_timestamps;
        self.truncated_lines += report.truncated_lines;
        self.dropped_events += report.dropped_events;
        self.interrupted |= report.interrupted;
    }

    /// True if there were files and all were skipped as binary.
    fn is_all_skipped(&self) -> bool {
        self.binary > 0 && self.files + self.skipped.count + self.empty.count + self.failed == 0
    }

    fn summary(&self, seconds: f64) -> String {
        let plural = |count: usize| if count == 1 { "file" } else { "files" };
        let events = format!("{} {}", HumanCount(self.events), if self.events == 1 { "event" } else { "events" });
        let files = format!("{} {}", self.files, plural(self.files));
        // The rate of a small file is meaningless.
        let rate = match self.bytes {
            0..RATED_BYTES_MIN => String::new(),
            bytes if seconds > 0.0 => format!(" ({:.0} MB/s)", f64_of(bytes) / 1e6 / seconds),
            _ => String::new(),
        };
        let mut text = format!("added {events} from {files}, {} in {seconds:.1} s{rate}", DecimalBytes(self.bytes));
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                text.push_str(&format!("; {} {what}", HumanCount(count)));
            }
        };
        say(self.bad_timestamps, "without a timestamp that can be read");
        say(
            self.truncated_lines,
            if self.truncated_lines == 1 { "line cut to TRUNCATE" } else { "lines cut to TRUNCATE" },
        );
        say(
            self.dropped_events,
            if self.dropped_events == 1 { "event dropped by rules" } else { "events dropped by rules" },
        );
        say(self.binary as u64, &format!("{} skipped as binary", plural(self.binary)));
        say(self.empty.count as u64, &format!("{} empty: {}", plural(self.empty.count), self.empty.list_names()));
        let skipped = self.skipped.count;
        let why = format!("skipped because added before (--again adds them again): {}", self.skipped.list_names());
        say(skipped as u64, &format!("{} {why}", plural(skipped)));
        say(self.failed as u64, &format!("{} failed", plural(self.failed)));
        if self.interrupted {
            text.push_str("; stopped early, the same command continues from here");
        }
        text
    }
}
