//! Columns under construction: each column receives its values as ranges of a text and converts them to numbers, codes
//! or further ranges.
//!
//! No text is copied between columns. A template column passes each variable's range to the variable's column, which
//! processes its ranges after the template column has processed the whole chunk (the texts that are split together).
//! The text of a chunk thus stays in the cache. A leaf, a column without templates, collects its first values as texts
//! until there are enough to choose a representation (`super::trial`). If a later value does not fit the
//! representation, the leaf converts its values back to texts, which is possible from every representation, and repeats
//! the trial over all values.

use std::mem;

use memchr::memchr2;
use quarry_event::template::NumberFormat;
use quarry_stdx::number::u32_of;

use super::cells::ChunkCells;
use super::dictionary::{Interner, TextList};
use super::objects::Schema;
use super::outline::{Outline, OutlineSplit};
use super::splitter::{Splitter, TemplateColumn, TemplateLearner};
use super::trial::{ChosenRepresentation, choose_representation, dictionary_of_all};
use super::trie::{FoundVariable, Span};
use super::variables::Variable;
use crate::limits::MAX_PAGE_EVENTS;

/// Number of values that a leaf collects before it chooses a representation.
const SAMPLE_VALUES: usize = 4_096;
/// Bytes of collected values after which a leaf chooses even if it has fewer values.
const SAMPLE_BYTES: usize = 1 << 20;
/// Maximum number of repeated trials; after them, a leaf remains plain text.
const RETRIALS_MAX: u8 = 4;
/// Number of distinct texts up to which a dictionary is never given up; beyond it, a dictionary is given up if more
/// than a quarter of the values are distinct.
const DICTIONARY_TEXTS_ALWAYS: usize = 4_096;
/// Number of pages after which memory for the following pages is first reserved.
const RESERVING_PAGES_MIN: usize = 2;
/// One extra value is reserved per this number of expected values. Memory that is reserved but not used costs nothing,
/// whereas growing a column copies it to new memory.
const RESERVED_MARGIN: usize = 4;
/// Path of the text column.
const TEXT_PATH: u64 = 0;
/// Number of distinct texts after which a dictionary is given up; the last chunk may exceed this limit.
const DICTIONARY_TEXTS_MAX: usize = 65_536 - 4_096;

/// Current representation of a column.
#[derive(Debug)]
pub(super) enum Representation {
    /// Texts of a leaf that has not chosen a representation yet.
    Pending(TextList),
    Templates(Box<TemplateColumn>),
    Dictionary {
        interner: Interner,
        codes: Vec<u32>,
    },
    Numbers {
        format: NumberFormat,
        numbers: Vec<i64>,
    },
    Texts(TextList),
}

impl Default for Representation {
    fn default() -> Representation {
        Representation::Pending(TextList::default())
    }
}

impl Representation {
    pub(super) fn len(&self) -> usize {
        match self {
            Representation::Pending(texts) | Representation::Texts(texts) => texts.len(),
            Representation::Templates(column) => column.codes.len(),
            Representation::Dictionary { codes, .. } => codes.len(),
            Representation::Numbers { numbers, .. } => numbers.len(),
        }
    }

    /// Reserves memory for the values that are expected until the end of the slab, so that lists of values seldom grow
    /// in steps, each of which copies them.
    fn reserve(&mut self, progress: SplitProgress) {
        match self {
            Representation::Pending(texts) | Representation::Texts(texts) => {
                reserve_expected(&mut texts.bytes, progress.bytes);
                reserve_expected(&mut texts.ends, progress.events);
            }
            Representation::Templates(column) => reserve_expected(&mut column.codes, progress.events),
            Representation::Dictionary { codes, .. } => reserve_expected(codes, progress.events),
            Representation::Numbers { numbers, .. } => reserve_expected(numbers, progress.events),
        }
    }

