//! Writing the columns of a slab: chunks and dictionaries, pools, the column layout block.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use quarry_event::template::{
    Column, ColumnKind, ExtractedField, MAX_COLUMNS, MAX_TEMPLATES, StoredExtraction, TemplateSet,
};
use quarry_stdx::number::u32_of;

use crate::block::{BlockKind, BlockRef, BlockWriter};
use crate::columns::codec::{Effort, encode_codes, encode_numbers, encode_texts, needs_times};
use crate::columns::counts::count_values;
use crate::columns::dictionary::encode_dictionary;
use crate::columns::extractions::choose_within;
use crate::columns::layout::{ChunkLocations, DictionaryLocation, Layout, StoredColumn, count_parts, has_single_value};
use crate::columns::shared_dictionary::{SharedColumns, SharingUnit};
use crate::columns::slices::{Slice, find_slices};
use crate::columns::text_dictionary::TextCompressor;
use crate::columns::{
    FULL_EFFORT_LEVEL_MIN, MAX_LAYOUT_BYTES, MAX_POOLS, MAX_TEMPLATE_PARTS, POOLED_BYTES_MAX, TARGET_POOL_BYTES,
};
use crate::error::BucketError;
use crate::integers::range_of;
use crate::limits::{MAX_PAGE_EVENTS, MAX_SLAB_EVENTS, TEXT_BYTES_PER_EXTRACTION_BYTE};
use crate::slab_source::CheckedSlab;
use crate::templates::{PartLimits, SlabColumn, SlabValues, TemplateSlab};

/// Result of writing the columns of a slab.
pub(crate) struct WrittenSlab {
    /// Content of the column layout block; `None` if it is written later.
    pub(crate) layout: Option<Vec<u8>>,
    /// Blocks that the slab head lists ([`Layout::listed_blocks`]); empty if the layout is written later.
    pub(crate) listed: Vec<BlockRef>,
    /// Bytes of the columns of stored search-time fields.
    pub(crate) extraction_bytes: u64,
}

/// Writes the columns of a slab. Stored search-time fields that would take too much space are removed from the slab,
/// unless their values are parts of the texts. At zstd levels of at least [`FULL_EFFORT_LEVEL_MIN`], columns that may
/// share a bucket-wide dictionary are written after the last slab; if there are such columns, the column layout block
/// is written after the last slab, too.
pub(crate) fn write_columns(
    template_slab: &mut TemplateSlab,
    source: &CheckedSlab<'_>,
    blocks: &mut BlockWriter,
    zstd_level: i32,
    (slab, shared): (usize, &mut SharedColumns),
) -> Result<WrittenSlab, BucketError> {
    let effort = zstd_level >= FULL_EFFORT_LEVEL_MIN;
    let mut columns = WrittenColumns::default();
    let first_extraction = template_slab.first_extraction_column();
    columns.find_equal(template_slab, 0..first_extraction, effort);
    if effort {
        columns.slices = find_slices(&template_slab.columns[..first_extraction], &columns.equal);
    }
    let mut units = if effort { shared.candidate_units(template_slab) } else { Vec::new() };
    let is_sharable = |column: u32| {
        columns.is_stored(column) && !follows_times(&template_slab.columns[column as usize], &source.events.time)
    };
    units.retain(|unit| unit.columns.iter().all(|column| is_sharable(*column)));
    let times = &source.events.time;
    let mut writer = ColumnWriter { times, blocks, effort, pool: Vec::new(), pools: Vec::new(), chunk: Vec::new() };
    writer.write_range(template_slab, 0..first_extraction, &units, &mut columns)?;
    let mut ordinary_bytes = vec![0; units.len()];
    let texts = columns.template_set.text_columns().len();
    let mut text_bytes: u64 = columns.stored[..texts].iter().map(|column| column.stored_bytes(&mut |_| true)).sum();
    for (unit, bytes) in units.iter().zip(&mut ordinary_bytes) {
        for column in &unit.columns {
            let measured = writer.measure(&template_slab.columns[*column as usize])?;
            *bytes += measured;
            text_bytes += if (*column as usize) < texts { measured as u64 } else { 0 };
        }
    }
    let bytes_max = text_bytes / TEXT_BYTES_PER_EXTRACTION_BYTE;
    let extraction_bytes = writer.write_extractions(template_slab, source, &mut columns, bytes_max)?;
    writer.close_pool()?;
    let WrittenColumns { mut template_set, stored, equal, .. } = columns;
    template_set.fields.clone_from(&template_slab.fields);
    template_set.extractions.clone_from(&template_slab.extractions);
    template_set.extracted_names.clone_from(&template_slab.extracted_names);
    let copies = (0..).zip(equal).filter_map(|(column, equal)| Some((column, equal?))).collect();
    let mut layout = Layout { template_set: Arc::new(template_set), stored, pools: writer.pools, copies };
    if units.is_empty() {
        layout.share_equal_columns();
        let listed = layout.listed_blocks();
        return Ok(WrittenSlab { layout: Some(layout_content(&layout)?), listed, extraction_bytes });
    }
    shared.defer_layout(slab, layout);
    for (unit, bytes) in units.iter().zip(ordinary_bytes) {
        shared.add(slab, template_slab, unit, bytes, blocks)?;
    }
    Ok(WrittenSlab { layout: None, listed: Vec::new(), extraction_bytes })
}

