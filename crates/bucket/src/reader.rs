//! Reading a bucket by range: directory first, then only the blocks that a search needs.
//!
//! Opening reads the structures at the end of the object. A page's blocks are consecutive, columns before text, so that
//! the usual read of a page is one range. Term dictionary directories are read on first use and cached.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use quarry_event::template::{
    ColumnKind, ColumnValues, Dictionary, FieldColumn, NumberFormat, TEXT_COLUMN, TemplateSet, Texts,
};
use quarry_event::term::MetaField;
use quarry_event::{
    FieldColumns, FieldNames, IndexedFields, MarkSet, Metadata, Page, PageColumns, PageSet, TermQuery, TextMark,
    TimeNs, ValueColumns,
};

use crate::block::{BlockKind, BlockRef, open_block};
use crate::columns::{PageFacts, SharedCache, SlabColumns, TemplatePage, TextBuffer};
use crate::directory::{Directory, PageHead, SlabHead, TRAILER_BYTES, read_trailer};
use crate::error::{BlockPosition, BucketError};
use crate::fields::{FieldValues, MAX_FIELD_BLOCK_BYTES, add_column_fields, read_fields};
use crate::filter::SlabFacts;
use crate::integers::{decode_integers, ends_of_lengths};
use crate::limits::{MAX_DIRECTORY_BYTES, MAX_PAGE_EVENTS, MAX_SLAB_HEAD_BYTES};
use crate::locator::Locator;
use crate::metas::{MetaSet, field_text, matches_pattern};
use crate::read_ahead::{ReadAhead, ReadAheadBudget};
use crate::read_at::ReadAt;
use crate::source::ObjectSource;
use crate::summary::BucketSummary;
use crate::term_dictionary::field_terms::{FieldLookup, field_lookup, name_term};
use crate::term_dictionary::read::TermDictionary;
use crate::term_dictionary::scan::TokenPattern;
use crate::term_dictionary::{Namespace, truncate_term};
use crate::wire::Malformed;

/// Maximum gap between blocks of a page that are fetched in one read.
const MAX_READ_GAP_BYTES: u64 = 64 << 10;
/// Length from which tokens count as equally rare.
const LONG_TOKEN_BYTES_MIN: usize = 6;
/// Maximum decoded bytes of an integer column of a page: 64 bits per value and a header.
pub(crate) const MAX_INTEGER_BLOCK_BYTES: usize = MAX_PAGE_EVENTS * 8 + 64;

/// An open bucket. Clones share everything read so far.
#[derive(Clone, Debug)]
pub struct BucketReader {
    pub(crate) source: ObjectSource,
    opened: Arc<BucketMetadata>,
}

/// Metadata of a bucket.
#[derive(Debug)]
struct BucketMetadata {
    summary: BucketSummary,
    slabs: Vec<SlabInfo>,
    parts: Vec<SlabParts>,
    directory: BlockRef,
    shared: Arc<SharedCache>,
}

/// Parts of a slab that [`SlabInfo`] does not show.
#[derive(Debug)]
pub(crate) struct SlabParts {
    pub(crate) head: BlockRef,
    /// Blocks of each page.
    pub(crate) pages: Vec<Vec<BlockRef>>,
    pub(crate) tokens: TermDictionarySlot,
    pub(crate) fields: TermDictionarySlot,
    pub(crate) columns: ColumnsSlot,
    pub(crate) locator: LocatorSlot,
    /// Directories of the shared dictionaries that the columns use, if the dictionaries are stored in runs, and text
    /// dictionaries.
    pub(crate) listed: Vec<BlockRef>,
}

impl SlabParts {
    /// Byte ranges of the token dictionary's directory and of the locator's directory, each only if the directory is
    /// not open yet.
    pub(crate) fn unopened_directories(&self) -> Vec<Range<u64>> {
        let tokens = self.tokens.at.filter(|_| self.tokens.opened.get().is_none());
        let locator = self.locator.at.filter(|_| self.locator.opened.get().is_none());
        tokens.into_iter().chain(locator).map(|at| at.range()).collect()
    }
}

/// Locator of a slab, opened on first use; `at` is `None` if the slab has no locator.
#[derive(Debug)]
pub(crate) struct LocatorSlot {
    pub(crate) at: Option<BlockRef>,
    opened: OnceLock<Locator>,
}

/// The columns of a slab, opened on first use; `at` is `None` if the pages hold plain text.
#[derive(Debug)]
pub(crate) struct ColumnsSlot {
    pub(crate) at: Option<BlockRef>,
    pub(crate) opened: OnceLock<Arc<SlabColumns>>,
}

/// A term dictionary, opened on first use; `at` is `None` if the slab has no such terms.
#[derive(Debug)]
pub(crate) struct TermDictionarySlot {
    namespace: Namespace,
    pub(crate) at: Option<BlockRef>,
    opened: OnceLock<TermDictionary>,
}

