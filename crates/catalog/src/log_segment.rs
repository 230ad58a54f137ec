//! The segments of the write-ahead log that must exist, so that a missing one is detected.

use rusqlite::{Connection, Row, params};

use crate::checksum::{RowSum, Table, check_row, delete_rows, known_sum, note_change};
use crate::{Catalog, CatalogError};

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
        RowSum::of(Table::LogSegment).number(self.first_lsn.cast_signed()).number(self.stored_last()).finish()
    }

    fn stored_last(&self) -> i64 {
        self.last_lsn.map_or(0, |lsn| lsn.cast_signed())
    }
}

impl Catalog {
    /// Segments that must exist, oldest first.
    pub fn log_segments(&self) -> Result<Vec<LogSegmentRow>, CatalogError> {
        self.act(|act| {
            let select = "SELECT first_lsn, last_lsn, checksum FROM log_segment ORDER BY first_lsn";
            act.prepare_cached(select)?.query_map([], |row| read(row).map(|(segment, _)| segment))?.collect()
        })
    }

    /// Records segments; for a known first record, updates the last one.
    pub fn note_log_segments(&self, segments: &[LogSegmentRow]) -> Result<(), CatalogError> {
        self.act(|act| segments.iter().try_for_each(|segment| write(act, segment)))
    }

    /// Replaces the list of segments.
    pub fn set_log_segments(&self, segments: &[LogSegmentRow]) -> Result<(), CatalogError> {
        self.act(|act| {
            delete_rows(act, Table::LogSegment, "DELETE FROM log_segment RETURNING checksum", [])?;
            segments.iter().try_for_each(|segment| write(act, segment))
        })
    }

    /// Drops segments that are no longer needed, by their first record.
    pub fn forget_log_segments(&self, first_lsns: &[u64]) -> Result<(), CatalogError> {
        self.act(|act| {
            let delete = "DELETE FROM log_segment WHERE first_lsn = ?1 RETURNING checksum";
            first_lsns.iter().try_for_each(|lsn| delete_rows(act, Table::LogSegment, delete, [(*lsn).cast_signed()]))
        })
    }
}

fn write(act: &Connection, segment: &LogSegmentRow) -> rusqlite::Result<()> {
    let (first, sum) = (segment.first_lsn.cast_signed(), segment.sum());
    let old = known_sum(act, "SELECT checksum FROM log_segment WHERE first_lsn = ?1", [first])?;
    act.prepare_cached("INSERT OR REPLACE INTO log_segment (first_lsn, last_lsn, checksum) VALUES (?1, ?2, ?3)")?
        .execute(params![first, segment.stored_last(), sum])?;
    note_change(act, Table::LogSegment, old, sum)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(LogSegmentRow, i64)> {
    let last: i64 = row.get(1)?;
    let first_lsn = row.get::<_, i64>(0)?.cast_unsigned();
    let segment = LogSegmentRow { first_lsn, last_lsn: (last != 0).then_some(last.cast_unsigned()) };
    check_row(Table::LogSegment, &first_lsn, row.get(2)?, segment.sum())?;
    Ok((segment, segment.sum()))
}

pub(crate) fn sum_of_log_segments(act: &Connection) -> rusqlite::Result<i64> {
    let mut statement = act.prepare_cached("SELECT first_lsn, last_lsn, checksum FROM log_segment")?;
    let sums = statement.query_map([], |row| read(row).map(|(_, sum)| sum))?;
    sums.into_iter().try_fold(0, |all, sum| Ok(all ^ sum?))
}
