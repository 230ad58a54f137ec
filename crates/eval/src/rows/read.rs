//! Row-wise reading of a column; the type is resolved once per column.
//!
//! Columns of a scan may be *coded*: texts as dictionary codes, addresses as 32 bits, decimals as integers with a known
//! scale, mixed columns as a struct of two columns. A coded value reads exactly as it was written.

use std::borrow::Cow;

use arrow::array::TimestampNanosecondArray;
use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray, Decimal64Array, Float64Array, Int64Array, ListArray};
use arrow::array::{StringViewArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal64Type, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType, UInt32Type,
};
use quarry_event::template::ip4_text;
use quarry_event::value::decimal::Decimal;
use quarry_event::value::{MAX_EXACT_INTEGER, Number, parse_number, write_integer, write_nanos, write_number};
use quarry_stdx::number::{f64_of, integer_part, low_u8};

use super::{FALSE_TEXT, MULTI_SEPARATOR, MixedColumn, TRUE_TEXT, Value, multi_type, time_seconds};

/// Maximum scale of a decimal column.
const DECIMAL_DIGITS_MAX: i8 = 9;

/// A column, downcast to its type.
#[derive(Clone, Debug)]
pub enum ColumnReader {
    /// A column of this many nulls.
    Null(usize),
    /// Booleans.
    Bool(BooleanArray),
    /// Integers.
    Int(Int64Array),
    /// Floating-point numbers.
    Float(Float64Array),
    /// Timestamps.
    Time(TimestampNanosecondArray),
    /// Texts.
    Text(StringViewArray),
    /// Texts by their code.
    Dictionary(DictionaryColumn),
    /// IPv4 addresses, first octet in the highest bits.
    Address(UInt32Array),
    /// Decimals as integers, with their scale.
    Decimal(Decimal64Array, u8),
    /// Numbers, or texts in rows with another value.
    Mixed(Box<MixedColumn>),
    /// Multivalues: the lists and their items.
    Multi(ListArray, StringViewArray),
}

/// Codes, and the texts that they represent.
#[derive(Clone, Debug)]
pub struct DictionaryColumn {
    /// A code per row.
    pub codes: UInt32Array,
    /// The text of each code.
    pub texts: StringViewArray,
    /// The texts as shared by a scan's batches.
    pub values: ArrayRef,
}

impl DictionaryColumn {
    /// The code of a row; `None` for null.
    #[inline]
    pub fn code(&self, row: usize) -> Option<usize> {
        let code = self.codes.is_valid(row).then(|| self.codes.value(row) as usize)?;
        (self.texts.null_count() == 0 || self.texts.is_valid(code)).then_some(code)
    }

    /// Whether every row has a value.
    pub fn is_complete(&self) -> bool {
        self.codes.null_count() == 0 && self.texts.null_count() == 0
    }

    /// Whether `values` is the dictionary of this column, so that equal codes mean equal texts.
    pub fn has_dictionary(&self, values: &ArrayRef) -> bool {
        same_array(&self.values, values)
    }
}

/// Whether both are the same array in memory.
fn same_array(a: &ArrayRef, b: &ArrayRef) -> bool {
    std::sync::Arc::ptr_eq(a, b)
        || match (a.as_string_view_opt(), b.as_string_view_opt()) {
            (Some(a), Some(b)) => {
                a.len() == b.len()
                    && a.views().as_ptr() == b.views().as_ptr()
                    && a.nulls().is_some() == b.nulls().is_some()
            }
            _ => false,
        }
}

