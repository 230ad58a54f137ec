//! Expansion of commands that are short for others: how the text of those is written, and its parsing.

use super::cursor::{Parser, Read};
use crate::ast::Command;
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
    /// Parses the commands, written out as text, that the one being read stands for.
    pub(crate) fn standing_for(&self, text: &str) -> Read<Vec<Command>> {
        let parsed = super::parse(text);
        match parsed.diagnostics.first() {
            Some(fault) => Err(Diagnostic::error(fault.message.clone(), self.since(self.stage_start()))),
            None => Ok(parsed.pipeline.commands.into_iter().map(|stage| stage.command).collect()),
        }
    }
}
