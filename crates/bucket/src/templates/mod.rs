//! Template slabs: the texts of a slab split into the columns of `quarry_event::template`.
//!
//! [`split_slab`] builds a [`TemplateSlab`] from the texts; the writer (`crate::columns`) stores it. `variables` and
//! `access` find variables, `trie` finds the template of a text, `splitter` grows the templates of a column, `objects`
//! has one template for all combinations of a JSON object's optional members, `outline` has templates for parts of a
//! text, and `cells` has templates whose variables are the index-time fields of a text. `sourcetype_splitters` chooses
//! the way of splitting for each sourcetype, `trial` chooses the representation of a column, `quantities` separates
//! numbers from their units, and `builder` adds values to columns. `index_time` has the columns of index-time fields,
//! and `extraction_columns` those of search-time fields that compaction stores; if the values of such a field are parts
//! of the texts (`text_parts`), `part_columns` or `template_parts` has its column. A single text that fits no template
//! is stored as a plain text, so that every text can be stored.
//!
//! Not here: storage of columns, terms, fields.

mod access;
pub mod bench;
mod builder;
mod cells;
mod classes;
mod dictionary;
mod extraction_columns;
mod index_time;
mod objects;
mod outline;
mod part_columns;
mod quantities;
mod separators;
mod sourcetype_splitters;
mod splitter;
mod template_parts;
mod text_parts;
mod traits;
mod trial;
mod trie;
mod variables;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::Arc;

use quarry_event::EventBatch;
use quarry_event::template::{
    ByteSet, ExtractedNames, FieldColumn, NumberFormat, StoredExtraction, Template, ValueTraits,
};

use crate::limits::MAX_PAGE_EVENTS;
use builder::{Representation, SlabBuilder, SplitProgress};
use cells::CellFinder;
pub(crate) use classes::texts_equal;
use dictionary::TextList;
pub(crate) use index_time::FieldSplit;
pub(crate) use part_columns::PartLimits;
pub(crate) use traits::{PREFIX_BYTES_MAX, VALUE_SET_BYTES_MAX, VALUE_SET_MAX};
use trie::Span;

/// Number of events split at a time. Their texts stay in the processor's cache until the last column has processed
/// them.
const CHUNK_EVENTS: usize = 512;
/// Number of pages before the first check whether templates pay off; the check is repeated after every further page.
const TRIAL_PAGES: usize = 2;
/// Templates do not pay off if more than this percentage of events fits no template.
const PLAIN_PERCENT_MAX: usize = 40;
/// Templates also do not pay off if there are more columns than this number plus one per `EVENTS_PER_COLUMN` events.
const COLUMNS_ALWAYS: usize = 256;
const EVENTS_PER_COLUMN: usize = 16;
/// Outlines are tried if more than this percentage of the first events fits no whole-text template, or if the number of
/// templates reaches its limit.
const OUTLINE_PLAIN_PERCENT_MIN: usize = 5;

/// The texts of one slab as columns, in memory.
#[derive(Debug, Default)]
pub(crate) struct TemplateSlab {
    /// Column 0 is the whole text (always templates); every other column comes after its parent. The columns of the
    /// texts are followed by the columns of index-time fields, and these by the columns of stored search-time fields.
    pub(crate) columns: Vec<SlabColumn>,
    /// Columns of the texts that have the values of index-time fields, with the names of the fields.
    pub(crate) cells: Vec<(Arc<str>, u32)>,
    /// Index-time fields with a column.
    pub(crate) fields: Vec<FieldColumn>,
    /// Search-time fields whose values are stored, in the order of their columns.
    pub(crate) extractions: Vec<StoredExtraction>,
    /// The names of all search-time fields that rules take from the texts, if known.
    pub(crate) extracted_names: Option<ExtractedNames>,
}

impl TemplateSlab {
    /// Number of templates of all columns.
    pub(crate) fn template_count(&self) -> usize {
        let of_column = |column: &SlabColumn| match &*column.values {
            SlabValues::Templates { templates, .. } => templates.len(),
            _ => 0,
        };
        self.columns.iter().map(of_column).sum()
    }

