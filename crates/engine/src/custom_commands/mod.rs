//! Custom commands of apps: the dialogue with a program in Splunk's chunked protocol (per chunk and direction, a line
//! of JSON and a CSV body).
//!
//! The engine implements the dialogue; implementations of [`CommandSource`] know the programs, run them and enforce
//! their limits. The first request is `getinfo`, whose answer states the type of the command; `execute` requests with
//! rows follow until the program reports that it is finished. Requests and answers alternate strictly. Programs of
//! [alert actions](AlertCall) receive all their input at once, and their output is not read as rows.

mod alert;
pub(crate) mod chunk;

use quarry_stdx::Fault;
use std::collections::BTreeSet;

pub use self::alert::AlertCall;

/// One message: metadata as JSON, rows as CSV.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandChunk {
    /// A JSON object.
    pub metadata: String,
    /// CSV with a header line, or nothing.
    pub body: Vec<u8>,
}

/// A running program, which ends when this value is dropped.
pub trait CommandProcess: Send {
    /// Sends a message and waits until the answer arrives or `is_cancelled` returns true.
    fn exchange(&mut self, chunk: &CommandChunk, is_cancelled: &dyn Fn() -> bool) -> Result<CommandChunk, Fault>;
}

/// Commands of apps.
pub trait CommandSource: Send + Sync {
    /// Lower-case names of the commands.
    fn names(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
    /// The app that provides the command.
    fn app(&self, _name: &str) -> String {
        String::new()
    }
    /// Starts the program of a command; `is_first` tells whether the command is the first of its search. A program of
    /// the older protocol does not report whether it generates rows: it does so if its command is the first.
    fn start(&self, name: &str, _is_first: bool) -> Result<Box<dyn CommandProcess>, Fault> {
        Err(Fault::not_found(format!("there is no program for the command {name}")))
    }
    /// Checks that an alert action of this name exists and can be run; the error says why not.
    fn check_alert(&self, name: &str) -> Result<(), Fault> {
        Err(Fault::not_found(format!("there is no alert action {name}")))
    }
    /// Runs an alert action until it ends or `is_cancelled` returns true; returns messages for the user. If the
    /// action fails, a message says so; an error means that the action could not be started.
    fn send_alert(&self, call: AlertCall<'_>, _is_cancelled: &dyn Fn() -> bool) -> Result<Vec<String>, Fault> {
        self.check_alert(call.action).map(|()| Vec::new())
    }
}

/// No custom commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCommands;

impl CommandSource for NoCommands {}
