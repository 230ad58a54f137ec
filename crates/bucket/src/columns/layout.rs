//! The column layout block: what the columns of a slab are and where their values are stored.

use std::sync::Arc;

use quarry_event::template::{
    ByteSet, Column, ColumnKind, MAX_COLUMNS, MAX_PART_CODES, MAX_STORED_EXTRACTIONS, MAX_TEMPLATE_DEPTH,
    MAX_TEMPLATES, NumberFormat, Template, TemplatePart, TemplateSet, TimeLayout, ValueTraits,
};
use quarry_stdx::number::u32_of;

use crate::block::{BlockKind, BlockRef};
use crate::columns::shared_dictionary::{MAX_SHARED_BYTES, SharedAt};
use crate::columns::slices::Slice;
use crate::columns::{MAX_POOL_BYTES, MAX_POOLS, MAX_TEMPLATE_PARTS};
use crate::columns::{counts, extractions, fields};
use crate::error::BucketError;
use crate::limits::{MAX_SLAB_EVENTS, MAX_SLAB_RAW_BYTES};
use crate::source::ObjectSource;
use crate::templates::{PREFIX_BYTES_MAX, VALUE_SET_BYTES_MAX, VALUE_SET_MAX};
use crate::wire::{Cursor, Malformed, put_bytes, put_signed, put_varint};

/// Maximum number of columns and of templates, including stored search-time fields.
const ALL_COLUMNS_MAX: usize = MAX_COLUMNS + 2 * MAX_STORED_EXTRACTIONS;
const ALL_TEMPLATES_MAX: usize = MAX_TEMPLATES + 2 * MAX_STORED_EXTRACTIONS + MAX_PART_CODES;

const TEMPLATES: u8 = 0;
const DICTIONARY: u8 = 1;
const NUMBERS: u8 = 2;
const TEXTS: u8 = 3;

const STORED_NOWHERE: u8 = 0;
const STORED_IN_POOL: u8 = 1;
const STORED_IN_BLOCKS: u8 = 2;
const STORED_SHARED: u8 = 3;
const SHARED_IN_RUNS: u8 = 4;
const SLICED: u8 = 5;

// Flag bits before the counts of a column.

/// The column has a value for every value of its parent.
const SAME_COUNTS: u8 = 1;
/// Each value can stand between JSON quotes.
const STRING_CONTENTS: u8 = 2;
/// Each value is a JSON scalar.
const JSON_SCALARS: u8 = 4;
/// The texts of the dictionary are stored after the counts.
const VALUE_SET: u8 = 8;
/// The prefix of all values is stored after the counts.
const PREFIX: u8 = 16;
/// The set of bytes that occur after the prefix is stored after the counts.
const AFTER_PREFIX: u8 = 32;
/// The texts are compressed with a dictionary of the column.
const TEXT_DICTIONARY: u8 = 64;

const INTEGER: u8 = 0;
const PADDED: u8 = 1;
const DECIMAL: u8 = 2;
const HEX: u8 = 3;
const IP4: u8 = 4;
const ISO: u8 = 5;
const COMMON: u8 = 6;
const CLOCK: u8 = 7;
const SHORTEST: u8 = 8;

/// Contents of a column layout block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) template_set: Arc<TemplateSet>,
    /// Stored values of each column.
    pub(crate) stored: Vec<StoredColumn>,
    pub(crate) pools: Vec<BlockRef>,
    /// While a slab is written: columns and the earlier columns whose values they share.
    pub(crate) copies: Vec<(u32, u32)>,
}

/// Location of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredColumn {
    /// Number of values in each page.
    pub(crate) counts: Vec<u32>,
    pub(crate) values: ChunkLocations,
    /// Texts of a dictionary column, or the zstd dictionary of a text column.
    pub(crate) dictionary: Option<DictionaryLocation>,
}

/// The chunks of a column, one per page that has values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkLocations {
    /// The column can have only one value, so nothing is stored.
    Constant,
    /// Consecutive chunks in a pool.
    Pooled { pool: u32, start: u32, lens: Vec<u32> },
    /// Consecutive blocks, one per chunk.
    Blocks { offset: u64, lens: Vec<u32> },
    /// Chunks of codes into a bucket-wide dictionary, in consecutive blocks, one per page. All columns that are
    /// components of the same entries share these blocks.
    Shared { dictionary: SharedAt, component: u32, offset: u64, lens: Vec<u32> },
    /// The values are parts of the values of another column.
    Sliced(Slice),
}