impl ColumnReader {
    /// Reads `array`; unsupported types are converted to the nearest supported one.
    pub fn new(array: &ArrayRef) -> ColumnReader {
        match array.data_type() {
            DataType::Null => ColumnReader::Null(array.len()),
            DataType::Boolean => ColumnReader::Bool(array.as_boolean().clone()),
            DataType::Int64 => ColumnReader::Int(array.as_primitive::<Int64Type>().clone()),
            DataType::Float64 => ColumnReader::Float(array.as_primitive::<Float64Type>().clone()),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                ColumnReader::Time(array.as_primitive::<TimestampNanosecondType>().clone())
            }
            DataType::Utf8View => ColumnReader::Text(array.as_string_view().clone()),
            DataType::UInt32 => ColumnReader::Address(array.as_primitive::<UInt32Type>().clone()),
            DataType::Decimal64(_, digits @ 1..=DECIMAL_DIGITS_MAX) => {
                ColumnReader::Decimal(array.as_primitive::<Decimal64Type>().clone(), digits.cast_unsigned())
            }
            DataType::Dictionary(code, value)
                if code.as_ref() == &DataType::UInt32 && value.as_ref() == &DataType::Utf8View =>
            {
                let dictionary = array.as_dictionary::<UInt32Type>();
                ColumnReader::Dictionary(DictionaryColumn {
                    codes: dictionary.keys().clone(),
                    texts: dictionary.values().as_string_view().clone(),
                    values: dictionary.values().clone(),
                })
            }
            DataType::List(item) if item.data_type() == &DataType::Utf8View => {
                let list = array.as_list::<i32>().clone();
                let items = list.values().as_string_view().clone();
                ColumnReader::Multi(list, items)
            }
            DataType::Struct(_) => match MixedColumn::of(array.as_struct()) {
                Some(mixed) => ColumnReader::Mixed(Box::new(mixed)),
                None => ColumnReader::Null(array.len()),
            },
            _ => ColumnReader::new_foreign(array),
        }
    }

    /// A column of nulls.
    pub fn null(rows: usize) -> ColumnReader {
        ColumnReader::Null(rows)
    }

    fn new_foreign(array: &ArrayRef) -> ColumnReader {
        let target = match array.data_type() {
            kind if kind.is_integer() => DataType::Int64,
            kind if kind.is_floating() || matches!(kind, DataType::Decimal128(..)) => DataType::Float64,
            DataType::Timestamp(..) => super::TIME_TYPE,
            DataType::List(_) | DataType::LargeList(_) => multi_type(),
            _ => DataType::Utf8View,
        };
        match arrow::compute::cast(array, &target) {
            Ok(array) if array.data_type() == &target => ColumnReader::new(&array),
            // A type that cannot be converted has no SPL value.
            _ => ColumnReader::Null(array.len()),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            ColumnReader::Null(rows) => *rows,
            ColumnReader::Bool(array) => array.len(),
            ColumnReader::Int(array) => array.len(),
            ColumnReader::Float(array) => array.len(),
            ColumnReader::Time(array) => array.len(),
            ColumnReader::Text(array) => array.len(),
            ColumnReader::Dictionary(column) => column.codes.len(),
            ColumnReader::Address(array) => array.len(),
            ColumnReader::Decimal(array, _) => array.len(),
            ColumnReader::Mixed(mixed) => mixed.texts.len(),
            ColumnReader::Multi(array, _) => array.len(),
        }
    }

    /// Whether the row is null.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        match self {
            ColumnReader::Null(_) => true,
            ColumnReader::Bool(array) => array.is_null(row),
            ColumnReader::Int(array) => array.is_null(row),
            ColumnReader::Float(array) => array.is_null(row),
            ColumnReader::Time(array) => array.is_null(row),
            ColumnReader::Text(array) => array.is_null(row),
            ColumnReader::Dictionary(column) => column.code(row).is_none(),
            ColumnReader::Address(array) => array.is_null(row),
            ColumnReader::Decimal(array, _) => array.is_null(row),
            ColumnReader::Mixed(mixed) => !mixed.is_text(row) && mixed.numbers.is_null(row),
            ColumnReader::Multi(array, _) => array.is_null(row) || array.value_length(row) == 0,
        }
    }

    /// Marks the rows that are not null; `None` if no row is null.
    pub fn validity(&self) -> Option<NullBuffer> {
        let nulls = match self {
            ColumnReader::Null(rows) => Some(NullBuffer::new_null(*rows)),
            ColumnReader::Bool(array) => array.nulls().cloned(),
            ColumnReader::Int(array) => array.nulls().cloned(),
            ColumnReader::Float(array) => array.nulls().cloned(),
            ColumnReader::Time(array) => array.nulls().cloned(),
            ColumnReader::Text(array) => array.nulls().cloned(),
            ColumnReader::Address(array) => array.nulls().cloned(),
            ColumnReader::Decimal(array, _) => array.nulls().cloned(),
            ColumnReader::Mixed(mixed) => mixed.validity(),
            ColumnReader::Dictionary(column) if column.texts.null_count() == 0 => column.codes.nulls().cloned(),
            ColumnReader::Dictionary(_) | ColumnReader::Multi(..) => {
                Some((0..self.len()).map(|row| !self.is_null(row)).collect())
            }
        };
        nulls.filter(|nulls| nulls.null_count() > 0)
    }

    /// The canonical text, written to `scratch` unless the column contains it as text. A multivalue is joined by
    /// newlines.
    #[inline]
    pub fn text<'a>(&'a self, row: usize, scratch: &'a mut String) -> Option<&'a str> {
        if let ColumnReader::Text(array) = self {
            return array.is_valid(row).then(|| array.value(row));
        }
        if let ColumnReader::Dictionary(column) = self {
            return column.code(row).map(|code| column.texts.value(code));
        }
        if let ColumnReader::Mixed(mixed) = self
            && mixed.is_text(row)
        {
            return Some(mixed.texts.value(row));
        }
        if self.is_null(row) {
            return None;
        }
        scratch.clear();
        self.write_text(row, scratch);
        Some(scratch)
    }

    /// Appends the text of a row that is not null.
    fn write_text(&self, row: usize, out: &mut String) {
        match self {
            ColumnReader::Null(_) => {}
            ColumnReader::Bool(array) => out.push_str(if array.value(row) { TRUE_TEXT } else { FALSE_TEXT }),
            ColumnReader::Int(array) => write_integer(array.value(row), out),
            ColumnReader::Float(array) => write_number(array.value(row), out),
            ColumnReader::Time(array) => write_nanos(array.value(row), out),
            ColumnReader::Text(array) => out.push_str(array.value(row)),
            ColumnReader::Dictionary(column) => {
                out.push_str(column.code(row).map_or("", |code| column.texts.value(code)));
            }
            ColumnReader::Address(array) => write_address(array.value(row), out),
            ColumnReader::Decimal(array, digits) => write_decimal(array.value(row), *digits, out),
            ColumnReader::Mixed(mixed) if mixed.is_text(row) => out.push_str(mixed.texts.value(row)),
            ColumnReader::Mixed(mixed) => mixed.numbers.write_text(row, out),
            ColumnReader::Multi(..) => {
                for (at, value) in self.values(row).enumerate() {
                    if at > 0 {
                        out.push_str(MULTI_SEPARATOR);
                    }
                    out.push_str(&value);
                }
            }
        }
    }

    /// The value as a number; a multivalue with several values is not a number.
    #[inline]
    pub fn number(&self, row: usize) -> Option<f64> {
        if self.is_null(row) {
            return None;
        }
        match self {
            ColumnReader::Null(_) | ColumnReader::Bool(_) => None,
            ColumnReader::Int(array) => Some(f64_of(array.value(row))),
            ColumnReader::Float(array) => Some(array.value(row)),
            ColumnReader::Time(array) => Some(time_seconds(array.value(row))),
            ColumnReader::Text(array) => parse_number(array.value(row)),
            ColumnReader::Dictionary(column) => {
                column.code(row).and_then(|code| parse_number(column.texts.value(code)))
            }
            ColumnReader::Address(_) => None,
            ColumnReader::Decimal(array, digits) => decimal_number(array.value(row), *digits),
            ColumnReader::Mixed(mixed) if mixed.is_text(row) => parse_number(mixed.texts.value(row)),
            ColumnReader::Mixed(mixed) => mixed.numbers.number(row),
            ColumnReader::Multi(..) => self.value(row).number(),
        }
    }

    /// The value as a decimal, if the column holds integers, decimals, or doubles that are exact decimals.
    #[inline]
    pub fn decimal(&self, row: usize) -> Option<Decimal> {
        match self {
            ColumnReader::Int(array) => {
                array.is_valid(row).then(|| Decimal { units: array.value(row).into(), scale: 0 })
            }
            ColumnReader::Decimal(array, digits) => {
                array.is_valid(row).then(|| Decimal { units: array.value(row).into(), scale: u32::from(*digits) })
            }
            ColumnReader::Float(array) if array.is_valid(row) => Decimal::of_float(array.value(row)),
            ColumnReader::Mixed(mixed) => mixed.numbers.decimal(row),
            _ => None,
        }
    }

    /// The value as a number with as many digits as possible.
    #[inline]
    pub fn exact_number(&self, row: usize) -> Option<Number> {
        match self {
            ColumnReader::Int(array) => array.is_valid(row).then(|| Number::Int(array.value(row))),
            ColumnReader::Float(array) => array.is_valid(row).then(|| Number::Float(array.value(row))),
            ColumnReader::Time(array) => array.is_valid(row).then(|| Number::Nanos(array.value(row))),
            ColumnReader::Decimal(array, digits) => {
                let decimal = || Decimal { units: array.value(row).into(), scale: u32::from(*digits) };
                array.is_valid(row).then(|| decimal().to_number())
            }
            ColumnReader::Mixed(mixed) if !mixed.is_text(row) => mixed.numbers.exact_number(row),
            _ => self.value(row).exact_number(),
        }
    }

    /// The value of a row. A multivalue of one value is a text.
    #[inline]
    pub fn value(&self, row: usize) -> Value<'_> {
        if self.is_null(row) {
            return Value::Null;
        }
        match self {
            ColumnReader::Null(_) => Value::Null,
            ColumnReader::Bool(array) => Value::Bool(array.value(row)),
            ColumnReader::Int(array) => Value::Int(array.value(row)),
            ColumnReader::Float(array) => Value::Float(array.value(row)),
            ColumnReader::Time(array) => Value::Time(array.value(row)),
            ColumnReader::Text(array) => Value::Text(Cow::Borrowed(array.value(row))),
            ColumnReader::Dictionary(column) => {
                column.code(row).map_or(Value::Null, |code| Value::borrowed_text(column.texts.value(code)))
            }
            // The value is the text, not the number: `8.70` stays `8.70`.
            ColumnReader::Address(_) | ColumnReader::Decimal(..) => {
                let mut text = String::new();
                self.write_text(row, &mut text);
                Value::owned_text(text)
            }
            ColumnReader::Mixed(mixed) if mixed.is_text(row) => Value::borrowed_text(mixed.texts.value(row)),
            ColumnReader::Mixed(mixed) => mixed.numbers.value(row),
            ColumnReader::Multi(..) => Value::multi(self.values(row).collect()),
        }
    }

    /// The number of a row, if it is stored as an integer, a decimal or a double.
    #[inline]
    pub fn stored_number(&self, row: usize) -> Option<f64> {
        match self {
            ColumnReader::Int(_) | ColumnReader::Decimal(..) | ColumnReader::Float(_) => self.number(row),
            ColumnReader::Mixed(mixed) if !mixed.is_text(row) => mixed.numbers.number(row),
            _ => None,
        }
    }

    /// Every value of a row as text: none for null, one for a plain value.
    #[inline]
    pub fn values(&self, row: usize) -> Values<'_> {
        match self {
            ColumnReader::Multi(list, items) if list.is_valid(row) => {
                let offsets = list.value_offsets();
                Values::Items { items, at: offsets[row] as usize, end: offsets[row + 1] as usize }
            }
            ColumnReader::Text(array) => Values::One(array.is_valid(row).then(|| Cow::Borrowed(array.value(row)))),
            ColumnReader::Dictionary(column) => {
                Values::One(column.code(row).map(|code| Cow::Borrowed(column.texts.value(code))))
            }
            ColumnReader::Mixed(mixed) if mixed.is_text(row) => {
                Values::One(Some(Cow::Borrowed(mixed.texts.value(row))))
            }
            _ if self.is_null(row) => Values::One(None),
            _ => {
                let mut text = String::new();
                self.write_text(row, &mut text);
                Values::One(Some(Cow::Owned(text)))
            }
        }
    }
}