/// Metadata of a slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabInfo {
    /// Row of its first event within the bucket.
    pub first_row: u64,
    /// Its pages in arrival order, at most 64.
    pub pages: Vec<PageInfo>,
    /// Distinct metadata of its events.
    pub metas: Arc<[Metadata]>,
    /// Marks that no text has; in older buckets empty.
    pub absent_marks: MarkSet,
}

/// Metadata of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageInfo {
    /// Row of its first event within the bucket.
    pub first_row: u64,
    /// Number of events.
    pub events: u32,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Bytes of text.
    pub raw_bytes: u64,
    /// Metadata codes of the slab that occur in the page.
    pub metas: MetaSet,
}

/// Scope of a search for tokens.
#[derive(Clone, Copy)]
pub(crate) struct TokenScope<'a> {
    pub slab: usize,
    /// The columns that hold the values of each field in the slab.
    pub fields: &'a dyn FieldColumns,
    /// Restricts the search to these columns if the tokens belong to a field's value.
    pub within: Option<&'a ValueColumns>,
    /// Returns whether the slab's term filter allows a token to be in the slab.
    pub may_hold: &'a dyn Fn(&[u8]) -> bool,
}

impl TokenScope<'_> {
    /// Whether the tokens may be in this column.
    pub(crate) fn includes_column(&self, column: u32) -> bool {
        self.within.is_none_or(|within| within.columns.contains(&column))
    }
}

impl BucketReader {
    /// Opens a bucket: reads and checks its directory and slab heads, but no events.
    pub fn open(object: Arc<dyn ReadAt>) -> Result<BucketReader, BucketError> {
        let source = ObjectSource::open(object)?;
        let trailer_at = BlockPosition::outside_slabs("trailer", source.len().saturating_sub(TRAILER_BYTES as u64));
        let trailer = source.fetch_block(trailer_at, TRAILER_BYTES)?;
        let (offset, stored_len) = read_trailer(&trailer, trailer_at)?;
        let directory_at = BlockRef { kind: BlockKind::Directory, offset, stored_len };
        let place = BlockPosition::outside_slabs("directory", offset);
        if offset.checked_add(u64::from(stored_len)) != Some(trailer_at.offset) {
            return Err(place.corrupt("the directory does not end where the trailer starts"));
        }
        let bytes = source.fetch_block(place, stored_len as usize)?;
        let raw = open_block(&bytes, BlockKind::Directory, place, MAX_DIRECTORY_BYTES)?.decode()?;
        let directory = place.map_malformed(Directory::read(&raw))?;
        let mut opened = BucketMetadata {
            summary: BucketSummary { object_bytes: source.len(), ..directory.summary },
            slabs: Vec::with_capacity(directory.slabs.len()),
            parts: Vec::with_capacity(directory.slabs.len()),
            directory: directory_at,
            shared: Arc::default(),
        };
        let mut first_row = 0;
        for (number, (offset, stored_len)) in directory.slabs.into_iter().enumerate() {
            let head = BlockRef { kind: BlockKind::SlabHead, offset, stored_len };
            first_row = opened.add_slab(&source, number, head, first_row)?;
        }
        if first_row != opened.summary.events {
            let reason = format!("the slabs have {first_row} events, but the summary says {}", opened.summary.events);
            return Err(place.corrupt(reason));
        }
        Ok(BucketReader { source, opened: Arc::new(opened) })
    }

    /// The bucket for a search that is going to read these pages of a slab; `is_certain` tells whether the search will
    /// read all of them. A request for one page also fetches the same columns and blocks of other pages, within
    /// `budget`. Panics if there is no such slab, as slice indexing does.
    pub fn with_read_ahead(
        &self,
        slab: usize,
        pages: PageSet,
        is_certain: bool,
        budget: &ReadAheadBudget,
    ) -> BucketReader {
        let ahead = ReadAhead::new(pages, is_certain, self.opened.parts[slab].pages.clone(), budget);
        BucketReader { source: self.source.with_read_ahead(Arc::new(ahead)), opened: Arc::clone(&self.opened) }
    }

    /// Announces that a few values of these columns of a slab will be read, so that the next request with read-ahead
    /// also fetches them.
    pub fn plan_columns(&self, slab: usize, columns: &[u32]) -> Result<(), BucketError> {
        if let Some(known) = self.columns(slab)? {
            known.plan_for_search(&self.source, columns);
        }
        Ok(())
    }

    /// Number of network requests sent for the bucket so far, if its object counts them.
    pub fn request_count(&self) -> u64 {
        self.source.request_count()
    }

    /// Tells read-ahead that this page will not be read any more.
    pub fn release_page(&self, page: usize) {
        if let Some(search) = self.source.read_ahead() {
            search.release_page(page);
        }
    }

    pub(crate) fn directory_block(&self) -> BlockRef {
        self.opened.directory
    }
}

