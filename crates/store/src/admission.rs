//! What a batch must be to be stored; nothing that passes can fail to be sealed later.

use quarry_event::EventBatch;

use crate::StoreError;
use crate::options::{BATCH_EVENTS_MAX, BATCH_RAW_BYTES_MAX};

/// Bytes of one index-time field, name and value together.
const FIELD_BYTES_MAX: usize = 64 << 20;
/// Bytes of index, host, source and sourcetype of one metadata entry together.
const METADATA_BYTES_MAX: usize = 1 << 20;
/// Bytes of an index name.
const INDEX_BYTES_MAX: usize = 2_048;

/// Holds a batch against the limits and the rules stated at `EventBatch`.
pub(crate) fn check(batch: &EventBatch) -> Result<(), StoreError> {
    check_limits(batch)?;
    check_rules(batch)
}

/// Holds a batch against the rules stated at `EventBatch`.
pub(crate) fn check_rules(batch: &EventBatch) -> Result<(), StoreError> {
    broken_rule(batch).map_err(|reason| StoreError::InvalidBatch { reason })
}

fn check_limits(batch: &EventBatch) -> Result<(), StoreError> {
    let field_bytes = batch.fields.iter().map(|field| field.name.len() + field.value.len()).max().unwrap_or(0);
    let metas = batch.metas.iter();
    let meta_bytes = metas.map(|meta| meta.index.len() + meta.host.len() + meta.source.len() + meta.sourcetype.len());
    for (what, value, limit) in [
        ("number of events", batch.len(), BATCH_EVENTS_MAX),
        ("text bytes", batch.raw.len(), BATCH_RAW_BYTES_MAX),
        ("bytes of an indexed field", field_bytes, FIELD_BYTES_MAX),
        ("bytes of one metadata entry", meta_bytes.max().unwrap_or(0), METADATA_BYTES_MAX),
    ] {
        if value > limit {
            return Err(StoreError::TooLarge { what, value: value as u64, limit: limit as u64 });
        }
    }
    Ok(())
}

/// Whether the rows of a batch of several indexes can be parted.
pub(crate) fn check_rows(batch: &EventBatch) -> Result<(), StoreError> {
    check_columns(batch).map_err(|reason| StoreError::InvalidBatch { reason })
}

fn broken_rule(batch: &EventBatch) -> Result<(), String> {
    check_columns(batch)?;
    if let Some(first) = batch.metas.first() {
        if first.index.is_empty() || first.index.len() > INDEX_BYTES_MAX {
            return Err(format!("the index name has {} bytes, 1 to {INDEX_BYTES_MAX} are allowed", first.index.len()));
        }
        if let Some(other) = batch.metas.iter().find(|meta| meta.index != first.index) {
            return Err(format!("its events belong to the indexes {} and {}", first.index, other.index));
        }
    }
    Ok(())
}

fn check_columns(batch: &EventBatch) -> Result<(), String> {
    let events = batch.len();
    for (what, len) in [("time", batch.time.len()), ("meta", batch.meta.len())] {
        if len != events {
            return Err(format!("{what} has {len} entries for {events} events"));
        }
    }
    check_text(batch)?;
    if let Some(row) = batch.meta.iter().position(|meta| *meta as usize >= batch.metas.len()) {
        return Err(format!("event {row} has metadata {} of {}", batch.meta[row], batch.metas.len()));
    }
    if !batch.fields.is_sorted_by_key(|field| field.row) {
        return Err("the indexed fields do not ascend by row".into());
    }
    match batch.fields.last() {
        Some(field) if field.row as usize >= events => Err(format!("a field belongs to row {} of {events}", field.row)),
        _ => Ok(()),
    }
}

fn check_text(batch: &EventBatch) -> Result<(), String> {
    // Plain ASCII, as most logs are, parts anywhere.
    let text = match batch.raw.is_ascii() {
        true => None,
        false => Some(std::str::from_utf8(&batch.raw).map_err(|error| format!("the text is not UTF-8: {error}"))?),
    };
    let bytes = batch.raw.len();
    if batch.ends.last().copied().unwrap_or(0) as usize != bytes {
        return Err(format!("the last event does not end with the text's {bytes} bytes"));
    }
    let mut last = 0;
    for (row, end) in batch.ends.iter().enumerate() {
        let is_border = text.map_or(*end as usize <= bytes, |text| text.is_char_boundary(*end as usize));
        if *end < last || !is_border {
            return Err(format!("event {row} ends at byte {end}, before its start or inside a character"));
        }
        last = *end;
    }
    Ok(())
}
