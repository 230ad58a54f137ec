//! Steps of the commands of machine learning.

use std::sync::Arc;

use quarry_spl::ast::LearnCommand;

use super::{Lowering, Step};
use crate::EngineError;
use crate::commands::fit::Fit;
use crate::commands::learnt::{Apply, Score};

impl Lowering<'_> {
    /// fit, apply and score; the others make rows of their own.
    pub(super) fn learn(&self, command: &LearnCommand) -> Result<Step, EngineError> {
        let models = self.environment.lookups();
        Ok(Step::Blocking(match command {
            LearnCommand::Fit(fit) => Arc::new(Fit { command: fit.clone(), models }),
            LearnCommand::Score(score) => Arc::new(Score(score.clone())),
            LearnCommand::Apply(apply) => Arc::new(Apply { command: apply.clone(), models }),
            LearnCommand::Summary(_) | LearnCommand::ListModels | LearnCommand::DeleteModel(_) => {
                return Err(self.must_be_first(command.name(), ""));
            }
        }))
    }
}
