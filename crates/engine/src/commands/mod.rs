//! Execution of SPL commands: one file for each, with the same name as the file for its syntax in `quarry_spl`.
//!
//! Commands that process one batch at a time are row commands; stats, chart, timechart, top and rare are folds; other
//! commands need all rows, or generate rows. The table in `quarry_spl` names the files; the crate does not compile if a
//! file or its [`Execute`] is missing.

use quarry_eval::EngineError;
use quarry_spl::ast::{Command, Span};

pub(crate) use crate::lowering::Execute;
use crate::lowering::{Environment, Lowering, Step};

pub(crate) mod aggregate_columns;
pub(crate) mod conditions;
mod delimiter;
pub(crate) mod empty_columns;
mod extracted_fields;
mod field_profile;
mod field_texts;
mod measurements;
pub(crate) mod models;
mod selection;
pub(crate) mod series_table;
mod sorted_positions;
pub(crate) mod substitution;

#[cfg(test)]
mod tests;

macro_rules! dispatch {
    (nodes { $($variant:ident($module:ident::$node:ident),)* } short { $($short:ident,)* }) => {
        $(pub(crate) mod $module;)*

        /// The implementation of a command.
        pub(crate) fn execution(command: &Command) -> &dyn Execute {
            match command {
                $(Command::$variant(node) => node,)*
                Command::Substitution(node) => node,
                Command::Measurements(node) => node,
            }
        }
    };
}

quarry_spl::each_command!(dispatch);

/// The steps of a command that receives rows from another.
pub(crate) fn steps_of(command: &Command, span: Span, environment: &dyn Environment) -> Result<Vec<Step>, EngineError> {
    // Also checks commands that were unknown when the search was checked, because they contain substituted data.
    environment.permit(command, span)?;
    let steps = execution(command).steps(&Lowering { environment, span, name: command.name() })?;
    let most = steps.iter().map(Step::kind).max();
    debug_assert!(most <= Some(command.kind()), "a step of {command:?} demands more than the command says: {most:?}");
    Ok(steps)
}
