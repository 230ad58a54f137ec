//! One value of a result, as shown to people and clients.
//!
//! The text of a value is canonical: a text that is written exactly as a number would print *is* that number, so `200`
//! extracted from a log line and `200` counted by stats look the same in every output. `_time` is shown as ISO 8601.

use std::borrow::Cow;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType};
use jiff::tz::TimeZone;
use quarry_event::spreadsheet::escape_formula;
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_event::value::{self, Number};
use quarry_stdx::number::integer_part;

/// A value of a result row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// The row lacks the field.
    Null,
    /// One value.
    Single(Cow<'a, str>),
    /// Several values, in order.
    Multi(Vec<Cow<'a, str>>),
}

impl<'a> Cell<'a> {
    /// Reads row `row` of a result column. `field` is its name: `_time` is shown as a time in `zone`.
    pub fn read(field: &str, column: &'a dyn Array, row: usize, zone: &TimeZone) -> Cell<'a> {
        if column.is_null(row) {
            return Cell::Null;
        }
        let text: Cow<'a, str> = match column.data_type() {
            DataType::Null => return Cell::Null,
            DataType::Utf8View => Cow::Borrowed(column.as_string_view().value(row)),
            DataType::Utf8 => Cow::Borrowed(column.as_string::<i32>().value(row)),
            DataType::Int64 => Cow::Owned(column.as_primitive::<Int64Type>().value(row).to_string()),
            DataType::Float64 => Cow::Owned(value::format_number(column.as_primitive::<Float64Type>().value(row))),
            DataType::Boolean => Cow::Borrowed(if column.as_boolean().value(row) { "true" } else { "false" }),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                return Cell::Single(Cow::Owned(format_timestamp(
                    field,
                    column.as_primitive::<TimestampNanosecondType>().value(row),
                    zone,
                )));
            }
            DataType::List(_) => return from_list(column.as_list::<i32>().value(row).as_ref()),
            other => Cow::Owned(format!("<{other}>")),
        };
        if field == "_time"
            && let Some(time_ns) = value::parse_exact_number(&text).and_then(to_instant)
        {
            return Cell::Single(Cow::Owned(format_iso_time(time_ns, zone)));
        }
        Cell::Single(text)
    }

    /// The value as one text, with several values joined by `separator`; null is empty.
    pub fn join_values(&self, separator: &str) -> Cow<'_, str> {
        match self {
            Cell::Null => Cow::Borrowed(""),
            Cell::Single(text) => Cow::Borrowed(text),
            Cell::Multi(values) => Cow::Owned(values.join(separator)),
        }
    }
}

/// Values of a list cell; a list with one value is a single value.
fn from_list<'a>(values: &dyn Array) -> Cell<'a> {
    let texts: Vec<Cow<'a, str>> = match values.data_type() {
        DataType::Utf8View => {
            values.as_string_view().iter().flatten().map(|text| Cow::Owned(text.to_owned())).collect()
        }
        DataType::Utf8 => values.as_string::<i32>().iter().flatten().map(|text| Cow::Owned(text.to_owned())).collect(),
        _ => Vec::new(),
    };
    match texts.len() {
        0 => Cell::Null,
        1 => texts.into_iter().next().map_or(Cell::Null, Cell::Single),
        _ => Cell::Multi(texts),
    }
}

fn format_timestamp(field: &str, time_ns: i64, zone: &TimeZone) -> String {
    if field == "_time" {
        return format_iso_time(time_ns, zone);
    }
    let mut text = String::new();
    value::write_nanos(time_ns, &mut text);
    text
}

/// Converts seconds to an instant, rounded to microseconds if the number has no exact value in nanoseconds.
fn to_instant(seconds: Number) -> Option<i64> {
    const MICROS_PER_SEC: f64 = 1e6;
    const NS_PER_MICRO: i64 = NS_PER_SEC / 1_000_000;
    let rounded = || integer_part::<i64>((seconds.as_f64() * MICROS_PER_SEC).round()).checked_mul(NS_PER_MICRO);
    seconds.to_nanos().or_else(rounded)
}

/// A time as Splunk outputs it, `2026-11-20T13:42:07.123+00:00`. Clients parse exactly this form, so decimals after
/// milliseconds are omitted; `| eval t=_time` or `strftime(_time, "%9N")` shows them.
pub fn format_iso_time(time_ns: i64, zone: &TimeZone) -> String {
    strftime(time_ns, "%Y-%m-%dT%H:%M:%S.%3N%:z", zone)
}

/// JSON type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// All values as JSON numbers.
    Numbers,
    /// All values as JSON strings.
    Texts,
    /// Each value as a number or a string, decided separately.
    Mixed,
}

/// Determines whether all values of a column are numbers.
///
/// The values are numbers if each is written as its number would print (`200`, `-1.5`), or if all have the same number
/// of decimals, such as results of `round(x, 2)` (`8.70`). `007`, and `1.9` next to `1.10`, are texts.
#[derive(Clone, Copy, Debug)]
pub struct JsonTypeDetector {
    canonical: bool,
    /// Number of decimals of every value; `None` if the number differs between values or if no value was seen.
    digits: Option<usize>,
    is_empty: bool,
}

impl Default for JsonTypeDetector {
    fn default() -> JsonTypeDetector {
        JsonTypeDetector { canonical: true, digits: None, is_empty: true }
    }
}

impl JsonTypeDetector {
    /// Takes a value into account.
    pub fn update(&mut self, cell: &Cell<'_>) {
        match cell {
            Cell::Null => {}
            Cell::Single(text) => self.update_with_text(text),
            Cell::Multi(texts) => texts.iter().for_each(|text| self.update_with_text(text)),
        }
    }