impl BucketMetadata {
    /// Reads a slab's head; returns the first row after the slab.
    fn add_slab(
        &mut self,
        source: &ObjectSource,
        number: usize,
        head_at: BlockRef,
        first_row: u64,
    ) -> Result<u64, BucketError> {
        assert_eq!(number, self.slabs.len(), "rows are numbered in the order of the slabs");
        let place = BlockPosition::outside_slabs("slab head", head_at.offset).in_slab(number);
        let bytes = source.fetch_block(place, head_at.stored_len as usize)?;
        let raw = open_block(&bytes, BlockKind::SlabHead, place, MAX_SLAB_HEAD_BYTES)?.decode()?;
        let head = SlabHead::read(&raw, place)?;
        let slot = |namespace: Namespace| TermDictionarySlot {
            namespace,
            at: head.block(namespace.directory_kind()).or_else(|| match namespace {
                Namespace::Fields => head.block(BlockKind::TextFieldTermDirectory),
                Namespace::Tokens => None,
            }),
            opened: OnceLock::new(),
        };
        let columns = ColumnsSlot { at: head.block(BlockKind::ColumnLayout), opened: OnceLock::new() };
        let locator_at = head.block(BlockKind::LocatorDirectory).or(head.block(BlockKind::Locator));
        let locator = LocatorSlot { at: locator_at, opened: OnceLock::new() };
        let (tokens, fields) = (slot(Namespace::Tokens), slot(Namespace::Fields));
        let is_of_columns =
            |at: &&BlockRef| matches!(at.kind, BlockKind::SharedDictionaryDirectory | BlockKind::TextDictionary);
        let listed = head.blocks.iter().filter(is_of_columns).copied().collect();
        let mut row = first_row;
        let mut pages = Vec::with_capacity(head.pages.len());
        let mut blocks = Vec::with_capacity(head.pages.len());
        for page in head.pages {
            let PageHead { events, time_min, time_max, raw_bytes, metas, blocks: page_blocks, .. } = page;
            pages.push(PageInfo { first_row: row, events, time_min, time_max, raw_bytes, metas });
            blocks.push(page_blocks);
            row += u64::from(events);
        }
        self.slabs.push(SlabInfo { first_row, pages, metas: head.metas, absent_marks: head.absent_marks });
        let parts = SlabParts { head: head_at, pages: blocks, tokens, fields, columns, locator, listed };
        self.parts.push(parts);
        assert_eq!(self.parts.len(), self.slabs.len(), "each slab has its blocks");
        Ok(row)
    }
}

impl BucketReader {
    /// Facts about the whole bucket.
    pub fn summary(&self) -> &BucketSummary {
        &self.opened.summary
    }

    /// Its slabs in arrival order.
    pub fn slabs(&self) -> &[SlabInfo] {
        &self.opened.slabs
    }

    /// The facts about slab `slab` that are known without its filter. Panics if there is no such slab, as slice
    /// indexing does.
    pub fn slab_facts(&self, slab: usize) -> SlabFacts {
        SlabFacts { has_fields: self.has_fields(slab), absent_marks: self.opened.slabs[slab].absent_marks }
    }

    pub(crate) fn parts(&self) -> &[SlabParts] {
        &self.opened.parts
    }

    /// Whether events of slab `slab` have index-time fields. Panics if there is no such slab, as slice indexing does.
    pub fn has_fields(&self, slab: usize) -> bool {
        self.opened.parts[slab].fields.at.is_some()
    }

    /// Pages of slab `slab` that may hold a match: a superset of the pages with matches. A slab that does not exist has
    /// no pages. Tokens of a field's value are searched only in columns where `fields` locates such values.
    pub fn candidate_pages(
        &self,
        slab: usize,
        query: &TermQuery,
        fields: &dyn FieldColumns,
    ) -> Result<PageSet, BucketError> {
        self.candidate_pages_with_filter(slab, query, fields, &|_| true)
    }

    /// Like [`BucketReader::candidate_pages`], but asks `may_hold`, a term filter, whether the slab may contain a
    /// token. The filter is asked only about a token that the term dictionary lacks, before columns are searched for
    /// the token: in a remote bucket, a lookup in the dictionary takes fewer bytes and requests than a lookup in the
    /// filter.
    pub fn candidate_pages_with_filter(
        &self,
        slab: usize,
        query: &TermQuery,
        fields: &dyn FieldColumns,
        may_hold: &dyn Fn(&[u8]) -> bool,
    ) -> Result<PageSet, BucketError> {
        let Some(info) = self.opened.slabs.get(slab) else {
            return Ok(PageSet::default());
        };
        let all = PageSet::first(info.pages.len());
        let asked = TokenScope { slab, fields, within: None, may_hold };
        Ok(PageSet(self.query_pages(asked, query, all)?.0 & all.0))
    }

