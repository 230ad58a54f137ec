//! Positions of generated commands: a command that is rewritten to others passes its position on to them.

use super::cursor::Parser;
use crate::ast::{NodeBuilder, Span};

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
}
