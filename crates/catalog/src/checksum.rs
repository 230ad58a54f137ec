//! Checksums of rows and of whole tables.
//!
//! SQLite detects a broken page but not a changed value in a row. Every row therefore has a checksum of its values,
//! which is verified whenever the row is read. A missing row takes its checksum with it, so the table `digest` keeps
//! the XOR of all checksums of each table. It is updated in the transaction that changes the rows, and verified when
//! the catalog is opened ([`crate::digest`]).
//!
//! Origins have no checksum of their own; they are covered by their bucket's.

use std::fmt;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, params};
use xxhash_rust::xxh3::Xxh3;

/// A table whose rows have checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Bucket,
    Position,
    Checkpoint,
    Setting,
    LogSegment,
    Unanswered,
    Deletion,
}

impl Table {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Bucket => "bucket",
            Table::Position => "position",
            Table::Checkpoint => "checkpoint",
            Table::Setting => "setting",
            Table::LogSegment => "log_segment",
            Table::Unanswered => "unanswered",
            Table::Deletion => "deletion",
        }
    }
}

/// Hash of the values of one row.
pub(crate) struct RowSum(Xxh3);

impl RowSum {
    pub(crate) fn of(table: Table) -> RowSum {
        RowSum(Xxh3::new()).bytes(table.name().as_bytes())
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> RowSum {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> RowSum {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(mut self, number: i64) -> RowSum {
        self.0.update(&number.to_le_bytes());
        self
    }

    pub(crate) fn finish(self) -> i64 {
        self.0.digest().cast_signed()
    }
}

/// A damaged row or table.
#[derive(Debug)]
struct Damaged(String);

impl fmt::Display for Damaged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}

/// The error of a damaged row or table.
pub(crate) fn damaged(what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Integer, Box::new(Damaged(what)))
}

/// Verifies a row against its checksum; `None` means that the row is from a version without checksums.
pub(crate) fn check_row(table: Table, key: &dyn fmt::Display, found: Option<i64>, sum: i64) -> rusqlite::Result<()> {
    match found {
        Some(found) if found != sum => {
            Err(damaged(format!("row {key} of table {} does not fit its checksum", table.name())))
        }
        _ => Ok(()),
    }
}

/// Updates the digest for a row whose checksum changes from `old` to `new`; 0 stands for no row.
pub(crate) fn note_change(act: &Connection, table: Table, old: i64, new: i64) -> rusqlite::Result<()> {
    // SQLite has no XOR operator; this expression is one and cannot overflow.
    let update = "UPDATE digest SET sum = (sum | ?2) - (sum & ?2) WHERE name = ?1";
    match act.prepare_cached(update)?.execute(params![table.name(), old ^ new])? {
        1 => Ok(()),
        _ => Err(damaged(format!("table digest has no row {}", table.name()))),
    }
}

/// Checksum of the row selected by `select`; 0 if there is none.
pub(crate) fn known_sum(act: &Connection, select: &str, key: impl Params) -> rusqlite::Result<i64> {
    Ok(act.prepare_cached(select)?.query_row(key, |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Runs a `DELETE … RETURNING checksum`.
pub(crate) fn delete_rows(act: &Connection, table: Table, delete: &str, key: impl Params) -> rusqlite::Result<()> {
    let mut statement = act.prepare_cached(delete)?;
    let sums = statement.query_map(key, |row| row.get::<_, i64>(0))?;
    let mut gone = 0;
    for sum in sums {
        gone ^= sum?;
    }
    note_change(act, table, gone, 0)
}