    fn update_with_text(&mut self, text: &str) {
        let digits = if self.is_empty || self.digits.is_some() { digits_after_point(text) } else { None };
        self.digits = digits.filter(|digits| self.is_empty || self.digits == Some(*digits));
        self.canonical = self.canonical && value::parse_canonical_number(text).is_some();
        self.is_empty = false;
    }

    /// JSON type of the column's values.
    pub fn json_type(&self) -> JsonType {
        if self.canonical || self.digits.is_some() { JsonType::Numbers } else { JsonType::Texts }
    }
}

/// Number of decimals of a plain decimal number that a double can represent.
fn digits_after_point(text: &str) -> Option<usize> {
    const DIGITS_MAX: usize = 15;
    let (whole, fraction) = text.strip_prefix('-').unwrap_or(text).split_once('.')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_digits(whole) && is_digits(fraction) && (whole == "0" || !whole.starts_with('0'));
    (is_plain && whole.len() + fraction.len() <= DIGITS_MAX).then_some(fraction.len())
}

/// Appends a value as JSON: several values as an array, null as `null`.
pub fn write_json(cell: &Cell<'_>, kind: JsonType, out: &mut String) {
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Single(text) => write_json_scalar(text, kind, out),
        Cell::Multi(values) => {
            out.push('[');
            for (at, text) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_scalar(text, kind, out);
            }
            out.push(']');
        }
    }
}

fn write_json_scalar(text: &str, kind: JsonType, out: &mut String) {
    let is_canonical =
        || text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && value::parse_canonical_number(text).is_some();
    let is_number = match kind {
        JsonType::Texts => false,
        JsonType::Mixed => is_canonical(),
        JsonType::Numbers => digits_after_point(text).is_some() || is_canonical(),
    };
    if is_number { out.push_str(text) } else { write_json_text(text, out) }
}

/// Appends a JSON string (RFC 8259 section 7).
pub fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Appends a CSV field (RFC 4180), quoted if it contains a quote, comma or line break.
pub fn write_csv(text: &str, out: &mut String) {
    if !text.contains(['"', ',', '\n', '\r']) {
        out.push_str(text);
        return;
    }
    out.push('"');
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}

/// Encoding of CSV fields: exact, or safe to open in a spreadsheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsvCells {
    /// The exact text.
    #[default]
    Exact,
    /// Formulas are neutralised for spreadsheets.
    Safe,
}

impl CsvCells {
    /// Appends one field.
    pub fn write(self, text: &str, out: &mut String) {
        match self {
            CsvCells::Exact => write_csv(text, out),
            CsvCells::Safe => write_csv(&escape_formula(text), out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(cell: Cell<'_>) -> String {
        let mut out = String::new();
        write_json(&cell, JsonType::Mixed, &mut out);
        out
    }

    #[test]
    fn a_column_is_numbers_or_texts() {
        for (texts, expected) in [
            (&["200", "-1.5", "3.3333333333333335"][..], "[200,-1.5,3.3333333333333335]"),
            (&["3142", "0031", "node-1"], r#"["3142","0031","node-1"]"#),
            (&["8.70", "12.00", "-0.05"], "[8.70,12.00,-0.05]"),
            (&["1.9", "1.10"], r#"["1.9","1.10"]"#),
            (&["1.5", "2"], "[1.5,2]"),
            (&["1.50", "2"], r#"["1.50","2"]"#),
            (&["2", "1.50"], r#"["2","1.50"]"#),
            (&["1732060800.123456789", "1"], "[1732060800.123456789,1]"),
            (&["10.0.0.1"], r#"["10.0.0.1"]"#),
            (&["00.5"], r#"["00.5"]"#),
            (&["1e5", "1"], r#"["1e5","1"]"#),
        ] {
            let mut column = JsonTypeDetector::default();
            column.update(&Cell::Null);
            texts.iter().for_each(|text| column.update(&Cell::Single((*text).into())));
            let mut out = String::new();
            let cell = Cell::Multi(texts.iter().map(|text| (*text).into()).chain([Cow::Borrowed("x")]).collect());
            write_json(&cell, column.json_type(), &mut out);
            assert_eq!(out, expected.replace(']', ",\"x\"]"));
        }
    }

    #[test]
    fn json_writes_canonical_numbers_as_numbers() {
        for (text, expected) in [
            ("200", "200"),
            ("-1.5", "-1.5"),
            ("007", "\"007\""),
            ("1.0", "\"1.0\""),
            ("nan", "\"nan\""),
            ("a\"\n\u{1}", "\"a\\\"\\n\\u0001\""),
        ] {
            assert_eq!(json(Cell::Single(text.into())), expected);
        }
        assert_eq!(json(Cell::Multi(vec!["a".into(), "1".into()])), "[\"a\",1]");
        assert_eq!(json(Cell::Null), "null");
    }

    #[test]
    fn times_have_three_decimals() {
        let utc = TimeZone::UTC;
        assert_eq!(format_iso_time(0, &utc), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(format_iso_time(1_500, &utc), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(format_iso_time(12_345_000, &utc), "1970-01-01T00:00:00.012+00:00");
    }

    #[test]
    fn csv_quotes_only_where_needed() {
        let mut out = String::new();
        write_csv("plain", &mut out);
        out.push(',');
        write_csv("a,\"b\"\nc", &mut out);
        assert_eq!(out, "plain,\"a,\"\"b\"\"\nc\"");
    }
}
