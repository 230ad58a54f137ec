//! Needle searches: rare words are found in template slabs without locating fields.
//!
//! Locating the fields of a search, for which patterns are planned for every template, takes longer than extracting the
//! fields from the texts of a few events. If the words of the condition leave few rows of a page, the texts of these
//! rows are therefore rebuilt and tested. After the first page with more such rows, the fields of its slab are located.
//!
//! If an earlier search has located the fields, they are read from columns from the first page on.

use std::sync::{Arc, Mutex, PoisonError};

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::costs::ScanPart;
use quarry_event::{AnyColumn, PageColumns, TermQuery};
use quarry_store::Segment;

use super::extracts::merge_extracts;
use super::facts::NameKind;
use super::outcome::Outcome;
use super::page::{PageReader, Rows};
use super::slab::{Slab, SlabCache, SlabRequest, extraction_classes};
use super::stored_fields::find_stored;
use super::{EventScan, RARE_ROWS_MAX, TemplateFactsCache, split_outcome};
use crate::derive::FieldStrategy;
use crate::page::PageRef;
use crate::row_selector::PositionedRows;

/// Maximum number of rows of a page whose texts are rebuilt.
const PAGE_ROWS_MAX: usize = 64;
/// Maximum number of rows of a slab whose texts are rebuilt before the fields are located.
const SLAB_ROWS_MAX: usize = 512;
/// Maximum number of segments for which the remaining number of rows is kept.
const SEGMENTS_MAX: usize = 64;

/// The slabs that a search reads without locations of fields.
#[derive(Default)]
pub(crate) struct NeedleSlabs {
    slabs: SlabCache,
    left: Mutex<Vec<(Arc<dyn Segment>, usize)>>,
}

impl NeedleSlabs {
    /// An empty set; `facts` holds facts from earlier searches.
    pub(crate) fn new(facts: Arc<TemplateFactsCache>) -> NeedleSlabs {
        NeedleSlabs { slabs: SlabCache::new(facts), left: Mutex::default() }
    }

    /// The number of rows of a segment whose texts may still be rebuilt; `None` if the segment is new.
    fn rows_left(&self, segment: &Arc<dyn Segment>) -> Option<usize> {
        let known = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(known, _)| Arc::ptr_eq(known, segment)).map(|(_, left)| *left)
    }

    /// Sets the number of rows of a segment whose texts may still be rebuilt.
    fn set_rows_left(&self, segment: &Arc<dyn Segment>, left: usize) {
        let mut known = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(known, _)| !Arc::ptr_eq(known, segment));
        if known.len() == SEGMENTS_MAX {
            known.remove(0);
        }
        known.push((Arc::clone(segment), left));
    }
}

impl SlabCache {
    /// Whether the fields that a search reads in a segment need not be located, or have been located by this or another
    /// search. Also true for plain texts.
    pub(super) fn are_located(&self, segment: &Arc<dyn Segment>, asked: &SlabRequest<'_>) -> Result<bool, EngineError> {
        let known = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().any(|(known, _)| Arc::ptr_eq(known, segment)) {
            return Ok(true);
        }
        drop(known);
        let Some(set) = segment.template_set()? else { return Ok(true) };
        let metas = segment.metas();
        let names = asked.names_to_locate();
        let stored = find_stored(&set, &metas, &names, asked.rules, asked.messages);
        let names: Vec<String> =
            names.into_iter().filter(|name| !stored.iter().any(|(known, _)| known == name)).collect();
        let (mut classes, _) = extraction_classes(&metas, &names, asked);
        merge_extracts(&mut classes);
        Ok(self.facts_cache.of(&set).has_locations_of(NameKind::Field, &names, &classes))
    }
}

impl EventScan {
    /// The matching rows of a page of a template slab, if a few of its rows are candidates according to the words of
    /// the condition; `None` if the page must be read by its columns.
    pub(super) fn read_needles(
        &self,
        page: &PageRef,
        columns: PageColumns,
        way: &FieldStrategy,
        context: &CommandContext,
    ) -> Result<Option<Option<PositionedRows>>, EngineError> {
        let segment = &page.segment;
        let has_templates = || segment.has_templates(page.page) && !segment.may_hold_fields(page.page);
        if segment.is_remote() || !has_templates() {
            return Ok(None);
        }
        let left = match self.needles.rows_left(segment) {
            Some(left) => left,
            None if self.are_fields_located(page, way, context)? => 0,
            None => SLAB_ROWS_MAX,
        };
        let slab = if left > 0 { self.unlocated_slab(segment, context)? } else { None };
        let Some(slab) = slab else {
            self.needles.set_rows_left(segment, 0);
            return Ok(None);
        };
        let mut reader = PageReader::new(&slab, page, columns);
        let rows = context.costs.measure_part(ScanPart::Index, || self.needle_rows(page, &mut reader))?;
        let Some(rows) = rows.filter(|rows| rows.len() <= PAGE_ROWS_MAX) else {
            self.needles.set_rows_left(segment, 0);
            return Ok(None);
        };
        self.needles.set_rows_left(segment, left.saturating_sub(rows.len()));
        let (rows, positions) = self.test_undecided(rows, &mut reader, context)?;
        Ok(Some(rows.map(|rows| PositionedRows { rows, positions })))
    }

    /// Whether the fields of the search need not be located, or have been located.
    fn are_fields_located(
        &self,
        page: &PageRef,
        way: &FieldStrategy,
        context: &CommandContext,
    ) -> Result<bool, EngineError> {
        let names = self.extracted_names();
        self.slabs.are_located(&page.segment, &self.slab_request(&names, way, &context.messages))
    }

    /// The slab of a segment without the locations of any field.
    fn unlocated_slab(
        &self,
        segment: &Arc<dyn Segment>,
        context: &CommandContext,
    ) -> Result<Option<Arc<Slab>>, EngineError> {
        let words = self.filter.conditions().words().len();
        let (rules, messages) = (&self.rules, &context.messages);
        let asked = SlabRequest {
            rules,
            names: &[],
            paths: &[],
            is_listed: false,
            words,
            tested: Vec::new(),
            computed: None,
            messages,
        };
        self.needles.slabs.of(segment, &asked)
    }

    /// The rows of a page that may match, judged by words; `None` if unknown.
    fn needle_rows(&self, page: &PageRef, reader: &mut PageReader<'_>) -> Result<Option<Vec<u32>>, EngineError> {
        let in_range = self.rows_in_range(reader, page)?;
        if page.is_rare && *self.filter.terms() != TermQuery::All {
            let found = page.segment.candidate_rows(page.page, self.filter.terms(), &AnyColumn, RARE_ROWS_MAX)?;
            if let Some(mut rows) = found {
                if let Rows::Some(in_range) = in_range {
                    rows.retain(|row| in_range.binary_search(row).is_ok());
                }
                return Ok(Some(rows));
            }
        }
        let conditions = self.filter.conditions();
        if !conditions.requires_words(reader) {
            return Ok(None);
        }
        let outcome: Outcome = conditions.rows_with_words(reader)?;
        let (sure, mut maybe) = split_outcome(outcome, in_range);
        maybe.extend(sure.iter());
        maybe.sort_unstable();
        Ok(Some(maybe))
    }
}
