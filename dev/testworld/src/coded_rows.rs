//! Test data: the same rows as texts and in the forms that a scan returns (numbers, addresses, decimals, numbers with
//! exceptions, dictionaries).
//!
//! The unit tests of `eval` include this file as a module instead of using this crate: this crate depends on a separate
//! build of `eval`, whose types differ from those of the build under test.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Decimal64Array, DictionaryArray, Int64Array, StringViewArray, StringViewBuilder,
    TimestampNanosecondArray, UInt32Array,
};
use arrow::record_batch::RecordBatch;
use quarry_eval::rows::{ColumnReader, batch_of, mixed_column};
use quarry_event::template::NumberFormat;

/// Number of rows in a batch.
pub const BATCH_ROWS: usize = 50;
/// Number of batches; some have plain texts in one or all columns.
const BATCH_COUNT: usize = 12;

/// Values of a column, by row.
pub type Values = fn(usize) -> Option<String>;

/// A pseudo-random number.
pub fn pseudo_random(row: usize) -> usize {
    row.wrapping_mul(2_654_435_761) >> 7
}

fn texts_of(values: Values, batch: usize) -> Vec<Option<String>> {
    (batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS).map(values).collect()
}

/// Names of the columns, and the values of each.
pub const COLUMNS: [(&str, Values); 7] = [
    ("word", |row| (!pseudo_random(row).is_multiple_of(11)).then(|| format!("word {}", pseudo_random(row) % 5))),
    ("path", |row| Some(["/a", "/b", "/a/long/path/that/needs/a/buffer", "7"][pseudo_random(row + 1) % 4].to_owned())),
    ("user", |row| (!pseudo_random(row).is_multiple_of(7)).then(|| (pseudo_random(row) as i64 % 90 - 20).to_string())),
    ("big", |row| Some((pseudo_random(row) as i64 % 9 * 1_000_000_007_000).to_string())),
    ("price", |row| {
        let cents = pseudo_random(row) as i64 % 500 - 100;
        (cents % 9 != 0)
            .then(|| format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100))
    }),
    ("address", |row| Some(format!("10.0.{}.{}", pseudo_random(row) % 3, pseudo_random(row) % 6))),
    // Texts that an integer column cannot reproduce, next to some that it can.
    ("odd", |row| {
        Some(
            ["007", "7", "1.0", "1", "-0", "1e3", "10.0.0.1", "", "1.50", "12345678901234567890"]
                [pseudo_random(row) % 10]
                .to_owned(),
        )
    }),
];

fn plain(texts: &[Option<String>]) -> ArrayRef {
    Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>())
}

/// A dictionary for these texts in an order of its own, with an unused text and possibly a null.
pub fn dictionary_values(texts: &[Option<String>], shift: usize, has_null: bool) -> ArrayRef {
    let mut distinct: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let at = shift % distinct.len().max(1);
    distinct.rotate_left(at);
    let mut values = StringViewBuilder::new();
    distinct.iter().for_each(|text| values.append_value(text));
    values.append_value("a text of no row");
    if has_null {
        values.append_null();
    }
    Arc::new(values.finish())
}

/// The texts as codes; a missing text gets the code of the null entry, if there is one.
pub fn dictionary(texts: &[Option<String>], values: &ArrayRef) -> ArrayRef {
    let known = values.as_string_view();
    let code_of = |text: Option<&str>| known.iter().position(|known| known == text).map(|code| code as u32);
    let codes: UInt32Array = texts.iter().map(|text| code_of(text.as_deref())).collect();
    Arc::new(DictionaryArray::new(codes, Arc::clone(values)))
}

/// Texts as integers of a format; `None` if a text has a different form.
fn integers(texts: &[Option<String>], format: NumberFormat) -> Option<Vec<Option<i64>>> {
    let parse = |text: &Option<String>| match text {
        None => Some(None),
        Some(text) => format.parse(text.as_bytes()).map(Some),
    };
    texts.iter().map(parse).collect()
}

