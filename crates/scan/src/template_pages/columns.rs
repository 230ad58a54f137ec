//! Columns of the requested fields for some rows, built without reconstructing the event texts.
//!
//! A field that is stored as one column keeps its compact form: texts of a dictionary as codes (one array per slab
//! holds the dictionary), integers as such, IP addresses as 32 bits, decimals as integers with a scale. A field in
//! several columns becomes numbers if most of its values are numbers; its other values are then texts in the same
//! column ([`super::number_columns`]). It becomes codes of a dictionary if it has few distinct values
//! ([`super::coded_columns`]) or values that repeat ([`super::composed_columns`]). All other fields become texts, value
//! by value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal64Array, DictionaryArray, PrimitiveArray, StringViewBuilder, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowPrimitiveType, Float64Type, Int64Type, UInt32Type};
use bytes::Bytes;
use memchr::memmem::Finder;
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnBuilder, DECIMAL_PRECISION, coalesce};
use quarry_event::template::{ColumnKind, ColumnValues, NumberFormat, PageColumn, TemplatePart, TemplateSet, Texts};
use quarry_stdx::number::{f64_of, low_u32, u32_of};

use super::coded_columns::coded_column;
use super::composed_columns::composed_column;
use super::derived_fields::Derivation;
use super::divided_keys::{RowKeys, keys_of_rows};
use super::field_locations::{FieldLocations, is_consistent};
use super::inner_pairs::InnerPair;
use super::key_end::KeyEnd;
use super::number_columns::number_column;
use super::page::{PageReader, Rows};
use super::prefixed_columns::prefixed_column;
use super::rex::invalid_utf8;
use super::split_decimals::DecimalTemplate;
use super::text_arrays::{text_array, text_views};
use super::value_location::{NestedValue, ValueLocation, append_unescaped};

/// If at least one in this many texts of a column is requested, all texts of the column are validated as UTF-8 at once
/// instead of one by one.
const BULK_VALIDATION_DIVISOR: usize = 8;
/// Minimum number of rows for which searching for a common column pays off.
const COMMON_COLUMN_ROWS_MIN: usize = 64;

/// The texts of numbers.
pub(super) fn number_texts(
    numbers: impl Iterator<Item = Option<i64>>,
    format: NumberFormat,
) -> Result<ArrayRef, EngineError> {
    let mut writer = TextWriter::default();
    for number in numbers {
        match number {
            Some(number) => {
                format.write(number, &mut writer.bytes);
                writer.end_text();
            }
            None => writer.push_null(),
        }
    }
    writer.finish()
}

/// The values of a field in these rows; `None` if no row has a value.
pub(super) fn field_column(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    let own = located_column(field, rows, page)?;
    let Some(derived) = &field.derived else { return Ok(own) };
    // The events of other sources have other rules, or none, even if they have the field that this rule reads.
    let keys = keys_of_rows(field, rows, page)?;
    let is_derived =
        |row: u32| matches!(field.locations.get(keys[row as usize] as usize), Some(ValueLocation::Derived));
    let some = Rows::Some(rows.iter().filter(|row| is_derived(*row)).collect());
    let of_rows = if some.len() == rows.len() { rows } else { &some };
    let source = match derived {
        _ if some.is_empty() => None,
        Derivation::Pattern(pattern) => match page.slab.stored_field(&pattern.rule.field) {
            Some(source) => located_column(source, of_rows, page)?,
            None => None,
        },
        Derivation::Lists { column } => Some(column_of_values(*column, of_rows, page)?),
    };
    let Some(source) = source else { return Ok(own) };
    let found = derived.derive_values(&source, &page.slab.derived_memo(derived))?;
    assert_eq!(found.len(), of_rows.len(), "each derived value belongs to a row");
    if found.null_count() == found.len() {
        return Ok(own);
    }
    let found = match some.len() == rows.len() {
        true => found,
        false => {
            let mut places = 0u32..;
            let places: UInt32Array =
                rows.iter().map(|row| if is_derived(row) { places.next() } else { None }).collect();
            take(&found, &places, None)?
        }
    };
    Ok(Some(own.map_or_else(|| Arc::clone(&found), |own| coalesce(&own, &found))))
}

