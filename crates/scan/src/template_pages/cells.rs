//! Positions of a transform's cells (`DELIMS` with `FIELDS`, or `DELIMS` for pairs of key and value) in the texts of a
//! template.
//!
//! The splitter for texts ([`crate::fields::cells`]) runs over the literals of the template. All values of a variable
//! must have the same effect on the splitter: the same state afterwards and the same number of completed cells. Values
//! without delimiters, quotes and backslashes have no effect; otherwise every entry of a dictionary and every template
//! of the variable is tried. If the effects differ, the current cell and all later cells are extracted from text; the
//! locations of earlier cells are certain. If only some values of a cell are empty, quoted or surrounded by blanks, the
//! location is the whole cell, from which the value is computed ([`ValueLocation::Written`]).
//!
//! The keys of pairs are usually literals. A pair whose key depends on values affects only the fields that the key may
//! name.
//!
//! Not here: precedence of rules ([`super::slab`]).

use std::cell::RefCell;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::template::{ByteSet, ColumnKind, Dictionary, Template, TemplatePart, TemplateSet};

use super::fields::Sample;
use super::value_location::{Decoding, ValueLocation, WrittenParts};
use crate::fields::cells::{
    CellState, DOUBLED_QUOTE, Delimiters, append_undoubled, cell_value, strip_quotes, trim_blanks,
};
use crate::fields::reports::Report;

/// Maximum number of dictionary entries tried one by one; with more entries, the cells are extracted from text.
const CHECKED_VALUES_MAX: u32 = 65_536;

/// Effect on the splitter that all values of a column share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SplitterEffect {
    state: CellState,
    /// Number of cells completed within the value.
    ended: usize,
}

/// Locates the cells of a transform in templates.
pub(super) struct CellPlanner<'a> {
    template_set: &'a TemplateSet,
    dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    report: &'a Report,
    naming: CellNaming<'a>,
    delimiters: &'a Delimiters,
    keeps_empty: bool,
    /// Bytes that affect the splitter.
    special: ByteSet,
    /// Effects that were computed before, by column and state of the splitter.
    effects: RefCell<HashMap<(u32, CellState), Option<SplitterEffect>, FixedState>>,
}

