//! Log messages for the operator: lines on standard error that begin with their level.
//!
//! Each message is written in one call, so that lines of several threads do not mix. There is no filter and no log
//! file: the caller decides what is worth a line and limits messages that may be frequent.

use std::fmt::Display;
use std::io::Write;

/// Logs a permanent failure.
pub fn error(text: impl Display) {
    write(format!("error: {text}\n"));
}

/// Logs a condition that needs attention; work continues.
pub fn warning(text: impl Display) {
    write(format!("warning: {text}\n"));
}

/// Logs something that may surprise but needs no action.
pub fn note(text: impl Display) {
    write(format!("note: {text}\n"));
}

/// Logs normal operation, without a level prefix.
pub fn info(text: impl Display) {
    write(format!("{text}\n"));
}

fn write(line: String) {
    // If standard error is closed, there is no one left to tell.
    let _closed = std::io::stderr().lock().write_all(line.as_bytes());
}
