//! The background thread that builds summaries of accelerated data models.
//!
//! A round visits the models of datamodels.conf: missing summaries are built, newest slabs first, and obsolete ones are
//! removed. The thread rests after each page of events to limit its CPU use to a share of one core, and runs at low
//! priority if the system supports it.
//!
//! Not here: the content and validity of a summary (engine).

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quarry_event::time::NS_PER_SEC;
use quarry_stdx::{Fault, SharedClock, log};
use serde_json::Value;

use super::{ModelSummaries, rows_of};
use crate::service::{SearchService, WantedSummaries};

/// Name of the thread.
const THREAD: &str = "quarry-summarise";
/// Interval of rounds.
const ROUND_EVERY: Duration = Duration::from_secs(60);
/// Delay of the first round after the start of a server.
const FIRST_ROUND: Duration = Duration::from_secs(5);
/// Share of one core used for building.
const CPU_PERCENT: i64 = 25;
/// Shortest rest; shorter ones are accumulated.
const REST_NS_MIN: i64 = 2_000_000;
/// Niceness of the thread.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// The builder of a running node; dropping it ends the thread.
pub struct SummaryBuilder {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// Signals the thread to end.
#[derive(Default)]
struct Stop {
    stopping: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits; returns `false` when the thread must end.
    fn rest(&self, time: Duration) -> bool {
        let stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopping, time, |stopping| !*stopping);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn is_set(&self) -> bool {
        *self.stopping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread; `None` if no model is or was accelerated.
pub fn start(
    search: &Arc<SearchService>,
    summaries: Arc<ModelSummaries>,
    clock: &SharedClock,
) -> std::io::Result<Option<SummaryBuilder>> {
    let stop = Arc::new(Stop::default());
    let work = Work { search: Arc::clone(search), summaries, clock: clock.clone(), stop: Arc::clone(&stop) };
    if work.summaries.models().is_empty() {
        work.tidy(&BTreeSet::new(), &[]);
        return Ok(None);
    }
    for model in work.summaries.models() {
        let wrong = work.summaries.wrong_times(&model, &work.summaries.settings_of(&model), clock.now_ns());
        wrong.iter().for_each(log::warning);
    }
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || work.run())?;
    Ok(Some(SummaryBuilder { stop, thread: Some(thread) }))
}

impl Drop for SummaryBuilder {
    fn drop(&mut self) {
        *self.stop.stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error("summarising data models ended by a fault of quarry; searches read the events");
        }
    }
}

struct Work {
    search: Arc<SearchService>,
    summaries: Arc<ModelSummaries>,
    clock: SharedClock,
    stop: Arc<Stop>,
}

impl Work {
    fn run(&self) {
        // Without a lower priority, the thread only competes with others.
        #[cfg(target_os = "linux")]
        let _refused = rustix::process::nice(NICENESS);
        let mut told = BTreeSet::new();
        let mut wait = FIRST_ROUND;
        while self.stop.rest(wait) {
            self.round(&mut told);
            wait = ROUND_EVERY;
        }
    }

    /// One round over all models. `told` are errors already reported.
    fn round(&self, told: &mut BTreeSet<String>) {
        let (mut names, mut rows, mut is_whole) = (BTreeSet::new(), Vec::new(), true);
        for model in self.summaries.models() {
            match self.model(&model) {
                Ok((model_names, model_rows)) => {
                    names.extend(model_names);
                    for row in &model_rows {
                        if let Some(fault) = row["error"].as_str() {
                            let object = row["object"].as_str().unwrap_or_default();
                            tell_once(told, format!("data model {model}.{object} is not wholly summarised: {fault}"));
                        }
                    }
                    rows.extend(model_rows);
                }
                Err(fault) => {
                    is_whole = false;
                    tell_once(told, format!("data model {model} is not summarised: {fault}"));
                    rows.push(serde_json::json!({ "model": model, "complete": 0.0, "error": fault.to_string() }));
                }
            }
            if self.stop.is_set() {
                return;
            }
        }
        if let Some((name, why)) = self.summaries.take_fault() {
            tell_once(told, format!("summary {name} is made anew: {why}"));
        }
        if is_whole {
            self.tidy(&names, &rows);
        }
    }

