//! A running program of a custom command: started in its own process group, driven over its pipes, ended as a group.
//!
//! Two threads read its output and its error output, a third writes, so that a program that does not read and write in
//! turn blocks nobody. A caller waits for a response until the timeout, then the group is killed. The environment
//! contains only a path and a locale.
//!
//! Not here: the dialogue (engine), and finding programs ([`super::CustomCommands`]).

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_engine::{CommandChunk, CommandProcess};
use quarry_stdx::Fault;

use crate::group::{
    CPU_SECS_MAX, END_ROUNDS, LOOK_MS, Pipes, Program, ProgramGroup, cancelled, keep_complaints, no_answer, spawn,
};

/// Maximum header line of a response, in bytes.
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
    questions: Option<SyncSender<Vec<u8>>>,
    answers: Receiver<Result<CommandChunk, Fault>>,
    complaints: Arc<Mutex<Vec<u8>>>,
    limits: ProgramLimits,
}

impl RunningProgram {
    /// Starts a program with its limits.
    pub(crate) fn start(program: &Program, limits: ProgramLimits) -> Result<RunningProgram, Fault> {
        let (group, pipes) = ProgramGroup::start(program, &[], Some(CPU_SECS_MAX))?;
        let Pipes { stdin, stdout, stderr } = pipes;
        let (questions, to_write) = sync_channel(1);
        let (to_answer, answers) = sync_channel(1);
        let complaints: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = Arc::clone(&complaints);
        let running = RunningProgram { group, questions: Some(questions), answers, complaints, limits };
        spawn("command-write", move || write_questions(stdin, &to_write))?;
        spawn("command-read", move || read_answers(stdout, limits.chunk_bytes, &to_answer))?;
        spawn("command-stderr", move || keep_complaints(stderr, &kept))?;
        Ok(running)
    }

    /// Adds the end of the program's error output to an error.
    fn without_answer(&mut self, fault: Fault) -> Fault {
        let mut rounds = 0..END_ROUNDS;
        while !self.group.has_ended() && rounds.next().is_some() {
            drop(self.answers.recv_timeout(Duration::from_millis(LOOK_MS)));
        }
        let by_itself = self.group.has_ended();
        let status = self.group.end().filter(|_| by_itself);
        let how = status.map_or_else(String::new, |status| format!(" ({status})"));
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&complaints).trim().to_owned();
        fault.reworded(|fault| if text.is_empty() { format!("{fault}{how}") } else { format!("{fault}{how}: {text}") })
    }
}

impl CommandProcess for RunningProgram {
    fn exchange(&mut self, chunk: &CommandChunk, is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault> {
        let header = format!("{VERSION},{},{}\n", chunk.metadata.len(), chunk.body.len());
        let question = [header.as_bytes(), chunk.metadata.as_bytes(), &chunk.body].concat();
        let sent = self.questions.as_ref().is_some_and(|questions| questions.send(question).is_ok());
        let early = || Fault::unavailable("its program ended early");
        if !sent {
            return Err(self.without_answer(early()));
        }
        for _ in 0..self.limits.wait_secs.saturating_mul(1_000 / LOOK_MS).max(1) {
            match self.answers.recv_timeout(Duration::from_millis(LOOK_MS)) {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(fault)) => return Err(self.without_answer(fault)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.without_answer(early())),
                Err(RecvTimeoutError::Timeout) if is_cancelled() => {
                    self.group.end();
                    return Err(cancelled());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.group.end();
        let seconds = self.limits.wait_secs;
        Err(self.without_answer(no_answer(seconds)))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.questions = None;
        self.group.end();
    }
}

fn write_questions(mut stdin: ChildStdin, questions: &Receiver<Vec<u8>>) {
    while let Ok(question) = questions.recv() {
        if stdin.write_all(&question).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_answers(stdout: ChildStdout, bytes_max: u64, answers: &SyncSender<Result<CommandChunk, Fault>>) {
    let mut stdout = BufReader::new(stdout);
    while let Some(answer) = read_answer(&mut stdout, bytes_max) {
        let is_last = answer.is_err();
        if answers.send(answer).is_err() || is_last {
            return;
        }
    }
}

/// The next response; `None` at the end of the output.
fn read_answer(stdout: &mut impl BufRead, bytes_max: u64) -> Option<Result<CommandChunk, Fault>> {
    let mut header = String::new();
    let read = stdout.by_ref().take(HEADER_BYTES_MAX).read_line(&mut header);
    match read {
        Ok(0) => return None,
        Ok(_) if header.ends_with('\n') => {}
        Ok(_) => return Some(Err(no_chunk(&header))),
        Err(error) => return Some(Err(Fault::io("its answer cannot be read", error))),
    }
    // An empty line between chunks is ignored.
    if header.trim().is_empty() {
        return read_answer_once(stdout, bytes_max);
    }
    Some(read_parts(&header, stdout, bytes_max))
}

/// At most one empty line is allowed.
fn read_answer_once(stdout: &mut impl BufRead, bytes_max: u64) -> Option<Result<CommandChunk, Fault>> {
    let mut header = String::new();
    match stdout.by_ref().take(HEADER_BYTES_MAX).read_line(&mut header) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(read_parts(&header, stdout, bytes_max)),
    }
}

fn no_chunk(header: &str) -> Fault {
    Fault::unavailable(format!("its program answered with {:?} instead of a chunk", header.trim_end()))
}

fn read_parts(header: &str, stdout: &mut impl BufRead, bytes_max: u64) -> Result<CommandChunk, Fault> {
    let mut parts = header.trim_end().split(',');
    let (version, metadata, body) = (parts.next(), parts.next(), parts.next());
    let length = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok());
    let (Some(VERSION), Some(metadata), Some(body), None) = (version, length(metadata), length(body), parts.next())
    else {
        return Err(no_chunk(header));
    };
    if metadata.saturating_add(body) > bytes_max {
        let bytes = metadata.saturating_add(body);
        return Err(Fault::unavailable(format!(
            "its program answered {bytes} bytes, the limit is {bytes_max} (maxchunksize)"
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
