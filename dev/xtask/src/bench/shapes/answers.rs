//! Answers of different engines in a common form, and the comparison of two answers.
//!
//! Columns are compared by position, since engines name them differently. Texts that look like numbers are compared as
//! numbers, because search results have no types; null and the empty text are equal.

use serde_json::Value;

/// Relative difference up to which numbers are equal, because sums of fractions depend on the order.
const TOLERANCE: f64 = 1e-9;
/// Number of rows printed from each answer if two answers differ.
const SHOWN_ROWS: usize = 3;

/// A value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Nothing,
    Number(f64),
    Text(String),
}

/// Rows of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Cell {
    fn of(text: &str) -> Cell {
        if text.is_empty() {
            return Cell::Nothing;
        }
        // The check excludes words that Rust parses as numbers, such as `inf`.
        let may_be_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-' || first == '.');
        match text.parse() {
            Ok(number) if may_be_number => Cell::Number(number),
            _ => Cell::Text(text.to_owned()),
        }
    }

    fn is_same(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Number(one), Cell::Number(other)) => {
                one == other || (one - other).abs() <= TOLERANCE * one.abs().max(other.abs()).max(1.0)
            }
            (one, other) => one == other,
        }
    }

    fn key(&self) -> String {
        match self {
            Cell::Nothing => String::new(),
            Cell::Number(number) => format!("{number:.10e}"),
            Cell::Text(text) => text.clone(),
        }
    }
}

/// Parses the rows of a search as the server writes them. Values of `_time` become seconds since the epoch.
pub(super) fn from_csv(text: &str) -> Result<Answer, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let fault = |error: csv::Error| format!("the answer is not CSV: {error}");
    let times: Vec<bool> = reader.headers().map_err(fault)?.iter().map(|name| name == "_time").collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(fault)?;
        let cells = record.iter().enumerate().map(|(at, text)| match times.get(at) {
            Some(true) => epoch(text).map_or_else(|| Cell::of(text), Cell::Number),
            _ => Cell::of(text),
        });
        rows.push(cells.collect());
    }
    Ok(Answer { rows })
}

/// Parses the rows of a database.
pub(super) fn from_rows(rows: &Value) -> Answer {
    let cell = |value: &Value| match value {
        Value::Null => Cell::Nothing,
        Value::String(text) => Cell::of(text),
        Value::Number(number) => Cell::Number(number.as_f64().unwrap_or(f64::NAN)),
        other => Cell::Text(other.to_string()),
    };
    let rows = rows.as_array().into_iter().flatten();
    Answer { rows: rows.map(|row| row.as_array().into_iter().flatten().map(cell).collect()).collect() }
}

/// Seconds since the epoch of a time such as `2026-11-20T00:05:00.000+00:00`; the benchmark runs in UTC.
fn epoch(text: &str) -> Option<f64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let rest = text.get(17..)?;
    let end = rest.find(['+', 'Z']).unwrap_or(rest.len());
    let seconds: f64 = rest.get(..end)?.parse().ok()?;
    // Days of the civil calendar (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((days * 86_400 + number(11..13)? * 3_600 + number(14..16)? * 60) as f64 + seconds)
}

/// Describes the first difference between Quarry's answer and the expected one; `None` if they are equal.
pub(super) fn differs(found: &Answer, expected: &Answer, is_ordered: bool) -> Option<String> {
    let arranged = |answer: &Answer| {
        let mut rows = answer.rows.clone();
        if !is_ordered {
            rows.sort_by_cached_key(|row| row.iter().map(Cell::key).collect::<Vec<_>>());
        }
        rows
    };
    let (found, expected) = (arranged(found), arranged(expected));
    let is_same = |one: &Vec<Cell>, other: &Vec<Cell>| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
    };
    let first = found.iter().zip(&expected).position(|(one, other)| !is_same(one, other));
    if first.is_none() && found.len() == expected.len() {
        return None;
    }
    let at = first.unwrap_or_else(|| found.len().min(expected.len()));
    let shown = |rows: &[Vec<Cell>]| {
        let rows = rows.iter().skip(at).take(SHOWN_ROWS);
        rows.map(|row| row.iter().map(Cell::key).collect::<Vec<_>>().join(", ")).collect::<Vec<_>>().join(" | ")
    };
    Some(format!(
        "{} rows, {} expected; from row {at} on [{}], expected [{}]",
        found.len(),
        expected.len(),
        shown(&found),
        shown(&expected)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_compared_regardless_of_format_and_order() {
        let csv = "_time,level,\"avg(x)\"\n2026-11-20T00:05:00.000+00:00,WARN,0.30000000000000004\n2026-11-20T00:00:00.000+00:00,\"in, fo\",\n";
        let found = from_csv(csv).expect("this is CSV");
        let expected = from_rows(&json!([[1_795_132_800, "in, fo", null], [1_795_133_100, "WARN", 0.3]]));
        assert_eq!(differs(&found, &expected, false), None);
        assert!(differs(&found, &expected, true).is_some());
    }

    #[test]
    fn other_values_and_other_numbers_of_rows_differ() {
        let found = from_csv("count\n3\n").expect("this is CSV");
        assert!(differs(&found, &from_rows(&json!([[4]])), false).is_some());
        assert!(differs(&found, &from_rows(&json!([])), false).is_some());
        assert!(differs(&found, &from_rows(&json!([["three"]])), false).is_some());
        assert_eq!(differs(&found, &from_rows(&json!([["3"]])), false), None);
    }
}
