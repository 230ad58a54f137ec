//! Reading the columns of a slab: the column layout block once, dictionaries and pools on first use, chunks on request.
//!
//! A column's values are decoded without looking at its parent. The rows of the values follow from the parent's
//! templates and are computed when a single column is requested. Rebuilding whole texts needs no rows, because it uses
//! the values in order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use quarry_event::template::{
    Column, ColumnKind, ColumnValues, Dictionary, NumberFormat, PageColumn, TemplateSet, TextEnds, ValueTraits,
};
use quarry_event::{PageSet, TimeNs};
use quarry_stdx::number::u32_of;

use crate::block::{BlockKind, BlockRef, open_block};
use crate::columns::codec::{decode_codes, decode_ends, decode_numbers, decode_texts, needs_times};
use crate::columns::dictionary::decode_dictionary;
use crate::columns::layout::{ChunkLocations, DictionaryLocation, Layout, StoredColumn};
use crate::columns::point_reads::PointReads;
use crate::columns::rebuild::RebuildPlans;
use crate::columns::shared_dictionary::{FewEntries, SharedCache, SharedDictionary};
use crate::columns::slices::{Slice, slice_values};
use crate::columns::text_dictionary::{TEXT_DICTIONARY_BYTES_MAX, TextDictionary};
use crate::columns::{MAX_LAYOUT_BYTES, MAX_POOL_BYTES};
use crate::error::{BlockPosition, BucketError};
use crate::integers::{decode_integers, frame_contains, range_of};
use crate::limits::{MAX_FIELD_COLUMN_BYTES, MAX_SLAB_RAW_BYTES};
use crate::reader::MAX_INTEGER_BLOCK_BYTES;
use crate::source::ObjectSource;

/// Maximum bytes of one column that are fetched ahead together.
const MAX_READ_AHEAD_BYTES: u64 = 8 << 20;
/// Maximum bytes of an encoded dictionary: its texts, two lengths per text, and headers.
const MAX_DICTIONARY_BYTES: usize = MAX_SLAB_RAW_BYTES + 16 * crate::limits::MAX_SLAB_EVENTS + 64;

/// Number of values of a column that are about to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// A few values, so that only some entries of a shared dictionary are needed.
    Few,
    All,
}

/// The opened columns of one slab.
#[derive(Debug)]
pub(crate) struct SlabColumns {
    pub(crate) layout: Layout,
    place: BlockPosition,
    pools: Vec<OnceLock<Bytes>>,
    shared: Arc<SharedCache>,
    dictionaries: Vec<OnceLock<Arc<Dictionary>>>,
    text_dictionaries: Vec<OnceLock<TextDictionary>>,
    pub(super) plans: RebuildPlans,
    /// By column: the templates of its parent that contain it; `None` if all templates do. These templates are the
    /// column's *namers*.
    pub(super) namers: Vec<Option<Box<[u32]>>>,
    /// By column: a number shared by columns with the same parent and namers.
    pub(super) namer_groups: Vec<u32>,
    /// Columns whose templates are counted to find the values of a variable.
    pub(super) counted: Vec<bool>,
}

impl SlabColumns {
    /// Reads the column layout block of a slab whose pages have `events` events.
    pub(crate) fn open(
        source: &ObjectSource,
        at: BlockRef,
        slab: usize,
        events: &[u32],
        shared: Arc<SharedCache>,
    ) -> Result<SlabColumns, BucketError> {
        let place = BlockPosition::outside_slabs(at.kind.name(), at.offset).in_slab(slab);
        let bytes = source.fetch_block(place, at.stored_len as usize)?;
        let raw = open_block(&bytes, BlockKind::ColumnLayout, place, MAX_LAYOUT_BYTES)?.decode()?;
        Ok(SlabColumns::from_layout(place.map_malformed(Layout::read(&raw, events))?, place, shared))
    }

    /// The columns of a column layout block at this position.
    pub(super) fn from_layout(layout: Layout, place: BlockPosition, shared: Arc<SharedCache>) -> SlabColumns {
        let namers = naming_templates(&layout.template_set);
        let mut counted = vec![false; namers.len()];
        for (column, namers) in layout.template_set.columns.iter().zip(&namers) {
            if let (Some(parent), Some(_)) = (column.parent, namers) {
                counted[parent as usize] = true;
            }
        }
        SlabColumns {
            place,
            pools: layout.pools.iter().map(|_| OnceLock::new()).collect(),
            shared,
            dictionaries: layout.stored.iter().map(|_| OnceLock::new()).collect(),
            text_dictionaries: layout.stored.iter().map(|_| OnceLock::new()).collect(),
            plans: RebuildPlans::of(&layout.template_set),
            namer_groups: naming_groups(&layout.template_set, &namers),
            namers,
            counted,
            layout,
        }
    }

