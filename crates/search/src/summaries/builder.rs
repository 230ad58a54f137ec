//! The background thread that builds summaries of accelerated data models.
//!
//! Each round visits the models in the current datamodels.conf, builds missing summaries (newest slabs first), and
//! removes obsolete summaries. A round begins at intervals and after each change of the configuration, so that a model
//! is accelerated without a restart. The thread rests after each page of events, which limits its CPU use to a share of
//! one core. The thread runs at low priority if the system supports priorities.
//!
//! Not here: the content and validity of a summary (engine).

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quarry_event::time::NS_PER_SEC;
use quarry_stdx::{Fault, SharedClock, log};
use serde_json::Value;

use super::{ModelSummaries, status_rows};
use crate::service::{ModelSummaryRequest, SearchService};

/// Name of the thread.
const THREAD: &str = "quarry-summarise";
/// Interval between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(60);
/// Delay between the start of a server and the first round.
const FIRST_ROUND_DELAY: Duration = Duration::from_secs(5);
/// Delay between a change of the configuration and the next round, because changes often come in groups.
const CHANGE_DELAY: Duration = Duration::from_secs(1);
/// Maximum share of one core used for building, in percent.
const CPU_PERCENT: i64 = 25;
/// Shortest rest in nanoseconds; shorter rests are accumulated.
const PAUSE_NS_MIN: i64 = 2_000_000;
/// Niceness of the thread.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// The builder of a running node; dropping it ends the thread.
pub struct SummaryBuilder {
    signal: Arc<BuilderSignal>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the thread that it must end, or that the configuration has changed.
#[derive(Default)]
pub struct BuilderSignal {
    news: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    /// Whether the thread must end.
    stopping: bool,
    /// Whether the configuration has changed since the last round began.
    configuration_changed: bool,
}

impl BuilderSignal {
    /// Notes that the configuration has changed: a round begins soon, or after the current one.
    pub fn notify_configuration_changed(&self) {
        self.update(|news| news.configuration_changed = true);
    }

    fn update(&self, change: impl FnOnce(&mut SignalState)) {
        change(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits; returns `false` when the thread must end.
    fn pause(&self, time: Duration) -> bool {
        self.pause_while(time, |news| !news.stopping)
    }

    /// Like [`BuilderSignal::pause`], but returns early when the configuration changes.
    fn pause_until_change(&self, time: Duration) -> bool {
        self.pause_while(time, |news| !news.stopping && !news.configuration_changed)
    }

    fn pause_while(&self, time: Duration, goes_on: impl Fn(&SignalState) -> bool) -> bool {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(news, time, |news| goes_on(news));
        !waited.unwrap_or_else(PoisonError::into_inner).0.stopping
    }

    fn is_stopping(&self) -> bool {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).stopping
    }
}

/// Returns a service with the current configuration.
pub type CurrentService = Box<dyn Fn() -> Result<Arc<SearchService>, Fault> + Send>;

/// Starts the thread. `signal` reports changes of the configuration.
pub fn start(
    current: CurrentService,
    clock: &SharedClock,
    signal: &Arc<BuilderSignal>,
) -> std::io::Result<SummaryBuilder> {
    let mut work =
        BuilderThread { current, clock: clock.clone(), signal: Arc::clone(signal), reported: BTreeSet::new() };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || work.run())?;
    Ok(SummaryBuilder { signal: Arc::clone(signal), thread: Some(thread) })
}

impl Drop for SummaryBuilder {
    fn drop(&mut self) {
        self.signal.update(|news| news.stopping = true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error("summarising data models ended because of a bug in quarry; searches read the events");
        }
    }
}

struct BuilderThread {
    current: CurrentService,
    clock: SharedClock,
    signal: Arc<BuilderSignal>,
    /// Errors already reported.
    reported: BTreeSet<String>,
}

impl BuilderThread {
    fn run(&mut self) {
        // A failure is harmless: without a lower priority, the thread only competes with other threads.
        #[cfg(target_os = "linux")]
        let _refused = rustix::process::nice(NICENESS);
        let mut goes_on = self.signal.pause(FIRST_ROUND_DELAY);
        while goes_on {
            self.signal.update(|news| news.configuration_changed = false);
            self.run_round();
            goes_on = self.signal.pause_until_change(ROUND_INTERVAL) && self.signal.pause(CHANGE_DELAY);
        }
    }

