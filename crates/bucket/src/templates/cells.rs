//! Delimited texts: the values of index-time fields that follow each other in the text.
//!
//! If a file has a header (`INDEXED_EXTRACTIONS`), the fields of an event are the cells of its line. Each cell that is
//! found in the text is a variable of its own, in a column that belongs to the name of the field. The index-time field
//! has the same values as this column of the texts, so the values are stored once ([`super::FieldSplit`]).
//!
//! A cell stands between breakers. Every event with the field thus contains the tokens of its value, so that such a
//! field needs no terms of its own (`crate::term_dictionary`).

use std::ops::RangeInclusive;
use std::sync::Arc;

use quarry_event::segment::is_breaker;
use quarry_event::{EventBatch, EventFields};
use quarry_stdx::number::u32_of;

use super::classes::texts_equal;
use super::outline::lookup::OutlineTemplates;
use super::outline::{OutlineVariable, Role};
use crate::limits::MAX_FIELD_COLUMNS;

/// Number of texts in the sample that decides whether texts are split into cells.
const SAMPLE_TEXTS: usize = 1_024;
/// Minimum percentage of the bytes of the sampled texts that are in cells.
const CELL_BYTES_PERCENT_MIN: usize = 50;
/// Maximum percentage of the bytes that are words between cells.
const GAP_BYTES_PERCENT_MAX: usize = 10;
/// Minimum number of sampled texts per template.
const TEXTS_PER_TEMPLATE_MIN: usize = 8;
/// Maximum bytes between two cells.
const GAP_BYTES_MAX: usize = 512;
/// Number of no name: of a name without a number, and of the words after the last cell.
const NO_NAME: u16 = u16::MAX;
const _: () = assert!(MAX_FIELD_COLUMNS < NO_NAME as usize, "the number of a name fits in 16 bits");

/// The cells of the texts of a chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkCells {
    pieces: Vec<OutlineVariable>,
    /// End of the variables of each text in `pieces`.
    ends: Vec<u32>,
    /// The names of the fields, by number.
    pub(super) names: Vec<Arc<str>>,
}

impl ChunkCells {
    /// The variables of text number `at` of the chunk; empty if the text was not split into cells.
    pub(super) fn of(&self, at: usize) -> &[OutlineVariable] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends.get(before).copied().unwrap_or_default());
        let end = self.ends.get(at).copied().unwrap_or(start);
        &self.pieces[start as usize..end as usize]
    }
}

/// Finds the fields of events in their texts; the events are passed in ascending order.
pub(super) struct CellFinder<'e> {
    events: &'e EventBatch,
    /// Number, among the events with fields, of the first that may be the next event.
    next: usize,
    names: Vec<Arc<str>>,
    /// By code of a name: its number; [`NO_NAME`] if it has none yet.
    numbers: Vec<u16>,
    /// By name: number of bytes between the previous cell and the cell of this name, where it was found last.
    gaps: Vec<usize>,
    /// Codes of the fields of the last event.
    last_codes: &'e [u32],
    /// Numbers of the names of these fields; empty if a name occurs twice or has no number.
    last_names: Vec<u16>,
    /// By name: the list of names, counted by `lists`, that had the name last.
    in_lists: Vec<u64>,
    lists: u64,
}

impl<'e> CellFinder<'e> {
    pub(super) fn new(events: &'e EventBatch) -> CellFinder<'e> {
        CellFinder {
            events,
            next: 0,
            names: Vec::new(),
            numbers: vec![NO_NAME; events.fields.names().len()],
            gaps: Vec::new(),
            last_codes: &[],
            last_names: Vec::new(),
            in_lists: Vec::new(),
            lists: 0,
        }
    }

    /// Finds the cells of `count` events from `row` on.
    pub(super) fn find_chunk(&mut self, row: usize, count: usize, chunk: &mut ChunkCells) {
        chunk.pieces.clear();
        chunk.ends.clear();
        for row in row..row + count {
            self.find_cells(row, &mut chunk.pieces);
            chunk.ends.push(u32_of(chunk.pieces.len()));
        }
        if chunk.names.len() < self.names.len() {
            chunk.names.clone_from(&self.names);
        }
    }

    /// Appends the variables of an event's text: the cells, and the words between them. Nothing is appended if the text
    /// contains none of the fields, if the event has several values of a field, or if there are too many names.
    fn find_cells(&mut self, row: usize, pieces: &mut Vec<OutlineVariable>) {
        let Some(fields) = self.fields_of(row) else { return };
        if !std::ptr::eq(fields.codes, self.last_codes) {
            self.learn_names(fields.codes);
        }
        let (text, first) = (self.events.raw(row), pieces.len());
        let mut end = 0;
        for (name, value) in self.last_names.iter().zip(fields.values()) {
            let gap = &mut self.gaps[usize::from(*name)];
            let Some(start) = find_cell(gap, text, end, value.as_bytes()) else { continue };
            push_gap(text, end, start, *name, pieces);
            end = start + value.len();
            pieces.push(OutlineVariable { start, end, role: Role::Cell { name: *name } });
        }
        if pieces.len() > first {
            push_gap(text, end, text.len(), NO_NAME, pieces);
        }
    }

    fn fields_of(&mut self, row: usize) -> Option<EventFields<'e>> {
        let fields = &self.events.fields;
        if fields.event(self.next).is_some_and(|next| (next.row as usize) < row) {
            self.next = fields.events_before(row);
        }
        let next = fields.event(self.next).filter(|next| next.row as usize == row)?;
        self.next += 1;
        Some(next)
    }