    /// Converts the values of a leaf back to texts.
    fn into_texts(self) -> TextList {
        match self {
            Representation::Pending(texts) | Representation::Texts(texts) => texts,
            Representation::Templates(_) => TextList::default(),
            Representation::Dictionary { interner, codes } => {
                let mut texts = TextList::default();
                for code in codes {
                    texts.push(interner.texts.get(code as usize));
                }
                texts
            }
            Representation::Numbers { format, numbers } => {
                let mut texts = TextList::default();
                for number in numbers {
                    format.write(number, &mut texts.bytes);
                    texts.ends.push(u32_of(texts.bytes.len()));
                }
                texts
            }
        }
    }
}

/// Progress of splitting a slab: events, and bytes of text, each so far and in total.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitProgress {
    pub(super) events: (usize, usize),
    pub(super) bytes: (usize, usize),
}

/// Reserves memory for the values expected in total, if the values so far are typical.
fn reserve_expected<T>(values: &mut Vec<T>, (so_far, total): (usize, usize)) {
    let expected = values.len() * total / so_far.max(1);
    // Memory that was reserved with the margin is enough for a slightly larger estimate.
    if expected > values.capacity() {
        values.reserve_exact(expected + expected / RESERVED_MARGIN - values.len());
    }
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) parent: Option<u32>,
    /// Hash of the roles from the text column down to this column.
    pub(super) path: u64,
    /// Number of template columns above this column, not counting those of optional members; a large number if the
    /// column is never split.
    pub(super) depth: u8,
    pub(super) kind: Representation,
    pub(super) page_starts: Vec<u32>,
    retrials: u8,
    no_dictionary: bool,
}

/// Whether a text contains neither quotes nor backslashes, so that every part of it can stand between JSON quotes.
pub(super) fn is_unquoted(text: &[u8]) -> bool {
    memchr2(b'"', b'\\', text).is_none()
}

/// All columns of a slab.
#[derive(Debug, Default)]
pub(super) struct SlabBuilder {
    pub(super) columns: Vec<Column>,
    /// For each column, the ranges of the values that it has yet to process.
    pub(super) pending_values: Vec<Vec<Span>>,
    /// Number of templates of all columns.
    pub(super) templates: usize,
    /// Number of template columns.
    pub(super) splits: usize,
    pub(super) filled: Vec<FoundVariable>,
    pub(super) variables: Vec<Variable>,
    /// Start and end of each variable of a text that fits a schema.
    pub(super) variable_ranges: Vec<(u32, u32)>,
    /// The variables of a text that was split by an outline.
    pub(super) outline_split: OutlineSplit,
    /// The cells of each text in the chunk; empty if the texts are not split into cells.
    pub(super) cells: ChunkCells,
    /// The kind of each text in the chunk; empty if there is one kind only.
    pub(super) kinds: Vec<u8>,
    /// Whether no value of the chunk contains a quote or a backslash.
    pub(super) is_unquoted: bool,
}

impl SlabBuilder {
    /// A builder for whole texts, some of which may fit these schemas.
    pub(super) fn new(schemas: Vec<Schema>) -> SlabBuilder {
        SlabBuilder::with_text_column(TemplateColumn::with_learners(vec![TemplateLearner::new(
            Splitter::Event,
            schemas,
            0,
        )]))
    }

    /// A builder for whole texts of several kinds.
    pub(super) fn with_kinds(kinds: Vec<TemplateLearner>) -> SlabBuilder {
        SlabBuilder::with_text_column(TemplateColumn::with_learners(kinds))
    }

    /// A builder for whole texts with this outline.
    pub(super) fn with_outline(outline: Outline) -> SlabBuilder {
        SlabBuilder::with_text_column(TemplateColumn::new(Splitter::Outline(Box::new(outline))))
    }

    /// A builder for whole texts that consist of index-time fields.
    pub(super) fn with_cells() -> SlabBuilder {
        SlabBuilder::with_text_column(TemplateColumn::new(Splitter::Cells))
    }

