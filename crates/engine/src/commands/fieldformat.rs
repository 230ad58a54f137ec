//! `fieldformat` has no steps, so later commands see the original values. Formats are applied to the final rows of a
//! search ([`crate::field_formats`]).

use quarry_eval::EngineError;
use quarry_spl::ast::FieldFormatCommand;

use super::Execute;
use crate::lowering::{Lowering, Step};

impl Execute for FieldFormatCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(Vec::new())
    }
}