    fn model(&self, model: &str) -> Result<(BTreeSet<String>, Vec<Value>), Fault> {
        let settings = self.summaries.settings_of(model);
        let now = self.clock.now_ns();
        let (earliest, backfill) = self.summaries.bounds(&settings, now);
        let wanted = WantedSummaries { model: model.to_owned(), earliest, backfill, build: true };
        let began = self.clock.elapsed_ns();
        let limit = settings.max_time_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        let (mut since, mut owed) = (began, 0_i64);
        let mut go_on = || {
            let now = self.clock.elapsed_ns();
            owed = owed.saturating_add(now.saturating_sub(since).saturating_mul(100 - CPU_PERCENT) / CPU_PERCENT);
            let is_late = limit.is_some_and(|limit| now.saturating_sub(began) / NS_PER_SEC > limit);
            if is_late || self.stop.is_set() {
                return false;
            }
            if owed >= REST_NS_MIN && !self.stop.rest(Duration::from_nanos(owed.unsigned_abs())) {
                return false;
            }
            if owed >= REST_NS_MIN {
                owed = 0;
            }
            since = self.clock.elapsed_ns();
            true
        };
        let report = self.search.summarise(&wanted, &mut go_on)?;
        let rows = rows_of(model, &report, now);
        Ok((report.names, rows))
    }

