//! Columns of fields whose values are at different locations in different templates, but are few: literals, texts of
//! dictionaries, and combinations of these. Each value has a code in one dictionary of the field, so that a row costs a
//! lookup and no text is written.
//!
//! Not here: fields that one column contains in all rows and fields with many values ([`super::columns`]); numbers
//! ([`super::number_columns`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, StringViewArray, UInt32Array};
use arrow::datatypes::UInt32Type;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, Dictionary, Template, TemplatePart, TemplateSet};
use quarry_stdx::number::u32_of;

use super::column_codes::max_codes;
use super::cursors::Cursors;
use super::field_locations::FieldLocations;
use super::interner::ABSENT;
use super::page::{PageReader, Rows};
use super::slab::Slab;
use super::value_location::ValueLocation;

/// Maximum number of combinations of codes at one location; if there are more, the field has no dictionary.
const COMBINATIONS_MAX: usize = 8_192;
/// Maximum number of combinations at all locations.
const ENTRIES_MAX: usize = 32_768;
/// Minimum number of rows for which a dictionary is made.
const ROWS_MIN: usize = 256;

/// The values of a field in a slab.
pub(super) struct CodedField {
    texts: ArrayRef,
    /// The distinct locations.
    places: Vec<CodedPlace>,
    /// Index of the location of each of the field's keys.
    place_of: Vec<u32>,
}

/// A location with the codes of its values in the dictionary of the field.
enum CodedPlace {
    Absent,
    Constant(u32),
    /// By the combination of the codes of these columns, each of which counts as many as its second number.
    Composite {
        columns: Box<[(u32, usize)]>,
        codes: Box<[u32]>,
    },
    /// In the first of these columns that has a value in the row; the codes by those of the column.
    Nested(Vec<(u32, Box<[u32]>)>),
}

/// The values of a field in these rows as codes; `None` if they are not few.
pub(super) fn coded_column(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    if rows.len() < ROWS_MIN {
        return Ok(None);
    }
    let Some(coded) = page.slab.coded_field(field)? else { return Ok(None) };
    let keys = page.keys_of_rows(field, rows)?;
    let mut cursors = Cursors::new(page);
    let mut codes: Vec<u32> = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let place = coded.place_of.get(keys[row as usize] as usize);
        codes.push(match place.and_then(|place| coded.places.get(*place as usize)) {
            None | Some(CodedPlace::Absent) => ABSENT,
            Some(CodedPlace::Constant(code)) => *code,
            Some(CodedPlace::Composite { columns, codes }) => {
                let mut index = 0;
                for (column, weight) in columns {
                    index += cursors.code(*column, row, page)?.ok_or_else(missing)? as usize * weight;
                }
                codes.get(index).copied().ok_or_else(missing)?
            }
            Some(CodedPlace::Nested(columns)) => {
                let mut found = ABSENT;
                for (column, codes) in columns {
                    if let Some(code) = cursors.code(*column, row, page)? {
                        found = codes.get(code as usize).copied().ok_or_else(missing)?;
                        break;
                    }
                }
                found
            }
        });
    }
    let keys: UInt32Array = match codes.contains(&ABSENT) {
        true => codes.into_iter().map(|code| (code != ABSENT).then_some(code)).collect(),
        false => codes.into(),
    };
    Ok(Some(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(&coded.texts))?)))
}

fn missing() -> EngineError {
    EngineError::invalid("a value of a bucket is missing; rebuild the bucket")
}

impl CodedField {
    /// The dictionary of a field; `None` if its values are not few, or some are stored in another form.
    pub(super) fn of(field: &FieldLocations, slab: &Slab) -> Result<Option<CodedField>, EngineError> {
        let mut maker = DictionaryMaker { slab, texts: Vec::new(), numbers: HashMap::default(), entries: 0 };
        let mut known: HashMap<Template, u32, FixedState> = HashMap::default();
        let mut places = vec![CodedPlace::Absent];
        let mut place_of = Vec::with_capacity(field.locations.len());
        for place in &field.locations {
            let (parts, nested) = match place {
                ValueLocation::Absent | ValueLocation::Derived | ValueLocation::Text => {
                    place_of.push(0);
                    continue;
                }
                ValueLocation::Constant(text) => (vec![TemplatePart::Literal(text.as_bytes().into())], false),
                ValueLocation::Variable(column) => (vec![TemplatePart::Variable(*column)], false),
                ValueLocation::Composite(parts) => (parts.to_vec(), false),
                ValueLocation::Nested(nested) if !nested.has_escapes() => {
                    (nested.values.iter().map(|value| TemplatePart::Variable(value.column)).collect(), true)
                }
                _ => return Ok(None),
            };
            // Several columns of one nested value differ from a sequence of the same columns.
            let key = Template {
                parts: if nested { [vec![TemplatePart::Literal([].into())], parts].concat() } else { parts },
            };
            if let Some(at) = known.get(&key) {
                place_of.push(*at);
                continue;
            }
            let made = match nested {
                true => maker.nested(&key.parts[1..])?,
                false => maker.composite(&key.parts)?.map(|(columns, codes)| match codes[..] {
                    [code] if columns.is_empty() => CodedPlace::Constant(code),
                    _ => CodedPlace::Composite { columns, codes },
                }),
            };
            let Some(made) = made else { return Ok(None) };
            place_of.push(u32_of(places.len()));
            known.insert(key, u32_of(places.len()));
            places.push(made);
        }
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(&maker.texts));
        Ok(Some(CodedField { texts, places, place_of }))
    }
}

