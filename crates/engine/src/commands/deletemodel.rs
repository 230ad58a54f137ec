//! `deletemodel`: removes a model.

use quarry_eval::EngineError;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::DeleteModelCommand;
use quarry_stdx::Fault;

use super::Execute;
use super::models::{model, table, unknown_model_message};
use crate::lowering::SearchEnvironment;

impl Execute for DeleteModelCommand {
    fn check(&self, search: &dyn SearchEnvironment) -> Result<(), EngineError> {
        model("deletemodel", &self.0, search.lookups().as_ref()).map(drop)
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        let (name, models) = (&self.0, search.lookups());
        let failed = |fault: Fault| EngineError::at(fault.with_context("deletemodel"), name.span);
        if !models.remove_model(&name.text, name.shared).map_err(failed)? {
            return Err(failed(Fault::not_found(unknown_model_message(name, models.as_ref()))));
        }
        search.context().messages.push(format!("deletemodel: model {} is removed", name.text));
        Ok(Some(of_batches(vec![table(&[])?])))
    }
}
