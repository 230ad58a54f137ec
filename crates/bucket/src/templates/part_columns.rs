//! Columns of search-time fields whose values are parts of the texts: a code for each event identifies the parts.
//!
//! Nearly unique values, such as ids, would take as much space again as in the texts. Most of these values begin and
//! end at an edge of a literal or variable, or within a literal, so few codes are enough. Other values are stored in a
//! column of their own. Values that repeat are stored like this if nearly all of them are a single whole part: then the
//! codes differ only in the few events that a pattern does not match, and fields of the same pattern share the column of
//! codes.
//!
//! Not here: when fields are stored like this (`crate::columns`).

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use memchr::memmem;
use quarry_event::template::{
    ByteSet, ExtractedField, MAX_PART_CODES, StoredExtraction, StoredValues, TEXT_COLUMN, Template, TemplatePart,
    TextParts, ValueParts, ValueTraits,
};
use quarry_stdx::number::u32_of;

use super::extraction_columns::value_column;
use super::index_time::path_of;
use super::text_parts::{PartReader, join_values, values_of};
use super::{SlabColumn, SlabValues, TemplateSlab};
use crate::limits::{MAX_PAGE_EVENTS, MAX_VALUE_PARTS};

/// Code of events without the field, while values are located.
const ABSENT: u32 = 0;
/// Code of values that are not parts of the text.
const OWN: u32 = 1;
/// The first code of a sequence of parts.
const FIRST: u32 = 2;
/// Maximum number of different sequences of parts of a field; values with further sequences do not count as parts of
/// the text.
const SEQUENCES_MAX: usize = 512;
/// Number of sequences that are tried for each template, most recently used first.
const TRIED_MAX: usize = 8;
/// Maximum number of occurrences of a value in a text that are tried.
const OCCURRENCES_MAX: usize = 16;
/// Fields are stored like this only within these limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartLimits {
    /// At most one in this many values is not a part of the text. If events have several values, each of them must be a
    /// part of the text.
    own_values_divisor: usize,
    /// Maximum number of different sequences of parts.
    sequences: usize,
    /// Whether a value may consist of several parts.
    may_be_composed: bool,
}

impl PartLimits {
    /// Limits for nearly unique values, which would take as much space again as in the texts.
    pub(crate) const UNIQUE: PartLimits =
        PartLimits { own_values_divisor: 4, sequences: SEQUENCES_MAX, may_be_composed: true };
    /// Limits for any values: the field is read about as fast as from a column of its own.
    pub(crate) const ANY: PartLimits = PartLimits { own_values_divisor: 64, sequences: 16, may_be_composed: false };
}

/// The traits of the column of codes allow every byte, because the values of the field are composed of bytes that the
/// column does not hold.
const EVERY_BYTE: ByteSet = ByteSet::from_words([u64::MAX; 4]);
/// Maximum length of a code's number, which is the literal of the code's template.
const NUMBER_BYTES_MAX: u32 = 8;

/// A field whose values are located, event by event.
struct Locator<'f> {
    field: &'f ExtractedField,
    limits: PartLimits,
    /// Number of values located.
    next: usize,
    /// Number of values found that are not parts of the text, and their maximum.
    own: usize,
    own_max: usize,
    /// Code of each event.
    codes: Vec<u32>,
    sequences: Vec<Vec<TemplatePart>>,
    known: HashMap<Vec<TemplatePart>, u32, FixedState>,
    /// Codes found for each template, most recently used first.
    recent: HashMap<u32, Vec<u32>, FixedState>,
}

