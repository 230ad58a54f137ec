//! Typed columns of fields whose values are mostly numbers and whose location differs between templates.
//!
//! The format of most numbers is the format of the column; if no format is that of most, decimals of several scales
//! become doubles. Values in another form, such as `-` for a missing size, are exceptions; only these are read as texts.
//!
//! Not here: fields that one column contains in all rows, and fields whose values are mostly texts
//! ([`super::columns`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal64Array, Float64Array, Int64Array, StringViewArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use quarry_eval::EngineError;
use quarry_eval::rows::{DECIMAL_PRECISION, mixed_column};
use quarry_event::template::{ColumnKind, ColumnValues, NumberFormat, PageColumn, TemplateSet};
use quarry_stdx::number::u32_of;

use super::columns::{column_from_mixed_locations, is_null};
use super::divided_keys::keys_of_rows;
use super::field_locations::FieldLocations;
use super::page::{PageReader, Rows};
use super::value_location::ValueLocation;

/// At least one value in this many must be a number in the column's format; otherwise all values are read as texts.
const NUMBERS_DIVISOR: usize = 2;
/// Numbers in the format [`NumberFormat::Shortest`] are below this bound, which is within the exact range of doubles.
const SHORTEST_BOUND: u64 = 1_000_000_000_000_000;
/// Doubles are written with an exponent if they have no digit within this many decimal places.
const EXPONENT_DIGITS: u8 = 4;
/// Maximum number of dictionary entries that are parsed for the rows of a page.
const PARSED_ENTRIES_MAX: usize = 1_024;

/// The values of a field in these rows as numbers, with exceptions if there are any; `None` if too few values are
/// numbers.
pub(super) fn number_column(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    let keys = keys_of_rows(field, rows, page)?;
    let mut rows_of_key = vec![0usize; field.locations.len()];
    for row in rows.iter() {
        if let Some(count) = rows_of_key.get_mut(keys[row as usize] as usize) {
            *count += 1;
        }
    }
    let used = || field.locations.iter().zip(&rows_of_key).filter(|(_, rows)| **rows > 0);
    if used().any(|(place, _)| matches!(place, ValueLocation::List(_))) {
        return Ok(None);
    }
    let template_set = page.template_set();
    if !used().any(|(place, _)| may_be_number(place, template_set)) {
        return Ok(None);
    }
    let mut sources = Sources::default();
    for (place, _) in used() {
        sources.add(place, rows, page)?;
    }
    let Some(format) = sources.usual_format(used(), template_set) else { return Ok(None) };
    sources.parse_dictionaries(format, page)?;
    let value_of = |(place, rows): (&ValueLocation, &usize)| match rows {
        0 => KeyValue::Absent,
        _ => sources.value_of(place, format),
    };
    let values: Vec<KeyValue> = field.locations.iter().zip(&rows_of_key).map(value_of).collect();

    let mut found = FoundNumbers::with_capacity(rows.len());
    for row in rows.iter() {
        match sources.read(values.get(keys[row as usize] as usize).unwrap_or(&KeyValue::Absent), row) {
            NumberValue::Number(number) => found.push(number),
            NumberValue::Nothing => found.push_missing(),
            NumberValue::Exception => {
                found.exceptions.push(row);
                found.push_missing();
            }
        }
    }
    // A column of addresses has no exceptions.
    let exceptions_max = if format == NumberFormat::Ip4 { 0 } else { rows.len() / NUMBERS_DIVISOR };
    if found.exceptions.len() > exceptions_max {
        return Ok(None);
    }
    let exceptions = std::mem::take(&mut found.exceptions);
    let numbers = found.into_array(format)?;
    if exceptions.is_empty() {
        return Ok(Some(numbers));
    }
    let texts = exception_texts(field, &keys, rows, exceptions, page)?;
    mixed_column(numbers, texts).map(Some)
}

/// The numbers of rows, and the rows whose value is an exception.
struct FoundNumbers {
    /// 0 in rows without a number.
    numbers: Vec<i64>,
    has_number: Vec<bool>,
    missing: usize,
    exceptions: Vec<u32>,
}

