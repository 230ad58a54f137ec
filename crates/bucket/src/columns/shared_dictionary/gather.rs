//! Writer of shared dictionaries: chooses candidate columns, and decides after the last slab whether sharing pays off.

use quarry_event::template::NumberFormat;
use quarry_stdx::number::u32_of;

use crate::block::{BlockKind, BlockWriter};
use crate::columns::codec::{Effort, encode_codes, encode_numbers};
use crate::columns::layout::{ChunkLocations, Layout};
use crate::columns::shared_dictionary::read::{EntryForm, bit_offsets};
use crate::columns::shared_dictionary::runs::write_runs;
use crate::columns::shared_dictionary::table::EntryTable;
use crate::columns::shared_dictionary::{
    Component, MAX_COMPONENTS, MAX_ENTRY_BITS, MAX_SHARED_DICTIONARIES, MAX_SHARED_ENTRIES, SharedAt, entry_bits,
};
use crate::error::BucketError;
use crate::integers::width_of;
use crate::templates::{SlabColumn, SlabValues, TemplateSlab};

/// Minimum number of values of a candidate column in a slab.
const MIN_VALUES: usize = 4_096;
/// Minimum number of bits that an entry needs for the range of a slab's values; shorter entries take no more space
/// than codes.
const MIN_ENTRY_BITS: u32 = 24;
/// Number of values after which a candidate whose values rarely repeat is abandoned.
const TRIAL_VALUES: usize = 32_768;
/// Maximum percentage of distinct entries; a candidate with more is abandoned.
const DISTINCT_PERCENT_MAX: usize = 97;
/// Maximum memory of all candidates; beyond that, the largest is abandoned.
const MAX_CANDIDATE_BYTES: usize = 128 << 20;
/// Codes are slower to read than numbers: they must save at least 1/16 of the bytes.
const CODES_SAVING_DIVISOR: usize = 16;

/// Candidate columns of the slabs added so far.
#[derive(Debug, Default)]
pub(crate) struct SharedColumns {
    groups: Vec<SharingGroup>,
    /// Slabs whose column layout block is written at the end.
    deferred_layouts: Vec<(usize, Layout)>,
}

/// Columns with the same role in different slabs.
#[derive(Debug)]
struct SharingGroup {
    path: u64,
    formats: Vec<NumberFormat>,
    components: Vec<Component>,
    table: EntryTable,
    values: usize,
    /// Measured bytes of the group's columns in their ordinary form.
    ordinary_bytes: usize,
    uses: Vec<SlabUse>,
    /// Whether sharing was found not to pay off, so that each slab's columns are stored in the ordinary form.
    is_abandoned: bool,
}

/// The columns of a group in one slab, with their provisional codes.
#[derive(Debug)]
struct SlabUse {
    slab: usize,
    columns: Vec<u32>,
    codes: Vec<u32>,
    page_starts: Vec<u32>,
}

/// Slab, column, and position of the column's values.
type LocatedColumn = (usize, u32, ChunkLocations);

/// Columns of one slab whose values may form the entries of a shared dictionary.
#[derive(Debug)]
pub(crate) struct SharingUnit {
    pub(crate) columns: Vec<u32>,
    group: usize,
}

impl SharedColumns {
    /// Units of a slab that are worth trying; each column is in at most one unit. Stored search-time fields are left
    /// out, because the decision whether there is space for them is made when the slab is written.
    pub(crate) fn candidate_units(&mut self, template_slab: &TemplateSlab) -> Vec<SharingUnit> {
        let mut taken = vec![false; template_slab.columns.len()];
        let mut units = Vec::new();
        let candidates = &template_slab.columns[..template_slab.first_extraction_column()];
        for (number, column) in candidates.iter().enumerate() {
            let columns = match &*column.values {
                SlabValues::Templates { templates, .. } if templates.len() == 1 => {
                    templates[0].variables().collect::<Vec<u32>>()
                }
                SlabValues::Numbers { .. } if !taken[number] => vec![u32_of(number)],
                _ => continue,
            };
            let Some(formats) = formats_of(template_slab, &columns) else { continue };
            let Some(group) = self.group_of(column.path, formats) else { continue };
            columns.iter().for_each(|column| taken[*column as usize] = true);
            units.push(SharingUnit { columns, group });
        }
        units
    }

