//! Lookup of terms in a term dictionary: the directory tells which page may hold a term, and only this page is decoded.

use std::ops::Range;

use crate::block::{BlockKind, BlockRef, open_block};
use crate::error::{BlockPosition, BucketError};
use crate::limits::{
    MAX_SHARED_MASKS, MAX_TERM_BYTES, MAX_TERM_DICTIONARY_DIRECTORY_BYTES, MAX_TERM_DICTIONARY_PAGE_TERMS,
    MAX_TERM_DICTIONARY_STREAM_BYTES, MAX_TERM_DICTIONARY_TERMS,
};
use crate::source::ObjectSource;
use crate::term_dictionary::Namespace;
use crate::term_dictionary::postings::read_postings;
use crate::term_dictionary::write::LONG_LENGTHS_MARKER;
use crate::wire::{Cursor, Malformed};

/// Number of streams of a page: lengths, suffixes, postings.
const PAGE_STREAMS: usize = 3;

/// The directory of a term dictionary, cached while its bucket is open.
#[derive(Debug)]
pub(crate) struct TermDictionary {
    place: BlockPosition,
    page_kind: BlockKind,
    slab_pages: usize,
    terms: usize,
    /// Sum of `term_fingerprint` over all terms.
    pub(crate) fingerprint: u64,
    shared: Vec<u64>,
    pages: Vec<TermDictionaryPage>,
}

#[derive(Debug)]
struct TermDictionaryPage {
    offset: u64,
    stored_len: u32,
    first: Box<[u8]>,
}

impl TermDictionary {
    /// Reads the directory block `at`. `slab_pages` is the number of pages of the slab.
    pub(crate) fn open(
        source: &ObjectSource,
        namespace: Namespace,
        place: BlockPosition,
        at: BlockRef,
        slab_pages: usize,
    ) -> Result<TermDictionary, BucketError> {
        let bytes = source.fetch_block(place, at.stored_len as usize)?;
        let block = open_block(&bytes, at.kind, place, MAX_TERM_DICTIONARY_DIRECTORY_BYTES)?;
        let place = block.position();
        let parsed = TermDictionary::parse(&block.decode()?, place, namespace.page_kind(), slab_pages);
        place.map_malformed(parsed)
    }

