//! A slab in memory as a segment for searches.

use std::sync::{Arc, RwLock, RwLockReadGuard};

use crate::hot_slabs::SlabRows;
use crate::hot_slabs::rows::PageFacts;
use crate::metadata_terms::matches;
use crate::sync::read;
use crate::{PageInfo, Segment, StoreError};
use quarry_event::term::MetaField;
use quarry_event::{FieldColumns, Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs};
use quarry_stdx::number::usize_of;

/// The pages that a slab had at the time of a snapshot; later rows are not visible.
#[derive(Debug)]
pub(crate) struct HotSegment {
    number: u64,
    bucket: Arc<str>,
    index: Arc<str>,
    metas: Arc<[Metadata]>,
    rows: Arc<RwLock<SlabRows>>,
    pages: Vec<Arc<PageFacts>>,
    infos: Vec<PageInfo>,
}

impl HotSegment {
    pub(crate) fn new(
        number: u64,
        bucket: Arc<str>,
        index: Arc<str>,
        metas: Arc<[Metadata]>,
        rows: Arc<RwLock<SlabRows>>,
        pages: Vec<Arc<PageFacts>>,
    ) -> HotSegment {
        let infos: Vec<PageInfo> = pages.iter().map(|page| page.info).collect();
        let follows = |pair: &[PageInfo]| pair[0].first_row + u64::from(pair[0].events) == pair[1].first_row;
        assert!(infos.windows(2).all(follows), "each page begins where the one before ends");
        HotSegment { number, bucket, index, metas, rows, pages, infos }
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

    /// The rows of a frozen slab.
    pub(crate) fn rows(&self) -> RwLockReadGuard<'_, SlabRows> {
        read(&self.rows)
    }

    /// The rows, for reuse of their memory; `None` if they are still in use.
    pub(crate) fn into_rows(self) -> Option<SlabRows> {
        Arc::into_inner(self.rows).and_then(|rows| rows.into_inner().ok())
    }

    /// Bitmap of the pages in `among` that may match `query`. Because the text is not read, pages can only be excluded
    /// by their metadata.
    fn filter_pages(&self, query: &TermQuery, among: u64) -> u64 {
        match query {
            TermQuery::Token(_) | TermQuery::Prefix(_) | TermQuery::Value { .. } => among,
            TermQuery::Field { .. } | TermQuery::FieldNumber { .. } => among,
            TermQuery::All | TermQuery::Marked(_) | TermQuery::IndexTimeFields => among,
            TermQuery::None => 0,
            TermQuery::And(parts) => parts.iter().fold(among, |left, part| self.filter_pages(part, left)),
            TermQuery::Or(parts) => parts.iter().fold(0, |found, part| found | self.filter_pages(part, among)),
            TermQuery::Meta { field, pattern } => among & self.pages_with_meta(*field, pattern),
        }
    }

    fn pages_with_meta(&self, field: MetaField, pattern: &str) -> u64 {
        let matching: Vec<bool> = self.metas.iter().map(|meta| matches(meta, field, pattern)).collect();
        let holds = |page: &Arc<PageFacts>| page.codes.iter().any(|code| matching[*code as usize]);
        self.pages.iter().enumerate().fold(0, |found, (at, page)| found | u64::from(holds(page)) << at)
    }
}

impl Segment for HotSegment {
    fn bucket(&self) -> &str {
        &self.bucket
    }

    fn index(&self) -> &str {
        &self.index
    }

    fn origin(&self) -> u64 {
        self.number
    }

    fn metas(&self) -> Arc<[Metadata]> {
        self.metas.clone()
    }

    fn pages(&self) -> &[PageInfo] {
        &self.infos
    }

    fn candidate_pages(&self, query: &TermQuery, _fields: &dyn FieldColumns) -> Result<PageSet, StoreError> {
        Ok(PageSet(self.filter_pages(query, PageSet::first(self.pages.len()).0)))
    }

    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        let Some(info) = self.infos.get(page) else { return Ok(Page::default()) };
        let first = usize_of(info.first_row);
        let out = read(&self.rows).page(first..first + info.events as usize, columns);
        assert_eq!(out.len(), info.events as usize, "a page has the events that it lists");
        Ok(Page { metas: self.metas.clone(), ..out })
    }
}