    /// Pages of `among` that may match `query`.
    fn query_pages(&self, asked: TokenScope<'_>, query: &TermQuery, among: PageSet) -> Result<PageSet, BucketError> {
        let slab = asked.slab;
        let found = match query {
            TermQuery::All => among.0,
            TermQuery::None => 0,
            TermQuery::Token(token) => {
                self.token_pages(asked, TokenPattern::Token(truncate_term(token.as_bytes())), among)?
            }
            TermQuery::Prefix(prefix) => {
                self.token_pages(asked, TokenPattern::Prefix(truncate_term(prefix.as_bytes())), among)?
            }
            TermQuery::Field { .. } | TermQuery::FieldNumber { .. } => match field_lookup(query) {
                Some(wanted) => self.field_pages(asked, wanted, among)?,
                None => among.0,
            },
            TermQuery::Meta { field, pattern } => self.metadata_pages(slab, *field, pattern),
            TermQuery::Marked(mark) if self.may_have_mark(slab, *mark)? => among.0,
            TermQuery::Marked(_) => 0,
            TermQuery::IndexTimeFields if !self.has_fields(slab) => 0,
            TermQuery::IndexTimeFields => {
                let pages = 0..self.slabs()[slab].pages.len();
                pages.filter(|page| self.page_has_fields(slab, *page)).fold(0, |found, page| found | 1 << page)
            }
            TermQuery::Value { field, value, tokens } => {
                let within = asked.fields.columns_of(field);
                let asked = TokenScope { within: within.as_ref(), ..asked };
                match self.address_tests(asked, value)? {
                    Some(_) if self.are_few_pages_left(slab, among) => among.0,
                    Some(tests) => self.pages_passing_tests(slab, tests, among)?,
                    // The field's term, which is also looked up, gives the pages of index-time values.
                    None if self.are_field_columns(asked)? => 0,
                    None => return self.query_pages(asked, tokens, among),
                }
            }
            TermQuery::And(queries) => return self.conjunction_pages(asked, queries, among),
            TermQuery::Or(queries) => {
                let mut found = 0;
                for query in queries {
                    let left = PageSet(among.0 & !found);
                    if left.is_empty() {
                        break;
                    }
                    found |= self.query_pages(asked, query, left)?.0;
                }
                found
            }
        };
        Ok(PageSet(found & among.0))
    }

    /// Pages whose texts may contain the wanted token or prefix, according to the term dictionary and, for tokens that
    /// it omits, the columns.
    fn token_pages(&self, asked: TokenScope<'_>, wanted: TokenPattern<'_>, among: PageSet) -> Result<u64, BucketError> {
        let slab = asked.slab;
        if self.are_few_pages_left(slab, among) && self.opened.parts[slab].columns.at.is_some() {
            return Ok(among.0);
        }
        let term_dictionary = match self.needs_dictionary_lookup(asked)? {
            true => self.term_dictionary(slab, &self.opened.parts[slab].tokens)?,
            false => None,
        };
        let found = match (term_dictionary, wanted) {
            (None, _) => 0,
            (Some(term_dictionary), TokenPattern::Token(token)) => term_dictionary.find(&self.source, token)?,
            (Some(term_dictionary), TokenPattern::Prefix(prefix)) => {
                term_dictionary.find_prefix(&self.source, prefix)?
            }
        };
        let left = PageSet(among.0 & !found);
        let is_absent = found == 0 && matches!(wanted, TokenPattern::Token(token) if !(asked.may_hold)(token));
        Ok(found | if left.is_empty() || is_absent { 0 } else { self.rare_pages(asked, wanted, left)? })
    }

    /// Pages that may have an index-time field with this value, according to its term or, if the values of the field
    /// are parts of the texts, to the tokens of the value.
    fn field_pages(&self, asked: TokenScope<'_>, wanted: FieldLookup<'_>, among: PageSet) -> Result<u64, BucketError> {
        let (listed, in_texts) = self.field_term_pages(asked.slab, wanted)?;
        let left = PageSet(among.0 & in_texts & !listed);
        if left.is_empty() {
            return Ok(listed);
        }
        Ok(listed | self.query_pages(TokenScope { within: None, ..asked }, &wanted.tokens(), left)?.0)
    }

    /// Pages whose index-time fields have the term of this value, and pages where the values of the field are parts of
    /// the texts and may lack terms.
    pub(crate) fn field_term_pages(&self, slab: usize, wanted: FieldLookup<'_>) -> Result<(u64, u64), BucketError> {
        let slot = &self.opened.parts[slab].fields;
        let Some(terms) = self.term_dictionary(slab, slot)? else { return Ok((0, 0)) };
        let omits_values = slot.at.is_some_and(|at| at.kind == BlockKind::TextFieldTermDirectory);
        let in_texts = match name_term(wanted.name).filter(|_| omits_values) {
            Some(term) => terms.find(&self.source, term)?,
            None => 0,
        };
        Ok((wanted.find(terms, &self.source)?, in_texts))
    }

    /// Whether a text of the slab may have the mark.
    pub(crate) fn may_have_mark(&self, slab: usize, mark: TextMark) -> Result<bool, BucketError> {
        let is_absent = self.opened.slabs[slab].absent_marks.contains(mark);
        Ok(!is_absent && self.columns(slab)?.is_none_or(|columns| mark.may_be_in(&columns.layout.template_set)))
    }

