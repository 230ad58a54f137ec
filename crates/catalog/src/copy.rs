//! Copies a catalog into another, empty one; the two may be in different kinds of databases.
//!
//! Rows are copied as they are, with their checksums and the digests of the tables, in one transaction, and then
//! verified in the target.

use crate::transaction::{CatalogTransaction, Cell, Failure, StepResult, Value, values};
use crate::{Catalog, CatalogError};

/// Tables and their columns.
const TABLES: &[(&str, &str)] = &[
    (
        "bucket",
        "number, index_name, state, object, filter, slabs, time_min, time_max, events, raw_bytes, object_bytes, \
         filter_bytes, created, level, thawed, checksum, volume, folder, remote, receipt, stem, other_volume, \
         other_folder, other_going, merged_into",
    ),
    ("origin", "bucket, first_row, number"),
    ("position", "index_name, sealed_through, checksum"),
    ("checkpoint", "identity, variant, head_bytes, \"offset\", tail_hash, source, lsn, checksum, milestones"),
    ("setting", "name, value, checksum"),
    ("log_segment", "first_lsn, last_lsn, checksum"),
    ("unanswered", "run, number, key, time, checksum"),
    ("deletion", "bucket, rows, checksum"),
];
/// Maximum number of rows inserted by one statement.
const INSERT_ROWS_MAX: usize = 100;

impl Catalog {
    /// Copies all rows to `target`, which must be empty and of the current version; returns their number.
    pub fn copy_to(&self, target: &Catalog) -> Result<u64, CatalogError> {
        let copied = self.read(|from| target.write(|to| copy(from, to)).map_err(Failure::Permanent))?;
        target.check()?;
        Ok(copied)
    }
}

fn copy(from: &CatalogTransaction<'_>, to: &CatalogTransaction<'_>) -> StepResult<u64> {
    let mut copied = 0;
    for (table, columns) in TABLES {
        if to.exists(&format!("SELECT 1 FROM {table} LIMIT 1"), values![])? {
            return Err(Failure::NotEmpty);
        }
        let width = columns.split(", ").count();
        let mut waiting: Vec<Cell> = Vec::new();
        from.for_each(&format!("SELECT {columns} FROM {table}"), values![], &mut |row| {
            waiting.extend(row.0);
            copied += 1;
            if waiting.len() >= INSERT_ROWS_MAX * width {
                insert(to, table, columns, &std::mem::take(&mut waiting))?;
            }
            Ok(())
        })?;
        insert(to, table, columns, &waiting)?;
    }
    for (name, sum) in
        from.rows("SELECT name, sum FROM digest", values![], |row| Ok((row.take::<String>(0)?, row.take::<i64>(1)?)))?
    {
        to.execute("UPDATE digest SET sum = ?2 WHERE name = ?1", values![&name, sum])?;
    }
    Ok(copied)
}

/// Inserts rows; `cells` has the cells of all rows, one row after the other.
fn insert(to: &CatalogTransaction<'_>, table: &str, columns: &str, cells: &[Cell]) -> StepResult<()> {
    if cells.is_empty() {
        return Ok(());
    }
    let width = columns.split(", ").count();
    let places: Vec<String> = (1..=cells.len()).map(|number| format!("?{number}")).collect();
    let rows: Vec<String> = places.chunks(width).map(|row| format!("({})", row.join(", "))).collect();
    let values: Vec<Value<'_>> = cells.iter().map(Cell::value).collect();
    to.execute(&format!("INSERT INTO {table} ({columns}) VALUES {}", rows.join(", ")), &values).map(drop)
}
