//! Runs the program of an alert action once: passes the payload to it, collects its messages and ends its process
//! group.
//!
//! A program that fails or takes too long does not fail the search; its error output becomes messages.

use quarry_stdx::Fault;
use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::group::{
    CPU_SECS_MAX, END_POLLS_MAX, POLL_MS, Pipes, Program, ProgramGroup, cancelled_fault, capture_stderr, spawn,
};

/// Maximum number of lines reported; the last lines are kept.
const LINES_MAX: usize = 20;
/// Line prefixes that set a level, each with the prefix of the reported message; `None` drops the line.
const LEVELS: [(&str, Option<&str>); 8] = [
    ("DEBUG", None),
    ("INFO", Some("")),
    ("WARN", Some("warning: ")),
    ("WARNING", Some("warning: ")),
    ("ERROR", Some("error: ")),
    ("FATAL", Some("error: ")),
    ("CRITICAL", Some("error: ")),
    ("CRIT", Some("error: ")),
];

/// Result of waiting for a program.
enum WaitOutcome {
    Ended,
    Cancelled,
    TooLong,
}

/// Runs a program to its end; returns messages for the user.
pub(super) fn run(
    program: &Program,
    environment: &[(String, String)],
    payload: String,
    seconds: u64,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<String>, Fault> {
    let (mut group, Pipes { stdin, stdout, stderr }) = ProgramGroup::start(program, environment, Some(CPU_SECS_MAX))?;
    let error_output: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&error_output);
    let (closes, closed) = channel::<()>();
    spawn("alert-write", move || write(stdin, &payload))?;
    spawn("alert-read", move || drain(stdout))?;
    spawn("alert-stderr", move || {
        capture_stderr(stderr, &kept);
        drop(closes);
    })?;
    let waited = wait(&group, &closed, seconds, is_cancelled);
    let status = group.kill();
    // A process that has left the group may keep the pipe open.
    closed.recv_timeout(Duration::from_millis(POLL_MS * END_POLLS_MAX as u64)).ok();
    let error_output = error_output.lock().unwrap_or_else(PoisonError::into_inner);
    let mut messages = parse_messages(&String::from_utf8_lossy(&error_output));
    match waited {
        WaitOutcome::Cancelled => return Err(cancelled_fault()),
        WaitOutcome::TooLong => {
            messages.push(format!("its program was stopped after the limit of {seconds} seconds (maxtime)"))
        }
        WaitOutcome::Ended => match status {
            Some(status) if status.success() => {}
            Some(status) => messages.push(format!("its program failed ({status}); the rows are unchanged")),
            None => messages.push("the exit status of its program is unknown".to_owned()),
        },
    }
    Ok(messages)
}

/// Waits for the end of the program.
fn wait(group: &ProgramGroup, closed: &Receiver<()>, seconds: u64, is_cancelled: &dyn Fn() -> bool) -> WaitOutcome {
    let look = Duration::from_millis(POLL_MS);
    let mut is_open = true;
    for _ in 0..seconds.saturating_mul(1_000 / POLL_MS).max(1) {
        if group.has_ended() {
            return WaitOutcome::Ended;
        }
        if is_cancelled() {
            return WaitOutcome::Cancelled;
        }
        if is_open {
            is_open = closed.recv_timeout(look) == Err(RecvTimeoutError::Timeout);
        } else {
            // A program that has closed its error output usually ends soon.
            std::thread::park_timeout(look);
        }
    }
    if group.has_ended() { WaitOutcome::Ended } else { WaitOutcome::TooLong }
}

/// Messages from the lines of a program.
fn parse_messages(text: &str) -> Vec<String> {
    let message = |line: &str| {
        let line = line.trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let level = LEVELS.iter().find(|(level, _)| first.trim_end_matches(':').eq_ignore_ascii_case(level));
        match level {
            Some((_, before)) => before.map(|before| format!("{before}{}", rest.trim_start())),
            None => Some(line.to_owned()),
        }
    };
    let mut lines: Vec<String> = text.lines().filter_map(message).filter(|line| !line.is_empty()).collect();
    lines.drain(..lines.len().saturating_sub(LINES_MAX));
    lines
}

fn write(mut stdin: ChildStdin, payload: &str) {
    // Writing fails if the program has closed its input without reading it.
    drop(stdin.write_all(payload.as_bytes()));
}

/// Discards the program's standard output.
fn drain(mut stdout: ChildStdout) {
    let mut buffer = [0; 4_096];
    while let Ok(1..) = stdout.read(&mut buffer) {}
}

#[cfg(test)]
mod tests {
    use super::parse_messages;

    #[test]
    fn lines_are_logged_by_their_level() {
        let text = "DEBUG nothing\nINFO sent 3 mails\nWARN: slow\nERROR no such room\nTraceback\n\nINFO\n";
        assert_eq!(parse_messages(text), ["sent 3 mails", "warning: slow", "error: no such room", "Traceback"]);
        assert_eq!(parse_messages(&"x\n".repeat(50)).len(), super::LINES_MAX);
    }
}