    fn parse(
        bytes: &[u8],
        place: BlockPosition,
        page_kind: BlockKind,
        slab_pages: usize,
    ) -> Result<TermDictionary, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let terms = cursor.count("number of terms", MAX_TERM_DICTIONARY_TERMS)?;
        let mut offset = cursor.varint("offset of the term dictionary")?;
        let fingerprint = cursor.u64("fingerprint")?;
        let shared = cursor.count("number of shared page sets", MAX_SHARED_MASKS.min(cursor.remaining() / 8))?;
        let shared = (0..shared).map(|_| cursor.u64("shared page set")).collect::<Result<Vec<u64>, _>>()?;
        let page_count = terms.div_ceil(MAX_TERM_DICTIONARY_PAGE_TERMS);
        if page_count > cursor.remaining() {
            return Err(Malformed(format!("{} bytes cannot describe {terms} terms", bytes.len())));
        }
        let mut pages: Vec<TermDictionaryPage> = Vec::with_capacity(page_count);
        for _ in 0..page_count {
            let stored_len = cursor.count32("stored length of a term dictionary page", u32::MAX as usize)?;
            let first: Box<[u8]> = cursor.bytes("first term of a page", MAX_TERM_BYTES)?.into();
            if pages.last().is_some_and(|last| last.first >= first) {
                return Err(Malformed::new("its pages are not in ascending order"));
            }
            pages.push(TermDictionaryPage { offset, stored_len, first });
            offset = offset.saturating_add(u64::from(stored_len));
        }
        cursor.finish("the term dictionary directory")?;
        Ok(TermDictionary { place, page_kind, slab_pages, terms, fingerprint, shared, pages })
    }

    /// First page that may hold `term` or a greater term.
    fn first_candidate_page(&self, term: &[u8]) -> usize {
        self.pages.partition_point(|page| &*page.first <= term).saturating_sub(1)
    }

    /// Byte range of the block that decides whether the dictionary has `term`; `None` if no block is needed.
    pub(crate) fn block_range(&self, term: &[u8]) -> Option<Range<u64>> {
        let page = self.pages.get(self.first_candidate_page(term)).filter(|page| &*page.first <= term)?;
        Some(page.offset..page.offset.saturating_add(u64::from(page.stored_len)))
    }

    /// Slab pages that contain exactly `term`.
    pub(crate) fn find(&self, source: &ObjectSource, term: &[u8]) -> Result<u64, BucketError> {
        if self.pages.first().is_none_or(|page| &*page.first > term) {
            return Ok(0);
        }
        let mut found = 0;
        self.scan_page(source, self.first_candidate_page(term), &mut |candidate, pages| {
            if candidate == term {
                found = pages;
            }
            candidate < term
        })?;
        Ok(found)
    }

    /// Slab pages that contain a term starting with `prefix`.
    pub(crate) fn find_prefix(&self, source: &ObjectSource, prefix: &[u8]) -> Result<u64, BucketError> {
        let every_page = u64::MAX >> (u64::BITS as usize - self.slab_pages.clamp(1, 64));
        let mut found = 0;
        for at in self.first_candidate_page(prefix)..self.pages.len() {
            let first = &*self.pages[at].first;
            if found == every_page || (first > prefix && !first.starts_with(prefix)) {
                break;
            }
            self.scan_page(source, at, &mut |candidate, pages| {
                let starts = candidate.starts_with(prefix);
                if starts {
                    found |= pages;
                }
                starts || candidate < prefix
            })?;
        }
        Ok(found)
    }

    /// Calls `visit` with every term and its pages, in ascending order.
    pub(crate) fn for_each(&self, source: &ObjectSource, visit: &mut dyn FnMut(&[u8], u64)) -> Result<(), BucketError> {
        let mut last = Vec::new();
        for at in 0..self.pages.len() {
            let mut ascends = true;
            self.scan_page(source, at, &mut |term, pages| {
                ascends &= (at == 0 && last.is_empty()) || term > &last[..];
                last.clear();
                last.extend_from_slice(term);
                visit(term, pages);
                true
            })?;
            if !ascends {
                return Err(self.page_position(at).corrupt("its terms are not in ascending order"));
            }
        }
        Ok(())
    }

    /// The term dictionary's pages.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockRef> + '_ {
        self.pages.iter().map(|page| BlockRef {
            kind: self.page_kind,
            offset: page.offset,
            stored_len: page.stored_len,
        })
    }

    fn page_position(&self, at: usize) -> BlockPosition {
        BlockPosition { block: self.page_kind.name(), offset: self.pages[at].offset, ..self.place }
    }

    /// Decodes term dictionary page `at` and visits its terms until `visit` returns false.
    fn scan_page(
        &self,
        source: &ObjectSource,
        at: usize,
        visit: &mut dyn FnMut(&[u8], u64) -> bool,
    ) -> Result<(), BucketError> {
        let page = &self.pages[at];
        let place = self.page_position(at);
        let bytes = source.fetch_block(place, page.stored_len as usize)?;
        let block = open_block(&bytes, self.page_kind, place, PAGE_STREAMS * MAX_TERM_DICTIONARY_STREAM_BYTES)?;
        let streams = block.decode_parts::<PAGE_STREAMS>()?;
        let terms = (self.terms - at * MAX_TERM_DICTIONARY_PAGE_TERMS).min(MAX_TERM_DICTIONARY_PAGE_TERMS);
        place.map_malformed(self.scan_streams(&streams, terms, &page.first, visit))
    }

    fn scan_streams(
        &self,
        [lengths, suffixes, postings]: &[Vec<u8>; PAGE_STREAMS],
        terms: usize,
        first: &[u8],
        visit: &mut dyn FnMut(&[u8], u64) -> bool,
    ) -> Result<(), Malformed> {
        let (mut lengths, mut suffixes) = (Cursor::new(lengths), Cursor::new(suffixes));
        let mut postings = Cursor::new(postings);
        let mut term = Vec::with_capacity(MAX_TERM_BYTES);
        for number in 0..terms {
            let (shared, suffix) = read_lengths(&mut lengths)?;
            if shared > term.len() || shared + suffix > MAX_TERM_BYTES {
                return Err(Malformed(format!("term {number} shares {shared} of {} bytes", term.len())));
            }
            term.truncate(shared);
            term.extend_from_slice(suffixes.take(suffix, "suffix of a term")?);
            if number == 0 && term != first {
                return Err(Malformed::new("its first term is not the one in the directory"));
            }
            let pages = read_postings(&mut postings, &self.shared, self.slab_pages)?;
            if !visit(&term, pages) {
                return Ok(());
            }
        }
        lengths.finish("the lengths")?;
        suffixes.finish("the suffixes")?;
        postings.finish("the postings")
    }
}

#[inline]
fn read_lengths(cursor: &mut Cursor<'_>) -> Result<(usize, usize), Malformed> {
    match cursor.u8("lengths of a term")? {
        LONG_LENGTHS_MARKER => {
            let shared = cursor.count("shared length", MAX_TERM_BYTES)?;
            Ok((shared, cursor.count("suffix length", MAX_TERM_BYTES)?))
        }
        packed => Ok((usize::from(packed >> 4), usize::from(packed & 15))),
    }
}
