//! `delete` never has steps: an allowed `delete` is the source of a plan ([`crate::plan::Source::Delete`]), and any
//! other is an error.

use quarry_eval::EngineError;
use quarry_spl::ast::DeleteCommand;

use super::Execute;
use crate::lowering::{Lowering, Step};

impl Execute for DeleteCommand {
    /// Always an error, because steps are only requested for a `delete` that is not allowed here.
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let message = "delete must follow a search for events and commands that process one event at a time; it \
                       cannot be used in a subsearch or in a command that runs searches";
        Err(EngineError::Invalid { message: message.to_owned(), span: Some(lowering.span) })
    }
}