    /// The bytes of the texts, and possibly others.
    pub(crate) fn text_bytes(&self) -> ByteSet {
        self.columns.first().map_or(ByteSet::ALL, |texts| texts.traits.bytes)
    }
}

/// One column with all its values.
#[derive(Debug)]
pub(crate) struct SlabColumn {
    /// The template column whose templates contain this column; `None` for column 0, and for those columns of
    /// index-time fields and stored search-time fields that have a value in every event.
    pub(crate) parent: Option<u32>,
    /// Identifies corresponding columns of different slabs; derived from the words before the variables.
    pub(crate) path: u64,
    /// A field that is a cell of the texts shares the values of the cell's column.
    pub(crate) values: Arc<SlabValues>,
    pub(crate) traits: ValueTraits,
    /// Number of values before each page of the slab, followed by the number of all values.
    pub(crate) page_starts: Vec<u32>,
}

impl SlabColumn {
    /// A column without a parent that has the same values and this path.
    fn copied_to(&self, path: u64) -> SlabColumn {
        SlabColumn {
            parent: None,
            path,
            values: Arc::clone(&self.values),
            traits: self.traits.clone(),
            page_starts: self.page_starts.clone(),
        }
    }
}

/// All values of a column, in order of events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SlabValues {
    /// The template of each value. Every template is used.
    Templates { templates: Vec<Template>, codes: Vec<u32> },
    /// For each value, its index among the texts with these `ends`, which ascend by bytes and are all used.
    Dictionary { bytes: Vec<u8>, ends: Vec<u32>, codes: Vec<u32> },
    /// Numbers, each of which `format` writes exactly as the original value.
    Numbers { format: NumberFormat, numbers: Vec<i64> },
    /// Texts back to back.
    Texts { bytes: Vec<u8>, ends: Vec<u32> },
}

/// Splits the texts of one slab; `None` if plain texts are the better form.
pub(crate) fn split_slab(events: &EventBatch) -> Option<TemplateSlab> {
    if events.is_empty() {
        return None;
    }
    // First attempt: each sourcetype is split in its own way.
    if let Some((of_metas, cutters)) = sourcetype_splitters::learn_kinds(events)
        && let Some(slab) = split_texts(events, SlabBuilder::with_kinds(cutters), &of_metas, is_worthwhile)
    {
        return Some(slab);
    }
    // Next attempt: the texts consist of their index-time fields.
    if cells::are_cells(events, events.len(), |_| true)
        && let Some(slab) = split_texts(events, SlabBuilder::with_cells(), &[], is_worthwhile)
    {
        return Some(slab);
    }
    // If there are too many whole-text templates, an outline may need far fewer.
    let (whole, pays_anyway) = (|| SlabBuilder::new(objects::learn_schemas(events)), Cell::new(false));
    let are_few = |builder: &SlabBuilder| {
        let (pays, few) = (is_worthwhile(builder), has_few_templates(builder));
        pays_anyway.set(pays && !few);
        pays && few
    };
    split_texts(events, whole(), &[], are_few)
        .or_else(|| {
            split_texts(
                events,
                SlabBuilder::with_outline(outline::learning::learn_outline(events)?),
                &[],
                is_worthwhile,
            )
        })
        .or_else(|| if pays_anyway.get() { split_texts(events, whole(), &[], is_worthwhile) } else { None })
}

/// Whether the number of whole-text templates is still acceptable. Always true after the first pages, when starting
/// over would lose much.
fn has_few_templates(builder: &SlabBuilder) -> bool {
    let Some(Representation::Templates(texts)) = builder.columns.first().map(|column| &column.kind) else {
        return false;
    };
    let events = texts.codes.len();
    events > TRIAL_PAGES * MAX_PAGE_EVENTS
        || texts.has_schemas()
        || (!texts.is_full() && texts.plain_values * 100 <= events * OUTLINE_PLAIN_PERCENT_MIN)
}