/// Location of a dictionary's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DictionaryLocation {
    Pooled { pool: u32, start: u32, len: u32 },
    Block(BlockRef),
}

impl ChunkLocations {
    /// Block that holds a page's chunk, for a column with consecutive blocks.
    pub(crate) fn block_of(offset: u64, lens: &[u32], page: usize) -> BlockRef {
        let before: u64 = lens.iter().take(page).map(|len| u64::from(*len)).sum();
        let stored_len = lens.get(page).copied().unwrap_or(0);
        BlockRef { kind: BlockKind::ColumnChunk, offset: offset.saturating_add(before), stored_len }
    }
}

/// Whether a column of this kind can have only one value.
pub(crate) fn has_single_value(kind: &ColumnKind) -> bool {
    match kind {
        ColumnKind::Templates(templates) => templates.len() <= 1,
        ColumnKind::Dictionary { len } => *len <= 1,
        ColumnKind::Numbers { min, max, .. } => min == max,
        ColumnKind::Texts => false,
    }
}

impl Layout {
    /// The column whose stored values contain the values of a column: the column itself, unless it is a slice.
    pub(crate) fn holder_of(&self, column: u32) -> u32 {
        self.slice_of(column).map_or(column, |slice| slice.column)
    }

    /// The values of which a column's values are parts.
    pub(crate) fn slice_of(&self, column: u32) -> Option<Slice> {
        match self.stored.get(column as usize)?.values {
            ChunkLocations::Sliced(slice) => Some(slice),
            _ => None,
        }
    }

    /// Copies the location of each column, once it is known, to the later columns that share its values.
    pub(crate) fn share_equal_columns(&mut self) {
        for (column, equal) in std::mem::take(&mut self.copies) {
            self.stored[column as usize] = self.stored[equal as usize].clone();
        }
    }

    /// The shared dictionaries that the columns use, in the order of their offsets.
    pub(crate) fn shared_dictionaries(&self) -> Vec<SharedAt> {
        let used = self.stored.iter().filter_map(|column| match &column.values {
            ChunkLocations::Shared { dictionary, .. } => Some(*dictionary),
            _ => None,
        });
        let mut used: Vec<SharedAt> = used.collect();
        used.sort_unstable_by_key(|at| at.block.offset);
        used.dedup();
        used
    }

    /// Directories of the shared dictionaries that are stored in runs, and text dictionaries. The slab head lists these
    /// blocks, so that a version that cannot read them reports a newer bucket.
    pub(crate) fn listed_blocks(&self) -> Vec<BlockRef> {
        let runs = self.shared_dictionaries().into_iter().filter(SharedAt::has_runs).map(|at| at.block);
        let of_texts = self.blocks().into_iter().filter(|at| at.kind == BlockKind::TextDictionary);
        runs.chain(of_texts).collect()
    }

    /// Blocks that several columns or slabs share; some occur more than once. Reads the directories of shared
    /// dictionaries.
    pub(crate) fn shared_blocks(&self, source: &ObjectSource) -> Result<Vec<BlockRef>, BucketError> {
        let mut blocks = Vec::new();
        for at in self.shared_dictionaries() {
            blocks.extend(at.blocks(source)?);
        }
        for column in &self.stored {
            if let ChunkLocations::Shared { offset, lens, .. } = &column.values {
                let all = (0..lens.len()).map(|page| ChunkLocations::block_of(*offset, lens, page));
                blocks.extend(all.filter(|at| at.stored_len > 0));
            }
        }
        Ok(blocks)
    }

