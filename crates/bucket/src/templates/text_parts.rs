//! The parts of an event's text, in columns that are still in memory: literals and variables, each with its bytes.
//!
//! The parts are listed depth first: a variable whose column has templates is followed by the parts of its own text.
//! [`PartReader::locate`] finds the parts of which a range of the text consists, and [`PartReader::is_value_of`]
//! tells whether given parts make up or contain a value.
//!
//! Not here: which values are looked for (`super::part_columns`), reading stored columns (`crate::columns`).

use std::ops::Range;

use quarry_event::EventBatch;
use quarry_event::template::{ExtractedField, SEPARATOR_BYTE, TEXT_COLUMN, TemplatePart, TextSlice, ValueParts};

use super::{SlabValues, TemplateSlab};
use crate::limits::MAX_SLICE_BYTES;

/// Stands for the column of a literal; the text column is never the column of a variable.
const LITERAL: u32 = TEXT_COLUMN;

/// Reads all columns of a slab in order of events.
pub(super) struct PartReader<'s> {
    slab: &'s TemplateSlab,
    /// Number of values read of each column.
    read: Vec<usize>,
    /// The text of the current event.
    text: Vec<u8>,
    /// Its parts: each variable is followed by the parts of its text.
    parts: Vec<Part>,
    /// By column: the number of the event that had a value last, and the bytes of the value in its text.
    last: Vec<(usize, Range<usize>)>,
    /// Number of events read.
    events: usize,
}

/// A part of a text.
struct Part {
    /// The column of a variable, or [`LITERAL`].
    column: u32,
    /// Bytes in the text of the event.
    bytes: Range<usize>,
    /// Index of the part that follows this part and the parts of its text.
    next: usize,
}

