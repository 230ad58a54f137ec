//! Checksums of rows and of whole tables.
//!
//! SQLite detects a malformed page, but not a changed value in a well-formed page. PostgreSQL detects changed values
//! only with data checksums. Every row therefore has a checksum of its values, which is verified whenever the row is
//! read. A lost row takes its checksum with it, so the table `digest` keeps the XOR of all checksums of each table. The
//! digest is updated in the transaction that changes the rows, and verified when the catalog is opened; the digest of
//! the buckets may be verified later ([`crate::digest`]).
//!
//! Rows of the table `origin` (from which buckets a compacted bucket was merged) have no checksums of their own; the
//! checksum of the compacted bucket covers them.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

use crate::transaction::{CatalogTransaction, Failure, StepResult, Value};

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

/// All tables with checksums.
pub(crate) const TABLES: [Table; 7] = [
    Table::Bucket,
    Table::Position,
    Table::Checkpoint,
    Table::Setting,
    Table::LogSegment,
    Table::Unanswered,
    Table::Deletion,
];

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
pub(crate) struct RowChecksum(Xxh3);

impl RowChecksum {
    pub(crate) fn of(table: Table) -> RowChecksum {
        RowChecksum(Xxh3::new()).bytes(table.name().as_bytes())
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> RowChecksum {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> RowChecksum {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(mut self, number: i64) -> RowChecksum {
        self.0.update(&number.to_le_bytes());
        self
    }

    pub(crate) fn finish(self) -> i64 {
        self.0.digest().cast_signed()
    }
}

/// Verifies a row against its checksum; `None` means that the row is from a version without checksums.
pub(crate) fn check_row(table: Table, key: &dyn fmt::Display, found: Option<i64>, sum: i64) -> StepResult<()> {
    match found {
        Some(found) if found != sum => {
            Err(Failure::Damaged(format!("row {key} of table {} does not match its checksum", table.name())))
        }
        _ => Ok(()),
    }
}

/// Checksum of the row selected by `select`; 0 if there is none.
pub(crate) fn known_sum(act: &CatalogTransaction<'_>, select: &str, key: &[Value<'_>]) -> StepResult<i64> {
    Ok(act.row(select, key, |row| row.take::<Option<i64>>(0))?.flatten().unwrap_or(0))
}

/// Runs a `DELETE … RETURNING checksum` and updates the digest.
pub(crate) fn delete_rows(
    act: &CatalogTransaction<'_>,
    table: Table,
    delete: &str,
    key: &[Value<'_>],
) -> StepResult<()> {
    let gone = act.rows(delete, key, |row| row.take::<i64>(0))?;
    act.note_change(table, gone.iter().fold(0, |all, sum| all ^ sum), 0);
    Ok(())
}
