//! `apply`: adds a model's predictions to the rows.
//!
//! The model is loaded after a preceding `fit` has stored it, so that a search can apply a model that it has just
//! fitted.

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::lookup::LookupSource;
use quarry_eval::rows::RowIter;
use quarry_spl::ast::ApplyCommand;

use super::Execute;
use super::models::{PredictedRows, learn_error, model, options_of};
use crate::blocking::Blocking;
use crate::lowering::{Lowering, SearchEnvironment, Step, blocking};

impl Execute for ApplyCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Apply { command: self.clone(), models: lowering.environment.lookups() })])
    }

    fn check(&self, environment: &dyn SearchEnvironment) -> Result<(), EngineError> {
        model("apply", &self.model, environment.lookups().as_ref()).map(drop)
    }
}

/// Applies the model to all rows.
struct Apply {
    command: ApplyCommand,
    /// Store of the models.
    models: Arc<dyn LookupSource>,
}

impl Blocking for Apply {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let command = &self.command;
        let model = model("apply", &command.model, self.models.as_ref())?;
        let options = options_of(&command.options);
        let ready = model.prepare(&options, command.output.as_deref());
        let applied = ready.map_err(|error| learn_error("apply", &error, &command.options, command.model.span))?;
        Ok(Box::new(PredictedRows::new("apply", rows, applied, context.clone())))
    }
}
