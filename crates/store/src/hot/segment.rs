//! A slab in memory as a search sees it.

use std::sync::Arc;

use quarry_event::term::MetaField;
use quarry_event::{EventBatch, Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs};

use crate::hot::HotPage;
use crate::selector::wildcard_match;
use crate::{PageInfo, Segment, StoreError};

/// Slabs of one bucket at most, so that bucket number and slab number make one sequence number.
pub(crate) const SLABS_PER_BUCKET_MAX: u64 = 4_096;

/// A list of pages that never change.
#[derive(Debug)]
pub(crate) struct HotSegment {
    number: u64,
    bucket: Arc<str>,
    index: Arc<str>,
    metas: Arc<[Metadata]>,
    pages: Vec<Arc<HotPage>>,
    infos: Vec<PageInfo>,
}

/// A slab as the bucket encoder wants it.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) events: EventBatch,
    pub(crate) index_times: Vec<TimeNs>,
}

impl HotSegment {
    pub(crate) fn new(
        number: u64,
        bucket: Arc<str>,
        index: Arc<str>,
        metas: Arc<[Metadata]>,
        pages: Vec<Arc<HotPage>>,
    ) -> HotSegment {
        let infos = pages.iter().map(|page| page.info).collect();
        HotSegment { number, bucket, index, metas, pages, infos }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn index_name(&self) -> &Arc<str> {
        &self.index
    }

    pub(crate) fn events(&self) -> u64 {
        self.infos.iter().map(|page| u64::from(page.events)).sum()
    }

    pub(crate) fn raw_bytes(&self) -> u64 {
        self.infos.iter().map(|page| page.raw_bytes).sum()
    }

    /// Smallest and largest `_time`; 0 without events.
    pub(crate) fn times(&self) -> (TimeNs, TimeNs) {
        let first = self.infos.iter().map(|page| page.time_min).min().unwrap_or(0);
        let last = self.infos.iter().map(|page| page.time_max).max().unwrap_or(0);
        (first, last)
    }

    /// All columns in one piece.
    pub(crate) fn gather(&self) -> Gathered {
        let events = self.events() as usize;
        let mut out = EventBatch {
            raw: Vec::with_capacity(self.raw_bytes() as usize),
            ends: Vec::with_capacity(events),
            time: Vec::with_capacity(events),
            meta: Vec::with_capacity(events),
            metas: self.metas.to_vec(),
            ..EventBatch::default()
        };
        let mut index_times = Vec::with_capacity(events);
        for page in &self.pages {
            let (row, byte) = (out.ends.len() as u32, out.raw.len() as u32);
            out.raw.extend_from_slice(&page.raw);
            out.ends.extend(page.columns.ends.iter().map(|end| end + byte));
            out.time.extend_from_slice(&page.columns.time);
            out.meta.extend_from_slice(&page.columns.meta);
            index_times.extend_from_slice(&page.columns.index_time);
            out.fields.extend(page.columns.fields.iter().cloned().map(|mut field| {
                field.row += row;
                field
            }));
        }
        Gathered { events: out, index_times }
    }

    /// Pages of `among` that `query` keeps; only metadata is known without reading the text.
    fn pages_of(&self, query: &TermQuery, among: u64) -> u64 {
        match query {
            TermQuery::All | TermQuery::Piece(_) | TermQuery::Prefix(_) | TermQuery::Field { .. } => among,
            TermQuery::None => 0,
            TermQuery::And(parts) => parts.iter().fold(among, |left, part| self.pages_of(part, left)),
            TermQuery::Or(parts) => parts.iter().fold(0, |found, part| found | self.pages_of(part, among)),
            TermQuery::Meta { field, pattern } => among & self.pages_with_meta(*field, pattern),
        }
    }

    fn pages_with_meta(&self, field: MetaField, pattern: &str) -> u64 {
        let matching: Vec<bool> =
            self.metas.iter().map(|meta| wildcard_match(pattern, &text_of(meta, field).to_lowercase())).collect();
        let holds = |page: &Arc<HotPage>| page.codes.iter().any(|code| matching[*code as usize]);
        self.pages.iter().enumerate().fold(0, |found, (at, page)| found | u64::from(holds(page)) << at)
    }
}

fn text_of(meta: &Metadata, field: MetaField) -> &str {
    match field {
        MetaField::Index => &meta.index,
        MetaField::Host => &meta.host,
        MetaField::Source => &meta.source,
        MetaField::Sourcetype => &meta.sourcetype,
    }
}

impl Segment for HotSegment {
    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn index(&self) -> &str {
        &self.index
    }

    fn sequence(&self) -> u64 {
        self.number * SLABS_PER_BUCKET_MAX
    }

    fn metas(&self) -> Arc<[Metadata]> {
        self.metas.clone()
    }

    fn pages(&self) -> &[PageInfo] {
        &self.infos
    }

    fn candidate_pages(&self, query: &TermQuery) -> Result<PageSet, StoreError> {
        Ok(PageSet(self.pages_of(query, PageSet::first(self.pages.len()).0)))
    }

    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        let Some(held) = self.pages.get(page) else { return Ok(Page::default()) };
        let mut out = Page {
            first_row: held.info.first_row,
            time: held.columns.time.clone(),
            meta: held.columns.meta.clone(),
            metas: self.metas.clone(),
            ..Page::default()
        };
        if columns.raw {
            out.raw = held.raw.clone();
            out.ends = held.columns.ends.clone();
        }
        if columns.index_time {
            out.index_time = held.columns.index_time.clone();
        }
        if columns.fields {
            out.fields = held.columns.fields.clone();
        }
        Ok(out)
    }
}
