//! Custom commands of protocol version 1 and `script`: a program is started for some rows, reads them from standard
//! input, writes its result and ends.
//!
//! The engine uses the chunked protocol for all programs; [`ProgramV1`] implements it on behalf of such a program. The
//! program's properties come from its settings, or from the program itself if it supports `__GETINFO__`
//! (`supports_getinfo`). The program receives a header about the search, an empty line and the rows as CSV; it returns
//! messages, an empty line and rows, or rows only.
//!
//! Not here: processes ([`crate::group`]), finding programs ([`super::CustomCommands`]).

use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_engine::{CommandChunk, CommandProcess};
use quarry_inputs::program::escape_xml;
use quarry_stdx::Fault;
use serde_json::{Value, json};

use super::running_program::ProgramLimits;
use crate::group::{
    CPU_SECS_MAX, END_POLLS_MAX, POLL_MS, Pipes, Program, ProgramGroup, cancelled_fault, capture_stderr, spawn,
    timeout_fault,
};

/// First argument that queries a program for its properties, and the argument that makes it process rows.
const GETINFO: &str = "__GETINFO__";
const EXECUTE: &str = "__EXECUTE__";

/// Properties of a program of version 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingsV1 {
    /// Whether the command generates events.
    pub(crate) generates: bool,
    /// Whether rows may be passed in portions, each to a process of its own.
    pub(crate) streams: bool,
    /// Whether the command expects a header about the search.
    pub(crate) has_header: bool,
    /// Whether the program supports `__GETINFO__`.
    pub(crate) supports_getinfo: bool,
    /// Whether the header has the key of a session of the search's user (`passauth`).
    pub(crate) passes_session: bool,
    /// Maximum number of rows passed to a program that does not stream: at least one, and at most the rows of one
    /// portion, because such a program receives only the first portion.
    pub(crate) rows_max: usize,
}

/// Finds the program for the arguments of a search, and removes the arguments that name it.
pub(crate) type FindProgram = Box<dyn Fn(&mut Vec<String>) -> Result<Program, Fault> + Send>;

/// A program of version 1 behind the chunked protocol.
pub(crate) struct ProgramV1 {
    find: FindProgram,
    program: Option<Program>,
    limits: ProgramLimits,
    settings: SettingsV1,
    arguments: Vec<String>,
    /// Header about the search.
    header: Vec<u8>,
    /// Rows of the first portion, once it has arrived.
    rows: Option<Vec<u8>>,
    /// Set if rows beyond the maximum were dropped.
    was_cut: bool,
}

impl ProgramV1 {
    /// Creates a program that is started when needed.
    pub(crate) fn new(find: FindProgram, limits: ProgramLimits, settings: SettingsV1) -> ProgramV1 {
        ProgramV1 {
            find,
            program: None,
            limits,
            settings,
            arguments: Vec::new(),
            header: Vec::new(),
            rows: None,
            was_cut: false,
        }
    }