    /// Fetches the chunks of some columns in these pages with a single read, except the chunks of columns whose range
    /// exceeds `MAX_READ_AHEAD_BYTES`; does nothing for a single page.
    pub(crate) fn fetch_ahead(
        &self,
        source: &mut ObjectSource,
        columns: &[u32],
        pages: PageSet,
    ) -> Result<(), BucketError> {
        let mut ranges = Vec::new();
        for column in columns {
            let column = self.layout.holder_of(*column);
            let Some(ChunkLocations::Blocks { offset, lens } | ChunkLocations::Shared { offset, lens, .. }) =
                self.layout.stored.get(column as usize).map(|it| &it.values)
            else {
                continue;
            };
            let wanted = |page: &usize| pages.contains(*page);
            let (Some(first), Some(last)) = ((0..lens.len()).find(wanted), (0..lens.len()).rfind(wanted)) else {
                continue;
            };
            let range = ChunkLocations::block_of(*offset, lens, first).offset
                ..ChunkLocations::block_of(*offset, lens, last).range().end;
            if last > first && range.end - range.start <= MAX_READ_AHEAD_BYTES {
                ranges.push(range);
            }
        }
        source.fetch_ahead(ranges)
    }

    /// If a search reads ahead, fetches the chunks of some columns in a page and in the pages that it will read next,
    /// with their pools and dictionaries. If `extent` is few, a shared dictionary's directory is fetched instead of the
    /// whole dictionary.
    pub(super) fn fetch_for_search(
        &self,
        source: &ObjectSource,
        columns: impl Iterator<Item = u32>,
        page: usize,
        extent: Extent,
    ) -> Result<(), BucketError> {
        self.fetch_with(source, columns, page, extent, Vec::new())
    }

    /// Like [`SlabColumns::fetch_for_search`]; if a column is fetched, the ranges `more` are fetched too.
    fn fetch_with(
        &self,
        source: &ObjectSource,
        columns: impl Iterator<Item = u32>,
        page: usize,
        extent: Extent,
        more: Vec<Range<u64>>,
    ) -> Result<(), BucketError> {
        let Some(search) = source.read_ahead() else { return Ok(()) };
        let columns: Vec<u32> = columns.filter(|column| !self.is_available(source, *column, page)).collect();
        if columns.is_empty() {
            return Ok(());
        }
        let pages = search.pages_to_fetch(page);
        let mut ranges = more;
        for column in search.with_earlier_columns(columns) {
            self.add_values(column, &pages, extent, &mut ranges);
        }
        for column in search.take_planned_columns() {
            self.add_values(column, &pages, Extent::Few, &mut ranges);
        }
        source.fetch_for_search(ranges)
    }

    /// If a search reads only a page or two of the slab, fetches all columns of a page at once. This takes no longer
    /// than fetching one column. Bucket-wide dictionaries are large, so only their needed parts are fetched, on
    /// request.
    pub(crate) fn fetch_page_for_search(&self, source: &ObjectSource, page: usize) -> Result<(), BucketError> {
        let Some(search) = source.read_ahead().filter(|search| search.is_for_few_events()) else { return Ok(()) };
        let mut ranges = search.block_ranges_to_fetch(page, &|kind| matches!(kind, BlockKind::Time | BlockKind::Meta));
        for (column, stored) in (0u32..).zip(&self.layout.stored) {
            match &stored.values {
                ChunkLocations::Shared { offset, lens, dictionary, .. } if !dictionary.has_runs() => {
                    add_chunks(*offset, lens, &[page], &mut ranges);
                }
                _ => self.add_values(column, &[page], Extent::Few, &mut ranges),
            }
        }
        source.fetch_for_search(ranges)
    }

    /// Announces reads of a few values of these columns, and of the columns that tell which rows have the values.
    pub(crate) fn plan_for_search(&self, source: &ObjectSource, columns: &[u32]) {
        let Some(search) = source.read_ahead() else { return };
        let chain_of = |column: u32| std::iter::successors(Some(column), |column| self.parent_for_rows(*column));
        search.plan_columns(columns.iter().copied().flat_map(chain_of));
    }

    /// Whether reading the values of a column in a page needs no request.
    fn is_available(&self, source: &ObjectSource, column: u32, page: usize) -> bool {
        let column = self.layout.holder_of(column);
        match self.layout.stored.get(column as usize).map(|stored| &stored.values) {
            None | Some(ChunkLocations::Constant | ChunkLocations::Sliced(_)) => true,
            Some(ChunkLocations::Pooled { pool, .. }) => {
                self.pools.get(*pool as usize).is_some_and(|read| read.get().is_some())
            }
            Some(ChunkLocations::Blocks { offset, lens } | ChunkLocations::Shared { offset, lens, .. }) => {
                source.is_available(&ChunkLocations::block_of(*offset, lens, page).range())
            }
        }
    }

