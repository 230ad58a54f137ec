//! How each SPL command runs: one file for each, of the same name as that of its syntax in `quarry_spl`.
//!
//! Commands that look at one batch at a time are row commands; stats, chart, timechart, top and rare fold; the rest need
//! all rows. The table of `quarry_spl` names the files; a command without a file, or whose file lacks [`Execute`], does
//! not compile.

use quarry_eval::EngineError;
use quarry_eval::rows::RowIter;
use quarry_spl::ast::Command;

use crate::lower::{Lowering, Step};
use crate::run::Runner;

pub(crate) mod aggregate_columns;
pub(crate) mod conditions;
mod delimiter;
pub(crate) mod empty_columns;
mod field_facts;
mod field_texts;
pub(crate) mod filled;
mod found_fields;
pub(crate) mod models;
pub(crate) mod series_table;

#[cfg(test)]
mod tests;

/// How a command of the syntax tree runs.
pub(crate) trait Execute {
    /// The steps that run it on rows of the commands before it; those that only begin a search have none.
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Err(lowering.not_first())
    }

    /// The rows it makes where it begins a search; `None` where it takes rows.
    fn generate(&self, _runner: &Runner) -> Result<Option<RowIter>, EngineError> {
        Ok(None)
    }
}

macro_rules! dispatch {
    (nodes { $($variant:ident($module:ident::$node:ident),)* } short { $($short:ident,)* }) => {
        $(pub(crate) mod $module;)*

        /// How a command runs.
        pub(crate) fn execution(command: &Command) -> &dyn Execute {
            match command {
                $(Command::$variant(node) => node,)*
                Command::Filled(node) => node,
            }
        }
    };
}

quarry_spl::each_command!(dispatch);
