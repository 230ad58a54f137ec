//! Stored results of finished searches (for `loadjob`) and the search log (for `history`), in files below `dispatch` of
//! the data directory.
//!
//! A search gets a folder with its name when it starts, so that two processes never use the same name; in a server, the
//! folder of a search that is not a client's job is created only when the result is written. The folder of a finished
//! search contains its rows (`results.arrow`: Arrow IPC streams; each change of columns begins a new stream) and its
//! outcome (`facts.json`, written last: a folder without this file holds no result). A result has a lifetime. Beyond
//! [`JOBS_MAX`] results or [`BYTES_MAX`] bytes, the oldest results are removed first, except results of clients' jobs,
//! which have limits of their own. If the folder cannot be written, nothing is stored. Files that the `dump` command
//! writes are in the subfolder `dump` of the search's folder, whether or not the result of the search is stored, and
//! are kept for [`ABANDONED_AFTER_S`].
//!
//! A server keeps small results of ad-hoc searches in memory ([`RecentJobs`]).

mod job_folders;
mod result_cache;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use quarry_apps::DUMP_FOLDER;
use quarry_conf::{Layers, Permissions};
use quarry_engine::{JobResult, NodeEntry};
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, period_seconds};
use quarry_stdx::number::f64_of;
use quarry_stdx::{Fault, SharedClock};
use serde_json::{Value, json};

use crate::job_recorder::{CollectedBytes, JobFacts, JobRecorder};
use crate::job_sharing::is_readable;
use result_cache::{RecentJob, RecentJobs};

/// Folder of stored jobs, relative to the data directory.
pub const JOBS_FOLDER: &str = "dispatch";
/// File with the rows of a job.
const RESULTS: &str = "results.arrow";
/// File with the outcome of a job.
const FACTS: &str = "facts.json";
/// Log of finished searches (one JSON object per line), and the name of the previous log.
const HISTORY: &str = "history.jsonl";
const PREVIOUS_HISTORY: &str = "history.before.jsonl";
/// Size in bytes at which a new log is started.
const HISTORY_BYTES_MAX: u64 = 4 << 20;
/// Default lifetime of a result in seconds.
const DEFAULT_TTL_S: i64 = 600;
/// Age in seconds at which files of `dump` expire, and at which a folder without a result counts as left by a dead
/// process.
const ABANDONED_AFTER_S: i64 = 24 * 60 * 60;
/// Default lifetime of a saved search's result: two periods of the search's schedule.
const SAVED_TTL: &str = "2p";
/// Number of finished jobs, or of seconds, after which the next finished job checks for expired results. Between two
/// checks, up to this many jobs may exist in excess of [`JOBS_MAX`].
const EXPIRY_CHECK_JOBS: u64 = 32;
const EXPIRY_CHECK_S: i64 = 10;
/// Maximum number of stored results, and their maximum total size in bytes; beyond them, the oldest are removed.
pub(crate) const JOBS_MAX: usize = 500;
const BYTES_MAX: u64 = 1 << 30;
/// Maximum size of a result for `loadjob` in bytes; a larger one is refused.
const LOADED_BYTES_MAX: u64 = 64 << 20;
/// Maximum length of a job's name; a longer one is invalid.
const SID_BYTES_MAX: usize = 200;
/// Maximum number of names tried for one search; then its result is not stored.
const NAMES_MAX: u64 = 10_000;

/// The stored jobs of a data directory.
pub struct JobStore {
    folder: PathBuf,
    layers: Layers,
    clock: SharedClock,
    started: AtomicU64,
    /// Number of jobs finished since the last check for expired results, and the time of that check in seconds.
    finished_count: AtomicU64,
    looked: AtomicI64,
    /// Small results of a server's searches.
    recent: Option<RecentJobs>,
    /// The log of searches and its size in bytes; `None` before the first entry is written.
    log: Mutex<Option<(File, u64)>>,
    /// Number of bytes of rows collected by running searches.
    remembered: CollectedBytes,
}