    /// Finds the numbers of the names with these codes.
    fn learn_names(&mut self, codes: &'e [u32]) {
        self.last_codes = codes;
        self.last_names.clear();
        self.lists += 1;
        for code in codes {
            let number = self.number_of(*code);
            let is_sole = match self.in_lists.get_mut(usize::from(number)) {
                Some(last) => std::mem::replace(last, self.lists) != self.lists,
                None => false,
            };
            if !is_sole {
                self.last_names.clear();
                return;
            }
            self.last_names.push(number);
        }
    }

    /// Number of the name with this code; [`NO_NAME`] if there are too many names.
    fn number_of(&mut self, code: u32) -> u16 {
        let number = &mut self.numbers[code as usize];
        if *number == NO_NAME && self.names.len() < MAX_FIELD_COLUMNS {
            *number = u16::try_from(self.names.len()).unwrap_or(NO_NAME);
            self.names.push(Arc::clone(&self.events.fields.names()[code as usize]));
            self.gaps.push(0);
            self.in_lists.push(0);
        }
        *number
    }
}

/// Start of a field's cell in the text after `end`, preferably after the same `gap` as when the name was found last.
#[inline]
fn find_cell(gap: &mut usize, text: &[u8], end: usize, value: &[u8]) -> Option<usize> {
    let last = text.len().checked_sub(value.len()).filter(|_| !value.is_empty())?;
    let guess = end + *gap;
    if guess <= last && is_cell(text, guess, value) {
        return Some(guess);
    }
    let start = search_cell(text, end..=last.min(end + GAP_BYTES_MAX), value)?;
    *gap = start - end;
    Some(start)
}

/// The first of these positions where the text has a cell with this value.
#[inline(never)]
fn search_cell(text: &[u8], mut starts: RangeInclusive<usize>, value: &[u8]) -> Option<usize> {
    starts.find(|start| is_cell(text, *start, value))
}

/// Whether the text has this value at `start`, between breakers. A `%` before the value may be the start of a
/// percent-encoded breaker that ends in the value.
#[inline(always)]
fn is_cell(text: &[u8], start: usize, value: &[u8]) -> bool {
    let before = start.checked_sub(1).map(|at| text[at]);
    // The first bytes differ at most places; `texts_equal` is inlined, but compares long texts to their ends.
    text.get(start) == value.first()
        && text.get(start..start + value.len()).is_some_and(|there| texts_equal(there, value))
        && before.is_none_or(|byte| is_breaker(byte) && byte != b'%')
        && text.get(start + value.len()).is_none_or(|byte| is_breaker(*byte))
}

/// Appends the words between two cells, if any, as a variable.
fn push_gap(text: &[u8], start: usize, end: usize, name: u16, pieces: &mut Vec<OutlineVariable>) {
    let gap = &text[start..end];
    let is_word = |byte: &u8| !is_breaker(*byte);
    if let Some(first) = gap.iter().position(is_word)
        && let Some(last) = gap.iter().rposition(is_word)
    {
        pieces.push(OutlineVariable { start: start + first, end: start + last + 1, role: Role::Gap { name } });
    }
}

/// Whether the texts of some events consist mainly of the values of their fields, and few templates describe them.
/// `is_of` selects these `count` events by their metadata codes; only a sample of them is examined.
pub(super) fn are_cells(events: &EventBatch, count: usize, is_of: impl Fn(u32) -> bool) -> bool {
    if events.fields.is_empty() {
        return false;
    }
    let mut finder = CellFinder::new(events);
    let mut templates = OutlineTemplates::default();
    let (mut texts, mut bytes, mut cells, mut gaps, mut known) = (0, 0, 0, 0, 0);
    let rows = events.meta.iter().enumerate().filter(|(_, meta)| is_of(**meta)).map(|(row, _)| row);
    let mut pieces = Vec::new();
    for row in rows.step_by(count.div_ceil(SAMPLE_TEXTS).max(1)) {
        pieces.clear();
        finder.find_cells(row, &mut pieces);
        let text = events.raw(row);
        texts += 1;
        bytes += text.len();
        for piece in &pieces {
            let sum = if matches!(piece.role, Role::Cell { .. }) { &mut cells } else { &mut gaps };
            *sum += piece.end - piece.start;
        }
        if templates.find(text, &pieces).is_none() {
            templates.insert(text, &pieces, known, Box::default());
            known += 1;
        }
        if known as usize * TEXTS_PER_TEMPLATE_MIN > SAMPLE_TEXTS {
            return false;
        }
    }
    cells * 100 >= bytes * CELL_BYTES_PERCENT_MIN
        && gaps * 100 <= bytes * GAP_BYTES_PERCENT_MAX
        && known as usize * TEXTS_PER_TEMPLATE_MIN <= texts.max(TEXTS_PER_TEMPLATE_MIN)
}