/// Makes the dictionary of a field.
struct DictionaryMaker<'a> {
    slab: &'a Slab,
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32, FixedState>,
    /// Combinations of codes so far.
    entries: usize,
}

impl DictionaryMaker<'_> {
    /// The columns of a sequence of parts with the weights of their codes, and the code of each combination's text.
    #[expect(clippy::type_complexity, reason = "a pair of lists, taken apart at once")]
    fn composite(&mut self, parts: &[TemplatePart]) -> Result<Option<(Box<[(u32, usize)]>, Box<[u32]>)>, EngineError> {
        let template_set = &self.slab.template_set;
        let (mut columns, mut combinations) = (Vec::new(), 1usize);
        for part in parts {
            if let TemplatePart::Variable(column) = part {
                let codes = max_codes(template_set, *column);
                columns.push((*column, combinations));
                combinations = combinations.saturating_mul(codes);
            }
        }
        self.entries = self.entries.saturating_add(combinations);
        if combinations == 0 || combinations > COMBINATIONS_MAX || self.entries > ENTRIES_MAX {
            return Ok(None);
        }
        let values = columns.iter().map(|(column, _)| ColumnTexts::of(*column, template_set, self.slab));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let mut codes = Vec::with_capacity(combinations);
        let mut text = Vec::new();
        for index in 0..combinations {
            text.clear();
            let mut variables = columns.iter().zip(&values);
            for part in parts {
                match part {
                    TemplatePart::Literal(bytes) => text.extend_from_slice(bytes),
                    TemplatePart::Variable(column) => {
                        if let Some(((_, weight), values)) = variables.next() {
                            let code = index / weight % max_codes(template_set, *column);
                            values.write(u32_of(code), &mut text)?;
                        }
                    }
                }
            }
            codes.push(self.code(&text)?);
        }
        Ok(Some((columns.into(), codes.into())))
    }

    fn nested(&mut self, parts: &[TemplatePart]) -> Result<Option<CodedPlace>, EngineError> {
        let mut columns = Vec::with_capacity(parts.len());
        for part in parts {
            let Some((column, codes)) = self.composite(std::slice::from_ref(part))? else { return Ok(None) };
            columns.extend(column.iter().map(|(column, _)| *column).zip([codes]));
        }
        Ok(Some(CodedPlace::Nested(columns)))
    }

    /// The code of a text, which is added if new.
    fn code(&mut self, text: &[u8]) -> Result<u32, EngineError> {
        let text = std::str::from_utf8(text)
            .map_err(|_| EngineError::invalid("a text of a bucket is not UTF-8; rebuild the bucket"))?;
        if let Some(code) = self.numbers.get(text) {
            return Ok(*code);
        }
        let code = u32_of(self.texts.len());
        self.texts.push(text.into());
        self.numbers.insert(text.into(), code);
        Ok(code)
    }
}

/// The texts of a column's codes.
enum ColumnTexts<'a> {
    Dictionary(Arc<Dictionary>),
    Numbers(&'a ColumnKind),
}

impl<'a> ColumnTexts<'a> {
    fn of(column: u32, template_set: &'a TemplateSet, slab: &Slab) -> Result<ColumnTexts<'a>, EngineError> {
        Ok(match &template_set.columns[column as usize].kind {
            ColumnKind::Dictionary { .. } => ColumnTexts::Dictionary(slab.segment.dictionary(column)?),
            kind => ColumnTexts::Numbers(kind),
        })
    }

    fn write(&self, code: u32, text: &mut Vec<u8>) -> Result<(), EngineError> {
        match self {
            ColumnTexts::Dictionary(texts) if (code as usize) < texts.len() => {
                text.extend_from_slice(texts.get(code));
                Ok(())
            }
            ColumnTexts::Numbers(ColumnKind::Numbers { format, min, .. }) => {
                format.write(min + i64::from(code), text);
                Ok(())
            }
            _ => Err(missing()),
        }
    }
}