    fn with_text_column(texts: TemplateColumn) -> SlabBuilder {
        let mut builder = SlabBuilder::default();
        builder.add_column(None, TEXT_PATH, 0, vec![0]);
        builder.columns[0].kind = Representation::Templates(Box::new(texts));
        builder.splits = 1;
        builder
    }

    /// Whether some texts are split into cells.
    pub(super) fn has_cells(&self) -> bool {
        let texts = self.columns.first().map(|column| &column.kind);
        matches!(texts, Some(Representation::Templates(texts)) if texts.has_cells())
    }

    /// Adds an empty leaf.
    pub(super) fn add_column(&mut self, parent: Option<u32>, path: u64, depth: u8, page_starts: Vec<u32>) -> u32 {
        let kind = Representation::default();
        self.columns.push(Column { parent, path, depth, kind, page_starts, retrials: 0, no_dictionary: false });
        self.pending_values.push(Vec::new());
        u32_of(self.columns.len()) - 1
    }

    /// Adds values to a column.
    pub(super) fn feed(&mut self, column: u32, base: &[u8], spans: &[Span]) {
        match mem::take(&mut self.columns[column as usize].kind) {
            Representation::Templates(mut split) => {
                self.split_values(column, &mut split, base, spans);
                for child in &split.children {
                    let mut inbox = mem::take(&mut self.pending_values[*child as usize]);
                    if !inbox.is_empty() {
                        self.feed(*child, base, &inbox);
                    }
                    inbox.clear();
                    self.pending_values[*child as usize] = inbox;
                }
                self.columns[column as usize].kind = Representation::Templates(split);
            }
            Representation::Pending(texts) => self.feed_pending(column, texts, base, spans),
            Representation::Numbers { format, numbers } => self.feed_numbers(column, format, numbers, base, spans),
            Representation::Dictionary { mut interner, mut codes } => {
                codes.extend(spans.iter().map(|span| interner.intern(base, span.range())));
                let distinct = interner.len();
                let is_full = distinct > DICTIONARY_TEXTS_MAX.min(DICTIONARY_TEXTS_ALWAYS.max(codes.len() / 4));
                let kind = Representation::Dictionary { interner, codes };
                if is_full {
                    self.columns[column as usize].no_dictionary = true;
                    self.retry_representation(column, kind.into_texts());
                } else {
                    self.columns[column as usize].kind = kind;
                }
            }
            Representation::Texts(mut texts) => {
                spans.iter().for_each(|span| texts.push(span.of(base)));
                self.columns[column as usize].kind = Representation::Texts(texts);
            }
        }
    }

    fn feed_pending(&mut self, column: u32, mut texts: TextList, base: &[u8], spans: &[Span]) {
        spans.iter().for_each(|span| texts.push(span.of(base)));
        if texts.len() >= SAMPLE_VALUES || texts.bytes.len() >= SAMPLE_BYTES {
            self.choose_representation(column, texts);
        } else {
            self.columns[column as usize].kind = Representation::Pending(texts);
        }
    }

    fn feed_numbers(&mut self, column: u32, format: NumberFormat, mut numbers: Vec<i64>, base: &[u8], spans: &[Span]) {
        for (at, span) in spans.iter().enumerate() {
            let Some(number) = format.parse(span.of(base)) else {
                let mut texts = Representation::Numbers { format, numbers }.into_texts();
                spans[at..].iter().for_each(|span| texts.push(span.of(base)));
                return self.retry_representation(column, texts);
            };
            numbers.push(number);
        }
        self.columns[column as usize].kind = Representation::Numbers { format, numbers };
    }

    fn retry_representation(&mut self, column: u32, texts: TextList) {
        let place = &mut self.columns[column as usize];
        place.retrials += 1;
        if place.retrials > RETRIALS_MAX {
            place.kind = Representation::Texts(texts);
        } else {
            self.choose_representation(column, texts);
        }
    }