impl FoundNumbers {
    fn with_capacity(rows: usize) -> FoundNumbers {
        FoundNumbers {
            numbers: Vec::with_capacity(rows),
            has_number: Vec::with_capacity(rows),
            missing: 0,
            exceptions: Vec::new(),
        }
    }

    #[inline]
    fn push(&mut self, number: i64) {
        self.numbers.push(number);
        self.has_number.push(true);
    }

    #[inline]
    fn push_missing(&mut self) {
        self.numbers.push(0);
        self.has_number.push(false);
        self.missing += 1;
    }

    fn into_array(self, format: NumberFormat) -> Result<ArrayRef, EngineError> {
        let has_number = |row: usize| self.has_number[row];
        let nulls = BooleanBuffer::collect_bool(self.has_number.len(), has_number);
        let nulls = (self.missing > 0).then(|| NullBuffer::new(nulls));
        Ok(match format {
            NumberFormat::Ip4 => {
                let addresses: Vec<u32> = self.numbers.into_iter().map(|number| number as u32).collect();
                Arc::new(UInt32Array::new(addresses.into(), nulls))
            }
            NumberFormat::Decimal { digits } => {
                let decimals = Decimal64Array::new(self.numbers.into(), nulls);
                Arc::new(decimals.with_precision_and_scale(DECIMAL_PRECISION, digits.cast_signed())?)
            }
            NumberFormat::Shortest { digits } => {
                // Both operands are exact doubles, so their quotient is the double nearest to the decimal.
                let unit = 10f64.powi(i32::from(digits));
                let doubles: Vec<f64> = self.numbers.into_iter().map(|number| number as f64 / unit).collect();
                Arc::new(Float64Array::new(doubles.into(), nulls))
            }
            _ => Arc::new(Int64Array::new(self.numbers.into(), nulls)),
        })
    }
}

/// The texts of the exceptions among these rows, and null in all other rows.
fn exception_texts(
    field: &FieldLocations,
    keys: &[u32],
    rows: &Rows,
    exceptions: Vec<u32>,
    page: &mut PageReader<'_>,
) -> Result<StringViewArray, EngineError> {
    let (texts, of_exceptions) = match constant_exceptions(field, keys, &exceptions) {
        Some((texts, of_exceptions)) => (Arc::new(StringViewArray::from_iter_values(texts)) as ArrayRef, of_exceptions),
        None => {
            let texts = column_from_mixed_locations(field, &Rows::Some(exceptions.clone()), page)?;
            (texts, (0..u32_of(exceptions.len())).collect())
        }
    };
    let (mut places, mut is_exception) = (vec![0; rows.len()], vec![false; rows.len()]);
    let mut left = exceptions.into_iter().zip(of_exceptions).peekable();
    for (at, row) in rows.iter().enumerate() {
        if let Some((_, text)) = left.next_if(|(exception, _)| *exception == row) {
            (places[at], is_exception[at]) = (text, true);
        }
    }
    let places = UInt32Array::new(places.into(), Some(NullBuffer::from(is_exception)));
    Ok(take(&texts, &places, None)?.as_string_view().clone())
}

/// The distinct texts of exceptions that are constants of their templates, and the index of each row's text among them;
/// `None` if a value must be read.
fn constant_exceptions<'f>(
    field: &'f FieldLocations,
    keys: &[u32],
    exceptions: &[u32],
) -> Option<(Vec<&'f str>, Vec<u32>)> {
    let mut place_of_key: Vec<Option<u32>> = vec![None; field.locations.len()];
    let mut texts: Vec<&str> = Vec::new();
    let mut places = Vec::with_capacity(exceptions.len());
    for row in exceptions {
        let key = keys[*row as usize] as usize;
        let place = place_of_key.get_mut(key)?;
        if place.is_none() {
            let ValueLocation::Constant(text) = field.locations.get(key)? else { return None };
            let known = texts.iter().position(|known| *known == text.as_ref());
            *place = Some(u32_of(known.unwrap_or(texts.len())));
            if known.is_none() {
                texts.push(text);
            }
        }
        places.extend(*place);
    }
    Some((texts, places))
}

