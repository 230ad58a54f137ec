//! Events in memory: searchable from their acknowledgment until their bucket replaces them.
//!
//! A slab's rows are contiguous and append-only ([`SlabRows`]). A writer locks the rows while it adds a batch, and a
//! search locks them while it copies a page. A snapshot remembers the number of rows at its creation and never reads
//! more. A batch can therefore first be copied to the end of the rows ([`PendingCopy`]) and then be published.
//!
//! Not here: the choice of a batch's slab, and when slabs are closed.

mod rows;
mod segment;
mod slabs;
mod spare_memory;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use crate::sync::write;
use quarry_bucket::MAX_PAGE_EVENTS;
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_stdx::number::u32_of;
use rows::{PageFacts, text_of};

pub(crate) use rows::SlabRows;
pub(crate) use segment::HotSegment;
pub(crate) use slabs::{HotKey, HotSlabs};
pub(crate) use spare_memory::SpareMemory;

/// Memory of a slab in bytes, without its events: its structures and map entries.
const SLAB_BYTES: usize = 2 << 10;
/// Memory of an event in bytes, without its text: end of the text, time, index time and metadata code.
const EVENT_BYTES: usize = 24;
/// Memory of a metadata entry in bytes, without its texts.
const ENTRY_BYTES: usize = 128;
/// Memory of an indexed field in bytes, without its value: code of the name, and length of the value; twice, because
/// columns double when they grow.
const FIELD_BYTES: usize = 16;
/// Memory in bytes that the fields of an event take once; also twice.
const FIELD_PLACE_BYTES: usize = 48;

/// A batch being moved into slabs, row by row.
#[derive(Debug)]
pub(crate) struct BatchRows {
    batch: EventBatch,
    next: usize,
}

impl BatchRows {
    pub(crate) fn new(batch: EventBatch) -> BatchRows {
        BatchRows { batch, next: 0 }
    }

    /// Number of rows not moved yet.
    pub(crate) fn remaining_rows(&self) -> usize {
        self.batch.len() - self.next
    }

    /// Text bytes of the next `rows` rows.
    pub(crate) fn bytes(&self, rows: usize) -> usize {
        text_of(&self.batch.ends, &(self.next..self.next + rows)).len()
    }

    /// Maximum number of next rows, at least one, whose text fits `room`.
    pub(crate) fn rows_that_fit(&self, room: usize) -> usize {
        let start = text_of(&self.batch.ends, &(self.next..self.next)).start;
        let fitting = self.batch.ends[self.next..].partition_point(|end| *end as usize - start <= room);
        fitting.max(1).min(self.remaining_rows())
    }

    /// Metadata of the batch.
    pub(crate) fn metas(&self) -> &[Metadata] {
        &self.batch.metas
    }

    /// The batch, for reuse of its memory.
    pub(crate) fn into_batch(self) -> EventBatch {
        self.batch
    }
}

/// The slab of an index that accepts new events.
#[derive(Debug)]
pub(crate) struct HotSlab {
    number: u64,
    bucket: Arc<str>,
    index: Arc<str>,
    rows: Arc<RwLock<SlabRows>>,
    code_of: BTreeMap<Metadata, u32>,
    metas: Vec<Metadata>,
    /// Copy of the slab's metadata, shared with the last snapshot; `None` if the metadata has changed since.
    shared_metas: Option<Arc<[Metadata]>>,
    /// Facts of the complete pages.
    full: Vec<Arc<PageFacts>>,
    /// Facts of the growing page after the complete pages, if it has rows.
    growing: Option<PageFacts>,
    /// Copy of the facts of the growing page, shared with the last snapshot; `None` if the facts have changed since.
    shared_growing: Option<Arc<PageFacts>>,
    events: usize,
    raw_bytes: usize,
    /// Memory of metadata and indexed fields in bytes.
    entry_bytes: usize,
    /// Smallest and largest `_time`; 0 without events.
    times: (TimeNs, TimeNs),
    /// Monotonic time of the last append.
    pub(crate) appended_at: i64,
}

/// A copy of events into a slab, not visible yet.
#[derive(Debug)]
pub(crate) struct PendingCopy {
    rows: Arc<RwLock<SlabRows>>,
    /// Number of rows in the slab before the copied ones.
    first: usize,
    /// Metadata code in the slab for each metadata entry of the batch.
    codes: Vec<u32>,
    /// New metadata entries, in order of their codes.
    new_metas: Vec<Metadata>,
}

/// Events copied into a slab.
#[derive(Debug)]
pub(crate) struct FinishedCopy {
    /// Facts about the copied events, split at page boundaries.
    pages: Vec<PageFacts>,
    new_metas: Vec<Metadata>,
    events: usize,
    raw_bytes: usize,
    field_bytes: usize,
}

impl PendingCopy {
    /// Copies the next `rows` rows of a batch to the end of the slab.
    pub(crate) fn copy(self, source: &mut BatchRows, rows: usize) -> FinishedCopy {
        assert!(rows <= source.remaining_rows(), "only rows that are left are copied");
        let taken = source.next..source.next + rows;
        let raw_bytes = source.bytes(rows);
        let fields = source.batch.fields.of_rows(taken.clone());
        let field_bytes = fields.value_bytes() + fields.len() * FIELD_BYTES + fields.event_count() * FIELD_PLACE_BYTES;
        source.next = taken.end;
        let mut held = write(&self.rows);
        assert_eq!(held.events.len(), self.first, "rows are copied after those that are published");
        held.events.metas.extend(self.new_metas.iter().cloned());
        held.add(&source.batch, taken, &self.codes);
        let end = self.first + rows;
        let mut pages = Vec::with_capacity(rows / MAX_PAGE_EVENTS + 2);
        let mut from = self.first;
        while from < end {
            let border = (from / MAX_PAGE_EVENTS + 1) * MAX_PAGE_EVENTS;
            pages.push(held.facts(from..border.min(end)));
            from = border;
        }
        FinishedCopy { pages, new_metas: self.new_metas, events: rows, raw_bytes, field_bytes }
    }
}