    /// Blocks that the column layout block lists, except the shared blocks.
    pub(crate) fn blocks(&self) -> Vec<BlockRef> {
        let mut blocks = self.pools.clone();
        for column in &self.stored {
            if let ChunkLocations::Blocks { offset, lens } = &column.values {
                let all = (0..lens.len()).map(|page| ChunkLocations::block_of(*offset, lens, page));
                blocks.extend(all.filter(|at| at.stored_len > 0));
            }
            if let Some(DictionaryLocation::Block(at)) = column.dictionary {
                blocks.push(at);
            }
        }
        // Equal columns are stored once.
        blocks.sort_unstable_by_key(|at| at.offset);
        blocks.dedup();
        blocks
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        assert!(self.pools.len() <= MAX_POOLS, "a slab has at most MAX_POOLS pools");
        assert_eq!(self.template_set.columns.len(), self.stored.len(), "every column is stored");
        assert!(self.copies.is_empty(), "columns that share values have their location");
        assert!((1..=ALL_COLUMNS_MAX).contains(&self.stored.len()), "a slab has between 1 and ALL_COLUMNS_MAX columns");
        put_varint(out, self.pools.len() as u64);
        for pool in &self.pools {
            put_block_ref(pool, out);
        }
        put_varint(out, self.template_set.columns.len() as u64);
        for (number, (column, stored)) in self.template_set.columns.iter().zip(&self.stored).enumerate() {
            let is_below = column.parent.is_none_or(|parent| (parent as usize) < number);
            assert!(is_below, "the column of a variable comes after its parent");
            put_varint(out, column.parent.map_or(0, |parent| u64::from(parent) + 1));
            put_kind(&column.kind, out);
            put_traits(&column.traits, out);
            let parent = column.parent.and_then(|parent| self.stored.get(parent as usize));
            let is_content = if column.traits.string_contents { STRING_CONTENTS } else { 0 };
            let is_scalar = if column.traits.json_scalars { JSON_SCALARS } else { 0 };
            let value_set = column.traits.value_set.as_deref();
            let prefix = &*column.traits.prefix;
            let has_prefix = if prefix.is_empty() { 0 } else { PREFIX | AFTER_PREFIX };
            let is_compressed = column.kind == ColumnKind::Texts && stored.dictionary.is_some();
            let has_dictionary = if is_compressed { TEXT_DICTIONARY } else { 0 };
            let content = is_content | is_scalar | has_prefix | has_dictionary | value_set.map_or(0, |_| VALUE_SET);
            match parent {
                Some(parent) if parent.counts == stored.counts => out.push(content | SAME_COUNTS),
                _ => {
                    out.push(content);
                    stored.counts.iter().for_each(|count| put_varint(out, u64::from(*count)));
                }
            }
            if let Some(set) = value_set {
                assert_eq!(ColumnKind::Dictionary { len: u32_of(set.len()) }, column.kind, "the set is the dictionary");
                assert!(set.len() <= VALUE_SET_MAX, "a larger set would be rejected when it is read");
                set.iter().for_each(|text| put_bytes(out, text.as_bytes()));
            }
            if !prefix.is_empty() {
                assert!(prefix.len() <= PREFIX_BYTES_MAX, "a longer prefix would be rejected when it is read");
                put_bytes(out, prefix.as_bytes());
                put_byte_set(column.traits.after_prefix, out);
            }
            stored.put(out);
        }
        counts::put(&self.template_set, &self.stored, out);
        fields::put(&self.template_set, out);
        extractions::put(&self.template_set, out);
    }

    /// Reads the column layout block of a slab whose pages have `events` events.
    pub(crate) fn read(bytes: &[u8], events: &[u32]) -> Result<Layout, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let mut layout = Layout::default();
        for _ in 0..cursor.count("number of pools", MAX_POOLS)? {
            layout.pools.push(read_block_ref(&mut cursor, BlockKind::ColumnPool)?);
        }
        let columns = cursor.count("number of columns", ALL_COLUMNS_MAX)?;
        let mut template_set = TemplateSet::default();
        let (mut templates, mut parts) = (0, 0);
        for number in 0..columns {
            let (column, stored) = read_column(&mut cursor, &layout, number, columns, events)?;
            if let ColumnKind::Templates(list) = &column.kind {
                templates += list.len();
                parts += count_parts(list);
                if templates > ALL_TEMPLATES_MAX || parts > MAX_TEMPLATE_PARTS + MAX_STORED_EXTRACTIONS + MAX_PART_CODES
                {
                    return Err(Malformed(format!("there are {templates} templates of {parts} parts")));
                }
            }
            template_set.columns.push(column);
            layout.stored.push(stored);
        }
        template_set.counts = counts::read(&mut cursor, &template_set, &layout.stored)?;
        template_set.fields = fields::read(&mut cursor, &template_set)?;
        template_set.extractions = extractions::read(&mut cursor, &template_set)?;
        template_set.extracted_names = extractions::read_names(&mut cursor, template_set.extractions.is_empty())?;
        cursor.finish("the column layout block")?;
        if columns == 0 {
            return Err(Malformed::new("there is no column"));
        }
        check_tree(&template_set)?;
        check_slices(&template_set.columns, &layout.stored)?;
        template_set.add_forms();
        assert_eq!(template_set.columns.len(), layout.stored.len(), "every column is stored, as it was written");
        layout.template_set = Arc::new(template_set);
        Ok(layout)
    }
}

