//! Reading events: from a snapshot's pages to rows with the columns a search needs.
//!
//! Rows are eliminated in three steps, from coarse to fine. The store prunes buckets by index and time, the term
//! dictionary prunes pages ([`crate::filter`]), and a test on raw text and metadata drops rows. Then fields are
//! extracted ([`crate::fields`]), and the full condition is tested. Rows come in parallel without order
//! ([`crate::slices`]) or newest first ([`crate::page_merge`]).
//!
//! Not here: commands (engine).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, Int64Array, StringViewBuilder, TimestampNanosecondArray};
use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::costs::ScanPart;
use quarry_eval::rows;
use quarry_event::time::NS_PER_SEC;
use quarry_event::{FieldNames, Page, PageColumns, PageSet, TermQuery, TimeNs, TimeRange};
use quarry_stdx::number::u32_of;
use quarry_store::{PageInfo, SearchReads, Segment, Snapshot, StoreError};

use crate::derive::{Derivations, FieldStrategy};
use crate::event_fields;
use crate::fields::{self, FieldRules, Projection, ShownFields, text_buffer};
use crate::filter::EventFilter;
use crate::page::{CandidateRows, PageRef};
use crate::partial_states::WindowPart;
use crate::plan::FirstRows;
use crate::pushed_commands::PushedCommands;
use crate::pushed_predicates::PushedPredicates;
use crate::row_selector::{PositionedRows, RowSelector};
use crate::summary::SummaryReader;
use crate::template_pages::{LazyFieldColumns, NeedleSlabs, SlabCache, TemplateRows};
use crate::top_k::TopKThreshold;

/// Largest number of candidate pages in a segment for which the matching rows are looked up in the bucket; a lookup
/// costs about as much as reading a column.
const ROW_LOOKUP_PAGES_MAX: u32 = 4;

/// Everything needed to read the events of one search.
pub struct EventScan {
    /// Segments that may hold matching events.
    pub snapshot: Snapshot,
    /// Requested time range.
    pub range: TimeRange,
    /// Requested range of index time (`_index_earliest`, `_index_latest`).
    pub(crate) index_range: TimeRange,
    /// The condition.
    pub(crate) filter: EventFilter,
    /// Requested fields.
    pub(crate) projection: Projection,
    /// Field extraction rules.
    pub(crate) rules: Arc<FieldRules>,
    /// Search-time fields added by knowledge objects.
    pub(crate) derivations: Derivations,
    /// Fields shown so far in the events list.
    pub(crate) shown: ShownFields,
    /// `rex` and `spath` commands, and functions of texts, that the scan evaluates.
    pub(crate) rexes: PushedCommands,
    /// Idle pattern readers for the fields from which rules compute other fields; holds no commands.
    pub(crate) computed_rexes: PushedCommands,
    /// Template slabs being read, with the locations of the search's fields.
    pub(crate) slabs: SlabCache,
    /// Slabs of which a few rows are read before their fields are located.
    pub(crate) needles: NeedleSlabs,
    /// Top-k threshold of a sort that keeps few rows.
    pub(crate) top_k: Option<TopKThreshold>,
    /// A `dedup` for which only the first rows of each page are read.
    pub(crate) first: Option<FirstRows>,
    /// Conditions that the commands after the scan impose on each row.
    pub(crate) demands: PushedPredicates,
    /// Finds the rows that the first commands keep, before the other fields of the rows are extracted.
    pub(crate) selector: Option<RowSelector>,
    /// Summaries to read instead of events.
    pub summary: Option<SummaryReader>,
    /// Whether the first and the last event of a page may represent all its events if these differ only in `_time`.
    pub(crate) extremes: bool,
    /// Whether events with equal values may be represented by one row with a count.
    pub(crate) counts: bool,
    /// Whether columns of ordered rows may hold addresses, decimals, and numbers with texts as exceptions.
    pub(crate) keeps_numbers: bool,
    /// Progress so far.
    pub progress: Arc<ScanProgress>,
    /// Counts events towards the limit of the search.
    pub(crate) stop: Arc<Stop>,
}

