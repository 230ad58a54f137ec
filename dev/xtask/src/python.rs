//! Checks written in Python: creates a virtual environment with pinned packages in the target directory, then runs the
//! program with the built `quarry` and an empty directory.
//!
//! Without python3 or access to a package index, the checks are skipped with a message.

use std::path::PathBuf;
use std::process::Command;

use quarry_s3world::{CONTAINER, Gateway, KEY_ID, SECRET};

use crate::root;

/// A check: its directory in `tests`, and its program there.
pub(crate) struct PythonCheck {
    folder: &'static str,
    program: &'static str,
}

/// Searches and aggregates, compared with DuckDB's answers.
pub(crate) const DIFFERENTIAL: PythonCheck = PythonCheck { folder: "differential", program: "compare.py" };
/// Custom search commands written with Splunk's SDK.
pub(crate) const SEARCH_COMMANDS: PythonCheck = PythonCheck { folder: "clients/search_commands", program: "run.py" };

impl PythonCheck {
    /// Runs the check with the release binary, which must be built.
    pub(crate) fn run(&self) -> Result<(), String> {
        self.run_with(None, None)
    }

    /// Like [`PythonCheck::run`], with the data on an S3 server and without a cache; skipped if no such server is
    /// installed. With a size of the data in megabytes, a server with a cache of a hundredth of the data answers.
    pub(crate) fn run_on_s3(&self, megabytes: Option<&str>) -> Result<(), String> {
        let Some(gateway) = Gateway::start() else { return Ok(()) };
        let url = gateway.url();
        let volume = format!(
            "[volume:far]\nstorageType = remote\npath = s3://{CONTAINER}/differential\nremote.s3.endpoint = {url}\n\
             remote.s3.access_key = {KEY_ID}\nremote.s3.secret_key = {SECRET}\n"
        );
        self.run_with(Some(&volume), megabytes)
    }

    /// Runs the check; `volume` is a stanza of indexes.conf, which the program receives in a file, and `megabytes` the size
    /// of the data.
    fn run_with(&self, volume: Option<&str>, megabytes: Option<&str>) -> Result<(), String> {
        let (here, target) = (root().join("tests").join(self.folder), target_folder());
        let work = target.join("python").join(self.folder.replace('/', "-"));
        let environment = work.join("venv");
        let python = environment.join("bin/python");
        let prepared = prepare(&environment, &python, &here.join("requirements.txt"));
        if let Err(reason) = prepared {
            println!("tests/{} is not run here: {reason}", self.folder);
            return Ok(());
        }
        let place = work.join("run");
        if place.exists() {
            std::fs::remove_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        }
        std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        println!("==> python tests/{}/{}", self.folder, self.program);
        let mut program = Command::new(&python);
        program.arg(here.join(self.program)).arg(target.join("release/quarry")).arg(&place);
        if let Some(volume) = volume {
            let file = work.join("volume.conf");
            std::fs::write(&file, volume).map_err(|error| format!("{}: {error}", file.display()))?;
            program.arg(file).args(megabytes);
        }
        succeeds(&mut program).map_err(|reason| format!("tests/{}: {reason}", self.folder))
    }
}

/// Creates the virtual environment with the packages of a list.
pub(crate) fn prepare(environment: &PathBuf, python: &PathBuf, requirements: &PathBuf) -> Result<(), String> {
    if !python.exists() {
        succeeds(Command::new("python3").arg("-m").arg("venv").arg(environment))?;
    }
    let quietly = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    succeeds(Command::new(python).args(quietly).arg(requirements))
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", command.get_program().display())),
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().display())),
    }
}

/// Cargo's target directory.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
