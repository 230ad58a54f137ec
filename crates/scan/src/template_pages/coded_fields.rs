//! Slab-wide dictionaries of fields with few values, whose location differs between templates. The values are literals,
//! texts of dictionaries, numbers, combinations of both, and values computed from them ([`Decoding`]). Rare values in
//! columns without codes, such as JSON strings with escapes or the values of a few truncated events, are exceptions:
//! they are not in the dictionary, but read with their rows.
//!
//! Not here: reading the codes of rows ([`super::coded_columns`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, Dictionary, TEXT_COLUMN, Template, TemplatePart, TemplateSet};
use quarry_stdx::number::u32_of;
use quarry_store::Segment;

use super::column_codes::max_codes;
use super::field_locations::FieldLocations;
use super::interner::ABSENT;
use super::value_location::{Decoding, NestedValue, ValueLocation, append_unescaped};

/// Maximum number of combinations of codes at one location; if there are more, the field has no dictionary.
const COMBINATIONS_MAX: usize = 8_192;
/// Maximum number of combinations at all locations.
const ENTRIES_MAX: usize = 32_768;
/// At most one value in this many at nested locations, and one in this many events at other locations, is an exception;
/// otherwise the field has no dictionary.
const VALUES_PER_EXCEPTION: u64 = 16;

/// The values of a field in a slab.
pub(super) struct CodedField {
    pub texts: ArrayRef,
    /// The code of each text.
    pub codes: HashMap<Box<str>, u32, FixedState>,
    /// The distinct locations, after [`LocationCodes::Absent`].
    pub places: Vec<LocationCodes>,
    /// Index of the location of each of the field's keys.
    pub place_of: Vec<u32>,
}

/// A location with the codes of its values in the dictionary of the field.
pub(super) enum LocationCodes {
    Absent,
    Constant(u32),
    /// By a combined code (mixed radix): the sum of the codes of these columns, each times the weight next to its
    /// column.
    Composite {
        columns: Box<[(u32, usize)]>,
        codes: Box<[u32]>,
    },
    /// In the first of these columns that has a value in the row; for each column, the field's code by the column's
    /// code, or `None` if its values are exceptions.
    Nested(Vec<(u32, Option<Box<[u32]>>)>),
    /// The values are exceptions.
    Exception,
}

fn missing() -> EngineError {
    EngineError::invalid("a value of a bucket is missing; rebuild the bucket")
}

fn not_utf8() -> EngineError {
    EngineError::invalid("a text of a bucket is not UTF-8; rebuild the bucket")
}