/// A job whose result is stored.
struct StoredJob {
    sid: String,
    facts: Value,
}

impl StoredJob {
    fn integer_fact(&self, name: &str) -> i64 {
        self.facts[name].as_i64().unwrap_or(0)
    }
}

fn newest_first(jobs: &mut [StoredJob]) {
    jobs.sort_by_key(|job| std::cmp::Reverse((job.integer_fact("ended"), job.sid.clone())));
}

impl JobStore {
    /// The jobs of a data directory.
    pub fn new(data_dir: &Path, layers: &Layers, clock: SharedClock) -> JobStore {
        JobStore {
            folder: data_dir.join(JOBS_FOLDER),
            layers: layers.clone(),
            clock,
            started: AtomicU64::new(1),
            finished_count: AtomicU64::new(0),
            looked: AtomicI64::new(0),
            recent: None,
            log: Mutex::new(None),
            remembered: CollectedBytes::default(),
        }
    }

    /// The jobs of a data directory used by this process alone: small results stay in memory until they expire, until
    /// there are too many newer results, or until the process ends.
    pub fn for_server(data_dir: &Path, layers: &Layers, clock: SharedClock) -> JobStore {
        let mut jobs = JobStore::new(data_dir, layers, clock);
        jobs.recent = Some(RecentJobs::default());
        jobs
    }

    fn now_seconds(&self) -> i64 {
        self.clock.now_ns().div_euclid(NS_PER_SEC)
    }

    /// The facts of a job, unless it is unfinished or expired.
    fn facts(&self, sid: &str) -> Option<Value> {
        if !is_sid(sid) {
            return None;
        }
        let text = std::fs::read_to_string(self.folder.join(sid).join(FACTS)).ok()?;
        let facts: Value = serde_json::from_str(&text).ok()?;
        self.is_current(&facts).then_some(facts)
    }

    fn is_current(&self, facts: &Value) -> bool {
        facts["until"].as_i64().is_some_and(|until| until > self.now_seconds())
    }

    /// Names of the existing job folders.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// All stored jobs, newest first.
    fn all(&self) -> Vec<StoredJob> {
        let kept = self.names().into_iter().filter_map(|sid| self.facts(&sid).map(|facts| StoredJob { sid, facts }));
        let mut kept: Vec<StoredJob> = kept.collect();
        newest_first(&mut kept);
        kept
    }

    /// Removes expired results, leftovers of dead processes, and the oldest results beyond the limits.
    pub fn remove_expired(&self) {
        let now = self.now_seconds();
        if let Some(recent) = &self.recent {
            recent.remove(|job| !self.is_current(&job.facts));
        }
        let mut others = Vec::new();
        for sid in self.names() {
            let folder = self.folder.join(&sid);
            let is_job = folder.join(job_folders::RECORD).is_file();
            if is_job && self.recent.is_some() {
                // Folders of clients' jobs are removed by the server's registry of these jobs.
                continue;
            }
            let began = sid.split('.').next().and_then(|seconds| seconds.parse::<i64>().ok()).unwrap_or(0);
            let has_facts = folder.join(FACTS).is_file();
            // A job of a running server is kept regardless of its age: its name need not contain the start time. If a
            // server dies, its next start marks the running jobs as failed.
            let is_running = !has_facts && is_job;
            let facts = self.facts(&sid);
            if began + ABANDONED_AFTER_S < now && !is_running && facts.is_none() {
                remove(&folder);
            } else if has_facts && facts.is_none() {
                remove_result(&folder);
            }
            // Clients' jobs have limits of their own, and each has its own lifetime.
            others.extend(facts.filter(|_| !is_job).map(|facts| StoredJob { sid, facts }));
        }
        newest_first(&mut others);
        let mut bytes = 0;
        for (at, job) in others.iter().enumerate() {
            bytes += u64::try_from(job.integer_fact("bytes")).unwrap_or(0);
            if at >= JOBS_MAX || bytes > BYTES_MAX {
                remove_result(&self.folder.join(&job.sid));
            }
        }
    }

