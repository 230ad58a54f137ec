//! Restart of the server in place: the process ends its work as for SIGTERM and then executes its program again with
//! the same arguments.
//!
//! The process keeps its id and its parent, so a service manager notices nothing. Open files, ports and locks are
//! closed by `exec`, because all of them are opened with `FD_CLOEXEC`. A port that the system chose stays the same: its
//! address replaces the `:0` of the command line. Not here: ending the work ([`crate::serve`]).

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use quarry_stdx::Fault;
use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::sync::Notify;

use crate::failure::Failure;

/// Interval at which the end of a trial is checked, and maximum number of intervals, twenty seconds in all. A program
/// that does not print its version in this time is not executed, and the request is refused.
const TRIAL_INTERVAL: Duration = Duration::from_millis(5);
const TRIAL_ROUNDS_MAX: u32 = 4_000;

/// A request to restart, passed from the REST interface to the server.
#[derive(Debug)]
pub(crate) struct RestartSignal {
    /// Path of the program, as found at the start. If the file has been replaced since, a restart executes the new
    /// file.
    program: Result<PathBuf, Fault>,
    requested: Notify,
}

impl RestartSignal {
    /// A signal for this process.
    pub(crate) fn of_process() -> RestartSignal {
        let program = std::env::current_exe().map_err(|error| Fault::io("cannot find the running program", error));
        RestartSignal { program, requested: Notify::new() }
    }

    /// Requests a restart, unless there is no program to start. Runs the program, so it blocks.
    pub(crate) fn request(&self) -> Result<(), Fault> {
        let program = self.program.clone()?;
        check_runs(&program, TRIAL_ROUNDS_MAX).map_err(|reason| {
            let program = program.display();
            Fault::unavailable(format!("{program} {reason}, so the server would not start again: restore the program"))
        })?;
        self.requested.notify_one();
        Ok(())
    }

    /// Resolves when a restart is requested.
    pub(crate) async fn requested(&self) {
        self.requested.notified().await;
    }

    /// The program to execute; `None` if the program is unknown, in which case every request to restart is refused.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        self.program.clone().ok()
    }
}

/// Checks that a program can be executed by having it print its version: a file may exist without being executable, or
/// may be truncated or for a different architecture. The error completes a sentence about the program.
fn check_runs(program: &Path, rounds: u32) -> Result<(), Fault> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut trial = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Fault::unavailable("is gone"),
        _ => Fault::unavailable(format!("cannot be executed ({error})")),
    })?;
    // Nothing is ever sent: receiving waits for the interval.
    let (_keeps_open, never) = channel::<()>();
    let mut ended = trial.try_wait();
    for _ in 0..rounds {
        if !matches!(ended, Ok(None)) {
            break;
        }
        let _tick = never.recv_timeout(TRIAL_INTERVAL);
        ended = trial.try_wait();
    }
    match ended {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(Fault::unavailable(format!("did not print its version ({status})"))),
        Ok(None) => {
            drop(trial.kill().and_then(|()| trial.wait()));
            Err(Fault::unavailable("did not print its version in time"))
        }
        Err(error) => Err(Fault::unavailable(format!("cannot be executed ({error})"))),
    }
}

/// SIGINT and SIGTERM as seen by a restart. The runtime, which otherwise waits for these signals, ends before the store
/// is closed, so the signal handler itself sets the flags.
#[derive(Clone, Debug)]
pub(crate) struct StopFlags {
    has_arrived: Arc<AtomicBool>,
    /// Whether a signal ends the process at once.
    is_default: Arc<AtomicBool>,
}

impl StopFlags {
    /// Observes the signals from now on; the signals still end the process.
    pub(crate) fn install() -> std::io::Result<StopFlags> {
        let flags = StopFlags { has_arrived: Arc::default(), is_default: Arc::new(AtomicBool::new(true)) };
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&flags.is_default))?;
            signal_hook::flag::register(signal, Arc::clone(&flags.has_arrived))?;
        }
        Ok(flags)
    }

    /// From now on, a signal is only recorded here.
    pub(crate) fn catch(&self) {
        self.is_default.store(false, Ordering::SeqCst);
    }

    /// Whether a signal has arrived; if not, later signals end the process at once, so that no signal is lost before
    /// `exec` resets the handlers.
    pub(crate) fn have_arrived_or_default(&self) -> bool {
        self.is_default.store(true, Ordering::SeqCst);
        self.has_arrived.load(Ordering::SeqCst)
    }
}