/// The values found at the field's locations.
fn located_column(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    // The numbers of such a column are read from the columns of its template.
    let template_set = page.template_set();
    let is_plain = |column: &u32| DecimalTemplate::of(*column, template_set).is_none();
    let array = match field.column.filter(is_plain) {
        Some(column) => column_of_values(column, rows, page)?,
        None if field.locations.iter().all(is_null) => return Ok(None),
        None => {
            let keys = RowKeys::of(field, rows, page)?;
            match common_column(field, rows, &keys, template_set).filter(is_plain) {
                Some(column) => column_of_values(column, rows, page)?,
                None => separate_column(field, rows, &keys, page)?,
            }
        }
    };
    assert_eq!(array.len(), rows.len(), "a field has a value or none in each row");
    Ok((array.null_count() < array.len()).then_some(array))
}

/// The values of a column in these rows.
fn column_of_values(column: u32, rows: &Rows, page: &mut PageReader<'_>) -> Result<ArrayRef, EngineError> {
    let values = page.column_of_rows(column, rows)?;
    typed_column(column, &values, &value_positions(&values, rows), page)
}

/// The values of a field that no column contains as such.
fn separate_column(
    field: &FieldLocations,
    rows: &Rows,
    keys: &RowKeys,
    page: &mut PageReader<'_>,
) -> Result<ArrayRef, EngineError> {
    if let Some(texts) = prefixed_column(field, rows, keys, page)? {
        return Ok(texts);
    }
    if let Some(numbers) = number_column(field, rows, keys, page)? {
        return Ok(numbers);
    }
    if let Some(codes) = coded_column(field, rows, keys, page, column_from_mixed_locations)? {
        return Ok(codes);
    }
    match composed_column(field, rows, keys, page)? {
        Some(codes) => Ok(codes),
        None => column_from_mixed_locations(field, rows, page),
    }
}

/// The one column that contains the field in all of these rows, if such a column exists.
fn common_column(field: &FieldLocations, rows: &Rows, keys: &RowKeys, template_set: &TemplateSet) -> Option<u32> {
    if rows.len() < COMMON_COLUMN_ROWS_MIN || !keys.is_complete {
        return None;
    }
    let ColumnKind::Templates(templates) = &template_set.columns.first()?.kind else { return None };
    let mut present = keys.used(field).filter(|(_, place, _)| **place != ValueLocation::Absent);
    let column = present.next().and_then(|(_, place, _)| place.column())?;
    let has_values = field.column_presence(template_set, templates, column);
    let mut used = keys.used(field);
    used.all(|(key, place, _)| is_consistent(place, column, || has_values(key))).then_some(column)
}

/// Whether this location never yields a value.
pub(super) fn is_null(place: &ValueLocation) -> bool {
    matches!(place, ValueLocation::Absent | ValueLocation::Derived | ValueLocation::Text)
}

/// Positions of the rows' values in a column.
pub(super) enum ValuePositions {
    /// Every row has a value, in order.
    All,
    /// One position per row.
    Each(Vec<u32>),
    /// Some rows have no value.
    Some(Vec<Option<u32>>),
}

impl ValuePositions {
    /// The items of `values` at the rows' positions.
    fn pick<'a, T: Copy>(&'a self, values: &'a [T]) -> Box<dyn Iterator<Item = Option<T>> + 'a> {
        match self {
            ValuePositions::All => Box::new(values.iter().map(|value| Some(*value))),
            ValuePositions::Each(places) => Box::new(places.iter().map(|place| values.get(*place as usize).copied())),
            ValuePositions::Some(places) => {
                Box::new(places.iter().map(|place| place.and_then(|place| values.get(place as usize).copied())))
            }
        }
    }

    /// The items of `values` at the rows' positions as an array; `native` converts an item.
    fn gather<S: Copy, T: ArrowPrimitiveType>(
        &self,
        values: &[S],
        native: impl Fn(S) -> T::Native,
    ) -> PrimitiveArray<T> {
        match self {
            ValuePositions::All => PrimitiveArray::new(values.iter().map(|value| native(*value)).collect(), None),
            ValuePositions::Each(places) => gather_at(places.len(), |at| Some(places[at]), values, native),
            ValuePositions::Some(places) => gather_at(places.len(), |at| places[at], values, native),
        }
    }
}