    /// Chooses the representation of a leaf.
    fn choose_representation(&mut self, column: u32, texts: TextList) {
        let place = &self.columns[column as usize];
        let depth = if self.may_split() { place.depth } else { u8::MAX };
        let kind = match choose_representation(&texts, depth, place.no_dictionary) {
            ChosenRepresentation::Texts => Representation::Texts(texts),
            ChosenRepresentation::Numbers(format, numbers) => Representation::Numbers { format, numbers },
            ChosenRepresentation::Dictionary(interner, codes) => Representation::Dictionary { interner, codes },
            ChosenRepresentation::Split(splitter) => return self.replay(column, splitter, &texts),
        };
        self.columns[column as usize].kind = kind;
    }

    /// Splits the values that a leaf collected, page by page.
    fn replay(&mut self, column: u32, splitter: Splitter, texts: &TextList) {
        self.splits += 1;
        let place = &mut self.columns[column as usize];
        place.kind = Representation::Templates(Box::new(TemplateColumn::new(splitter)));
        let starts = mem::replace(&mut place.page_starts, vec![0]);
        let is_chunk_unquoted = mem::replace(&mut self.is_unquoted, is_unquoted(&texts.bytes));
        let mut spans = Vec::new();
        let mut feed = |builder: &mut SlabBuilder, from: usize, to: usize| {
            spans.clear();
            spans.extend((from..to).map(|at| {
                let range = texts.range(at);
                Span { start: u32_of(range.start), len: u32_of(range.len()) }
            }));
            builder.feed(column, &texts.bytes, &spans);
        };
        for window in starts.windows(2) {
            feed(self, window[0] as usize, window[1] as usize);
            self.end_page_below(column);
        }
        feed(self, starts.last().map_or(0, |start| *start as usize), texts.len());
        self.is_unquoted = is_chunk_unquoted;
    }

    fn end_page_below(&mut self, column: u32) {
        let place = &mut self.columns[column as usize];
        place.page_starts.push(u32_of(place.kind.len()));
        if let Representation::Templates(split) = &place.kind {
            for child in split.children.clone() {
                self.end_page_below(child);
            }
        }
    }

    /// Marks the end of a page in every column.
    pub(super) fn end_page(&mut self) {
        for column in &mut self.columns {
            column.page_starts.push(u32_of(column.kind.len()));
        }
    }

    /// Reserves memory for the values of the following pages, at the end of some pages.
    pub(super) fn reserve(&mut self, progress: SplitProgress) {
        let ((events, all), page) = (progress.events, MAX_PAGE_EVENTS);
        if events >= RESERVING_PAGES_MIN * page && (events / page).is_power_of_two() && events < all {
            self.columns.iter_mut().for_each(|column| column.kind.reserve(progress));
        }
    }

    /// Completes the leaves: undecided leaves choose their representation, and leaves that turned out to have few
    /// distinct texts become dictionaries.
    pub(super) fn choose_all_representations(&mut self) {
        let mut column = 0;
        while column < self.columns.len() {
            if let Representation::Pending(texts) = &mut self.columns[column].kind {
                let texts = mem::take(texts);
                self.choose_representation(u32_of(column), texts);
            }
            column += 1;
        }
        for column in &mut self.columns {
            if let Representation::Texts(texts) = &column.kind
                && let Some((interner, codes)) = dictionary_of_all(texts)
            {
                column.kind = Representation::Dictionary { interner, codes };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slightly_larger_estimate_reserves_nothing() {
        let mut values = vec![0_u8; 100];
        reserve_expected(&mut values, (10, 100));
        let capacity = values.capacity();
        assert!(capacity >= 1_000 + 1_000 / RESERVED_MARGIN);
        values.resize(210, 0);
        reserve_expected(&mut values, (20, 100));
        assert_eq!(values.capacity(), capacity, "1,050 values are expected");
        values.resize(600, 0);
        reserve_expected(&mut values, (40, 100));
        assert!(values.capacity() >= 1_500);
    }
}