    /// One round over all models.
    fn run_round(&mut self) {
        let search = match (self.current)() {
            Ok(search) => search,
            Err(fault) => return self.report_once(format!("data models are not summarised: {fault}")),
        };
        let Some(summaries) = search.summaries() else { return };
        let (mut names, mut rows, mut is_whole) = (BTreeSet::new(), Vec::new(), true);
        for model in summaries.models() {
            let settings = summaries.settings_of(&model);
            for wrong in summaries.invalid_time_messages(&model, &settings, self.clock.now_ns()) {
                self.report_once(wrong);
            }
            match self.build_model(&search, summaries, &model) {
                Ok((model_names, model_rows)) => {
                    names.extend(model_names);
                    for row in &model_rows {
                        if let Some(fault) = row["error"].as_str() {
                            let object = row["object"].as_str().unwrap_or_default();
                            self.report_once(format!("data model {model}.{object} is only partly summarised: {fault}"));
                        }
                    }
                    rows.extend(model_rows);
                }
                Err(fault) => {
                    is_whole = false;
                    self.report_once(format!("data model {model} is not summarised: {fault}"));
                    rows.push(serde_json::json!({ "model": model, "complete": 0.0, "error": fault.to_string() }));
                }
            }
            if self.signal.is_stopping() {
                return;
            }
        }
        if let Some((name, why)) = summaries.take_fault() {
            self.report_once(format!("summary {name} is rebuilt: {why}"));
        }
        if is_whole {
            remove_obsolete(summaries, &names, &rows);
        }
    }

    fn build_model(
        &self,
        search: &SearchService,
        summaries: &ModelSummaries,
        model: &str,
    ) -> Result<(BTreeSet<String>, Vec<Value>), Fault> {
        let settings = summaries.settings_of(model);
        let now = self.clock.now_ns();
        let (earliest, backfill) = summaries.bounds(&settings, now);
        let wanted = ModelSummaryRequest { model: model.to_owned(), earliest, backfill, build: true };
        let began = self.clock.elapsed_ns();
        let limit = settings.max_time_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        let (mut since, mut owed) = (began, 0_i64);
        let mut go_on = || {
            let now = self.clock.elapsed_ns();
            owed = owed.saturating_add(now.saturating_sub(since).saturating_mul(100 - CPU_PERCENT) / CPU_PERCENT);
            let is_late = limit.is_some_and(|limit| now.saturating_sub(began) / NS_PER_SEC > limit);
            if is_late || self.signal.is_stopping() {
                return false;
            }
            if owed >= PAUSE_NS_MIN && !self.signal.pause(Duration::from_nanos(owed.unsigned_abs())) {
                return false;
            }
            if owed >= PAUSE_NS_MIN {
                owed = 0;
            }
            since = self.clock.elapsed_ns();
            true
        };
        let report = search.summarise(&wanted, &mut go_on)?;
        let rows = status_rows(model, &report, now);
        Ok((report.names, rows))
    }