impl HotSlab {
    pub(crate) fn new(index: &Arc<str>, number: u64) -> HotSlab {
        HotSlab::reusing_rows(index, number, SlabRows::default())
    }

    /// A new slab that reuses the memory of `rows`, which must be empty.
    pub(crate) fn reusing_rows(index: &Arc<str>, number: u64, rows: SlabRows) -> HotSlab {
        HotSlab {
            number,
            bucket: format!("{index}~{number}").into(),
            index: index.clone(),
            rows: Arc::new(RwLock::new(rows)),
            code_of: BTreeMap::new(),
            metas: Vec::new(),
            shared_metas: None,
            full: Vec::new(),
            growing: None,
            shared_growing: None,
            events: 0,
            raw_bytes: 0,
            entry_bytes: 0,
            times: (0, 0),
            appended_at: 0,
        }
    }

    pub(crate) fn index(&self) -> &Arc<str> {
        &self.index
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn events(&self) -> usize {
        self.events
    }

    pub(crate) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        SLAB_BYTES + self.raw_bytes + self.events * EVENT_BYTES + self.entry_bytes
    }

    pub(crate) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Smallest and largest `_time`; 0 without events.
    pub(crate) fn times(&self) -> (TimeNs, TimeNs) {
        self.times
    }

    /// Moves the next `rows` rows of a batch to the end of the slab.
    pub(crate) fn append(&mut self, source: &mut BatchRows, rows: usize) {
        let copying = self.begin_copy(source.metas());
        let copied = copying.copy(source, rows);
        self.publish(copied);
    }

    /// Begins a copy of events with these metadata. Only one copy may exist at a time, and none after the slab is
    /// closed.
    pub(crate) fn begin_copy(&self, metas: &[Metadata]) -> PendingCopy {
        let mut new_metas: Vec<Metadata> = Vec::new();
        let mut new_codes: BTreeMap<&Metadata, usize> = BTreeMap::new();
        let mut codes = Vec::with_capacity(metas.len());
        for meta in metas {
            let known = self.code_of.get(meta).copied();
            codes.push(known.unwrap_or_else(|| {
                let new = *new_codes.entry(meta).or_insert_with(|| {
                    new_metas.push(meta.clone());
                    new_metas.len() - 1
                });
                u32_of(self.metas.len() + new)
            }));
        }
        PendingCopy { rows: self.rows.clone(), first: self.events, codes, new_metas }
    }

    /// Makes copied events visible to later snapshots.
    pub(crate) fn publish(&mut self, copied: FinishedCopy) {
        let FinishedCopy { pages, new_metas, events, raw_bytes, field_bytes } = copied;
        let in_pages: usize = pages.iter().map(|page| page.info.events as usize).sum();
        assert_eq!(in_pages, events, "pages hold what was copied");
        for meta in new_metas {
            self.entry_bytes += meta.host.len() + meta.source.len() + meta.sourcetype.len() + ENTRY_BYTES;
            self.code_of.insert(meta.clone(), u32_of(self.metas.len()));
            self.metas.push(meta);
            self.shared_metas = None;
        }
        let times = pages.iter().flat_map(|page| [page.info.time_min, page.info.time_max]);
        if let (Some(low), Some(high)) = (times.clone().min(), times.max()) {
            let (first, last) = if self.events == 0 { (low, high) } else { self.times };
            self.times = (first.min(low), last.max(high));
        }
        for page in &pages {
            let grown = match self.growing.take() {
                Some(growing) => growing.extended_by(page),
                None => page.clone(),
            };
            assert!(grown.info.events as usize <= MAX_PAGE_EVENTS, "no page exceeds its limit");
            if grown.info.events as usize == MAX_PAGE_EVENTS {
                self.full.push(Arc::new(grown));
            } else {
                self.growing = Some(grown);
            }
        }
        self.shared_growing = None;
        self.events += events;
        let growing = self.growing.as_ref().map_or(0, |page| page.info.events as usize);
        assert_eq!(self.full.len() * MAX_PAGE_EVENTS + growing, self.events, "pages hold what is published");
        self.raw_bytes += raw_bytes;
        self.entry_bytes += field_bytes;
    }

    /// The current content of the slab as a segment.
    pub(crate) fn segment(&mut self) -> Arc<HotSegment> {
        let mut pages = self.full.clone();
        if let Some(growing) = &self.growing {
            pages.push(self.shared_growing.get_or_insert_with(|| Arc::new(growing.clone())).clone());
        }
        let metas = self.shared_metas.get_or_insert_with(|| self.metas.as_slice().into()).clone();
        let (bucket, index) = (self.bucket.clone(), self.index.clone());
        Arc::new(HotSegment::new(self.number, bucket, index, metas, self.rows.clone(), pages))
    }

    /// Closes the slab and returns it as a segment.
    pub(crate) fn close(mut self) -> Arc<HotSegment> {
        self.segment()
    }
}