fn encode_column(texts: &[Option<String>], batch: usize) -> ArrayRef {
    if let Some(numbers) = integers(texts, NumberFormat::Integer) {
        return Arc::new(numbers.into_iter().collect::<Int64Array>());
    }
    if let Some(numbers) = integers(texts, NumberFormat::Ip4) {
        return Arc::new(numbers.into_iter().map(|number| number.map(|number| number as u32)).collect::<UInt32Array>());
    }
    if let Some(numbers) = integers(texts, NumberFormat::Decimal { digits: 2 }) {
        let decimals: Decimal64Array = numbers.into_iter().collect();
        return Arc::new(decimals.with_precision_and_scale(18, 2).unwrap());
    }
    dictionary(texts, &dictionary_values(texts, batch, batch % 4 == 1))
}

/// Values that have a number format, as numbers (integers or decimals, depending on the batch), and all others as
/// texts.
fn mixed(texts: &[Option<String>], batch: usize) -> ArrayRef {
    let (format, digits) = match batch % 2 {
        0 => (NumberFormat::Integer, 0),
        _ => (NumberFormat::Decimal { digits: 2 }, 2),
    };
    let parsed = texts.iter().map(|text| text.as_ref().and_then(|text| format.parse(text.as_bytes())));
    let parsed: Vec<Option<i64>> = parsed.collect();
    let exceptions = texts.iter().zip(&parsed).map(|(text, number)| text.as_deref().filter(|_| number.is_none()));
    let numbers: ArrayRef = match digits {
        0 => Arc::new(parsed.iter().copied().collect::<Int64Array>()),
        _ => Arc::new(parsed.iter().copied().collect::<Decimal64Array>().with_precision_and_scale(18, 2).unwrap()),
    };
    mixed_column(numbers, exceptions.collect()).unwrap()
}

/// Number of batches that share dictionaries.
const SLAB_BATCHES: usize = 4;

/// The dictionaries of a column, one per slab.
fn slabs(values: Values) -> Vec<ArrayRef> {
    let texts = |slab: usize| {
        (slab * SLAB_BATCHES..(slab + 1) * SLAB_BATCHES).flat_map(|batch| texts_of(values, batch)).collect::<Vec<_>>()
    };
    (0..BATCH_COUNT.div_ceil(SLAB_BATCHES)).map(|slab| dictionary_values(&texts(slab), slab, slab == 1)).collect()
}

/// The rows in four forms: as texts; typed, with a dictionary per batch for untyped columns; with slab dictionaries; as
/// numbers with exceptions.
pub fn batches() -> [Vec<RecordBatch>; 4] {
    let slabs: Vec<Vec<ArrayRef>> = COLUMNS.iter().map(|(_, values)| slabs(*values)).collect();
    let slabs = &slabs;
    let make = |coding: usize| {
        (0..BATCH_COUNT).map(move |batch| {
            let times =
                (batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS).map(|row| (9_000 - row as i64 * 13) * 1_000_000_000);
            let times: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(times));
            let columns = COLUMNS.iter().zip(slabs).map(move |((name, values), slabs)| {
                let texts = texts_of(*values, batch);
                // In some batches, one or all columns are plain texts.
                let is_plain = coding == 0 || batch % 5 == 4 || (coding == 1 && (batch + name.len()) % 3 == 0);
                let column = match coding {
                    _ if is_plain => plain(&texts),
                    1 => encode_column(&texts, batch),
                    3 => mixed(&texts, batch),
                    _ => dictionary(&texts, &slabs[batch / SLAB_BATCHES]),
                };
                (*name, column)
            });
            batch_of([("_time", times)].into_iter().chain(columns), BATCH_ROWS).unwrap()
        })
    };
    [make(0).collect(), make(1).collect(), make(2).collect(), make(3).collect()]
}

/// The lines of a table, sorted.
pub fn lines_of(result: &RecordBatch) -> Vec<String> {
    let mut lines: Vec<String> = (0..result.num_rows())
        .map(|row| {
            let cells = result.columns().iter().map(|column| {
                let mut scratch = String::new();
                ColumnReader::new(column).text(row, &mut scratch).unwrap_or("-").replace('\n', "+")
            });
            cells.collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines
}
