//! Origins: which sealed buckets the events of a compacted bucket came from.
//!
//! Events of several indexes arrive interleaved, so buckets of other indexes lie between those that are compacted into
//! one. To preserve the order of arrival, rows keep the number of the bucket they were sealed in.

use rusqlite::{Connection, params};

/// The events from `first_row` up to the next origin came from sealed bucket `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// First row in the compacted bucket.
    pub first_row: u64,
    /// Number of the sealed bucket.
    pub number: u64,
}

pub(crate) fn write_origins(act: &Connection, bucket: u64, origins: &[Origin]) -> rusqlite::Result<()> {
    act.prepare_cached("DELETE FROM origin WHERE bucket = ?1")?.execute([bucket.cast_signed()])?;
    let mut insert = act.prepare_cached("INSERT INTO origin (bucket, first_row, number) VALUES (?1, ?2, ?3)")?;
    for origin in origins {
        insert.execute(params![bucket.cast_signed(), origin.first_row.cast_signed(), origin.number.cast_signed()])?;
    }
    Ok(())
}

pub(crate) fn read_origins(act: &Connection, bucket: u64) -> rusqlite::Result<Vec<Origin>> {
    let select = "SELECT first_row, number FROM origin WHERE bucket = ?1 ORDER BY first_row";
    let origin = |row: &rusqlite::Row<'_>| {
        Ok(Origin { first_row: row.get::<_, i64>(0)?.cast_unsigned(), number: row.get::<_, i64>(1)?.cast_unsigned() })
    };
    act.prepare_cached(select)?.query_map([bucket.cast_signed()], origin)?.collect()
}

/// Drops the origins of a bucket that is no longer on record.
pub(crate) fn drop_origins_of_forgotten(act: &Connection, bucket: u64) -> rusqlite::Result<()> {
    let delete = "DELETE FROM origin WHERE bucket = ?1 AND NOT EXISTS (SELECT 1 FROM bucket WHERE number = ?1)";
    act.prepare_cached(delete)?.execute([bucket.cast_signed()]).map(drop)
}