/// The value of a field in the rows of one key (an extraction class and a template).
enum KeyValue {
    Absent,
    Constant(i64),
    /// In this column, given by its index in [`Sources`].
    Column(usize),
    /// In the first of these columns that has a value in the row.
    Columns(Box<[usize]>),
    Exception,
}

/// The value of a row of a column of numbers.
enum NumberValue {
    Nothing,
    Number(i64),
    /// Some value that is not a number of the column's format.
    Exception,
}

/// The columns that contain values of a field, each read in ascending row order.
#[derive(Default)]
struct Sources(Vec<NumberSource>);

/// A column that contains values of a field.
struct NumberSource {
    column: u32,
    values: Arc<PageColumn>,
    /// Position of the first value that does not belong to an earlier row.
    next: usize,
    numbers: SourceNumbers,
}

/// The numbers of a source in the format of the field's column.
enum SourceNumbers {
    /// No numbers: all values of the source are exceptions.
    Never,
    /// The values, multiplied by this power of ten.
    Values(i64),
    /// Decimals, multiplied by a power of ten. Exceptions are decimals with a redundant zero and products below `min`,
    /// because a double is written without such a zero, and a small double with an exponent.
    Decimals { factor: i64, min: u64 },
    /// By code; `None` for texts that are exceptions.
    ByCode(Vec<Option<i64>>),
}

impl Sources {
    /// Adds the columns of a location.
    fn add(&mut self, place: &ValueLocation, rows: &Rows, page: &mut PageReader<'_>) -> Result<(), EngineError> {
        for column in columns_of(place) {
            // The columns of a nested location are always needed, because they decide in which rows the value exists. A
            // text column at a fixed location need not be read: all its values are exceptions.
            let is_needed = matches!(place, ValueLocation::Nested(_)) || is_numeric(column, page.template_set());
            if is_needed && self.place_of(column).is_none() {
                let values = page.column_of_rows(column, rows)?;
                self.0.push(NumberSource { column, values, next: 0, numbers: SourceNumbers::Never });
            }
        }
        Ok(())
    }

    fn place_of(&self, column: u32) -> Option<usize> {
        self.0.iter().position(|source| source.column == column)
    }

