//! Reading a column row by row, with the choice by type taken once per column.

use std::borrow::Cow;

use arrow::array::TimestampNanosecondArray;
use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StringViewArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType};
use quarry_event::value::{parse_number, write_integer, write_number};

use super::{FALSE_TEXT, MULTI_SEPARATOR, TRUE_TEXT, Value, multi_type, time_seconds, write_time};

/// A column with its type known.
#[derive(Clone, Debug)]
pub(crate) enum ColumnReader {
    /// So many nulls.
    Null(usize),
    /// Conditions.
    Bool(BooleanArray),
    /// Integers.
    Int(Int64Array),
    /// Numbers.
    Float(Float64Array),
    /// Instants.
    Time(TimestampNanosecondArray),
    /// Texts.
    Text(StringViewArray),
    /// Multivalues: the lists and their items.
    Multi(ListArray, StringViewArray),
}

impl ColumnReader {
    /// Reads `array`; types outside the engine's model are converted to the nearest one inside.
    pub(crate) fn new(array: &ArrayRef) -> ColumnReader {
        match array.data_type() {
            DataType::Null => ColumnReader::Null(array.len()),
            DataType::Boolean => ColumnReader::Bool(array.as_boolean().clone()),
            DataType::Int64 => ColumnReader::Int(array.as_primitive::<Int64Type>().clone()),
            DataType::Float64 => ColumnReader::Float(array.as_primitive::<Float64Type>().clone()),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                ColumnReader::Time(array.as_primitive::<TimestampNanosecondType>().clone())
            }
            DataType::Utf8View => ColumnReader::Text(array.as_string_view().clone()),
            DataType::List(item) if item.data_type() == &DataType::Utf8View => {
                let list = array.as_list::<i32>().clone();
                let items = list.values().as_string_view().clone();
                ColumnReader::Multi(list, items)
            }
            _ => ColumnReader::new_foreign(array),
        }
    }

    /// A column of nulls.
    pub(crate) fn null(rows: usize) -> ColumnReader {
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
            // What cannot be converted has no SPL value.
            _ => ColumnReader::Null(array.len()),
        }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            ColumnReader::Null(rows) => *rows,
            ColumnReader::Bool(array) => array.len(),
            ColumnReader::Int(array) => array.len(),
            ColumnReader::Float(array) => array.len(),
            ColumnReader::Time(array) => array.len(),
            ColumnReader::Text(array) => array.len(),
            ColumnReader::Multi(array, _) => array.len(),
        }
    }

    /// Whether the row has no value.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            ColumnReader::Null(_) => true,
            ColumnReader::Bool(array) => array.is_null(row),
            ColumnReader::Int(array) => array.is_null(row),
            ColumnReader::Float(array) => array.is_null(row),
            ColumnReader::Time(array) => array.is_null(row),
            ColumnReader::Text(array) => array.is_null(row),
            ColumnReader::Multi(array, _) => array.is_null(row) || array.value_length(row) == 0,
        }
    }

    /// The canonical text, written to `scratch` unless the column holds it. A multivalue is joined by newline.
    #[inline]
    pub(crate) fn text<'a>(&'a self, row: usize, scratch: &'a mut String) -> Option<&'a str> {
        if let ColumnReader::Text(array) = self {
            return array.is_valid(row).then(|| array.value(row));
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
            ColumnReader::Time(array) => write_time(array.value(row), out),
            ColumnReader::Text(array) => out.push_str(array.value(row)),
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

    /// The value as a number; a multivalue of several values is none.
    #[inline]
    pub(crate) fn number(&self, row: usize) -> Option<f64> {
        if self.is_null(row) {
            return None;
        }
        match self {
            ColumnReader::Null(_) | ColumnReader::Bool(_) => None,
            ColumnReader::Int(array) => Some(array.value(row) as f64),
            ColumnReader::Float(array) => Some(array.value(row)),
            ColumnReader::Time(array) => Some(time_seconds(array.value(row))),
            ColumnReader::Text(array) => parse_number(array.value(row)),
            ColumnReader::Multi(..) => self.value(row).number(),
        }
    }

    /// The value of a row. A multivalue of one value is a text.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> Value<'_> {
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
            ColumnReader::Multi(..) => Value::multi(self.values(row).collect()),
        }
    }

    /// Every value of a row as text: none for null, one for a plain value.
    #[inline]
    pub(crate) fn values(&self, row: usize) -> Values<'_> {
        match self {
            ColumnReader::Multi(list, items) if list.is_valid(row) => {
                let offsets = list.value_offsets();
                Values::Items { items, at: offsets[row] as usize, end: offsets[row + 1] as usize }
            }
            ColumnReader::Text(array) => Values::One(array.is_valid(row).then(|| Cow::Borrowed(array.value(row)))),
            _ if self.is_null(row) => Values::One(None),
            _ => {
                let mut text = String::new();
                self.write_text(row, &mut text);
                Values::One(Some(Cow::Owned(text)))
            }
        }
    }
}

/// Iterator over the values of one row.
#[derive(Debug)]
pub(crate) enum Values<'a> {
    /// At most one.
    One(Option<Cow<'a, str>>),
    /// Items of a list.
    Items {
        /// All items of the column.
        items: &'a StringViewArray,
        /// Next item.
        at: usize,
        /// One past the last.
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
