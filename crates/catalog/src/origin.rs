//! Origins: which sealed buckets the events of a compacted bucket came from.
//!
//! Events of several indexes arrive interleaved, so the buckets compacted into one do not have consecutive numbers. To
//! preserve the order of arrival across indexes, rows keep the number of the bucket in which they were sealed.

use std::collections::BTreeMap;

use crate::transaction::{CatalogTransaction, StepResult, Value, values};

/// The events from `first_row` up to the next origin came from sealed bucket `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// First row in the compacted bucket.
    pub first_row: u64,
    /// Number of the sealed bucket.
    pub number: u64,
}

pub(crate) fn write_origins(act: &CatalogTransaction<'_>, bucket: u64, origins: &[Origin]) -> StepResult<()> {
    act.execute("DELETE FROM origin WHERE bucket = ?1", values![bucket.cast_signed()])?;
    let insert = "INSERT INTO origin (bucket, first_row, number) VALUES (?1, ?2, ?3)";
    for origin in origins {
        let values = values![bucket.cast_signed(), origin.first_row.cast_signed(), origin.number.cast_signed()];
        act.execute(insert, values)?;
    }
    Ok(())
}

/// The origins in `tables` that fulfil `condition`, by number of the bucket.
pub(crate) fn read_origins(
    act: &CatalogTransaction<'_>,
    tables: &str,
    condition: &str,
    values: &[Value<'_>],
) -> StepResult<BTreeMap<u64, Vec<Origin>>> {
    let select = format!(
        "SELECT origin.bucket, origin.first_row, origin.number FROM {tables}
         WHERE {condition} ORDER BY origin.bucket, origin.first_row"
    );
    let mut all: BTreeMap<u64, Vec<Origin>> = BTreeMap::new();
    act.for_each(&select, values, &mut |mut row| {
        let origin = Origin { first_row: row.unsigned(1)?, number: row.unsigned(2)? };
        all.entry(row.unsigned(0)?).or_default().push(origin);
        Ok(())
    })?;
    Ok(all)
}

/// Drops the origins of a bucket that is no longer on record.
pub(crate) fn drop_origins_of_forgotten(act: &CatalogTransaction<'_>, bucket: u64) -> StepResult<()> {
    let delete = "DELETE FROM origin WHERE bucket = ?1 AND NOT EXISTS (SELECT 1 FROM bucket WHERE number = ?1)";
    act.execute(delete, values![bucket.cast_signed()]).map(drop)
}
