//! The threads that watch and read files: `[monitor://]` and `[batch://]`.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use quarry_conf::MonitorSettings;
use quarry_inputs::file::{Monitor, MonitorOptions, WatchedFile};
use quarry_inputs::{InputSettings, Sink};
use quarry_stdx::log;

use crate::error::IngestError;

/// Name of the thread that finds files.
const WATCHER_THREAD: &str = "quarry-watch";
const WORKER_THREAD: &str = "quarry-tail";
/// Maximum number of files open in one worker.
const OPEN_FILES_MAX: usize = 1_024;
/// Maximum number of new files held open before their first read.
const HELD_FILES_MAX: usize = 8_192;
/// Divisor of the open-file limit: a quarter of the limit is for files being read, and another quarter for held files.
const DESCRIPTOR_DIVISOR: usize = 4;

/// Provider of sinks for watched files.
pub trait SinkFactory: Send + Sync {
    /// A sink for a worker.
    fn sink(&self, worker: usize) -> Box<dyn Sink + '_>;
}

/// Watched files, as inputs.conf describes them.
#[derive(Default)]
pub struct FileMonitors {
    stanzas: Vec<MonitorSettings>,
    /// `None` while there is nothing to watch.
    running: Option<Watchers>,
    watched: WatchedFiles,
}

/// The files that a node watches at the moment, for threads other than those that watch them.
#[derive(Clone, Debug, Default)]
pub struct WatchedFiles(Arc<Mutex<Weak<Monitor>>>);

impl WatchedFiles {
    /// The files by path, at most `most`: all of them, or those of the `[monitor://]` stanza whose path is `monitor`.
    pub fn list(&self, monitor: Option<&str>, most: usize) -> Vec<WatchedFile> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        running.map(|running| running.files(monitor, most)).unwrap_or_default()
    }

    fn set(&self, monitor: &Arc<Monitor>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(monitor);
    }
}

/// Running watchers; dropping this ends them after storing what they have read.
struct Watchers {
    monitor: Arc<Monitor>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts watching as inputs.conf says. Invalid stanzas are reported.
pub fn start(settings: &Arc<InputSettings>, sinks: &Arc<dyn SinkFactory>) -> Result<FileMonitors, IngestError> {
    let mut monitors = FileMonitors::default();
    monitors.apply(settings, sinks)?.iter().for_each(log::warning);
    Ok(monitors)
}

impl FileMonitors {
    /// Watches the files of the current inputs.conf. Returns messages about stanzas that are skipped; the others are
    /// watched.
    ///
    /// If a stanza has changed, all watchers end and new ones continue where they stopped: a file belongs to the first
    /// stanza that matches it, so each stanza depends on the others.
    pub fn apply(
        &mut self,
        settings: &Arc<InputSettings>,
        sinks: &Arc<dyn SinkFactory>,
    ) -> Result<Vec<String>, IngestError> {
        let (mut stanzas, wrong) = MonitorSettings::read_all(&settings.layers);
        let mut faults: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        stanzas.retain(|stanza| match settings.check_index(&stanza.index) {
            Ok(()) => true,
            Err(text) => {
                faults.push(format!("inputs.conf [monitor://{}] is ignored: {text}", stanza.path));
                false
            }
        });
        let (monitor, wrong) = Monitor::new(stanzas.clone(), options(settings));
        faults.extend(wrong.iter().map(|error| format!("{error}; the stanza is ignored")));
        if stanzas == self.stanzas {
            return Ok(faults);
        }
        // The old watchers end before new ones start, because otherwise both would store the same lines.
        self.running = None;
        // If the threads fail to start, the next change must start them again even for the same stanzas.
        self.stanzas.clear();
        if !monitor.is_empty() {
            let running = Watchers::start(monitor, settings, sinks)?;
            self.watched.set(&running.monitor);
            self.running = Some(running);
        }
        self.stanzas = stanzas;
        Ok(faults)
    }

    /// The files that are watched now and after later changes.
    pub fn watched(&self) -> WatchedFiles {
        self.watched.clone()
    }
}

fn options(settings: &InputSettings) -> MonitorOptions {
    let sets = settings.pipeline_sets();
    MonitorOptions {
        host: settings.host.clone(),
        clock: settings.clock.clone(),
        workers: sets,
        open_max: OPEN_FILES_MAX.min(settings.descriptors / DESCRIPTOR_DIVISOR / sets.max(1)).max(1),
        held_max: HELD_FILES_MAX.min(settings.descriptors / DESCRIPTOR_DIVISOR),
        report: Box::new(|text| log::warning(text)),
    }
}

impl Watchers {
    fn start(
        monitor: Monitor,
        settings: &Arc<InputSettings>,
        sinks: &Arc<dyn SinkFactory>,
    ) -> Result<Watchers, IngestError> {
        let mut watchers = Watchers { monitor: Arc::new(monitor), threads: Vec::new() };
        let monitor = watchers.monitor.clone();
        watchers.spawn(WATCHER_THREAD.to_owned(), move || monitor.watch())?;
        for set in 0..settings.pipeline_sets() {
            let (monitor, sinks, settings) = (watchers.monitor.clone(), Arc::clone(sinks), Arc::clone(settings));
            watchers.spawn(format!("{WORKER_THREAD}-{set}"), move || {
                monitor.run_worker(set, &settings.props, &|| sinks.sink(set));
            })?;
        }
        Ok(watchers)
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), IngestError> {
        let thread = std::thread::Builder::new().name(name).spawn(work);
        let thread = thread.map_err(IngestError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.monitor.end();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error(
                    "watching files ended because of a bug in quarry; data not yet stored is read at the next start",
                );
            }
        }
    }
}
