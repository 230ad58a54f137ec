//! The numbers of a column in the form that folds read: a double each, plus the information needed to output as many
//! digits as were read.
//!
//! Sums are computed on doubles, which represent most decimals only approximately. If the maximum number of decimal
//! places (the *scale*) is known, the sum rounded to this scale is the exact sum of the numbers as written.
//! Integers beyond 2^53 and timestamps have a *rest* in addition to their double.
//!
//! Not here: folds ([`super::fold`]).

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, Float64Array};
use arrow::buffer::NullBuffer;
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::decimal::Decimal;
use quarry_event::value::{MAX_EXACT_INTEGER, Number, parse_exact_number};
use quarry_stdx::number::{f64_of, integer_part, u8_of};

use crate::rows::{ColumnReader, DictionaryColumn, MixedColumn};

/// Scale of a number that has more digits than a [`Decimal`].
pub const NO_SCALE: u8 = u8::MAX;
/// Scale of a timestamp.
const TIME_SCALE: u8 = 9;
/// Length in bytes up to which a text cannot have more digits than a decimal keeps.
const SHORT_TEXT_BYTES: usize = 16;
/// Number of scales tried for doubles before the general method.
const SCALES_TRIED_MAX: usize = 10;
/// Seconds below which a number of nanoseconds fits into 64 bits.
const NANOS_I64_SECONDS_MAX: f64 = 9e9;

/// A number as the nearest double, the rest that the double lacks, and the scale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NumberParts {
    /// The nearest double.
    pub value: f64,
    /// Excess of the number over its double, in billionths. For an integer beyond 2^53, one billionth is added to the
    /// excess, so that the rest is never 0: a rest of 0 means that the double is the number.
    pub rest: i64,
    /// Decimal places, or [`NO_SCALE`].
    pub scale: u8,
}

/// A double in billionths.
fn nanos_of(value: f64) -> i128 {
    if value.abs() < NANOS_I64_SECONDS_MAX {
        // The conversion truncates; in this range, 64 bits give the same result.
        let whole: i64 = integer_part(value);
        let part = (value - f64_of(whole)) * f64_of(NS_PER_SEC);
        return (whole * NS_PER_SEC + integer_part::<i64>(part + 0.5f64.copysign(part))).into();
    }
    let rest = (value.fract() * f64_of(NS_PER_SEC)).round();
    integer_part::<i128>(value) * i128::from(NS_PER_SEC) + integer_part::<i128>(rest)
}

impl NumberParts {
    /// The parts of a number, including its scale.
    pub fn of(number: Number) -> NumberParts {
        let scale = Decimal::of(number).and_then(|decimal| u8::try_from(decimal.scale).ok());
        NumberParts { scale: scale.unwrap_or(NO_SCALE), ..NumberParts::without_scale(number) }
    }

    /// The parts of a number; the scale is not computed, but set to [`NO_SCALE`].
    pub fn without_scale(number: Number) -> NumberParts {
        let value = number.as_f64();
        let exact = match number {
            Number::Int(integer) if integer.unsigned_abs() > integer_part::<u64>(MAX_EXACT_INTEGER) => {
                i128::from(integer) * i128::from(NS_PER_SEC) + 1
            }
            Number::Nanos(ns) => i128::from(ns),
            Number::Int(_) | Number::Float(_) => return NumberParts { value, rest: 0, scale: NO_SCALE },
        };
        NumberParts { value, rest: (exact - nanos_of(value)) as i64, scale: NO_SCALE }
    }

    /// The number of a text, with its scale if requested.
    fn of_text(text: &str, with_scale: bool) -> Option<NumberParts> {
        let number = parse_exact_number(text)?;
        let figure = NumberParts::without_scale(number);
        Some(match with_scale {
            false => figure,
            true if text.len() <= SHORT_TEXT_BYTES && matches!(number, Number::Int(_)) => {
                NumberParts { scale: 0, ..figure }
            }
            true if text.len() <= SHORT_TEXT_BYTES && !text.contains(['e', 'E']) => {
                let digits = text.rfind('.').map_or(0, |point| text.len() - point - 1);
                NumberParts { scale: u8_of(digits), ..figure }
            }
            true => NumberParts::of(number),
        })
    }

    /// The rest as a double.
    #[inline]
    pub fn rest_as_double(self) -> f64 {
        match self.value.abs() >= MAX_EXACT_INTEGER {
            true => f64_of(self.rest.div_euclid(NS_PER_SEC)),
            false if self.rest == 0 && self.scale != TIME_SCALE => 0.0,
            // The number is a whole number of billionths, but its double is not; a long sum would show the difference.
            false => {
                let part = (self.value - self.value.trunc()) * f64_of(NS_PER_SEC);
                (f64_of(self.rest) + (part.round() - part)) / f64_of(NS_PER_SEC)
            }
        }
    }