/// Total number of parts of some templates.
pub(crate) fn count_parts(templates: &[Template]) -> usize {
    templates.iter().map(|template| template.parts.len()).sum()
}

/// Checks that every column has a parent that precedes it and has templates, and that the variables of a template
/// belong to children of its column, each child at most once. The first column and the columns of index-time and stored
/// search-time fields need no parent.
fn check_tree(template_set: &TemplateSet) -> Result<(), Malformed> {
    let mut depths = vec![0usize; template_set.columns.len()];
    let has_fields = !template_set.fields.is_empty() || !template_set.extractions.is_empty();
    for (number, column) in template_set.columns.iter().enumerate() {
        depths[number] = match column.parent {
            None if number == 0 || has_fields => 1,
            Some(parent) if (parent as usize) < number => depths[parent as usize] + 1,
            _ => return Err(Malformed(format!("column {number} cannot have the parent {:?}", column.parent))),
        };
        let parent = column.parent.map(|parent| &template_set.columns[parent as usize].kind);
        if !matches!(parent, None | Some(ColumnKind::Templates(_))) {
            return Err(Malformed(format!("the parent of column {number} has no templates")));
        }
        let ColumnKind::Templates(templates) = &column.kind else {
            continue;
        };
        if depths[number] > MAX_TEMPLATE_DEPTH {
            return Err(Malformed(format!("column {number} lies {} templates deep", depths[number])));
        }
        let mut named_in = vec![usize::MAX; template_set.columns.len()];
        for (at, template) in templates.iter().enumerate() {
            for variable in template.variables() {
                let child = template_set.columns.get(variable as usize);
                if child.is_none_or(|child| child.parent != Some(u32_of(number))) || named_in[variable as usize] == at {
                    return Err(Malformed(format!("a template of column {number} cannot contain column {variable}")));
                }
                named_in[variable as usize] = at;
            }
        }
    }
    Ok(())
}

/// Checks that slices are parts of columns that contain texts long enough.
pub(super) fn check_slices(columns: &[Column], stored: &[StoredColumn]) -> Result<(), Malformed> {
    for (number, (column, own)) in columns.iter().zip(stored).enumerate() {
        let ChunkLocations::Sliced(Slice { column: text, start }) = own.values else { continue };
        let has_length = column.traits.min_len == column.traits.max_len;
        let may_be_slice = matches!(column.kind, ColumnKind::Texts | ColumnKind::Numbers { .. });
        let contains = |(text, texts): (&Column, &StoredColumn)| {
            text.kind == ColumnKind::Texts
                && !matches!(texts.values, ChunkLocations::Sliced(_))
                && texts.counts == own.counts
                && start.checked_add(column.traits.max_len).is_some_and(|end| end <= text.traits.min_len)
        };
        let text = columns.get(text as usize).zip(stored.get(text as usize));
        if !has_length || !may_be_slice || own.dictionary.is_some() || !text.is_some_and(contains) {
            return Err(Malformed(format!("the values of column {number} cannot be parts of another column")));
        }
    }
    Ok(())
}