    /// Pages that may match all queries.
    fn conjunction_pages(
        &self,
        asked: TokenScope<'_>,
        queries: &[TermQuery],
        among: PageSet,
    ) -> Result<PageSet, BucketError> {
        let mut found = among;
        for query in order_by_rarity(queries) {
            if found.is_empty() {
                break;
            }
            found = self.query_pages(asked, query, found)?;
        }
        Ok(found)
    }

    /// Pages with an event whose metadata field matches `pattern`.
    pub(crate) fn metadata_pages(&self, slab: usize, field: MetaField, pattern: &str) -> u64 {
        let info = &self.opened.slabs[slab];
        let matches = |meta: &Metadata| matches_pattern(field_text(meta, field), pattern);
        let wanted: Vec<bool> = info.metas.iter().map(matches).collect();
        let holds = |page: &PageInfo| page.metas.iter().any(|code| wanted.get(code as usize) == Some(&true));
        info.pages.iter().enumerate().filter(|(_, page)| holds(page)).fold(0, |set, (at, _)| set | 1 << at)
    }

    pub(crate) fn term_dictionary<'a>(
        &'a self,
        slab: usize,
        slot: &'a TermDictionarySlot,
    ) -> Result<Option<&'a TermDictionary>, BucketError> {
        let Some(at) = slot.at else {
            return Ok(None);
        };
        if let Some(term_dictionary) = slot.opened.get() {
            return Ok(Some(term_dictionary));
        }
        let place = BlockPosition::outside_slabs(at.kind.name(), at.offset).in_slab(slab);
        let pages = self.opened.slabs[slab].pages.len();
        let term_dictionary = TermDictionary::open(&self.source, slot.namespace, place, at, pages)?;
        Ok(Some(slot.opened.get_or_init(|| term_dictionary)))
    }

    /// The locator of a slab; `None` if the slab has no locator.
    pub(crate) fn locator(&self, slab: usize) -> Result<Option<&Locator>, BucketError> {
        let slot = &self.opened.parts[slab].locator;
        let Some(at) = slot.at else {
            return Ok(None);
        };
        if let Some(locator) = slot.opened.get() {
            return Ok(Some(locator));
        }
        let place = BlockPosition::outside_slabs(at.kind.name(), at.offset).in_slab(slab);
        let locator = Locator::open(&self.source, at, place, self.opened.slabs[slab].pages.len())?;
        Ok(Some(slot.opened.get_or_init(|| locator)))
    }

    /// The columns of a slab; `None` if its pages hold plain text.
    pub(crate) fn columns(&self, slab: usize) -> Result<Option<&Arc<SlabColumns>>, BucketError> {
        let slot = &self.opened.parts[slab].columns;
        let Some(at) = slot.at else {
            return Ok(None);
        };
        if let Some(columns) = slot.opened.get() {
            return Ok(Some(columns));
        }
        let events: Vec<u32> = self.opened.slabs[slab].pages.iter().map(|page| page.events).collect();
        let columns = SlabColumns::open(&self.source, at, slab, &events, self.opened.shared.clone())?;
        Ok(Some(slot.opened.get_or_init(|| Arc::new(columns))))
    }

    /// Templates and columns of a slab's texts; `None` if its pages hold plain text. Panics if there is no such slab,
    /// as slice indexing does.
    pub fn template_set(&self, slab: usize) -> Result<Option<Arc<TemplateSet>>, BucketError> {
        Ok(self.columns(slab)?.map(|columns| columns.layout.template_set.clone()))
    }

    /// The texts of a dictionary column, read once and cached; empty for any other column. Panics if there is no such
    /// slab, as slice indexing does.
    pub fn dictionary(&self, slab: usize, column: u32) -> Result<Arc<Dictionary>, BucketError> {
        let Some(columns) = self.columns(slab)? else { return Ok(Arc::default()) };
        // A search of few events fetches its page as a whole, with all dictionaries, so this dictionary needs no
        // separate request.
        if let Some(page) = self.source.read_ahead().and_then(|search| search.first_page_of_few()) {
            columns.fetch_page_for_search(&self.source, page)?;
        }
        columns.dictionary(&self.source, column)
    }

    /// Opens a page to read single columns; `None` if it holds plain text. Panics if there is no such page, as slice
    /// indexing does.
    pub fn template_page(&self, slab: usize, page: usize) -> Result<Option<TemplatePage>, BucketError> {
        self.open_template_page(&self.source, slab, page, None)
    }

    /// Rebuilds the texts of a page of a template slab and passes them to `take` in blocks; no text for any other slab.
    /// Passes the values of each column to `show`.
    pub(crate) fn rebuild(
        &self,
        values: &mut TemplatePage,
        (slab, page): (usize, usize),
        out: &mut TextBuffer,
        show: &mut dyn FnMut(u32, &ColumnValues),
        take: &mut dyn FnMut(&TextBuffer),
    ) -> Result<(), BucketError> {
        let mut found = 0;
        let mut count = |block: &TextBuffer| {
            found += block.bytes().len();
            take(block);
        };
        values.rebuild_all_and_visit(TEXT_COLUMN, out, show, Some(&mut count))?;
        self.check_text_bytes(values, (slab, page), found)
    }

    /// The texts of a page of a template slab; empty for any other slab.
    fn rebuilt_texts(&self, (slab, page): (usize, usize), times: &[TimeNs]) -> Result<Texts, BucketError> {
        let Some(mut values) = self.timed_template_page((slab, page), times)? else {
            return Ok(TextBuffer::default().finish());
        };
        let texts = values.all_texts(TEXT_COLUMN)?;
        self.check_text_bytes(&values, (slab, page), texts.bytes.len())?;
        Ok(texts)
    }

    fn check_text_bytes(
        &self,
        values: &TemplatePage,
        (slab, page): (usize, usize),
        found: usize,
    ) -> Result<(), BucketError> {
        let expected = self.opened.slabs[slab].pages[page].raw_bytes;
        match found as u64 == expected {
            true => Ok(()),
            false => Err(values.position().corrupt(format!("its texts are {found} bytes, {expected} expected"))),
        }
    }

    /// The columns of a page of a template slab whose events have these times; `None` for any other slab.
    pub(crate) fn timed_template_page(
        &self,
        (slab, page): (usize, usize),
        times: &[TimeNs],
    ) -> Result<Option<TemplatePage>, BucketError> {
        self.open_template_page(&self.source, slab, page, Some(times.into()))
    }

    /// Opens a page whose blocks come from this source.
    pub(crate) fn open_template_page(
        &self,
        source: &ObjectSource,
        slab: usize,
        page: usize,
        times: Option<Arc<[TimeNs]>>,
    ) -> Result<Option<TemplatePage>, BucketError> {
        let Some(columns) = self.columns(slab)? else {
            return Ok(None);
        };
        columns.fetch_page_for_search(source, page)?;
        let info = &self.opened.slabs[slab].pages[page];
        let time_at = self.opened.parts[slab].pages[page].iter().find(|at| at.kind == BlockKind::Time).copied();
        let facts = PageFacts { page, events: info.events as usize, raw_bytes: info.raw_bytes, time_at, times };
        Ok(Some(TemplatePage::new(columns.clone(), source.clone(), facts)))
    }

    /// Whether a page may have index-time fields. Panics if there is no such page, as slice indexing does.
    pub fn page_has_fields(&self, slab: usize, page: usize) -> bool {
        // Damage is reported when the columns are read.
        let has_columns =
            || self.columns(slab).is_ok_and(|columns| columns.is_some_and(|columns| columns.has_fields()));
        self.page_has_fields_by_row(slab, page) || (self.has_fields(slab) && has_columns())
    }

    /// Whether a page has index-time fields without a column. Panics if there is no such page, as slice indexing does.
    pub fn page_has_fields_by_row(&self, slab: usize, page: usize) -> bool {
        self.opened.parts[slab].pages[page].iter().any(|at| at.kind == BlockKind::Fields)
    }

    /// Reads the requested columns of a page. Panics if there is no such page, as slice indexing does.
    pub fn read_page(&self, slab: usize, page: usize, columns: PageColumns) -> Result<Page, BucketError> {
        PageRead { reader: self, slab, page }.read(columns)
    }

    /// The index-time fields of a page that have these names and no column of [`BucketReader::template_set`]. Panics if
    /// there is no such page, as slice indexing does.
    pub fn page_fields_by_row(
        &self,
        slab: usize,
        page: usize,
        names: FieldNames,
    ) -> Result<IndexedFields, BucketError> {
        let read = PageRead { reader: self, slab, page };
        read.fields_by_row(&read.fetch(&|kind| kind == BlockKind::Fields)?, names)
    }

    /// The values of the index-time fields with these names that have a column; `values` is the page.
    pub(crate) fn column_fields(
        &self,
        slab: usize,
        values: &mut TemplatePage,
        names: FieldNames,
    ) -> Result<Vec<FieldValues>, BucketError> {
        let Some(columns) = self.columns(slab)? else { return Ok(Vec::new()) };
        let set = &columns.layout.template_set;
        let wanted: Vec<&FieldColumn> = set.fields.iter().filter(|field| names.may_contain(&field.name)).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<u32> = wanted.iter().map(|field| field.column).collect();
        values.prefetch_columns(&numbers)?;
        let mut read = Vec::with_capacity(wanted.len());
        for FieldColumn { name, column } in wanted {
            let format = match set.columns[*column as usize].kind {
                ColumnKind::Numbers { format, .. } => format,
                _ => NumberFormat::Integer,
            };
            read.push(FieldValues {
                name: Arc::clone(name),
                column: values.column(*column)?,
                dictionary: columns.dictionary(&self.source, *column)?,
                format,
            });
        }
        Ok(read)
    }

    /// The metadata code of each event of a page.
    pub fn page_metas(&self, slab: usize, page: usize) -> Result<Vec<u32>, BucketError> {
        PageRead { reader: self, slab, page }.metas()
    }
}