/// The columns of a slab that were written so far.
#[derive(Default)]
struct WrittenColumns {
    template_set: TemplateSet,
    stored: Vec<StoredColumn>,
    /// For each column, the earlier column whose values it shares.
    equal: Vec<Option<u32>>,
    /// For each column of the texts and of index-time fields, the column that contains its values; empty when sealing.
    slices: Vec<Option<Slice>>,
}

impl WrittenColumns {
    /// For each of the next columns, finds an earlier column with the same values.
    fn find_equal(&mut self, template_slab: &TemplateSlab, range: Range<usize>, effort: bool) {
        assert_eq!(self.equal.len(), range.start, "columns are compared in order");
        self.equal.extend(range.map(|at| equal_column(template_slab, at, effort)));
    }

    fn slice_of(&self, column: u32) -> Option<Slice> {
        self.slices.get(column as usize).copied().flatten()
    }

    /// Whether a column has values of its own, not those of another column.
    fn is_stored(&self, column: u32) -> bool {
        self.equal[column as usize].is_none() && self.slice_of(column).is_none()
    }

    /// Forgets the columns from `first` on.
    fn truncate(&mut self, first: usize) {
        self.template_set.columns.truncate(first);
        self.template_set.counts.retain(|column, _| (*column as usize) < first);
        self.stored.truncate(first);
        self.equal.truncate(first);
    }
}

/// Content of the column layout block.
pub(crate) fn layout_content(layout: &Layout) -> Result<Vec<u8>, BucketError> {
    let mut raw = Vec::new();
    layout.put(&mut raw);
    for (what, value, limit_name, limit) in [
        ("bytes of a column layout block", raw.len(), "MAX_LAYOUT_BYTES", MAX_LAYOUT_BYTES),
        ("pools of a slab", layout.pools.len(), "MAX_POOLS", MAX_POOLS),
    ] {
        if value > limit {
            return Err(BucketError::Limit { what, value: value as u64, limit_name, limit: limit as u64 });
        }
    }
    Ok(raw)
}

/// An earlier column with the same values in each page. The values of both columns are stored once: usually an
/// index-time field or a stored search-time field is a part of the text. With `effort`, two columns of the texts may
/// also be equal, as an id that each event has twice.
fn equal_column(template_slab: &TemplateSlab, at: usize, effort: bool) -> Option<u32> {
    let column = &template_slab.columns[at];
    let is_extraction = at >= template_slab.first_extraction_column();
    if !effort && !is_extraction && !template_slab.fields.iter().any(|field| field.column as usize == at) {
        return None;
    }
    let has_same_values = |other: &SlabColumn| match (&*other.values, &*column.values) {
        // A search-time field often occurs in exactly the events of one template, or in exactly the events of another
        // field. The parts of the templates are not stored with the values, so only the number of templates and the
        // codes must agree.
        (
            SlabValues::Templates { templates: others, codes: known },
            SlabValues::Templates { templates: own, codes },
        ) if is_extraction => others.len() == own.len() && known == codes,
        (other, own) => std::ptr::eq(other, own) || other == own,
    };
    let is_equal = |other: &&SlabColumn| other.page_starts == column.page_starts && has_same_values(other);
    let known = template_slab.columns[..at].iter().enumerate();
    known.filter(|(_, other)| is_equal(other)).map(|(number, _)| u32_of(number)).next()
}