fn read_column(
    cursor: &mut Cursor<'_>,
    layout: &Layout,
    number: usize,
    columns: usize,
    events: &[u32],
) -> Result<(Column, StoredColumn), Malformed> {
    let parent = (cursor.count32("parent of a column", number)?).checked_sub(1);
    let kind = read_kind(cursor, columns)?;
    let mut traits = read_traits(cursor)?;
    let most: &[u32] = match parent {
        Some(parent) => &layout.stored[parent as usize].counts,
        None => events,
    };
    let form = cursor.u8("whether every value of the parent has one")?;
    traits.string_contents = form & STRING_CONTENTS != 0;
    traits.json_scalars = form & JSON_SCALARS != 0;
    let has_text_dictionary = form & TEXT_DICTIONARY != 0;
    if has_text_dictionary && kind != ColumnKind::Texts {
        return Err(Malformed(format!("column {number} has a text dictionary, but no texts")));
    }
    let counts = match form & !(STRING_CONTENTS | JSON_SCALARS | VALUE_SET | PREFIX | AFTER_PREFIX | TEXT_DICTIONARY) {
        SAME_COUNTS => most.to_vec(),
        0 => {
            let count = |most: &u32| cursor.count32("values of a page", *most as usize);
            most.iter().map(count).collect::<Result<Vec<u32>, Malformed>>()?
        }
        _ => return Err(Malformed(format!("the counts of a column are of form {form}"))),
    };
    if form & VALUE_SET != 0 {
        traits.value_set = Some(read_value_set(cursor, &kind)?);
    }
    if form & PREFIX != 0 {
        let prefix = cursor.text("the prefix of a column's values", PREFIX_BYTES_MAX)?;
        let may_have = matches!(kind, ColumnKind::Dictionary { .. } | ColumnKind::Texts) && traits.value_set.is_none();
        if !may_have || prefix.is_empty() || prefix.len() > traits.min_len as usize {
            return Err(Malformed(format!(
                "the values of column {number} cannot begin with a text of {} bytes",
                prefix.len()
            )));
        }
        traits.prefix = prefix.into();
        // Earlier versions stored only the prefix.
        let has_rest = form & AFTER_PREFIX != 0;
        traits.after_prefix = if has_rest { read_byte_set(cursor)? } else { traits.bytes };
    } else if form & AFTER_PREFIX != 0 {
        return Err(Malformed(format!("column {number} has bytes after a prefix, and no prefix")));
    }
    if parent.is_none() && counts != events {
        return Err(Malformed(format!("column {number} without parent does not have a value per event")));
    }
    let values = counts.iter().map(|count| u64::from(*count)).sum();
    let stored = StoredColumn::read(cursor, (&kind, has_text_dictionary), counts, layout.pools.len())?;
    debug_assert!(values <= MAX_SLAB_EVENTS as u64);
    Ok((Column { parent, kind, traits, values }, stored))
}

/// The texts of a small dictionary.
fn read_value_set(cursor: &mut Cursor<'_>, kind: &ColumnKind) -> Result<Arc<[Box<str>]>, Malformed> {
    let ColumnKind::Dictionary { len } = *kind else {
        return Err(Malformed::new("a column lists texts of a dictionary, but has no dictionary"));
    };
    if len as usize > VALUE_SET_MAX {
        return Err(Malformed(format!("a dictionary of {len} texts is listed; the limit is {VALUE_SET_MAX} texts")));
    }
    let texts: Result<Vec<Box<str>>, Malformed> =
        (0..len).map(|_| cursor.text("a text of a dictionary", VALUE_SET_BYTES_MAX).map(Box::from)).collect();
    let texts = texts?;
    match texts.is_sorted_by(|one, next| one < next) {
        true => Ok(texts.into()),
        false => Err(Malformed::new("the listed texts of a dictionary do not ascend")),
    }
}

