//! Sealing position of each index.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::checksum::{RowSum, Table, check_row, note_change};
use crate::{Catalog, CatalogError};

impl Catalog {
    /// Per index, the bucket number up to which all buckets are sealed.
    pub fn positions(&self) -> Result<Vec<(String, u64)>, CatalogError> {
        self.act(|act| {
            let mut statement = act.prepare_cached("SELECT index_name, sealed_through, checksum FROM position")?;
            statement.query_map([], |row| read(row).map(|(index, through, _)| (index, through)))?.collect()
        })
    }
}

/// Advances the position of an index; it never goes back.
pub(crate) fn move_position(act: &Connection, index: &str, sealed_through: u64) -> rusqlite::Result<()> {
    let select = "SELECT index_name, sealed_through, checksum FROM position WHERE index_name = ?1";
    let known = act.prepare_cached(select)?.query_row([index], read).optional()?;
    let (old_through, old) = known.map_or((0, 0), |(_, through, sum)| (through, sum));
    let through = sealed_through.max(old_through);
    let sum = sum_of(index, through);
    act.prepare_cached("INSERT OR REPLACE INTO position (index_name, sealed_through, checksum) VALUES (?1, ?2, ?3)")?
        .execute(params![index, through.cast_signed(), sum])?;
    note_change(act, Table::Position, old, sum)
}

fn sum_of(index: &str, sealed_through: u64) -> i64 {
    RowSum::of(Table::Position).text(index).number(sealed_through.cast_signed()).finish()
}

fn read(row: &Row<'_>) -> rusqlite::Result<(String, u64, i64)> {
    let (index, through): (String, u64) = (row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned());
    let sum = sum_of(&index, through);
    check_row(Table::Position, &index, row.get(2)?, sum)?;
    Ok((index, through, sum))
}

pub(crate) fn sum_of_positions(act: &Connection) -> rusqlite::Result<i64> {
    let mut statement = act.prepare_cached("SELECT index_name, sealed_through, checksum FROM position")?;
    let sums = statement.query_map([], |row| read(row).map(|(_, _, sum)| sum))?;
    sums.into_iter().try_fold(0, |all, sum| Ok(all ^ sum?))
}
