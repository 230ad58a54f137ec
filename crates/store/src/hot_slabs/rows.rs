//! The events of one slab in memory, contiguous and in the bucket encoder's form, so that sealing copies nothing.
//!
//! Rows are only appended. A search copies the rows of each page it reads, so that it does not prevent the reuse of a
//! sealed slab's memory.

use quarry_event::{EventBatch, FieldNames, FieldRun, IndexedFields, Page, PageColumns, TimeNs};
use quarry_stdx::number::{u32_of, usize_of};
use std::ops::Range;

use crate::PageInfo;

/// Maximum bytes of the fields of a slab whose memory is kept or reserved: those of a full slab with 20 short fields in
/// each event.
const FIELD_BYTES_MAX: usize = 128 << 20;

/// Events of a slab. `events.metas` is the metadata of the whole slab; `events.index_time` is unused.
#[derive(Debug, Default)]
pub(crate) struct SlabRows {
    pub(crate) events: EventBatch,
    pub(crate) index_times: Vec<TimeNs>,
}

/// Facts about one page, available without reading its rows.
#[derive(Clone, Debug)]
pub(crate) struct PageFacts {
    pub(crate) info: PageInfo,
    /// Distinct metadata codes of the page's events, ascending.
    pub(crate) codes: Vec<u32>,
}

impl PageFacts {
    /// The facts of a page extended by the rows of `more`.
    pub(crate) fn extended_by(mut self, more: &PageFacts) -> PageFacts {
        let info = &mut self.info;
        info.events += more.info.events;
        info.raw_bytes += more.info.raw_bytes;
        info.time_min = info.time_min.min(more.info.time_min);
        info.time_max = info.time_max.max(more.info.time_max);
        for code in &more.codes {
            if let Err(place) = self.codes.binary_search(code) {
                self.codes.insert(place, *code);
            }
        }
        self
    }
}

impl SlabRows {
    /// Reserves room for a slab with as many fields for each event as in `first`.
    pub(crate) fn reserve_fields(&mut self, first: &EventBatch, events: usize) {
        let of_slab = |count: usize| (count as u64).saturating_mul(events as u64) / first.len().max(1) as u64;
        let fields = &first.fields;
        let [events, fields, value_bytes] = [fields.event_count(), fields.len(), fields.value_bytes()].map(of_slab);
        if fields.saturating_mul(8).saturating_add(value_bytes) <= FIELD_BYTES_MAX as u64 {
            self.events.fields.reserve(usize_of(events), usize_of(fields), usize_of(value_bytes));
        }
    }

    /// Reserves room for a slab of this size.
    pub(crate) fn reserve(&mut self, events: usize, raw_bytes: usize) {
        self.events.raw.reserve(raw_bytes);
        self.events.ends.reserve(events);
        self.events.time.reserve(events);
        self.events.meta.reserve(events);
        self.index_times.reserve(events);
    }

    /// Clears the events and keeps their memory.
    pub(crate) fn clear(&mut self) {
        let EventBatch { raw, ends, time, index_time, meta, metas, fields, .. } = &mut self.events;
        raw.clear();
        ends.clear();
        time.clear();
        meta.clear();
        *index_time = 0;
        // Metadata is not reused, because its size differs from slab to slab.
        *metas = Vec::new();
        fields.clear_keeping(FIELD_BYTES_MAX);
        self.index_times.clear();
    }

    /// Bytes of memory held for text and columns.
    pub(crate) fn capacity(&self) -> usize {
        let EventBatch { raw, ends, time, meta, .. } = &self.events;
        raw.capacity() + (ends.capacity() + meta.capacity()) * 4 + (time.capacity() + self.index_times.capacity()) * 8
    }

    /// Adds rows of a batch and their fields. `codes` translates the metadata codes of the batch to those of the slab.
    pub(crate) fn add(&mut self, batch: &EventBatch, rows: Range<usize>, codes: &[u32]) {
        let text = text_of(&batch.ends, &rows);
        let (row, byte) = (self.events.len(), self.events.raw.len());
        let events = &mut self.events;
        events.raw.extend_from_slice(&batch.raw[text.clone()]);
        events.ends.extend(batch.ends[rows.clone()].iter().map(|end| u32_of(*end as usize - text.start + byte)));
        events.time.extend_from_slice(&batch.time[rows.clone()]);
        events.meta.extend(batch.meta[rows.clone()].iter().map(|code| codes[*code as usize]));
        events.fields.append(batch.fields.of_rows(rows.clone()), rows.start, row);
        let len = row + rows.len();
        self.index_times.resize(len, batch.index_time);
        let events = &self.events;
        assert!(u32::try_from(events.raw.len()).is_ok(), "the end of an event fits in 32 bits");
        assert_eq!(
            (events.ends.len(), events.time.len(), events.meta.len()),
            (len, len, len),
            "columns have equal lengths"
        );
    }

    /// Facts about these rows, which belong to one page.
    pub(crate) fn facts(&self, rows: Range<usize>) -> PageFacts {
        assert!(!rows.is_empty(), "a page has rows");
        let events = &self.events;
        let mut codes = events.meta[rows.clone()].to_vec();
        codes.sort_unstable();
        codes.dedup();
        let times = &events.time[rows.clone()];
        let info = PageInfo {
            first_row: rows.start as u64,
            events: u32_of(rows.len()),
            time_min: times.iter().copied().min().unwrap_or(0),
            time_max: times.iter().copied().max().unwrap_or(0),
            raw_bytes: text_of(&events.ends, &rows).len() as u64,
        };
        PageFacts { info, codes }
    }

    /// These rows as a page with the requested columns; `metas` stays empty.
    pub(crate) fn page(&self, rows: Range<usize>, columns: PageColumns) -> Page {
        let events = &self.events;
        let mut out = Page {
            first_row: rows.start as u64,
            time: events.time[rows.clone()].to_vec(),
            meta: events.meta[rows.clone()].to_vec(),
            ..Page::default()
        };
        if columns.raw {
            let text = text_of(&events.ends, &rows);
            out.ends = events.ends[rows.clone()].iter().map(|end| end - u32_of(text.start)).collect();
            out.raw = events.raw[text].to_vec().into();
            assert_eq!(out.ends.last().map_or(0, |end| *end as usize), out.raw.len(), "all text belongs to an event");
        }
        if columns.index_time {
            out.index_time = self.index_times[rows.clone()].to_vec();
        }
        if !columns.fields.is_empty() {
            out.fields = with_names(events.fields.of_rows(rows.clone()), columns.fields, rows.start);
        }
        out
    }
}

/// The fields that have these names; row `from` becomes row 0.
fn with_names(run: FieldRun<'_>, names: FieldNames, from: usize) -> IndexedFields {
    let mut fields = IndexedFields::default();
    let is_wanted: Vec<bool> = run.names().iter().map(|name| names.may_contain(name)).collect();
    if is_wanted.iter().all(|is_wanted| *is_wanted) {
        fields.append(run, from, 0);
        return fields;
    }
    for field in run.iter().filter(|field| is_wanted[field.code as usize]) {
        fields.push(field.row - u32_of(from), field.name, field.value);
    }
    fields
}

/// Byte range of the text of these rows.
pub(crate) fn text_of(ends: &[u32], rows: &Range<usize>) -> Range<usize> {
    let end_before = |row: usize| if row == 0 { 0 } else { ends[row - 1] as usize };
    end_before(rows.start)..end_before(rows.end)
}