    /// Removes expired results at intervals, not after each of many short searches, because the check inspects every
    /// job.
    fn remove_expired_if_due(&self) {
        let now = self.now_seconds();
        let is_due = now.saturating_sub(self.looked.load(Ordering::Relaxed)) >= EXPIRY_CHECK_S;
        if self.finished_count.fetch_add(1, Ordering::Relaxed) + 1 >= EXPIRY_CHECK_JOBS || is_due {
            self.finished_count.store(0, Ordering::Relaxed);
            self.looked.store(now, Ordering::Relaxed);
            self.remove_expired();
        }
    }

    /// Lifetime of a search's result in seconds.
    fn ttl_s(&self, saved: Option<&str>) -> i64 {
        let Some(name) = saved else { return DEFAULT_TTL_S };
        let merged = self.layers.conf("savedsearches");
        let ttl = merged.get(name, "dispatch.ttl").unwrap_or(SAVED_TTL);
        let Some(periods) = ttl.strip_suffix('p') else { return ttl.parse().unwrap_or(DEFAULT_TTL_S) };
        let period = merged.get(name, "cron_schedule").and_then(period_seconds);
        match (periods.parse::<i64>(), period) {
            (Ok(periods), Some(period)) => periods.saturating_mul(period),
            _ => DEFAULT_TTL_S,
        }
    }

    /// Content of the facts file.
    fn facts_json(&self, facts: &JobFacts) -> Value {
        let now = self.now_seconds();
        json!({
            "sid": facts.sid, "user": facts.user, "search": facts.search, "saved": facts.saved, "events": facts.events, "rows": facts.rows,
            "messages": facts.messages, "ended": now,
            "until": now.saturating_add(self.ttl_s(facts.saved.as_deref())),
        })
    }

    fn write(&self, sid: &str, mut facts: Value, rows: &[RecordBatch]) -> Result<(), ArrowError> {
        let folder = self.folder.join(sid);
        facts["bytes"] = write_rows(&folder.join(RESULTS), rows)?.into();
        let unfinished = folder.join("facts.new");
        std::fs::write(&unfinished, facts.to_string())?;
        Ok(std::fs::rename(unfinished, folder.join(FACTS))?)
    }

    /// Keeps rows in memory if they are few enough and no saved search produced them; returns whether it did.
    fn cache_rows(&self, facts: &JobFacts, rows: &[RecordBatch]) -> bool {
        let Some(recent) = self.recent.as_ref().filter(|_| facts.saved.is_none() && RecentJobs::fits(rows)) else {
            return false;
        };
        recent.add(RecentJob { sid: facts.sid.clone(), facts: self.facts_json(facts), rows: rows.to_vec() }, JOBS_MAX);
        true
    }

    /// Writes rows; returns whether that succeeded.
    fn store_rows(&self, facts: &JobFacts, rows: &[RecordBatch]) -> bool {
        let has_folder = self.folder.join(&facts.sid).is_dir() || self.create_folder(&facts.sid).is_ok();
        has_folder && self.write(&facts.sid, self.facts_json(facts), rows).is_ok()
    }

    /// Creates the folder of a job.
    fn create_folder(&self, sid: &str) -> std::io::Result<()> {
        if !self.folder.is_dir() {
            // A search does not create the data directory itself.
            std::fs::create_dir(&self.folder)?;
        }
        std::fs::create_dir(self.folder.join(sid))
    }

    /// Writes the results that are held in memory to files.
    fn flush_cached(&self) {
        for job in self.recent.iter().flat_map(RecentJobs::take_all).filter(|job| self.is_current(&job.facts)) {
            let has_folder = self.folder.join(&job.sid).is_dir() || self.create_folder(&job.sid).is_ok();
            if !has_folder || self.write(&job.sid, job.facts, &job.rows).is_err() {
                remove_result(&self.folder.join(&job.sid));
            }
        }
    }

