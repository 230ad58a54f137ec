//! `fieldformat`: applied to the final rows of a search, see [`crate::field_formats`]; later commands see the original
//! values.

use quarry_eval::EngineError;
use quarry_spl::ast::FieldFormatCommand;

use super::Execute;
use crate::lowering::{Lowering, Step};

impl Execute for FieldFormatCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(Vec::new())
    }
}