impl StoredColumn {
    /// Stored bytes of the column's values and dictionary. A shared dictionary, which several columns may use, is
    /// included if `counts` returns true for its block.
    pub(crate) fn stored_bytes(&self, counts: &mut dyn FnMut(BlockRef) -> bool) -> u64 {
        let sum = |lens: &[u32]| lens.iter().map(|len| u64::from(*len)).sum::<u64>();
        let values = match &self.values {
            ChunkLocations::Constant | ChunkLocations::Sliced(_) => 0,
            ChunkLocations::Pooled { lens, .. } | ChunkLocations::Blocks { lens, .. } => sum(lens),
            ChunkLocations::Shared { component: 1.., .. } => 0,
            ChunkLocations::Shared { dictionary, lens, .. } => {
                sum(lens) + if counts(dictionary.block) { dictionary.stored_bytes() } else { 0 }
            }
        };
        values
            + match &self.dictionary {
                None => 0,
                Some(DictionaryLocation::Pooled { len, .. }) => u64::from(*len),
                Some(DictionaryLocation::Block(at)) => u64::from(at.stored_len),
            }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let put_lens = |lens: &[u32], out: &mut Vec<u8>| {
            for (len, count) in lens.iter().zip(&self.counts) {
                if *count > 0 {
                    put_varint(out, u64::from(*len));
                }
            }
        };
        match &self.values {
            ChunkLocations::Constant => out.push(STORED_NOWHERE),
            ChunkLocations::Pooled { pool, start, lens } => {
                out.push(STORED_IN_POOL);
                put_varint(out, u64::from(*pool));
                put_varint(out, u64::from(*start));
                put_lens(lens, out);
            }
            ChunkLocations::Blocks { offset, lens } => {
                out.push(STORED_IN_BLOCKS);
                put_varint(out, *offset);
                put_lens(lens, out);
            }
            ChunkLocations::Shared { dictionary, component, offset, lens } => {
                out.push(if dictionary.has_runs() { SHARED_IN_RUNS } else { STORED_SHARED });
                put_block_ref(&dictionary.block, out);
                if dictionary.has_runs() {
                    put_varint(out, dictionary.run_bytes);
                }
                put_varint(out, u64::from(*component));
                put_varint(out, *offset);
                put_lens(lens, out);
            }
            ChunkLocations::Sliced(Slice { column, start }) => {
                out.push(SLICED);
                put_varint(out, u64::from(*column));
                put_varint(out, u64::from(*start));
            }
        }
        match &self.dictionary {
            None => {}
            Some(DictionaryLocation::Pooled { pool, start, len }) => {
                out.push(STORED_IN_POOL);
                put_varint(out, u64::from(*pool));
                put_varint(out, u64::from(*start));
                put_varint(out, u64::from(*len));
            }
            Some(DictionaryLocation::Block(at)) => {
                out.push(STORED_IN_BLOCKS);
                put_block_ref(at, out);
            }
        }
    }

    fn read(
        cursor: &mut Cursor<'_>,
        (kind, has_text_dictionary): (&ColumnKind, bool),
        counts: Vec<u32>,
        pools: usize,
    ) -> Result<StoredColumn, Malformed> {
        let read_lens = |cursor: &mut Cursor<'_>| -> Result<Vec<u32>, Malformed> {
            let len = |count: &u32| match count {
                0 => Ok(0),
                _ => cursor.count32("length of a chunk", u32::MAX as usize),
            };
            counts.iter().map(len).collect()
        };
        let form = cursor.u8("form of a column's values")?;
        let values = match form {
            STORED_NOWHERE if has_single_value(kind) => ChunkLocations::Constant,
            STORED_IN_POOL => {
                let (pool, start) = read_pool_location(cursor, pools)?;
                ChunkLocations::Pooled { pool, start, lens: read_lens(cursor)? }
            }
            STORED_IN_BLOCKS => {
                ChunkLocations::Blocks { offset: cursor.varint("offset of a column")?, lens: read_lens(cursor)? }
            }
            STORED_SHARED | SHARED_IN_RUNS if matches!(kind, ColumnKind::Numbers { .. }) => ChunkLocations::Shared {
                dictionary: read_shared_at(cursor, form == SHARED_IN_RUNS)?,
                component: cursor.count32("component of an entry", usize::from(u8::MAX))?,
                offset: cursor.varint("offset of a column")?,
                lens: read_lens(cursor)?,
            },
            SLICED => ChunkLocations::Sliced(Slice {
                column: cursor.count32("column that contains values", ALL_COLUMNS_MAX)?,
                start: cursor.count32("place of values", MAX_SLAB_RAW_BYTES)?,
            }),
            other => return Err(Malformed(format!("the values of a column are of form {other}"))),
        };
        let dictionary = match kind {
            ColumnKind::Dictionary { .. } => Some(read_dictionary_at(cursor, pools, BlockKind::ColumnDictionary)?),
            ColumnKind::Texts if has_text_dictionary => {
                Some(read_dictionary_at(cursor, pools, BlockKind::TextDictionary)?)
            }
            _ => None,
        };
        Ok(StoredColumn { counts, values, dictionary })
    }
}

fn read_shared_at(cursor: &mut Cursor<'_>, has_runs: bool) -> Result<SharedAt, Malformed> {
    if !has_runs {
        return Ok(SharedAt { block: read_block_ref(cursor, BlockKind::SharedDictionary)?, run_bytes: 0 });
    }
    let block = read_block_ref(cursor, BlockKind::SharedDictionaryDirectory)?;
    let run_bytes = cursor.count("bytes of the runs of a shared dictionary", MAX_SHARED_BYTES)? as u64;
    match run_bytes <= block.offset {
        true => Ok(SharedAt { block, run_bytes }),
        false => {
            Err(Malformed(format!("{run_bytes} bytes of runs cannot precede a directory at byte {}", block.offset)))
        }
    }
}