    fn log_search(&self, facts: &JobFacts) -> std::io::Result<()> {
        let line = json!({
            "_time": facts.started.div_euclid(NS_PER_SEC), "sid": facts.sid, "user": facts.user,
            "search": facts.search, "saved": facts.saved, "rows": facts.rows, "scanned": facts.events_scanned, "elapsed_ms": facts.elapsed_ms,
            "events": facts.events,
        });
        let line = format!("{line}\n");
        // A poisoned lock is harmless: a line is written completely or not at all.
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.as_ref().is_none_or(|(_, bytes)| *bytes > HISTORY_BYTES_MAX) {
            *log = None;
            *log = Some(self.open_log()?);
        }
        if let Some((file, bytes)) = log.as_mut() {
            // The line is written at once, so that lines of several processes do not mix.
            file.write_all(line.as_bytes())?;
            *bytes += line.len() as u64;
        }
        Ok(())
    }

    /// The search log and its size; if the log is full, starts a new log.
    fn open_log(&self) -> std::io::Result<(File, u64)> {
        let path = self.folder.join(HISTORY);
        if path.metadata().is_ok_and(|file| file.len() > HISTORY_BYTES_MAX) {
            std::fs::rename(&path, self.folder.join(PREVIOUS_HISTORY))?;
        }
        if !self.folder.is_dir() {
            std::fs::create_dir(&self.folder)?;
        }
        let file = File::options().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }

    /// The result of a job; `None` if the job has no result that `viewer` may see.
    pub fn load(&self, sid: &str, viewer: &Permissions) -> Result<Option<JobResult>, Fault> {
        let is_seen = |facts: &Value| is_readable(facts["user"].as_str(), &facts["job"], viewer);
        let recent = self.recent.as_ref().and_then(|recent| recent.find(sid));
        let (facts, rows) = match recent.filter(|job| self.is_current(&job.facts)) {
            Some(job) if is_seen(&job.facts) => (job.facts, job.rows),
            Some(_) => return Ok(None),
            None => {
                let Some(facts) = self.facts(sid).filter(is_seen) else { return self.check_running(sid, viewer) };
                match facts["bytes"].as_u64() {
                    None => {
                        let Some(reason) = facts["failure"].as_str() else { return Ok(None) };
                        return Err(Fault::invalid(format!("job {sid} failed and has no result: {reason}")));
                    }
                    Some(bytes) if bytes > LOADED_BYTES_MAX => {
                        let (size, most) = (bytes >> 20, LOADED_BYTES_MAX >> 20);
                        return Err(Fault::invalid(format!(
                            "the result of job {sid} has {size} MB, more than the {most} MB that are loaded"
                        )));
                    }
                    Some(_) => {}
                }
                let path = self.folder.join(sid).join(RESULTS);
                // A job without rows may have no file of them.
                let rows = if facts["rows"] == 0 && !path.exists() { Ok(Vec::new()) } else { read_rows(&path) };
                // The job may have been removed since its facts were read.
                if rows.is_err() && self.facts(sid).is_none() {
                    return self.check_running(sid, viewer);
                }
                (facts, rows.map_err(|error| Fault::io(path.display(), error))?)
            }
        };
        let texts = facts["messages"].as_array().into_iter().flatten();
        let mut messages: Vec<String> = texts.filter_map(|text| text.as_str().map(str::to_owned)).collect();
        let is = |name: &str| facts[name].as_bool() == Some(true);
        // A job may have been finalised when it had already read all events.
        let is_unread = facts["partial"].as_bool().unwrap_or(is("finalized"));
        let is_partial = is("truncated") || is_unread;
        if is_unread && is("finalized") {
            messages.push(
                "the job was finalised before it had read all events: its result is based on a part of them".to_owned(),
            );
        }
        Ok(Some(JobResult { rows, events: is("events"), messages, is_partial }))
    }

    /// Answers for a job without an outcome: if `viewer` may see the job, an error that the job still runs; otherwise
    /// `None`.
    fn check_running(&self, sid: &str, viewer: &Permissions) -> Result<Option<JobResult>, Fault> {
        match self.running_job(sid) {
            Some(record) if is_readable(record["user"].as_str(), &record, viewer) => Err(Fault::invalid(format!(
                "job {sid} still runs and has no result yet; `quarry show jobs {sid}` shows its state"
            ))),
            _ => Ok(None),
        }
    }

