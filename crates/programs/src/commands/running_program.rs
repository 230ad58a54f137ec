//! A running program of a custom command: it is started in its own process group, driven over its pipes, and ended with
//! its group.
//!
//! Each of its standard streams has a thread, so that a program that does not alternate between reading and writing
//! cannot cause a deadlock. If a response does not arrive before the timeout, the group is killed. The environment
//! contains only a path, a locale and settings of Python.
//!
//! Not here: the protocol (engine), and finding programs ([`super::CustomCommands`]).

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_engine::{CommandChunk, CommandProcess};
use quarry_stdx::Fault;

use crate::group::{
    CPU_SECS_MAX, END_POLLS_MAX, POLL_MS, Pipes, Program, ProgramGroup, cancelled_fault, capture_stderr, spawn,
    timeout_fault,
};

/// Maximum length of a response's header line in bytes.
const HEADER_BYTES_MAX: u64 = 128;
/// Protocol version in the header line.
const VERSION: &str = "chunked 1.0";

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramLimits {
    /// Timeout of a response in seconds.
    pub(crate) wait_secs: u64,
    /// Maximum size of a response in bytes.
    pub(crate) chunk_bytes: u64,
}

pub(crate) struct RunningProgram {
    group: ProgramGroup,
    requests: Option<SyncSender<Vec<u8>>>,
    responses: Receiver<Result<CommandChunk, Fault>>,
    error_output: Arc<Mutex<Vec<u8>>>,
    limits: ProgramLimits,
}

impl RunningProgram {
    /// Starts a program with its limits.
    pub(crate) fn start(program: &Program, limits: ProgramLimits) -> Result<RunningProgram, Fault> {
        let (group, pipes) = ProgramGroup::start(program, &[], Some(CPU_SECS_MAX))?;
        let Pipes { stdin, stdout, stderr } = pipes;
        let (requests, to_write) = sync_channel(1);
        let (to_respond, responses) = sync_channel(1);
        let error_output: Arc<Mutex<Vec<u8>>> = Arc::default();
        let shared_output = Arc::clone(&error_output);
        let running = RunningProgram { group, requests: Some(requests), responses, error_output, limits };
        spawn("command-write", move || write_requests(stdin, &to_write))?;
        spawn("command-read", move || read_responses(stdout, limits.chunk_bytes, &to_respond))?;
        spawn("command-stderr", move || capture_stderr(stderr, &shared_output))?;
        Ok(running)
    }

    /// Ends the program; adds its exit status and the end of its standard error to `fault`.
    fn with_error_output(&mut self, fault: Fault) -> Fault {
        let mut rounds = 0..END_POLLS_MAX;
        while !self.group.has_ended() && rounds.next().is_some() {
            drop(self.responses.recv_timeout(Duration::from_millis(POLL_MS)));
        }
        let by_itself = self.group.has_ended();
        let status = self.group.kill().filter(|_| by_itself);
        let how = status.map_or_else(String::new, |status| format!(" ({status})"));
        let error_output = self.error_output.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&error_output).trim().to_owned();
        fault.map_text(|fault| if text.is_empty() { format!("{fault}{how}") } else { format!("{fault}{how}: {text}") })
    }
}

impl CommandProcess for RunningProgram {
    fn exchange(&mut self, chunk: &CommandChunk, is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault> {
        let header = format!("{VERSION},{},{}\n", chunk.metadata.len(), chunk.body.len());
        let request = [header.as_bytes(), chunk.metadata.as_bytes(), &chunk.body].concat();
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok());
        let early = || Fault::unavailable("its program ended early");
        if !sent {
            return Err(self.with_error_output(early()));
        }
        for _ in 0..self.limits.wait_secs.saturating_mul(1_000 / POLL_MS).max(1) {
            match self.responses.recv_timeout(Duration::from_millis(POLL_MS)) {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(fault)) => return Err(self.with_error_output(fault)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.with_error_output(early())),
                Err(RecvTimeoutError::Timeout) if is_cancelled() => {
                    self.group.kill();
                    return Err(cancelled_fault());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.group.kill();
        let seconds = self.limits.wait_secs;
        Err(self.with_error_output(timeout_fault(seconds)))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.requests = None;
        self.group.kill();
    }
}

fn write_requests(mut stdin: ChildStdin, requests: &Receiver<Vec<u8>>) {
    while let Ok(request) = requests.recv() {
        if stdin.write_all(&request).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_responses(stdout: ChildStdout, bytes_max: u64, responses: &SyncSender<Result<CommandChunk, Fault>>) {
    let mut stdout = BufReader::new(stdout);
    while let Some(response) = read_response(&mut stdout, bytes_max) {
        let is_last = response.is_err();
        if responses.send(response).is_err() || is_last {
            return;
        }
    }
}

/// Reads the next response; `None` at the end of the output.
fn read_response(stdout: &mut impl BufRead, bytes_max: u64) -> Option<Result<CommandChunk, Fault>> {
    let mut header = String::new();
    let read = stdout.by_ref().take(HEADER_BYTES_MAX).read_line(&mut header);
    match read {
        Ok(0) => return None,
        Ok(_) if header.ends_with('\n') => {}
        Ok(_) => return Some(Err(invalid_header(&header))),
        Err(error) => return Some(Err(Fault::io("its answer cannot be read", error))),
    }
    // An empty line between chunks is ignored.
    if header.trim().is_empty() {
        return read_response_after_blank(stdout, bytes_max);
    }
    Some(read_parts(&header, stdout, bytes_max))
}

/// Like [`read_response`] after an empty line; a second empty line is an error.
fn read_response_after_blank(stdout: &mut impl BufRead, bytes_max: u64) -> Option<Result<CommandChunk, Fault>> {
    let mut header = String::new();
    match stdout.by_ref().take(HEADER_BYTES_MAX).read_line(&mut header) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(read_parts(&header, stdout, bytes_max)),
    }
}

fn invalid_header(header: &str) -> Fault {
    Fault::unavailable(format!("its program answered with {:?} instead of a chunk", header.trim_end()))
}

fn read_parts(header: &str, stdout: &mut impl BufRead, bytes_max: u64) -> Result<CommandChunk, Fault> {
    let mut parts = header.trim_end().split(',');
    let (version, metadata, body) = (parts.next(), parts.next(), parts.next());
    let length = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok());
    let (Some(VERSION), Some(metadata), Some(body), None) = (version, length(metadata), length(body), parts.next())
    else {
        return Err(invalid_header(header));
    };
    if metadata.saturating_add(body) > bytes_max {
        let bytes = metadata.saturating_add(body);
        return Err(Fault::unavailable(format!(
            "its program answered {bytes} bytes; the limit is {bytes_max} (maxchunksize)"
        )));
    }
    let mut read = |length: u64| {
        let mut bytes = Vec::new();
        let got = stdout.by_ref().take(length).read_to_end(&mut bytes);
        match got {
            Ok(got) if got as u64 == length => Ok(bytes),
            _ => Err(Fault::unavailable("its program ended in the middle of an answer")),
        }
    };
    let metadata = String::from_utf8(read(metadata)?).map_err(|_| Fault::unavailable("its answer is not UTF-8"))?;
    Ok(CommandChunk { metadata, body: read(body)? })
}