    /// Adds the ranges of a column's values in some pages, and of its pool and dictionary if they have not been
    /// read before.
    fn add_values(&self, column: u32, pages: &[usize], extent: Extent, ranges: &mut Vec<Range<u64>>) {
        let column = self.layout.holder_of(column);
        let Some(stored) = self.layout.stored.get(column as usize) else { return };
        match &stored.values {
            ChunkLocations::Constant | ChunkLocations::Sliced(_) => {}
            ChunkLocations::Pooled { pool, .. } => self.add_pool(*pool, ranges),
            ChunkLocations::Blocks { offset, lens } => add_chunks(*offset, lens, pages, ranges),
            ChunkLocations::Shared { offset, lens, dictionary, .. } => {
                add_chunks(*offset, lens, pages, ranges);
                ranges.extend(match extent {
                    Extent::All => self.shared.missing(dictionary),
                    Extent::Few => self.shared.missing_for_few(dictionary),
                });
            }
        }
        let is_read = self.dictionaries.get(column as usize).is_some_and(|read| read.get().is_some())
            || self.text_dictionaries.get(column as usize).is_some_and(|read| read.get().is_some())
            || self.listed_texts(column).is_some();
        match stored.dictionary {
            Some(DictionaryLocation::Pooled { pool, .. }) if !is_read => self.add_pool(pool, ranges),
            Some(DictionaryLocation::Block(at)) if !is_read => ranges.push(at.range()),
            _ => {}
        }
    }

    fn add_pool(&self, pool: u32, ranges: &mut Vec<Range<u64>>) {
        if let (Some(at), Some(read)) = (self.layout.pools.get(pool as usize), self.pools.get(pool as usize))
            && read.get().is_none()
        {
            ranges.push(at.range());
        }
    }

    /// Whether index-time fields have columns.
    pub(crate) fn has_fields(&self) -> bool {
        !self.layout.template_set.fields.is_empty()
    }

    /// Maximum bytes of the values of an index-time field or a stored search-time field in a page; these values need
    /// not be in the texts.
    fn most_field_bytes(&self, page: usize) -> u64 {
        let set = &self.layout.template_set;
        let of_column = |column: u32| {
            let count = self.layout.stored[column as usize].counts.get(page).copied().unwrap_or(0);
            let longest = set.columns[column as usize].traits.max_len;
            (u64::from(count) * u64::from(longest)).min(MAX_FIELD_COLUMN_BYTES as u64)
        };
        let at_index_time = set.fields.iter().map(|field| field.column);
        let extracted = set.extractions.iter().filter_map(|stored| stored.values.own_column());
        at_index_time.chain(extracted).map(of_column).max().unwrap_or(0)
    }

    /// The column and all columns below it, whose values are parts of its values.
    pub(super) fn with_descendants(&self, column: u32) -> Vec<u32> {
        let columns = &self.layout.template_set.columns;
        let mut is_below = vec![false; columns.len()];
        for (number, facts) in columns.iter().enumerate() {
            let parent = facts.parent.and_then(|parent| is_below.get(parent as usize)).copied();
            is_below[number] = number == column as usize || parent == Some(true);
        }
        (0u32..).zip(is_below).filter(|(_, is_below)| *is_below).map(|(number, _)| number).collect()
    }

    /// The highest of the columns above a column that have their values in the same rows as the column, because every
    /// template between them contains the next column; the column itself if there is none.
    fn highest_in_same_rows(&self, column: u32) -> u32 {
        let mut highest = column;
        while let (Some(Column { parent: Some(parent), .. }), Some(None)) =
            (self.layout.template_set.columns.get(highest as usize), self.namers.get(highest as usize))
        {
            highest = *parent;
        }
        highest
    }

    /// The column whose templates tell which rows have a value of this column; `None` if no templates are needed.
    fn parent_for_rows(&self, column: u32) -> Option<u32> {
        self.layout.template_set.columns.get(self.highest_in_same_rows(column) as usize)?.parent
    }

    fn pool(&self, source: &ObjectSource, number: u32) -> Result<(&Bytes, BlockPosition), BucketError> {
        let at = self.layout.pools[number as usize];
        let place = BlockPosition { block: at.kind.name(), offset: at.offset, ..self.place };
        let lock = &self.pools[number as usize];
        if let Some(pool) = lock.get() {
            return Ok((pool, place));
        }
        let bytes = source.fetch_block(place, at.stored_len as usize)?;
        let raw = open_block(&bytes, at.kind, place, MAX_POOL_BYTES)?.decode()?;
        Ok((lock.get_or_init(|| raw.into()), place))
    }

    /// Bytes of an entry of a pool, and the position of the pool.
    fn pool_entry(
        &self,
        source: &ObjectSource,
        pool: u32,
        start: u64,
        len: u32,
    ) -> Result<(Bytes, BlockPosition), BucketError> {
        let (bytes, place) = self.pool(source, pool)?;
        match start.checked_add(u64::from(len)).filter(|end| *end <= bytes.len() as u64) {
            Some(end) => Ok((bytes.slice(start as usize..end as usize), place)),
            None => Err(place.corrupt(format!("{len} bytes at {start} reach past its {} bytes", bytes.len()))),
        }
    }

    /// The bucket-wide dictionary of a column's values, and the number of the component of its entries that holds these
    /// values; `None` if the values are stored directly.
    pub(crate) fn shared_dictionary(
        &self,
        source: &ObjectSource,
        column: u32,
    ) -> Result<Option<(Arc<SharedDictionary>, u32)>, BucketError> {
        match self.layout.stored.get(column as usize).map(|stored| &stored.values) {
            Some(ChunkLocations::Shared { dictionary, component, .. }) => {
                Ok(Some((self.shared.whole(source, dictionary)?, *component)))
            }
            _ => Ok(None),
        }
    }