    /// Id of the job of one run of a saved search, `offset` runs before the latest; counts only runs that `viewer` may
    /// see.
    pub fn saved_search_job(&self, name: &str, offset: usize, viewer: &Permissions) -> Option<String> {
        let of_search = self.all().into_iter().filter(|job| job.facts["saved"].as_str() == Some(name));
        let of_search = of_search.filter(|job| is_readable(job.facts["user"].as_str(), &job.facts["job"], viewer));
        of_search.map(|job| job.sid).nth(offset)
    }

    /// Finished searches visible to `viewer`, newest first.
    pub fn history(&self, viewer: &Permissions) -> Vec<NodeEntry> {
        let mut entries = Vec::new();
        for name in [HISTORY, PREVIOUS_HISTORY] {
            // A missing log is empty.
            let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            entries.extend(lines.filter(|line| viewer.may_see(line["user"].as_str())).map(|line| history_entry(&line)));
        }
        entries
    }
}

/// Whether a text is a valid job name. A job's folder has the same name, so path characters are excluded.
fn is_sid(text: &str) -> bool {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    is_name && !text.is_empty() && text.len() <= SID_BYTES_MAX && !text.starts_with('.')
}

/// A line of the log as `history` shows it.
fn history_entry(line: &Value) -> NodeEntry {
    let field = |name: &str, value: String| (name.to_owned(), vec![value]);
    let elapsed = f64_of(line["elapsed_ms"].as_u64().unwrap_or(0)) / 1_000.0;
    let mut entry = vec![
        field("_time", line["_time"].to_string()),
        field("search", line["search"].as_str().unwrap_or_default().to_owned()),
        field("sid", line["sid"].as_str().unwrap_or_default().to_owned()),
        field("scan_count", line["scanned"].to_string()),
        field("result_count", line["rows"].to_string()),
        field("total_run_time", format!("{elapsed:.3}")),
        field("exec_time", line["_time"].to_string()),
        field("is_realtime", "0".to_owned()),
    ];
    entry.extend(line["user"].as_str().map(|name| field("user", name.to_owned())));
    entry.extend(line["saved"].as_str().map(|name| field("savedsearch_name", name.to_owned())));
    if line["events"].as_bool() == Some(true) {
        entry.push(field("event_count", line["rows"].to_string()));
    }
    entry
}

/// Removes the result of a job, and its folder unless it contains files of `dump`.
fn remove_result(folder: &Path) {
    if !folder.join(DUMP_FOLDER).is_dir() {
        return remove(folder);
    }
    for name in [FACTS, RESULTS, job_folders::RECORD] {
        // If a file cannot be removed now, a later search tries again.
        drop(std::fs::remove_file(folder.join(name)));
    }
}

/// Removes the folder of a job, possibly concurrently with another process.
fn remove(folder: &Path) {
    // If it cannot be removed now, the next search tries again.
    drop(std::fs::remove_dir_all(folder));
}

/// Writes batches; returns the number of bytes.
fn write_rows(path: &Path, rows: &[RecordBatch]) -> Result<u64, ArrowError> {
    let mut out = BufWriter::new(File::create(path)?);
    for alike in rows.chunk_by(|one, next| one.schema_ref() == next.schema_ref()) {
        let mut writer = StreamWriter::try_new(&mut out, alike[0].schema_ref())?;
        alike.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()?;
    }
    out.flush()?;
    Ok(path.metadata()?.len())
}

/// Reads the batches that [`write_rows`] wrote.
fn read_rows(path: &Path) -> Result<Vec<RecordBatch>, ArrowError> {
    let length = path.metadata()?.len();
    let mut file = BufReader::new(File::open(path)?);
    let mut rows = Vec::new();
    while std::io::Seek::stream_position(&mut file)? < length {
        for batch in StreamReader::try_new(&mut file, None)? {
            rows.push(batch?);
        }
    }
    Ok(rows)
}

