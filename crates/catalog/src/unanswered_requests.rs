//! Parts of requests that were stored but possibly not answered before a crash. When a sender repeats them, they are
//! not stored again.
//!
//! The store decides which parts these are and how long they are kept.

use rusqlite::{Connection, Row, params};

use crate::checksum::{RowSum, Table, check_row, delete_rows, known_sum, note_change};
use crate::{Catalog, CatalogError};

/// A stored part of an unanswered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnansweredPart {
    /// The run of the store that stored it, identified by the first log record of that run.
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
        let sum = RowSum::of(Table::Unanswered).number(self.run.cast_signed()).number(self.number.cast_signed());
        sum.bytes(&self.key.to_le_bytes()).number(self.time).finish()
    }
}

impl Catalog {
    /// All of them, in the order of storage.
    pub fn unanswered(&self) -> Result<Vec<UnansweredPart>, CatalogError> {
        self.act(|act| {
            let select = "SELECT run, number, key, time, checksum FROM unanswered ORDER BY run, number";
            act.prepare_cached(select)?.query_map([], |row| read(row).map(|(part, _)| part))?.collect()
        })
    }

    /// Removes parts and adds others, atomically.
    pub fn change_unanswered(&self, dropped: &[UnansweredPart], added: &[UnansweredPart]) -> Result<(), CatalogError> {
        let delete = "DELETE FROM unanswered WHERE run = ?1 AND number = ?2 RETURNING checksum";
        self.act(|act| {
            let key = |part: &UnansweredPart| [part.run.cast_signed(), part.number.cast_signed()];
            dropped.iter().try_for_each(|part| delete_rows(act, Table::Unanswered, delete, key(part)))?;
            added.iter().try_for_each(|part| write(act, part))
        })
    }
}

fn write(act: &Connection, part: &UnansweredPart) -> rusqlite::Result<()> {
    let (run, number, sum) = (part.run.cast_signed(), part.number.cast_signed(), part.sum());
    let old = known_sum(act, "SELECT checksum FROM unanswered WHERE run = ?1 AND number = ?2", [run, number])?;
    let insert = "INSERT OR REPLACE INTO unanswered (run, number, key, time, checksum) VALUES (?1, ?2, ?3, ?4, ?5)";
    act.prepare_cached(insert)?.execute(params![run, number, part.key.to_le_bytes().as_slice(), part.time, sum])?;
    note_change(act, Table::Unanswered, old, sum)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(UnansweredPart, i64)> {
    let part = UnansweredPart {
        run: row.get::<_, i64>(0)?.cast_unsigned(),
        number: row.get::<_, i64>(1)?.cast_unsigned(),
        key: u128::from_le_bytes(row.get(2)?),
        time: row.get(3)?,
    };
    check_row(Table::Unanswered, &part.number, row.get(4)?, part.sum())?;
    Ok((part, part.sum()))
}

pub(crate) fn sum_of_unanswered(act: &Connection) -> rusqlite::Result<i64> {
    let mut statement = act.prepare_cached("SELECT run, number, key, time, checksum FROM unanswered")?;
    let sums = statement.query_map([], |row| read(row).map(|(_, sum)| sum))?;
    sums.into_iter().try_fold(0, |all, sum| Ok(all ^ sum?))
}
