//! Checks an event batch against its rules before any of it is written.

use std::ops::Range;
use std::sync::Arc;

use quarry_event::template::{ExtractedField, ExtractedNames, MAX_EXTRACTED_NAMES};
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_stdx::Fault;
use quarry_stdx::number::u32_of;

use crate::encode::SlabSource;
use crate::error::BucketError;
use crate::limits::{
    MAX_EXTRACTION_NAME_BYTES, MAX_FIELD_BYTES, MAX_METADATA_BYTES, MAX_SLAB_EVENTS, MAX_SLAB_RAW_BYTES,
};

/// Input of a slab that satisfies every rule of `EventBatch` and every limit.
pub(crate) struct CheckedSlab<'a> {
    pub(crate) events: &'a EventBatch,
    index_times: Vec<TimeNs>,
    event_index_times: Option<&'a [TimeNs]>,
    pub(crate) extractions: &'a [ExtractedField],
    pub(crate) extracted_names: Option<&'a ExtractedNames>,
}

impl<'a> CheckedSlab<'a> {
    pub(crate) fn new(source: &SlabSource<'a>, number: usize) -> Result<CheckedSlab<'a>, BucketError> {
        check_limits(source.events)?;
        check_rules(source).map_err(|fault| BucketError::InvalidBatch { slab: number, reason: fault.to_string() })?;
        if let Some(wrong) = source.extractions.iter().find(|field| !is_consistent(field, source.events.len())) {
            let reason = format!("the values of the extracted field {:?} do not belong to its events", wrong.name);
            return Err(BucketError::InvalidBatch { slab: number, reason });
        }
        if source.extracted_names.is_some_and(|known| !are_names_consistent(&known.names)) {
            let reason = "the names of its extracted fields are too many or not in order".to_owned();
            return Err(BucketError::InvalidBatch { slab: number, reason });
        }
        let index_times = match source.index_times {
            Some(_) => Vec::new(),
            None => vec![source.events.index_time; source.events.len()],
        };
        let SlabSource { events, index_times: event_index_times, extractions, extracted_names } = *source;
        Ok(CheckedSlab { events, index_times, event_index_times, extractions, extracted_names })
    }

    /// `_indextime` of some rows.
    pub(crate) fn index_times(&self, rows: Range<usize>) -> &[TimeNs] {
        &self.event_index_times.unwrap_or(&self.index_times)[rows]
    }
}

fn check_limits(events: &EventBatch) -> Result<(), BucketError> {
    let size = |meta: &Metadata| meta.index.len() + meta.host.len() + meta.source.len() + meta.sourcetype.len();
    let meta_bytes = events.metas.iter().map(size).max().unwrap_or(0);
    let longest_field = events.fields.longest_beyond(MAX_FIELD_BYTES).unwrap_or(0);
    for (what, value, limit_name, limit) in [
        ("events of a slab", events.len(), "MAX_SLAB_EVENTS", MAX_SLAB_EVENTS),
        ("text bytes of a slab", events.raw.len(), "MAX_SLAB_RAW_BYTES", MAX_SLAB_RAW_BYTES),
        ("bytes of an indexed field", longest_field, "MAX_FIELD_BYTES", MAX_FIELD_BYTES),
        ("bytes of one metadata entry", meta_bytes, "MAX_METADATA_BYTES", MAX_METADATA_BYTES),
    ] {
        if value > limit {
            return Err(BucketError::Limit { what, value: value as u64, limit_name, limit: limit as u64 });
        }
    }
    Ok(())
}

fn check_rules(source: &SlabSource<'_>) -> Result<(), Fault> {
    let events = source.events.len();
    let len = source.index_times.map_or(events, <[TimeNs]>::len);
    if len != events {
        return Err(Fault::bug(format!("index times has {len} entries for {events} events")));
    }
    source.events.check()
}

/// Whether these names can be stored.
fn are_names_consistent(names: &[Arc<str>]) -> bool {
    names.len() <= MAX_EXTRACTED_NAMES
        && names.is_sorted_by(|name, next| name < next)
        && names.iter().all(|name| name.len() <= MAX_EXTRACTION_NAME_BYTES)
}

/// Whether a field has at most one value (or list of values) in each event, and each value is UTF-8.
fn is_consistent(field: &ExtractedField, events: usize) -> bool {
    let Ok(values) = std::str::from_utf8(&field.bytes) else { return false };
    field.rows.len() == field.ends.len()
        && field.rows.is_sorted_by(|row, next| row < next)
        && field.rows.last().is_none_or(|last| (*last as usize) < events)
        && field.ends.is_sorted()
        && field.ends.last().copied().unwrap_or(0) as usize == values.len()
        && field.ends.iter().all(|end| values.is_char_boundary(*end as usize))
}

/// Metadata of a slab without unused entries, renumbered in order of first appearance.
pub(crate) struct MetadataCodes {
    pub(crate) metas: Vec<Metadata>,
    /// Maps codes of the batch to codes of the slab; unused codes keep their initial value and are never read.
    code_of: Vec<u32>,
}

impl MetadataCodes {
    pub(crate) fn of(events: &EventBatch) -> MetadataCodes {
        let mut metas = Vec::new();
        let mut code_of = vec![u32::MAX; events.metas.len()];
        for meta in &events.meta {
            let code = &mut code_of[*meta as usize];
            if *code == u32::MAX {
                *code = u32_of(metas.len());
                metas.push(events.metas[*meta as usize].clone());
            }
        }
        assert!(metas.len() <= events.metas.len(), "each entry is stored once");
        MetadataCodes { metas, code_of }
    }

    #[inline]
    pub(crate) fn of_row(&self, events: &EventBatch, row: usize) -> u32 {
        let code = self.code_of[events.meta[row] as usize];
        debug_assert!((code as usize) < self.metas.len(), "the entries of events are stored");
        code
    }
}
