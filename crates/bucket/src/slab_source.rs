//! The writer's side of trust: an event batch is held against its rules before a byte of it is written.

use std::ops::Range;

use quarry_event::{EventBatch, Metadata, TimeNs};

use crate::encode::SlabSource;
use crate::error::BucketError;
use crate::limits::{MAX_FIELD_BYTES, MAX_METADATA_BYTES, MAX_SLAB_EVENTS, MAX_SLAB_RAW_BYTES};

/// A slab's input that keeps every rule of `EventBatch` and every limit.
pub(crate) struct CheckedSlab<'a> {
    pub(crate) events: &'a EventBatch,
    index_times: Vec<TimeNs>,
    given: Option<&'a [TimeNs]>,
}

impl<'a> CheckedSlab<'a> {
    pub(crate) fn new(source: &SlabSource<'a>, number: usize) -> Result<CheckedSlab<'a>, BucketError> {
        check_limits(source.events)?;
        check_rules(source).map_err(|reason| BucketError::InvalidBatch { slab: number, reason })?;
        let index_times = match source.index_times {
            Some(_) => Vec::new(),
            None => vec![source.events.index_time; source.events.len()],
        };
        Ok(CheckedSlab { events: source.events, index_times, given: source.index_times })
    }

    /// `_indextime` of some rows.
    pub(crate) fn index_times(&self, rows: Range<usize>) -> &[TimeNs] {
        &self.given.unwrap_or(&self.index_times)[rows]
    }
}

fn check_limits(events: &EventBatch) -> Result<(), BucketError> {
    let field_bytes = events.fields.iter().map(|field| field.name.len() + field.value.len()).max().unwrap_or(0);
    let size = |meta: &Metadata| meta.index.len() + meta.host.len() + meta.source.len() + meta.sourcetype.len();
    let meta_bytes = events.metas.iter().map(size).max().unwrap_or(0);
    for (what, value, limit_name, limit) in [
        ("events of a slab", events.len(), "MAX_SLAB_EVENTS", MAX_SLAB_EVENTS),
        ("text bytes of a slab", events.raw.len(), "MAX_SLAB_RAW_BYTES", MAX_SLAB_RAW_BYTES),
        ("bytes of an indexed field", field_bytes, "MAX_FIELD_BYTES", MAX_FIELD_BYTES),
        ("bytes of one metadata entry", meta_bytes, "MAX_METADATA_BYTES", MAX_METADATA_BYTES),
    ] {
        if value > limit {
            return Err(BucketError::Limit { what, value: value as u64, limit_name, limit: limit as u64 });
        }
    }
    Ok(())
}

fn check_rules(source: &SlabSource<'_>) -> Result<(), String> {
    let events = source.events;
    let count = events.len();
    for (what, len) in [
        ("time", events.time.len()),
        ("meta", events.meta.len()),
        ("index times", source.index_times.map_or(count, <[TimeNs]>::len)),
    ] {
        if len != count {
            return Err(format!("{what} has {len} entries for {count} events"));
        }
    }
    let text = std::str::from_utf8(&events.raw).map_err(|error| format!("the text is not UTF-8: {error}"))?;
    if events.ends.last().copied().unwrap_or(0) as usize != text.len() {
        return Err(format!("the last event does not end with the text's {} bytes", text.len()));
    }
    let mut last = 0;
    for (row, end) in events.ends.iter().enumerate() {
        if *end < last || !text.is_char_boundary(*end as usize) {
            return Err(format!("event {row} ends at byte {end}, before its start or inside a character"));
        }
        last = *end;
    }
    if let Some(row) = events.meta.iter().position(|meta| *meta as usize >= events.metas.len()) {
        return Err(format!("event {row} has metadata {} of {}", events.meta[row], events.metas.len()));
    }
    if !events.fields.is_sorted_by_key(|field| field.row) {
        return Err("the indexed fields do not ascend by row".into());
    }
    match events.fields.last() {
        Some(field) if field.row as usize >= count => Err(format!("a field belongs to row {} of {count}", field.row)),
        _ => Ok(()),
    }
}

/// The slab's own metadata codes: those in use, in order of first appearance.
pub(crate) struct MetaCodes {
    pub(crate) metas: Vec<Metadata>,
    /// From the batch's code to the slab's; unused ones stay at their start value and are never asked for.
    code_of: Vec<u32>,
}

impl MetaCodes {
    pub(crate) fn of(events: &EventBatch) -> MetaCodes {
        let mut metas = Vec::new();
        let mut code_of = vec![u32::MAX; events.metas.len()];
        for meta in &events.meta {
            let code = &mut code_of[*meta as usize];
            if *code == u32::MAX {
                *code = metas.len() as u32;
                metas.push(events.metas[*meta as usize].clone());
            }
        }
        MetaCodes { metas, code_of }
    }

    #[inline]
    pub(crate) fn of_row(&self, events: &EventBatch, row: usize) -> u32 {
        self.code_of[events.meta[row] as usize]
    }
}
