//! Encoder: from event batches to a bucket's two objects.
//!
//! The tokens of each page are added to the term table; the page's columns and text blocks are appended to the object.
//! After the last page of a slab come the columns of its texts, if the texts were split. The blocks after the last
//! slab, mainly term dictionaries and directories, are written by [`crate::tail`].

use bytes::Bytes;
use quarry_event::template::{ByteSet, ExtractedField, ExtractedNames};
use quarry_event::{EventBatch, FieldRun, MarkSet, TimeNs};
use quarry_stdx::number::u32_of;

use crate::block::{BlockKind, BlockRef, BlockWriter};
use crate::columns::{SharedColumns, has_consistent_lengths, layout_content, write_columns};
use crate::directory::{PageHead, SlabHead, bucket_header};
use crate::error::BucketError;
use crate::fields::write_fields;
use crate::filter::FilterWriter;
use crate::integers::encode_integers;
use crate::limits::{MAX_PAGE_EVENTS, MAX_SLAB_PAGES, MAX_SLABS, TARGET_TEXT_BLOCK_BYTES, within};
use crate::locator::{LocatorTables, RareTokenPages};
use crate::metas::MetaCount;
use crate::slab_source::{CheckedSlab, MetadataCodes};
use crate::summary::{BucketSummary, SummaryBuilder};
use crate::tail::{ObjectTail, SlabBlock};
use crate::templates::{FieldSplit, TemplateSlab, split_slab};
use crate::term_dictionary::field_terms::add_field_terms;
use crate::term_dictionary::table::TermTable;
use crate::term_dictionary::template_terms::add_terms;
use crate::term_dictionary::write::{WrittenDictionary, encode_term_dictionary};
use crate::term_dictionary::{Namespace, field_term};

/// Options of the encoder.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// zstd level of texts and columns: usually 1 when sealing, and higher when compacting.
    pub zstd_level: i32,
    /// Whether texts may be split into templates and columns if they split well; otherwise they are stored as text.
    pub templates: bool,
    /// Whether template slabs get a locator, which maps rare tokens to pages.
    pub locators: Locators,
}

/// Whether the template slabs of a bucket get locators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locators {
    /// No slab gets a locator: the bucket will soon be replaced.
    Omitted,
    /// Every template slab gets a locator.
    Included,
    /// Every template slab gets a locator unless the bucket's two objects together, without the columns of stored
    /// search-time fields, would then exceed this size.
    IncludedWithin(u64),
}

impl Locators {
    /// [`Locators::Included`] if `included` is true, otherwise [`Locators::Omitted`].
    pub fn included_if(included: bool) -> Locators {
        if included { Locators::Included } else { Locators::Omitted }
    }
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions { zstd_level: 1, templates: true, locators: Locators::Omitted }
    }
}

/// A bucket ready to be stored.
#[derive(Clone, Debug)]
pub struct EncodedBucket {
    /// The bucket object, read by [`crate::BucketReader`].
    pub object: Bytes,
    /// The term filter, an object of its own, read by [`crate::TermFilter`].
    pub filter: Bytes,
    /// The bucket's entry for the catalog.
    pub summary: BucketSummary,
}

/// The input of one slab.
#[derive(Clone, Copy, Debug)]
pub struct SlabSource<'a> {
    /// Its events, at most `MAX_SLAB_EVENTS` and `MAX_SLAB_RAW_BYTES`.
    pub events: &'a EventBatch,
    /// `_indextime` of each event, or `None` if `events.index_time` applies to all events.
    pub index_times: Option<&'a [TimeNs]>,
    /// Search-time fields to be stored in columns. Fields that take much space are not stored, and none if the texts do
    /// not split into columns.
    pub extractions: &'a [ExtractedField],
    /// The names of all search-time fields that rules take from the texts of the slab; the names are stored, too.
    pub extracted_names: Option<&'a ExtractedNames>,
}

