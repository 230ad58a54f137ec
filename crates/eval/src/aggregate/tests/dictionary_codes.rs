//! Tests that rows form the same groups whether their texts are plain or dictionary codes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal64Array, Int64Array, StringViewArray};
use arrow::record_batch::RecordBatch;

use super::{DISTRIBUTIONS, context, run_stats_distributed};
use crate::coded_rows::{BATCH_ROWS, COLUMNS, batches, dictionary, dictionary_values, pseudo_random};
use crate::rows::{ColumnReader, batch_of};

#[test]
fn coded_columns_read_as_their_texts() {
    let [texts, typed, dictionaries, mixed] = batches();
    let coded = typed.iter().chain(&dictionaries).chain(&mixed);
    for (texts, coded) in texts.iter().chain(&texts).chain(&texts).zip(coded) {
        for (name, _) in COLUMNS {
            let column = |rows: &RecordBatch| ColumnReader::new(rows.column_by_name(name).unwrap());
            let (text, coded) = (column(texts), column(coded));
            let mut scratch = String::new();
            for row in 0..BATCH_ROWS {
                let expected = text.text(row, &mut String::new()).map(str::to_owned);
                assert_eq!(coded.text(row, &mut scratch).map(str::to_owned), expected, "{name}");
                assert_eq!(coded.is_null(row), expected.is_none());
                assert_eq!(coded.values(row).map(|text| text.into_owned()).next(), expected);
                assert_eq!(coded.number(row).map(f64::to_bits), text.number(row).map(f64::to_bits), "{expected:?}");
                assert_eq!(coded.value(row).text().map(|text| text.into_owned()), expected);
                assert_eq!(coded.validity().is_none_or(|present| present.is_valid(row)), expected.is_some());
            }
        }
    }
}

#[test]
fn decimals_equal_the_numbers_of_their_texts() {
    let numbers: Vec<i64> =
        (0..2_000).map(|at| (pseudo_random(at) as i64).wrapping_mul(7_919) % 10i64.pow(1 + at as u32 % 18)).collect();
    for digits in 1..=9 {
        let column = Decimal64Array::from(numbers.clone()).with_precision_and_scale(18, digits).unwrap();
        let column: ArrayRef = Arc::new(column);
        let (reader, mut text) = (ColumnReader::new(&column), String::new());
        for row in 0..column.len() {
            let text = reader.text(row, &mut text).unwrap();
            let expected = quarry_event::value::parse_number(text).map(f64::to_bits);
            assert_eq!(reader.number(row).map(f64::to_bits), expected, "{text}");
        }
    }
}

#[test]
fn every_function_gives_the_same_for_codes_and_texts() {
    let functions = "count, count(F) as c, dc(F) as d, values(F) as v, mode(F) as m, sum(F) as s, avg(F) as a, \
        min(F) as low, max(F) as high, range(F) as r, stdev(F) as sd, varp(F) as vp, sumsq(F) as sq, \
        median(F) as p, exactperc90(F) as p90, earliest(F) as e, latest(F) as l, earliest_time(F) as et, \
        rate(F) as rt, first(F) as f1, last(F) as f2, list(F) as all, count(eval(F>20)) as many, \
        sum(eval(F*2)) as twice";
    let [texts, typed, dictionaries, mixed] = batches();
    for field in ["word", "path", "user", "big", "price", "address", "odd"] {
        for by in [
            "",
            " by word",
            " by user",
            " by odd",
            " by address, path",
            " by price",
            " by word, path, user",
            " by path, word",
        ] {
            let stats = format!("{}{by}", functions.replace('F', field));
            for way in DISTRIBUTIONS {
                let expected = run_stats_distributed(&stats, &texts, way);
                assert!(!expected.is_empty());
                assert_eq!(run_stats_distributed(&stats, &typed, way), expected, "{stats} by {way:?}, typed");
                assert_eq!(
                    run_stats_distributed(&stats, &dictionaries, way),
                    expected,
                    "{stats} by {way:?}, dictionaries"
                );
                assert_eq!(run_stats_distributed(&stats, &mixed, way), expected, "{stats} by {way:?}, mixed");
            }
        }
    }
}

#[test]
fn counts_alone_are_the_same_for_codes_and_texts() {
    let [texts, typed, dictionaries, mixed] = batches();
    for by in
        ["", "path", "word", "user", "big", "price", "address", "odd", "path, address", "odd, path", "path, big, odd"]
    {
        let stats = if by.is_empty() { "count".to_owned() } else { format!("count, count as again by {by}") };
        for way in DISTRIBUTIONS {
            let expected = run_stats_distributed(&stats, &texts, way);
            assert_eq!(run_stats_distributed(&stats, &typed, way), expected, "{stats} by {way:?}, typed");
            assert_eq!(run_stats_distributed(&stats, &dictionaries, way), expected, "{stats} by {way:?}, dictionaries");
            assert_eq!(run_stats_distributed(&stats, &mixed, way), expected, "{stats} by {way:?}, mixed");
        }
    }
}

#[test]
fn many_values_overflow_the_small_tables() {
    // Many and sparse integers, so that arrays are replaced by hash tables for keys, sets and pairs.
    let value = |row: i64| if row % 3 == 0 { row * 1_000_003 - 77 } else { row };
    let batches = |typed: bool| -> Vec<RecordBatch> {
        (0..40)
            .map(|batch| {
                let values = (batch * 500..(batch + 1) * 500).map(value);
                let column: ArrayRef = match typed && batch % 3 > 0 {
                    true => Arc::new(Int64Array::from_iter_values(values)),
                    false => Arc::new(values.map(|value| Some(value.to_string())).collect::<StringViewArray>()),
                };
                let group = (0..500).map(|row| Some(format!("{}", row % 97))).collect::<Vec<_>>();
                batch_of([("v", column), ("g", dictionary(&group, &dictionary_values(&group, 0, false)))], 500).unwrap()
            })
            .collect()
    };
    let (texts, typed) = (batches(false), batches(true));
    for stats in ["count by v", "dc(v) as d", "dc(v) as d by g", "count by g, v", "count by v, g"] {
        for way in DISTRIBUTIONS {
            let expected = run_stats_distributed(stats, &texts, super::Distribution::OneFolder);
            assert_eq!(run_stats_distributed(stats, &typed, way), expected, "{stats} by {way:?}");
        }
    }
    assert_eq!(run_stats_distributed("dc(v) as d", &typed, super::Distribution::Folders), ["20000"]);
}

/// A folder checks its size only occasionally: rows counted by code after a spill must not be lost.
#[test]
fn rows_counted_by_code_after_a_spill_are_kept() {
    let texts: Vec<Option<String>> = (0..BATCH_ROWS).map(|row| Some(format!("group {}", row % 5))).collect();
    let codes = dictionary(&texts, &dictionary_values(&texts, 0, false));
    let rows = batch_of([("g", codes)], BATCH_ROWS).unwrap();
    let (plan, context) = (super::plan("count by g"), context());
    let mut folder = super::Folder::with_limit(&plan, BATCH_ROWS + 10, &context);
    (0..4).for_each(|slice| folder.add(&rows, slice, 0).unwrap());
    assert!(folder.has_spilled());
    let folded = plan.gather(vec![folder], &context).unwrap();
    let result = plan.values(folded, &context).unwrap();
    let counts = crate::rows::as_number_array(&crate::rows::column_or_null(&result, "count"));
    assert_eq!(counts.values().iter().sum::<f64>(), (4 * BATCH_ROWS) as f64);
}
