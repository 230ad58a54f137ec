//! Rebuilds a catalog from buckets found outside it, for example on volumes.
//!
//! Buckets are added as they are found, in any order and possibly twice. The stems (object names without extension) of
//! the buckets that a bucket replaces are recorded with it, so an interrupted rebuild can be continued. At its end,
//! replaced buckets are retired.
//!
//! Not here: where buckets are found, and the receipts that describe them (the store).

use crate::bucket::write_bucket;
use crate::checksum::{Table, delete_rows};
use crate::deletion::write_deletion;
use crate::position::advance_position;
use crate::setting::write_setting;
use crate::transaction::{CatalogTransaction, StepResult, values};
use crate::{BucketRow, BucketState, Catalog, CatalogError, DeletionRow};

/// Name prefix of the settings that record stems of replaced buckets.
const REPLACED_PREFIX: &str = "replaced ";
/// The smallest name, in byte order, after all names with that prefix.
const REPLACED_PREFIX_END: &str = "replaced!";

/// A bucket described by a source outside the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBucket {
    /// Catalog row, in state live.
    pub row: BucketRow,
    /// Encoded set of its deleted events.
    pub deleted: Option<Vec<u8>>,
    /// Stems of the merged buckets whose events it contains.
    pub replaces: Vec<String>,
}

impl Catalog {
    /// Adds found buckets.
    pub fn add_found(&self, buckets: &[FoundBucket]) -> Result<(), CatalogError> {
        self.write(|act| {
            for FoundBucket { row, deleted, replaces } in buckets {
                write_bucket(act, row)?;
                if let Some(rows) = deleted {
                    write_deletion(act, &DeletionRow { bucket: row.number, rows: rows.clone() })?;
                }
                for stem in replaces {
                    write_setting(act, &format!("{REPLACED_PREFIX}{stem}"), "")?;
                }
            }
            Ok(())
        })
    }

    /// Ends a rebuild: retires the buckets whose stem another bucket replaces, and advances the sealing position of
    /// each index to the largest bucket number of the catalog. Returns how many buckets were retired.
    pub fn end_rebuild(&self, stem: &dyn Fn(&BucketRow) -> String) -> Result<u64, CatalogError> {
        let live = self.buckets(BucketState::Live)?;
        let max = self.bucket_number_max()?;
        self.write(|act| {
            let mut replaced = 0;
            for row in &live {
                advance_position(act, &row.index, max)?;
                if is_replaced(act, &stem(row))? {
                    write_bucket(act, &BucketRow { state: BucketState::Retired, ..row.clone() })?;
                    replaced += 1;
                }
            }
            let delete = "DELETE FROM setting WHERE name >= ?1 AND name < ?2 RETURNING checksum";
            delete_rows(act, Table::Setting, delete, values![REPLACED_PREFIX, REPLACED_PREFIX_END])?;
            Ok(replaced)
        })
    }

    /// Closes the catalog so that its single file contains all data and can be moved.
    pub fn close(self) -> Result<(), CatalogError> {
        self.database.close()
    }
}

fn is_replaced(act: &CatalogTransaction<'_>, stem: &str) -> StepResult<bool> {
    act.exists("SELECT 1 FROM setting WHERE name = ?1", values![&format!("{REPLACED_PREFIX}{stem}")])
}
