//! Rewrites a command to other commands: builds their nodes, or parses their text.

use super::cursor::{Parser, Read};
use crate::ast::{Command, DataModelCommand, NodeBuilder, Span};
use crate::diagnostic::Diagnostic;

/// Quotes a text with double quotes.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Quotes a field name with single quotes, as in eval expressions.
pub(crate) fn eval_field(name: &str) -> String {
    format!("'{}'", name.replace('\'', ""))
}

impl Parser<'_> {
    /// A builder of the commands to which the current command is rewritten.
    pub(crate) fn builder(&self) -> NodeBuilder {
        NodeBuilder::at(self.command_span())
    }

    /// Span from the start of the current command to the current position.
    fn command_span(&self) -> Span {
        let start = self.stage_start();
        let blanks = self.text[start..].len() - self.text[start..].trim_start().len();
        self.since(start + blanks)
    }

    /// Rewrites the current command to the commands in `text`.
    pub(crate) fn standing_for(&self, text: &str) -> Read<Vec<Command>> {
        let parsed = super::parse(text);
        match parsed.diagnostics.first() {
            Some(fault) => Err(Diagnostic::error(fault.message.clone(), self.since(self.stage_start()))),
            None => {
                let span = self.command_span();
                let commands = parsed.pipeline.commands.into_iter();
                Ok(commands.map(|stage| placed(stage.command, span)).collect())
            }
        }
    }
}

/// A rewritten command whose names have the position of the original command, so that errors point at it.
fn placed(mut command: Command, span: Span) -> Command {
    if let Command::DataModel(DataModelCommand { name: Some(name), .. }) = &mut command {
        name.span = span;
    }
    command
}
