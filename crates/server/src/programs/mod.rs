//! Inputs that run programs: `[script://]`, the modular inputs of apps, and the journal of systemd; and `[fschange:]`,
//! which needs the same: a thread that does something from time to time.
//!
//! One thread per input starts its program when its schedule says, reads what it writes, and stores the events before it
//! reads more, so that a store that is busy makes the program wait. What a program writes to its error output goes to
//! standard error and to `_internal`. At the stop every program is asked to end, and then ended with all it began.
//!
//! Not here: what output means (`quarry_inputs::program`).

mod changes;
mod error_output;
pub(crate) mod files;
mod journal;

mod modular;
mod run;
mod schedule;
mod scheme;
mod scripts;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quarry_conf::{ProgramInput, ProgramInputs};
use quarry_event::Metadata;
use quarry_inputs::{EventStore, InputSettings};
use quarry_stdx::log;

use crate::failure::Failure;
use run::Task;

/// Inputs that run at a time; those beyond it are left out, and that is told.
const INPUTS_MAX: usize = 256;
/// Name of the threads.
const THREAD: &str = "quarry-program";

/// Where events go, by the routing of an input.
pub(crate) type Stores<'a> = &'a dyn Fn(Option<&str>) -> Arc<dyn EventStore>;

/// What all inputs share.
pub(crate) struct Shared {
    pub(crate) settings: Arc<InputSettings>,
    /// Absolute path of the data folder.
    pub(crate) home: std::path::PathBuf,
    /// Name of this machine.
    pub(crate) host: String,
    /// Where the management port is, if there is one.
    pub(crate) address: Option<std::net::SocketAddr>,
    pub(crate) stop: Stop,
}

/// Becomes true once.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Whether everything ends.
    pub(crate) fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits no longer than this, and than everything goes on; whether it ends.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits as long as this, whether everything ends or not.
    pub(crate) fn pause(&self, time: Duration) {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(is_over, time, |_| true));
    }

    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// Inputs at work.
pub(crate) struct Programs {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    inputs: usize,
}

/// Begins what inputs.conf says; what is wrong with it is told.
pub(crate) fn start(
    data_dir: &Path,
    settings: &Arc<InputSettings>,
    address: Option<std::net::SocketAddr>,
    stores: Stores<'_>,
) -> Result<Programs, Failure> {
    let home = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf());
    let settings = Arc::clone(settings);
    let shared = Shared { host: settings.host.clone(), settings, home, address, stop: Stop::default() };
    let mut programs = Programs { shared: Arc::new(shared), threads: Vec::new(), inputs: 0 };
    let inputs = ProgramInputs::new(&programs.shared.settings.layers);
    inputs.faults.iter().for_each(log::warning);
    let scripts = inputs.scripts.iter().map(|input| scripts::task(input, &programs.shared, stores));
    let journals = inputs.journals.iter().map(|input| journal::task(input, &programs.shared, stores));
    let tasks: Vec<Result<Task, String>> = scripts.chain(journals).collect();
    for task in tasks {
        match task {
            Ok(task) => programs.spawn(1, move |shared| task.run(shared))?,
            Err(fault) => log::warning(format!("inputs.conf {fault}; the input is left out")),
        }
    }
    for change in &inputs.changes {
        match changes::watch(change, &programs.shared, stores) {
            Ok(watch) => programs.spawn(1, move |shared| watch.run(shared))?,
            Err(fault) => log::warning(format!("inputs.conf {fault}; the input is left out")),
        }
    }
    for program in modular::programs(inputs.modular, &programs.shared, stores) {
        programs.spawn(program.len(), move |shared| program.run(shared))?;
    }
    Ok(programs)
}

impl Programs {
    /// Has `work` done for some inputs.
    fn spawn(&mut self, inputs: usize, work: impl FnOnce(&Shared) + Send + 'static) -> Result<(), Failure> {
        self.inputs += inputs;
        if self.inputs > INPUTS_MAX {
            log::warning(format!("inputs.conf: more than {INPUTS_MAX} inputs run programs; one is left out"));
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let named = std::thread::Builder::new().name(format!("{THREAD}-{}", self.threads.len()));
        let thread = named.spawn(move || work(&shared));
        self.threads.push(thread.map_err(|error| Failure::Storage(format!("cannot start a thread: {error}")))?);
        Ok(())
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.shared.stop.end();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error("an input that runs a program ended by a fault of quarry");
            }
        }
    }
}

/// Checks what is said of all of these inputs.
fn check(input: &ProgramInput, store: &dyn EventStore) -> Result<(), String> {
    store.check_index(&input.index).map_err(|reason| format!("[{}]: {reason}", input.stanza))?;
    for setting in &input.left_out {
        log::warning(format!("inputs.conf [{}]: {setting} is not carried out", input.stanza));
    }
    Ok(())
}

/// Name of a file that is kept for an input, whose own name may hold what file names do not.
fn kept_name(name: &str) -> String {
    let plain: String =
        name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).take(80).collect();
    let mark = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{plain}-{mark:08x}")
}

/// Metadata of an input's events, where these say nothing themselves.
fn metadata(input: &ProgramInput, source: &str, sourcetype: &str, shared: &Shared) -> Metadata {
    Metadata {
        index: input.index.as_str().into(),
        host: input.host.as_deref().unwrap_or(&shared.host).into(),
        source: input.source.as_deref().unwrap_or(source).into(),
        sourcetype: input.sourcetype.as_deref().unwrap_or(sourcetype).into(),
    }
}
