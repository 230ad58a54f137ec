//! Searches that begin with what models there are: summary, listmodels, deletemodel.

use quarry_spl::ast::{LearnCommand, Stage};

use super::Runner;
use crate::EngineError;
use crate::command::{RowIter, of_batches};
use crate::commands::learnt::models_told;

impl Runner {
    /// The rows of a first command that tells of models.
    pub(super) fn models(&self, command: &LearnCommand, rest: &[Stage]) -> Result<RowIter, EngineError> {
        let rows = models_told(command, self.lookups.as_ref(), &self.context)?;
        self.chain(of_batches(vec![rows]), rest, &self.context)
    }
}
