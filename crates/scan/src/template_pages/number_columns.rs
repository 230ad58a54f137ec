//! Typed columns of fields whose values are mostly numbers and whose location differs between templates.
//!
//! The format of most numbers is the format of the column. Decimals of several scales become doubles, because most of
//! them have no zeros at the end, so that the doubles are written as the same texts. Values in another form, such as `-`
//! for a missing size or a decimal with a zero at the end among them, are exceptions; only exceptions are read as
//! texts.
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
use quarry_stdx::number::{f64_of, low_u32, u32_of};

use super::columns::{column_from_mixed_locations, is_null};
use super::cursors::for_each_value;
use super::divided_keys::RowKeys;
use super::field_locations::FieldLocations;
use super::page::{PageReader, Rows};
use super::split_decimals::{DecimalTemplate, SplitDecimals};
use super::value_location::ValueLocation;

/// At least one value in this many must be a number in the column's format; otherwise all values are read as texts.
const NUMBERS_DIVISOR: usize = 2;
/// Numbers in the format [`NumberFormat::Shortest`] are below this bound, which is within the exact range of doubles.
const SHORTEST_BOUND: u64 = 1_000_000_000_000_000;
/// Decimal places of the smallest number in this format, 0.0001; smaller doubles are written with an exponent.
const SHORTEST_PLACES: u8 = 4;
/// About one in this many decimals with a fixed number of places ends with a zero.
const DECIMALS_PER_ZERO: usize = 10;
/// Maximum number of dictionary entries that are parsed for the rows of a page.
const PARSED_ENTRIES_MAX: usize = 1_024;

/// The values of a field in these rows as numbers, with exceptions if there are any; `None` if too few values are
/// numbers.
pub(super) fn number_column(
    field: &FieldLocations,
    rows: &Rows,
    keys: &RowKeys,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    let used = || keys.used(field).map(|(_, place, rows)| (place, rows));
    let template_set = page.template_set();
    if used().any(|(place, _)| matches!(place, ValueLocation::List(_)))
        || !used().any(|(place, _)| may_be_number(place, template_set))
    {
        return Ok(None);
    }
    let mut sources = Sources::default();
    for (place, _) in used() {
        sources.add(place, rows, page)?;
    }
    let Some(format) = sources.usual_format(used(), template_set) else { return Ok(None) };
    sources.parse_dictionaries(format, page)?;
    let mut values: Vec<KeyValue> = Vec::new();
    values.resize_with(field.locations.len(), || KeyValue::Absent);
    keys.used(field).for_each(|(key, place, _)| values[key] = sources.value_of(place, format));

    let mut found = FoundNumbers::new(rows.len());
    sources.read(&values, &keys.keys, rows, &mut found);
    let exceptions = found.exceptions(rows);
    // A column of addresses has no exceptions.
    let exceptions_max = if format == NumberFormat::Ip4 { 0 } else { rows.len() / NUMBERS_DIVISOR };
    if exceptions.len() > exceptions_max {
        return Ok(None);
    }
    let numbers = found.into_array(format)?;
    if exceptions.is_empty() {
        return Ok(Some(numbers));
    }
    let texts = exception_texts(field, &keys.keys, rows, exceptions, page)?;
    mixed_column(numbers, texts).map(Some)
}

/// Values found in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Number,
    /// Some value that is not a number of the column's format.
    Exception,
}

/// The numbers of rows, and the rows whose value is an exception.
struct FoundNumbers {
    /// 0 in rows without a number.
    numbers: Vec<i64>,
    values: Vec<Found>,
}

impl FoundNumbers {
    fn new(rows: usize) -> FoundNumbers {
        FoundNumbers { numbers: vec![0; rows], values: vec![Found::Nothing; rows] }
    }

    /// Sets the value of a row that has none yet; `None` is an exception.
    #[inline]
    fn set(&mut self, at: usize, number: Option<i64>) {
        if self.values[at] == Found::Nothing {
            self.values[at] = if number.is_some() { Found::Number } else { Found::Exception };
            self.numbers[at] = number.unwrap_or(0);
        }
    }

    /// Those of the rows whose value is an exception.
    fn exceptions(&self, rows: &Rows) -> Vec<u32> {
        if !self.values.contains(&Found::Exception) {
            return Vec::new();
        }
        let all = rows.iter().zip(&self.values);
        all.filter(|(_, found)| **found == Found::Exception).map(|(row, _)| row).collect()
    }

