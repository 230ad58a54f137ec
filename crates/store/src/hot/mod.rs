//! Events in memory: searchable from the moment they are acknowledged until their bucket takes over.
//!
//! A slab is a list of full pages, which never change and are shared, and one growing page, which a snapshot copies.
//! So a search never waits for a writer longer than it takes to copy one page, and holds what it saw.
//!
//! Not here: which slab a batch goes to and when a slab is closed.

mod segment;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use quarry_bucket::MAX_PAGE_EVENTS;
use quarry_event::{EventBatch, IndexedField, Metadata, TimeNs};

use crate::PageInfo;

pub(crate) use segment::{HotSegment, SLABS_PER_BUCKET_MAX};

/// Events of one page. `meta` holds codes of the slab.
#[derive(Debug)]
pub(crate) struct HotPage {
    pub(crate) raw: Bytes,
    pub(crate) columns: Columns,
    pub(crate) info: PageInfo,
    /// Distinct codes in `meta`, ascending.
    pub(crate) codes: Vec<u32>,
}

/// The columns of a page beside its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) ends: Vec<u32>,
    pub(crate) time: Vec<TimeNs>,
    pub(crate) index_time: Vec<TimeNs>,
    pub(crate) meta: Vec<u32>,
    pub(crate) fields: Vec<IndexedField>,
}

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
        let range = self.text(rows);
        range.end - range.start
    }

    /// Most rows from the front, at least one, whose text fits `room`.
    pub(crate) fn rows_within(&self, room: usize) -> usize {
        let start = self.text(0).start;
        let fitting = self.batch.ends[self.next..].partition_point(|end| *end as usize - start <= room);
        fitting.max(1).min(self.left())
    }

    fn text(&self, rows: usize) -> Range<usize> {
        let end_before = |row: usize| if row == 0 { 0 } else { self.batch.ends[row - 1] as usize };
        end_before(self.next)..end_before(self.next + rows)
    }
}

/// The slab of one index that takes new events.
#[derive(Debug)]
pub(crate) struct HotSlab {
    number: u64,
    bucket: Arc<str>,
    index: Arc<str>,
    metas: Vec<Metadata>,
    code_of: BTreeMap<Metadata, u32>,
    /// `metas` as the last snapshot shared it.
    shared_metas: Option<Arc<[Metadata]>>,
    full: Vec<Arc<HotPage>>,
    growing: GrowingPage,
    /// `growing` as the last snapshot shared it.
    shared_growing: Option<Arc<HotPage>>,
    events: usize,
    raw_bytes: usize,
    /// Smallest and largest `_time`; 0 without events.
    times: (TimeNs, TimeNs),
    /// Elapsed time of the last append.
    pub(crate) appended_at: i64,
}

#[derive(Debug, Default)]
struct GrowingPage {
    raw: Vec<u8>,
    columns: Columns,
}

