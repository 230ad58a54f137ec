//! Messages for whoever operates the process: lines on standard error that begin with their level.
//!
//! A message is written whole, so that lines of several threads do not mix. There is no filter and no file: what is worth
//! a line is decided where it is written, and what may come often is bounded there.

use std::fmt::Display;
use std::io::Write;

/// Writes a message about something that failed for good.
pub fn error(text: impl Display) {
    write(format!("error: {text}\n"));
}

/// Writes a message about something that needs attention while work goes on.
pub fn warning(text: impl Display) {
    write(format!("warning: {text}\n"));
}

/// Writes a message about something that may surprise and needs no action.
pub fn note(text: impl Display) {
    write(format!("note: {text}\n"));
}

/// Writes a message about normal operation, without a level before it.
pub fn info(text: impl Display) {
    write(format!("{text}\n"));
}

fn write(line: String) {
    // Where standard error itself cannot be written, nothing is left to tell anyone.
    let _closed = std::io::stderr().lock().write_all(line.as_bytes());
}