impl CodedField {
    /// The dictionary of a field; `None` if the field has too many values, or if some values are stored in another
    /// form.
    pub(super) fn of(
        field: &FieldLocations,
        template_set: &TemplateSet,
        segment: &dyn Segment,
    ) -> Result<Option<CodedField>, EngineError> {
        let mut maker =
            DictionaryMaker { template_set, segment, texts: Vec::new(), codes: HashMap::default(), entries: 0 };
        let mut rare = RareColumns { template_set, columns: Vec::new(), values: 0 };
        // A variable with escapes is like a nested value that every row has.
        let escaped: Vec<Option<NestedValue>> = field.locations.iter().map(ValueLocation::escaped_variable).collect();
        // Locations are equal if they have the same parts with the same decoding, or the same nested values.
        let mut known: HashMap<(Template, Option<Decoding>, &[NestedValue]), u32, FixedState> = HashMap::default();
        let mut places = vec![LocationCodes::Absent];
        let mut place_of = Vec::with_capacity(field.locations.len());
        for (place, escaped) in field.locations.iter().zip(&escaped) {
            let (mut decoding, mut nested): (Option<Decoding>, &[NestedValue]) = (None, &[]);
            let parts: Vec<TemplatePart> = match place {
                ValueLocation::Absent | ValueLocation::Derived | ValueLocation::Text => {
                    place_of.push(0);
                    continue;
                }
                ValueLocation::Constant(text) => vec![TemplatePart::Literal(text.as_bytes().into())],
                ValueLocation::Variable(column) => vec![TemplatePart::Variable(*column)],
                ValueLocation::Composite(parts) => parts.to_vec(),
                ValueLocation::Written(written) => {
                    decoding = Some(written.decoding);
                    written.parts.to_vec()
                }
                ValueLocation::Nested(place) => {
                    nested = &place.values;
                    Vec::new()
                }
                ValueLocation::Escaped(parts) if let Some(value) = escaped => {
                    nested = std::slice::from_ref(value);
                    parts.to_vec()
                }
                ValueLocation::Escaped(parts) if rare.add(parts) => {
                    place_of.push(u32_of(places.len()));
                    places.push(LocationCodes::Exception);
                    continue;
                }
                _ => return Ok(None),
            };
            let key = (Template { parts }, decoding, nested);
            if let Some(at) = known.get(&key) {
                place_of.push(*at);
                continue;
            }
            let made = match nested {
                [] => maker.composite(&key.0.parts, decoding)?.map(|(columns, codes)| match codes[..] {
                    [code] if columns.is_empty() => LocationCodes::Constant(code),
                    _ => LocationCodes::Composite { columns, codes },
                }),
                nested => maker.nested(nested)?,
            };
            let made = match made {
                Some(made) => made,
                None if rare.add(&key.0.parts) => LocationCodes::Exception,
                None => return Ok(None),
            };
            place_of.push(u32_of(places.len()));
            known.insert(key, u32_of(places.len()));
            places.push(made);
        }
        assert_eq!(place_of.len(), field.locations.len(), "each location has its codes");
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(&maker.texts));
        Ok(Some(CodedField { texts, codes: maker.codes, places, place_of }))
    }
}

/// Columns whose values limit the number of exceptions.
struct RareColumns<'a> {
    template_set: &'a TemplateSet,
    columns: Vec<u32>,
    /// Number of values of these columns.
    values: u64,
}

impl RareColumns<'_> {
    /// Adds the column that limits the number of values composed of these parts. `false` if no column does, or if the
    /// values of all these columns are too many for exceptions.
    fn add(&mut self, parts: &[TemplatePart]) -> bool {
        let values = |column: &u32| self.template_set.columns.get(*column as usize).map_or(0, |column| column.values);
        let variables = parts.iter().filter_map(|part| match part {
            TemplatePart::Variable(column) => Some(*column),
            TemplatePart::Literal(_) => None,
        });
        let Some(rarest) = variables.min_by_key(values) else { return false };
        if !self.columns.contains(&rarest) {
            self.values += values(&rarest);
            self.columns.push(rarest);
        }
        self.values <= values(&TEXT_COLUMN) / VALUES_PER_EXCEPTION
    }
}

impl CodedField {
    /// Whether all values of the field have codes.
    pub(super) fn is_complete(&self) -> bool {
        let has_codes = |place: &LocationCodes| match place {
            LocationCodes::Nested(columns) => columns.iter().all(|(_, codes)| codes.is_some()),
            LocationCodes::Absent | LocationCodes::Constant(_) | LocationCodes::Composite { .. } => true,
            LocationCodes::Exception => false,
        };
        self.places.iter().all(has_codes)
    }

    /// Whether the dictionary has the location of a key; otherwise the field is absent or derived, or its values are in
    /// the text.
    #[inline]
    pub(super) fn has_location(&self, key: u32) -> bool {
        self.place_of.get(key as usize).is_some_and(|place| *place > 0)
    }
}

/// Makes the dictionary of a field.
struct DictionaryMaker<'a> {
    template_set: &'a TemplateSet,
    segment: &'a dyn Segment,
    texts: Vec<Box<str>>,
    codes: HashMap<Box<str>, u32, FixedState>,
    /// Combinations of codes so far.
    entries: usize,
}