fn gather_at<S: Copy, T: ArrowPrimitiveType>(
    rows: usize,
    place_at: impl Fn(usize) -> Option<u32>,
    values: &[S],
    native: impl Fn(S) -> T::Native,
) -> PrimitiveArray<T> {
    let value_at = |row: usize| place_at(row).and_then(|place| values.get(place as usize).copied());
    let natives = (0..rows).map(|row| value_at(row).map_or_else(T::Native::default, &native)).collect();
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| value_at(row).is_some()));
    PrimitiveArray::new(natives, Some(nulls).filter(|nulls| nulls.null_count() > 0))
}

pub(super) fn value_positions(values: &PageColumn, rows: &Rows) -> ValuePositions {
    match (&values.rows, rows) {
        (None, Rows::All(_)) => ValuePositions::All,
        (None, Rows::Some(rows)) => ValuePositions::Each(rows.clone()),
        (Some(filled), rows) if filled.len() == rows.len() && rows.iter().eq(filled.iter().copied()) => {
            ValuePositions::All
        }
        (Some(filled), Rows::All(count)) => {
            let mut places = vec![None; *count as usize];
            for (row, position) in filled.iter().zip(0u32..) {
                if let Some(place) = places.get_mut(*row as usize) {
                    *place = Some(position);
                }
            }
            ValuePositions::Some(places)
        }
        (Some(filled), rows) => {
            let mut filled = filled.iter().zip(0u32..).peekable();
            let place = |row: u32| {
                while filled.next_if(|(known, _)| **known < row).is_some() {}
                filled.next_if(|(known, _)| **known == row).map(|(_, place)| place)
            };
            ValuePositions::Some(rows.iter().map(place).collect())
        }
    }
}

/// The values at some positions as a typed column.
pub(super) fn typed_column(
    column: u32,
    values: &PageColumn,
    places: &ValuePositions,
    page: &mut PageReader<'_>,
) -> Result<ArrayRef, EngineError> {
    Ok(match (&values.values, &page.template_set().columns[column as usize].kind) {
        (ColumnValues::Codes(codes), ColumnKind::Dictionary { .. }) => {
            let keys: UInt32Array = match places {
                ValuePositions::All => codes.clone().into(),
                places => places.gather(codes, |code| code),
            };
            Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, page.slab.dictionary_values(column)?)?)
        }
        (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => match *format {
            NumberFormat::Integer => Arc::new(places.gather::<i64, Int64Type>(numbers, |number| number)),
            NumberFormat::Ip4 => Arc::new(places.gather::<i64, UInt32Type>(numbers, low_u32)),
            NumberFormat::Decimal { digits } => {
                let decimals: Decimal64Array = places.gather(numbers, |number| number);
                Arc::new(decimals.with_precision_and_scale(DECIMAL_PRECISION, digits.cast_signed())?)
            }
            NumberFormat::Shortest { digits } => {
                // Both operands are exact doubles, so their quotient is the double nearest to the decimal.
                let unit = 10f64.powi(i32::from(digits));
                Arc::new(places.gather::<i64, Float64Type>(numbers, |number| f64_of(number) / unit))
            }
            format => number_texts(places.pick(numbers), format)?,
        },
        (ColumnValues::Texts { bytes, ends }, _) => select_texts(bytes, ends, places)?,
        _ => {
            let filled: Vec<u32> = match (&values.rows, places) {
                (Some(rows), ValuePositions::All) => rows.to_vec(),
                (None, ValuePositions::All) => (0..u32_of(values.values.len())).collect(),
                (None, ValuePositions::Each(places)) => places.clone(),
                (Some(rows), ValuePositions::Each(places)) => {
                    places.iter().map(|place| rows[*place as usize]).collect()
                }
                (rows, ValuePositions::Some(places)) => {
                    let row = |place: &u32| rows.as_ref().map_or(*place, |rows| rows[*place as usize]);
                    places.iter().flatten().map(row).collect()
                }
            };
            let texts = page.texts(column, &filled)?;
            let mut next = 0u32;
            let places = match places {
                ValuePositions::Some(places) => ValuePositions::Some(
                    (places.iter())
                        .map(|place| {
                            place.map(|_| {
                                next += 1;
                                next - 1
                            })
                        })
                        .collect(),
                ),
                _ => ValuePositions::All,
            };
            select_texts(&texts.bytes, &texts.ends, &places)?
        }
    })
}

