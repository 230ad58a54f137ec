//! `lookup`: adds fields from matching rows of a lookup table.

use quarry_eval::EngineError;
use quarry_eval::lookup::{Lookup, LookupIndex};
use quarry_spl::ast::LookupCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for LookupCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let table = lowering.environment.lookup_table(&self.table, self.table_span)?;
        let lookup = Lookup::new(LookupIndex::new(self, table)?);
        Ok(vec![row(move || lookup.clone())])
    }
}
