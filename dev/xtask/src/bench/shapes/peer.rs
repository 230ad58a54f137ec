//! A database in a Python process: requests and answers are lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::answers::{Answer, from_rows};
use super::report::Cost;
use crate::python::{prepare, target_folder};
use crate::root;

/// Threads of a database, as many as the reference machine has cores.
const THREADS: &str = "2";

/// A running database; it stops when the value is dropped.
pub(super) struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Installs and starts a database, `duckdb` or `chdb`; its working directory is `folder`.
    pub(super) fn start(name: &str, folder: &Path) -> Result<Peer, String> {
        let here = root().join("tests/shapes");
        let environment = target_folder().join("python/shapes").join(name);
        let python = environment.join("bin/python");
        prepare(&environment, &python, &here.join(format!("{name}.txt")))?;
        let mut command = Command::new(&python);
        command.arg(here.join("peer.py")).args([name, THREADS]).current_dir(folder);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", python.display()))?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(requests), Some(answers)) = (requests, answers) else {
            return Err(format!("{name} has no standard input or output"));
        };
        let mut peer = Peer { child, requests, answers: BufReader::new(answers) };
        peer.ask(&json!({"sql": "select 1"}))?;
        Ok(peer)
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let mut line = String::new();
        writeln!(self.requests, "{request}")
            .and_then(|()| self.requests.flush())
            .and_then(|()| self.answers.read_line(&mut line).map(drop))
            .map_err(|error| format!("peer.py: {error}"))?;
        let reply: Value = serde_json::from_str(&line).map_err(|error| format!("peer.py: {error}: {line}"))?;
        match reply["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(reply),
        }
    }

    /// Runs a statement; returns its cost and its rows.
    pub(super) fn query(&mut self, sql: &str) -> Result<(Cost, Answer), String> {
        let reply = self.ask(&json!({ "sql": sql }))?;
        let seconds = |key: &str| reply[key].as_f64().unwrap_or_default();
        Ok((Cost { wall_s: seconds("wall"), cpu_s: seconds("cpu") }, from_rows(&reply["rows"])))
    }

    /// CPU seconds of another process.
    pub(super) fn cpu_of(&mut self, process: u32) -> Result<f64, String> {
        Ok(self.ask(&json!({ "cpu_of": process }))?["cpu"].as_f64().unwrap_or_default())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.child.kill().is_err() || self.child.wait().is_err() {
            println!("a database had ended already");
        }
    }
}
