//! Admission checks. The content of a batch that passes them cannot make sealing fail.

use quarry_event::EventBatch;

use crate::StoreError;
use crate::options::{BATCH_EVENTS_MAX, BATCH_RAW_BYTES_MAX};

/// Maximum size in bytes of one index-time field, name and value together; a batch with a larger field is refused.
const FIELD_BYTES_MAX: usize = 64 << 20;
/// Maximum total size in bytes of the index, host, source and sourcetype of one metadata entry; a batch with a larger
/// entry is refused.
const METADATA_BYTES_MAX: usize = 1 << 20;
/// Maximum length of an index name in bytes; a batch with a longer name is refused.
const INDEX_BYTES_MAX: usize = 2_048;

/// Checks a batch against the limits and the invariants of `EventBatch`.
pub(crate) fn check(batch: &EventBatch) -> Result<(), StoreError> {
    check_limits(batch)?;
    check_rules(batch)
}

/// Checks a batch against the invariants of `EventBatch`, and that all its events belong to one index with a name of
/// valid length.
pub(crate) fn check_rules(batch: &EventBatch) -> Result<(), StoreError> {
    check_rows(batch)?;
    if let Some(first) = batch.metas.first() {
        if first.index.is_empty() || first.index.len() > INDEX_BYTES_MAX {
            let bytes = first.index.len();
            return Err(invariant_error(format!(
                "the index name has {bytes} bytes; 1 to {INDEX_BYTES_MAX} are allowed"
            )));
        }
        if let Some(other) = batch.metas.iter().find(|meta| meta.index != first.index) {
            return Err(invariant_error(format!(
                "its events belong to the indexes {} and {}",
                first.index, other.index
            )));
        }
    }
    Ok(())
}

fn check_limits(batch: &EventBatch) -> Result<(), StoreError> {
    let metas = batch.metas.iter();
    let meta_bytes = metas.map(|meta| meta.index.len() + meta.host.len() + meta.source.len() + meta.sourcetype.len());
    let longest_field = batch.fields.longest_beyond(FIELD_BYTES_MAX).unwrap_or(0);
    for (what, value, limit) in [
        ("number of events", batch.len(), BATCH_EVENTS_MAX),
        ("text bytes", batch.raw.len(), BATCH_RAW_BYTES_MAX),
        ("bytes of an indexed field", longest_field, FIELD_BYTES_MAX),
        ("bytes of one metadata entry", meta_bytes.max().unwrap_or(0), METADATA_BYTES_MAX),
    ] {
        if value > limit {
            return Err(StoreError::TooLarge { what, value: value as u64, limit: limit as u64 });
        }
    }
    Ok(())
}

/// Checks the structure of a batch, so that a batch with events of several indexes can be split.
pub(crate) fn check_rows(batch: &EventBatch) -> Result<(), StoreError> {
    batch.check().map_err(|fault| invariant_error(fault.to_string()))
}

fn invariant_error(reason: String) -> StoreError {
    StoreError::InvalidBatch { reason }
}