impl<'f> Locator<'f> {
    fn new(field: &'f ExtractedField, limits: PartLimits) -> Locator<'f> {
        let own_max = if field.is_list { 0 } else { field.rows.len() / limits.own_values_divisor };
        Locator {
            field,
            limits,
            own: 0,
            own_max,
            next: 0,
            codes: Vec::new(),
            sequences: Vec::new(),
            known: HashMap::default(),
            recent: HashMap::default(),
        }
    }

    /// Locates the value of the last event that was read.
    fn add_event(&mut self, reader: &PartReader<'_>) {
        let field = self.field;
        let code = match field.rows.get(self.next) {
            Some(row) if *row as usize == self.codes.len() => {
                let start = if self.next == 0 { 0 } else { field.ends[self.next - 1] as usize };
                let value = &field.bytes[start..field.ends[self.next] as usize];
                self.next += 1;
                self.code_of(value, reader)
            }
            _ => ABSENT,
        };
        self.own += usize::from(code == OWN);
        self.codes.push(code);
    }

    /// Whether the field may still be stored as parts of the texts.
    fn is_open(&self) -> bool {
        self.own <= self.own_max
    }

    fn code_of(&mut self, value: &[u8], reader: &PartReader<'_>) -> u32 {
        let recent = self.recent.entry(reader.template()).or_default();
        let is_found = |code: &u32| reader.is_composed_of(&self.sequences[(*code - FIRST) as usize], value);
        if let Some(at) = recent.iter().position(is_found) {
            recent[..=at].rotate_right(1);
            return recent[0];
        }
        let values: Option<Vec<_>> = values_of(self.field, value).map(|value| parts_of(value, reader)).collect();
        let joined = values.and_then(|values| join_values(values.iter().map(Vec::as_slice)));
        let parts_max = if self.limits.may_be_composed { MAX_VALUE_PARTS } else { 1 };
        let Some(parts) = joined.filter(|parts| parts.len() <= parts_max) else { return OWN };
        let code = match self.known.get(&parts) {
            Some(code) => *code,
            None if self.sequences.len() == self.limits.sequences => return OWN,
            None => {
                let code = FIRST + u32_of(self.sequences.len());
                self.sequences.push(parts.clone());
                self.known.insert(parts, code);
                code
            }
        };
        recent.truncate(TRIED_MAX - 1);
        recent.insert(0, code);
        code
    }

    /// The values that are not parts of the text.
    fn own_values(&self) -> ExtractedField {
        let (name, rules) = (Arc::clone(&self.field.name), self.field.rules);
        let (is_list, is_slow) = (false, self.field.is_slow);
        let mut own =
            ExtractedField { name, rules, rows: Vec::new(), ends: Vec::new(), bytes: Vec::new(), is_list, is_slow };
        let mut start = 0;
        for (row, end) in self.field.rows.iter().zip(&self.field.ends) {
            if self.codes[*row as usize] == OWN {
                own.rows.push(*row);
                own.bytes.extend_from_slice(&self.field.bytes[start as usize..*end as usize]);
                own.ends.push(u32_of(own.bytes.len()));
            }
            start = *end;
        }
        own
    }
}

/// The parts of the text that have this value, preferably with variables, because other events then have the same
/// parts.
fn parts_of(value: &[u8], reader: &PartReader<'_>) -> Option<Vec<TemplatePart>> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let occurrences = memmem::find_iter(reader.text(), value).take(OCCURRENCES_MAX);
    let mut located = occurrences.filter_map(|start| reader.locate(start..start + value.len()));
    let first = located.next()?;
    let is_variable = |parts: &Vec<TemplatePart>| parts.iter().any(|part| matches!(part, TemplatePart::Variable(_)));
    let found = if is_variable(&first) { first } else { located.find(is_variable).unwrap_or(first) };
    (found.len() <= MAX_VALUE_PARTS).then_some(found)
}

impl TemplateSlab {
    /// Adds to a slab of this many events those of the fields whose values are mostly parts of the texts.
    pub(crate) fn add_parts(&mut self, fields: &[&ExtractedField], limits: PartLimits, events: usize) {
        let mut located: Vec<Locator<'_>> = fields.iter().map(|field| Locator::new(field, limits)).collect();
        let mut reader = PartReader::new(self);
        for _ in 0..events {
            if located.is_empty() {
                return;
            }
            reader.read_next();
            located.iter_mut().for_each(|field| field.add_event(&reader));
            located.retain(Locator::is_open);
        }
        located.iter().for_each(|field| self.add_located(field, events));
    }

    fn add_located(&mut self, located: &Locator<'_>, events: usize) {
        let own = located.own_values();
        // Only codes that occur are numbered.
        let mut number_of = vec![u32::MAX; located.sequences.len() + FIRST as usize];
        located.codes.iter().for_each(|code| number_of[*code as usize] = 0);
        let (codes_column, own_column) = (u32_of(self.columns.len()), u32_of(self.columns.len() + 1));
        let (mut templates, mut parts) = (Vec::new(), Vec::new());
        for (code, number) in (0u32..).zip(&mut number_of).filter(|(_, number)| **number == 0) {
            *number = u32_of(templates.len());
            let (template, value) = match code {
                ABSENT => (Vec::new(), None),
                OWN => {
                    let own = vec![TemplatePart::Variable(own_column)];
                    (own.clone(), Some(own))
                }
                code => {
                    let literal = number.to_string().into_bytes().into();
                    (vec![TemplatePart::Literal(literal)], Some(located.sequences[(code - FIRST) as usize].clone()))
                }
            };
            templates.push(Template { parts: template });
            parts.push(value.map(ValueParts::from));
        }
        if self.part_codes() + parts.len() > MAX_PART_CODES {
            return;
        }
        let codes = located.codes.iter().map(|code| number_of[*code as usize]).collect();
        let mut own = (!own.rows.is_empty()).then(|| value_column(&own, events));
        let starts = (0..events).step_by(MAX_PAGE_EVENTS).chain([events]);
        self.columns.push(SlabColumn {
            parent: None,
            path: !path_of(&located.field.name),
            page_starts: starts.map(u32_of).collect(),
            values: Arc::new(SlabValues::Templates { templates, codes }),
            traits: ValueTraits {
                bytes: EVERY_BYTE,
                firsts: EVERY_BYTE,
                lasts: EVERY_BYTE,
                max_len: own.as_ref().map_or(0, |own| own.traits.max_len).max(NUMBER_BYTES_MAX),
                ..ValueTraits::default()
            },
        });
        if let Some(mut own) = own.take() {
            own.parent = Some(codes_column);
            self.columns.push(own);
        }
        let own = (self.columns.len() > own_column as usize).then_some(own_column);
        let is_list = located.field.is_list;
        let values = StoredValues::Parts(TextParts { codes: codes_column, own, parts: parts.into(), is_list });
        let (name, rules) = (Arc::clone(&located.field.name), located.field.rules);
        self.extractions.push(StoredExtraction { name, rules, values });
    }

    /// Number of codes of all fields whose values are parts of the texts.
    fn part_codes(&self) -> usize {
        let codes = |stored: &StoredExtraction| match &stored.values {
            StoredValues::Parts(parts) if parts.codes != TEXT_COLUMN => parts.parts.len(),
            _ => 0,
        };
        self.extractions.iter().map(codes).sum()
    }
}
