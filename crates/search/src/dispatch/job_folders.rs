//! Folders of clients' jobs: reserves their names and writes their files at the start and end of a search.
//!
//! A running job's folder contains its request (`job.json`) and its rows; a finished job's folder also contains its
//! outcome (the facts, which include the request). A folder with a request but no facts belongs to a running search. If
//! the server of the search died, [`JobStore::mark_interrupted`] marks the job as failed.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{FACTS, JobStore, RESULTS, is_sid, remove, remove_result};
use crate::error::SearchError;
use crate::job_recorder::{JobFacts, JobRecorder};

/// File with the request of a job.
pub(super) const RECORD: &str = "job.json";
/// Error message of a search that was running when its server ended.
const INTERRUPTED: &str = "the server ended while this search ran: run it again";

impl JobStore {
    /// Creates the folder of a job, with the requested or a new name, and writes its request.
    pub(crate) fn begin_job(
        &self,
        wanted: Option<&str>,
        record: &dyn Fn(&str) -> Value,
    ) -> Result<String, SearchError> {
        let sid = match wanted {
            Some(name) if !is_sid(name) => return Err(SearchError::InvalidJobName(name.chars().take(100).collect())),
            Some(name) => name.to_owned(),
            None => self.begin(self.clock.now_ns()).unwrap_or_default(),
        };
        let is_taken = wanted.is_some() && self.recent.as_ref().is_some_and(|recent| recent.find(&sid).is_some());
        match self.create_folder(&sid) {
            Ok(()) if !is_taken => {}
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.into()),
            // Outside of a server, `begin` has created the folder of a generated name.
            Err(_) if wanted.is_none() && is_sid(&sid) => {}
            _ => return Err(SearchError::JobExists(sid)),
        }
        match std::fs::write(self.folder.join(&sid).join(RECORD), record(&sid).to_string()) {
            Ok(()) => Ok(sid),
            // A concurrent request removed an older job of this name, together with the folder.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(SearchError::JobExists(sid)),
            Err(error) => Err(error.into()),
        }
    }

    /// Path of a job's rows.
    pub(crate) fn rows_path(&self, sid: &str) -> PathBuf {
        self.folder.join(sid).join(RESULTS)
    }

    /// Writes the outcome of a job and logs its search. `until` is the Unix time in seconds at which the job expires.
    pub(crate) fn end_job(&self, facts: &JobFacts, until: i64, more: &Value) -> std::io::Result<()> {
        // A failure to log the search must not fail the job.
        drop(self.log_search(facts));
        let mut facts_json = self.facts_json(facts);
        facts_json["until"] = until.into();
        for (name, value) in more.as_object().into_iter().flatten() {
            facts_json[name] = value.clone();
        }
        let written = self.write_facts(&facts.sid, &facts_json);
        self.remove_expired_if_due();
        written
    }

    fn write_facts(&self, sid: &str, facts: &Value) -> std::io::Result<()> {
        let folder = self.folder.join(sid);
        let unfinished = folder.join("facts.new");
        std::fs::write(&unfinished, facts.to_string())?;
        std::fs::rename(unfinished, folder.join(FACTS))
    }

    /// Changes the facts of a finished job, if the job still exists.
    pub(crate) fn update_facts(&self, sid: &str, change: impl FnOnce(&mut Value)) -> std::io::Result<()> {
        let Some(mut facts) = self.facts(sid) else { return Ok(()) };
        change(&mut facts);
        self.write_facts(sid, &facts)
    }

    /// Writes a changed request of a job, if the job still exists.
    pub(crate) fn update_record(&self, sid: &str, record: &Value) -> std::io::Result<()> {
        let folder = self.folder.join(sid);
        if folder.join(FACTS).exists() {
            return self.update_facts(sid, |facts| facts["job"] = record.clone());
        }
        if !folder.join(RECORD).exists() {
            return Ok(());
        }
        let unfinished = folder.join("job.new");
        std::fs::write(&unfinished, record.to_string())?;
        std::fs::rename(unfinished, folder.join(RECORD))
    }

    /// The record of a job without an outcome.
    pub(super) fn running_job(&self, sid: &str) -> Option<Value> {
        let folder = self.folder.join(sid);
        if !is_sid(sid) || folder.join(FACTS).exists() {
            return None;
        }
        serde_json::from_str(&std::fs::read_to_string(folder.join(RECORD)).ok()?).ok()
    }

    /// Facts of a finished job, unless it has expired.
    pub(crate) fn job_facts(&self, sid: &str) -> Option<Value> {
        self.facts(sid).filter(|facts| facts["job"].is_object())
    }

    /// Names and facts of finished jobs.
    pub(crate) fn finished_jobs(&self) -> Vec<(String, Value)> {
        let jobs = self.all().into_iter().filter(|job| job.facts["job"].is_object());
        jobs.map(|job| (job.sid, job.facts)).collect()
    }

    /// Removes a job with its rows.
    pub(crate) fn remove_job(&self, sid: &str) {
        assert!(is_sid(sid), "only a name that was made or checked gets here");
        // The folder is renamed first, so that a concurrent removal cannot delete the files of a new job of this name.
        let (folder, gone) = (self.folder.join(sid), self.folder.join(format!(".{sid}.removed")));
        match std::fs::rename(&folder, &gone) {
            Ok(()) => remove(&gone),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => remove(&folder),
        }
    }

    /// Marks as failed the jobs whose server died, and removes expired jobs. Must be called only at the start of a
    /// server, when no job is running.
    pub(crate) fn mark_interrupted(&self, seconds_kept: i64) {
        for sid in self.names() {
            let folder = self.folder.join(&sid);
            if folder.join(FACTS).exists() {
                if folder.join(RECORD).is_file() && self.facts(&sid).is_none() {
                    remove_result(&folder);
                }
                continue;
            }
            let Ok(text) = std::fs::read_to_string(folder.join(RECORD)) else { continue };
            let Ok(record) = serde_json::from_str::<Value>(&text) else { continue };
            let now = self.now_seconds();
            let facts = json!({
                "sid": sid, "user": record["user"], "search": record["search"], "rows": 0, "events": false,
                "messages": [], "ended": now, "until": now.saturating_add(seconds_kept),
                "job": record, "failure": INTERRUPTED,
            });
            // Failures are ignored: the next start tries again to mark the job.
            drop(std::fs::remove_file(folder.join(RESULTS)));
            drop(self.write_facts(&sid, &facts));
        }
    }
}