    /// Like [`SlabColumns::shared_dictionary`], for reading a few values.
    pub(super) fn shared_for_few(
        &self,
        source: &ObjectSource,
        column: u32,
    ) -> Result<Option<(FewEntries, u32)>, BucketError> {
        match self.layout.stored.get(column as usize).map(|stored| &stored.values) {
            Some(ChunkLocations::Shared { dictionary, component, .. }) => {
                Ok(Some((self.shared.few(source, dictionary)?, *component)))
            }
            _ => Ok(None),
        }
    }

    /// The texts of a dictionary column; empty for any other column. A few texts are listed in the column layout, so that
    /// no pool is fetched for them.
    pub(crate) fn dictionary(&self, source: &ObjectSource, column: u32) -> Result<Arc<Dictionary>, BucketError> {
        let kind = self.layout.template_set.columns.get(column as usize).map(|column| &column.kind);
        let (Some(ColumnKind::Dictionary { .. }), Some(lock)) = (kind, self.dictionaries.get(column as usize)) else {
            return Ok(Arc::default());
        };
        if let Some(dictionary) = lock.get() {
            return Ok(dictionary.clone());
        }
        let dictionary = match self.listed_texts(column) {
            Some(texts) => Dictionary::of_texts(texts.iter().map(|text| text.as_bytes())),
            None => self.stored_dictionary(source, column)?,
        };
        Ok(lock.get_or_init(|| Arc::new(dictionary)).clone())
    }

    /// The texts of a dictionary column, if the column layout lists them.
    fn listed_texts(&self, column: u32) -> Option<&[Box<str>]> {
        self.layout.template_set.columns.get(column as usize)?.traits.value_set.as_deref()
    }

    /// Like [`SlabColumns::dictionary`], but always reads the stored dictionary.
    fn stored_dictionary(&self, source: &ObjectSource, column: u32) -> Result<Dictionary, BucketError> {
        let Some(at) = self.layout.stored.get(column as usize).and_then(|stored| stored.dictionary) else {
            return Ok(Dictionary::default());
        };
        let ColumnKind::Dictionary { len } = self.layout.template_set.columns[column as usize].kind else {
            return Ok(Dictionary::default());
        };
        let (place, dictionary) = match at {
            DictionaryLocation::Pooled { pool, start, len: bytes } => {
                let (encoded, place) = self.pool_entry(source, pool, u64::from(start), bytes)?;
                (place, decode_dictionary(&encoded, len as usize))
            }
            DictionaryLocation::Block(at) => {
                let place = BlockPosition { block: at.kind.name(), offset: at.offset, ..self.place };
                let bytes = source.fetch_block(place, at.stored_len as usize)?;
                let raw = open_block(&bytes, at.kind, place, MAX_DICTIONARY_BYTES)?.decode()?;
                (place, decode_dictionary(&raw, len as usize))
            }
        };
        let dictionary = place.map_malformed(dictionary)?;
        assert_eq!(dictionary.len(), len as usize, "a dictionary has as many texts as its column lists");
        Ok(dictionary)
    }

    /// Checks that the stored dictionary of a column, if any, has the texts that searches read.
    pub(crate) fn check_dictionary(&self, source: &ObjectSource, column: u32) -> Result<(), BucketError> {
        let found = self.dictionary(source, column)?;
        match self.listed_texts(column).is_none() || self.stored_dictionary(source, column)? == *found {
            true => Ok(()),
            false => Err(self.place.corrupt(format!("the texts of column {column} differ from its stored dictionary"))),
        }
    }

    /// The dictionary with which the texts of a text column are compressed, if they are.
    pub(super) fn text_dictionary(
        &self,
        source: &ObjectSource,
        column: u32,
    ) -> Result<Option<&TextDictionary>, BucketError> {
        let (stored, lock) = (self.layout.stored.get(column as usize), self.text_dictionaries.get(column as usize));
        let (Some(DictionaryLocation::Block(at)), Some(lock)) = (stored.and_then(|it| it.dictionary), lock) else {
            return Ok(None);
        };
        if at.kind != BlockKind::TextDictionary {
            return Ok(None);
        }
        if let Some(dictionary) = lock.get() {
            return Ok(Some(dictionary));
        }
        let place = BlockPosition { block: at.kind.name(), offset: at.offset, ..self.place };
        let bytes = source.fetch_block(place, at.stored_len as usize)?;
        let raw = open_block(&bytes, at.kind, place, TEXT_DICTIONARY_BYTES_MAX)?.decode()?;
        let dictionary = place.map_malformed(TextDictionary::read(&raw))?;
        Ok(Some(lock.get_or_init(|| dictionary)))
    }
}

/// Adds the ranges of a column's chunks in these pages, up to [`MAX_READ_AHEAD_BYTES`].
fn add_chunks(offset: u64, lens: &[u32], pages: &[usize], ranges: &mut Vec<Range<u64>>) {
    let mut bytes = 0;
    for page in pages {
        let range = ChunkLocations::block_of(offset, lens, *page).range();
        bytes += range.end - range.start;
        if bytes > MAX_READ_AHEAD_BYTES {
            break;
        }
        ranges.push(range);
    }
}