    /// The group of columns with this path and these formats, created if necessary. `None` if the group was abandoned,
    /// or if there are too many groups.
    fn group_of(&mut self, path: u64, formats: Vec<NumberFormat>) -> Option<usize> {
        let known = self.groups.iter().position(|group| group.path == path && group.formats == formats);
        let at = match known {
            Some(at) => at,
            None if self.groups.len() >= MAX_SHARED_DICTIONARIES => return None,
            None => {
                let components: Vec<Component> = formats.iter().filter_map(|format| Component::of(*format)).collect();
                self.groups.push(SharingGroup {
                    path,
                    formats,
                    components,
                    table: EntryTable::new(),
                    values: 0,
                    ordinary_bytes: 0,
                    uses: Vec::new(),
                    is_abandoned: false,
                });
                self.groups.len() - 1
            }
        };
        (!self.groups[at].is_abandoned).then_some(at)
    }

    /// Adds a unit of a slab, after the slab's layout was passed to [`SharedColumns::defer_layout`]. `ordinary_bytes`
    /// is the unit's size in the ordinary form.
    pub(crate) fn add(
        &mut self,
        slab: usize,
        template_slab: &TemplateSlab,
        unit: &SharingUnit,
        ordinary_bytes: usize,
        blocks: &mut BlockWriter,
    ) -> Result<(), BucketError> {
        let group = &mut self.groups[unit.group];
        let columns: Vec<&[i64]> =
            unit.columns.iter().map(|column| numbers_of(&template_slab.columns[*column as usize])).collect();
        let count = columns.first().map_or(0, |numbers| numbers.len());
        let mut codes = Vec::with_capacity(count);
        for at in 0..count {
            let entry = columns.iter().zip(&group.components).fold(0u128, |entry, (numbers, component)| {
                (entry << component.width) | u128::from(component.offset_bits(numbers[at]))
            });
            codes.push(group.table.code_of(entry));
        }
        group.values += count;
        group.ordinary_bytes += ordinary_bytes;
        let page_starts =
            unit.columns.first().map(|column| template_slab.columns[*column as usize].page_starts.clone());
        let page_starts = page_starts.unwrap_or_default();
        group.uses.push(SlabUse { slab, columns: unit.columns.clone(), codes, page_starts });
        let repeats = group.values < TRIAL_VALUES || group.table.len() * 100 <= group.values * DISTINCT_PERCENT_MAX;
        if !repeats || group.table.len() > MAX_SHARED_ENTRIES {
            self.abandon_group(unit.group, blocks)?;
        }
        while self.groups.iter().map(SharingGroup::memory_bytes).sum::<usize>() > MAX_CANDIDATE_BYTES {
            let kept = (0..self.groups.len()).filter(|at| !self.groups[*at].is_abandoned);
            match kept.max_by_key(|at| self.groups[*at].memory_bytes()) {
                Some(largest) => self.abandon_group(largest, blocks)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Writes a group in its ordinary form.
    fn abandon_group(&mut self, group: usize, blocks: &mut BlockWriter) -> Result<(), BucketError> {
        let group = &mut self.groups[group];
        let placed = group.write_ordinary(blocks)?;
        group.is_abandoned = true;
        group.table = EntryTable::new();
        group.uses = Vec::new();
        group.ordinary_bytes = 0;
        self.set_locations(placed);
        Ok(())
    }

    fn set_locations(&mut self, placed: Vec<LocatedColumn>) {
        for (slab, column, stored) in placed {
            if let Some((_, layout)) = self.deferred_layouts.iter_mut().find(|(number, _)| *number == slab) {
                layout.stored[column as usize].values = stored;
            }
        }
    }

    /// Keeps the layout of a slab until its shared columns are written.
    pub(crate) fn defer_layout(&mut self, slab: usize, layout: Layout) {
        self.deferred_layouts.push((slab, layout));
    }

    /// Writes every group. Returns the deferred layouts, complete and ready to be written.
    pub(crate) fn finish(mut self, blocks: &mut BlockWriter) -> Result<Vec<(usize, Layout)>, BucketError> {
        for group in std::mem::take(&mut self.groups) {
            let placed = group.write(blocks)?;
            self.set_locations(placed);
        }
        self.deferred_layouts.iter_mut().for_each(|(_, layout)| layout.share_equal_columns());
        Ok(self.deferred_layouts)
    }
}

/// The formats of some columns; `None` if their values cannot form entries.
fn formats_of(template_slab: &TemplateSlab, columns: &[u32]) -> Option<Vec<NumberFormat>> {
    let mut formats = Vec::with_capacity(columns.len());
    let (mut components, mut value_bits) = (Vec::new(), 0);
    for column in columns {
        let SlabValues::Numbers { format, numbers } = &*template_slab.columns[*column as usize].values else {
            return None;
        };
        if numbers.len() < MIN_VALUES {
            return None;
        }
        let (min, max) = crate::integers::range_of(numbers);
        // The values of a column with a single distinct number are not stored at all.
        if min == max {
            return None;
        }
        value_bits += width_of(max.wrapping_sub(min).cast_unsigned());
        components.push(Component::of(*format)?);
        formats.push(*format);
    }
    let fits = (1..=MAX_COMPONENTS).contains(&components.len()) && entry_bits(&components) <= MAX_ENTRY_BITS;
    (fits && value_bits >= MIN_ENTRY_BITS).then_some(formats)
}

fn numbers_of(column: &SlabColumn) -> &[i64] {
    match &*column.values {
        SlabValues::Numbers { numbers, .. } => numbers,
        _ => &[],
    }
}

impl SharingGroup {
    fn memory_bytes(&self) -> usize {
        let codes: usize = self.uses.iter().map(|used| used.codes.len() * size_of::<u32>()).sum();
        if self.is_abandoned { 0 } else { self.table.memory_bytes() + codes }
    }

    /// Writes the group with a shared dictionary if that is clearly smaller, otherwise in its ordinary form; returns
    /// the position of each column of each slab.
    fn write(self, blocks: &mut BlockWriter) -> Result<Vec<LocatedColumn>, BucketError> {
        if self.uses.is_empty() {
            return Ok(Vec::new());
        }
        let start = blocks.object.len();
        let (entries, renamed) = self.table.sorted();
        let at = write_runs(&entries, &EntryForm::of(&self.components), blocks)?;
        drop(entries);
        let placed = self.write_codes(at, &renamed, blocks)?;
        if blocks.object.len() - start < self.ordinary_bytes - self.ordinary_bytes / CODES_SAVING_DIVISOR {
            return Ok(placed);
        }
        blocks.object.truncate(start);
        self.write_ordinary(blocks)
    }

    /// Writes the numbers that the provisional codes represent.
    fn write_ordinary(&self, blocks: &mut BlockWriter) -> Result<Vec<LocatedColumn>, BucketError> {
        let mut placed = Vec::new();
        let (mut chunk, mut numbers) = (Vec::new(), Vec::new());
        let shifts = bit_offsets(&self.components);
        for used in &self.uses {
            for ((column, component), shift) in used.columns.iter().zip(&self.components).zip(&shifts) {
                let offset = blocks.object.len() as u64;
                let mut lens = Vec::with_capacity(used.page_starts.len());
                for bounds in used.page_starts.windows(2) {
                    numbers.clear();
                    let codes = &used.codes[bounds[0] as usize..bounds[1] as usize];
                    numbers.extend(codes.iter().map(|code| component.number_in(self.table.entry(*code), *shift)));
                    chunk.clear();
                    lens.push(match numbers.is_empty() {
                        true => 0,
                        false => {
                            encode_numbers(&numbers, None, &mut Effort::All(blocks), &mut chunk)?;
                            blocks.write_stored(BlockKind::ColumnChunk, &chunk)
                        }
                    });
                }
                placed.push((used.slab, *column, ChunkLocations::Blocks { offset, lens }));
            }
        }
        Ok(placed)
    }

    fn write_codes(
        &self,
        dictionary: SharedAt,
        renamed: &[u32],
        blocks: &mut BlockWriter,
    ) -> Result<Vec<LocatedColumn>, BucketError> {
        let mut placed = Vec::new();
        let (mut chunk, mut codes) = (Vec::new(), Vec::new());
        for used in &self.uses {
            let offset = blocks.object.len() as u64;
            let mut lens = Vec::with_capacity(used.page_starts.len());
            for bounds in used.page_starts.windows(2) {
                codes.clear();
                codes.extend(
                    used.codes[bounds[0] as usize..bounds[1] as usize].iter().map(|code| renamed[*code as usize]),
                );
                if codes.is_empty() {
                    lens.push(0);
                    continue;
                }
                chunk.clear();
                encode_codes(&codes, &mut Effort::All(blocks), &mut chunk)?;
                lens.push(blocks.write_stored(BlockKind::ColumnChunk, &chunk));
            }
            for (component, column) in (0u32..).zip(&used.columns) {
                let stored = ChunkLocations::Shared { dictionary, component, offset, lens: lens.clone() };
                placed.push((used.slab, *column, stored));
            }
        }
        Ok(placed)
    }
}
