//! Lookup tables for tests: none, or one read-only table.

use std::sync::Arc;

use quarry_engine::{LookupSource, LookupTable};
use quarry_stdx::Fault;

/// No lookup tables.
pub struct NoTables;

impl LookupSource for NoTables {
    fn table(&self, _: &str) -> Result<Option<LookupTable>, Fault> {
        Ok(None)
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One lookup table.
pub struct OneTable {
    /// Name of the table.
    pub name: &'static str,
    /// Rows and settings of the table.
    pub table: LookupTable,
}

impl OneTable {
    /// Creates a table with default settings.
    pub fn of_csv(name: &'static str, csv: &str) -> Arc<OneTable> {
        Arc::new(OneTable { name, table: LookupTable::of_csv(csv) })
    }
}

impl LookupSource for OneTable {
    fn table(&self, name: &str) -> Result<Option<LookupTable>, Fault> {
        Ok((name == self.name).then(|| self.table.clone()))
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.to_owned()]
    }
}