    fn report_once(&mut self, text: String) {
        if self.reported.len() < REPORTED_MAX && self.reported.insert(text.clone()) {
            log::warning(text);
        }
    }
}

/// Maximum number of distinct errors reported.
const REPORTED_MAX: usize = 1_000;

/// Removes obsolete summaries and writes the round's status.
fn remove_obsolete(summaries: &ModelSummaries, names: &BTreeSet<String>, rows: &[Value]) {
    if let Err(error) = summaries.remove_all_except(names) {
        log::warning(format!("old summaries cannot be removed: {error}"));
    }
    if rows.is_empty() && summaries.status().is_empty() {
        return;
    }
    if let Err(error) = summaries.write_status(&Value::Array(rows.to_vec())) {
        log::warning(format!("the state of summaries cannot be written: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::service::SearchParams;
    use quarry_conf::{Permissions, Reader};
    use quarry_event::{EventBatch, Metadata};
    use quarry_store::{AppendRequest, Store, StoreOptions};
    use tempfile::tempdir;

    use super::*;
    use crate::namespaces::{Namespaces, Visibility};
    use crate::setup::tests::load_settings;

    const MODEL: &str = r#"{"objects": [{"objectName": "Orders", "parentName": "BaseEvent",
        "constraints": [{"search": "kind=order"}], "fields": [{"fieldName": "user"}],
        "calculations": [{"calculationType": "Lookup", "lookupName": "people.csv", "inputField": "user",
                          "outputFields": [{"fieldName": "team"}]}]}]}"#;
    const BY_TEAM: &str = "| tstats count FROM datamodel=Shop BY Orders.team";

    struct Node {
        store: Arc<Store>,
        namespaces: Arc<Namespaces>,
        work: BuilderThread,
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
        let settings = load_settings(dir, &Visibility::Apps, &Reader::unrestricted()).unwrap();
        let clock = settings.clock.clone();
        let store = Store::open(StoreOptions::at(dir), clock.clone()).unwrap();
        let data_dir = dir.to_owned();
        let read =
            Box::new(move |visibility: &Visibility, reader: &Reader| load_settings(&data_dir, visibility, reader));
        let namespaces = Arc::new(Namespaces::new(&settings, store.clone(), read).unwrap());
        let of_work = Arc::clone(&namespaces);
        let current: CurrentService = Box::new(move || of_work.service_of_apps(&Permissions::owner()));
        let work = BuilderThread { current, clock, signal: Arc::default(), reported: BTreeSet::new() };
        Node { store, namespaces, work }
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

        fn search(&self) -> Arc<SearchService> {
            (self.work.current)().unwrap()
        }

        fn round(&mut self) -> Vec<Value> {
            self.work.run_round();
            self.search().summaries().unwrap().status()
        }

        fn answer(&self, text: &str) -> Vec<Vec<String>> {
            let params = SearchParams { text: text.to_owned(), ..SearchParams::for_owner() };
            let outcome = self.search().run(params).unwrap();
            outcome
                .table
                .rows()
                .map(|row| row.cells().map(|(_, cell)| cell.join_values(" ").into_owned()).collect())
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
    fn rounds_build_missing_and_remove_unused_summaries() {
        let dir = tempdir().unwrap();
        let mut node = node(dir.path());
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
        // A crash between writing and renaming leaves an unfinished file, which the next round removes.
        let left = dir.path().join("datamodel_summary").join(format!("{}.unfinished", made[0]));
        std::fs::write(&left, b"half").unwrap();
        std::fs::remove_file(dir.path().join("datamodel_summary").join(&made[0])).unwrap();
        assert_eq!(node.answer(BY_TEAM), [["red", "10"]]);
        node.round();
        assert_eq!(files(dir.path()), made);
        // After a merge, the next round removes the summaries of the merged buckets.
        node.store.compact_all().unwrap();
        assert_eq!(node.answer(BY_TEAM), [["red", "10"]]);
        node.round();
        let merged = files(dir.path());
        assert!(merged.len() == 1 && !made.contains(&merged[0]), "{made:?} {merged:?}");
        assert_eq!(node.answer(&only), [["red", "10"]]);
        // The removal of the last events of an index removes their summaries, too.
        node.store.retention(&[("main".to_owned(), 1)]).unwrap();
        node.round();
        assert!(files(dir.path()).is_empty());
    }

    #[test]
    fn a_changed_table_makes_summaries_stale() {
        let dir = tempdir().unwrap();
        let mut node = node(dir.path());
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
    fn acceleration_changes_apply_without_a_restart() {
        let dir = tempdir().unwrap();
        let mut node = node(dir.path());
        node.add("kind=order user=eva");
        let settings = dir.path().join("etc/apps/shop/local/datamodels.conf");
        let only = BY_TEAM.replace("tstats", "tstats summariesonly=true");
        for (text, rows) in [("false", 0), ("true", 1), ("false", 0)] {
            std::fs::write(&settings, format!("[Shop]\nacceleration = {text}\n")).unwrap();
            node.namespaces.mark_conf_changed("datamodels");
            assert_eq!(node.round().len(), rows, "{text}");
            assert_eq!((node.answer(BY_TEAM).len(), node.answer(&only).len()), (1, rows), "{text}");
        }
        assert!(files(dir.path()).is_empty());
    }

    #[test]
    fn configuration_changes_start_a_round() {
        let signal = BuilderSignal::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| signal.pause_until_change(Duration::MAX));
            signal.notify_configuration_changed();
            assert!(waiting.join().unwrap());
        });
        // A change during a round is not lost.
        assert!(signal.pause_until_change(Duration::MAX));
        signal.update(|news| news.stopping = true);
        assert!(!signal.pause(Duration::MAX) && !signal.pause_until_change(Duration::MAX));
    }

    #[test]
    fn stopping_ends_a_round_and_keeps_finished_summaries() {
        let dir = tempdir().unwrap();
        let mut node = node(dir.path());
        node.add("kind=order user=eva");
        node.round();
        node.work.signal.update(|news| news.stopping = true);
        let before = files(dir.path());
        node.add("kind=order user=eva");
        node.round();
        assert_eq!(files(dir.path()), before);
        assert_eq!(node.answer(BY_TEAM), [["red", "20"]]);
    }
}
