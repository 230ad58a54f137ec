//! Inputs that run programs: `[script://]`, modular inputs of apps, and the systemd journal. `[fschange:]` is here,
//! too: it runs no program, but needs a thread that runs periodically.
//!
//! One thread per input starts its program on schedule, reads its output, and stores the events before it reads more,
//! so that a busy store makes the program wait. Error output goes to standard error and `_internal`. At shutdown every
//! program is asked to terminate, then its group is killed. Inputs follow changes of inputs.conf
//! ([`ProgramInputs::apply`]): only those that have changed are ended or started.
//!
//! Not here: parsing output (`quarry_inputs::program`).

mod changes;
mod error_output;
mod journal;

mod input_context;
mod kinds;
mod modular_input;
mod run;
mod schedule;
mod scheme;
mod scripts;
mod validation;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use quarry_conf::{ChangeInput, Layers, ProgramInput, ProgramInputs as Configured};
use quarry_inputs::InputSettings;
use quarry_stdx::{Fault, log};

use crate::group::spawn;
pub use input_context::{ProgramSessions, Stores};
use input_context::{Shared, StopSignal};
pub use kinds::{ModularInputKind, ModularInputKinds};
pub use scheme::SchemeArgument;

/// Maximum number of inputs; further ones are ignored with a message.
const INPUTS_MAX: usize = 256;
/// Name of the threads.
const THREAD: &str = "quarry-program";

/// A stanza, or all stanzas of one modular input's program; a unit is started and ended as a whole.
#[derive(Clone, Debug, PartialEq)]
enum InputUnit {
    Script(ProgramInput),
    Journal(ProgramInput),
    Change(ChangeInput),
    Modular(Vec<ProgramInput>),
}

/// A unit that runs; dropping this ends it and its processes.
struct RunningUnit {
    unit: InputUnit,
    /// Messages about its stanzas that are skipped.
    faults: Vec<String>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The running inputs; dropping this ends them and their processes.
pub struct ProgramInputs {
    home: PathBuf,
    management: Option<ManagementPort>,
    running: Vec<RunningUnit>,
}

/// The node's management port, for programs.
#[derive(Clone)]
pub struct ManagementPort {
    /// Address at which programs on this machine reach it.
    pub address: std::net::SocketAddr,
    /// Opens sessions.
    pub sessions: Arc<dyn ProgramSessions>,
}

/// Starts the inputs of inputs.conf; reports invalid stanzas.
pub fn start(
    data_dir: &Path,
    settings: &Arc<InputSettings>,
    management: Option<ManagementPort>,
    stores: Stores<'_>,
) -> Result<ProgramInputs, Fault> {
    let mut programs = ProgramInputs { home: absolute(data_dir), management, running: Vec::new() };
    programs.apply(settings, stores)?.iter().for_each(log::warning);
    Ok(programs)
}

/// The units that inputs.conf describes.
fn build_units(configured: Configured) -> Vec<InputUnit> {
    let mut schemes: BTreeMap<String, Vec<ProgramInput>> = BTreeMap::new();
    for input in configured.modular {
        schemes.entry(input.scheme.clone()).or_default().push(input);
    }
    let scripts = configured.scripts.into_iter().map(InputUnit::Script);
    let journals = configured.journals.into_iter().map(InputUnit::Journal);
    let changes = configured.changes.into_iter().map(InputUnit::Change);
    scripts.chain(journals).chain(changes).chain(schemes.into_values().map(InputUnit::Modular)).collect()
}

fn absolute(data_dir: &Path) -> PathBuf {
    std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf())
}

/// Messages about stanzas of inputs.conf for which no input will run.
pub fn faults(data_dir: &Path, layers: &Layers) -> Vec<String> {
    let Configured { modular, mut faults, .. } = Configured::new(layers);
    faults.extend(modular_input::unknown_kinds(&modular, &absolute(data_dir)));
    faults
}

