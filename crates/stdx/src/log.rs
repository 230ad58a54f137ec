//! Log messages for the operator: lines on standard error that begin with their level.
//!
//! Each message is written in one call, so that lines of several threads do not mix. There is no filter and no log
//! file: the caller decides what is worth a line and limits messages that may be frequent.

use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;

/// How a message is laid out.
static LAYOUT: OnceLock<fn(&str) -> String> = OnceLock::new();

/// Sets the layout of messages, once per process; on a terminal, long messages are wrapped.
pub fn set_layout(layout: fn(&str) -> String) {
    // Later calls have no effect, so that all lines of a process look alike.
    let _is_first = LAYOUT.set(layout).is_ok();
}

/// Logs a permanent failure.
pub fn error(text: impl Display) {
    write(&format!("error: {text}"));
}

/// Logs a condition that needs attention; work continues.
pub fn warning(text: impl Display) {
    write(&format!("warning: {text}"));
}

/// Logs something that may surprise but needs no action.
pub fn note(text: impl Display) {
    write(&format!("note: {text}"));
}

/// Logs normal operation, without a level prefix.
pub fn info(text: impl Display) {
    write(&text.to_string());
}

fn write(text: &str) {
    let mut line = LAYOUT.get().map_or_else(|| text.to_owned(), |layout| layout(text));
    line.push('\n');
    // If standard error is closed, there is no one left to tell.
    let _closed = std::io::stderr().lock().write_all(line.as_bytes());
}