impl<'s> PartReader<'s> {
    pub(super) fn new(slab: &'s TemplateSlab) -> PartReader<'s> {
        PartReader {
            slab,
            read: vec![0; slab.columns.len()],
            text: Vec::new(),
            parts: Vec::new(),
            last: vec![(0, 0..0); slab.columns.len()],
            events: 0,
        }
    }

    /// Reads the text of the next event.
    pub(super) fn read_next(&mut self) -> &[u8] {
        self.read_next_of(TEXT_COLUMN as usize)
    }

    /// Reads the next value of a column alone.
    pub(super) fn read_next_of(&mut self, column: usize) -> &[u8] {
        self.text.clear();
        self.parts.clear();
        self.events += 1;
        self.append_next(column);
        &self.text
    }

    /// The text of the current event.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Appends the next value of a column to the text. The recursion is as deep as templates are nested.
    fn append_next(&mut self, column: usize) {
        let slab = self.slab;
        let at = self.read[column];
        self.read[column] += 1;
        let text = |bytes: &[u8], ends: &[u32], at: usize, out: &mut Vec<u8>| {
            let start = if at == 0 { 0 } else { ends[at - 1] as usize };
            out.extend_from_slice(&bytes[start..ends[at] as usize]);
        };
        match &*slab.columns[column].values {
            SlabValues::Templates { templates, codes } => {
                templates[codes[at] as usize].parts.iter().for_each(|part| self.append_part(part));
            }
            SlabValues::Dictionary { bytes, ends, codes } => text(bytes, ends, codes[at] as usize, &mut self.text),
            SlabValues::Numbers { format, numbers } => format.write(numbers[at], &mut self.text),
            SlabValues::Texts { bytes, ends } => text(bytes, ends, at, &mut self.text),
        }
    }

    fn append_part(&mut self, part: &TemplatePart) {
        let (place, start) = (self.parts.len(), self.text.len());
        let column = match part {
            TemplatePart::Literal(_) => LITERAL,
            TemplatePart::Variable(column) => *column,
        };
        self.parts.push(Part { column, bytes: start..start, next: place + 1 });
        match part {
            TemplatePart::Literal(literal) => self.text.extend_from_slice(literal),
            TemplatePart::Variable(column) => self.append_next(*column as usize),
        }
        let (bytes, next) = (start..self.text.len(), self.parts.len());
        if column != LITERAL {
            self.last[column as usize] = (self.events, bytes.clone());
        }
        (self.parts[place].bytes, self.parts[place].next) = (bytes, next);
    }

    /// The template of the current event.
    pub(super) fn template(&self) -> u32 {
        match &*self.slab.columns[TEXT_COLUMN as usize].values {
            SlabValues::Templates { codes, .. } => codes[self.events - 1],
            _ => 0,
        }
    }

    /// The parts of which these bytes of the text consist, with as few variables as possible; `None` if they begin or
    /// end inside the value of a column without templates.
    pub(super) fn locate(&self, bytes: Range<usize>) -> Option<Vec<TemplatePart>> {
        let mut found = Vec::new();
        self.locate_within(0..self.parts.len(), &bytes, &mut found).then_some(found)
    }

    /// Appends the parts in the range `parts` that lie in these bytes; the recursion is as deep as templates are
    /// nested.
    fn locate_within(&self, parts: Range<usize>, bytes: &Range<usize>, found: &mut Vec<TemplatePart>) -> bool {
        let mut at = parts.start;
        while at < parts.end {
            let Part { column, bytes: own, next } = &self.parts[at];
            let is_outside = own.end <= bytes.start || own.start >= bytes.end;
            let is_whole = bytes.start <= own.start && own.end <= bytes.end;
            match *column {
                _ if is_outside => {}
                LITERAL => {
                    let piece = &self.text[own.start.max(bytes.start)..own.end.min(bytes.end)];
                    match found.last_mut() {
                        Some(TemplatePart::Literal(before)) => *before = [before, piece].concat().into(),
                        _ => found.push(TemplatePart::Literal(piece.into())),
                    }
                }
                column if is_whole => found.push(TemplatePart::Variable(column)),
                _ if *next == at + 1 => return false,
                _ if !self.locate_within(at + 1..*next, bytes, found) => return false,
                _ => {}
            }
            at = *next;
        }
        true
    }

    /// Adds the slices of a variable's value at which these bytes of the text lie, if a variable contains them whose
    /// column has no templates.
    pub(super) fn add_slices(&self, bytes: &Range<usize>, found: &mut Vec<ValueParts>) {
        let contains = |part: &Part| part.bytes.start <= bytes.start && bytes.end <= part.bytes.end;
        let is_leaf = |at: usize| self.parts[at].column != LITERAL && self.parts[at].next == at + 1;
        let around = (0..self.parts.len()).find(|at| is_leaf(*at) && contains(&self.parts[*at]));
        let Some(Part { column, bytes: own, .. }) = around.map(|at| &self.parts[at]) else { return };
        let has_dictionary = match &*self.slab.columns[*column as usize].values {
            SlabValues::Dictionary { .. } => true,
            SlabValues::Texts { .. } => false,
            SlabValues::Templates { .. } | SlabValues::Numbers { .. } => return,
        };
        let length = |bytes: usize| u32::try_from(bytes).ok().filter(|_| bytes <= MAX_SLICE_BYTES);
        let character = |at: usize| Some(self.text[at]).filter(|_| has_dictionary).filter(u8::is_ascii);
        let slices = if own.end == bytes.end {
            [length(bytes.start - own.start).map(TextSlice::From), character(bytes.start - 1).map(TextSlice::After)]
        } else if own.start == bytes.start {
            let first = length(bytes.len()).filter(|_| has_dictionary);
            [first.map(TextSlice::First), character(bytes.end).map(TextSlice::Until)]
        } else {
            return;
        };
        let (whole, value) = (&self.text[own.clone()], &self.text[bytes.clone()]);
        let exact = slices.into_iter().flatten().filter(|slice| slice.of(whole) == Some(value));
        found.extend(exact.map(|slice| ValueParts { parts: [TemplatePart::Variable(*column)].into(), slice }));
    }

    /// Whether this value consists of these parts of the current event, or is this slice of them.
    pub(super) fn is_value_of(&self, value_parts: &ValueParts, value: &[u8]) -> bool {
        match (value_parts.slice, &*value_parts.parts) {
            (TextSlice::Whole, parts) => self.is_composed_of(parts, value),
            (slice, [TemplatePart::Variable(column)]) => {
                self.variable_text(*column).and_then(|text| slice.of(text)) == Some(value)
            }
            _ => false,
        }
    }

    /// Whether these parts of the current event make up this value.
    pub(super) fn is_composed_of(&self, parts: &[TemplatePart], value: &[u8]) -> bool {
        let mut left = value;
        for part in parts {
            let text = match part {
                TemplatePart::Literal(literal) => Some(&**literal),
                TemplatePart::Variable(column) => self.variable_text(*column),
            };
            let Some(rest) = text.and_then(|text| left.strip_prefix(text)) else { return false };
            left = rest;
        }
        left.is_empty()
    }

    /// The value of a variable in the current event.
    fn variable_text(&self, column: u32) -> Option<&[u8]> {
        let (event, bytes) = &self.last[column as usize];
        (*event == self.events).then(|| &self.text[bytes.clone()])
    }
}

/// The values of one event, given as they are joined in an [`ExtractedField`].
pub(super) fn values_of<'v>(field: &ExtractedField, joined: &'v [u8]) -> impl Iterator<Item = &'v [u8]> {
    let is_list = field.is_list;
    joined.split(move |byte| is_list && *byte == SEPARATOR_BYTE)
}

/// Joins the parts of the values of one event by [`SEPARATOR_BYTE`], as a literal. `None` if the values have a column
/// in common: each column is read once per event.
pub(super) fn join_values<'p>(values: impl IntoIterator<Item = &'p [TemplatePart]>) -> Option<Vec<TemplatePart>> {
    let mut joined: Vec<TemplatePart> = Vec::new();
    let separator = TemplatePart::Literal([SEPARATOR_BYTE].into());
    for (at, value) in values.into_iter().enumerate() {
        let is_known = |part: &TemplatePart| matches!(part, TemplatePart::Variable(_)) && joined.contains(part);
        if value.iter().any(is_known) {
            return None;
        }
        for part in (at > 0).then_some(&separator).into_iter().chain(value) {
            match (joined.last_mut(), part) {
                (Some(TemplatePart::Literal(before)), TemplatePart::Literal(literal)) => {
                    *before = [&**before, literal].concat().into();
                }
                _ => joined.push(part.clone()),
            }
        }
    }
    Some(joined)
}

/// Whether the columns restore every text.
pub(super) fn restores_texts(slab: &TemplateSlab, events: &EventBatch) -> bool {
    let mut reader = PartReader::new(slab);
    (0..events.len()).all(|row| reader.read_next() == events.raw(row))
}
