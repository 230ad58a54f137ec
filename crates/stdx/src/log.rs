//! Log messages for the operator: lines on standard error that begin with their level.
//!
//! Each message is written in one call, so that lines of several threads do not mix. There is no log file: the caller
//! decides what is worth a line and limits messages that may be frequent; [`set_level`] drops less important ones. A
//! server also keeps recent errors and warnings until it indexes them.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Maximum number of recent messages; the oldest are dropped first.
const RECENT_MESSAGES_MAX: usize = 1_000;

/// Recent messages; `None` until [`start_recording`] is called.
static RECENT_MESSAGES: Mutex<Option<VecDeque<RecentMessage>>> = Mutex::new(None);

/// Importance of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Normal operation, and notes.
    Info,
    /// A condition that needs attention.
    Warning,
    /// A failure.
    Error,
}

/// The least important level that is logged, as a number; at first, every level is logged.
static LEAST_LEVEL: AtomicU8 = AtomicU8::new(0);

/// Drops messages that are less important than this level, from now on.
pub fn set_level(level: Level) {
    LEAST_LEVEL.store(number(level), Ordering::Relaxed);
}

fn number(level: Level) -> u8 {
    match level {
        Level::Info => 0,
        Level::Warning => 1,
        Level::Error => 2,
    }
}

fn is_logged(level: Level) -> bool {
    number(level) >= LEAST_LEVEL.load(Ordering::Relaxed)
}

/// A kept message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentMessage {
    /// `ERROR` or `WARN`.
    pub level: &'static str,
    /// The text, without a level.
    pub text: String,
}

/// Keeps errors and warnings from now on.
pub fn start_recording() {
    RECENT_MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// Takes the kept messages, oldest first.
pub fn take_recent() -> Vec<RecentMessage> {
    let mut kept = RECENT_MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    kept.as_mut().map(std::mem::take).unwrap_or_default().into()
}

fn record(level: &'static str, text: &str) {
    let mut kept = RECENT_MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(kept) = kept.as_mut() else { return };
    if kept.len() >= RECENT_MESSAGES_MAX {
        kept.pop_front();
    }
    kept.push_back(RecentMessage { level, text: text.to_owned() });
}

/// Layout of messages.
static LAYOUT: OnceLock<fn(&str) -> String> = OnceLock::new();

/// Sets the layout of messages, once per process; on a terminal, long messages are wrapped.
pub fn set_layout(layout: fn(&str) -> String) {
    // Later calls have no effect, so that all lines of a process look alike.
    let _is_first = LAYOUT.set(layout).is_ok();
}

/// Writes a line to standard error.
pub type LineWriter = fn(&[u8]);

/// Writer of lines; until it is set, lines are written directly to standard error.
static WRITER: OnceLock<LineWriter> = OnceLock::new();

/// Sets how lines are written, once per process; a program that draws on the terminal writes them above its drawing.
pub fn set_writer(writer: LineWriter) {
    let _is_first = WRITER.set(writer).is_ok();
}

/// Logs a permanent failure.
pub fn error(text: impl Display) {
    let text = text.to_string();
    record("ERROR", &text);
    write(&format!("error: {text}"));
}

/// Logs a condition that needs attention; work continues.
pub fn warning(text: impl Display) {
    if !is_logged(Level::Warning) {
        return;
    }
    let text = text.to_string();
    record("WARN", &text);
    write(&format!("warning: {text}"));
}

/// Logs a condition that may surprise but needs no action.
pub fn note(text: impl Display) {
    if is_logged(Level::Info) {
        write(&format!("note: {text}"));
    }
}

/// Logs normal operation, without a level prefix.
pub fn info(text: impl Display) {
    if is_logged(Level::Info) {
        write(&text.to_string());
    }
}

fn write(text: &str) {
    let mut line = LAYOUT.get().map_or_else(|| text.to_owned(), |layout| layout(text));
    line.push('\n');
    if let Some(writer) = WRITER.get() {
        return writer(line.as_bytes());
    }
    // If standard error is closed, the message is lost.
    let _closed = std::io::stderr().lock().write_all(line.as_bytes());
}
