//! Lookup tables for tests: none, or one that can be read and not written.

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
    /// Its name.
    pub name: &'static str,
    /// Its rows and settings.
    pub table: LookupTable,
}

impl OneTable {
    /// A table with the usual settings.
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