fn select_texts(bytes: &Bytes, ends: &[u32], places: &ValuePositions) -> Result<ArrayRef, EngineError> {
    let picked: UInt32Array = match places {
        ValuePositions::All => return text_array(bytes, ends),
        ValuePositions::Each(places) => places.clone().into(),
        ValuePositions::Some(places) => {
            let nulls = NullBuffer::new(BooleanBuffer::collect_bool(places.len(), |row| places[row].is_some()));
            UInt32Array::new(places.iter().map(|place| place.unwrap_or(0)).collect(), Some(nulls))
        }
    };
    if picked.len() >= ends.len() / BULK_VALIDATION_DIVISOR {
        return Ok(take(&text_array(bytes, ends)?, &picked, None)?);
    }
    let mut builder = StringViewBuilder::with_capacity(picked.len());
    let block = builder.append_block(Buffer::from(bytes.clone()));
    for place in &picked {
        match place {
            Some(place) => {
                let start = if place == 0 { 0 } else { ends[place as usize - 1] };
                builder.try_append_view(block, start, ends[place as usize] - start)?;
            }
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Builds a buffer of concatenated texts.
#[derive(Default)]
struct TextWriter {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    valid: Vec<bool>,
}

impl TextWriter {
    fn end_text(&mut self) {
        self.ends.push(u32_of(self.bytes.len()));
        self.valid.push(true);
    }

    fn push_null(&mut self) {
        self.ends.push(u32_of(self.bytes.len()));
        self.valid.push(false);
    }

    fn finish(self) -> Result<ArrayRef, EngineError> {
        let valid = self.valid;
        let nulls = valid.contains(&false);
        let nulls = nulls.then(|| NullBuffer::new(BooleanBuffer::collect_bool(valid.len(), |row| valid[row])));
        text_views(Buffer::from(self.bytes), &self.ends, nulls)
    }
}

/// The values of a field whose location differs between templates.
pub(super) fn column_from_mixed_locations(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<ArrayRef, EngineError> {
    let keys = keys_of_rows(field, rows, page)?;
    let place_of = |row: u32| field.locations.get(keys[row as usize] as usize).unwrap_or(&ValueLocation::Absent);
    let mut nested = NestedColumns::default();
    for place in &field.locations {
        nested.add(place, rows, page)?;
    }
    let variables = variable_texts(place_of, rows, &nested, page)?;
    let key_end = (&field.key_end, field.key_end.finder());
    let mut reader = LocationReader { variables, nested, key_end, written: Vec::new() };
    let is_list = |place: &ValueLocation| matches!(place, ValueLocation::List(_));
    let column = match rows.iter().any(|row| is_list(place_of(row))) {
        true => reader.multivalue_column(place_of, rows)?,
        false => reader.text_column(place_of, rows)?,
    };
    let is_used = |variable: &VariableTexts| variable.next == variable.texts.ends.len();
    assert!(reader.variables.iter().all(is_used), "each text that was read is part of a value");
    Ok(column)
}

/// Reads values at locations that differ between rows, in ascending row order.
struct LocationReader<'f> {
    variables: Vec<VariableTexts>,
    nested: NestedColumns,
    key_end: (&'f KeyEnd, Finder<'f>),
    /// A reusable buffer.
    written: Vec<u8>,
}

impl LocationReader<'_> {
    /// The values, if no row has more than one value.
    fn text_column<'p>(
        &mut self,
        place_of: impl Fn(u32) -> &'p ValueLocation,
        rows: &Rows,
    ) -> Result<ArrayRef, EngineError> {
        let mut writer = TextWriter::default();
        for row in rows.iter() {
            match self.append(place_of(row), row, &mut writer.bytes)? {
                true => writer.end_text(),
                false => writer.push_null(),
            }
        }
        writer.finish()
    }

    /// The values, if some rows have several.
    fn multivalue_column<'p>(
        &mut self,
        place_of: impl Fn(u32) -> &'p ValueLocation,
        rows: &Rows,
    ) -> Result<ArrayRef, EngineError> {
        let mut column = ColumnBuilder::new(rows.len());
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for row in rows.iter() {
            bytes.clear();
            ends.clear();
            let place = place_of(row);
            let places = match place {
                ValueLocation::List(places) => places,
                place => std::slice::from_ref(place),
            };
            for place in places {
                if self.append(place, row, &mut bytes)? {
                    ends.push(bytes.len());
                }
            }
            let texts =
                std::str::from_utf8(&bytes).ok().filter(|all| ends.iter().all(|end| all.is_char_boundary(*end)));
            let broken = || EngineError::invalid("a value of a bucket is not UTF-8; rebuild the bucket");
            let texts = texts.ok_or_else(broken)?;
            let starts = std::iter::once(&0).chain(&ends);
            column.push_multi(starts.zip(&ends).map(|(start, end)| &texts[*start..*end]));
        }
        Ok(column.finish())
    }

    /// Appends the value at a location of a row; false if the row has no value there.
    fn append(&mut self, place: &ValueLocation, row: u32, out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let LocationReader { variables, nested, key_end, written } = self;
        written.clear();
        match place {
            ValueLocation::Absent | ValueLocation::List(_) | ValueLocation::Derived | ValueLocation::Text => {
                return Ok(false);
            }
            ValueLocation::Constant(text) => out.extend_from_slice(text.as_bytes()),
            ValueLocation::Variable(column) => append_variable(variables, *column, out),
            ValueLocation::Composite(parts) => append_parts(variables, parts, out),
            ValueLocation::Escaped(parts) => {
                append_parts(variables, parts, written);
                append_unescaped(written, out)?;
            }
            ValueLocation::Written(place) => {
                append_parts(variables, &place.parts, written);
                let text = std::str::from_utf8(written).map_err(invalid_utf8)?;
                let Some(value) = place.value(text) else { return Ok(false) };
                out.extend_from_slice(value.as_bytes());
            }
            ValueLocation::Pair(pair) => return Ok(append_pair(variables, pair, key_end, written, out)),
            ValueLocation::Nested(place) => match nested.present_value(&place.values, row) {
                None => return Ok(false),
                Some(NestedValue { column, is_escaped: false }) => append_variable(variables, column, out),
                Some(NestedValue { column, is_escaped: true }) => {
                    append_variable(variables, column, written);
                    append_unescaped(written, out)?;
                }
            },
        }
        Ok(true)
    }
}