#[cfg(test)]
mod tests {
    use quarry_event::Metadata;

    use super::*;

    /// An event of each text with these fields.
    fn events(of: &[(&str, &[(&str, &str)])]) -> EventBatch {
        let mut batch = EventBatch::default();
        let text = || Arc::from("x");
        batch.metas.push(Metadata { index: text(), host: text(), source: text(), sourcetype: text() });
        for (row, (text, fields)) in (0..).zip(of) {
            batch.push(text.as_bytes(), 0, 0);
            batch.fields.extend(fields.iter().map(|(name, value)| (row, name, value)));
        }
        batch
    }

    /// The text with `<name value>` for each cell and `{value}` for words between cells.
    fn marked(batch: &EventBatch) -> Vec<String> {
        let mut chunk = ChunkCells::default();
        CellFinder::new(batch).find_chunk(0, batch.len(), &mut chunk);
        let of_text = |row: usize| {
            let (text, mut at, mut out) = (std::str::from_utf8(batch.raw(row)).unwrap(), 0, String::new());
            for piece in chunk.of(row) {
                let value = &text[piece.start..piece.end];
                out += &text[at..piece.start];
                out += &match piece.role {
                    Role::Cell { name } => format!("<{} {value}>", chunk.names[usize::from(name)]),
                    _ => format!("{{{value}}}"),
                };
                at = piece.end;
            }
            out + &text[at..]
        };
        (0..batch.len()).map(of_text).collect()
    }

    #[test]
    fn fields_are_found_in_order_between_breakers() {
        let found = marked(&events(&[
            ("1 GET 10", &[("n", "1"), ("m", "GET"), ("t", "10")]),
            ("1 - 10 x", &[("n", "1"), ("t", "10")]),
            ("10 1", &[("n", "1")]),
            ("\"1\",\"a \"\"b\"\"\",7", &[("n", "1"), ("m", "a \"b\""), ("t", "7")]),
            ("1 2", &[("n", "1"), ("n", "2")]),
            ("absent", &[("n", "1")]),
            ("no fields", &[]),
            ("%20a 20a", &[("n", "20a")]),
            ("5%;6", &[("n", "5%"), ("m", "6")]),
            ("\u{e9}\t1", &[("n", "\u{e9}"), ("m", ""), ("t", "1")]),
        ]));
        let expected = [
            "<n 1> <m GET> <t 10>",
            "<n 1> - <t 10> {x}",
            "{10} <n 1>",
            "\"<n 1>\",\"{a \"\"b}\"\"\",<t 7>",
            "1 2",
            "absent",
            "no fields",
            "%{20a} <n 20a>",
            "<n 5%>;<m 6>",
            "<n \u{e9}>\t<t 1>",
        ];
        assert_eq!(found, expected);
    }

    type TextOf = fn(usize) -> String;
    type FieldsOf = fn(usize) -> Vec<(&'static str, String)>;

    /// Whether 2,000 events with these texts and fields are split into cells.
    fn are_split(text: TextOf, fields: FieldsOf) -> bool {
        let mut batch = events(&[]);
        for row in 0..2_000 {
            batch.push(text(row).as_bytes(), 0, 0);
            batch.fields.extend(fields(row).into_iter().map(|(name, value)| (u32_of(row), name, value)));
        }
        are_cells(&batch, batch.len(), |_| true)
    }

    #[test]
    fn texts_are_cells_if_their_fields_are_most_of_them() {
        let fields = |row: usize| vec![("id", row.to_string()), ("user", format!("u{}", row % 9))];
        assert!(are_split(|row| format!("{row},u{}", row % 9), fields));
        assert!(!are_split(|row| format!("the request number {row} of the user u{} took long", row % 9), fields));
        assert!(!are_split(|row| format!("{{\"id\":\"{row}\",\"user\":\"u{}\"}}", row % 9), fields));
        assert!(!are_split(|row| format!("{row} other"), |_| vec![("zone", "north".to_owned())]));
        assert!(!are_split(|row| format!("{row}"), |_| Vec::new()));
    }
}
