//! Events in memory: searchable from the moment they are acknowledged until their bucket takes over.
//!
//! A slab's rows lie in one piece that only grows ([`SlabRows`]), behind a lock that a writer holds while it adds a batch
//! and a search while it copies a page. A snapshot remembers how many rows it saw, and never reads more.
//!
//! Not here: which slab a batch goes to and when a slab is closed.

mod rows;
mod segment;
mod spare;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use quarry_bucket::MAX_PAGE_EVENTS;
use quarry_event::{EventBatch, IndexedField, Metadata, TimeNs};

use crate::sync::write;
use rows::{PageFacts, text_of};

pub(crate) use rows::SlabRows;
pub(crate) use segment::{HotSegment, SLABS_PER_BUCKET_MAX};
pub(crate) use spare::Spares;

/// A batch being moved into slabs, row by row from the front.
#[derive(Debug)]
pub(crate) struct BatchRows {
    batch: EventBatch,
    fields: std::iter::Peekable<std::vec::IntoIter<IndexedField>>,
    next: usize,
}

impl BatchRows {
    pub(crate) fn new(mut batch: EventBatch) -> BatchRows {
        let fields = std::mem::take(&mut batch.fields).into_iter().peekable();
        BatchRows { batch, fields, next: 0 }
    }

    /// Rows that are not moved yet.
    pub(crate) fn left(&self) -> usize {
        self.batch.len() - self.next
    }

    /// Bytes of text of the next `rows` rows.
    pub(crate) fn bytes(&self, rows: usize) -> usize {
        text_of(&self.batch.ends, &(self.next..self.next + rows)).len()
    }

    /// Most rows from the front, at least one, whose text fits `room`.
    pub(crate) fn rows_within(&self, room: usize) -> usize {
        let start = text_of(&self.batch.ends, &(self.next..self.next)).start;
        let fitting = self.batch.ends[self.next..].partition_point(|end| *end as usize - start <= room);
        fitting.max(1).min(self.left())
    }

    /// The batch, for its memory.
    pub(crate) fn into_batch(self) -> EventBatch {
        self.batch
    }

    /// Fields of the rows before `end` that are not moved yet.
    fn fields_before(&mut self, end: usize) -> Vec<IndexedField> {
        std::iter::from_fn(|| self.fields.next_if(|field| (field.row as usize) < end)).collect()
    }
}

/// The slab of one index that takes new events.
#[derive(Debug)]
pub(crate) struct HotSlab {
    number: u64,
    bucket: Arc<str>,
    index: Arc<str>,
    rows: Arc<RwLock<SlabRows>>,
    code_of: BTreeMap<Metadata, u32>,
    /// The slab's metadata as the last snapshot shared it.
    shared_metas: Option<Arc<[Metadata]>>,
    /// Pages that take no more rows.
    full: Vec<Arc<PageFacts>>,
    /// The page behind them as the last snapshot shared it.
    shared_growing: Option<Arc<PageFacts>>,
    events: usize,
    raw_bytes: usize,
    /// Smallest and largest `_time`; 0 without events.
    times: (TimeNs, TimeNs),
    /// Elapsed time of the last append.
    pub(crate) appended_at: i64,
}

impl HotSlab {
    pub(crate) fn new(index: &Arc<str>, number: u64) -> HotSlab {
        HotSlab::in_memory_of(index, number, SlabRows::default())
    }

    /// A slab that takes over the memory of `rows`, which are empty.
    pub(crate) fn in_memory_of(index: &Arc<str>, number: u64, rows: SlabRows) -> HotSlab {
        HotSlab {
            number,
            bucket: format!("{index}~{number}").into(),
            index: index.clone(),
            rows: Arc::new(RwLock::new(rows)),
            code_of: BTreeMap::new(),
            shared_metas: None,
            full: Vec::new(),
            shared_growing: None,
            events: 0,
            raw_bytes: 0,
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

    pub(crate) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Smallest and largest `_time`; 0 without events.
    pub(crate) fn times(&self) -> (TimeNs, TimeNs) {
        self.times
    }

    fn widen_times(&mut self, times: &[TimeNs]) {
        let Some(first) = times.first() else { return };
        let start = if self.events == 0 { (*first, *first) } else { self.times };
        self.times = times.iter().fold(start, |(low, high), time| (low.min(*time), high.max(*time)));
    }

    /// Moves the next `rows` rows of a batch to the end.
    pub(crate) fn append(&mut self, source: &mut BatchRows, rows: usize) {
        let taken = source.next..source.next + rows;
        self.widen_times(&source.batch.time[taken.clone()]);
        self.shared_growing = None;
        self.events += rows;
        self.raw_bytes += source.bytes(rows);
        let fields = source.fields_before(taken.end);
        source.next = taken.end;
        let held = self.rows.clone();
        let mut held = write(&held);
        let codes = self.codes(&source.batch.metas, &mut held);
        held.add(&source.batch, taken, fields, &codes);
        while (self.full.len() + 1) * MAX_PAGE_EVENTS <= self.events {
            let first = self.full.len() * MAX_PAGE_EVENTS;
            self.full.push(Arc::new(held.facts(first..first + MAX_PAGE_EVENTS)));
        }
    }

    /// The slab's codes of a batch's metadata.
    fn codes(&mut self, metas: &[Metadata], held: &mut SlabRows) -> Vec<u32> {
        let mut codes = Vec::with_capacity(metas.len());
        for meta in metas {
            let known = self.code_of.get(meta).copied();
            codes.push(known.unwrap_or_else(|| {
                let code = held.add_meta(meta.clone());
                self.code_of.insert(meta.clone(), code);
                self.shared_metas = None;
                code
            }));
        }
        codes
    }

    /// What a search sees of it now.
    pub(crate) fn segment(&mut self) -> Arc<HotSegment> {
        let mut pages = self.full.clone();
        let first = self.full.len() * MAX_PAGE_EVENTS;
        let held = crate::sync::read(&self.rows);
        if first < self.events {
            let facts = || Arc::new(held.facts(first..self.events));
            pages.push(self.shared_growing.get_or_insert_with(facts).clone());
        }
        let metas = self.shared_metas.get_or_insert_with(|| held.events.metas.as_slice().into()).clone();
        drop(held);
        let (bucket, index) = (self.bucket.clone(), self.index.clone());
        Arc::new(HotSegment::new(self.number, bucket, index, metas, self.rows.clone(), pages))
    }

    /// The slab as it stays.
    pub(crate) fn close(mut self) -> Arc<HotSegment> {
        self.segment()
    }
}