impl JobRecorder for JobStore {
    fn begin(&self, now: TimeNs) -> Option<String> {
        let seconds = now.div_euclid(NS_PER_SEC);
        for _ in 0..NAMES_MAX {
            // The process id prevents another process from reusing, in the same second, a name whose folder is gone.
            let sid = format!("{seconds}.{}_{}", self.started.fetch_add(1, Ordering::Relaxed), std::process::id());
            if self.recent.is_some() {
                return Some(sid);
            }
            match self.create_folder(&sid) {
                Ok(()) => return Some(sid),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn finish(&self, facts: &JobFacts, rows: Option<&[RecordBatch]>) {
        // The client has its answer, so a failure to log the search must not fail the search.
        drop(self.log_search(facts));
        if rows.is_some_and(|rows| self.cache_rows(facts, rows)) {
            return;
        }
        let kept = rows.is_some_and(|rows| self.store_rows(facts, rows));
        if !kept {
            remove_result(&self.folder.join(&facts.sid));
        }
        self.remove_expired_if_due();
    }

    fn abandon(&self, sid: &str) {
        remove(&self.folder.join(sid));
    }

    fn collected_bytes(&self) -> &CollectedBytes {
        &self.remembered
    }
}

impl Drop for JobStore {
    fn drop(&mut self) {
        self.flush_cached();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use quarry_conf::{ConfSource, Layer};
    use quarry_stdx::{Clock, ManualClock};

    use super::*;

    fn viewer() -> Permissions {
        Permissions::owner()
    }

    const START: i64 = 1_795_186_800;

    fn rows(names: &[&str]) -> RecordBatch {
        let column: ArrayRef = Arc::new(StringViewArray::from(names.to_vec()));
        RecordBatch::try_from_iter([("name", column)]).unwrap()
    }

    fn counts() -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
        RecordBatch::try_from_iter([("count", column)]).unwrap()
    }

    fn facts(sid: &str, saved: Option<&str>) -> JobFacts {
        JobFacts {
            sid: sid.to_owned(),
            saved: saved.map(str::to_owned),
            started: START * NS_PER_SEC,
            ..JobFacts::default()
        }
    }

    fn jobs(folder: &Path, clock: &Arc<ManualClock>) -> JobStore {
        let text = "[Hosts]\nsearch = *\ndispatch.ttl = 60\n[Hourly]\nsearch = *\ncron_schedule = 5 * * * *\n";
        let file = ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: "savedsearches.conf".to_owned(),
            text: text.to_owned(),
        };
        JobStore::new(folder, &Layers::new([file]), Arc::clone(clock) as SharedClock)
    }

    #[test]
    fn results_are_loaded_unchanged_until_they_expire() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let (jobs, other) = (jobs(folder.path(), &clock), self::jobs(folder.path(), &clock));
        let now = START * NS_PER_SEC;
        let (first, second) = (jobs.begin(now).unwrap(), other.begin(now).unwrap());
        assert_ne!(first, second, "two processes take different names");
        assert!(jobs.load(&first, &viewer()).unwrap().is_none(), "a search that runs has no result");
        let batches = [rows(&["a", "a text that is longer than twelve bytes"]), rows(&["b"]), counts(), rows(&["c"])];
        jobs.finish(&JobFacts { messages: vec!["cut".to_owned()], ..facts(&first, None) }, Some(&batches));
        other.finish(&facts(&second, None), None);
        let loaded = other.load(&first, &viewer()).unwrap().unwrap();
        assert_eq!(loaded.rows, batches);
        assert_eq!(loaded.messages, ["cut"]);
        assert!(jobs.load(&second, &viewer()).unwrap().is_none());
        assert_eq!(jobs.history(&viewer()).len(), 2);
        clock.advance_ns(DEFAULT_TTL_S * NS_PER_SEC);
        assert!(jobs.load(&first, &viewer()).unwrap().is_none());
        jobs.remove_expired();
        assert!(!folder.path().join(JOBS_FOLDER).join(first).exists());
        for outside in ["..", "", "../dispatch", ".hidden"] {
            assert!(jobs.load(outside, &viewer()).unwrap().is_none());
        }
    }

    #[test]
    fn jobs_without_a_result_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let jobs = jobs(folder.path(), &clock);
        let record = |sid: &str| json!({ "sid": sid, "user": "admin", "search": "search *" });
        let sid = jobs.begin_job(Some("one"), &record).unwrap();
        let told =
            |viewer: &Permissions| jobs.load(&sid, viewer).map(|job| job.is_some()).map_err(|fault| fault.to_string());
        assert!(told(&viewer()).unwrap_err().contains("job one still runs"), "{:?}", told(&viewer()));
        let eva = Permissions::for_user("eva", std::iter::once("search".to_owned()).collect(), Vec::new(), Vec::new());
        assert_eq!(told(&eva), Ok(false), "others do not learn that it exists");
        jobs.mark_interrupted(DEFAULT_TTL_S);
        assert!(told(&viewer()).unwrap_err().contains("job one failed and has no result: "), "{:?}", told(&viewer()));
        assert_eq!(told(&eva), Ok(false));
    }