fn read_dictionary_at(cursor: &mut Cursor<'_>, pools: usize, kind: BlockKind) -> Result<DictionaryLocation, Malformed> {
    match cursor.u8("form of a dictionary")? {
        STORED_IN_POOL if kind == BlockKind::ColumnDictionary => {
            let (pool, start) = read_pool_location(cursor, pools)?;
            Ok(DictionaryLocation::Pooled { pool, start, len: cursor.count32("length", MAX_POOL_BYTES)? })
        }
        STORED_IN_BLOCKS => Ok(DictionaryLocation::Block(read_block_ref(cursor, kind)?)),
        other => Err(Malformed(format!("a dictionary is of form {other}"))),
    }
}

fn read_pool_location(cursor: &mut Cursor<'_>, pools: usize) -> Result<(u32, u32), Malformed> {
    let pool = cursor.count("number of a pool", pools)?;
    if pool == pools {
        return Err(Malformed(format!("pool {pool} of {pools} is named")));
    }
    Ok((u32_of(pool), cursor.count32("place in a pool", MAX_POOL_BYTES)?))
}

fn put_block_ref(at: &BlockRef, out: &mut Vec<u8>) {
    put_varint(out, at.offset);
    put_varint(out, u64::from(at.stored_len));
}

fn read_block_ref(cursor: &mut Cursor<'_>, kind: BlockKind) -> Result<BlockRef, Malformed> {
    let offset = cursor.varint("offset of a block")?;
    Ok(BlockRef { kind, offset, stored_len: cursor.count32("length of a block", u32::MAX as usize)? })
}

fn put_kind(kind: &ColumnKind, out: &mut Vec<u8>) {
    match kind {
        ColumnKind::Templates(templates) => {
            out.push(TEMPLATES);
            put_varint(out, templates.len() as u64);
            for template in templates.iter() {
                put_varint(out, template.parts.len() as u64);
                put_parts(&template.parts, out);
            }
        }
        ColumnKind::Dictionary { len } => {
            assert!(*len as usize <= MAX_SLAB_EVENTS, "a dictionary has no more texts than events");
            out.push(DICTIONARY);
            put_varint(out, u64::from(*len));
        }
        ColumnKind::Numbers { format, min, max } => {
            out.push(NUMBERS);
            put_format(*format, out);
            put_signed(out, *min);
            put_signed(out, *max);
        }
        ColumnKind::Texts => out.push(TEXTS),
    }
}

fn read_kind(cursor: &mut Cursor<'_>, columns: usize) -> Result<ColumnKind, Malformed> {
    match cursor.u8("kind of a column")? {
        TEMPLATES => {
            let count = cursor.count("number of templates", MAX_TEMPLATES.min(cursor.remaining()))?;
            let templates = (0..count).map(|_| read_template(cursor, columns)).collect::<Result<Arc<[_]>, _>>()?;
            Ok(ColumnKind::Templates(templates))
        }
        DICTIONARY => Ok(ColumnKind::Dictionary { len: cursor.count32("texts of a dictionary", MAX_SLAB_EVENTS)? }),
        NUMBERS => {
            let format = read_format(cursor)?;
            Ok(ColumnKind::Numbers { format, min: cursor.signed("smallest number")?, max: cursor.signed("largest")? })
        }
        TEXTS => Ok(ColumnKind::Texts),
        other => Err(Malformed(format!("kind {other} of a column is unknown"))),
    }
}

fn read_template(cursor: &mut Cursor<'_>, columns: usize) -> Result<Template, Malformed> {
    // A literal takes at least three bytes, a variable at least one.
    let count = cursor.count("parts of a template", cursor.remaining().min(2 * MAX_COLUMNS + 1))?;
    Ok(Template { parts: read_parts(cursor, count, columns)? })
}

/// Appends literals and variables.
pub(super) fn put_parts(parts: &[TemplatePart], out: &mut Vec<u8>) {
    for part in parts {
        match part {
            // No variable refers to the text column, so the number of this column marks a literal.
            TemplatePart::Literal(bytes) => {
                out.push(0);
                put_bytes(out, bytes);
            }
            TemplatePart::Variable(column) => {
                assert!(*column > 0, "the text column is not a variable");
                put_varint(out, u64::from(*column));
            }
        }
    }
}

