//! Columns of search-time fields whose values compaction stores, represented like those of index-time fields.
//!
//! Their values have no terms: searches look for the words of the text, as for other search-time fields.
//!
//! Not here: extraction of the values; which fields are too large to be stored (`crate::columns`).

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_event::template::{ExtractedField, MAX_STORED_EXTRACTIONS, StoredExtraction, TemplatePart};
use quarry_stdx::number::u32_of;

use super::builder::SlabBuilder;
use super::index_time::{path_of, presence_column};
use super::trie::Span;
use super::{CHUNK_EVENTS, SlabColumn, SlabValues, TemplateSlab, finish_values};
use crate::limits::{MAX_EXTRACTION_NAME_BYTES, MAX_FIELD_COLUMN_BYTES, MAX_PAGE_EVENTS};

impl TemplateSlab {
    /// Number of the first column of a stored search-time field; the number of columns if there is none.
    pub(crate) fn first_extraction_column(&self) -> usize {
        let first = self.extractions.iter().find_map(|stored| stored.column);
        first.map_or(self.columns.len(), |column| self.columns[column as usize].parent.unwrap_or(column) as usize)
    }

    /// Adds the columns of search-time fields to a slab of this many events, as far as the limits allow.
    pub(crate) fn add_extractions(&mut self, fields: &[ExtractedField], events: usize) {
        let mut known = BTreeSet::new();
        for field in fields {
            let fits = self.extractions.len() < MAX_STORED_EXTRACTIONS
                && field.name.len() <= MAX_EXTRACTION_NAME_BYTES
                && field.bytes.len() <= MAX_FIELD_COLUMN_BYTES;
            if !fits || !known.insert((&field.name, field.rules)) {
                continue;
            }
            let (name, rules) = (Arc::clone(&field.name), field.rules);
            if field.rows.is_empty() {
                self.extractions.push(StoredExtraction { name, rules, column: None });
                continue;
            }
            let values = value_column(field, events);
            let above = (field.rows.len() < events).then(|| {
                let mut present = vec![false; events];
                field.rows.iter().for_each(|row| present[*row as usize] = true);
                presence_column(&present, u32_of(self.columns.len() + 1), &values)
            });
            self.push_extraction((name, rules), above, values);
        }
    }

    fn push_extraction(&mut self, (name, rules): (Arc<str>, u128), above: Option<SlabColumn>, mut values: SlabColumn) {
        values.parent = None;
        if let Some(mut above) = above {
            let parent = u32_of(self.columns.len());
            if let SlabValues::Templates { templates, .. } = &mut above.values {
                let parts = templates.iter_mut().flat_map(|template| &mut template.parts);
                parts.for_each(|part| *part = TemplatePart::Variable(parent + 1));
            }
            self.columns.push(above);
            values.parent = Some(parent);
        }
        self.extractions.push(StoredExtraction { name, rules, column: Some(u32_of(self.columns.len())) });
        self.columns.push(values);
    }

    /// Removes the search-time fields for which `keeps` is false, with their columns.
    pub(crate) fn retain_extractions(&mut self, keeps: &[bool]) {
        assert_eq!(keeps.len(), self.extractions.len(), "each field is kept or not");
        let mut columns = self.columns.split_off(self.first_extraction_column()).into_iter();
        for (stored, keeps) in std::mem::take(&mut self.extractions).into_iter().zip(keeps) {
            let mut above = None;
            let mut values = stored.column.and_then(|_| columns.next());
            if values.as_ref().is_some_and(|column| matches!(column.values, SlabValues::Templates { .. })) {
                above = std::mem::replace(&mut values, columns.next());
            }
            match values {
                _ if !keeps => {}
                Some(values) => self.push_extraction((stored.name, stored.rules), above, values),
                None => self.extractions.push(stored),
            }
        }
    }
}

/// The values of a field as a column without a parent.
fn value_column(field: &ExtractedField, events: usize) -> SlabColumn {
    let mut builder = SlabBuilder::default();
    // An index-time field of this name has another path. Such values are not split into columns of their own.
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