/// The texts of the variables in the values of a field whose location differs between templates.
fn variable_texts<'p>(
    place_of: impl Fn(u32) -> &'p ValueLocation,
    rows: &Rows,
    nested: &NestedColumns,
    page: &mut PageReader<'_>,
) -> Result<Vec<VariableTexts>, EngineError> {
    let mut variables: Vec<VariableTexts> = Vec::new();
    for row in rows.iter() {
        let places = match place_of(row) {
            ValueLocation::List(places) => places,
            place => std::slice::from_ref(place),
        };
        for place in places {
            let (one, many): (Option<u32>, &[TemplatePart]) = match place {
                ValueLocation::Variable(column) => (Some(*column), &[]),
                ValueLocation::Nested(place) => {
                    (nested.present_value(&place.values, row).map(|value| value.column), &[])
                }
                ValueLocation::Composite(parts) | ValueLocation::Escaped(parts) => (None, parts),
                ValueLocation::Written(written) => (None, &written.parts),
                ValueLocation::Pair(pair) => (None, pair.parts()),
                _ => (None, &[]),
            };
            let named = many.iter().filter_map(|part| match part {
                TemplatePart::Variable(column) => Some(*column),
                TemplatePart::Literal(_) => None,
            });
            for column in one.into_iter().chain(named) {
                match variables.iter_mut().find(|variable| variable.column == column) {
                    Some(variable) => variable.rows.push(row),
                    None => variables.push(VariableTexts::new(column, row)),
                }
            }
        }
    }
    for variable in &mut variables {
        variable.texts = page.texts(variable.column, &variable.rows)?;
    }
    Ok(variables)
}

/// The columns from which a [`ValueLocation::Nested`] is read in some rows of a page.
#[derive(Default)]
struct NestedColumns(Vec<NestedColumn>);

struct NestedColumn {
    column: u32,
    /// By row of the page: whether the column has a value; `None` if it has a value in every row.
    has_value: Option<Vec<bool>>,
}

