//! Named values stored with the catalog.

use crate::checksum::{RowChecksum, Table, check_row, known_sum};
use crate::transaction::{CatalogTransaction, Row, StepResult, upsert, values};
use crate::{Catalog, CatalogError};

const COLUMNS: &str = "name, value, checksum";
/// Name of the setting that counts the calls of [`Catalog::settle`].
const SETTLED: &str = "settled";

impl Catalog {
    /// Value of `name`, if it was ever set.
    pub fn setting(&self, name: &str) -> Result<Option<String>, CatalogError> {
        self.read(|act| {
            let select = format!("SELECT {COLUMNS} FROM setting WHERE name = ?1");
            act.row(&select, values![name], |row| read(row).map(|((_, value), _)| value))
        })
    }

    /// Ensures that a transaction that failed earlier cannot take effect any more, so that reads show whether it did.
    ///
    /// In PostgreSQL, the writer's advisory lock excludes transactions of lost sessions. In SQLite, the write-ahead log
    /// may contain a complete transaction whose commit failed, which would take effect after a crash; changing a
    /// setting overwrites it.
    pub fn settle(&self) -> Result<(), CatalogError> {
        self.write(|act| {
            let select = format!("SELECT {COLUMNS} FROM setting WHERE name = ?1");
            let known = act.row(&select, values![SETTLED], |row| read(row).map(|((_, value), _)| value))?;
            let number: u64 = known.and_then(|known| known.parse().ok()).unwrap_or(0);
            write_setting(act, SETTLED, &number.wrapping_add(1).to_string())
        })
    }

    /// Sets `name` to `value`.
    pub fn set_setting(&self, name: &str, value: &str) -> Result<(), CatalogError> {
        self.write(|act| write_setting(act, name, value))
    }
}

/// Names and values of the settings whose names are between `first` and, exclusively, `end`.
pub(crate) fn read_named(act: &CatalogTransaction<'_>, first: &str, end: &str) -> StepResult<Vec<(String, String)>> {
    let select = format!("SELECT {COLUMNS} FROM setting WHERE name >= ?1 AND name < ?2");
    act.rows(&select, values![first, end], |row| read(row).map(|(named, _)| named))
}

pub(crate) fn write_setting(act: &CatalogTransaction<'_>, name: &str, value: &str) -> StepResult<()> {
    let sum = sum_of(name, value);
    let old = known_sum(act, "SELECT checksum FROM setting WHERE name = ?1", values![name])?;
    act.execute(&upsert("setting", COLUMNS, "name"), values![name, value, sum])?;
    act.note_change(Table::Setting, old, sum);
    Ok(())
}

fn sum_of(name: &str, value: &str) -> i64 {
    RowChecksum::of(Table::Setting).text(name).text(value).finish()
}

/// Name and value of a setting, and its verified checksum.
fn read(row: &mut Row) -> StepResult<((String, String), i64)> {
    let (name, value): (String, String) = (row.take(0)?, row.take(1)?);
    let sum = sum_of(&name, &value);
    check_row(Table::Setting, &name, row.take(2)?, sum)?;
    Ok(((name, value), sum))
}

pub(crate) fn sum_of_settings(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let sums = act.rows(&format!("SELECT {COLUMNS} FROM setting"), &[], |row| read(row).map(|(_, sum)| sum))?;
    Ok(sums.iter().fold(0, |all, sum| all ^ sum))
}