impl<'a> SlabSource<'a> {
    /// A slab of a batch whose events all have the same `_indextime`, without stored search-time fields.
    pub fn of(events: &'a EventBatch) -> SlabSource<'a> {
        SlabSource { events, index_times: None, extractions: &[], extracted_names: None }
    }
}

/// Encodes one slab per batch. Each batch must respect `MAX_SLAB_EVENTS` and `MAX_SLAB_RAW_BYTES`.
pub fn encode(slabs: &[EventBatch], options: &EncodeOptions) -> Result<EncodedBucket, BucketError> {
    let sources: Vec<SlabSource<'_>> = slabs.iter().map(SlabSource::of).collect();
    encode_slabs(&sources, options)
}

/// Like [`encode`], for slabs whose events arrived at different times.
pub fn encode_slabs(slabs: &[SlabSource<'_>], options: &EncodeOptions) -> Result<EncodedBucket, BucketError> {
    let mut encoder = BucketEncoder::new(options)?;
    let raw_bytes: usize = slabs.iter().map(|slab| slab.events.raw.len()).sum();
    // Logs usually shrink to a third or less; growing the object later would copy it.
    encoder.blocks.object.reserve(raw_bytes / 3 + 4_096);
    slabs.iter().try_for_each(|slab| encoder.add_slab(slab))?;
    encoder.finish()
}

/// Encodes a bucket slab by slab. Memory holds only the slab being added, the encoded bucket with its locators and term
/// dictionaries, and the candidates for shared dictionaries.
pub struct BucketEncoder {
    options: EncodeOptions,
    blocks: BlockWriter,
    shared: SharedColumns,
    heads: Vec<SlabHead>,
    /// Column layouts and term dictionaries, which are written last.
    layouts: Vec<SlabBlock>,
    dictionaries: Vec<(usize, BlockKind, WrittenDictionary)>,
    /// Locators and the numbers of their slabs. Locators are written last, when the sizes that
    /// [`Locators::IncludedWithin`] limits are known.
    locators: Vec<(usize, LocatorTables)>,
    /// Bytes of the columns of stored search-time fields.
    extraction_bytes: u64,
    tokens: TermTable,
    fields: TermTable,
    /// Hashes of all terms of the slab being added, for its filter.
    hashes: Vec<u64>,
    filter: FilterWriter,
    summary: SummaryBuilder,
    scratch: Vec<u8>,
}

impl BucketEncoder {
    /// An encoder without slabs.
    pub fn new(options: &EncodeOptions) -> Result<BucketEncoder, BucketError> {
        Ok(BucketEncoder {
            options: *options,
            blocks: BlockWriter::new(bucket_header().to_vec(), options.zstd_level)?,
            shared: SharedColumns::default(),
            heads: Vec::new(),
            layouts: Vec::new(),
            dictionaries: Vec::new(),
            locators: Vec::new(),
            extraction_bytes: 0,
            tokens: TermTable::new(Namespace::Tokens),
            fields: TermTable::new(Namespace::Fields),
            hashes: Vec::new(),
            filter: FilterWriter::default(),
            summary: SummaryBuilder::default(),
            scratch: Vec::new(),
        })
    }

    /// Number of slabs added.
    pub fn slabs(&self) -> usize {
        self.heads.len()
    }

    /// Adds a slab. After an error the encoder must not be used any more.
    pub fn add_slab(&mut self, slab: &SlabSource<'_>) -> Result<(), BucketError> {
        within(self.heads.len() + 1, "slabs of a bucket", "MAX_SLABS", MAX_SLABS)?;
        let head = self.encode_slab(&CheckedSlab::new(slab, self.heads.len())?)?;
        self.heads.push(head);
        Ok(())
    }

    fn encode_slab(&mut self, slab: &CheckedSlab<'_>) -> Result<SlabHead, BucketError> {
        self.tokens.clear();
        self.fields.clear();
        let codes = MetadataCodes::of(slab.events);
        let mut template_slab = if self.options.templates { template_slab_of(slab.events) } else { None };
        let mut counts = vec![MetaCount::NONE; codes.metas.len()];
        let mut pages = Vec::new();
        let split = template_slab.as_ref().map(|texts| FieldSplit::of(slab.events, texts));
        let mut by_row = split.as_ref().map_or(&slab.events.fields, |split| &split.by_row).all();
        for (number, start) in (0..slab.events.len()).step_by(MAX_PAGE_EVENTS).enumerate() {
            let end = slab.events.len().min(start + MAX_PAGE_EVENTS);
            let (rows_here, rows_later) = by_row.split_at(by_row.of_rows(0..end).len());
            by_row = rows_later;
            let has_templates = template_slab.is_some();
            let page = PageSource { number, start, end, by_row: rows_here, has_templates };
            pages.push(self.encode_page(slab, &codes, &page, &mut counts)?);
        }
        assert!(by_row.is_empty(), "every field belongs to a page");
        assert!(pages.len() <= MAX_SLAB_PAGES, "a mask has one bit per page");
        let in_pages: usize = pages.iter().map(|page| page.events as usize).sum();
        assert_eq!(in_pages, slab.events.len(), "every event is in a page");
        self.summary.add_slab(slab, &codes.metas, &counts);
        let slab_number = self.heads.len();
        let mut field_directory = Namespace::Fields.directory_kind();
        let mut blocks = Vec::new();
        if let Some(template_slab) = &mut template_slab {
            add_terms(template_slab, &mut self.tokens, &mut self.hashes);
            if self.options.locators != Locators::Omitted {
                let tables = LocatorTables::of(RareTokenPages::of(template_slab), pages.len())?;
                self.locators.extend(tables.map(|tables| (slab_number, tables)));
            }
            if split.as_ref().is_some_and(|split| add_field_terms(split, &mut self.fields)) {
                field_directory = BlockKind::TextFieldTermDirectory;
            }
            split.into_iter().for_each(|split| split.append_to(template_slab));
            // Added after the terms: search-time fields have no terms, because searches look for the words of the text.
            template_slab.add_extractions(slab.extractions, slab.events.len());
            template_slab.extracted_names = slab.extracted_names.cloned();
            let shared = (slab_number, &mut self.shared);
            let written = write_columns(template_slab, slab, &mut self.blocks, self.options.zstd_level, shared)?;
            self.extraction_bytes += written.extraction_bytes;
            let block = |content| SlabBlock { slab: slab_number, kind: BlockKind::ColumnLayout, content };
            self.layouts.extend(written.layout.map(block));
            blocks = written.listed;
        }
        let text_bytes = template_slab.as_ref().map_or(ByteSet::ALL, TemplateSlab::text_bytes);
        // The term dictionaries and the filter reuse the memory of the columns, which the system need not zero again.
        drop(template_slab);
        self.encode_term_dictionaries(slab_number, pages.len(), field_directory)?;
        self.filter.add_slab(&mut self.hashes)?;
        self.hashes.clear();
        let absent_marks = MarkSet::absent_from(&slab.events.raw, text_bytes);
        Ok(SlabHead { metas: codes.metas.into(), pages, blocks, absent_marks })
    }

    fn encode_page(
        &mut self,
        slab: &CheckedSlab<'_>,
        codes: &MetadataCodes,
        page: &PageSource<'_>,
        counts: &mut [MetaCount],
    ) -> Result<PageHead, BucketError> {
        let rows = page.start..page.end;
        let times = &slab.events.time[rows.clone()];
        let page_codes: Vec<u32> = rows.clone().map(|row| codes.of_row(slab.events, row)).collect();
        let mut distinct = page_codes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for (code, time) in page_codes.iter().zip(times) {
            counts[*code as usize].add(*time);
        }
        let lengths: Vec<i64> = rows.clone().map(|row| slab.events.raw(row).len() as i64).collect();
        let mut head = PageHead {
            events: u32_of(rows.len()),
            time_min: times.iter().copied().min().unwrap_or(0),
            time_max: times.iter().copied().max().unwrap_or(0),
            raw_bytes: lengths.iter().sum::<i64>().cast_unsigned(),
            codes: distinct,
            ..PageHead::default()
        };
        self.write_integers(BlockKind::Time, times, &mut head);
        let page_codes: Vec<i64> = page_codes.into_iter().map(i64::from).collect();
        self.write_integers(BlockKind::Meta, &page_codes, &mut head);
        self.write_integers(BlockKind::IndexTime, slab.index_times(rows.clone()), &mut head);
        self.add_terms(slab, page);
        if !page.has_templates {
            self.write_integers(BlockKind::Lengths, &lengths, &mut head);
            self.write_text(slab, page, &mut head)?;
        }
        let offset = self.blocks.object.len() as u64;
        let stored = write_fields(page.by_row, u32_of(page.start), &mut self.blocks)?;
        let mut offset = offset;
        for stored_len in stored {
            head.blocks.push(BlockRef { kind: BlockKind::Fields, offset, stored_len });
            offset += u64::from(stored_len);
        }
        assert_eq!(offset, self.blocks.object.len() as u64, "blocks of fields are contiguous");
        assert!(head.time_min <= head.time_max && head.events > 0, "a page has events");
        Ok(head)
    }

    fn write_integers(&mut self, kind: BlockKind, values: &[i64], head: &mut PageHead) {
        self.scratch.clear();
        encode_integers(values, &mut self.scratch);
        let offset = self.blocks.object.len() as u64;
        let stored_len = self.blocks.write_stored(kind, &self.scratch);
        head.blocks.push(BlockRef { kind, offset, stored_len });
    }

    /// Adds the page's terms to the tables. If the texts are stored as columns, their terms are not added here but for
    /// the whole slab at once.
    fn add_terms(&mut self, slab: &CheckedSlab<'_>, page: &PageSource<'_>) {
        if !page.has_templates {
            self.tokens.start_page(page.number);
            for row in page.start..page.end {
                self.tokens.add_text(slab.events.raw(row));
            }
        }
        self.fields.start_page(page.number);
        for field in page.by_row.iter() {
            self.fields.add_term(&field_term(field.name, field.value));
        }
    }

    /// Writes the page's text in blocks of whole events. Each block is closed before it exceeds its target size; an
    /// event longer than that gets a block of its own.
    fn write_text(
        &mut self,
        slab: &CheckedSlab<'_>,
        page: &PageSource<'_>,
        head: &mut PageHead,
    ) -> Result<(), BucketError> {
        let end_of = |row: usize| slab.events.ends[row] as usize;
        let mut start = if page.start == 0 { 0 } else { end_of(page.start - 1) };
        let mut row = page.start;
        while row < page.end {
            let mut end = end_of(row);
            row += 1;
            while row < page.end && end_of(row) - start <= TARGET_TEXT_BLOCK_BYTES {
                end = end_of(row);
                row += 1;
            }
            let offset = self.blocks.object.len() as u64;
            let stored_len = self.blocks.write(BlockKind::Text, &slab.events.raw[start..end])?;
            head.blocks.push(BlockRef { kind: BlockKind::Text, offset, stored_len });
            start = end;
        }
        assert_eq!(start, end_of(page.end - 1), "blocks hold all text of the page");
        Ok(())
    }

    /// Encodes the term dictionaries of the slab whose terms are in the tables; the directory of the field dictionary
    /// gets the kind `of_fields`. An empty dictionary is omitted.
    fn encode_term_dictionaries(&mut self, slab: usize, pages: usize, of_fields: BlockKind) -> Result<(), BucketError> {
        let of_tokens = Namespace::Tokens.directory_kind();
        for (table, kind) in [(&mut self.tokens, of_tokens), (&mut self.fields, of_fields)] {
            table.finish();
            if table.entries().is_empty() {
                continue;
            }
            self.hashes.extend(table.entries().iter().map(|entry| table.hash_of(entry)));
            let dictionary = encode_term_dictionary(table, pages, &mut self.blocks)?;
            self.dictionaries.push((slab, kind, dictionary));
        }
        Ok(())
    }

    /// Completes the bucket.
    pub fn finish(self) -> Result<EncodedBucket, BucketError> {
        let BucketEncoder {
            options,
            mut blocks,
            shared,
            mut heads,
            mut layouts,
            dictionaries,
            locators,
            extraction_bytes,
            filter,
            summary,
            ..
        } = self;
        for (slab, layout) in shared.finish(&mut blocks)? {
            heads[slab].blocks = layout.listed_blocks();
            layouts.push(SlabBlock { slab, kind: BlockKind::ColumnLayout, content: layout_content(&layout)? });
        }
        let filter = filter.finish()?;
        let mut summary = summary.finish();
        summary.filter_bytes = filter.len() as u64;
        let mut tail = ObjectTail { heads, layouts, dictionaries, locators, summary };
        let start = blocks.object.len();
        tail.write(&mut blocks)?;
        if let Locators::IncludedWithin(limit) = options.locators
            && (blocks.object.len() + filter.len()) as u64 > limit.saturating_add(extraction_bytes)
            && !tail.locators.is_empty()
        {
            tail.locators.clear();
            blocks.object.truncate(start);
            tail.write(&mut blocks)?;
        }
        let summary = BucketSummary { object_bytes: blocks.object.len() as u64, ..tail.summary };
        Ok(EncodedBucket { object: blocks.object.into(), filter: filter.into(), summary })
    }
}

/// The events of one page.
struct PageSource<'a> {
    number: usize,
    start: usize,
    end: usize,
    /// The fields that have no column.
    by_row: FieldRun<'a>,
    /// Whether the page's texts are stored in the columns of the slab.
    has_templates: bool,
}

/// The texts split into columns; `None` if the texts do not split well.
fn template_slab_of(events: &EventBatch) -> Option<TemplateSlab> {
    #[cfg(test)]
    let split_slab = tests::SPLITTER.get().unwrap_or(split_slab);
    split_slab(events).filter(|slab| has_consistent_lengths(slab, events.len()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    type SlabSplitter = fn(&EventBatch) -> Option<TemplateSlab>;

    thread_local! {
        /// Replacement of the splitter in a test.
        pub(crate) static SPLITTER: std::cell::Cell<Option<SlabSplitter>> = const { std::cell::Cell::new(None) };
    }
}