fn values_per_page(column: &SlabColumn) -> Vec<u32> {
    column.page_starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Whether the columns have the lengths they claim, so that they can be written; their contents are verified later.
pub(crate) fn has_consistent_lengths(template_slab: &TemplateSlab, events: usize) -> bool {
    let pages = events.div_ceil(MAX_PAGE_EVENTS);
    let fits = |column: &SlabColumn| {
        let (len, texts) = match &*column.values {
            SlabValues::Templates { codes, .. } => (codes.len(), true),
            SlabValues::Dictionary { bytes, ends, codes } => (codes.len(), are_texts_consistent(bytes, ends)),
            SlabValues::Numbers { numbers, .. } => (numbers.len(), true),
            SlabValues::Texts { bytes, ends } => (ends.len(), are_texts_consistent(bytes, ends)),
        };
        let starts = &column.page_starts;
        texts && starts.len() == pages + 1 && starts.is_sorted() && starts.last() == Some(&u32_of(len))
    };
    let templates_of = |column: &SlabColumn| match &*column.values {
        SlabValues::Templates { templates, .. } => (templates.len(), count_parts(templates)),
        _ => (0, 0),
    };
    let (templates, parts) = template_slab.columns.iter().map(templates_of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    events <= MAX_SLAB_EVENTS
        && template_slab.columns.len() <= MAX_COLUMNS
        && templates <= MAX_TEMPLATES
        && parts <= MAX_TEMPLATE_PARTS
        && template_slab.columns.iter().all(fits)
}

fn are_texts_consistent(bytes: &[u8], ends: &[u32]) -> bool {
    ends.is_sorted() && ends.last().copied().unwrap_or(0) as usize == bytes.len()
}

fn kind_of(values: &SlabValues) -> ColumnKind {
    match values {
        SlabValues::Templates { templates, .. } => ColumnKind::Templates(templates.as_slice().into()),
        SlabValues::Dictionary { ends, .. } => ColumnKind::Dictionary { len: u32_of(ends.len()) },
        SlabValues::Numbers { format, numbers } => {
            let (min, max) = range_of(numbers);
            ColumnKind::Numbers { format: *format, min, max }
        }
        SlabValues::Texts { .. } => ColumnKind::Texts,
    }
}

struct ColumnWriter<'a> {
    times: &'a [i64],
    blocks: &'a mut BlockWriter,
    effort: bool,
    /// The open pool.
    pool: Vec<u8>,
    pools: Vec<BlockRef>,
    chunk: Vec<u8>,
}

impl ColumnWriter<'_> {
    /// Writes the columns of a range, except those that share the values of another column or belong to a
    /// [`SharingUnit`].
    fn write_range(
        &mut self,
        template_slab: &TemplateSlab,
        range: Range<usize>,
        units: &[SharingUnit],
        written: &mut WrittenColumns,
    ) -> Result<(), BucketError> {
        for (number, column) in (u32_of(range.start)..).zip(&template_slab.columns[range]) {
            let kind = kind_of(&column.values);
            let is_later = !written.is_stored(number) || units.iter().any(|unit| unit.columns.contains(&number));
            written.stored.push(match is_later {
                true => {
                    let values = written.slice_of(number).map_or(ChunkLocations::Constant, ChunkLocations::Sliced);
                    StoredColumn { counts: values_per_page(column), values, dictionary: None }
                }
                false => self.write_column(column, &kind)?,
            });
            let values = u64::from(column.page_starts.last().copied().unwrap_or(0));
            let facts = Column { parent: column.parent, kind, traits: column.traits.clone(), values };
            written.template_set.columns.push(facts);
            written.template_set.counts.extend(count_values(column).map(|counts| (number, counts)));
        }
        assert_eq!(written.stored.len(), written.template_set.columns.len(), "the layout locates each column");
        Ok(())
    }

    /// Writes the columns of stored search-time fields. If these columns take more than `bytes_max`, some fields are
    /// removed from the slab or represented as parts of the texts ([`choose_within`]), and the columns of the others
    /// are written again. Returns the bytes of the stored columns.
    fn write_extractions(
        &mut self,
        template_slab: &mut TemplateSlab,
        source: &CheckedSlab<'_>,
        written: &mut WrittenColumns,
        bytes_max: u64,
    ) -> Result<u64, BucketError> {
        let first = template_slab.first_extraction_column();
        let (start, pool, pools) = (self.blocks.object.len(), self.pool.clone(), self.pools.len());
        // The fields that were tried as parts of the texts. Each field is removed at most twice, so that the loop ends.
        let mut tried: BTreeSet<(&str, u128)> = BTreeSet::new();
        loop {
            let range = first..template_slab.columns.len();
            written.find_equal(template_slab, range.clone(), self.effort);
            self.write_range(template_slab, range, &[], written)?;
            let is_slow = |stored: &StoredExtraction| {
                let mut fields = source.extractions.iter();
                fields.any(|field| (&field.name, field.rules, field.is_slow) == (&stored.name, stored.rules, true))
            };
            let (keeps, bytes) = choose_within(template_slab, is_slow, &written.stored, &written.equal, bytes_max);
            if !keeps.contains(&false) {
                return Ok(bytes);
            }
            self.blocks.object.truncate(start);
            self.pool.clone_from(&pool);
            self.pools.truncate(pools);
            written.truncate(first);
            let is_left_out = |field: &&ExtractedField| {
                let mut known = template_slab.extractions.iter().zip(&keeps);
                known.any(|(stored, keeps)| !keeps && (&stored.name, stored.rules) == (&field.name, field.rules))
            };
            let mut left_out: Vec<&ExtractedField> = source.extractions.iter().filter(is_left_out).collect();
            template_slab.retain_extractions(&keeps);
            left_out.retain(|field| tried.insert((&*field.name, field.rules)));
            if !left_out.is_empty() {
                template_slab.add_parts(&left_out, PartLimits::UNIQUE, source.events.len());
            }
        }
    }

    fn write_column(&mut self, column: &SlabColumn, kind: &ColumnKind) -> Result<StoredColumn, BucketError> {
        let counts = values_per_page(column);
        let mut text_dictionary = None;
        let values = if has_single_value(kind) {
            ChunkLocations::Constant
        } else if let Some(lens) = self.encode_pool_chunks(column)? {
            let chunks = std::mem::take(&mut self.chunk);
            let (pool, start) = self.add_to_pool(&chunks)?;
            self.chunk = chunks;
            ChunkLocations::Pooled { pool, start, lens }
        } else {
            let mut trained = self.train_text_dictionary(column)?;
            if let Some(compressor) = &trained {
                text_dictionary = Some(self.write_text_dictionary(&compressor.dictionary)?);
            }
            self.write_block_chunks(column, trained.as_mut())?
        };
        let dictionary = match &*column.values {
            SlabValues::Dictionary { bytes, ends, .. } => Some(self.write_dictionary(bytes, ends)?),
            _ => text_dictionary,
        };
        Ok(StoredColumn { counts, values, dictionary })
    }

    /// At full effort, the dictionary of a text column, if it saves enough space.
    fn train_text_dictionary(&mut self, column: &SlabColumn) -> Result<Option<TextCompressor>, BucketError> {
        let SlabValues::Texts { bytes, ends } = &*column.values else { return Ok(None) };
        if !self.effort {
            return Ok(None);
        }
        let end_of = |values: u32| values.checked_sub(1).map_or(0, |last| ends[last as usize] as usize);
        let pages = column.page_starts.windows(2).map(|pair| &bytes[end_of(pair[0])..end_of(pair[1])]);
        let pages: Vec<&[u8]> = pages.filter(|page| !page.is_empty()).collect();
        TextCompressor::train(&pages, self.blocks)
    }

    fn write_text_dictionary(&mut self, dictionary: &[u8]) -> Result<DictionaryLocation, BucketError> {
        let (kind, offset) = (BlockKind::TextDictionary, self.blocks.object.len() as u64);
        let stored_len = self.blocks.write(kind, dictionary)?;
        Ok(DictionaryLocation::Block(BlockRef { kind, offset, stored_len }))
    }

    /// Encodes all chunks into `chunk`; `None` if the chunks are too large for a pool.
    fn encode_pool_chunks(&mut self, column: &SlabColumn) -> Result<Option<Vec<u32>>, BucketError> {
        let mut lens = Vec::with_capacity(column.page_starts.len());
        self.chunk.clear();
        for page in 0..column.page_starts.len() - 1 {
            let before = self.chunk.len();
            encode_chunk(column, page, self.times, (&mut Effort::Plain, None), &mut self.chunk)?;
            if self.chunk.len() > POOLED_BYTES_MAX {
                return Ok(None);
            }
            lens.push(u32_of(self.chunk.len() - before));
        }
        Ok(Some(lens))
    }

    fn write_block_chunks(
        &mut self,
        column: &SlabColumn,
        mut dictionary: Option<&mut TextCompressor>,
    ) -> Result<ChunkLocations, BucketError> {
        let offset = self.blocks.object.len() as u64;
        let mut lens = Vec::with_capacity(column.page_starts.len());
        for page in 0..column.page_starts.len() - 1 {
            self.chunk.clear();
            let blocks = &mut *self.blocks;
            let mut effort = if self.effort { Effort::All(blocks) } else { Effort::Seal(blocks) };
            encode_chunk(column, page, self.times, (&mut effort, dictionary.as_deref_mut()), &mut self.chunk)?;
            lens.push(match self.chunk.is_empty() {
                true => 0,
                false => self.blocks.write_stored(BlockKind::ColumnChunk, &self.chunk),
            });
        }
        Ok(ChunkLocations::Blocks { offset, lens })
    }

    /// Size of a column if it is stored in blocks of its own; the blocks written for this are discarded.
    fn measure(&mut self, column: &SlabColumn) -> Result<usize, BucketError> {
        let start = self.blocks.object.len();
        let written = self.write_block_chunks(column, None);
        let bytes = self.blocks.object.len() - start;
        self.blocks.object.truncate(start);
        written.map(|_| bytes)
    }

    fn write_dictionary(&mut self, bytes: &[u8], ends: &[u32]) -> Result<DictionaryLocation, BucketError> {
        let mut encoded = std::mem::take(&mut self.chunk);
        encoded.clear();
        encode_dictionary(bytes, ends, &mut encoded);
        let at = if encoded.len() <= POOLED_BYTES_MAX {
            let (pool, start) = self.add_to_pool(&encoded)?;
            DictionaryLocation::Pooled { pool, start, len: u32_of(encoded.len()) }
        } else {
            let offset = self.blocks.object.len() as u64;
            let stored_len = self.blocks.write(BlockKind::ColumnDictionary, &encoded)?;
            DictionaryLocation::Block(BlockRef { kind: BlockKind::ColumnDictionary, offset, stored_len })
        };
        self.chunk = encoded;
        Ok(at)
    }

    /// Adds an entry to a pool. Returns the number of the pool and the offset of the entry in it.
    fn add_to_pool(&mut self, entry: &[u8]) -> Result<(u32, u32), BucketError> {
        if !self.pool.is_empty() && self.pool.len() + entry.len() > TARGET_POOL_BYTES {
            self.close_pool()?;
        }
        let place = (u32_of(self.pools.len()), u32_of(self.pool.len()));
        self.pool.extend_from_slice(entry);
        Ok(place)
    }

    fn close_pool(&mut self) -> Result<(), BucketError> {
        if !self.pool.is_empty() {
            let offset = self.blocks.object.len() as u64;
            let stored_len = self.blocks.write(BlockKind::ColumnPool, &self.pool)?;
            self.pools.push(BlockRef { kind: BlockKind::ColumnPool, offset, stored_len });
            self.pool.clear();
        }
        Ok(())
    }
}