    fn getinfo(&mut self, metadata: &Value, is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault> {
        let info = &metadata["searchinfo"];
        let texts = info["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.arguments = texts.map(str::to_owned).collect();
        self.program = Some((self.find)(&mut self.arguments)?);
        if self.settings.has_header {
            self.header = header_of(info, self.settings.passes_session);
        }
        if self.settings.supports_getinfo {
            let (answer, _) = messages_of(&self.run(Some(GETINFO), Vec::new(), is_cancelled)?)?;
            let mut rows = csv::Reader::from_reader(answer.as_slice());
            let no_csv = |error: csv::Error| Fault::unavailable(format!("its description is not CSV: {error}"));
            let names = rows.headers().map_err(no_csv)?.clone();
            let says = rows.records().next().transpose().map_err(no_csv)?.unwrap_or_default();
            let is = |name: &str| {
                let value = names.iter().position(|known| known == name).and_then(|at| says.get(at));
                value.map(|value| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "t"))
            };
            self.settings.generates = is("generating").unwrap_or(self.settings.generates);
            self.settings.streams = is("streaming").unwrap_or(self.settings.streams);
        }
        let kind = if self.settings.streams { "streaming" } else { "reporting" };
        Ok(response_chunk(
            &json!({ "type": kind, "generating": self.settings.generates, "finished": false }),
            Vec::new(),
        ))
    }

    fn execute(&mut self, is_last: bool, body: &[u8], is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault> {
        if self.settings.streams && !self.settings.generates {
            if body.is_empty() {
                return Ok(response_chunk(&json!({ "finished": is_last }), Vec::new()));
            }
            return self.answer(body.to_vec(), is_last, is_cancelled);
        }
        if !body.is_empty() {
            self.was_cut |= self.rows.is_some();
            if self.rows.is_none() {
                let (rows, was_cut) = first_rows(body, self.settings.rows_max)?;
                (self.rows, self.was_cut) = (Some(rows), was_cut);
            }
        }
        if !is_last {
            return Ok(response_chunk(&json!({ "finished": false }), Vec::new()));
        }
        let rows = self.rows.take().unwrap_or_default();
        self.answer(rows, true, is_cancelled)
    }

    /// Runs the program on `rows` and returns its output as a chunk.
    fn answer(&mut self, rows: Vec<u8>, is_last: bool, is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault> {
        let execute = self.settings.supports_getinfo.then_some(EXECUTE);
        let (body, mut messages) = messages_of(&self.run(execute, rows, is_cancelled)?)?;
        if self.was_cut {
            let most = self.settings.rows_max;
            messages.push(("WARN".to_owned(), format!("its program got the first {most} rows only (maxinputs)")));
        }
        Ok(response_chunk(&json!({ "finished": is_last, "inspector": { "messages": messages } }), body))
    }

    /// Runs the program once and returns its output.
    fn run(&self, first: Option<&str>, rows: Vec<u8>, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<u8>, Fault> {
        let Some(mut program) = self.program.clone() else { return Err(Fault::bug("getinfo was not received")) };
        program.arguments.extend(first.map(str::to_owned));
        program.arguments.extend(self.arguments.iter().cloned());
        let input = [self.header.as_slice(), &rows].concat();
        let (mut group, Pipes { stdin, stdout, stderr }) = ProgramGroup::start(&program, &[], Some(CPU_SECS_MAX))?;
        let error_output: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = Arc::clone(&error_output);
        let (to_answer, answers) = sync_channel(1);
        let bytes_max = self.limits.chunk_bytes;
        spawn("command-write", move || write(stdin, &input))?;
        spawn("command-read", move || read(stdout, bytes_max, &to_answer))?;
        let complains = spawn("command-stderr", move || capture_stderr(stderr, &kept))?;
        let output = wait(&answers, self.limits.wait_secs, is_cancelled);
        // A program that has closed its output usually ends soon and then has a status to report.
        let (never, timer) = sync_channel::<()>(1);
        let mut rounds = 0..END_POLLS_MAX;
        while output.is_ok() && !group.has_ended() && rounds.next().is_some() {
            timer.recv_timeout(Duration::from_millis(POLL_MS)).ok();
        }
        drop(never);
        let by_itself = group.has_ended();
        let status = group.kill().filter(|status| by_itself && !status.success());
        drop(complains.join());
        let error_output = error_output.lock().unwrap_or_else(PoisonError::into_inner);
        let error_text = String::from_utf8_lossy(&error_output).trim().to_owned();
        match (output, status) {
            (Ok(output), None) => Ok(output),
            (Ok(_), Some(status)) => Err(Fault::unavailable(format!("its program failed ({status}): {error_text}"))),
            (Err(fault), _) if error_text.is_empty() => Err(fault),
            (Err(fault), _) => Err(fault.map_text(|fault| format!("{fault}: {error_text}"))),
        }
    }
}

impl CommandProcess for ProgramV1 {
    fn exchange(&mut self, chunk: &CommandChunk, is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault> {
        let metadata: Value = serde_json::from_str(&chunk.metadata).map_err(|error| Fault::bug(error.to_string()))?;
        match metadata["action"].as_str() {
            Some("getinfo") => self.getinfo(&metadata, is_cancelled),
            _ => self.execute(metadata["finished"] == Value::Bool(true), &chunk.body, is_cancelled),
        }
    }
}

fn response_chunk(metadata: &Value, body: Vec<u8>) -> CommandChunk {
    CommandChunk { metadata: metadata.to_string(), body }
}

/// A byte, percent-encoded as in URLs unless it is alphanumeric.
fn encode_byte(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

/// Header about a search, including the empty line at its end.
fn header_of(info: &Value, passes_session: bool) -> Vec<u8> {
    let text = |name: &str| info[name].as_str().unwrap_or_default().replace(['\n', '\r'], " ");
    let mut lines: Vec<String> = [("sid", "sid"), ("owner", "owner"), ("namespace", "app"), ("search", "search")]
        .into_iter()
        .map(|(name, of)| format!("{name}:{}\n", text(of)))
        .collect();
    lines.extend(["realtime:0\n", "preview:0\n", "truncated:0\n"].map(str::to_owned));
    if passes_session {
        let (user, key) = (escape_xml(&text("username")), text("session_key"));
        let identity =
            format!("<auth><userId>{user}</userId><username>{user}</username><authToken>{key}</authToken></auth>");
        // Programs decode all values of the header, but only this value contains characters that must be encoded.
        let encoded: String = identity.bytes().map(encode_byte).collect();
        lines.push(format!("authString:{encoded}\nsessionKey:{key}\n"));
    }
    lines.push(format!("splunkVersion:{}\n\n", text("splunk_version")));
    lines.concat().into_bytes()
}

/// The first rows of CSV with a header line, and whether rows were dropped.
fn first_rows(body: &[u8], most: usize) -> Result<(Vec<u8>, bool), Fault> {
    let mut rows = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(body);
    let mut record = csv::ByteRecord::new();
    let mut read = 0;
    while rows.read_byte_record(&mut record).map_err(|error| Fault::bug(error.to_string()))? {
        read += 1;
        // The header line counts as a record.
        if read == most + 2 {
            let start = record.position().map_or(body.len(), |place| place.byte() as usize);
            return Ok((body.get(..start).unwrap_or(body).to_vec(), true));
        }
    }
    Ok((body.to_vec(), false))
}

/// Level and text of a message.
type Message = (String, String);

/// Splits an output into rows and preceding messages.
fn messages_of(output: &[u8]) -> Result<(Vec<u8>, Vec<Message>), Fault> {
    let mut messages = Vec::new();
    let mut rest = output;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(&rest[..end]);
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            // The empty line ends the messages; without messages, it precedes the rows.
            rest = &rest[end + 1..];
            break;
        }
        match line.split_once('=').and_then(|(level, text)| Some((level_of(level)?, text))) {
            Some((level, text)) => messages.push((level.to_owned(), text.to_owned())),
            None => break,
        }
        rest = &rest[end + 1..];
    }
    if std::str::from_utf8(rest).is_err() {
        return Err(Fault::unavailable("its answer is not UTF-8"));
    }
    Ok((rest.to_vec(), messages))
}

/// The level at the start of a message.
fn level_of(text: &str) -> Option<&'static str> {
    match text.trim_end_matches("_message").to_ascii_lowercase().as_str() {
        "error" | "fatal" => Some("ERROR"),
        "warn" | "warning" => Some("WARN"),
        "info" => Some("INFO"),
        "debug" => Some("DEBUG"),
        _ => None,
    }
}

fn write(mut stdin: ChildStdin, input: &[u8]) {
    // Writing fails if the program has closed its input without reading it.
    drop(stdin.write_all(input));
}

fn read(stdout: ChildStdout, bytes_max: u64, to_answer: &SyncSender<Result<Vec<u8>, Fault>>) {
    let mut output = Vec::new();
    let got = stdout.take(bytes_max.saturating_add(1)).read_to_end(&mut output);
    let answer = match got {
        Ok(_) if output.len() as u64 > bytes_max => Err(Fault::unavailable(format!(
            "its program answered more than the limit of {bytes_max} bytes (maxchunksize)"
        ))),
        Ok(_) => Ok(output),
        Err(error) => Err(Fault::io("its answer cannot be read", error)),
    };
    // Sending fails if the caller has stopped waiting.
    drop(to_answer.send(answer));
}

fn wait(
    answers: &Receiver<Result<Vec<u8>, Fault>>,
    seconds: u64,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<u8>, Fault> {
    for _ in 0..seconds.saturating_mul(1_000 / POLL_MS).max(1) {
        match answers.recv_timeout(Duration::from_millis(POLL_MS)) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err(Fault::unavailable("its program ended early")),
            Err(RecvTimeoutError::Timeout) if is_cancelled() => return Err(cancelled_fault()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Err(timeout_fault(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_before_rows() {
        let of = |text: &str| {
            let (rows, messages) = messages_of(text.as_bytes()).unwrap();
            (String::from_utf8(rows).unwrap(), messages)
        };
        let message = |level: &str, text: &str| (level.to_owned(), text.to_owned());
        assert_eq!(of("a,b\n1,2\n"), ("a,b\n1,2\n".to_owned(), vec![]));
        assert_eq!(of("\r\na,b\r\n1,2\r\n"), ("a,b\r\n1,2\r\n".to_owned(), vec![]));
        assert_eq!(of("ERROR=too bad\n\na\n1\n"), ("a\n1\n".to_owned(), vec![message("ERROR", "too bad")]));
        assert_eq!(of("warn_message=x=1\r\n\r\n"), (String::new(), vec![message("WARN", "x=1")]));
        assert_eq!(of("error=1,b\n"), (String::new(), vec![message("ERROR", "1,b")]));
        assert_eq!(of(""), (String::new(), vec![]));
        assert!(messages_of(b"a\n\xff\n").is_err());
    }

    #[test]
    fn rows_beyond_the_limit_are_dropped() {
        let body = b"a,b\n1,\"x\ny\"\n2,z\n3,w\n";
        assert_eq!(first_rows(body, 2).unwrap(), (b"a,b\n1,\"x\ny\"\n2,z\n".to_vec(), true));
        assert_eq!(first_rows(body, 3).unwrap(), (body.to_vec(), false));
    }
}
