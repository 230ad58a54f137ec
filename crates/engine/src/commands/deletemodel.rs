//! `deletemodel`: removes a model.

use quarry_eval::EngineError;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::DeleteModelCommand;

use super::Execute;
use super::models::{model, no_model, table};
use crate::lower::SearchEnvironment;

impl Execute for DeleteModelCommand {
    fn check(&self, search: &dyn SearchEnvironment) -> Result<(), EngineError> {
        model("deletemodel", &self.0, search.lookups().as_ref()).map(drop)
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        let (name, models) = (&self.0, search.lookups());
        let invalid = |message: String| EngineError::Invalid { message, span: Some(name.span) };
        let removed = models.remove_model(&name.text, name.shared);
        if !removed.map_err(|message| invalid(format!("deletemodel: {message}")))? {
            return Err(invalid(format!("deletemodel: {}", no_model(name, models.as_ref()))));
        }
        search.context().messages.push(format!("deletemodel: model {} is removed", name.text));
        Ok(Some(of_batches(vec![table(&[])?])))
    }
}
