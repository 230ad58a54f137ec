//! Columns of search-time fields whose values compaction stores, represented like the columns of index-time fields.
//!
//! The values of these columns have no terms: searches look for the words of the text, as for other search-time fields.
//!
//! Not here: extraction of the values; which fields are too large to be stored (`crate::columns`); values that are
//! parts of the texts (`super::part_columns`).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use quarry_event::template::{
    ExtractedField, MAX_STORED_EXTRACTIONS, StoredExtraction, StoredValues, TEXT_COLUMN, TemplatePart, TextParts,
};
use quarry_stdx::number::u32_of;

use super::builder::SlabBuilder;
use super::index_time::{path_of, presence_column};
use super::part_columns::PartLimits;
use super::trie::Span;
use super::{CHUNK_EVENTS, SlabColumn, SlabValues, TemplateSlab, finish_values};
use crate::limits::{MAX_EXTRACTION_NAME_BYTES, MAX_FIELD_COLUMN_BYTES, MAX_PAGE_EVENTS};

/// A dictionary with fewer values per distinct text than this counts as nearly unique.
const REPEATS_MIN: usize = 8;
/// A field with at most one value in this many events takes little space.
const EVENTS_PER_VALUE_MAX: usize = 16;

impl TemplateSlab {
    /// Number of the first column of a stored search-time field; the number of columns if there is no such field.
    pub(crate) fn first_extraction_column(&self) -> usize {
        let first = self.extractions.iter().map(|stored| self.columns_of(stored)).find(|columns| !columns.is_empty());
        first.map_or(self.columns.len(), |columns| columns.start)
    }

    /// Numbers of the columns that belong to a stored search-time field alone.
    pub(crate) fn columns_of(&self, stored: &StoredExtraction) -> Range<usize> {
        match &stored.values {
            StoredValues::Absent | StoredValues::Parts(TextParts { codes: TEXT_COLUMN, .. }) => 0..0,
            StoredValues::Column(column) | StoredValues::Lists(column) => {
                let first = self.columns[*column as usize].parent.unwrap_or(*column);
                first as usize..*column as usize + 1
            }
            StoredValues::Parts(parts) => parts.codes as usize..parts.own.unwrap_or(parts.codes) as usize + 1,
        }
    }

    /// Adds search-time fields to a slab of this many events, as far as the limits allow. A field that consists of the
    /// same parts of the text in all events of a template needs no column. Other fields become codes for parts of the
    /// texts if nearly all values are single parts, and fields of nearly unique values, or lists of values, also if they
    /// are composed.
    pub(crate) fn add_extractions(&mut self, fields: &[ExtractedField], events: usize) {
        let mut known = BTreeSet::new();
        let mut left: Vec<&ExtractedField> = Vec::new();
        for field in fields {
            let fits = left.len() < MAX_STORED_EXTRACTIONS
                && field.name.len() <= MAX_EXTRACTION_NAME_BYTES
                && field.bytes.len() <= MAX_FIELD_COLUMN_BYTES;
            if fits && known.insert((&field.name, field.rules)) {
                left.push(field);
            }
        }
        let may_be_parts = |field: &&ExtractedField| !field.is_list && !field.rows.is_empty();
        let single: Vec<&ExtractedField> = left.iter().copied().filter(may_be_parts).collect();
        self.add_template_parts(&single, events);
        let single: Vec<&ExtractedField> = single.into_iter().filter(|field| !self.has_extraction(field)).collect();
        self.add_parts(&single, PartLimits::ANY, events);
        left.retain(|field| !self.has_extraction(field));
        let column_of = |field: &ExtractedField| (!field.rows.is_empty()).then(|| value_column(field, events));
        let mut columns: Vec<(&ExtractedField, Option<SlabColumn>)> =
            left.into_iter().map(|field| (field, column_of(field))).collect();
        let is_unique = |(_, column): &&(&ExtractedField, Option<SlabColumn>)| {
            column.as_ref().is_some_and(|column| is_nearly_unique(column, events))
        };
        let unique: Vec<&ExtractedField> = columns.iter().filter(is_unique).map(|(field, _)| *field).collect();
        if !unique.is_empty() {
            // Lists that repeat are read faster from a dictionary than value by value.
            let lists: Vec<&ExtractedField> = unique.iter().copied().filter(|field| field.is_list).collect();
            self.add_template_parts(&lists, events);
            let others: Vec<&ExtractedField> = unique.into_iter().filter(|field| !self.has_extraction(field)).collect();
            self.add_parts(&others, PartLimits::UNIQUE, events);
            columns.retain(|(field, _)| !self.has_extraction(field));
        }
        for (field, values) in columns {
            let (name, rules) = (Arc::clone(&field.name), field.rules);
            let Some(mut values) = values else {
                self.extractions.push(StoredExtraction { name, rules, values: StoredValues::Absent });
                continue;
            };
            if field.rows.len() < events {
                let mut present = vec![false; events];
                field.rows.iter().for_each(|row| present[*row as usize] = true);
                let parent = u32_of(self.columns.len());
                self.columns.push(presence_column(&present, parent + 1, &values));
                values.parent = Some(parent);
            }
            let column = u32_of(self.columns.len());
            self.columns.push(values);
            let values = if field.is_list { StoredValues::Lists(column) } else { StoredValues::Column(column) };
            self.extractions.push(StoredExtraction { name, rules, values });
        }
    }