impl DictionaryMaker<'_> {
    /// The columns of a sequence of parts with the weights of their codes, and the code of each combination's value:
    /// [`ABSENT`] if a combination has none.
    #[expect(clippy::type_complexity, reason = "a pair of lists, taken apart at once")]
    fn composite(
        &mut self,
        parts: &[TemplatePart],
        decoding: Option<Decoding>,
    ) -> Result<Option<(Box<[(u32, usize)]>, Box<[u32]>)>, EngineError> {
        let template_set = self.template_set;
        let (mut columns, mut combinations) = (Vec::new(), 1usize);
        for part in parts {
            if let TemplatePart::Variable(column) = part {
                let codes = max_codes(template_set, *column);
                columns.push((*column, combinations));
                combinations = combinations.saturating_mul(codes);
            }
        }
        let entries = self.entries.saturating_add(combinations);
        if combinations == 0 || combinations > COMBINATIONS_MAX || entries > ENTRIES_MAX {
            return Ok(None);
        }
        self.entries = entries;
        let values = columns.iter().map(|(column, _)| ColumnTexts::of(*column, template_set, self.segment));
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
            let text = std::str::from_utf8(&text).map_err(|_| not_utf8())?;
            codes.push(match decoding {
                None => self.code(text),
                Some(decoding) => decoding.value(text).map_or(ABSENT, |value| self.code(&value)),
            });
        }
        Ok(Some((columns.into(), codes.into())))
    }

    /// `None` if columns without codes hold more than one in `VALUES_PER_EXCEPTION` values.
    fn nested(&mut self, nested: &[NestedValue]) -> Result<Option<LocationCodes>, EngineError> {
        let mut columns = Vec::with_capacity(nested.len());
        let (mut values, mut exceptions) = (0, 0);
        for NestedValue { column, is_escaped } in nested {
            let codes = self.codes_of_column(*column, *is_escaped)?;
            let of_column = self.template_set.columns.get(*column as usize).map_or(0, |column| column.values);
            values += of_column;
            exceptions += if codes.is_none() { of_column } else { 0 };
            columns.push((*column, codes));
        }
        let is_coded = exceptions <= values / VALUES_PER_EXCEPTION;
        Ok(is_coded.then_some(LocationCodes::Nested(columns)))
    }

    /// The field's code by the column's code; `None` if the column has no codes, or too many.
    fn codes_of_column(&mut self, column: u32, is_escaped: bool) -> Result<Option<Box<[u32]>>, EngineError> {
        let count = max_codes(self.template_set, column);
        let entries = self.entries.saturating_add(count);
        if count == 0 || count > COMBINATIONS_MAX || entries > ENTRIES_MAX {
            return Ok(None);
        }
        self.entries = entries;
        let texts = ColumnTexts::of(column, self.template_set, self.segment)?;
        let (mut text, mut unescaped) = (Vec::new(), Vec::new());
        let mut codes = Vec::with_capacity(count);
        for code in 0..u32_of(count) {
            text.clear();
            texts.write(code, &mut text)?;
            if is_escaped {
                unescaped.clear();
                append_unescaped(&text, &mut unescaped)?;
            }
            let value = if is_escaped { &unescaped } else { &text };
            codes.push(self.code(std::str::from_utf8(value).map_err(|_| not_utf8())?));
        }
        Ok(Some(codes.into()))
    }

    /// The code of a text, which is added if new.
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        let code = u32_of(self.texts.len());
        self.texts.push(text.into());
        self.codes.insert(text.into(), code);
        code
    }
}

/// The texts of a column's codes.
enum ColumnTexts<'a> {
    Dictionary(Arc<Dictionary>),
    Numbers(&'a ColumnKind),
}

impl<'a> ColumnTexts<'a> {
    fn of(column: u32, template_set: &'a TemplateSet, segment: &dyn Segment) -> Result<ColumnTexts<'a>, EngineError> {
        Ok(match &template_set.columns[column as usize].kind {
            ColumnKind::Dictionary { .. } => ColumnTexts::Dictionary(segment.dictionary(column)?),
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
