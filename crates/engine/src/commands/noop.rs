//! `noop`: passes all rows on unchanged.

use quarry_eval::EngineError;
use quarry_spl::ast::NoopCommand;

use super::Execute;
use crate::lowering::{Lowering, Step};

impl Execute for NoopCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(Vec::new())
    }
}
