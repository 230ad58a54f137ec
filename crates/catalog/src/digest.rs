//! Verification of whole tables against their digests, the XOR of their rows' checksums.
//!
//! Not here: checksums of rows and the update of digests ([`crate::checksum`]).

use crate::bucket_pages::sum_of_buckets;
use crate::checkpoint::sum_of_checkpoints;
use crate::checksum::{TABLES, Table};
use crate::deletion::sum_of_deletions;
use crate::log_segment::sum_of_log_segments;
use crate::position::sum_of_positions;
use crate::setting::sum_of_settings;
use crate::transaction::{CatalogTransaction, Failure, StepResult, upsert, values};
use crate::unanswered_requests::sum_of_unanswered;
use crate::{Catalog, CatalogError};

/// First schema version with checksums.
pub(crate) const CHECKSUMS_VERSION: usize = 3;
/// First schema version with the table of deletions.
const DELETIONS_VERSION: usize = 5;

/// Time at which the rows of buckets are verified. In a large catalog, verifying them takes most of the time that
/// opening takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketCheck {
    /// At opening.
    AtOpening,
    /// Later, by [`Catalog::read_buckets`], which the caller runs anyway.
    WhenRead,
}

impl Catalog {
    /// Verifies every row against its checksum, and every table against its digest and its indexes.
    pub fn check(&self) -> Result<(), CatalogError> {
        self.read(|act| check_all(act, self.version))?;
        self.database.check_indexes()
    }
}

/// Tables with checksums in a catalog of this version.
fn tables_of(version: usize) -> impl Iterator<Item = Table> {
    TABLES.into_iter().filter(move |table| version >= first_version(*table))
}

/// First schema version in which this table exists and has checksums.
fn first_version(table: Table) -> usize {
    match table {
        Table::Deletion => DELETIONS_VERSION,
        _ => CHECKSUMS_VERSION,
    }
}

/// XOR of the checksums of all rows, each verified against its row.
fn sum_of(table: Table, act: &CatalogTransaction<'_>) -> StepResult<i64> {
    match table {
        Table::Bucket => sum_of_buckets(act),
        Table::Position => sum_of_positions(act),
        Table::Checkpoint => sum_of_checkpoints(act),
        Table::Setting => sum_of_settings(act),
        Table::LogSegment => sum_of_log_segments(act),
        Table::Unanswered => sum_of_unanswered(act),
        Table::Deletion => sum_of_deletions(act),
    }
}

/// Verifies every row and every table of a catalog of this version.
pub(crate) fn check_all(act: &CatalogTransaction<'_>, version: usize) -> StepResult<()> {
    check_at_opening(act, version, BucketCheck::AtOpening)
}

/// Verifies every table that is not verified later.
pub(crate) fn check_at_opening(act: &CatalogTransaction<'_>, version: usize, buckets: BucketCheck) -> StepResult<()> {
    let is_later = |table: &Table| *table == Table::Bucket && buckets == BucketCheck::WhenRead;
    tables_of(version)
        .filter(|table| !is_later(table))
        .try_for_each(|table| check_digest(act, table, || sum_of(table, act)))
}

/// Verifies the digest of the buckets against `sum`, the XOR of the checksums of all rows read; a missing row makes
/// them differ.
pub(crate) fn check_bucket_digest(act: &CatalogTransaction<'_>, version: usize, sum: i64) -> StepResult<()> {
    match tables_of(version).any(|table| table == Table::Bucket) {
        true => check_digest(act, Table::Bucket, || Ok(sum)),
        false => Ok(()),
    }
}

fn check_digest(act: &CatalogTransaction<'_>, table: Table, sum: impl FnOnce() -> StepResult<i64>) -> StepResult<()> {
    let name = table.name();
    let digest = act.number("SELECT sum FROM digest WHERE name = ?1", values![name])?;
    match digest {
        None => Err(Failure::Damaged(format!("table digest has no row {name}"))),
        Some(digest) if digest != sum()? => {
            Err(Failure::Damaged(format!("rows of table {name} are missing or changed")))
        }
        Some(_) => Ok(()),
    }
}

/// Initialises the digests of an older catalog.
pub(crate) fn begin(act: &CatalogTransaction<'_>, version: usize) -> StepResult<()> {
    for table in tables_of(version) {
        act.execute(&upsert("digest", "name, sum", "name"), values![table.name(), sum_of(table, act)?])?;
    }
    act.forget_changes();
    Ok(())
}
