//! Sealing position of each index.

use crate::checksum::{RowChecksum, Table, check_row};
use crate::transaction::{CatalogTransaction, Row, StepResult, upsert, values};
use crate::{Catalog, CatalogError};

const COLUMNS: &str = "index_name, sealed_through, checksum";

impl Catalog {
    /// The position of each index: the bucket number up to which all of its buckets are sealed.
    pub fn positions(&self) -> Result<Vec<(String, u64)>, CatalogError> {
        self.read(|act| {
            let select = format!("SELECT {COLUMNS} FROM position ORDER BY index_name");
            act.rows(&select, &[], |row| read(row).map(|(index, through, _)| (index, through)))
        })
    }
}

/// Advances the position of an index; it never goes back.
pub(crate) fn advance_position(act: &CatalogTransaction<'_>, index: &str, sealed_through: u64) -> StepResult<()> {
    let select = format!("SELECT {COLUMNS} FROM position WHERE index_name = ?1");
    let known = act.row(&select, values![index], read)?;
    let (old_through, old) = known.map_or((0, 0), |(_, through, sum)| (through, sum));
    let through = sealed_through.max(old_through);
    let sum = sum_of(index, through);
    act.execute(&upsert("position", COLUMNS, "index_name"), values![index, through.cast_signed(), sum])?;
    act.note_change(Table::Position, old, sum);
    Ok(())
}

fn sum_of(index: &str, sealed_through: u64) -> i64 {
    RowChecksum::of(Table::Position).text(index).number(sealed_through.cast_signed()).finish()
}

fn read(row: &mut Row) -> StepResult<(String, u64, i64)> {
    let (index, through): (String, u64) = (row.take(0)?, row.unsigned(1)?);
    let sum = sum_of(&index, through);
    check_row(Table::Position, &index, row.take(2)?, sum)?;
    Ok((index, through, sum))
}

pub(crate) fn sum_of_positions(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let sums = act.rows(&format!("SELECT {COLUMNS} FROM position"), &[], |row| read(row).map(|(_, _, sum)| sum))?;
    Ok(sums.iter().fold(0, |all, sum| all ^ sum))
}
