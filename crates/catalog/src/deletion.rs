//! The deleted events of each bucket, as encoded by the store; a bucket without deleted events has no row.
//!
//! All deletions of one search are one transaction, which also retires buckets with no events left.

use crate::bucket::{is_live, retire};
use crate::checksum::{RowChecksum, Table, check_row, delete_rows, known_sum};
use crate::transaction::{CatalogTransaction, Row, StepResult, upsert, values};
use crate::{Catalog, CatalogError};

const COLUMNS: &str = "bucket, rows, checksum";

/// The deleted events of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionRow {
    /// Number of the bucket.
    pub bucket: u64,
    /// Row numbers of the deleted events, encoded.
    pub rows: Vec<u8>,
}

impl DeletionRow {
    fn sum(&self) -> i64 {
        RowChecksum::of(Table::Deletion).number(self.bucket.cast_signed()).bytes(&self.rows).finish()
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
        self.write(|act| {
            let buckets = commit.deletions.iter().map(|deletion| deletion.bucket);
            for number in buckets.chain(commit.emptied.iter().copied()) {
                if !is_live(act, number)? {
                    return Ok(false);
                }
            }
            commit.deletions.iter().try_for_each(|deletion| write_deletion(act, deletion))?;
            retire(act, commit.emptied)?;
            Ok(true)
        })
    }

    /// Whether exactly these events of the bucket are recorded as deleted, after all earlier transactions, including
    /// one whose commit got no answer.
    pub fn is_deleted_for_certain(&self, deletion: &DeletionRow) -> Result<bool, CatalogError> {
        self.write(|act| Ok(recorded_sum(act, deletion)? == deletion.sum()))
    }

    /// The deleted events of every bucket that has any, by number.
    pub fn deletions(&self) -> Result<Vec<DeletionRow>, CatalogError> {
        self.read(|act| {
            let select = format!("SELECT {COLUMNS} FROM deletion ORDER BY bucket");
            act.rows(&select, &[], |row| read(row).map(|(deletion, _)| deletion))
        })
    }
}

pub(crate) fn write_deletion(act: &CatalogTransaction<'_>, deletion: &DeletionRow) -> StepResult<()> {
    let (bucket, sum) = (deletion.bucket.cast_signed(), deletion.sum());
    let old = recorded_sum(act, deletion)?;
    act.execute(&upsert("deletion", COLUMNS, "bucket"), values![bucket, &*deletion.rows, sum])?;
    act.note_change(Table::Deletion, old, sum);
    Ok(())
}

/// Checksum of the bucket's row; 0 without a row.
fn recorded_sum(act: &CatalogTransaction<'_>, deletion: &DeletionRow) -> StepResult<i64> {
    known_sum(act, "SELECT checksum FROM deletion WHERE bucket = ?1", values![deletion.bucket.cast_signed()])
}

fn read(row: &mut Row) -> StepResult<(DeletionRow, i64)> {
    let deletion = DeletionRow { bucket: row.unsigned(0)?, rows: row.take(1)? };
    let sum = deletion.sum();
    check_row(Table::Deletion, &deletion.bucket, row.take(2)?, sum)?;
    Ok((deletion, sum))
}

/// Removes the row of a bucket's deleted events if the catalog no longer contains the bucket.
pub(crate) fn drop_deletion_of_forgotten(act: &CatalogTransaction<'_>, bucket: u64) -> StepResult<()> {
    let delete = "DELETE FROM deletion WHERE bucket = ?1 AND NOT EXISTS (SELECT 1 FROM bucket WHERE number = ?1)
        RETURNING checksum";
    delete_rows(act, Table::Deletion, delete, values![bucket.cast_signed()])
}

pub(crate) fn sum_of_deletions(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let mut all = 0;
    act.for_each(&format!("SELECT {COLUMNS} FROM deletion"), &[], &mut |mut row| {
        all ^= read(&mut row)?.1;
        Ok(())
    })?;
    Ok(all)
}