impl NestedColumns {
    fn add(&mut self, place: &ValueLocation, rows: &Rows, page: &mut PageReader<'_>) -> Result<(), EngineError> {
        let ValueLocation::Nested(place) = place else { return Ok(()) };
        for NestedValue { column, .. } in &place.values {
            if self.0.iter().any(|known| known.column == *column) {
                continue;
            }
            let values = page.column_of_rows(*column, rows)?;
            let has_value = values.rows.as_ref().map(|filled| {
                let mut has_value = vec![false; page.len()];
                filled.iter().for_each(|row| has_value[*row as usize] = true);
                has_value
            });
            self.0.push(NestedColumn { column: *column, has_value });
        }
        Ok(())
    }

    /// The nested value, if any, that is present in this row.
    fn present_value(&self, values: &[NestedValue], row: u32) -> Option<NestedValue> {
        let has_value = |value: &&NestedValue| {
            let known = self.0.iter().find(|known| known.column == value.column);
            known.is_some_and(|known| known.has_value.as_ref().is_none_or(|has_value| has_value[row as usize]))
        };
        values.iter().find(has_value).copied()
    }
}

/// Texts of a variable, read in ascending row order.
struct VariableTexts {
    column: u32,
    rows: Vec<u32>,
    texts: Texts,
    next: usize,
    /// The texts that contain the end of the field's key ([`KeyEnd`]), ascending, each with its offset in the text;
    /// `None` until the texts have been searched.
    with_key: Option<Vec<(usize, usize)>>,
    /// Number of the entries of `with_key` that precede `next`.
    keys_passed: usize,
}

impl VariableTexts {
    fn new(column: u32, row: u32) -> VariableTexts {
        VariableTexts { column, rows: vec![row], texts: Texts::default(), next: 0, with_key: None, keys_passed: 0 }
    }

    /// The next text and the position of the key end, if the text contains it. All texts are searched at once.
    fn next_with_key(&mut self, key_end: &KeyEnd) -> Option<(&[u8], usize)> {
        let VariableTexts { texts, with_key, .. } = self;
        let with_key = with_key.get_or_insert_with(|| key_end.first_matches(&texts.bytes, &texts.ends));
        let at = self.next;
        self.next += usize::from(at < texts.ends.len());
        while with_key.get(self.keys_passed).is_some_and(|(known, _)| *known < at) {
            self.keys_passed += 1;
        }
        let (_, start) = with_key.get(self.keys_passed).filter(|(known, _)| *known == at)?;
        Some((texts.get(at), *start))
    }
}

/// Appends literals and the values of variables in the order of `parts`.
fn append_parts(variables: &mut [VariableTexts], parts: &[TemplatePart], out: &mut Vec<u8>) {
    for part in parts {
        match part {
            TemplatePart::Literal(literal) => out.extend_from_slice(literal),
            TemplatePart::Variable(column) => append_variable(variables, *column, out),
        }
    }
}

/// Finds a key-value pair in the pieces of the text that may contain it, and appends its value; false if no piece
/// contains the pair. `written` is a reusable buffer.
fn append_pair(
    variables: &mut [VariableTexts],
    pair: &InnerPair,
    (key_end, finder): &(&KeyEnd, Finder<'_>),
    written: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> bool {
    let mut is_found = false;
    for piece in pair.pieces() {
        if let [TemplatePart::Variable(column)] = piece {
            let variable = variables.iter_mut().find(|variable| variable.column == *column);
            let found = variable.and_then(|variable| variable.next_with_key(key_end));
            if !is_found
                && let Some((text, start)) = found
                && let Some(value) = pair.value_after(text, start + finder.needle().len() - 1)
            {
                out.extend_from_slice(value);
                is_found = true;
            }
            continue;
        }
        written.clear();
        append_parts(variables, piece, written);
        if !is_found && let Some(value) = pair.value_in(written, finder) {
            out.extend_from_slice(value.as_bytes());
            is_found = true;
        }
    }
    is_found
}

fn append_variable(variables: &mut [VariableTexts], column: u32, out: &mut Vec<u8>) {
    if let Some(variable) = variables.iter_mut().find(|variable| variable.column == column)
        && variable.next < variable.texts.ends.len()
    {
        out.extend_from_slice(variable.texts.get(variable.next));
        variable.next += 1;
    }
}
