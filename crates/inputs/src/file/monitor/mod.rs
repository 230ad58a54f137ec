//! Watched files: `[monitor://]` and `[batch://]` of inputs.conf.
//!
//! One thread finds files ([`Monitor::watch`]), workers read files with new data ([`Monitor::run_worker`]), and the
//! roster of files connects both. The read position of a file is stored only by the sink and is looked up when the file
//! is opened, so a crash cannot invalidate any state of the monitor.
//!
//! Not here: threads, stores, parsing inputs.conf.

mod held_files;
mod notices;
mod roster;
mod session;
mod stanza;
mod tail;
#[cfg(test)]
mod tests;
mod watcher;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_conf::{MonitorSettings, PropsResolver};
use quarry_pipeline::DateOrders;
use quarry_stdx::SharedClock;

pub use self::roster::FileProgress;
use self::roster::{Job, Roster};
use self::stanza::Stanza;
use self::tail::{ReadCounts, Tail};
use self::watcher::Watcher;
use self::worker::Worker;
use crate::{InputError, Sink};

const NANOS_PER_SEC: i64 = 1_000_000_000;
/// Maximum number of files whose last message is remembered, so that it is not repeated; messages about further files
/// are dropped.
const REPORTED_ERRORS_MAX: usize = 10_000;
/// Pause before a failed store is used again.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Options of a monitor besides its stanzas.
pub struct MonitorOptions {
    /// Default `host`.
    pub host: String,
    /// Clock.
    pub clock: SharedClock,
    /// Number of parallel workers.
    pub workers: usize,
    /// Maximum number of open files per worker.
    pub open_max: usize,
    /// Maximum number of new files held open before their first read.
    pub held_max: usize,
    /// Receives errors of files and folders.
    pub report: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for MonitorOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MonitorOptions").field("host", &self.host).field("workers", &self.workers).finish()
    }
}

/// Statistics of monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounters {
    /// Number of known files.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Events handed over.
    pub events: u64,
}

/// A file that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Path in the stanza that the file belongs to.
    pub stanza: String,
    /// Progress of reading it.
    pub progress: FileProgress,
}

/// Failures of a sink, each reported once until the sink works again.
#[derive(Debug, Default)]
struct FailureReports {
    last: Option<String>,
}

impl FailureReports {
    /// Whether to report a failure; `was_working` is set if something was stored since the last failure.
    fn is_new(&mut self, failure: &str, was_working: bool) -> bool {
        let is_new = was_working || self.last.as_deref() != Some(failure);
        self.last = Some(failure.to_owned());
        is_new
    }
}

/// Watches files.
#[derive(Debug)]
pub struct Monitor {
    stanzas: Vec<Stanza>,
    roster: Roster,
    options: MonitorOptions,
    faults: Mutex<BTreeMap<u64, String>>,
    bytes: AtomicU64,
    events: AtomicU64,
    /// Orders of day and month found in the dates of files.
    orders: Arc<DateOrders>,
}

impl Monitor {
    /// Creates a monitor of these stanzas; also returns the errors of invalid stanzas. If several stanzas match a file,
    /// the one with the longest path applies.
    pub fn new(settings: Vec<MonitorSettings>, options: MonitorOptions) -> (Monitor, Vec<InputError>) {
        let (mut stanzas, mut wrong) = (Vec::new(), Vec::new());
        for one in settings {
            match Stanza::new(one) {
                Ok(stanza) => stanzas.push(stanza),
                Err(error) => wrong.push(error),
            }
        }
        stanzas.sort_by_key(|stanza| std::cmp::Reverse(stanza.settings.path.len()));
        let roster = Roster::new(options.workers);
        let (bytes, events) = (AtomicU64::new(0), AtomicU64::new(0));
        (Monitor { stanzas, roster, options, faults: Mutex::default(), bytes, events, orders: Arc::default() }, wrong)
    }

    /// Whether there is nothing to watch.
    pub fn is_empty(&self) -> bool {
        self.stanzas.is_empty()
    }

    /// Finds files until [`Monitor::end`].
    pub fn watch(&self) {
        Watcher::new(self).run();
    }

    /// Reads the files of one worker until [`Monitor::end`]. When a sink fails, for example because the disk is full,
    /// `sink` creates another sink, and reading resumes from the stored positions.
    pub fn run_worker<'a>(&'a self, worker: usize, props: &'a PropsResolver, sink: &dyn Fn() -> Box<dyn Sink + 'a>) {
        let mut failures = FailureReports::default();
        let mut reader = Worker::new(self, props, sink());
        while !self.roster.has_ended() {
            match reader.run(worker) {
                Ok(()) => return,
                Err(error) => {
                    if failures.is_new(&error.to_string(), reader.has_stored()) {
                        (self.options.report)(&format!("{error}; trying again every second"));
                    }
                    reader = reader.successor(sink());
                    self.roster.pause(STORE_RETRY);
                    self.roster.schedule_all(worker);
                }
            }
        }
    }

    /// Ends the watcher and the workers. Unread data is read after the next start.
    pub fn end(&self) {
        self.roster.end();
    }

    /// Statistics so far.
    pub fn counters(&self) -> MonitorCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MonitorCounters { files: self.roster.len() as u64, bytes: read(&self.bytes), events: read(&self.events) }
    }

    /// The first `most` known files in the order of their paths. `monitor` limits them to the files of the stanza
    /// `[monitor://]` with this path.
    pub fn files(&self, monitor: Option<&str>, most: usize) -> Vec<WatchedFile> {
        let is_wanted = |stanza: usize| {
            let settings = &self.stanzas[stanza].settings;
            monitor.is_none_or(|path| !settings.is_batch && settings.path == path)
        };
        let shown = |(path, stanza, progress): (_, usize, _)| WatchedFile {
            path,
            stanza: self.stanzas[stanza].settings.path.clone(),
            progress,
        };
        self.roster.progress(is_wanted, most).into_iter().map(shown).collect()
    }

    fn count(&self, before: ReadCounts, after: ReadCounts) {
        self.bytes.fetch_add(after.bytes.saturating_sub(before.bytes), Ordering::Relaxed);
        self.events.fetch_add(after.events.saturating_sub(before.events), Ordering::Relaxed);
    }

    /// Reports an error of a file, if it is new.
    fn report_error(&self, job: &Job, error: &InputError) {
        self.report_if_new(job, error.to_string());
    }

    /// Adds the bytes and events read from a file since `before` to the statistics, and reports ambiguous dates and
    /// truncated lines.
    fn record_read(&self, job: &Job, before: ReadCounts, tail: &Tail) {
        self.count(before, tail.counted);
        self.roster.record_offset(job.number, tail.delivered_offset());
        if let Some(reported) = tail.remark() {
            self.report_if_new(job, format!("{}: {reported}", job.path.display()));
        }
    }

    /// Reports a message about a file, unless the last message about the file was the same.
    fn report_if_new(&self, job: &Job, text: String) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.get(&job.number) != Some(&text)
            && (faults.len() < REPORTED_ERRORS_MAX || faults.contains_key(&job.number))
        {
            (self.options.report)(&text);
            faults.insert(job.number, text);
        }
    }
}
