//! Commands that are short for others: the text of those, and reading it in place of the one that is being read.

use super::cursor::{Parser, Read};
use crate::ast::{Command, NoopCommand};
use crate::diagnostic::Diagnostic;

/// A text in double quotes.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The name of a field as an eval expression writes it.
pub(crate) fn eval_field(name: &str) -> String {
    format!("'{}'", name.replace('\'', ""))
}

impl Parser<'_> {
    /// Reads commands written out for the one that is being read.
    pub(crate) fn standing_for(&mut self, text: &str) -> Read<Command> {
        let parsed = super::parse(text);
        if let Some(fault) = parsed.diagnostics.first() {
            return Err(Diagnostic::error(fault.message.clone(), self.since(self.stage_start())));
        }
        let mut commands: Vec<Command> = parsed.pipeline.commands.into_iter().map(|stage| stage.command).collect();
        let last = commands.pop().unwrap_or(Command::Noop(NoopCommand));
        self.preceding = commands;
        Ok(last)
    }
}
