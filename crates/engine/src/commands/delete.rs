//! `delete` in a place where it is not allowed, which is an error. An allowed `delete` is the source of a plan
//! ([`crate::plan::Source::Delete`]) and has no steps.

use quarry_eval::EngineError;
use quarry_spl::ast::DeleteCommand;

use super::Execute;
use crate::lowering::{Lowering, Step};

impl Execute for DeleteCommand {
    /// An error: an allowed `delete` is part of the plan's source and has no steps.
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let message = "delete must follow a search for events and commands that process one event at a time; it \
                       cannot be used in a subsearch or in a command that runs searches";
        Err(EngineError::Invalid { message: message.to_owned(), span: Some(lowering.span) })
    }
}
