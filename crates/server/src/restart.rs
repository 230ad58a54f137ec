//! Restart of the server in place: the process ends its work as for SIGTERM and then executes its program again with
//! the same arguments.
//!
//! The process keeps its id and its parent, so a service manager notices nothing. Open files, ports and locks are
//! closed by `exec`, because all of them are opened with `FD_CLOEXEC`. Not here: ending the work ([`crate::serve`]).

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use quarry_stdx::Fault;
use tokio::sync::Notify;

use crate::failure::Failure;

/// A request to restart, passed from the REST interface to the server.
#[derive(Debug)]
pub(crate) struct RestartSignal {
    /// Path of the program, as found at the start. If the file was replaced since, a restart executes the new one.
    program: Result<PathBuf, Fault>,
    requested: Notify,
}

impl RestartSignal {
    /// A signal for this process.
    pub(crate) fn of_process() -> RestartSignal {
        let program = std::env::current_exe().map_err(|error| Fault::io("cannot find the running program", error));
        RestartSignal { program, requested: Notify::new() }
    }

    /// Requests a restart, unless there is no program that could be started.
    pub(crate) fn request(&self) -> Result<(), Fault> {
        let program = self.program.clone()?;
        if !program.is_file() {
            let program = program.display();
            return Err(Fault::unavailable(format!(
                "{program} is gone, so the server would not start again: put it back"
            )));
        }
        self.requested.notify_one();
        Ok(())
    }

    /// Resolves when a restart is requested.
    pub(crate) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// The program to execute; `None` if it is unknown, so that no restart can have been requested.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        self.program.clone().ok()
    }
}

/// Replaces the process by `program` with the same arguments; returns only if that fails. The caller has ended all
/// work.
pub(crate) fn execute(program: &Path) -> Failure {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).exec();
    Failure::Storage(format!("{} cannot be executed again: {error}; start the server", program.display()))
}