/// By column: the templates of its parent that contain it; `None` if all of them do.
fn naming_templates(template_set: &TemplateSet) -> Vec<Option<Box<[u32]>>> {
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); template_set.columns.len()];
    let mut totals = vec![0usize; template_set.columns.len()];
    for (number, column) in template_set.columns.iter().enumerate() {
        let ColumnKind::Templates(templates) = &column.kind else { continue };
        for (at, template) in templates.iter().enumerate() {
            template.variables().for_each(|variable| lists[variable as usize].push(u32_of(at)));
        }
        totals[number] = templates.len();
    }
    let namers = lists.into_iter().zip(&template_set.columns).map(|(list, column)| match column.parent {
        Some(parent) if list.len() < totals[parent as usize] => Some(list.into()),
        _ => None,
    });
    namers.collect()
}

/// By column: the first column with the same parent and namers.
fn naming_groups(template_set: &TemplateSet, namers: &[Option<Box<[u32]>>]) -> Vec<u32> {
    let mut known = BTreeMap::new();
    let columns = template_set.columns.iter().zip(namers).zip(0u32..);
    columns.map(|((column, namers), number)| *known.entry((column.parent, namers)).or_insert(number)).collect()
}

/// One page of a template slab, opened to read single columns. Every column that is read stays in memory until the page
/// is dropped.
#[derive(Debug)]
pub struct TemplatePage {
    pub(super) columns: Arc<SlabColumns>,
    pub(super) source: ObjectSource,
    pub(super) raw_bytes: u64,
    /// Maximum bytes of the texts of any column, including the columns of index-time and stored search-time fields.
    pub(super) most_bytes: u64,
    page: usize,
    events: usize,
    time_at: Option<BlockRef>,
    pub(super) times: Option<Arc<[TimeNs]>>,
    read: Vec<Option<Arc<PageColumn>>>,
    /// The rows with values in columns of the same group of `namer_groups`, by the number of the group.
    rows_by_group: Vec<Option<Arc<[u32]>>>,
    pub(super) point_reads: PointReads,
}

/// Data from the slab's head that is needed to open a page.
pub(crate) struct PageFacts {
    pub(crate) page: usize,
    pub(crate) events: usize,
    pub(crate) raw_bytes: u64,
    pub(crate) time_at: Option<BlockRef>,
    /// `_time` of each event, if already read.
    pub(crate) times: Option<Arc<[TimeNs]>>,
}

impl TemplatePage {
    pub(crate) fn new(columns: Arc<SlabColumns>, source: ObjectSource, facts: PageFacts) -> TemplatePage {
        let PageFacts { page, events, raw_bytes, time_at, times } = facts;
        let read = vec![None; columns.layout.stored.len()];
        let rows_by_group = vec![None; columns.namer_groups.len()];
        let most_bytes = columns.most_field_bytes(page).max(raw_bytes);
        TemplatePage {
            columns,
            source,
            raw_bytes,
            most_bytes,
            page,
            events,
            time_at,
            times,
            read,
            rows_by_group,
            point_reads: PointReads::default(),
        }
    }

    /// The values of a column; an error if the column does not exist.
    pub fn column(&mut self, column: u32) -> Result<Arc<PageColumn>, BucketError> {
        match self.read.get(column as usize) {
            Some(Some(read)) => return Ok(read.clone()),
            Some(None) => {}
            None => return Err(self.position().corrupt(format!("there is no column {column}"))),
        }
        let rows = self.rows_of(column)?;
        let read = Arc::new(PageColumn { rows, values: self.values(column)? });
        assert_eq!(read.values.len(), self.value_count(column), "a column has as many values as its page lists");
        debug_assert!(read.rows.as_ref().is_none_or(|rows| rows.is_sorted()), "rows are in order of arrival");
        self.read[column as usize] = Some(read.clone());
        Ok(read)
    }

    /// The rows in which a column, which must exist, has a value; `None` for all.
    fn rows_of(&mut self, column: u32) -> Result<Option<Arc<[u32]>>, BucketError> {
        let columns = self.columns.clone();
        self.fetch_with_parents(column)?;
        let expected = columns.layout.stored[column as usize].counts[self.page] as usize;
        let of_rows = columns.highest_in_same_rows(column) as usize;
        let (rows, found) = match (self.parent_of(column), &columns.namers[of_rows]) {
            (Some(parent), Some(namers)) => {
                let parent = self.column(parent)?;
                let group = columns.namer_groups[of_rows] as usize;
                let rows = self.rows_by_group[group].get_or_insert_with(|| rows_with_templates(&parent, namers));
                ((rows.len() < self.events).then(|| Arc::clone(rows)), rows.len())
            }
            _ => (None, self.events),
        };
        if found != expected {
            return Err(self.position().corrupt(format!("column {column} has {expected} values for {found} rows")));
        }
        Ok(rows)
    }