    #[test]
    fn files_of_dump_outlive_the_result_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let layers = Layers::new([]);
        for is_server in [false, true] {
            let jobs = match is_server {
                true => JobStore::for_server(folder.path(), &layers, Arc::clone(&clock) as SharedClock),
                false => jobs(folder.path(), &clock),
            };
            let dumped = || {
                let sid = jobs.begin(clock.now_ns()).unwrap();
                let file = folder.path().join(JOBS_FOLDER).join(&sid).join(DUMP_FOLDER).join("a_1.raw");
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, "a\n").unwrap();
                (sid, file)
            };
            let ((small, of_small), (large, of_large), (failed, of_failed)) = (dumped(), dumped(), dumped());
            jobs.finish(&facts(&small, None), Some(&[counts()]));
            assert_eq!(jobs.load(&small, &viewer()).unwrap().unwrap().rows, [counts()]);
            jobs.finish(&facts(&large, None), None);
            jobs.abandon(&failed);
            assert!(of_small.exists() && of_large.exists() && !of_failed.exists());
            clock.advance_ns(DEFAULT_TTL_S * NS_PER_SEC);
            jobs.remove_expired();
            assert!(jobs.load(&small, &viewer()).unwrap().is_none(), "the result has expired");
            assert!(of_small.exists() && of_large.exists());
            clock.advance_ns((ABANDONED_AFTER_S + 1) * NS_PER_SEC);
            jobs.remove_expired();
            assert!(!of_small.exists() && !of_large.exists());
        }
    }

    #[test]
    fn the_newest_run_of_a_saved_search_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let jobs = jobs(folder.path(), &clock);
        let run = |name: &str| {
            clock.advance_ns(NS_PER_SEC);
            let sid = jobs.begin(clock.now_ns()).unwrap();
            jobs.finish(&facts(&sid, Some(name)), Some(&[counts()]));
            sid
        };
        let (older, newer) = (run("Hosts"), run("Hosts"));
        let hourly = run("Hourly");
        assert_eq!(jobs.saved_search_job("Hosts", 0, &viewer()), Some(newer));
        assert_eq!(jobs.saved_search_job("Hosts", 1, &viewer()), Some(older));
        assert_eq!(jobs.saved_search_job("Hosts", 2, &viewer()), None);
        clock.advance_ns(100 * NS_PER_SEC);
        assert_eq!(jobs.saved_search_job("Hosts", 0, &viewer()), None, "dispatch.ttl = 60");
        clock.advance_ns(7_000 * NS_PER_SEC);
        assert_eq!(jobs.saved_search_job("Hourly", 0, &viewer()), Some(hourly), "two periods of an hour");
    }

    #[test]
    fn a_server_writes_small_results_when_it_stops() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let layers = Layers::new([]);
        let server = JobStore::for_server(folder.path(), &layers, Arc::clone(&clock) as SharedClock);
        let run = |facts: &JobFacts, batch: RecordBatch| server.finish(facts, Some(&[batch]));
        let small = server.begin(clock.now_ns()).unwrap();
        run(&JobFacts { messages: vec!["cut".to_owned()], ..facts(&small, None) }, counts());
        assert!(!folder.path().join(JOBS_FOLDER).join(&small).exists(), "it is in memory");
        assert_eq!(server.load(&small, &viewer()).unwrap().unwrap().messages, ["cut"]);
        let (large, saved) = (server.begin(clock.now_ns()).unwrap(), server.begin(clock.now_ns()).unwrap());
        run(&facts(&large, None), rows(&["a"].repeat(result_cache::RECENT_BYTES_MAX)));
        run(&facts(&saved, Some("Hosts")), rows(&["a"]));
        assert!([&large, &saved].iter().all(|sid| folder.path().join(JOBS_FOLDER).join(sid).exists()));
        let over = server.begin(clock.now_ns()).unwrap();
        for _ in 0..JOBS_MAX {
            let sid = server.begin(clock.now_ns()).unwrap();
            run(&facts(&sid, None), rows(&[&sid]));
        }
        assert!(server.load(&small, &viewer()).unwrap().is_none(), "the oldest was removed for a newer one");
        run(&facts(&over, None), counts());
        assert_eq!(server.history(&viewer()).len(), JOBS_MAX + 4);
        drop(server);
        let next = jobs(folder.path(), &clock);
        assert_eq!(next.load(&over, &viewer()).unwrap().unwrap().rows, [counts()]);
        assert_eq!(next.saved_search_job("Hosts", 0, &viewer()), Some(saved));
        clock.advance_ns(DEFAULT_TTL_S * NS_PER_SEC);
        assert!(next.load(&over, &viewer()).unwrap().is_none());
    }

    #[test]
    fn users_see_only_their_jobs_and_administrators_all() {
        let user = |name: &str, capabilities: &[&str]| {
            let capabilities = capabilities.iter().map(|name| (*name).to_owned()).collect();
            Permissions::for_user(name, capabilities, Vec::new(), Vec::new())
        };
        let (eva, tom, admin) = (user("eva", &["search"]), user("tom", &["search"]), user("a", &["admin_all_objects"]));
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let server = JobStore::for_server(folder.path(), &Layers::new([]), Arc::clone(&clock) as SharedClock);
        let run = |jobs: &JobStore, user: &str, saved: Option<&str>| {
            let sid = jobs.begin(clock.now_ns()).unwrap();
            jobs.finish(&JobFacts { user: user.to_owned(), ..facts(&sid, saved) }, Some(&[counts()]));
            sid
        };
        let (in_memory, saved) = (run(&server, "eva", None), run(&server, "eva", Some("Hosts")));
        for sid in [&in_memory, &saved] {
            for (viewer, sees) in [(&eva, true), (&tom, false), (&admin, true), (&Permissions::owner(), true)] {
                assert_eq!(server.load(sid, viewer).unwrap().is_some(), sees, "{}", viewer.user);
            }
        }
        assert_eq!(server.saved_search_job("Hosts", 0, &eva), Some(saved));
        assert_eq!(server.saved_search_job("Hosts", 0, &tom), None);
        assert_eq!([&eva, &tom, &admin].map(|viewer| server.history(viewer).len()), [2, 0, 2]);
        drop(server);
        let written = jobs(folder.path(), &clock);
        assert!(written.load(&in_memory, &eva).unwrap().is_some() && written.load(&in_memory, &tom).unwrap().is_none());
    }

    #[test]
    fn nothing_is_stored_without_a_data_directory() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let jobs = jobs(&folder.path().join("missing"), &clock);
        assert_eq!(jobs.begin(START * NS_PER_SEC), None);
        assert!(!folder.path().join("missing").exists());
        assert!(jobs.history(&viewer()).is_empty());
    }
}
