//! Named values stored with the catalog.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::checksum::{RowSum, Table, check_row, known_sum, note_change};
use crate::{Catalog, CatalogError};

impl Catalog {
    /// Value of `name`, if it was ever set.
    pub fn setting(&self, name: &str) -> Result<Option<String>, CatalogError> {
        self.act(|act| {
            act.prepare_cached("SELECT name, value, checksum FROM setting WHERE name = ?1")?
                .query_row([name], |row| read(row).map(|(value, _)| value))
                .optional()
        })
    }

    /// Sets `name` to `value`.
    pub fn set_setting(&self, name: &str, value: &str) -> Result<(), CatalogError> {
        self.act(|act| write_setting(act, name, value))
    }
}

pub(crate) fn write_setting(act: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    let sum = sum_of(name, value);
    let old = known_sum(act, "SELECT checksum FROM setting WHERE name = ?1", [name])?;
    act.prepare_cached("INSERT OR REPLACE INTO setting (name, value, checksum) VALUES (?1, ?2, ?3)")?
        .execute(params![name, value, sum])?;
    note_change(act, Table::Setting, old, sum)
}

fn sum_of(name: &str, value: &str) -> i64 {
    RowSum::of(Table::Setting).text(name).text(value).finish()
}

fn read(row: &Row<'_>) -> rusqlite::Result<(String, i64)> {
    let (name, value): (String, String) = (row.get(0)?, row.get(1)?);
    let sum = sum_of(&name, &value);
    check_row(Table::Setting, &name, row.get(2)?, sum)?;
    Ok((value, sum))
}

pub(crate) fn sum_of_settings(act: &Connection) -> rusqlite::Result<i64> {
    let mut statement = act.prepare_cached("SELECT name, value, checksum FROM setting")?;
    let sums = statement.query_map([], |row| read(row).map(|(_, sum)| sum))?;
    sums.into_iter().try_fold(0, |all, sum| Ok(all ^ sum?))
}
