//! Dictionary-coded columns of fields that are composed of literals and one variable, at locations that may differ
//! between templates.
//!
//! The values of such a field repeat as often as the values of its variable. Each distinct code or number is composed
//! once per page, and the commands that follow compute their results once per distinct value, as for a field that is
//! stored as one dictionary. A column of plain texts may contain short values that repeat, in addition to the free
//! texts of other templates; equal values of such a column get the same code as well.
//!
//! Not here: fields that one column contains in all rows, and fields without repeated values ([`super::columns`]);
//! fields of few values in the whole slab ([`super::coded_columns`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray};
use arrow::datatypes::UInt32Type;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues, TemplatePart, TemplateSet};

use super::cursors::Cursors;
use super::divided_keys::RowKeys;
use super::field_locations::FieldLocations;
use super::interner::{ABSENT, Interner};
use super::page::{PageReader, Rows};
use super::rex::invalid_utf8;
use super::text_arrays::dictionary_keys;
use super::value_location::{ValueLocation, WrittenParts};

/// At least one in this many rows of the page must be requested, because whole columns are read.
const ROWS_DIVISOR: usize = 4;
/// Number of values after which the distinct values are counted, again and again.
const PROBED_VALUES: usize = 256;
/// Minimum number of values per distinct value; with fewer, the values are composed row by row.
const REPEATS_MIN: usize = 2;
/// Maximum bytes of a value in a column of plain texts. Longer values are free text, which hardly repeats.
const PLAIN_TEXT_BYTES_MAX: usize = 64;

/// The location of a field in the texts of a template, for values that are composed from dictionary codes.
enum CodedLocation {
    Absent,
    Constant(Vec<u8>),
    /// The value of a column between two literals.
    Variable {
        column: u32,
        before: Vec<u8>,
        after: Vec<u8>,
        /// The computation of the value if it is not the composed text itself.
        written: Option<WrittenParts>,
    },
}

impl CodedLocation {
    /// `None` unless the value is constant or contains a single variable without templates of its own.
    fn of(place: &ValueLocation, template_set: &TemplateSet) -> Option<CodedLocation> {
        let (parts, written) = match place {
            ValueLocation::Absent => return Some(CodedLocation::Absent),
            ValueLocation::Constant(text) => return Some(CodedLocation::Constant(text.as_bytes().to_vec())),
            ValueLocation::Variable(column) => (&[TemplatePart::Variable(*column)][..], None),
            ValueLocation::Composite(parts) => (&**parts, None),
            ValueLocation::Written(written) => (&*written.parts, Some(written.clone())),
            _ => return None,
        };
        let (before, column, after): (&[u8], u32, &[u8]) = match parts {
            [TemplatePart::Variable(column)] => (b"", *column, b""),
            [TemplatePart::Literal(before), TemplatePart::Variable(column)] => (before, *column, b""),
            [TemplatePart::Variable(column), TemplatePart::Literal(after)] => (b"", *column, after),
            [TemplatePart::Literal(before), TemplatePart::Variable(column), TemplatePart::Literal(after)] => {
                (before, *column, after)
            }
            _ => return None,
        };
        let kind = &template_set.columns.get(column as usize)?.kind;
        let has_templates = matches!(kind, ColumnKind::Templates(_));
        let (before, after) = (before.to_vec(), after.to_vec());
        (!has_templates).then_some(CodedLocation::Variable { column, before, after, written })
    }
}