/// The names of cells.
pub(super) enum CellNaming<'a> {
    /// The names of the first cells.
    Positions(&'a [String]),
    /// Each cell has its name before one of these delimiters, and its value after it.
    Keys(&'a Delimiters),
}

/// The pair of name and value in a cell.
enum CellPair<'p> {
    None,
    /// A name, and the parts of its value.
    Named(String, Vec<TemplatePart>),
    /// A name whose value depends on what the variables contain.
    UnknownValue(String),
    /// A name that depends on values, and ends with this text.
    UnknownName(&'p str),
}

/// A template split into cells.
struct SplitTemplate {
    /// The parts of each cell; `None` if its start or end lies inside a variable.
    cells: Vec<Option<Vec<TemplatePart>>>,
    /// Whether the splitter reached the end of the template.
    is_whole: bool,
}

impl<'a> CellPlanner<'a> {
    /// A planner for cells with these names and delimiters.
    pub(super) fn new(
        report: &'a Report,
        naming: CellNaming<'a>,
        delimiters: &'a Delimiters,
        template_set: &'a TemplateSet,
        dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    ) -> CellPlanner<'a> {
        let (keeps_empty, special) = (report.keeps_empty(), delimiters.special_bytes());
        let effects = RefCell::default();
        CellPlanner { template_set, dictionary, report, naming, delimiters, keeps_empty, special, effects }
    }

    /// The locations of the fields `names` in the texts of a template.
    pub(super) fn locations(&self, template: &Template, names: &[String]) -> Vec<ValueLocation> {
        let split = self.split(template);
        match self.naming {
            CellNaming::Positions(own) => names.iter().map(|name| self.location_of_name(&split, own, name)).collect(),
            CellNaming::Keys(inner) => self.locations_of_pairs(&split, inner, names),
        }
    }

    /// The locations of the first non-empty pairs with these names.
    fn locations_of_pairs(&self, split: &SplitTemplate, inner: &Delimiters, names: &[String]) -> Vec<ValueLocation> {
        let mut found = vec![ValueLocation::Absent; names.len()];
        let is_open = |place: &ValueLocation| *place == ValueLocation::Absent || place.may_be_empty();
        let rest = (!split.is_whole).then_some(&None);
        for cell in split.cells.iter().chain(rest) {
            // A cell that begins or ends inside a variable may contain any pair, and so may the part of the template
            // that was not split.
            let pair = cell.as_ref().map_or(CellPair::UnknownName(""), |parts| self.pair_of(parts, inner));
            for (place, name) in found.iter_mut().zip(names).filter(|(place, _)| is_open(place)) {
                match &pair {
                    CellPair::Named(own, value) if own == name => {
                        *place = match place {
                            ValueLocation::Absent => self.location_of_cell(value),
                            // If the earlier pair is empty, this one counts.
                            _ => ValueLocation::Text,
                        };
                    }
                    CellPair::UnknownValue(own) if own == name => *place = ValueLocation::Text,
                    CellPair::UnknownName(tail) if self.report.may_end_name(tail, name) => *place = ValueLocation::Text,
                    _ => {}
                }
            }
        }
        found
    }

    /// Reads a cell as a pair of name and value.
    fn pair_of<'p>(&self, cell: &'p [TemplatePart], inner: &Delimiters) -> CellPair<'p> {
        let delimiters = inner.delimiter_bytes();
        let traits = |column: &u32| &self.template_set.columns[*column as usize].traits;
        let delimiter_in = |literal: &'p [u8]| {
            let text = std::str::from_utf8(literal).ok()?;
            text.find(|letter| inner.contains(letter)).map(|at| text.split_at(at))
        };
        for (at, part) in cell.iter().enumerate() {
            let (key, rest) = match part {
                TemplatePart::Variable(column) if traits(column).bytes.intersects(delimiters) => {
                    return CellPair::UnknownName("");
                }
                TemplatePart::Variable(_) => continue,
                TemplatePart::Literal(literal) => match delimiter_in(literal) {
                    Some(found) => found,
                    None => continue,
                },
            };
            if at > 0 {
                return CellPair::UnknownName(key);
            }
            let name = self.report.cleaned(&cell_value(key));
            let rest = rest.trim_start_matches(|letter| inner.contains(letter));
            if name.is_empty() {
                return CellPair::None;
            }
            // Further delimiters at the start of the value are removed.
            let is_cut = rest.is_empty()
                && match cell.get(at + 1) {
                    None | Some(TemplatePart::Literal(_)) => false,
                    Some(TemplatePart::Variable(column)) => {
                        let is_last = cell.len() == at + 2;
                        traits(column).firsts.intersects(delimiters) || (traits(column).min_len == 0 && !is_last)
                    }
                };
            if is_cut {
                return CellPair::UnknownValue(name);
            }
            let first = (!rest.is_empty()).then(|| TemplatePart::Literal(rest.as_bytes().into()));
            return CellPair::Named(name, first.into_iter().chain(cell[at + 1..].iter().cloned()).collect());
        }
        CellPair::None
    }

    /// The location of the first non-empty cell with this name; `own` are the names of the cells.
    fn location_of_name(&self, split: &SplitTemplate, own: &[String], name: &str) -> ValueLocation {
        let mut named = (0..own.len()).filter(|at| own[*at] == name);
        while let Some(at) = named.next() {
            let place = match split.cells.get(at) {
                None if split.is_whole => return ValueLocation::Absent,
                None | Some(None) => return ValueLocation::Text,
                Some(Some(parts)) => self.location_of_cell(parts),
            };
            match place {
                ValueLocation::Absent => {}
                // If this cell is empty, the next cell of the same name counts.
                place if place.may_be_empty() && named.next().is_some() => return ValueLocation::Text,
                place => return place,
            }
        }
        ValueLocation::Absent
    }

    /// The location of a cell's value: a part of the template if [`strip_quotes`] removes the same characters from all
    /// values, and otherwise the whole cell.
    fn location_of_cell(&self, parts: &[TemplatePart]) -> ValueLocation {
        let template = Template { parts: parts.to_vec() };
        let Some(sample) = Sample::new(self.template_set, &template) else { return ValueLocation::Text };
        let whole = || {
            ValueLocation::Written(WrittenParts {
                parts: parts.into(),
                decoding: Decoding::Cell { keeps_empty: self.keeps_empty },
            })
        };
        let (value, is_quoted) = strip_quotes(&sample.text);
        let is_doubled = is_quoted && (value.contains('"') || self.may_have_quotes(parts));
        let value = sample.range_of_value(value);
        if !sample.has_fixed_ends(sample.range_of_value(trim_blanks(&sample.text))) {
            return whole();
        }
        let is_substitution = |part: &TemplatePart| match part {
            TemplatePart::Literal(_) => true,
            TemplatePart::Variable(column) => self.template_set.columns[*column as usize].traits.min_len > 0,
        };
        let place = sample.location(value.clone());
        let (filled, is_empty) = match &place {
            ValueLocation::Variable(column) => (is_substitution(&TemplatePart::Variable(*column)), false),
            ValueLocation::Composite(parts) => (parts.iter().any(is_substitution), false),
            _ => (!value.is_empty(), value.is_empty()),
        };
        match (filled || self.keeps_empty, is_empty) {
            (true, _) if is_doubled => self.unescape_doubled(place).unwrap_or_else(whole),
            (true, _) => place,
            (false, true) => ValueLocation::Absent,
            // An empty value produces no field, and only some of the values are empty.
            (false, false) => whole(),
        }
    }

    /// The location of a quoted cell's value, given the location of the text between its quotes; each doubled quote
    /// represents one quote. `None` if variables may contain quotes, or if an empty variable may join two quotes.
    fn unescape_doubled(&self, place: ValueLocation) -> Option<ValueLocation> {
        let parts: Box<[TemplatePart]> = match place {
            ValueLocation::Constant(text) => {
                return Some(ValueLocation::Constant(text.replace(DOUBLED_QUOTE, "\"").into()));
            }
            ValueLocation::Variable(column) => [TemplatePart::Variable(column)].into(),
            ValueLocation::Composite(parts) => parts,
            other => return Some(other),
        };
        // An empty value would join the quotes before and after it.
        let may_be_empty = |part: &TemplatePart| match part {
            TemplatePart::Literal(_) => false,
            TemplatePart::Variable(column) => self.template_set.columns[*column as usize].traits.min_len == 0,
        };
        if self.may_have_quotes(&parts) || parts.iter().any(may_be_empty) {
            return None;
        }
        let undoubled = parts.iter().map(|part| match part {
            TemplatePart::Literal(literal) => {
                let mut text = Vec::with_capacity(literal.len());
                append_undoubled(literal, &mut text);
                TemplatePart::Literal(text.into())
            }
            variable => variable.clone(),
        });
        Some(ValueLocation::Composite(undoubled.collect()))
    }

    /// Whether values of the cell's variables may contain quotes.
    fn may_have_quotes(&self, parts: &[TemplatePart]) -> bool {
        let quote = ByteSet::of(b"\"");
        parts.iter().any(|part| match part {
            TemplatePart::Literal(_) => false,
            TemplatePart::Variable(column) => self
                .template_set
                .columns
                .get(*column as usize)
                .is_none_or(|column| column.traits.bytes.intersects(quote)),
        })
    }

    fn split(&self, template: &Template) -> SplitTemplate {
        let (mut cells, mut cell, mut state) = (Vec::new(), Some(Vec::new()), CellState::default());
        for part in &template.parts {
            match part {
                TemplatePart::Literal(literal) => {
                    let Ok(text) = std::str::from_utf8(literal) else {
                        return SplitTemplate { cells, is_whole: false };
                    };
                    let mut start = 0;
                    for (at, letter) in text.char_indices() {
                        if state.step(letter, self.delimiters) {
                            push_literal(&mut cell, &text[start..at]);
                            cells.push(cell.replace(Vec::new()));
                            start = at + letter.len_utf8();
                        }
                    }
                    push_literal(&mut cell, &text[start..]);
                }
                TemplatePart::Variable(column) => {
                    let Some(passed) = self.column_effect(*column, state) else {
                        return SplitTemplate { cells, is_whole: false };
                    };
                    state = passed.state;
                    match (passed.ended, &mut cell) {
                        (0, Some(parts)) => parts.push(part.clone()),
                        (0, None) => {}
                        (ended, _) => {
                            cells.extend(std::iter::repeat_n(None, ended));
                            cell = None;
                        }
                    }
                }
            }
        }
        cells.push(cell);
        SplitTemplate { cells, is_whole: true }
    }

    /// The effect of a column's values on a splitter in this state; `None` if it differs between values.
    fn column_effect(&self, column: u32, state: CellState) -> Option<SplitterEffect> {
        if let Some(known) = self.effects.borrow().get(&(column, state)) {
            return *known;
        }
        let found = self.compute_column_effect(column, state);
        self.effects.borrow_mut().insert((column, state), found);
        found
    }

    fn compute_column_effect(&self, column: u32, state: CellState) -> Option<SplitterEffect> {
        let described = self.template_set.columns.get(column as usize)?;
        let is_quiet = !described.traits.bytes.intersects(self.special);
        if is_quiet && (!state.escaped || described.traits.min_len > 0) {
            return Some(SplitterEffect { state: CellState { escaped: false, ..state }, ended: 0 });
        }
        match &described.kind {
            ColumnKind::Dictionary { len } if *len <= CHECKED_VALUES_MAX => {
                let values = (self.dictionary)(column)?;
                let all = (0..*len).filter(|code| (*code as usize) < values.len());
                common_effect(all.map(|code| self.text_effect(values.get(code), state)))
            }
            ColumnKind::Templates(templates) => common_effect(templates.iter().map(|template| {
                let mut all = SplitterEffect { state, ended: 0 };
                for part in &template.parts {
                    let passed = match part {
                        TemplatePart::Literal(literal) => self.text_effect(literal, all.state)?,
                        TemplatePart::Variable(column) => self.column_effect(*column, all.state)?,
                    };
                    all = SplitterEffect { state: passed.state, ended: all.ended + passed.ended };
                }
                Some(all)
            })),
            _ => None,
        }
    }

    fn text_effect(&self, text: &[u8], mut state: CellState) -> Option<SplitterEffect> {
        let letters = std::str::from_utf8(text).ok()?.chars();
        let ended = letters.filter(|letter| state.step(*letter, self.delimiters)).count();
        Some(SplitterEffect { state, ended })
    }
}

fn push_literal(cell: &mut Option<Vec<TemplatePart>>, text: &str) {
    if let Some(parts) = cell.as_mut().filter(|_| !text.is_empty()) {
        parts.push(TemplatePart::Literal(text.as_bytes().into()));
    }
}

/// The common effect; `None` if effects differ or the iterator is empty.
fn common_effect(mut all: impl Iterator<Item = Option<SplitterEffect>>) -> Option<SplitterEffect> {
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests;