impl ProgramInputs {
    /// Ends the inputs whose stanzas have changed or are gone, and starts those of new and changed stanzas. Returns
    /// messages about stanzas that are skipped; the others run.
    pub fn apply(&mut self, settings: &Arc<InputSettings>, stores: Stores<'_>) -> Result<Vec<String>, Fault> {
        let configured = Configured::new(&settings.layers);
        let mut faults = configured.faults.clone();
        let wanted = build_units(configured);
        let (kept, ended) =
            std::mem::take(&mut self.running).into_iter().partition(|running| wanted.contains(&running.unit));
        self.running = kept;
        end(ended);
        for unit in wanted {
            if self.running.iter().any(|running| running.unit == unit) {
                continue;
            }
            if self.running.iter().map(|running| running.unit.len()).sum::<usize>() + unit.len() > INPUTS_MAX {
                faults.push(format!(
                    "inputs.conf {}: more than {INPUTS_MAX} inputs run programs; this one is ignored",
                    unit.names()
                ));
                continue;
            }
            let (host, home) = (settings.host.clone(), self.home.clone());
            let address = self.management.as_ref().map(|management| management.address);
            let sessions = self.management.as_ref().map(|management| Arc::clone(&management.sessions));
            let (settings, stop) = (Arc::clone(settings), StopSignal::default());
            let shared = Arc::new(Shared { settings, home, host, address, sessions, stop });
            let mut running = RunningUnit { unit, faults: Vec::new(), shared, threads: Vec::new() };
            running.start(stores)?;
            if running.threads.is_empty() {
                // Nothing runs, so the unit is started again at the next change.
                faults.append(&mut running.faults);
            } else {
                self.running.push(running);
            }
        }
        faults.extend(self.running.iter().flat_map(|running| running.faults.iter().cloned()));
        Ok(faults)
    }
}

impl InputUnit {
    /// Number of inputs.
    fn len(&self) -> usize {
        match self {
            InputUnit::Modular(inputs) => inputs.len(),
            _ => 1,
        }
    }

    /// Its stanzas, for messages.
    fn names(&self) -> String {
        let names: Vec<String> = match self {
            InputUnit::Script(input) | InputUnit::Journal(input) => vec![format!("[{}]", input.stanza)],
            InputUnit::Change(change) => vec![format!("[{}]", change.input.stanza)],
            InputUnit::Modular(inputs) => inputs.iter().map(|input| format!("[{}]", input.stanza)).collect(),
        };
        names.join(", ")
    }
}

impl RunningUnit {
    /// Starts the threads for the stanzas that can run; fails if a thread cannot be created.
    fn start(&mut self, stores: Stores<'_>) -> Result<(), Fault> {
        let task = match &self.unit {
            InputUnit::Script(input) => scripts::task(input, &self.shared, stores),
            InputUnit::Journal(input) => journal::task(input, &self.shared, stores),
            InputUnit::Change(change) => match changes::change_scanner(change, &self.shared, stores) {
                Ok(scanner) => return self.spawn(move |shared| scanner.run(shared)),
                Err(fault) => Err(fault),
            },
            InputUnit::Modular(inputs) => {
                let programs = modular_input::programs(inputs.clone(), &self.shared, stores, &mut self.faults);
                return programs.into_iter().try_for_each(|program| self.spawn(move |shared| program.run(shared)));
            }
        };
        match task {
            Ok(task) => self.spawn(move |shared| task.run(shared)),
            Err(fault) => {
                self.faults.push(format!("inputs.conf {fault}; the input is ignored"));
                Ok(())
            }
        }
    }

    fn spawn(&mut self, work: impl FnOnce(&Shared) + Send + 'static) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        self.threads.push(spawn(THREAD, move || work(&shared))?);
        Ok(())
    }
}

/// Ends inputs together, so that the time their programs take to terminate does not add up.
fn end(ended: Vec<RunningUnit>) {
    ended.iter().for_each(|running| running.shared.stop.set());
    drop(ended);
}

impl Drop for RunningUnit {
    fn drop(&mut self) {
        self.shared.stop.set();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error("an input that runs a program ended because of a bug in quarry");
            }
        }
    }
}

impl Drop for ProgramInputs {
    fn drop(&mut self) {
        end(std::mem::take(&mut self.running));
    }
}
