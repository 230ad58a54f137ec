//! The segments of the write-ahead log that must exist, so that a missing one is detected.

use crate::checksum::{RowChecksum, Table, check_row, delete_rows, known_sum};
use crate::transaction::{CatalogTransaction, Row, StepResult, upsert, values};
use crate::{Catalog, CatalogError};

const COLUMNS: &str = "first_lsn, last_lsn, checksum";

/// A log segment with records that may still be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSegmentRow {
    /// Number of its first record.
    pub first_lsn: u64,
    /// Number of its last record; `None` while it is appended to.
    pub last_lsn: Option<u64>,
}

impl LogSegmentRow {
    fn sum(&self) -> i64 {
        RowChecksum::of(Table::LogSegment).number(self.first_lsn.cast_signed()).number(self.stored_last()).finish()
    }

    fn stored_last(&self) -> i64 {
        self.last_lsn.map_or(0, |lsn| lsn.cast_signed())
    }
}

impl Catalog {
    /// Segments that must exist, oldest first.
    pub fn log_segments(&self) -> Result<Vec<LogSegmentRow>, CatalogError> {
        self.read(|act| {
            let select = format!("SELECT {COLUMNS} FROM log_segment ORDER BY first_lsn");
            act.rows(&select, &[], |row| read(row).map(|(segment, _)| segment))
        })
    }

    /// Stores segments. If a segment with the same first number is already stored, its last number is updated.
    pub fn record_log_segments(&self, segments: &[LogSegmentRow]) -> Result<(), CatalogError> {
        self.write(|act| segments.iter().try_for_each(|segment| write(act, segment)))
    }

    /// Replaces the list of segments.
    pub fn set_log_segments(&self, segments: &[LogSegmentRow]) -> Result<(), CatalogError> {
        self.write(|act| {
            delete_rows(act, Table::LogSegment, "DELETE FROM log_segment RETURNING checksum", &[])?;
            segments.iter().try_for_each(|segment| write(act, segment))
        })
    }

    /// Drops segments that are no longer needed, by their first record.
    pub fn remove_log_segments(&self, first_lsns: &[u64]) -> Result<(), CatalogError> {
        self.write(|act| {
            let delete = "DELETE FROM log_segment WHERE first_lsn = ?1 RETURNING checksum";
            first_lsns
                .iter()
                .try_for_each(|lsn| delete_rows(act, Table::LogSegment, delete, values![(*lsn).cast_signed()]))
        })
    }
}

fn write(act: &CatalogTransaction<'_>, segment: &LogSegmentRow) -> StepResult<()> {
    let (first, sum) = (segment.first_lsn.cast_signed(), segment.sum());
    let old = known_sum(act, "SELECT checksum FROM log_segment WHERE first_lsn = ?1", values![first])?;
    act.execute(&upsert("log_segment", COLUMNS, "first_lsn"), values![first, segment.stored_last(), sum])?;
    act.note_change(Table::LogSegment, old, sum);
    Ok(())
}

fn read(row: &mut Row) -> StepResult<(LogSegmentRow, i64)> {
    let last: i64 = row.take(1)?;
    let first_lsn = row.unsigned(0)?;
    let segment = LogSegmentRow { first_lsn, last_lsn: (last != 0).then_some(last.cast_unsigned()) };
    check_row(Table::LogSegment, &first_lsn, row.take(2)?, segment.sum())?;
    Ok((segment, segment.sum()))
}

pub(crate) fn sum_of_log_segments(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let sums = act.rows(&format!("SELECT {COLUMNS} FROM log_segment"), &[], |row| read(row).map(|(_, sum)| sum))?;
    Ok(sums.iter().fold(0, |all, sum| all ^ sum))
}