    /// The ends of the texts of a column, found without decompressing the texts; `None` if this is not possible, or if
    /// the column does not consist of texts, has no values in the page or is already in memory.
    pub fn text_ends(&mut self, column: u32) -> Result<Option<TextEnds>, BucketError> {
        let columns = self.columns.clone();
        let is_text = |column: &Column| matches!(column.kind, ColumnKind::Texts);
        let has_chunk = |stored: &StoredColumn| matches!(stored.values, ChunkLocations::Blocks { .. });
        let is_stored = columns.layout.stored.get(column as usize).is_some_and(has_chunk);
        if !is_stored
            || !columns.layout.template_set.columns.get(column as usize).is_some_and(is_text)
            || self.value_count(column) == 0
            || self.has_column(column)
        {
            return Ok(None);
        }
        let rows = self.rows_of(column)?;
        let (chunk, place) = self.stored_chunk(column, Extent::All)?;
        let ends = place.map_malformed(decode_ends(&chunk, self.value_count(column), self.most_bytes))?;
        Ok(ends.map(|ends| TextEnds { rows, ends }))
    }

    /// Whether a column is in memory already.
    pub fn has_column(&self, column: u32) -> bool {
        self.cached_column(column).is_some()
    }

    /// The column whose templates tell which rows have a value of this column; `None` if no templates are needed.
    pub fn parent_of(&self, column: u32) -> Option<u32> {
        self.columns.parent_for_rows(column)
    }

    /// The column and all columns below it, whose values are parts of its values.
    pub fn column_with_descendants(&self, column: u32) -> Vec<u32> {
        self.columns.with_descendants(column)
    }

    /// Adopts a column that an earlier read of this page returned. The adopted column is ignored if its number of
    /// values differs from that of `column` in this page.
    pub fn adopt_column(&mut self, column: u32, known: Arc<PageColumn>) {
        let expected = self.columns.layout.stored.get(column as usize).map(|stored| stored.counts[self.page] as usize);
        if expected == Some(known.values.len()) {
            self.read[column as usize] = Some(known);
        }
    }

    /// If a search reads ahead, fetches a column and the parent columns needed to find its rows, except those read
    /// before.
    fn fetch_with_parents(&self, column: u32) -> Result<(), BucketError> {
        if self.source.read_ahead().is_none() {
            return Ok(());
        }
        let chain = std::iter::successors(Some(column), |number| self.parent_of(*number));
        let unread = chain.take_while(|number| self.cached_column(*number).is_none());
        self.columns.fetch_for_search(&self.source, unread, self.page, Extent::All)
    }

    /// If a search reads ahead, fetches the blocks of a column and of all columns below it, except those read before.
    pub(super) fn fetch_descendants(&self, column: u32, extent: Extent) -> Result<(), BucketError> {
        if self.source.read_ahead().is_none() {
            return Ok(());
        }
        let unread =
            self.columns.with_descendants(column).into_iter().filter(|number| self.cached_column(*number).is_none());
        self.columns.fetch_for_search(&self.source, unread, self.page, extent)
    }

    /// If a search reads ahead, fetches the blocks of columns that it is about to read, and of the parent columns
    /// needed to find their rows, except those read before. Times in texts are usually stored as differences from the
    /// times of the events, so these times are fetched too.
    pub fn prefetch_columns(&self, columns: &[u32]) -> Result<(), BucketError> {
        let Some(search) = self.source.read_ahead() else { return Ok(()) };
        let all = &self.columns.layout.template_set.columns;
        let is_time = |column: &u32| {
            let kind = all.get(*column as usize).map(|column| &column.kind);
            matches!(kind, Some(ColumnKind::Numbers { format: NumberFormat::Time(_), .. }))
        };
        let mut more = Vec::new();
        if self.times.is_none() && columns.iter().any(is_time) {
            more = search.block_ranges_to_fetch(self.page, &|kind| kind == BlockKind::Time);
        }
        let chain_of = |column: &u32| std::iter::successors(Some(*column), |column| self.parent_of(*column));
        let wanted: BTreeSet<u32> = columns.iter().flat_map(chain_of).collect();
        let unread = wanted.into_iter().filter(|column| self.cached_column(*column).is_none());
        self.columns.fetch_with(&self.source, unread, self.page, Extent::All, more)
    }

    /// If a search reads ahead, fetches the blocks of several columns.
    pub(crate) fn fetch_columns(&self, columns: impl Iterator<Item = u32>) -> Result<(), BucketError> {
        self.columns.fetch_for_search(&self.source, columns, self.page, Extent::All)
    }

    /// The column, if it was read before.
    pub(super) fn cached_column(&self, column: u32) -> Option<&Arc<PageColumn>> {
        self.read.get(column as usize).and_then(Option::as_ref)
    }

    pub(crate) fn position(&self) -> BlockPosition {
        self.columns.place.in_page(self.page)
    }

    /// Number of values that a column has in this page.
    pub(crate) fn value_count(&self, column: u32) -> usize {
        self.columns.layout.stored[column as usize].counts[self.page] as usize
    }