/// The values of a field in these rows; `None` if they cannot be stored as a dictionary with codes, or do not repeat.
pub(super) fn composed_column(
    field: &FieldLocations,
    rows: &Rows,
    keys: &RowKeys,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    if rows.len() < PROBED_VALUES || rows.len() < page.len() / ROWS_DIVISOR || !keys.is_complete {
        return Ok(None);
    }
    let template_set = page.template_set();
    let mut places: Vec<Option<CodedLocation>> = Vec::new();
    places.resize_with(field.locations.len(), || None);
    for (key, location, _) in keys.used(field) {
        let Some(known) = CodedLocation::of(location, template_set) else { return Ok(None) };
        places[key] = Some(known);
    }
    let mut work = Composer { texts: Interner::default(), known: HashMap::default(), text: Vec::new() };
    let mut cursors = Cursors::new(page);
    let mut codes: Vec<u32> = Vec::with_capacity(rows.len());
    let mut values = 0usize;
    for row in rows.iter() {
        let key = keys.keys[row as usize];
        let code = match places.get(key as usize).and_then(Option::as_ref) {
            None | Some(CodedLocation::Absent) => ABSENT,
            Some(place) => match work.code(key, place, row, &mut cursors, page)? {
                Some(code) => code,
                None => return Ok(None),
            },
        };
        codes.push(code);
        values += usize::from(code != ABSENT);
        if code != ABSENT && values.is_multiple_of(PROBED_VALUES) && work.distinct() * REPEATS_MIN > values {
            return Ok(None);
        }
    }
    assert_eq!(codes.len(), rows.len(), "each row has a code");
    let texts = work.texts.array_of(&mut codes);
    Ok(Some(Arc::new(DictionaryArray::<UInt32Type>::try_new(dictionary_keys(codes), texts)?)))
}

/// Composes each distinct value once.
struct Composer {
    texts: Interner,
    /// Codes of texts, by key (an extraction class and a template) and value of the variable.
    known: HashMap<(u32, i64), u32, FixedState>,
    /// A reusable buffer.
    text: Vec<u8>,
}

impl Composer {
    /// Number of distinct values so far.
    fn distinct(&self) -> usize {
        self.known.len().max(self.texts.count())
    }

    /// The code of a row's text, or [`ABSENT`]; `None` if there are too many texts, or if the text is too long.
    fn code(
        &mut self,
        key: u32,
        place: &CodedLocation,
        row: u32,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<Option<u32>, EngineError> {
        let (column, before, after, written) = match place {
            CodedLocation::Absent => return Ok(Some(ABSENT)),
            CodedLocation::Constant(text) => {
                if let Some(code) = self.known.get(&(key, 0)) {
                    return Ok(Some(*code));
                }
                self.text.clear();
                self.text.extend_from_slice(text);
                return self.add((key, 0), None);
            }
            CodedLocation::Variable { column, before, after, written } => (*column, before, after, written.as_ref()),
        };
        let value = match cursors.value_position(column, row, page)? {
            Some((at, values)) => match &values.values {
                ColumnValues::Codes(codes) => codes.get(at).map(|code| i64::from(*code)),
                ColumnValues::Numbers(numbers) => numbers.get(at).copied(),
                plain @ ColumnValues::Texts { .. } => {
                    let short = plain.text(at).filter(|text| text.len() <= PLAIN_TEXT_BYTES_MAX);
                    let Some(value) = short else { return Ok(None) };
                    self.text.clear();
                    for piece in [before.as_slice(), value, after.as_slice()] {
                        self.text.extend_from_slice(piece);
                    }
                    return self.intern(written);
                }
            },
            None => return Ok(Some(ABSENT)),
        };
        let Some(value) = value else { return Ok(None) };
        if let Some(code) = self.known.get(&(key, value)) {
            return Ok(Some(*code));
        }
        self.text.clear();
        self.text.extend_from_slice(before);
        match &page.template_set().columns[column as usize].kind {
            ColumnKind::Numbers { format, .. } => format.write(value, &mut self.text),
            _ => {
                let dictionary = page.segment().dictionary(column)?;
                let code = u32::try_from(value).ok().filter(|code| (*code as usize) < dictionary.len());
                let Some(code) = code else { return Ok(None) };
                self.text.extend_from_slice(dictionary.get(code));
            }
        }
        self.text.extend_from_slice(after);
        self.add((key, value), written)
    }

    /// Numbers the composed text, and keeps the number for further rows with this value.
    fn add(&mut self, value: (u32, i64), written: Option<&WrittenParts>) -> Result<Option<u32>, EngineError> {
        let code = self.intern(written)?;
        if let Some(code) = code {
            self.known.insert(value, code);
        }
        Ok(code)
    }

    /// Numbers the composed text.
    fn intern(&mut self, written: Option<&WrittenParts>) -> Result<Option<u32>, EngineError> {
        let text = std::str::from_utf8(&self.text).map_err(invalid_utf8)?;
        Ok(match written {
            Some(written) => written.value(text).map_or(Some(ABSENT), |text| self.texts.code_of(&text, false)),
            None => self.texts.code_of(text, false),
        })
    }
}
