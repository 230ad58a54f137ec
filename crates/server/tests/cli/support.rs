//! Runs the binary: a data directory for each test, sample lines, and waiting by polling, up to a maximum number of
//! rounds.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Maximum number of rounds of [`wait_until`]; far more than any test needs.
const ROUNDS_MAX: usize = 200_000;

/// A temporary directory that contains the data directory of a test and its other files.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    /// A command of the binary with the data directory of this test.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
        // Tests do not depend on the zone of the machine.
        command.env("TZ", "UTC").current_dir(self.folder.path()).arg("--data-dir").arg(self.data()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        RunOutput::of(self.command(arguments).output().unwrap())
    }

    /// Starts the binary without waiting for its end.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl RunOutput {
    pub(crate) fn of(output: Output) -> RunOutput {
        RunOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output of a successful run.
    pub(crate) fn expect_success(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }
}

/// Calls `is_so` until it returns true; returns `false` after [`ROUNDS_MAX`] rounds.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let (_keeps_open, never) = channel::<()>();
    for _ in 0..ROUNDS_MAX {
        if is_so() {
            return true;
        }
        assert!(never.recv_timeout(Duration::from_millis(1)).is_err());
    }
    false
}

/// Distinct log lines.
pub(crate) fn lines(range: std::ops::Range<usize>) -> String {
    let line = |at: usize| {
        let (minute, second) = (at / 60 % 60, at % 60);
        format!(
            "2026-11-20T{:02}:{minute:02}:{second:02}Z host=web{} line={at} took={}\n",
            at / 3600 % 24,
            at % 3,
            at * 7
        )
    };
    range.map(line).collect()
}

/// Lines in byte order.
pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Bytes of all files in a directory tree.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.len()),
    };
    entries.map(size).sum()
}

/// Size of the log segments in a data directory, whose events are in no bucket yet.
pub(crate) fn unsealed_bytes(data: &Path) -> u64 {
    let folders = std::fs::read_dir(data.join("wal")).into_iter().flatten().flatten();
    // The folder also has files that are no segments; these contain no events.
    let files = folders.flat_map(|entry| match entry.path().is_dir() {
        true => std::fs::read_dir(entry.path()).into_iter().flatten().flatten().map(|entry| entry.path()).collect(),
        false => vec![entry.path()],
    });
    let segments = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.map(|path| path.metadata().map_or(0, |metadata| metadata.len())).sum()
}
