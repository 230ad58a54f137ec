//! The threads that watch and read files: `[monitor://]` and `[batch://]`.

use std::sync::Arc;
use std::thread::JoinHandle;

use quarry_conf::MonitorSettings;
use quarry_inputs::file::{Monitor, MonitorOptions};
use quarry_inputs::{InputSettings, Sink};
use quarry_stdx::log;

use crate::error::IngestError;

/// Name of the thread that finds files.
const WATCHER_THREAD: &str = "quarry-watch";
const WORKER_THREAD: &str = "quarry-tail";
/// Maximum files open in one worker.
const OPEN_MAX: usize = 1_024;
/// Maximum new files held open before their first read.
const HELD_MAX: usize = 8_192;
/// Divisor of the open-file limit: a quarter of the limit is for files being read, and another quarter for held files.
const DESCRIPTOR_SHARE: usize = 4;

/// Provider of sinks for watched files.
pub trait Sinks: Send + Sync {
    /// A sink for a worker.
    fn sink(&self, worker: usize) -> Box<dyn Sink + '_>;
}

/// Running watchers.
pub struct Watching {
    monitor: Arc<Monitor>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts watching the files of inputs.conf; `None` if it has no stanzas for files. Invalid stanzas are reported.
pub fn start(settings: &Arc<InputSettings>, sinks: &Arc<dyn Sinks>) -> Result<Option<Watching>, IngestError> {
    let (mut stanzas, wrong) = MonitorSettings::all(&settings.layers);
    wrong.iter().for_each(log::warning);
    stanzas.retain(|stanza| match settings.check_index(&stanza.index) {
        Ok(()) => true,
        Err(text) => {
            log::warning(format!("inputs.conf [monitor://{}] is left out: {text}", stanza.path));
            false
        }
    });
    let sets = settings.pipeline_sets();
    let options = MonitorOptions {
        host: settings.host.clone(),
        clock: settings.clock.clone(),
        workers: sets,
        open_max: OPEN_MAX.min(settings.descriptors / DESCRIPTOR_SHARE / sets.max(1)).max(1),
        held_max: HELD_MAX.min(settings.descriptors / DESCRIPTOR_SHARE),
        tell: Box::new(|text| log::warning(text)),
    };
    let (monitor, wrong) = Monitor::new(stanzas, options);
    wrong.iter().for_each(|error| log::warning(format!("{error}; the stanza is left out")));
    if monitor.is_empty() {
        return Ok(None);
    }
    let mut watching = Watching { monitor: Arc::new(monitor), threads: Vec::new() };
    let monitor = watching.monitor.clone();
    watching.spawn(WATCHER_THREAD.to_owned(), move || monitor.watch())?;
    for set in 0..sets {
        let (monitor, sinks, settings) = (watching.monitor.clone(), Arc::clone(sinks), Arc::clone(settings));
        watching.spawn(format!("{WORKER_THREAD}-{set}"), move || {
            monitor.work(set, &settings.props, &|| sinks.sink(set));
        })?;
    }
    Ok(Some(watching))
}

impl Watching {
    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), IngestError> {
        let thread = std::thread::Builder::new().name(name).spawn(work);
        let thread = thread.map_err(IngestError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Watching {
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