    /// Removes obsolete summaries and writes the round's status.
    fn tidy(&self, names: &BTreeSet<String>, rows: &[Value]) {
        if let Err(error) = self.summaries.remove_others(names) {
            log::warning(format!("old summaries cannot be removed: {error}"));
        }
        if rows.is_empty() && self.summaries.status().is_empty() {
            return;
        }
        if let Err(error) = self.summaries.write_status(&Value::Array(rows.to_vec())) {
            log::warning(format!("the state of summaries cannot be written: {error}"));
        }
    }
}

/// Maximum distinct errors reported.
const TOLD_MAX: usize = 1_000;

fn tell_once(told: &mut BTreeSet<String>, text: String) {
    if told.len() < TOLD_MAX && told.insert(text.clone()) {
        log::warning(text);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::service::SearchParams;
    use quarry_conf::Reader;
    use quarry_event::{EventBatch, Metadata};
    use quarry_store::{AppendRequest, Store, StoreOptions};
    use tempfile::tempdir;

    use super::*;
    use crate::namespaces::Sight;
    use crate::setup::tests::settings_of;

    const MODEL: &str = r#"{"objects": [{"objectName": "Orders", "parentName": "BaseEvent",
        "constraints": [{"search": "kind=order"}], "fields": [{"fieldName": "user"}],
        "calculations": [{"calculationType": "Lookup", "lookupName": "people.csv", "inputField": "user",
                          "outputFields": [{"fieldName": "team"}]}]}]}"#;
    const BY_TEAM: &str = "| tstats count FROM datamodel=Shop BY Orders.team";

    struct Node {
        store: Arc<Store>,
        work: Work,
    }

    /// A data directory with an app that defines and accelerates a model.
    fn node(dir: &Path) -> Node {
        let app = dir.join("etc/apps/shop");
        for folder in ["default/data/models", "local", "lookups"] {
            std::fs::create_dir_all(app.join(folder)).unwrap();
        }
        std::fs::write(app.join("default/data/models/Shop.json"), MODEL).unwrap();
        std::fs::write(app.join("local/datamodels.conf"), "[Shop]\nacceleration = true\n").unwrap();
        if !app.join("lookups/people.csv").exists() {
            std::fs::write(app.join("lookups/people.csv"), "user,team\neva,red\n").unwrap();
        }
        let settings = settings_of(dir, &Sight::Apps, &Reader::of_everything()).unwrap();
        let store = Store::open(StoreOptions::at(dir), settings.clock.clone()).unwrap();
        let search = Arc::new(settings.service(store.clone()).unwrap());
        let (summaries, clock) = (settings.summaries(dir), settings.clock.clone());
        Node { store, work: Work { search, summaries, clock, stop: Arc::default() } }
    }

    impl Node {
        fn add(&self, text: &str) {
            let mut batch = EventBatch { index_time: 1, ..EventBatch::default() };
            let meta =
                Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "orders".into() };
            let meta = batch.intern(&meta);
            (0..10).for_each(|at| batch.push(text.as_bytes(), at * NS_PER_SEC, meta));
            self.store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
            self.store.seal_all().unwrap();
        }

        fn round(&self) -> Vec<Value> {
            self.work.round(&mut BTreeSet::new());
            self.work.summaries.status()
        }

        fn answer(&self, text: &str) -> Vec<Vec<String>> {
            let params = SearchParams { text: text.to_owned(), ..SearchParams::of_owner() };
            let outcome = self.work.search.run(params).unwrap();
            outcome
                .table
                .rows()
                .map(|row| row.cells().map(|(_, cell)| cell.joined(" ").into_owned()).collect())
                .collect()
        }
    }

    fn files(dir: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for folder in std::fs::read_dir(dir.join("datamodel_summary")).unwrap().flatten() {
            for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                names.push(format!("{}/{}", folder.file_name().display(), file.file_name().display()));
            }
        }
        names.sort();
        names
    }

    #[test]
    fn a_round_makes_what_is_missing_and_removes_what_nobody_needs() {
        let dir = tempdir().unwrap();
        let node = node(dir.path());
        node.add("kind=order user=eva");
        node.add("kind=order user=tom");
        let only = BY_TEAM.replace("tstats", "tstats summariesonly=true");
        assert!(node.answer(&only).is_empty());
        let status = node.round();
        assert_eq!((&status[0]["slabs_done"], &status[0]["rows"]), (&Value::from(2), &Value::from(20)), "{status:?}");
        assert_eq!(node.answer(&only), [["red", "10"]]);
        let rows = node.answer("| rest /services/admin/summarization | table title summary.complete summary.buckets");
        assert_eq!(rows, [["Shop.Orders", "1.0", "2"]]);
        let made = files(dir.path());
        assert_eq!(made.len(), 2);
        // A crash between writing and renaming leaves a file that nobody opens and the next round removes.
        let left = dir.path().join("datamodel_summary").join(format!("{}.unfinished", made[0]));
        std::fs::write(&left, b"half").unwrap();
        std::fs::remove_file(dir.path().join("datamodel_summary").join(&made[0])).unwrap();
        assert_eq!(node.answer(BY_TEAM), [["red", "10"]]);
        node.round();
        assert_eq!(files(dir.path()), made);
        // A merge removes the summaries of its inputs.
        node.store.compact_all().unwrap();
        assert_eq!(node.answer(BY_TEAM), [["red", "10"]]);
        node.round();
        let merged = files(dir.path());
        assert!(merged.len() == 1 && !made.contains(&merged[0]), "{made:?} {merged:?}");
        assert_eq!(node.answer(&only), [["red", "10"]]);
        // So does the removal of an index's last events.
        node.store.retention(&[("main".to_owned(), 1)]).unwrap();
        node.round();
        assert!(files(dir.path()).is_empty());
    }

    #[test]
    fn a_changed_table_makes_summaries_stale() {
        let dir = tempdir().unwrap();
        let node = node(dir.path());
        node.add("kind=order user=eva");
        node.round();
        let before = files(dir.path());
        std::fs::write(dir.path().join("etc/apps/shop/lookups/people.csv"), "user,team\neva,blue one\n").unwrap();
        assert_eq!(node.answer(BY_TEAM), [["blue one", "10"]]);
        node.round();
        let after = files(dir.path());
        assert!(after.len() == 1 && after != before);
        assert_eq!(node.answer(&BY_TEAM.replace("tstats", "tstats summariesonly=true")), [["blue one", "10"]]);
    }

    #[test]
    fn a_stop_ends_a_round_and_keeps_what_is_there() {
        let dir = tempdir().unwrap();
        let node = node(dir.path());
        node.add("kind=order user=eva");
        node.round();
        *node.work.stop.stopping.lock().unwrap() = true;
        let before = files(dir.path());
        node.add("kind=order user=eva");
        node.round();
        assert_eq!(files(dir.path()), before);
        assert_eq!(node.answer(BY_TEAM), [["red", "20"]]);
    }
}
