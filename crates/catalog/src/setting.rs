//! Small named facts that must survive with the catalog.

use rusqlite::{OptionalExtension, params};

use crate::{Catalog, CatalogError};

impl Catalog {
    /// Value of `name`, if it was ever set.
    pub fn setting(&self, name: &str) -> Result<Option<String>, CatalogError> {
        self.act(|act| {
            act.prepare_cached("SELECT value FROM setting WHERE name = ?1")?
                .query_row([name], |row| row.get(0))
                .optional()
        })
    }

    /// Sets `name` to `value`.
    pub fn set_setting(&self, name: &str, value: &str) -> Result<(), CatalogError> {
        self.act(|act| {
            act.prepare_cached("INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)")?
                .execute(params![name, value])
                .map(drop)
        })
    }
}