/// Reads this many literals and variables, whose columns have at most the number `columns`.
pub(super) fn read_parts(
    cursor: &mut Cursor<'_>,
    count: usize,
    columns: usize,
) -> Result<Vec<TemplatePart>, Malformed> {
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        parts.push(match cursor.count("column of a variable", columns)? {
            0 => match cursor.text("a literal", MAX_SLAB_RAW_BYTES)?.as_bytes() {
                [] => return Err(Malformed::new("a literal is empty")),
                bytes => TemplatePart::Literal(bytes.into()),
            },
            column => TemplatePart::Variable(u32_of(column)),
        });
    }
    Ok(parts)
}

fn put_traits(traits: &ValueTraits, out: &mut Vec<u8>) {
    for set in [traits.bytes, traits.firsts, traits.lasts] {
        put_byte_set(set, out);
    }
    put_varint(out, u64::from(traits.min_len));
    put_varint(out, u64::from(traits.max_len));
}

fn put_byte_set(set: ByteSet, out: &mut Vec<u8>) {
    set.words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn read_byte_set(cursor: &mut Cursor<'_>) -> Result<ByteSet, Malformed> {
    let mut words = [0; 4];
    for word in &mut words {
        *word = cursor.u64("set of bytes")?;
    }
    Ok(ByteSet::from_words(words))
}

fn read_traits(cursor: &mut Cursor<'_>) -> Result<ValueTraits, Malformed> {
    let mut sets = [ByteSet::EMPTY; 3];
    for set in &mut sets {
        *set = read_byte_set(cursor)?;
    }
    let [bytes, firsts, lasts] = sets;
    let min_len = cursor.count32("shortest value", MAX_SLAB_RAW_BYTES)?;
    let max_len = cursor.count32("longest value", MAX_SLAB_RAW_BYTES)?;
    Ok(ValueTraits { bytes, firsts, lasts, min_len, max_len, ..ValueTraits::default() })
}

fn put_format(format: NumberFormat, out: &mut Vec<u8>) {
    match format {
        NumberFormat::Integer => out.push(INTEGER),
        NumberFormat::Padded { digits } => out.extend([PADDED, digits]),
        NumberFormat::Decimal { digits } => out.extend([DECIMAL, digits]),
        NumberFormat::Shortest { digits } => out.extend([SHORTEST, digits]),
        NumberFormat::Hex { digits } => out.extend([HEX, digits]),
        NumberFormat::Ip4 => out.push(IP4),
        NumberFormat::Time(TimeLayout::Iso { between, point, digits, zulu }) => {
            out.extend([ISO, between, point, digits, u8::from(zulu)]);
        }
        NumberFormat::Time(TimeLayout::Common) => out.push(COMMON),
        NumberFormat::Time(TimeLayout::Clock) => out.push(CLOCK),
    }
}

fn read_format(cursor: &mut Cursor<'_>) -> Result<NumberFormat, Malformed> {
    let format = match cursor.u8("form of numbers")? {
        INTEGER => NumberFormat::Integer,
        PADDED => NumberFormat::Padded { digits: cursor.u8("digits")? },
        DECIMAL => NumberFormat::Decimal { digits: cursor.u8("digits")? },
        SHORTEST => NumberFormat::Shortest { digits: cursor.u8("digits")? },
        HEX => NumberFormat::Hex { digits: cursor.u8("digits")? },
        IP4 => NumberFormat::Ip4,
        ISO => NumberFormat::Time(TimeLayout::Iso {
            between: cursor.u8("byte between date and time")?,
            point: cursor.u8("byte in front of the fraction")?,
            digits: cursor.u8("digits of the fraction")?,
            zulu: cursor.u8("whether a z follows")? != 0,
        }),
        COMMON => NumberFormat::Time(TimeLayout::Common),
        CLOCK => NumberFormat::Time(TimeLayout::Clock),
        other => return Err(Malformed(format!("form {other} of numbers is unknown"))),
    };
    match format.is_valid() {
        true => Ok(format),
        false => Err(Malformed(format!("{format:?} is not a number encoding"))),
    }
}