impl HotSlab {
    pub(crate) fn new(index: &Arc<str>, number: u64) -> HotSlab {
        HotSlab {
            number,
            bucket: format!("{index}~{number}").into(),
            index: index.clone(),
            metas: Vec::new(),
            code_of: BTreeMap::new(),
            shared_metas: None,
            full: Vec::new(),
            growing: GrowingPage::default(),
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
        let codes = self.codes(&source.batch.metas);
        self.shared_growing = None;
        self.widen_times(&source.batch.time[source.next..source.next + rows]);
        let mut left = rows;
        while left > 0 {
            let here = left.min(MAX_PAGE_EVENTS - self.growing.columns.time.len());
            self.events += here;
            self.raw_bytes += source.bytes(here);
            self.growing.append(source, here, &codes);
            left -= here;
            if self.growing.columns.time.len() == MAX_PAGE_EVENTS {
                let next = GrowingPage::like(&self.growing);
                let full = std::mem::replace(&mut self.growing, next);
                let page = HotPage::new(self.first_row_of_growing(), full.raw.into(), full.columns);
                self.full.push(Arc::new(page));
            }
        }
    }

    /// The slab's codes of a batch's metadata.
    fn codes(&mut self, metas: &[Metadata]) -> Vec<u32> {
        let mut codes = Vec::with_capacity(metas.len());
        for meta in metas {
            let known = self.code_of.get(meta).copied();
            codes.push(known.unwrap_or_else(|| {
                let code = self.metas.len() as u32;
                self.metas.push(meta.clone());
                self.code_of.insert(meta.clone(), code);
                self.shared_metas = None;
                code
            }));
        }
        codes
    }

    fn first_row_of_growing(&self) -> u64 {
        (self.full.len() * MAX_PAGE_EVENTS) as u64
    }

    /// What a search sees of it now.
    pub(crate) fn segment(&mut self) -> Arc<HotSegment> {
        let mut pages = self.full.clone();
        if !self.growing.columns.time.is_empty() {
            let first_row = self.first_row_of_growing();
            let growing = &self.growing;
            let copy = self.shared_growing.get_or_insert_with(|| {
                let raw = Bytes::copy_from_slice(&growing.raw);
                Arc::new(HotPage::new(first_row, raw, growing.columns.clone()))
            });
            pages.push(copy.clone());
        }
        let metas = self.shared_metas.get_or_insert_with(|| self.metas.as_slice().into()).clone();
        Arc::new(HotSegment::new(self.number, self.bucket.clone(), self.index.clone(), metas, pages))
    }

    /// The slab as it stays.
    pub(crate) fn close(mut self) -> Arc<HotSegment> {
        let growing = std::mem::take(&mut self.growing);
        if !growing.columns.time.is_empty() {
            let page = HotPage::new(self.first_row_of_growing(), growing.raw.into(), growing.columns);
            self.full.push(Arc::new(page));
        }
        let metas = self.shared_metas.unwrap_or_else(|| self.metas.into());
        Arc::new(HotSegment::new(self.number, self.bucket, self.index, metas, self.full))
    }
}

impl GrowingPage {
    /// An empty page with room for as much as a full one held, so that it rarely moves while it grows.
    fn like(full: &GrowingPage) -> GrowingPage {
        let columns = Columns {
            ends: Vec::with_capacity(MAX_PAGE_EVENTS),
            time: Vec::with_capacity(MAX_PAGE_EVENTS),
            index_time: Vec::with_capacity(MAX_PAGE_EVENTS),
            meta: Vec::with_capacity(MAX_PAGE_EVENTS),
            fields: Vec::with_capacity(full.columns.fields.len()),
        };
        GrowingPage { raw: Vec::with_capacity(full.raw.len() + full.raw.len() / 16), columns }
    }

    fn append(&mut self, source: &mut BatchRows, rows: usize, codes: &[u32]) {
        let from = source.next..source.next + rows;
        let text = source.text(rows);
        let (row, byte) = (self.columns.time.len(), self.raw.len());
        let batch = &source.batch;
        self.raw.extend_from_slice(&batch.raw[text.clone()]);
        let columns = &mut self.columns;
        columns.ends.extend(batch.ends[from.clone()].iter().map(|end| (*end as usize - text.start + byte) as u32));
        columns.time.extend_from_slice(&batch.time[from.clone()]);
        columns.index_time.resize(row + rows, batch.index_time);
        columns.meta.extend(batch.meta[from.clone()].iter().map(|code| codes[*code as usize]));
        while let Some(mut field) = source.fields.next_if(|field| (field.row as usize) < from.end) {
            field.row = (field.row as usize - from.start + row) as u32;
            columns.fields.push(field);
        }
        source.next = from.end;
    }
}

impl HotPage {
    fn new(first_row: u64, raw: Bytes, columns: Columns) -> HotPage {
        let mut codes = columns.meta.clone();
        codes.sort_unstable();
        codes.dedup();
        let info = PageInfo {
            first_row,
            events: columns.time.len() as u32,
            time_min: columns.time.iter().copied().min().unwrap_or(0),
            time_max: columns.time.iter().copied().max().unwrap_or(0),
            raw_bytes: raw.len() as u64,
        };
        HotPage { raw, columns, info, codes }
    }
}