    /// Decodes the values of a column, which must exist.
    pub(crate) fn values(&mut self, column: u32) -> Result<ColumnValues, BucketError> {
        let columns = self.columns.clone();
        let Column { kind, traits, .. } = &columns.layout.template_set.columns[column as usize];
        let count = self.value_count(column);
        if matches!(columns.layout.stored[column as usize].values, ChunkLocations::Constant) {
            return self.position().map_malformed(constant_values(kind, count));
        }
        if count == 0 {
            return Ok(empty_values(kind));
        }
        if let Some(Slice { column: text, start }) = columns.layout.slice_of(column) {
            let kept = self.cached_column(text).map(Arc::clone);
            let read = if kept.is_none() { Some(self.values(text)?) } else { None };
            let texts = kept.as_deref().map(|kept| &kept.values).or(read.as_ref());
            let texts = texts.ok_or_else(|| self.position().corrupt(format!("column {text} was not read")))?;
            return self.sliced(column, texts, start);
        }
        let (chunk, place) = self.stored_chunk(column, Extent::All)?;
        if matches!(kind, ColumnKind::Numbers { .. }) && needs_times(&chunk) {
            self.read_times()?;
        }
        if let (ChunkLocations::Shared { dictionary, component, .. }, ColumnKind::Numbers { min, max, .. }) =
            (&columns.layout.stored[column as usize].values, kind)
        {
            let shared = columns.shared.whole(&self.source, dictionary)?;
            let codes = place.map_malformed(decode_codes(&chunk, count, shared.len()))?;
            let Some(numbers) = shared.numbers(*component, &codes) else {
                return Err(place.corrupt(format!("its entries have no component {component}")));
            };
            return place.map_malformed(check_range(numbers, *min, *max));
        }
        let dictionary = columns.text_dictionary(&self.source, column)?;
        place.map_malformed(self.decode((kind, traits), &chunk, count, dictionary))
    }

    /// The values of a column that are parts of these texts.
    pub(super) fn sliced(&self, column: u32, texts: &ColumnValues, start: u32) -> Result<ColumnValues, BucketError> {
        let facts = &self.columns.layout.template_set.columns[column as usize];
        let values = slice_values(texts, start, facts).and_then(|values| match (values, &facts.kind) {
            (ColumnValues::Numbers(numbers), ColumnKind::Numbers { min, max, .. }) => check_range(numbers, *min, *max),
            (values, _) => Ok(values),
        });
        self.position().map_malformed(values)
    }

    /// The shared dictionary of a column's values, and the number of the component of its entries that holds these
    /// values; `None` if the values are stored directly.
    pub(crate) fn shared_dictionary(&self, column: u32) -> Result<Option<(Arc<SharedDictionary>, u32)>, BucketError> {
        self.columns.shared_dictionary(&self.source, column)
    }

    /// The codes of a column with a shared dictionary.
    pub(crate) fn shared_codes(&self, column: u32) -> Result<Vec<u32>, BucketError> {
        let count = self.value_count(column);
        if count == 0 {
            return Ok(Vec::new());
        }
        let (chunk, place) = self.stored_chunk(column, Extent::All)?;
        place.map_malformed(decode_codes(&chunk, count, u32::MAX))
    }

    /// Whether a number column contains one of two numbers, decided on packed bits without decoding; `None` if this is
    /// not possible, if the column is already in memory, or if there is no such column.
    pub fn contains_number(&self, column: u32, wanted: [i64; 2]) -> Result<Option<bool>, BucketError> {
        let Some(stored) = self.columns.layout.stored.get(column as usize) else { return Ok(None) };
        let (count, stored) = (self.value_count(column), &stored.values);
        if self.cached_column(column).is_some()
            || count == 0
            || matches!(stored, ChunkLocations::Constant | ChunkLocations::Shared { .. } | ChunkLocations::Sliced(_))
        {
            return Ok(None);
        }
        let (chunk, place) = self.stored_chunk(column, Extent::All)?;
        place.map_malformed(frame_contains(&chunk, count, wanted))
    }

    /// The stored chunk of a column that has values.
    pub(super) fn stored_chunk(&self, column: u32, extent: Extent) -> Result<(Bytes, BlockPosition), BucketError> {
        let (chunk, place) = match &self.columns.layout.stored[column as usize].values {
            ChunkLocations::Constant | ChunkLocations::Sliced(_) => (Bytes::new(), self.position()),
            ChunkLocations::Pooled { pool, start, lens } => {
                let before: u64 = lens[..self.page].iter().map(|len| u64::from(*len)).sum();
                self.columns.pool_entry(&self.source, *pool, u64::from(*start) + before, lens[self.page])?
            }
            ChunkLocations::Blocks { offset, lens } | ChunkLocations::Shared { offset, lens, .. } => {
                let at = ChunkLocations::block_of(*offset, lens, self.page);
                self.columns.fetch_for_search(&self.source, std::iter::once(column), self.page, extent)?;
                let place = BlockPosition { block: at.kind.name(), offset: at.offset, ..self.position() };
                let bytes = self.source.fetch_block(place, at.stored_len as usize)?;
                let range = {
                    let block = open_block(&bytes, at.kind, place, bytes.len())?;
                    bytes.len() - block.stored()?.len()..bytes.len()
                };
                (bytes.slice(range), place)
            }
        };
        Ok((chunk, place.in_page(self.page)))
    }

