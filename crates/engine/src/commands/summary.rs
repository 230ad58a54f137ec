//! `summary`: what a model holds.

use quarry_eval::EngineError;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::SummaryCommand;

use super::Execute;
use super::models::{model, table};
use crate::run::Runner;

impl Execute for SummaryCommand {
    fn generate(&self, runner: &Runner) -> Result<Option<RowIter>, EngineError> {
        let rows = table(&model("summary", &self.0, runner.lookups.as_ref())?.summary())?;
        Ok(Some(of_batches(vec![rows])))
    }
}
