//! Inputs that run programs: `[script://]`, modular inputs of apps, and the systemd journal. Also `[fschange:]`, which
//! needs the same periodic thread.
//!
//! One thread per input starts its program on schedule, reads its output, and stores the events before it reads more,
//! so that a busy store makes the program wait. Error output goes to standard error and `_internal`. At shutdown every
//! program is asked to terminate, then its group is killed.
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

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use quarry_conf::{Layers, ProgramInputs as Configured};
use quarry_inputs::InputSettings;
use quarry_stdx::{Fault, log};

use crate::group::spawn;
pub use input_context::Stores;
use input_context::{Shared, Stop};
pub use kinds::{ModularInputKind, ModularInputKinds};
use run::Task;
pub use scheme::SchemeArgument;

/// Maximum number of inputs; further ones are ignored with a message.
const INPUTS_MAX: usize = 256;
/// Name of the threads.
const THREAD: &str = "quarry-program";

/// Running inputs; dropping this ends them and their processes.
pub struct ProgramInputs {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    inputs: usize,
}

/// Starts the inputs of inputs.conf; reports invalid stanzas.
pub fn start(
    data_dir: &Path,
    settings: &Arc<InputSettings>,
    address: Option<std::net::SocketAddr>,
    stores: Stores<'_>,
) -> Result<ProgramInputs, Fault> {
    let home = absolute(data_dir);
    let settings = Arc::clone(settings);
    let shared = Shared { host: settings.host.clone(), settings, home, address, stop: Stop::default() };
    let mut programs = ProgramInputs { shared: Arc::new(shared), threads: Vec::new(), inputs: 0 };
    let inputs = Configured::new(&programs.shared.settings.layers);
    inputs.faults.iter().for_each(log::warning);
    let scripts = inputs.scripts.iter().map(|input| scripts::task(input, &programs.shared, stores));
    let journals = inputs.journals.iter().map(|input| journal::task(input, &programs.shared, stores));
    let tasks: Vec<Result<Task, Fault>> = scripts.chain(journals).collect();
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
    for program in modular_input::programs(inputs.modular, &programs.shared, stores) {
        programs.spawn(program.len(), move |shared| program.run(shared))?;
    }
    Ok(programs)
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
    /// Runs `work`, which serves a number of inputs, on a new thread.
    fn spawn(&mut self, inputs: usize, work: impl FnOnce(&Shared) + Send + 'static) -> Result<(), Fault> {
        self.inputs += inputs;
        if self.inputs > INPUTS_MAX {
            log::warning(format!("inputs.conf: more than {INPUTS_MAX} inputs run programs; one is left out"));
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let name = format!("{THREAD}-{}", self.threads.len());
        self.threads.push(spawn(&name, move || work(&shared))?);
        Ok(())
    }
}

impl Drop for ProgramInputs {
    fn drop(&mut self) {
        self.shared.stop.end();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error("an input that runs a program ended by a fault of quarry");
            }
        }
    }
}
