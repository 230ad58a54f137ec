//! Request parts that were stored but possibly not answered before a crash. When a sender repeats such a request, these
//! parts are not stored again.
//!
//! The store decides which parts are recorded and how long they are kept.

use crate::checksum::{RowChecksum, Table, check_row, delete_rows, known_sum};
use crate::transaction::{CatalogTransaction, Row, StepResult, upsert, values};
use crate::{Catalog, CatalogError};

const COLUMNS: &str = "run, number, key, time, checksum";

/// A stored part of an unanswered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnansweredPart {
    /// Number of the store's run that stored the part, greater than the numbers of all earlier runs.
    pub run: u64,
    /// Number of the part within the run.
    pub number: u64,
    /// Hash of sender, request and part.
    pub key: u128,
    /// Time of storage, nanoseconds.
    pub time: i64,
}

impl UnansweredPart {
    fn sum(&self) -> i64 {
        let sum = RowChecksum::of(Table::Unanswered).number(self.run.cast_signed()).number(self.number.cast_signed());
        sum.bytes(&self.key.to_le_bytes()).number(self.time).finish()
    }
}

impl Catalog {
    /// All unanswered parts in the order of storage.
    pub fn unanswered(&self) -> Result<Vec<UnansweredPart>, CatalogError> {
        self.read(all)
    }

    /// Like [`Catalog::unanswered`], but reads after all earlier transactions, even one whose commit got no answer.
    pub fn unanswered_for_certain(&self) -> Result<Vec<UnansweredPart>, CatalogError> {
        self.write(all)
    }

    /// Removes parts and adds others, atomically.
    pub fn change_unanswered(&self, dropped: &[UnansweredPart], added: &[UnansweredPart]) -> Result<(), CatalogError> {
        let delete = "DELETE FROM unanswered WHERE run = ?1 AND number = ?2 RETURNING checksum";
        self.write(|act| {
            dropped.iter().try_for_each(|part| {
                let key = values![part.run.cast_signed(), part.number.cast_signed()];
                delete_rows(act, Table::Unanswered, delete, key)
            })?;
            added.iter().try_for_each(|part| write(act, part))
        })
    }
}

fn all(act: &CatalogTransaction<'_>) -> StepResult<Vec<UnansweredPart>> {
    let select = format!("SELECT {COLUMNS} FROM unanswered ORDER BY run, number");
    act.rows(&select, &[], |row| read(row).map(|(part, _)| part))
}

fn write(act: &CatalogTransaction<'_>, part: &UnansweredPart) -> StepResult<()> {
    let (run, number, sum) = (part.run.cast_signed(), part.number.cast_signed(), part.sum());
    let old = known_sum(act, "SELECT checksum FROM unanswered WHERE run = ?1 AND number = ?2", values![run, number])?;
    let key = part.key.to_le_bytes();
    act.execute(&upsert("unanswered", COLUMNS, "run, number"), values![run, number, &key[..], part.time, sum])?;
    act.note_change(Table::Unanswered, old, sum);
    Ok(())
}

fn read(row: &mut Row) -> StepResult<(UnansweredPart, i64)> {
    let part = UnansweredPart {
        run: row.unsigned(0)?,
        number: row.unsigned(1)?,
        key: u128::from_le_bytes(row.take(2)?),
        time: row.take(3)?,
    };
    check_row(Table::Unanswered, &part.number, row.take(4)?, part.sum())?;
    Ok((part, part.sum()))
}

pub(crate) fn sum_of_unanswered(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let sums = act.rows(&format!("SELECT {COLUMNS} FROM unanswered"), &[], |row| read(row).map(|(_, sum)| sum))?;
    Ok(sums.iter().fold(0, |all, sum| all ^ sum))
}