/// Appends an address: `10.0.0.1`.
pub fn write_address(address: u32, out: &mut String) {
    let (text, len) = ip4_text(address);
    out.push_str(std::str::from_utf8(&text[..len]).unwrap_or_default());
}

/// Appends a decimal with `digits` decimal places: `8.70`.
pub fn write_decimal(number: i64, digits: u8, out: &mut String) {
    let unit = 10u64.pow(u32::from(digits));
    let magnitude = number.unsigned_abs();
    if number < 0 {
        out.push('-');
    }
    write_integer((magnitude / unit).cast_signed(), out);
    out.push('.');
    let mut place = unit / 10;
    while place > 0 {
        out.push(char::from(b'0' + low_u8(magnitude / place % 10)));
        place /= 10;
    }
}

/// The number to which a decimal's text would be parsed. If both integers are exact in a double, their quotient is the
/// double nearest to the true value, as when parsing the text.
#[inline]
pub(crate) fn decimal_number(number: i64, digits: u8) -> Option<f64> {
    if number.unsigned_abs() <= integer_part::<u64>(MAX_EXACT_INTEGER) {
        return Some(f64_of(number) / 10f64.powi(i32::from(digits)));
    }
    let mut text = String::new();
    write_decimal(number, digits, &mut text);
    parse_number(&text)
}

/// Iterator over the values of one row.
#[derive(Debug)]
pub enum Values<'a> {
    /// At most one value.
    One(Option<Cow<'a, str>>),
    /// Items of a list.
    Items {
        /// All items of the column.
        items: &'a StringViewArray,
        /// Index of the next item.
        at: usize,
        /// Index after the last item of the row.
        end: usize,
    },
}

impl<'a> Iterator for Values<'a> {
    type Item = Cow<'a, str>;

    #[inline]
    fn next(&mut self) -> Option<Cow<'a, str>> {
        match self {
            Values::One(value) => value.take(),
            Values::Items { items, at, end } => {
                while at < end {
                    let item = *at;
                    *at += 1;
                    if items.is_valid(item) {
                        return Some(Cow::Borrowed(items.value(item)));
                    }
                }
                None
            }
        }
    }
}
