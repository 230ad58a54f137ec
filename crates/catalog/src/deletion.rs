//! The deleted events of each bucket, as encoded by the store; a bucket without deleted events has no row.
//!
//! All deletions of one search are one transaction, including the retirement of buckets with no events left.

use rusqlite::{Connection, Row, params};

use crate::bucket::retire;
use crate::checksum::{RowSum, Table, check_row, delete_rows, known_sum, note_change};
use crate::{Catalog, CatalogError};

/// The deleted events of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionRow {
    /// Number of the bucket.
    pub bucket: u64,
    /// Rows of the deleted events, encoded.
    pub rows: Vec<u8>,
}

impl DeletionRow {
    fn sum(&self) -> i64 {
        RowSum::of(Table::Deletion).number(self.bucket.cast_signed()).bytes(&self.rows).finish()
    }
}

/// The atomic change of one deletion.
#[derive(Clone, Copy, Debug)]
pub struct DeletionCommit<'a> {
    /// For each affected bucket with events left, all its deleted events, including earlier ones.
    pub deletions: &'a [DeletionRow],
    /// Numbers of buckets with no events left; they are retired.
    pub emptied: &'a [u64],
}

impl Catalog {
    /// Records deleted events. Returns `false`, without changes, if one of the buckets is no longer live.
    pub fn commit_deletion(&self, commit: &DeletionCommit<'_>) -> Result<bool, CatalogError> {
        self.act(|act| {
            let mut live = act.prepare_cached("SELECT count(*) FROM bucket WHERE number = ?1 AND state = 1")?;
            let buckets = commit.deletions.iter().map(|deletion| deletion.bucket);
            for number in buckets.chain(commit.emptied.iter().copied()) {
                if live.query_row([number.cast_signed()], |row| row.get::<_, i64>(0))? == 0 {
                    return Ok(false);
                }
            }
            commit.deletions.iter().try_for_each(|deletion| write_deletion(act, deletion))?;
            retire(act, commit.emptied)?;
            Ok(true)
        })
    }

    /// The deleted events of every bucket that has any, by number.
    pub fn deletions(&self) -> Result<Vec<DeletionRow>, CatalogError> {
        self.act(|act| {
            let select = "SELECT bucket, rows, checksum FROM deletion ORDER BY bucket";
            act.prepare_cached(select)?.query_map([], |row| read(row).map(|(deletion, _)| deletion))?.collect()
        })
    }
}

pub(crate) fn write_deletion(act: &Connection, deletion: &DeletionRow) -> rusqlite::Result<()> {
    let (bucket, sum) = (deletion.bucket.cast_signed(), deletion.sum());
    let old = known_sum(act, "SELECT checksum FROM deletion WHERE bucket = ?1", [bucket])?;
    let insert = "INSERT OR REPLACE INTO deletion (bucket, rows, checksum) VALUES (?1, ?2, ?3)";
    act.prepare_cached(insert)?.execute(params![bucket, deletion.rows, sum])?;
    note_change(act, Table::Deletion, old, sum)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(DeletionRow, i64)> {
    let deletion = DeletionRow { bucket: row.get::<_, i64>(0)?.cast_unsigned(), rows: row.get(1)? };
    let sum = deletion.sum();
    check_row(Table::Deletion, &deletion.bucket, row.get(2)?, sum)?;
    Ok((deletion, sum))
}

/// Drops the deleted events of a bucket that is no longer on record.
pub(crate) fn drop_deletion_of_forgotten(act: &Connection, bucket: u64) -> rusqlite::Result<()> {
    let known = act.prepare_cached("SELECT 1 FROM bucket WHERE number = ?1")?.exists([bucket.cast_signed()])?;
    if known {
        return Ok(());
    }
    let deleted = act.prepare_cached("SELECT 1 FROM deletion WHERE bucket = ?1")?.exists([bucket.cast_signed()])?;
    if deleted {
        let delete = "DELETE FROM deletion WHERE bucket = ?1 RETURNING checksum";
        delete_rows(act, Table::Deletion, delete, [bucket.cast_signed()])?;
    }
    Ok(())
}

pub(crate) fn sum_of_deletions(act: &Connection) -> rusqlite::Result<i64> {
    let mut statement = act.prepare_cached("SELECT bucket, rows, checksum FROM deletion")?;
    let sums = statement.query_map([], |row| read(row).map(|(_, sum)| sum))?;
    sums.into_iter().try_fold(0, |all, sum| Ok(all ^ sum?))
}