    fn decode(
        &self,
        (kind, traits): (&ColumnKind, &ValueTraits),
        chunk: &[u8],
        count: usize,
        dictionary: Option<&TextDictionary>,
    ) -> Result<ColumnValues, crate::wire::Malformed> {
        let malformed = |reason: String| Err(crate::wire::Malformed(reason));
        match kind {
            ColumnKind::Templates(templates) => {
                decode_codes(chunk, count, u32_of(templates.len())).map(ColumnValues::Codes)
            }
            ColumnKind::Dictionary { len } => decode_codes(chunk, count, *len).map(ColumnValues::Codes),
            ColumnKind::Numbers { min, max, .. } => {
                let numbers = decode_numbers(chunk, count, self.times.as_deref().unwrap_or_default())?;
                check_range(numbers, *min, *max)
            }
            ColumnKind::Texts => {
                let (bytes, ends) = decode_texts(chunk, count, self.most_bytes, dictionary)?;
                let mut last = 0;
                let fits = |end: &u32| {
                    let len = end - std::mem::replace(&mut last, *end);
                    len >= traits.min_len && len <= traits.max_len
                };
                match ends.iter().all(fits) {
                    true => Ok(ColumnValues::Texts { bytes: bytes.into(), ends }),
                    false => malformed(format!("a text is not of {} to {} bytes", traits.min_len, traits.max_len)),
                }
            }
        }
    }

    pub(super) fn read_times(&mut self) -> Result<(), BucketError> {
        if self.times.is_some() {
            return Ok(());
        }
        let Some(at) = self.time_at else {
            return Err(self.position().corrupt("the page has no times"));
        };
        if let Some(search) = self.source.read_ahead() {
            self.source.fetch_for_search(search.block_ranges_to_fetch(self.page, &|kind| kind == BlockKind::Time))?;
        }
        let place = BlockPosition { block: at.kind.name(), offset: at.offset, ..self.position() };
        let bytes = self.source.fetch_block(place, at.stored_len as usize)?;
        let raw = open_block(&bytes, at.kind, place, MAX_INTEGER_BLOCK_BYTES)?.decode()?;
        self.times = Some(place.map_malformed(decode_integers(&raw, self.events))?.into());
        Ok(())
    }
}

/// Checks that numbers are within their column's range.
fn check_range(numbers: Vec<i64>, min: i64, max: i64) -> Result<ColumnValues, crate::wire::Malformed> {
    // Testing whether a difference is negative is cheaper than comparing. If the range itself overflows, differences
    // prove nothing.
    let difference = |number: &i64| number.wrapping_sub(min) | max.wrapping_sub(*number);
    if max.checked_sub(min).is_some() && numbers.iter().fold(0, |all, number| all | difference(number)) >= 0 {
        return Ok(ColumnValues::Numbers(numbers));
    }
    match range_of(&numbers) {
        (low, high) if !numbers.is_empty() && (low < min || high > max) => {
            Err(crate::wire::Malformed(format!("numbers from {low} to {high} exceed the column's {min} to {max}")))
        }
        _ => Ok(ColumnValues::Numbers(numbers)),
    }
}

/// Rows of the parent's values whose template is one of `namers`.
fn rows_with_templates(parent: &PageColumn, namers: &[u32]) -> Arc<[u32]> {
    let ColumnValues::Codes(codes) = &parent.values else {
        return Arc::default();
    };
    let most = namers.last().map_or(0, |most| *most as usize + 1);
    let mut named = vec![false; most];
    namers.iter().for_each(|template| named[*template as usize] = true);
    let is_named = |code: u32| named.get(code as usize).copied().unwrap_or(false);
    let mut rows = vec![0u32; codes.len()];
    let mut len = 0;
    match &parent.rows {
        None => {
            for (row, code) in (0..).zip(codes.iter()) {
                rows[len] = row;
                len += usize::from(is_named(*code));
            }
        }
        Some(parent_rows) => {
            for (row, code) in parent_rows.iter().zip(codes) {
                rows[len] = *row;
                len += usize::from(is_named(*code));
            }
        }
    }
    rows[..len].into()
}

/// The values of a column that can have only one value.
fn constant_values(kind: &ColumnKind, count: usize) -> Result<ColumnValues, crate::wire::Malformed> {
    let none = match kind {
        ColumnKind::Templates(templates) => templates.is_empty(),
        ColumnKind::Dictionary { len } => *len == 0,
        ColumnKind::Numbers { .. } => false,
        ColumnKind::Texts => true,
    };
    match kind {
        _ if none && count > 0 => {
            Err(crate::wire::Malformed(format!("{count} values are declared for a column without any")))
        }
        ColumnKind::Numbers { min, .. } => Ok(ColumnValues::Numbers(vec![*min; count])),
        _ => Ok(ColumnValues::Codes(vec![0; count])),
    }
}

fn empty_values(kind: &ColumnKind) -> ColumnValues {
    match kind {
        ColumnKind::Templates(_) | ColumnKind::Dictionary { .. } => ColumnValues::Codes(Vec::new()),
        ColumnKind::Numbers { .. } => ColumnValues::Numbers(Vec::new()),
        ColumnKind::Texts => ColumnValues::Texts { bytes: Bytes::new(), ends: Vec::new() },
    }
}
