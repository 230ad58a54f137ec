//! `summary`: shows the contents of a model.

use quarry_eval::EngineError;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::SummaryCommand;

use super::Execute;
use super::models::{model, table};
use crate::lowering::SearchEnvironment;

impl Execute for SummaryCommand {
    fn check(&self, environment: &dyn SearchEnvironment) -> Result<(), EngineError> {
        model("summary", &self.0, environment.lookups().as_ref()).map(drop)
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        let rows = table(&model("summary", &self.0, search.lookups().as_ref())?.summary())?;
        Ok(Some(of_batches(vec![rows])))
    }
}