/// Whether the numbers of a column are stored as differences from the times of the events in some page.
fn follows_times(column: &SlabColumn, times: &[i64]) -> bool {
    let mut chunk = Vec::new();
    (0..column.page_starts.len() - 1).any(|page| {
        chunk.clear();
        let encoded = encode_chunk(column, page, times, (&mut Effort::Plain, None), &mut chunk);
        matches!(&*column.values, SlabValues::Numbers { .. }) && encoded.is_ok() && needs_times(&chunk)
    })
}

/// Appends the chunk of one page; nothing if the page has no value.
fn encode_chunk(
    column: &SlabColumn,
    page: usize,
    times: &[i64],
    (effort, dictionary): (&mut Effort<'_>, Option<&mut TextCompressor>),
    out: &mut Vec<u8>,
) -> Result<(), BucketError> {
    let (start, end) = (column.page_starts[page] as usize, column.page_starts[page + 1] as usize);
    if start == end {
        return Ok(());
    }
    match &*column.values {
        SlabValues::Templates { codes, .. } | SlabValues::Dictionary { codes, .. } => {
            encode_codes(&codes[start..end], effort, out)
        }
        SlabValues::Numbers { numbers, .. } => {
            let first = page * MAX_PAGE_EVENTS;
            let times = &times[first..times.len().min(first + MAX_PAGE_EVENTS)];
            encode_numbers(&numbers[start..end], (times.len() == end - start).then_some(times), effort, out)
        }
        SlabValues::Texts { bytes, ends } => {
            let base = if start == 0 { 0 } else { ends[start - 1] };
            let bytes = &bytes[base as usize..ends[end - 1] as usize];
            encode_texts(bytes, (&ends[start..end], base), effort, dictionary, out)
        }
    }
}
