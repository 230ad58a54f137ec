//! Rewriting of commands to others: writes those as text and parses it.

use super::cursor::{Parser, Read};
use crate::ast::{Command, FromCommand, Span, TstatsCommand, TstatsSource};
use crate::diagnostic::Diagnostic;

/// Quotes a text with double quotes.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A field name as an eval expression writes it.
pub(crate) fn eval_field(name: &str) -> String {
    format!("'{}'", name.replace('\'', ""))
}

impl Parser<'_> {
    /// Parses the commands, given as text, to which the current command is rewritten.
    pub(crate) fn standing_for(&self, text: &str) -> Read<Vec<Command>> {
        let parsed = super::parse(text);
        match parsed.diagnostics.first() {
            Some(fault) => Err(Diagnostic::error(fault.message.clone(), self.since(self.stage_start()))),
            None => {
                let start = self.stage_start();
                let blanks = self.text[start..].len() - self.text[start..].trim_start().len();
                let span = self.since(start + blanks);
                let commands = parsed.pipeline.commands.into_iter();
                Ok(commands.map(|stage| placed(stage.command, span)).collect())
            }
        }
    }
}

/// A rewritten command whose names have the position of the original command, so that errors point at it.
fn placed(mut command: Command, span: Span) -> Command {
    match &mut command {
        Command::From(FromCommand::DataModel(name)) => name.span = span,
        Command::Tstats(TstatsCommand { source: TstatsSource::DataModel(name), .. }) => name.span = span,
        _ => {}
    }
    command
}