    /// The number that consists of these parts.
    pub fn number(self) -> Number {
        match self.rest {
            0 => Number::of_float(self.value),
            rest if self.value.abs() >= MAX_EXACT_INTEGER => {
                let units = integer_part::<i128>(self.value) + i128::from(rest.div_euclid(NS_PER_SEC));
                Decimal { units, scale: 0 }.to_number()
            }
            rest => {
                Decimal { units: nanos_of(self.value) + i128::from(rest), scale: u32::from(TIME_SCALE) }.to_number()
            }
        }
    }
}

/// The numbers of a batch's rows.
pub struct NumberColumn {
    /// Doubles; null where a row has no number.
    pub values: Float64Array,
    /// The rest of each number; `None` if all rests are 0.
    rests: Option<Vec<i64>>,
    scales: Scales,
}

enum Scales {
    All(u8),
    Each(Vec<u8>),
}

impl NumberColumn {
    /// The number of a row, which must have one.
    #[inline]
    pub fn parts(&self, row: usize) -> NumberParts {
        let scale = match &self.scales {
            Scales::All(scale) => *scale,
            Scales::Each(scales) => scales[row],
        };
        let rest = self.rests.as_ref().map_or(0, |rests| rests[row]);
        NumberParts { value: self.values.value(row), rest, scale }
    }

    /// The doubles and their common scale, if there are no rests.
    pub fn plain(&self) -> Option<(&Float64Array, u8)> {
        match &self.scales {
            Scales::All(scale) if self.rests.is_none() => Some((&self.values, *scale)),
            _ => None,
        }
    }

    /// Whether doubles do not suffice to distinguish the numbers.
    pub fn has_rests(&self) -> bool {
        self.rests.is_some()
    }

    fn from_parts(figures: impl Iterator<Item = Option<NumberParts>>, rows: usize) -> NumberColumn {
        let (mut values, mut rests, mut scales) =
            (Vec::with_capacity(rows), Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut valid = BooleanBufferBuilder::new(rows);
        // The scale of the numbers so far, and whether all have it.
        let (mut common, mut is_common) = (None, true);
        let mut has_rests = false;
        for figure in figures {
            valid.append(figure.is_some());
            if let Some(figure) = figure {
                is_common &= *common.get_or_insert(figure.scale) == figure.scale;
            }
            let NumberParts { value, rest, scale } = figure.unwrap_or_default();
            has_rests |= rest != 0;
            values.push(value);
            rests.push(rest);
            scales.push(scale);
        }
        let nulls = Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0);
        let scales = match common.unwrap_or(0) {
            // With nine decimal places, the difference between the number and its double is added as well
            // (`NumberParts::rest_as_double`).
            scale if is_common && scale != TIME_SCALE => Scales::All(scale),
            _ => Scales::Each(scales),
        };
        NumberColumn { values: Float64Array::new(values.into(), nulls), rests: has_rests.then_some(rests), scales }
    }
}

/// Reads the numbers of one argument's columns, and caches the numbers of the last dictionary.
#[derive(Default)]
pub struct Numbers {
    dictionary: Option<(ArrayRef, Vec<Option<NumberParts>>)>,
    with_scales: bool,
}

impl Numbers {
    /// From now on, also reads scales.
    pub fn read_scales(&mut self) {
        self.with_scales = true;
    }

    /// The number of each row; `None` for multivalues.
    pub fn of(&mut self, column: &ColumnReader) -> Option<NumberColumn> {
        let plain = |values: Float64Array, scale| NumberColumn { values, rests: None, scales: Scales::All(scale) };
        let is_short = |value: &i64| value.unsigned_abs() <= integer_part::<u64>(MAX_EXACT_INTEGER);
        Some(match column {
            ColumnReader::Multi(..) => return None,
            ColumnReader::Float(array) if self.with_scales => {
                NumberColumn { values: array.clone(), rests: None, scales: scales_of(array) }
            }
            ColumnReader::Float(array) => plain(array.clone(), NO_SCALE),
            ColumnReader::Int(array) if array.values().iter().all(is_short) => plain(array.unary(f64_of), 0),
            ColumnReader::Decimal(array, digits) if array.values().iter().all(is_short) => {
                let unit = 10f64.powi(i32::from(*digits));
                plain(array.unary(|value| f64_of(value) / unit), *digits)
            }
            ColumnReader::Dictionary(column) => self.of_dictionary(column),
            ColumnReader::Mixed(mixed) => return self.of_mixed(mixed),
            ColumnReader::Int(_) | ColumnReader::Time(_) | ColumnReader::Decimal(..) => {
                let figures = (0..column.len()).map(|row| column.exact_number(row).map(NumberParts::without_scale));
                let scale = match column {
                    ColumnReader::Int(_) => 0,
                    ColumnReader::Decimal(_, digits) => *digits,
                    _ => TIME_SCALE,
                };
                NumberColumn { scales: Scales::All(scale), ..NumberColumn::from_parts(figures, column.len()) }
            }
            _ => {
                let (with_scales, mut scratch) = (self.with_scales, String::new());
                let figures =
                    (0..column.len()).map(|row| NumberParts::of_text(column.text(row, &mut scratch)?, with_scales));
                NumberColumn::from_parts(figures, column.len())
            }
        })
    }