    /// The format of most numbers; `None` if too few values are numbers of one format.
    fn usual_format<'f>(
        &self,
        used: impl Iterator<Item = (&'f ValueLocation, &'f usize)>,
        template_set: &TemplateSet,
    ) -> Option<NumberFormat> {
        let (mut counts, mut all): (Vec<(NumberFormat, usize)>, usize) = (Vec::new(), 0);
        let mut add = |format: Option<NumberFormat>, values: usize| {
            all += values;
            let Some(format) = format else { return };
            match counts.iter_mut().find(|(known, _)| *known == format) {
                Some((_, known)) => *known += values,
                None => counts.push((format, values)),
            }
        };
        for (place, rows) in used {
            match place {
                place if is_null(place) => {}
                ValueLocation::Constant(text) => add(format_of_text(text), *rows),
                ValueLocation::Variable(column) => add(format_of_column(*column, template_set), *rows),
                ValueLocation::Nested(nested) => nested.values.iter().for_each(|value| {
                    let values = self.place_of(value.column).map_or(0, |at| self.0[at].values.values.len());
                    add(format_of_column(value.column, template_set), values.min(*rows));
                }),
                _ => add(None, *rows),
            }
        }
        let most = counts.iter().copied().max_by_key(|(_, count)| *count)?;
        let is_enough = |count: usize| count * NUMBERS_DIVISOR >= all;
        let scales = counts.iter().filter_map(|(format, _)| match format {
            NumberFormat::Shortest { digits } => Some(*digits),
            NumberFormat::Decimal { digits } if !is_enough(most.1) => Some(*digits),
            _ => None,
        });
        let converted = scales.max().map(|digits| {
            let format = NumberFormat::Shortest { digits };
            let converted =
                counts.iter().filter(|(own, _)| !matches!(SourceNumbers::of(*own, format), SourceNumbers::Never));
            (format, converted.map(|(_, count)| *count).sum())
        });
        let (format, count) = converted.filter(|(_, count)| *count > most.1).unwrap_or(most);
        is_enough(count).then_some(format)
    }

    /// Finds out which values of the columns are numbers of this format.
    fn parse_dictionaries(&mut self, format: NumberFormat, page: &PageReader<'_>) -> Result<(), EngineError> {
        for source in &mut self.0 {
            source.numbers = match (&source.values.values, &page.template_set().columns[source.column as usize].kind) {
                (ColumnValues::Numbers(_), ColumnKind::Numbers { format: own, .. }) => SourceNumbers::of(*own, format),
                (ColumnValues::Codes(_), ColumnKind::Dictionary { len }) if *len as usize <= PARSED_ENTRIES_MAX => {
                    let texts = page.slab.dictionary_values(source.column)?;
                    let texts = texts.as_string_view();
                    let parse = |text: Option<&str>| text.and_then(|text| format.parse(text.as_bytes()));
                    SourceNumbers::ByCode(texts.iter().map(parse).collect())
                }
                _ => SourceNumbers::Never,
            };
        }
        Ok(())
    }

    fn value_of(&self, place: &ValueLocation, format: NumberFormat) -> KeyValue {
        match place {
            place if is_null(place) => KeyValue::Absent,
            ValueLocation::Constant(text) => {
                format.parse(text.as_bytes()).map_or(KeyValue::Exception, KeyValue::Constant)
            }
            // A column of texts has no source.
            place => match columns_of(place).map(|column| self.place_of(column)).collect::<Option<Box<[usize]>>>() {
                Some(columns) => match &*columns {
                    [] => KeyValue::Exception,
                    [column] => KeyValue::Column(*column),
                    _ => KeyValue::Columns(columns),
                },
                None => KeyValue::Exception,
            },
        }
    }

    /// The value of a row; rows are read in ascending order.
    #[inline]
    fn read(&mut self, value: &KeyValue, row: u32) -> NumberValue {
        match value {
            KeyValue::Absent => NumberValue::Nothing,
            KeyValue::Constant(number) => NumberValue::Number(*number),
            KeyValue::Exception => NumberValue::Exception,
            KeyValue::Column(at) => self.0[*at].read(row).unwrap_or(NumberValue::Nothing),
            KeyValue::Columns(columns) => {
                columns.iter().find_map(|at| self.0[*at].read(row)).unwrap_or(NumberValue::Nothing)
            }
        }
    }
}

impl SourceNumbers {
    /// The numbers of a source whose numbers have the format `own`, for a column with the format `format`.
    fn of(own: NumberFormat, format: NumberFormat) -> SourceNumbers {
        let power = |digits: u8| 10i64.pow(u32::from(digits));
        match (own, format) {
            (own, format) if own == format => SourceNumbers::Values(1),
            (NumberFormat::Integer, NumberFormat::Shortest { digits }) => SourceNumbers::Values(power(digits)),
            (NumberFormat::Shortest { digits: own }, NumberFormat::Shortest { digits }) if own <= digits => {
                SourceNumbers::Values(power(digits - own))
            }
            (NumberFormat::Decimal { digits: own }, NumberFormat::Shortest { digits }) if own <= digits => {
                let min = power(digits.saturating_sub(EXPONENT_DIGITS)).unsigned_abs();
                SourceNumbers::Decimals { factor: power(digits - own), min }
            }
            _ => SourceNumbers::Never,
        }
    }
}

