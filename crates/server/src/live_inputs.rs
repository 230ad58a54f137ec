//! The inputs of a running node: ports, watched files and programs, which follow changes of inputs.conf.
//!
//! A thread owns the inputs. A request that has changed the configuration wakes this thread and waits, at most
//! [`WAIT_MAX`], until the thread has applied the configuration. This may take a while, because an input stores what it
//! has read before it is closed. Changes that arrive while the thread works are applied together. Faults of stanzas are
//! kept for answers and messages. Not here: the ports of the HTTP Event Collector and of the management interface,
//! which open only at the start.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quarry_event::TimeNs;
use quarry_ingest::{FileMonitors, Ingest, SinkFactory};
use quarry_inputs::{EventStore, InputSettings};
use quarry_listen::Listeners;
use quarry_programs::ProgramInputs;
use quarry_stdx::{Fault, log};
use tokio::runtime::Handle;

use crate::node::LocalNode;

/// Maximum time that a request waits until its change is applied.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum number of faults remembered.
const FAULTS_MAX: usize = 100;
/// Name of the thread.
const THREAD: &str = "quarry-inputs";

/// The requested and the applied changes; shared with the thread that owns the inputs.
#[derive(Debug, Default)]
pub(crate) struct InputChanges {
    state: Mutex<FollowState>,
    turned: Condvar,
}

#[derive(Debug, Default)]
struct FollowState {
    /// Whether a thread owns inputs; otherwise changes take effect when a server starts.
    is_live: bool,
    /// Number of the last requested change, and of the last applied change.
    requested: u64,
    done: u64,
    is_over: bool,
    faults: Vec<(TimeNs, String)>,
}

/// Effect of the configuration on an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The input runs as configured.
    Current,
    /// Changes are still being applied.
    Pending,
    /// This process runs no inputs; the configuration takes effect when a server starts.
    AtStart,
    /// The input does not run, for this reason.
    Fault(String),
}

impl InputChanges {
    fn lock(&self) -> MutexGuard<'_, FollowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the changed configuration; returns when that is done, or after [`WAIT_MAX`].
    pub(crate) fn apply_and_wait(&self) {
        let mut state = self.lock();
        if !state.is_live {
            return;
        }
        state.requested += 1;
        let number = state.requested;
        self.turned.notify_all();
        let waits = |state: &mut FollowState| state.done < number && !state.is_over;
        drop(self.turned.wait_timeout_while(state, WAIT_MAX, waits));
    }

    /// Effect of a stanza of inputs.conf.
    pub(crate) fn effect(&self, stanza: &str) -> Effect {
        let state = self.lock();
        let name = format!("[{stanza}]");
        match state.faults.iter().find(|(_, fault)| fault.contains(&name)) {
            _ if !state.is_live => Effect::AtStart,
            _ if state.done < state.requested => Effect::Pending,
            Some((_, fault)) => Effect::Fault(fault.clone()),
            None => Effect::Current,
        }
    }

    /// Faults of stanzas that have no running input, and the time at which each was found.
    pub(crate) fn faults(&self) -> Vec<(TimeNs, String)> {
        self.lock().faults.clone()
    }

    /// Waits for a change; returns the number of the newest change, or `None` at the end.
    fn wait_for_change(&self) -> Option<u64> {
        let state = self.lock();
        let state = self.turned.wait_while(state, |state| state.done >= state.requested && !state.is_over);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        (!state.is_over).then_some(state.requested)
    }

    /// Records that all changes up to a number are applied.
    fn mark_applied(&self, number: u64, faults: Vec<(TimeNs, String)>) {
        let mut state = self.lock();
        (state.done, state.faults) = (number, faults);
        self.turned.notify_all();
    }
}

/// Running inputs.
pub(crate) struct Inputs {
    pub(crate) listeners: Listeners,
    pub(crate) monitors: FileMonitors,
    pub(crate) programs: ProgramInputs,
}

/// The thread that owns the inputs.
pub(crate) struct LiveInputs {
    changes: Arc<InputChanges>,
    thread: JoinHandle<Inputs>,
}

impl LiveInputs {
    /// Starts the thread, which applies changes of the configuration of `node` to `inputs`; `faults` are the faults of
    /// stanzas that could not be opened.
    pub(crate) fn start(inputs: Inputs, node: &Arc<LocalNode>, faults: Vec<String>) -> Result<LiveInputs, Fault> {
        let (runtime, node) = (Handle::current(), Arc::clone(node));
        let changes = Arc::clone(&node.input_changes);
        node.set_watched_files(inputs.monitors.watched());
        faults.iter().for_each(log::warning);
        let now = node.settings().clock.now_ns();
        changes.mark_applied(0, faults.into_iter().take(FAULTS_MAX).map(|fault| (now, fault)).collect());
        let followed = Arc::clone(&changes);
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let mut inputs = inputs;
            while let Some(number) = followed.wait_for_change() {
                let settings = Arc::new(node.settings().inputs());
                let (known, now) = (followed.faults(), settings.clock.now_ns());
                let timed = |text: String| match known.iter().find(|(_, known)| *known == text) {
                    Some(reported) => reported.clone(),
                    None => {
                        log::warning(&text);
                        (now, text)
                    }
                };
                let faults = apply(&mut inputs, &node.ingest, &settings, &runtime);
                followed.mark_applied(number, faults.into_iter().take(FAULTS_MAX).map(timed).collect());
            }
            inputs
        });
        let thread = thread.map_err(|error| Fault::io("cannot start a thread", error))?;
        changes.lock().is_live = true;
        Ok(LiveInputs { changes, thread })
    }

    /// Stores the data that the ports have received, and closes the ports. Returns the other inputs; dropping these
    /// inputs blocks.
    pub(crate) async fn stop_listening(self) -> Option<(FileMonitors, ProgramInputs)> {
        let ended = tokio::task::spawn_blocking(move || self.end()).await;
        let Inputs { listeners, monitors, programs } = ended.ok().flatten()?;
        listeners.stop().await;
        Some((monitors, programs))
    }

    /// Ends the thread and returns the inputs. Blocks while a change is being applied.
    fn end(self) -> Option<Inputs> {
        let mut state = self.changes.lock();
        (state.is_live, state.is_over) = (false, true);
        drop(state);
        self.changes.turned.notify_all();
        self.thread
            .join()
            .inspect_err(|_| {
                log::error("changes of inputs no longer take effect, because of a bug in quarry: restart the server")
            })
            .ok()
    }
}

/// Applies the configuration; returns the faults of stanzas that are ignored.
fn apply(inputs: &mut Inputs, ingest: &Arc<Ingest>, settings: &Arc<InputSettings>, runtime: &Handle) -> Vec<String> {
    let events: Arc<dyn EventStore> = Arc::<Ingest>::clone(ingest);
    let sinks: Arc<dyn SinkFactory> = Arc::<Ingest>::clone(ingest);
    let stores = |_: Option<&str>| Arc::clone(&events);
    let mut faults = runtime.block_on(inputs.listeners.apply(settings, &stores));
    match inputs.monitors.apply(settings, &sinks) {
        Ok(found) => faults.extend(found),
        Err(error) => faults.push(error.to_string()),
    }
    match inputs.programs.apply(settings, &stores) {
        Ok(found) => faults.extend(found),
        Err(fault) => faults.push(fault.to_string()),
    }
    faults
}