    /// Like [`Self::of`], for a mixed column. Its texts are rarely numbers, so usually only its numbers are read.
    fn of_mixed(&mut self, mixed: &MixedColumn) -> Option<NumberColumn> {
        let numbers = self.of(&mixed.numbers)?;
        let parse = |row| NumberParts::of_text(mixed.texts.value(row), self.with_scales);
        if !mixed.text_rows().any(|row| parse(row).is_some()) {
            return Some(numbers);
        }
        let parts = |row| match mixed.is_text(row) {
            true => parse(row),
            false => numbers.values.is_valid(row).then(|| numbers.parts(row)),
        };
        Some(NumberColumn::from_parts((0..mixed.texts.len()).map(parts), mixed.texts.len()))
    }

    fn of_dictionary(&mut self, column: &DictionaryColumn) -> NumberColumn {
        let with_scales = self.with_scales;
        let known = self.dictionary.take().filter(|(values, _)| column.has_dictionary(values));
        let (_, figures) = self.dictionary.insert(known.unwrap_or_else(|| {
            let figures = column.texts.iter().map(|text| NumberParts::of_text(text?, with_scales)).collect();
            (column.values.clone(), figures)
        }));
        let rows = column.codes.len();
        match column.codes.null_count() {
            0 => NumberColumn::from_parts(column.codes.values().iter().map(|code| figures[*code as usize]), rows),
            _ => NumberColumn::from_parts(column.codes.iter().map(|code| figures[code? as usize]), rows),
        }
    }
}

/// The scales of doubles. Neighbours usually share a scale, so the previous row's scale is tried first.
fn scales_of(values: &Float64Array) -> Scales {
    const UNITS: [f64; SCALES_TRIED_MAX] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
    /// Decimals of fewer units than this are recovered exactly from their doubles.
    const UNITS_MAX: f64 = 1e15;
    let mut last = 0;
    let scales = values.iter().map(|value| {
        let value = value.unwrap_or(0.0);
        let units = value * UNITS[last];
        if units.abs() < UNITS_MAX && units.round() / UNITS[last] == value {
            return u8_of(last);
        }
        let scale = NumberParts::of(Number::Float(value)).scale;
        if usize::from(scale) < SCALES_TRIED_MAX {
            last = usize::from(scale);
        }
        scale
    });
    Scales::Each(scales.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn number_parts(array: ArrayRef) -> Vec<Option<Number>> {
        let mut numbers = Numbers::default();
        numbers.read_scales();
        let column = numbers.of(&ColumnReader::new(&array)).unwrap();
        (0..array.len()).map(|row| column.values.is_valid(row).then(|| column.parts(row).number())).collect()
    }

    #[test]
    fn number_parts_round_trip() {
        let texts =
            ["1", "-0.25", "9007199254740993", "-9223372036854775808", "1732060800.123456789", "1732060800.5", "x"];
        let expected: Vec<Option<Number>> = texts.iter().map(|text| parse_exact_number(text)).collect();
        assert_eq!(number_parts(Arc::new(StringViewArray::from_iter_values(texts))), expected);
        let wide = vec![i64::MAX, 1, i64::MIN, (1 << 53) + 1];
        assert_eq!(
            number_parts(Arc::new(Int64Array::from(wide.clone()))),
            wide.into_iter().map(|value| Some(Number::Int(value))).collect::<Vec<_>>()
        );
    }

    #[test]
    fn scales_equal_the_written_decimal_places() {
        for (text, scale) in
            [("7", 0), ("8.70", 2), ("1e-3", 3), ("0.1234567890123456789", NO_SCALE), ("1e300", NO_SCALE)]
        {
            assert_eq!(NumberParts::of_text(text, true).unwrap().scale, scale, "{text}");
        }
        let Scales::Each(scales) = scales_of(&Float64Array::from(vec![1.5, 0.25, 3.0, 1.0 / 3.0])) else { panic!() };
        assert_eq!(scales, [1, 2, 2, NO_SCALE]);
    }
}