impl NumberSource {
    /// The value in a row; `None` if the column has no value in the row.
    #[inline]
    fn read(&mut self, row: u32) -> Option<NumberValue> {
        let place = self.place(row)?;
        let number = match (&self.numbers, &self.values.values) {
            (SourceNumbers::Values(1), ColumnValues::Numbers(numbers)) => numbers.get(place).copied(),
            (SourceNumbers::Values(factor), ColumnValues::Numbers(numbers)) => {
                let number = numbers.get(place).and_then(|number| number.checked_mul(*factor));
                number.filter(|number| number.unsigned_abs() < SHORTEST_BOUND)
            }
            (SourceNumbers::Decimals { factor, min }, ColumnValues::Numbers(numbers)) => {
                let number = numbers.get(place).filter(|number| **number % 10 != 0);
                let number = number.and_then(|number| number.checked_mul(*factor));
                number.filter(|number| (*min..SHORTEST_BOUND).contains(&number.unsigned_abs()))
            }
            (SourceNumbers::ByCode(numbers), ColumnValues::Codes(codes)) => {
                codes.get(place).and_then(|code| *numbers.get(*code as usize)?)
            }
            _ => None,
        };
        Some(number.map_or(NumberValue::Exception, NumberValue::Number))
    }

    /// Position of a row's value; rows are requested in ascending order.
    #[inline]
    fn place(&mut self, row: u32) -> Option<usize> {
        let Some(rows) = &self.values.rows else { return Some(row as usize) };
        while rows.get(self.next).is_some_and(|known| *known < row) {
            self.next += 1;
        }
        (rows.get(self.next) == Some(&row)).then_some(self.next)
    }
}

/// The columns, one of which contains the value. For columns with JSON escapes, texts can be parsed as written: a value
/// with an escape or quotes is not a number, and resolving escapes does not change a number.
fn columns_of(place: &ValueLocation) -> impl Iterator<Item = u32> + '_ {
    let (one, several) = match place {
        ValueLocation::Variable(column) => (Some(*column), &[][..]),
        ValueLocation::Nested(nested) => (None, &*nested.values),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(several.iter().map(|value| value.column))
}

/// Whether values at this location may be integers, decimals or addresses.
fn may_be_number(place: &ValueLocation, template_set: &TemplateSet) -> bool {
    match place {
        ValueLocation::Constant(text) => format_of_text(text).is_some(),
        place => columns_of(place).any(|column| format_of_column(column, template_set).is_some()),
    }
}

fn format_of_text(text: &str) -> Option<NumberFormat> {
    NumberFormat::guess(text.as_bytes()).filter(is_plain)
}

/// The format of a column of integers, decimals or addresses.
fn format_of_column(column: u32, template_set: &TemplateSet) -> Option<NumberFormat> {
    match template_set.columns[column as usize].kind {
        ColumnKind::Numbers { format, .. } => Some(format).filter(is_plain),
        _ => None,
    }
}

fn is_plain(format: &NumberFormat) -> bool {
    matches!(
        format,
        NumberFormat::Integer | NumberFormat::Decimal { .. } | NumberFormat::Shortest { .. } | NumberFormat::Ip4
    )
}

/// Whether numbers can be read from a column without reading its texts row by row.
fn is_numeric(column: u32, template_set: &TemplateSet) -> bool {
    match template_set.columns[column as usize].kind {
        ColumnKind::Dictionary { len } => len as usize <= PARSED_ENTRIES_MAX,
        _ => format_of_column(column, template_set).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_several_scales_become_numbers_unless_a_double_has_another_text() {
        let format = NumberFormat::Shortest { digits: 5 };
        let read = |digits: u8, number: i64| {
            let values = PageColumn { rows: None, values: ColumnValues::Numbers(vec![number]) };
            let numbers = SourceNumbers::of(NumberFormat::Decimal { digits }, format);
            match (NumberSource { column: 0, values: Arc::new(values), next: 0, numbers }).read(0) {
                Some(NumberValue::Number(number)) => Some(number),
                _ => None,
            }
        };
        let written = |number: i64| quarry_event::value::format_number(number as f64 / 1e5);
        for (digits, number, text) in
            [(2, 81_442, "814.42"), (5, 878_871, "8.78871"), (1, -5, "-0.5"), (5, 11, "0.00011")]
        {
            assert_eq!(read(digits, number).map(written).as_deref(), Some(text));
        }
        // 287.30, 0.00009 and 100000000000.5; more digits than the column has.
        for (digits, number) in [(2, 28_730), (5, 9), (1, 1_000_000_000_005), (6, 1_234_567)] {
            assert_eq!(read(digits, number), None, "{number}");
        }
    }
}
