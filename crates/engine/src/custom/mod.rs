//! Commands that apps bring along: the dialogue with a program, chunk by chunk, in the form of Splunk's chunked
//! protocol (a line of JSON and a body of CSV each way).
//!
//! The engine knows what is said and in which order; who implements [`CommandSource`] knows which programs there are,
//! runs them and keeps them within their limits. First comes `getinfo`, whose answer says what the command is; then
//! `execute` with rows until both sides have said that they are finished. Answers alternate with questions strictly.
//! Programs of [alert actions](AlertCall) are told everything at once and say nothing that is read as rows.

mod alert;
pub(crate) mod chunk;

use quarry_stdx::Fault;
use std::collections::BTreeSet;

pub use self::alert::AlertCall;

/// One side's turn: metadata as JSON, rows as CSV.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandChunk {
    /// A JSON object.
    pub metadata: String,
    /// CSV with a header line, or nothing.
    pub body: Vec<u8>,
}

/// A program at work. Dropping it ends it.
pub trait CommandProcess: Send {
    /// Says something and waits for the answer, until `is_cancelled`.
    fn exchange(&mut self, chunk: &CommandChunk, is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault>;
}

/// Commands of apps.
pub trait CommandSource: Send + Sync {
    /// Their names, lower-cased.
    fn names(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
    /// The app that has the command.
    fn app(&self, _name: &str) -> String {
        String::new()
    }
    /// Starts the program of a command. Older programs do not say what they are: they make rows where they come first.
    fn start(&self, name: &str, _is_first: bool) -> Result<Box<dyn CommandProcess>, Fault> {
        Err(Fault::not_found(format!("there is no program for the command {name}")))
    }
    /// Why there is no alert action of this name that could be run.
    fn check_alert(&self, name: &str) -> Result<(), Fault> {
        Err(Fault::not_found(format!("there is no alert action {name}")))
    }
    /// Runs an alert action to its end, or until `is_cancelled`; what the user is told. An action that fails is told
    /// of, too; an error is one that could not begin.
    fn send_alert(&self, call: AlertCall<'_>, _is_cancelled: &dyn Fn() -> bool) -> Result<Vec<String>, Fault> {
        self.check_alert(call.action).map(|()| Vec::new())
    }
}

/// No commands but those of the language.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCommands;

impl CommandSource for NoCommands {}