/// Progress of a scan, for progress bars and the job's statistics.
#[derive(Debug, Default)]
pub struct ScanProgress {
    pages_total: AtomicU64,
    pages_done: AtomicU64,
    events_scanned: AtomicU64,
    events_matched: AtomicU64,
    pages_kept: AtomicU64,
    reads: Arc<SearchReads>,
}

impl ScanProgress {
    /// Pages that may hold a match, counted so far.
    pub fn pages_total(&self) -> u64 {
        self.pages_total.load(Ordering::Relaxed)
    }

    /// Pages read.
    pub fn pages_done(&self) -> u64 {
        self.pages_done.load(Ordering::Relaxed)
    }

    /// Pages that were not read because their partial states were cached.
    pub fn pages_cached(&self) -> u64 {
        self.pages_kept.load(Ordering::Relaxed)
    }

    /// Number of events scanned by this search or, for cached states, by the search that created them.
    pub fn events_scanned(&self) -> u64 {
        self.events_scanned.load(Ordering::Relaxed)
    }

    /// Counters of reads of buckets on remote volumes.
    pub fn reads(&self) -> &Arc<SearchReads> {
        &self.reads
    }

    /// Events that passed the search condition.
    pub fn events_matched(&self) -> u64 {
        self.events_matched.load(Ordering::Relaxed)
    }

    /// Adds pages that will be read.
    pub(crate) fn add_planned_pages(&self, pages: u64) {
        self.pages_total.fetch_add(pages, Ordering::Relaxed);
    }

    /// Removes pages that were estimated, after the pages that exist were added.
    pub(crate) fn remove_planned_pages(&self, pages: u64) {
        self.pages_total.fetch_sub(pages, Ordering::Relaxed);
    }

    /// Counts a cached window as if it had been read.
    fn count_cached_window(&self, part: &WindowPart) {
        self.pages_kept.fetch_add(part.pages, Ordering::Relaxed);
        self.pages_done.fetch_add(part.pages, Ordering::Relaxed);
        self.events_scanned.fetch_add(part.scanned, Ordering::Relaxed);
        self.events_matched.fetch_add(part.matched, Ordering::Relaxed);
    }
}

impl EventScan {
    /// Whether events of a segment may match, judged by its metadata alone.
    pub fn may_match(&self, segment: &Arc<dyn Segment>) -> bool {
        self.filter.may_match_any(&segment.metas())
    }

    /// The query for term dictionaries.
    pub fn terms(&self) -> &TermQuery {
        self.filter.terms()
    }

    /// Fields that the condition tests.
    pub fn tested_fields(&self) -> impl Iterator<Item = &str> {
        self.filter.names()
    }

    /// Whether the event text is read for more than field extraction.
    pub fn reads_text(&self) -> bool {
        self.projection.raw || self.filter.reads_text()
    }

    /// Pages that may hold a match, in order of arrival. Damaged buckets are reported and skipped.
    pub fn pages(&self, context: &CommandContext) -> Result<Vec<PageRef>, EngineError> {
        self.pages_in(&self.snapshot, context)
    }

    /// Like [`EventScan::pages`], in the segments of this snapshot.
    pub(crate) fn pages_in(&self, snapshot: &Snapshot, context: &CommandContext) -> Result<Vec<PageRef>, EngineError> {
        report_damaged(snapshot, context);
        let segments = snapshot.segments.iter();
        let segments: Vec<&Arc<dyn Segment>> =
            segments.filter(|segment| self.may_match(segment) && !self.skips_segment(segment)).collect();
        let mut pages = Vec::new();
        for (segment, found) in segments.iter().zip(self.pages_of_all(&segments, snapshot, true, context)?) {
            let found = found.unwrap_or_default();
            segment.prefetch_pages(page_set(&found), self.reads_all_pages());
            pages.extend(found);
        }
        self.progress.add_planned_pages(pages.len() as u64);
        Ok(pages)
    }