    /// Whether the values of a field have been added.
    fn has_extraction(&self, field: &ExtractedField) -> bool {
        self.extractions.iter().any(|stored| (&stored.name, stored.rules) == (&field.name, field.rules))
    }

    /// Removes the search-time fields for which `keeps` is false, with their columns.
    pub(crate) fn retain_extractions(&mut self, keeps: &[bool]) {
        assert_eq!(keeps.len(), self.extractions.len(), "each field is kept or not");
        let ranges: Vec<Range<usize>> = self.extractions.iter().map(|stored| self.columns_of(stored)).collect();
        let mut columns = self.columns.split_off(self.first_extraction_column()).into_iter();
        let fields = std::mem::take(&mut self.extractions).into_iter().zip(ranges);
        for ((mut stored, range), keeps) in fields.zip(keeps) {
            let mut own: Vec<SlabColumn> = columns.by_ref().take(range.len()).collect();
            assert_eq!(own.len(), range.len(), "the columns of the fields are in their order");
            if !*keeps {
                continue;
            }
            if range.is_empty() {
                self.extractions.push(stored);
                continue;
            }
            let (start, new) = (u32_of(range.start), u32_of(self.columns.len()));
            // The columns of the texts, to which parts of values refer, come before the columns of all fields.
            let renumber = |column: &mut u32| *column = if *column < start { *column } else { *column - start + new };
            own.iter_mut().for_each(|column| renumber_column(column, &renumber));
            renumber_values(&mut stored.values, &renumber);
            self.columns.extend(own);
            self.extractions.push(stored);
        }
    }
}

/// Whether a column has so many different texts that storing them again takes much space and time.
fn is_nearly_unique(column: &SlabColumn, events: usize) -> bool {
    let (texts, values) = match &*column.values {
        SlabValues::Texts { ends, .. } => (ends.len(), ends.len()),
        SlabValues::Dictionary { ends, codes, .. } => (ends.len(), codes.len()),
        SlabValues::Templates { .. } | SlabValues::Numbers { .. } => return false,
    };
    texts * REPEATS_MIN > values && values * EVENTS_PER_VALUE_MAX > events
}

fn renumber_column(column: &mut SlabColumn, renumber: &impl Fn(&mut u32)) {
    column.parent.as_mut().into_iter().for_each(renumber);
    // Other values, which contain no numbers of columns, stay shared.
    if matches!(*column.values, SlabValues::Templates { .. })
        && let SlabValues::Templates { templates, .. } = Arc::make_mut(&mut column.values)
    {
        templates.iter_mut().for_each(|template| renumber_parts(&mut template.parts, renumber));
    }
}

fn renumber_parts(parts: &mut [TemplatePart], renumber: &impl Fn(&mut u32)) {
    for part in parts {
        if let TemplatePart::Variable(column) = part {
            renumber(column);
        }
    }
}

fn renumber_values(values: &mut StoredValues, renumber: &impl Fn(&mut u32)) {
    match values {
        StoredValues::Absent => {}
        StoredValues::Column(column) | StoredValues::Lists(column) => renumber(column),
        StoredValues::Parts(parts) => {
            renumber(&mut parts.codes);
            parts.own.as_mut().into_iter().for_each(renumber);
            for value in Arc::make_mut(&mut parts.parts).iter_mut().flatten() {
                renumber_parts(&mut value.parts, renumber);
            }
        }
    }
}

/// The values of a field as a column without a parent.
pub(super) fn value_column(field: &ExtractedField, events: usize) -> SlabColumn {
    let mut builder = SlabBuilder::default();
    // An index-time field of this name has a different path. Such values are not split into columns of their own.
    builder.add_column(None, !path_of(&field.name), u8::MAX, vec![0]);
    let mut spans = Vec::with_capacity(CHUNK_EVENTS);
    let (mut at, mut start) = (0, 0);
    for first in (0..events).step_by(MAX_PAGE_EVENTS) {
        let end = at + field.rows[at..].partition_point(|row| (*row as usize) < first + MAX_PAGE_EVENTS);
        for ends in field.ends[at..end].chunks(CHUNK_EVENTS) {
            spans.clear();
            spans.extend(ends.iter().map(|end| {
                let span = Span { start, len: end - start };
                start = *end;
                span
            }));
            builder.feed(0, &field.bytes, &spans);
        }
        at = end;
        builder.end_page();
    }
    builder.choose_all_representations();
    assert_eq!(builder.columns.len(), 1, "values are not split into columns");
    let column = builder.columns.swap_remove(0);
    let (values, traits) = finish_values(column.kind);
    SlabColumn { parent: None, path: column.path, values, traits, page_starts: column.page_starts }
}