/// A single read of a page.
struct PageRead<'a> {
    reader: &'a BucketReader,
    slab: usize,
    page: usize,
}

impl PageRead<'_> {
    fn read(&self, columns: PageColumns) -> Result<Page, BucketError> {
        let slab = &self.reader.opened.slabs[self.slab];
        let info = &slab.pages[self.page];
        let wanted = |kind: BlockKind| match kind {
            BlockKind::Time | BlockKind::Meta => true,
            BlockKind::IndexTime => columns.index_time,
            BlockKind::Lengths | BlockKind::Text => columns.raw,
            BlockKind::Fields => !columns.fields.is_empty(),
            _ => false,
        };
        let blocks = self.fetch(&wanted)?;
        let mut page = Page { first_row: info.first_row, metas: slab.metas.clone(), ..Page::default() };
        page.time = self.integers(&blocks, BlockKind::Time)?;
        page.meta = self.codes(&blocks, slab.metas.len())?;
        if columns.index_time {
            page.index_time = self.integers(&blocks, BlockKind::IndexTime)?;
        }
        if columns.raw && self.reader.opened.parts[self.slab].columns.at.is_some() {
            let texts = self.reader.rebuilt_texts((self.slab, self.page), &page.time)?;
            Texts { bytes: page.raw, ends: page.ends } = texts;
        } else if columns.raw {
            self.text(&blocks, info, &mut page)?;
        }
        if !columns.fields.is_empty() {
            page.fields = self.fields_by_row(&blocks, columns.fields)?;
            self.add_column_fields(columns.fields, &mut page)?;
        }
        Ok(page)
    }

    /// The fields with these names that have no column.
    fn fields_by_row(&self, blocks: &[(BlockRef, Bytes)], names: FieldNames) -> Result<IndexedFields, BucketError> {
        let events = self.reader.opened.slabs[self.slab].pages[self.page].events as usize;
        let mut fields = IndexedFields::default();
        for (at, bytes) in blocks_of_kind(blocks, BlockKind::Fields) {
            let block = open_block(bytes, at.kind, self.position(at), MAX_FIELD_BLOCK_BYTES)?;
            read_fields(&block, names, events, &mut fields)?;
        }
        match fields.all().rows().is_sorted() {
            true => Ok(fields),
            false => Err(self.damage(BlockKind::Fields, "its blocks do not ascend by row")),
        }
    }

    /// Adds the fields with these names that have a column; within an event, they come in the order of the columns.
    fn add_column_fields(&self, names: FieldNames, page: &mut Page) -> Result<(), BucketError> {
        let read = self.column_fields(names, &page.time)?;
        if !read.is_empty() {
            let by_row = std::mem::take(&mut page.fields);
            let time_at = self.blocks().iter().find(|at| at.kind == BlockKind::Time);
            let place = time_at.map_or(BlockPosition::outside_slabs("page", 0), |at| self.position(at));
            page.fields = place.map_malformed(add_column_fields(&by_row, &read, page.len()))?;
        }
        Ok(())
    }

    /// The values of the fields with these names that have a column; `times` are the times of the page.
    fn column_fields(&self, names: FieldNames, times: &[TimeNs]) -> Result<Vec<FieldValues>, BucketError> {
        let Some(columns) = self.reader.columns(self.slab)? else { return Ok(Vec::new()) };
        if !columns.layout.template_set.fields.iter().any(|field| names.may_contain(&field.name)) {
            return Ok(Vec::new());
        }
        match self.reader.timed_template_page((self.slab, self.page), times)? {
            Some(mut values) => self.reader.column_fields(self.slab, &mut values, names),
            None => Ok(Vec::new()),
        }
    }

    fn metas(&self) -> Result<Vec<u32>, BucketError> {
        let blocks = self.fetch(&|kind| kind == BlockKind::Meta)?;
        self.codes(&blocks, self.reader.opened.slabs[self.slab].metas.len())
    }

    fn blocks(&self) -> &[BlockRef] {
        &self.reader.opened.parts[self.slab].pages[self.page]
    }

    fn position(&self, at: &BlockRef) -> BlockPosition {
        BlockPosition::outside_slabs(at.kind.name(), at.offset).in_slab(self.slab).in_page(self.page)
    }

    fn damage(&self, kind: BlockKind, reason: impl Into<String>) -> BucketError {
        let at = self.blocks().iter().find(|at| at.kind == kind).copied();
        self.position(&at.unwrap_or(BlockRef { kind, offset: 0, stored_len: 0 })).corrupt(reason)
    }

    /// Fetches the requested blocks; blocks close to each other are fetched in one read.
    fn fetch(&self, wanted: &dyn Fn(BlockKind) -> bool) -> Result<Vec<(BlockRef, Bytes)>, BucketError> {
        if let Some(search) = self.reader.source.read_ahead() {
            self.reader.source.fetch_for_search(search.block_ranges_to_fetch(self.page, wanted))?;
        }
        let needed: Vec<BlockRef> = self.blocks().iter().copied().filter(|at| wanted(at.kind)).collect();
        let near = |a: &BlockRef, b: &BlockRef| b.offset - block_end(a) <= MAX_READ_GAP_BYTES;
        let mut fetched = Vec::with_capacity(needed.len());
        for run in needed.chunk_by(near) {
            let range: Range<u64> = run[0].offset..run.last().map_or(run[0].offset, block_end);
            let bytes = self.reader.source.fetch_block(self.position(&run[0]), (range.end - range.start) as usize)?;
            for at in run {
                let start = (at.offset - range.start) as usize;
                fetched.push((*at, bytes.slice(start..start + at.stored_len as usize)));
            }
        }
        Ok(fetched)
    }

    fn integers(&self, blocks: &[(BlockRef, Bytes)], kind: BlockKind) -> Result<Vec<i64>, BucketError> {
        let mut found = blocks_of_kind(blocks, kind);
        let (Some((at, bytes)), None) = (found.next(), found.next()) else {
            return Err(self.damage(kind, "the page does not have exactly one such block"));
        };
        let place = self.position(at);
        let raw = open_block(bytes, kind, place, MAX_INTEGER_BLOCK_BYTES)?.decode()?;
        let events = self.reader.opened.slabs[self.slab].pages[self.page].events as usize;
        place.map_malformed(decode_integers(&raw, events))
    }

    fn codes(&self, blocks: &[(BlockRef, Bytes)], metas: usize) -> Result<Vec<u32>, BucketError> {
        let code = |code: i64| u32::try_from(code).ok().filter(|code| (*code as usize) < metas);
        let codes: Option<Vec<u32>> = self.integers(blocks, BlockKind::Meta)?.into_iter().map(code).collect();
        codes.ok_or_else(|| self.damage(BlockKind::Meta, format!("a code is not below {metas}")))
    }

    fn text(&self, blocks: &[(BlockRef, Bytes)], info: &PageInfo, page: &mut Page) -> Result<(), BucketError> {
        let lengths = self.integers(blocks, BlockKind::Lengths)?;
        page.ends = ends_of_lengths(&lengths, info.raw_bytes)
            .map_err(|Malformed(reason)| self.damage(BlockKind::Lengths, reason))?;
        let end = page.ends.last().map_or(0, |end| u64::from(*end));
        if end != info.raw_bytes {
            return Err(self.damage(BlockKind::Lengths, format!("lengths cover {end} of {} bytes", info.raw_bytes)));
        }
        let mut raw = vec![0; info.raw_bytes as usize];
        let mut left = &mut raw[..];
        for (at, bytes) in blocks_of_kind(blocks, BlockKind::Text) {
            let block = open_block(bytes, at.kind, self.position(at), left.len())?;
            let (here, rest) = std::mem::take(&mut left).split_at_mut(block.raw_len());
            block.decode_into(here)?;
            left = rest;
        }
        if !left.is_empty() {
            return Err(self.damage(BlockKind::Text, format!("its blocks are {} bytes short", left.len())));
        }
        match std::str::from_utf8(&raw) {
            Ok(text) if page.ends.iter().all(|end| text.is_char_boundary(*end as usize)) => {}
            _ => return Err(self.damage(BlockKind::Text, "its events are not UTF-8")),
        }
        page.raw = raw.into();
        Ok(())
    }
}

fn block_end(at: &BlockRef) -> u64 {
    at.offset.saturating_add(u64::from(at.stored_len))
}

fn blocks_of_kind(blocks: &[(BlockRef, Bytes)], kind: BlockKind) -> impl Iterator<Item = (&BlockRef, &Bytes)> {
    blocks.iter().filter(move |(at, _)| at.kind == kind).map(|(at, bytes)| (at, bytes))
}

/// Order in which the parts of a conjunction are looked up. Metadata queries come first: they need no read and often
/// exclude all pages; so does [`TermQuery::None`], which excludes all. Tokens come next, the longest first, because
/// long tokens are in few pages. Tokens of at least [`LONG_TOKEN_BYTES_MIN`] count as equally long and keep the order
/// of the query. All other queries come last.
pub(crate) fn order_by_rarity(queries: &[TermQuery]) -> Vec<&TermQuery> {
    let mut in_order: Vec<&TermQuery> = queries.iter().collect();
    in_order.sort_by_key(|query| match query {
        TermQuery::Meta { .. } | TermQuery::None => 0,
        TermQuery::Token(token) => usize::MAX - token.len().min(LONG_TOKEN_BYTES_MIN),
        _ => usize::MAX,
    });
    in_order
}