/// A program to execute, with the addresses of the ports that its arguments open.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) program: PathBuf,
    /// Options of `quarry serve` with the address that each has opened.
    pub(crate) bound: Vec<(&'static str, SocketAddr)>,
    pub(crate) signals: StopFlags,
}

impl Restart {
    /// Replaces the process with the program, run with the same arguments; returns only if this fails. The caller has
    /// ended all work.
    pub(crate) fn execute(&self) -> Failure {
        let mut arguments = std::env::args_os();
        let mut command = Command::new(&self.program);
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        let error = command.args(with_addresses(arguments, &self.bound)).exec();
        Failure::Storage(format!(
            "{} cannot be executed again: {error}; start the server yourself",
            self.program.display()
        ))
    }
}

/// Arguments with the values of some options replaced, however the options are written: `--mgmt X`, `--mgmt=X`, or with
/// a single dash. Options that are not given stay absent, because their defaults contain a port.
fn with_addresses(
    mut arguments: impl Iterator<Item = OsString>,
    bound: &[(&'static str, SocketAddr)],
) -> Vec<OsString> {
    let mut written = Vec::new();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        let (name, has_value) = text.split_once('=').map_or((text.as_ref(), false), |(name, _)| (name, true));
        let option = name.trim_start_matches('-');
        let known = bound.iter().find(|(known, _)| name.starts_with('-') && *known == option);
        match known {
            Some((_, address)) if has_value => written.push(format!("{name}={address}").into()),
            Some((_, address)) if arguments.next().is_some() => {
                written.extend([argument.clone(), address.to_string().into()]);
            }
            _ => written.push(argument.clone()),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn addresses_that_the_system_chose_are_passed_on() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let bound = [("mgmt", address(5)), ("hec", address(6)), ("s2s", address(7))];
        for (given, passed) in [
            ("serve --mgmt 127.0.0.1:0", "serve --mgmt 127.0.0.1:5"),
            ("serve --mgmt=127.0.0.1:0 --insecure", "serve --mgmt=127.0.0.1:5 --insecure"),
            ("--data-dir mgmt serve -mgmt 127.0.0.1:0", "--data-dir mgmt serve -mgmt 127.0.0.1:5"),
            ("serve -hec=127.0.0.1:0 --s2s 127.0.0.1:0", "serve -hec=127.0.0.1:6 --s2s 127.0.0.1:7"),
            ("serve --web 127.0.0.1:0", "serve --web 127.0.0.1:0"),
            ("serve", "serve"),
        ] {
            let words = with_addresses(given.split(' ').map(OsString::from), &bound);
            assert_eq!(words.join(OsStr::new(" ")), passed, "{given}");
        }
    }

    #[test]
    fn only_programs_that_run_are_executed_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let reason = |content: Option<&str>, mode: u32| {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            check_runs(&path, 40).err().map(|fault| fault.to_string()).unwrap_or_default()
        };
        for (content, mode, expected) in [
            (None, 0, "is gone"),
            (Some("#!/bin/sh\n"), 0o600, "cannot be executed (Permission denied"),
            (Some("\u{7f}ELF cut off"), 0o700, "cannot be executed (Exec format error"),
            (Some("#!/bin/sh\nexit 3\n"), 0o700, "did not print its version (exit status: 3)"),
            (Some("#!/bin/sh\nexec sleep 1000\n"), 0o700, "did not print its version in time"),
            (Some("#!/bin/sh\n[ \"$1\" = --version ]\n"), 0o700, ""),
        ] {
            let found = reason(content, mode);
            assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{content:?}: {found}");
        }
    }
}