    fn into_array(self, format: NumberFormat) -> Result<ArrayRef, EngineError> {
        let has_number = |at: usize| self.values[at] == Found::Number;
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(self.values.len(), has_number));
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        Ok(match format {
            NumberFormat::Ip4 => {
                let addresses: Vec<u32> = self.numbers.into_iter().map(low_u32).collect();
                Arc::new(UInt32Array::new(addresses.into(), nulls))
            }
            NumberFormat::Decimal { digits } => {
                let decimals = Decimal64Array::new(self.numbers.into(), nulls);
                Arc::new(decimals.with_precision_and_scale(DECIMAL_PRECISION, digits.cast_signed())?)
            }
            NumberFormat::Shortest { digits } => {
                // Both operands are exact doubles, so their quotient is the double nearest to the decimal.
                let unit = 10f64.powi(i32::from(digits));
                let doubles: Vec<f64> = self.numbers.into_iter().map(|number| f64_of(number) / unit).collect();
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
    /// In the first of these columns, given by their indexes in [`Sources`], that has a value in the row.
    Columns(Box<[usize]>),
    Exception,
}

impl KeyValue {
    fn columns(&self) -> &[usize] {
        match self {
            KeyValue::Columns(columns) => columns,
            KeyValue::Absent | KeyValue::Constant(_) | KeyValue::Exception => &[],
        }
    }
}

/// Conversion of the numbers of one format to numbers of another that are written as the same texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaling {
    Same,
    /// Multiplied by this power of ten.
    Times(i64),
    /// Decimals, multiplied by this power of ten. [`NumberFormat::Shortest`] drops zeros at the end and lacks numbers
    /// whose magnitude is below `smallest`.
    Decimal {
        factor: i64,
        smallest: u64,
    },
}

impl Scaling {
    /// The conversion from one format to another; `None` if the texts would differ.
    fn between(own: NumberFormat, other: NumberFormat) -> Option<Scaling> {
        let power = |digits: u8| 10i64.pow(u32::from(digits));
        match (own, other) {
            (own, other) if own == other => Some(Scaling::Same),
            (_, NumberFormat::Shortest { digits }) => {
                let factor = power(digits.checked_sub(places(&own))?);
                match own {
                    NumberFormat::Integer | NumberFormat::Shortest { .. } => Some(Scaling::Times(factor)),
                    NumberFormat::Decimal { .. } => {
                        let smallest = power(digits.saturating_sub(SHORTEST_PLACES)).unsigned_abs();
                        Some(Scaling::Decimal { factor, smallest })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    #[inline]
    fn apply(self, number: i64) -> Option<i64> {
        let scaled = match self {
            Scaling::Same => return Some(number),
            Scaling::Times(factor) => number.checked_mul(factor),
            Scaling::Decimal { factor, smallest } => {
                number.checked_mul(factor).filter(|scaled| number % 10 != 0 && scaled.unsigned_abs() >= smallest)
            }
        };
        scaled.filter(|scaled| scaled.unsigned_abs() < SHORTEST_BOUND)
    }

    /// Probable number of numbers, among this many, that the other format has.
    fn converted(self, numbers: usize) -> usize {
        match self {
            Scaling::Same | Scaling::Times(_) => numbers,
            Scaling::Decimal { .. } => numbers - numbers / DECIMALS_PER_ZERO,
        }
    }
}

/// The columns that contain values of a field.
#[derive(Default)]
struct Sources(Vec<NumberSource>);

/// A column that contains values of a field.
struct NumberSource {
    column: u32,
    values: Arc<PageColumn>,
    /// The numbers of a column with templates.
    decimals: Option<SplitDecimals>,
    numbers: SourceNumbers,
}

/// The numbers of a source in the format of the field's column.
enum SourceNumbers {
    /// No numbers: all values of the source are exceptions.
    Never,
    /// The values, scaled.
    Values(Scaling),
    /// By code; `None` for texts that are exceptions.
    ByCode(Vec<Option<i64>>),
    /// By value of the column; `None` for exceptions.
    ByValue(Vec<Option<i64>>),
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
                let decimals = match DecimalTemplate::of(column, page.template_set()) {
                    Some(template) => template.read(&values, rows, page)?,
                    None => None,
                };
                self.0.push(NumberSource { column, values, decimals, numbers: SourceNumbers::Never });
            }
        }
        Ok(())
    }

    fn place_of(&self, column: u32) -> Option<usize> {
        self.0.iter().position(|source| source.column == column)
    }

    /// The format of the numbers of a column.
    fn format_of(&self, column: u32, template_set: &TemplateSet) -> Option<NumberFormat> {
        let decimals = self.place_of(column).and_then(|at| self.0[at].decimals.as_ref());
        decimals.map(|decimals| decimals.format).or_else(|| format_of_column(column, template_set))
    }

    /// The format of most numbers; `None` if too few values are numbers of one format.
    fn usual_format<'f>(
        &self,
        used: impl Iterator<Item = (&'f ValueLocation, usize)>,
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
                ValueLocation::Constant(text) => add(format_of_text(text), rows),
                ValueLocation::Variable(column) => add(self.format_of(*column, template_set), rows),
                ValueLocation::Nested(nested) => nested.values.iter().for_each(|value| {
                    let values = self.place_of(value.column).map_or(0, |at| self.0[at].values.values.len());
                    add(self.format_of(value.column, template_set), values.min(rows));
                }),
                _ => add(None, rows),
            }
        }
        let most = counts.iter().copied().max_by_key(|(_, count)| *count)?;
        let digits = counts.iter().map(|(format, _)| places(format)).max().filter(|digits| *digits > 0);
        let converted = digits.map(|digits| {
            let format = NumberFormat::Shortest { digits };
            let of = |(own, count): &(NumberFormat, usize)| Some(Scaling::between(*own, format)?.converted(*count));
            (format, counts.iter().filter_map(of).sum::<usize>())
        });
        let (format, count) = converted.filter(|(_, count)| *count > most.1).unwrap_or(most);
        (count * NUMBERS_DIVISOR >= all).then_some(format)
    }

    /// Finds out which values of the columns are numbers of this format.
    fn parse_dictionaries(&mut self, format: NumberFormat, page: &PageReader<'_>) -> Result<(), EngineError> {
        for source in &mut self.0 {
            if let Some(SplitDecimals { format: own, numbers }) = &source.decimals {
                let scaled = |scaling: Scaling| numbers.iter().map(|number| scaling.apply((*number)?)).collect();
                let scaling = Scaling::between(*own, format);
                source.numbers =
                    scaling.map_or(SourceNumbers::Never, |scaling| SourceNumbers::ByValue(scaled(scaling)));
                continue;
            }
            source.numbers = match (&source.values.values, &page.template_set().columns[source.column as usize].kind) {
                (ColumnValues::Numbers(_), ColumnKind::Numbers { format: own, .. }) => {
                    Scaling::between(*own, format).map_or(SourceNumbers::Never, SourceNumbers::Values)
                }
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
                Some(columns) if !columns.is_empty() => KeyValue::Columns(columns),
                _ => KeyValue::Exception,
            },
        }
    }

    /// Reads the values of these rows, given by key, column by column.
    fn read(&self, values: &[KeyValue], keys: &[u32], rows: &Rows, found: &mut FoundNumbers) {
        let is_fixed = |value: &KeyValue| matches!(value, KeyValue::Constant(_) | KeyValue::Exception);
        if values.iter().any(is_fixed) {
            rows.iter().enumerate().for_each(|(at, row)| match values.get(keys[row as usize] as usize) {
                Some(KeyValue::Constant(number)) => found.set(at, Some(*number)),
                Some(KeyValue::Exception) => found.set(at, None),
                _ => {}
            });
        }
        let turns = values.iter().map(|value| value.columns().len()).max().unwrap_or(0);
        for turn in 0..turns {
            let in_turn = |value: &KeyValue| value.columns().get(turn).copied();
            let source_of: Vec<Option<usize>> = values.iter().map(in_turn).collect();
            let mut is_used = vec![false; self.0.len()];
            source_of.iter().flatten().for_each(|number| is_used[*number] = true);
            for (number, source) in self.0.iter().enumerate().filter(|(number, _)| is_used[*number]) {
                source.read(rows, |row| source_of.get(keys[row as usize] as usize) == Some(&Some(number)), found);
            }
        }
    }
}

impl NumberSource {
    /// Reads the values of those of the rows for which `is_here` is true.
    fn read(&self, rows: &Rows, is_here: impl Fn(u32) -> bool, found: &mut FoundNumbers) {
        let mut visit = |at: usize, row: u32, number: Option<i64>| {
            if is_here(row) {
                found.set(at, number);
            }
        };
        match (&self.numbers, &self.values.values) {
            (SourceNumbers::Values(scaling), ColumnValues::Numbers(numbers)) => {
                let number = |place: usize| numbers.get(place).and_then(|number| scaling.apply(*number));
                for_each_value(&self.values, rows, |at, row, place| visit(at, row, number(place)));
            }
            (SourceNumbers::ByCode(numbers), ColumnValues::Codes(codes)) => {
                let number = |place: usize| codes.get(place).and_then(|code| *numbers.get(*code as usize)?);
                for_each_value(&self.values, rows, |at, row, place| visit(at, row, number(place)));
            }
            (SourceNumbers::ByValue(numbers), _) => {
                let number = |place: usize| numbers.get(place).copied().flatten();
                for_each_value(&self.values, rows, |at, row, place| visit(at, row, number(place)));
            }
            _ => for_each_value(&self.values, rows, |at, row, _| visit(at, row, None)),
        }
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
        place => columns_of(place).any(|column| {
            format_of_column(column, template_set).is_some() || DecimalTemplate::of(column, template_set).is_some()
        }),
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
    matches!(format, NumberFormat::Integer | NumberFormat::Decimal { .. } | NumberFormat::Ip4) || is_shortest(format)
}

fn is_shortest(format: &NumberFormat) -> bool {
    matches!(format, NumberFormat::Shortest { .. })
}

/// Number of decimal places by which a format scales its stored numbers.
fn places(format: &NumberFormat) -> u8 {
    match format {
        NumberFormat::Decimal { digits } | NumberFormat::Shortest { digits } => *digits,
        _ => 0,
    }
}

/// Whether numbers can be read from a column without reading its texts row by row.
fn is_numeric(column: u32, template_set: &TemplateSet) -> bool {
    match template_set.columns[column as usize].kind {
        ColumnKind::Dictionary { len } => len as usize <= PARSED_ENTRIES_MAX,
        ColumnKind::Templates(_) => DecimalTemplate::of(column, template_set).is_some(),
        _ => format_of_column(column, template_set).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::template::{Column, ValueTraits};

    use super::*;

    const fn decimal(digits: u8) -> NumberFormat {
        NumberFormat::Decimal { digits }
    }

    const fn shortest(digits: u8) -> NumberFormat {
        NumberFormat::Shortest { digits }
    }

    fn text(format: NumberFormat, number: i64) -> String {
        let mut text = Vec::new();
        format.write(number, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn decimals_become_doubles_that_are_written_as_the_same_texts() {
        let cases = [
            (decimal(2), 1255, shortest(4), Some(125_500)),
            (decimal(2), -5, shortest(2), Some(-5)),
            // Shortest numbers have no zeros at the end, and none has an exponent.
            (decimal(2), 1250, shortest(4), None),
            (decimal(1), 0, shortest(3), None),
            (decimal(6), 99, shortest(6), None),
            (decimal(6), 101, shortest(6), Some(101)),
            (decimal(5), 9, shortest(6), None),
            (decimal(5), 11, shortest(6), Some(110)),
            (decimal(3), 999_999_999_999_999, shortest(4), None),
            (NumberFormat::Integer, 120, shortest(3), Some(120_000)),
            (shortest(2), 120, shortest(3), Some(1_200)),
            (decimal(3), 1_500, decimal(3), Some(1_500)),
        ];
        for (own, number, other, expected) in cases {
            let found = Scaling::between(own, other).unwrap().apply(number);
            assert_eq!(found, expected, "{own:?} {number} {other:?}");
            if let Some(found) = found {
                assert_eq!(text(other, found), text(own, number));
                assert_eq!(other.parse(text(own, number).as_bytes()), Some(found));
            } else {
                assert_eq!(other.parse(text(own, number).as_bytes()), None);
            }
        }
        let never = [(decimal(3), shortest(2)), (decimal(2), decimal(3)), (NumberFormat::Ip4, shortest(3))];
        assert!(never.iter().all(|(own, other)| Scaling::between(*own, *other).is_none()));
    }

    #[test]
    fn the_usual_format_unites_decimals_of_several_scales() {
        let column = |format| Column {
            parent: None,
            values: 1,
            kind: ColumnKind::Numbers { format, min: 0, max: 9 },
            traits: ValueTraits::default(),
        };
        let columns = [decimal(3), decimal(4), NumberFormat::Integer].map(column).into();
        let template_set = TemplateSet { columns, ..TemplateSet::default() };
        let usual = |rows: [usize; 3]| {
            let places = [0, 1, 2].map(ValueLocation::Variable);
            Sources::default().usual_format(places.iter().zip(rows).filter(|(_, rows)| *rows > 0), &template_set)
        };
        assert_eq!(usual([40, 40, 20]), Some(shortest(4)));
        // One decimal in ten probably ends with a zero, which doubles lack.
        assert_eq!(usual([90, 10, 0]), Some(decimal(3)));
        assert_eq!(usual([30, 0, 70]), Some(shortest(3)));
        assert_eq!(usual([0, 0, 9]), Some(NumberFormat::Integer));
    }
}