    /// Whether all pages are read regardless of the order of rows.
    pub(crate) fn reads_all_pages(&self) -> bool {
        self.has_threshold()
    }

    /// Whether the rows returned for a page depend on other pages, so that a second read may return fewer.
    pub(crate) fn has_threshold(&self) -> bool {
        self.top_k.is_some() || self.selector.as_ref().is_some_and(RowSelector::has_threshold)
    }

    /// Lets columns of ordered rows hold addresses, decimals, and numbers with texts as exceptions; the reader of the
    /// rows supports these forms.
    pub fn keep_numbers(&mut self) {
        self.keeps_numbers = true;
    }

    /// Whether only summaries are read and this segment has no summary.
    pub(crate) fn skips_segment(&self, segment: &Arc<dyn Segment>) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.skips_segment(segment))
    }

    /// The rows that a summary holds for a page; `None` if the page itself must be read.
    pub(crate) fn read_summary(&self, page: &PageRef) -> Result<Option<RecordBatch>, EngineError> {
        let Some(summary) = &self.summary else { return Ok(None) };
        let rows = summary.read_page(page, &self.range)?;
        if let Some(rows) = &rows {
            self.count_page(page, rows::event_count(rows));
        }
        Ok(rows)
    }

    /// All pages of a segment within the time range.
    pub(crate) fn all_pages_of(&self, segment: &Arc<dyn Segment>) -> Vec<PageRef> {
        let pages = segment.pages().iter().enumerate();
        let wanted = pages.filter(|(_, info)| self.range.overlaps(info.time_min, info.time_max));
        let page = |(page, info): (usize, &PageInfo)| PageRef {
            segment: Arc::clone(segment),
            page,
            info: *info,
            is_rare: false,
            candidates: CandidateRows::Any,
        };
        wanted.map(page).collect()
    }

    /// Pages of a segment that may hold a match; `None`, after a report, if the segment is damaged.
    pub fn pages_of(
        &self,
        segment: &Arc<dyn Segment>,
        context: &CommandContext,
    ) -> Result<Option<Vec<PageRef>>, EngineError> {
        // Segments whose last event was indexed before the requested range of index time need not be opened.
        let is_too_old = |earliest: TimeNs| segment.latest_arrival().is_some_and(|latest| latest < earliest);
        if self.index_range.earliest.is_some_and(is_too_old) {
            return Ok(Some(Vec::new()));
        }
        let fields = LazyFieldColumns { scan: self, segment, messages: &context.messages };
        let candidates = match segment.candidate_pages(self.filter.terms(), &fields) {
            Ok(candidates) => candidates,
            Err(error) => return report_damage_or_fail(context, error).map(|()| None),
        };
        // The query may reveal damage that hides no events yet, such as an unreadable term filter.
        if let Some(damage) = segment.damage() {
            report_damage(context, &damage.to_string());
        }
        let demanded = match self.demands.terms() {
            TermQuery::All => None,
            terms => match segment.candidate_pages(terms, &fields) {
                Ok(demanded) => Some(demanded),
                Err(error) => return report_damage_or_fail(context, error).map(|()| None),
            },
        };
        let pages = segment.pages().iter().enumerate();
        let wanted = pages
            .filter(|(page, info)| candidates.contains(*page) && self.range.overlaps(info.time_min, info.time_max));
        let is_rare = candidates.0.count_ones() <= ROW_LOOKUP_PAGES_MAX;
        let demanded_of = |page: usize| match &demanded {
            Some(demanded) if !demanded.contains(page) => CandidateRows::None,
            Some(demanded) if demanded.0.count_ones() <= ROW_LOOKUP_PAGES_MAX => CandidateRows::Rare,
            _ => CandidateRows::Any,
        };
        let page_ref = |(page, info): (usize, &PageInfo)| {
            let demanded = demanded_of(page);
            PageRef { segment: Arc::clone(segment), page, info: *info, is_rare, candidates: demanded }
        };
        Ok(Some(wanted.map(page_ref).collect()))
    }

    /// The matching rows of a page in order of arrival; `None` if no row matches or the page is damaged.
    pub fn read(&self, page: &PageRef, context: &CommandContext) -> Result<Option<RecordBatch>, EngineError> {
        self.read_as(page, false, context, &mut 0)
    }

    /// Like [`EventScan::read`], but with dictionary-coded columns, and without `_time` unless it is requested.
    pub fn read_coded(&self, page: &PageRef, context: &CommandContext) -> Result<Option<RecordBatch>, EngineError> {
        self.read_page(page, true, context, &mut 0)
    }

    /// Reads a page like [`EventScan::read_coded`] if `coded`, else like [`EventScan::read`]; adds to `left` the
    /// number of matching rows that are excluded.
    pub(crate) fn read_page(
        &self,
        page: &PageRef,
        coded: bool,
        context: &CommandContext,
        left: &mut usize,
    ) -> Result<Option<RecordBatch>, EngineError> {
        if coded && self.only_counts() && self.covers_page(page) {
            let rows = rows::batch_of(Vec::<(String, ArrayRef)>::new(), page.info.events as usize)?;
            self.count_page(page, rows.num_rows() as u64);
            return Ok(Some(rows));
        }
        self.read_as(page, coded, context, left)
    }

    fn read_as(
        &self,
        page: &PageRef,
        coded: bool,
        context: &CommandContext,
        left: &mut usize,
    ) -> Result<Option<RecordBatch>, EngineError> {
        let before = *left;
        let rows = context.costs.measure_part(ScanPart::Pages, || {
            let rows = match &self.selector {
                // The few rows of a rare page are read at once.
                Some(selector) if !coded && !page.is_rare => {
                    let selected = selector.select(page, context, left)?;
                    self.rows_at(page, selected, context)?
                }
                _ => self.rows_of_page(page, coded, context, left)?,
            };
            match (coded, rows) {
                (false, Some(placed)) => self.drop_excluded_rows(placed.rows, left).map(Some),
                (true, Some(placed)) if self.projection.listed.is_some() => self.found_columns(&placed.rows).map(Some),
                (_, rows) => Ok(rows.map(|placed| placed.rows)),
            }
        });
        context.costs.add_text_bytes(page.info.raw_bytes);
        self.count_excluded_rows(*left - before);
        self.finish_read(page, rows, context)
    }

    /// Reads the matching rows of a page without counting the page as read; adds to `left` the number of rows that the
    /// top-k threshold or a demand excluded.
    fn rows_of_page(
        &self,
        page: &PageRef,
        coded: bool,
        context: &CommandContext,
        left: &mut usize,
    ) -> Result<Option<PositionedRows>, EngineError> {
        let way = self.derivations.strategy_of(&page.segment, &context.messages)?;
        if way.by_text {
            return self.read_plain(page, self.all_columns(page), None, context);
        }
        let columns = self.columns_of_page(page, &way);
        match self.read_templates(page, columns, &way, coded, context, left)? {
            TemplateRows::Rows(rows) => Ok(rows),
            TemplateRows::PlainTexts => self.read_plain(page, columns, None, context),
        }
    }

    /// The matching rows of a page with their positions; columns may be dictionary-coded.
    pub(crate) fn positioned_rows(
        &self,
        page: &PageRef,
        context: &CommandContext,
        left: &mut usize,
    ) -> Result<Option<PositionedRows>, EngineError> {
        self.rows_of_page(page, false, context, left)
    }

    /// Builds the rows at these positions of a page, all of which match, from their texts.
    fn rows_at(
        &self,
        page: &PageRef,
        selected: Vec<u32>,
        context: &CommandContext,
    ) -> Result<Option<PositionedRows>, EngineError> {
        if selected.is_empty() {
            return Ok(None);
        }
        let way = self.derivations.strategy_of(&page.segment, &context.messages)?;
        if way.by_text {
            return self.read_plain(page, self.all_columns(page), Some(selected), context);
        }
        let columns = self.columns_of_page(page, &way);
        match self.read_templates_at(page, &selected, columns, &way, context)? {
            TemplateRows::Rows(rows) => Ok(rows),
            TemplateRows::PlainTexts => self.read_plain(page, columns, Some(selected), context),
        }
    }

    /// The columns of a page needed to build its rows.
    fn columns_of_page(&self, page: &PageRef, way: &FieldStrategy) -> PageColumns {
        PageColumns {
            raw: self.needs_raw() || way.computed.is_some(),
            index_time: self.projection.index_time
                || way.index_time
                || self.index_range != TimeRange::ALL
                || self.filter.names_field("_indextime"),
            fields: self.index_time_fields(page, way),
        }
    }

    /// The index-time fields of a page that the search reads.
    fn index_time_fields(&self, page: &PageRef, way: &FieldStrategy) -> FieldNames {
        let is_read = self.projection.needs_text() || self.filter.tests_fields();
        if !is_read || !page.segment.may_hold_fields(page.page) {
            return FieldNames::NONE;
        }
        // Rules that compute fields may read any field.
        if self.projection.has_patterns() || way.computed.is_some() {
            return FieldNames::ALL;
        }
        let names = self.extracted_names();
        let named = names.iter().chain(self.filter.index_time_fields()).map(String::as_str);
        FieldNames::of(named).union(self.rules.fields_read())
    }

    /// All columns, for pages that are read as text.
    fn all_columns(&self, page: &PageRef) -> PageColumns {
        let has_fields = page.segment.may_hold_fields(page.page);
        PageColumns { raw: true, index_time: true, fields: if has_fields { FieldNames::ALL } else { FieldNames::NONE } }
    }

    /// The rows that may pass the commands after the scan, as plain columns; adds the number of the other rows to
    /// `left`.
    fn drop_excluded_rows(&self, rows: RecordBatch, left: &mut usize) -> Result<RecordBatch, EngineError> {
        let read = rows.num_rows();
        // Template pages drop these rows early only where that saves work, and plain pages never.
        let rows = self.demands.filter_rows(rows)?;
        let rows = match &self.top_k {
            Some(top_k) => top_k.filter_rows(rows)?,
            None => rows,
        };
        let rows = match &self.first {
            Some(first) => first.filter_rows(rows)?,
            None => rows,
        };
        *left += read - rows.num_rows();
        let rows = self.requested_columns(&match self.keeps_numbers {
            true => rows::decode_rows_except_numbers(&rows)?,
            false => rows::decode_rows(&rows)?,
        })?;
        if self.projection.has_patterns() { self.found_columns(&rows) } else { Ok(rows) }
    }

    /// The rows of a search that reads fields without naming them: the fields that events have, sorted by name, after
    /// the columns of every event. Which other columns there are, and their order, depends on how a page is stored.
    fn found_columns(&self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let Projection { all, names, listed, .. } = &self.projection;
        let is_listed = |name: &str| listed.as_ref().is_some_and(|listed| listed.contains(name));
        let is_named = |name: &str| !all && names.iter().any(|named| named == name) && !is_listed(name);
        let has_value = |at: usize| rows.column(at).logical_null_count() < rows.num_rows();
        let schema = rows.schema_ref();
        let name = |at: usize| schema.field(at).name().as_str();
        let (mut kept, mut found): (Vec<usize>, Vec<usize>) = (0..rows.num_columns())
            .filter(|at| event_fields::is_intrinsic_field(name(*at)) || is_named(name(*at)) || has_value(*at))
            .partition(|at| event_fields::is_intrinsic_field(name(*at)));
        found.sort_by_key(|at| name(*at));
        kept.append(&mut found);
        Ok(rows.project(&kept)?)
    }

    /// The rows without columns that only the condition or a pushed-down command read.
    fn requested_columns(&self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let is_requested =
            |name: &str| name == "_time" || (self.projection.includes(name) && !self.rexes.reads_exclusively(name));
        match rows.schema_ref().fields().iter().all(|field| is_requested(field.name())) {
            true => Ok(rows.clone()),
            false => rows::drop_columns(rows, |name| !is_requested(name)),
        }
    }

    fn finish_read(
        &self,
        page: &PageRef,
        rows: Result<Option<RecordBatch>, EngineError>,
        context: &CommandContext,
    ) -> Result<Option<RecordBatch>, EngineError> {
        match rows {
            Ok(rows) => {
                self.count_page(page, rows.as_ref().map_or(0, rows::event_count));
                Ok(rows)
            }
            Err(EngineError::Store(error)) => {
                report_damage_or_fail(context, error)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The matching rows among the given positions, or among all rows within the time range.
    fn read_plain(
        &self,
        page: &PageRef,
        columns: PageColumns,
        selected: Option<Vec<u32>>,
        context: &CommandContext,
    ) -> Result<Option<PositionedRows>, EngineError> {
        let events = context.costs.measure_part(ScanPart::RawData, || page.segment.read_page(page.page, columns))?;
        let selected = selected.unwrap_or_else(|| self.event_rows_in_range(&events, &page.info));
        let found = self.filter_rows(&events, selected, context)?;
        Ok(found.map(|(rows, positions)| PositionedRows { rows, positions }))
    }

    /// The matching rows of a page, read as text, and their positions in the page.
    pub fn read_with_positions(
        &self,
        page: &PageRef,
        context: &CommandContext,
    ) -> Result<Option<(RecordBatch, Vec<u32>)>, EngineError> {
        let events = match page.segment.read_page(page.page, self.all_columns(page)) {
            Ok(events) => events,
            Err(error) => return report_damage_or_fail(context, error).map(|()| None),
        };
        let found = self.filter_rows(&events, self.event_rows_in_range(&events, &page.info), context)?;
        self.count_page(page, found.as_ref().map_or(0, |(_, rows)| rows.len() as u64));
        Ok(found)
    }

    /// Counts matching rows that were excluded.
    fn count_excluded_rows(&self, rows: usize) {
        self.stop.count_events(rows as u64);
        self.progress.events_matched.fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn count_page(&self, page: &PageRef, found: u64) {
        self.progress.pages_done.fetch_add(1, Ordering::Relaxed);
        self.progress.events_scanned.fetch_add(u64::from(page.info.events), Ordering::Relaxed);
        self.progress.events_matched.fetch_add(found, Ordering::Relaxed);
        self.stop.count_events(found);
    }

    /// Counts a window whose partial states are cached as if it had been read.
    pub(crate) fn count_cached_window(&self, part: &WindowPart) {
        self.progress.count_cached_window(part);
        self.stop.count_events(part.matched);
    }

    /// Reverts the counts for a page with `found` rows, which will be read again or was only prefetched.
    pub(crate) fn uncount_page(&self, page: &PageRef, found: u64) {
        let take_back = |count: &AtomicU64, read: u64| {
            let before = count.fetch_sub(read, Ordering::Relaxed);
            assert!(before >= read, "only what was counted as read is taken back");
        };
        take_back(&self.progress.pages_done, 1);
        take_back(&self.progress.events_scanned, u64::from(page.info.events));
        take_back(&self.progress.events_matched, found);
        self.stop.uncount_events(found);
    }

    /// Reads a page only to fetch its blocks into the cache; the page does not count as read.
    pub(crate) fn prefetch_page(
        &self,
        page: &PageRef,
        coded: bool,
        context: &CommandContext,
    ) -> Result<(), EngineError> {
        if coded && self.only_counts() && self.covers_page(page) {
            return Ok(());
        }
        // A selector chooses the rows to keep only when the page is read.
        let scan = self.selector.as_ref().filter(|_| !coded).map_or(self, |selector| &selector.scan);
        // Excluded rows are counted by the worker that reads the page.
        scan.rows_of_page(page, coded, context, &mut 0).map(drop)
    }

    fn needs_raw(&self) -> bool {
        self.projection.raw || self.projection.needs_text() || self.filter.reads_text() || !self.rexes.is_empty()
    }

    /// The matching rows among `selected`, and their positions.
    pub(crate) fn filter_rows(
        &self,
        events: &Page,
        mut selected: Vec<u32>,
        context: &CommandContext,
    ) -> Result<Option<(RecordBatch, Vec<u32>)>, EngineError> {
        debug_assert!(selected.is_sorted(), "rows are in order of arrival");
        context.costs.measure_part(ScanPart::Filter, || self.filter.narrow(events, &mut selected));
        if selected.is_empty() {
            return Ok(None);
        }
        let mut batch = self.columns(events, &selected, context)?;
        if let Some(condition) = self.filter.final_test() {
            let keep = context.costs.measure_part(ScanPart::Filter, || condition.matches(&batch))?;
            batch = rows::filter(&batch, &keep)?;
            let mut kept = keep.values().iter();
            selected.retain(|_| kept.next().unwrap_or(false));
        }
        assert_eq!(batch.num_rows(), selected.len(), "each row is an event that was selected");
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let batch = self.drop_filter_columns(batch)?;
        let batch = self.rexes.extract_from_texts(batch, || raw_column(events, &selected))?;
        Ok(Some((batch, selected)))
    }

    /// Drops columns that only the condition reads.
    pub(crate) fn drop_filter_columns(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let extra = self.projection.filter_only_columns(&self.filter);
        let projection = &self.projection;
        if extra.is_empty() && projection.tested_patterns.is_empty() && self.filter.index_time_fields().is_empty() {
            return Ok(rows);
        }
        let is_extra = |name: &str| extra.iter().any(|drop| drop == name) || projection.is_only_tested(name);
        rows::drop_columns(&rows, |name| event_fields::is_index_time_column(name) || is_extra(name))
    }

    /// Rows within the time range.
    pub(crate) fn event_rows_in_range(&self, events: &Page, info: &PageInfo) -> Vec<u32> {
        let all = 0..u32_of(events.len());
        let whole = self.range.contains(info.time_min) && self.range.contains(info.time_max);
        let mut rows: Vec<u32> = match whole {
            true => all.collect(),
            false => all.filter(|row| self.range.contains(events.time[*row as usize])).collect(),
        };
        if self.index_range != TimeRange::ALL {
            rows.retain(|row| self.index_range.contains(events.index_time[*row as usize]));
        }
        rows
    }

    /// The requested columns of the selected rows.
    pub(crate) fn columns(
        &self,
        events: &Page,
        selected: &[u32],
        context: &CommandContext,
    ) -> Result<RecordBatch, EngineError> {
        let Some(wide) = self.derivations.projection_for(events, &self.projection, &context.messages)? else {
            return self.extract_columns(events, selected, &self.projection, context);
        };
        let rows = self.extract_columns(events, selected, &wide, context)?;
        let rows = context
            .costs
            .measure_part(ScanPart::Rules, || self.derivations.add(rows, events, selected, &wide, &context.messages))?;
        assert_eq!(rows.num_rows(), selected.len(), "rules add fields, and neither add nor remove rows");
        let keeps = |name: &str| match name {
            "_time" => true,
            "_raw" => self.projection.raw || self.filter.tests_raw(),
            "_indextime" => self.projection.index_time || self.filter.names_field(name),
            name => {
                self.projection.includes(name)
                    || self.filter.reads_field(name)
                    || event_fields::is_index_time_column(name)
            }
        };
        rows::drop_columns(&rows, |name| !keeps(name))
    }

    /// The columns of `projection` and of the condition.
    fn extract_columns(
        &self,
        events: &Page,
        selected: &[u32],
        projection: &Projection,
        context: &CommandContext,
    ) -> Result<RecordBatch, EngineError> {
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        let times = selected.iter().map(|row| events.time[*row as usize]);
        columns.push(("_time".into(), Arc::new(TimestampNanosecondArray::from_iter_values(times))));
        if projection.raw || self.filter.tests_raw() {
            columns.push(("_raw".into(), raw_column(events, selected)?));
        }
        for field in quarry_eval::field_names::METADATA_FIELDS {
            if projection.includes(field) || self.filter.names_field(field) {
                columns.push((field.into(), metadata_column(events, selected, field)?));
            }
        }
        if projection.index_time || self.filter.names_field("_indextime") {
            let seconds = selected.iter().map(|row| events.index_time.get(*row as usize).map(|time| time / NS_PER_SEC));
            columns.push(("_indextime".into(), Arc::new(seconds.collect::<Int64Array>())));
        }
        if projection.needs_text() || self.filter.tests_fields() {
            let projection = projection.with_filter_fields(&self.filter);
            columns.extend(context.costs.measure_part(ScanPart::Fields, || {
                fields::extract_fields(events, selected, &projection, &self.rules, &self.shown, &context.messages)
            })?);
        }
        columns.extend(self.filter.index_time_fields().iter().map(|field| index_time_column(events, selected, field)));
        rows::batch_of(columns, selected.len())
    }
}

/// Reports the damaged buckets of a snapshot.
pub(crate) fn report_damaged(snapshot: &Snapshot, context: &CommandContext) {
    for damage in &snapshot.damaged {
        report_damage(context, &damage.to_string());
    }
}

/// The set of page numbers of these pages, all of one segment.
pub(crate) fn page_set(pages: &[PageRef]) -> PageSet {
    PageSet(pages.iter().fold(0, |set, page| set | PageSet::single(page.page).0))
}

fn raw_column(events: &Page, selected: &[u32]) -> Result<ArrayRef, EngineError> {
    let mut builder = StringViewBuilder::with_capacity(selected.len());
    let block = builder.append_block(text_buffer(events));
    for row in selected {
        let row = *row as usize;
        let start = if row == 0 { 0 } else { events.ends[row - 1] };
        builder.try_append_view(block, start, events.ends[row] - start)?;
    }
    Ok(Arc::new(builder.finish()))
}

fn metadata_column(events: &Page, selected: &[u32], field: &str) -> Result<ArrayRef, EngineError> {
    let mut builder = StringViewBuilder::with_capacity(selected.len());
    let mut texts = Vec::new();
    let places: Vec<(u32, u32)> = (events.metas.iter())
        .map(|meta| {
            let text = event_fields::metadata_text(meta, field);
            let start = u32_of(texts.len());
            texts.extend_from_slice(text.as_bytes());
            (start, u32_of(text.len()))
        })
        .collect();
    let block = builder.append_block(Buffer::from(texts));
    for row in selected {
        let (start, len) = places[events.meta[*row as usize] as usize];
        builder.try_append_view(block, start, len)?;
    }
    Ok(Arc::new(builder.finish()))
}

/// The index-time values of a field, with the name of their column.
fn index_time_column(events: &Page, selected: &[u32], field: &str) -> (String, ArrayRef) {
    let mut column = rows::ColumnBuilder::new(selected.len());
    for row in selected {
        let values: Vec<&str> = event_fields::index_time_values(events, *row as usize, field).collect();
        match values.as_slice() {
            [] => column.push_null(),
            [value] => column.push_text(value),
            values => column.push_multi(values),
        }
    }
    (event_fields::index_time_column_name(field), column.finish())
}

/// A bucket that is damaged or cannot be read makes the answer partial; any other error ends the search.
fn report_damage_or_fail(context: &CommandContext, error: StoreError) -> Result<(), EngineError> {
    match error {
        StoreError::Corrupt { .. } | StoreError::Unreadable { .. } => {
            report_damage(context, &error.to_string());
            Ok(())
        }
        other => Err(other.into()),
    }
}

/// Reports damage; the answer is then partial.
pub(crate) fn report_damage(context: &CommandContext, message: &str) {
    context.messages.push(message);
    context.stop.mark_partial();
}

#[cfg(test)]
mod tests;