/// Splits the texts; gives up with `None` if `pays` is false for the columns built so far. `kinds` maps metadata codes
/// to kinds and is empty if there is only one kind.
fn split_texts(
    events: &EventBatch,
    mut builder: SlabBuilder,
    kinds: &[u8],
    pays: impl Fn(&SlabBuilder) -> bool,
) -> Option<TemplateSlab> {
    let mut spans = Vec::with_capacity(CHUNK_EVENTS);
    let mut finder = builder.has_cells().then(|| CellFinder::new(events));
    let (mut start, mut row) = (0, 0);
    for (page, page_ends) in events.ends.chunks(MAX_PAGE_EVENTS).enumerate() {
        for ends in page_ends.chunks(CHUNK_EVENTS) {
            let texts = &events.raw[start as usize..ends[ends.len() - 1] as usize];
            builder.is_unquoted = builder::is_unquoted(texts);
            spans.clear();
            spans.extend(ends.iter().map(|end| {
                let span = Span { start, len: end - start };
                start = *end;
                span
            }));
            let metas = events.meta.iter().skip(row).take(spans.len());
            builder.kinds.clear();
            builder.kinds.extend(metas.filter_map(|meta| kinds.get(*meta as usize)));
            if let Some(finder) = &mut finder {
                finder.find_chunk(row, spans.len(), &mut builder.cells);
            }
            row += spans.len();
            builder.feed(0, &events.raw, &spans);
        }
        builder.end_page();
        builder.reserve(SplitProgress { events: (row, events.len()), bytes: (start as usize, events.raw.len()) });
        if page + 1 >= TRIAL_PAGES && !pays(&builder) {
            return None;
        }
    }
    builder.choose_all_representations();
    if !pays(&builder) {
        return None;
    }
    let slab = into_template_slab(builder);
    debug_assert!(text_parts::restores_texts(&slab, events), "columns do not give the texts back");
    Some(slab)
}

/// Whether the columns built so far pay off.
fn is_worthwhile(builder: &SlabBuilder) -> bool {
    let Some(Representation::Templates(texts)) = builder.columns.first().map(|column| &column.kind) else {
        return false;
    };
    let events = texts.codes.len();
    texts.plain_values * 100 <= events * PLAIN_PERCENT_MAX
        && builder.columns.len() <= COLUMNS_ALWAYS + events / EVENTS_PER_COLUMN
}

/// Converts the columns for the writer.
fn into_template_slab(builder: SlabBuilder) -> TemplateSlab {
    let mut slab = TemplateSlab::default();
    if let Some(Representation::Templates(texts)) = builder.columns.first().map(|column| &column.kind) {
        slab.cells = texts.cell_columns();
    }
    for column in builder.columns {
        let builder::Column { parent, path, kind, page_starts, .. } = column;
        let (values, traits) = finish_values(kind);
        slab.columns.push(SlabColumn { parent, path, values, traits, page_starts });
    }
    // The columns of variables come after the column whose templates contain them.
    for at in (0..slab.columns.len()).rev() {
        if let SlabValues::Templates { templates, .. } = &*slab.columns[at].values {
            slab.columns[at].traits = traits::template_traits(templates, &slab.columns, &slab.columns[at].traits);
        }
    }
    slab
}

fn finish_values(kind: Representation) -> (Arc<SlabValues>, ValueTraits) {
    let (values, traits) = match kind {
        Representation::Templates(split) => {
            let values = SlabValues::Templates { templates: split.templates, codes: split.codes };
            (values, split.json_traits.traits())
        }
        Representation::Dictionary { interner, mut codes } => {
            let (sorted, renamed) = interner.into_sorted();
            codes.iter_mut().for_each(|code| *code = renamed[*code as usize]);
            let traits = traits::dictionary_traits(&sorted);
            let TextList { bytes, ends } = sorted;
            (SlabValues::Dictionary { bytes, ends, codes }, traits)
        }
        Representation::Numbers { format, numbers } => {
            let min = numbers.iter().copied().min().unwrap_or_default();
            let max = numbers.iter().copied().max().unwrap_or_default();
            (SlabValues::Numbers { format, numbers }, traits::number_traits(format, min, max))
        }
        Representation::Pending(texts) | Representation::Texts(texts) => {
            let traits = traits::text_traits(&texts);
            let TextList { bytes, ends } = texts;
            (SlabValues::Texts { bytes, ends }, traits)
        }
    };
    (Arc::new(values), traits)
}
