use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::DataType;

use super::*;

fn build(values: Vec<Value<'_>>) -> ArrayRef {
    let mut builder = ColumnBuilder::new(values.len());
    values.into_iter().for_each(|value| builder.push(value));
    builder.finish()
}

fn texts(array: &ArrayRef) -> Vec<Option<String>> {
    as_text_array(array).iter().map(|text| text.map(str::to_owned)).collect()
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|text| (*text != "-").then(|| (*text).to_owned())).collect()
}

#[test]
fn the_builder_picks_the_narrowest_type() {
    let multi = || Value::multi(vec!["x".into(), "y".into()]);
    let cases: Vec<(Vec<Value<'_>>, DataType, &[&str])> = vec![
        (vec![Value::Null, Value::Null], DataType::Null, &["-", "-"]),
        (vec![Value::Null, Value::Int(3)], DataType::Int64, &["-", "3"]),
        (vec![Value::Int(3), Value::Float(0.5), Value::Null], DataType::Float64, &["3", "0.5", "-"]),
        (vec![Value::Float(0.5), Value::Int(3)], DataType::Float64, &["0.5", "3"]),
        (vec![Value::Int(i64::MAX), Value::Float(0.5)], DataType::Utf8View, &["9223372036854775807", "0.5"]),
        (vec![Value::Float(0.5), Value::Int(i64::MAX)], DataType::Utf8View, &["0.5", "9223372036854775807"]),
        (vec![Value::Float(f64::NEG_INFINITY)], DataType::Utf8View, &["-inf"]),
        (vec![Value::Float(0.5), Value::Float(f64::INFINITY)], DataType::Utf8View, &["0.5", "inf"]),
        (vec![Value::Int(1), Value::borrowed_text("007")], DataType::Utf8View, &["1", "007"]),
        (vec![Value::borrowed_text("a"), Value::Int(1), Value::Bool(true)], DataType::Utf8View, &["a", "1", "True"]),
        (vec![Value::Time(1_500_000_000), Value::Int(7)], DataType::Utf8View, &["1.5", "7"]),
        (vec![Value::Int(1), multi(), Value::Int(2), Value::Null], multi_type(), &["1", "x\ny", "2", "-"]),
        (vec![Value::Bool(false), Value::Null], DataType::Boolean, &["False", "-"]),
    ];
    for (values, kind, expected) in cases {
        let shown = format!("{values:?}");
        let array = build(values);
        assert_eq!(array.data_type(), &kind, "{shown}");
        assert_eq!(texts(&array), some(expected), "{shown}");
    }
}

#[test]
fn times_act_as_seconds_and_print_the_digits_they_need() {
    for (ns, text) in [
        (1_732_060_800_123_000_000, "1732060800.123"),
        (1_732_060_800_000_000_000, "1732060800"),
        (1, "0.000000001"),
        (-1_500_000_000, "-1.5"),
        (i64::MIN, "-9223372036.854775808"),
    ] {
        assert_eq!(Value::Time(ns).text().unwrap(), text);
    }
    assert_eq!(Value::Time(1_732_060_800_123_000_000).number(), Some(1_732_060_800.123));
}

#[test]
fn foreign_types_are_read_as_the_nearest_supported_type() {
    let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![5]));
    let utf8: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    assert_eq!(ColumnReader::new(&unsigned).value(0), Value::Int(5));
    assert_eq!(ColumnReader::new(&utf8).value(0), Value::borrowed_text("a"));
}

#[test]
fn rows_of_different_schemas_are_concatenated_by_promotion() {
    let first = batch_of([("a", build(vec![Value::Int(1)])), ("b", build(vec![Value::Int(2)]))], 1).unwrap();
    let second =
        batch_of([("b", build(vec![Value::Float(0.5)])), ("c", build(vec![Value::borrowed_text("t")]))], 1).unwrap();
    let third = batch_of([("a", build(vec![Value::multi(vec!["x".into(), "y".into()])]))], 1).unwrap();
    let all = concat_rows(vec![first, second, third]).unwrap();
    assert_eq!(all.num_rows(), 3);
    assert_eq!(texts(column(&all, "a").unwrap()), some(&["1", "-", "x\ny"]));
    assert_eq!(column(&all, "b").unwrap().data_type(), &DataType::Float64);
    assert_eq!(texts(column(&all, "b").unwrap()), some(&["2", "0.5", "-"]));
    assert_eq!(texts(column(&all, "c").unwrap()), some(&["-", "t", "-"]));
}

#[test]
fn wide_integers_mixed_with_floats_keep_their_digits() {
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![9_007_199_254_740_993]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
    let all = concat_rows(vec![batch_of([("a", ints)], 1).unwrap(), batch_of([("a", floats)], 1).unwrap()]).unwrap();
    assert_eq!(texts(column(&all, "a").unwrap()), some(&["9007199254740993", "0.5"]));
}

#[test]
fn columns_are_replaced_renamed_selected_and_dropped() {
    let one = |value: i64| build(vec![Value::Int(value)]);
    let rows = batch_of([("a", one(1)), ("b", one(2))], 1).unwrap();
    let names = |rows: &RecordBatch| -> Vec<String> {
        rows.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(names(&with_column(&rows, "a", one(3)).unwrap()), ["a", "b"]);
    assert_eq!(names(&with_column(&rows, "c", one(3)).unwrap()), ["a", "b", "c"]);
    assert_eq!(names(&rename(&rows, "a", "b").unwrap()), ["b"]);
    assert_eq!(names(&rename(&rows, "none", "b").unwrap()), ["a", "b"]);
    assert_eq!(names(&select(&rows, &["c", "b"]).unwrap()), ["c", "b"]);
    let none = drop_columns(&rows, |_| true).unwrap();
    assert_eq!((none.num_rows(), none.num_columns()), (1, 0));
    assert_eq!(filter(&none, &BooleanArray::from(vec![false])).unwrap().num_rows(), 0);
}

/// Results computed once per distinct value must equal results computed row by row.
#[test]
fn results_by_distinct_value_equal_results_by_row() {
    use arrow::array::{DictionaryArray, UInt32Array};
    use arrow::datatypes::UInt32Type;

    let make = |values: &ArrayRef| {
        let reader = ColumnReader::new(values);
        let (mut texts, mut mixed) = (ColumnBuilder::new(0), ColumnBuilder::new(0));
        for row in 0..values.len() {
            let value = reader.value(row);
            let length = value.text().map(|text| text.len() as i64);
            texts.push(
                value
                    .text()
                    .map_or(Value::borrowed_text("none"), |text| Value::owned_text(text[..text.len() / 2].into())),
            );
            mixed.push(match length {
                Some(length) if length % 2 == 0 => Value::Int(length),
                Some(_) => Value::Float(0.5),
                None => Value::Null,
            });
        }
        vec![texts.finish(), mixed.finish()]
    };
    let texts = |array: &ArrayRef| {
        let reader = ColumnReader::new(array);
        let mut scratch = String::new();
        (0..array.len()).map(|row| reader.text(row, &mut scratch).map(str::to_owned)).collect::<Vec<_>>()
    };
    for (distinct, rows, spread) in [(3, 100, 3), (1_000, 300, 20), (1_000, 300, 1_000), (40_000, 500, 90), (0, 50, 1)]
    {
        let words = (0..distinct).map(|at| format!("{:0width$}", at, width = 1 + at % 7));
        let words: ArrayRef = Arc::new(StringViewArray::from_iter_values(words));
        let memo = DistinctMemo::default();
        for batch in 0..8usize {
            let code = |row: usize| {
                (distinct > 0 && row % 11 != 3).then(|| ((row * 7 + batch * 13) % spread * 31 % distinct) as u32)
            };
            let codes: UInt32Array = (0..rows).map(code).collect();
            let column: ArrayRef = Arc::new(DictionaryArray::<UInt32Type>::try_new(codes, Arc::clone(&words)).unwrap());
            let Some(found) = memo.run(&column, NumberHandling::ByValue, |values| Ok(Some(make(values)))).unwrap()
            else {
                assert!(spread * 2 > rows, "{distinct} {rows} {spread}");
                continue;
            };
            let expected = make(&column);
            assert_eq!(found.iter().map(texts).collect::<Vec<_>>(), expected.iter().map(texts).collect::<Vec<_>>());
        }
        let numbers: ArrayRef =
            Arc::new((0..rows as i64).map(|row| (row % 9 > 0).then_some(row % 20)).collect::<Int64Array>());
        let found = memo.run(&numbers, NumberHandling::ByValue, |values| Ok(Some(make(values)))).unwrap().unwrap();
        assert_eq!(found.iter().map(texts).collect::<Vec<_>>(), make(&numbers).iter().map(texts).collect::<Vec<_>>());
        assert!(memo.run(&numbers, NumberHandling::ByRow, |_| Ok(None)).unwrap().is_none());
    }
}

/// A dictionary is evaluated as a whole only once.
#[test]
fn whole_dictionaries_are_computed_once() {
    use arrow::array::{DictionaryArray, UInt32Array};
    use arrow::datatypes::UInt32Type;

    let words: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..50).map(|at| format!("w{at}"))));
    let (memo, asked) = (DistinctMemo::default(), std::cell::Cell::new(0));
    for _ in 0..20 {
        let codes: UInt32Array = (0..100u32).map(|row| Some(row % 50)).collect();
        let column: ArrayRef = Arc::new(DictionaryArray::<UInt32Type>::try_new(codes, Arc::clone(&words)).unwrap());
        let compute = |values: &ArrayRef| {
            asked.set(asked.get() + values.len());
            Ok(Some(vec![Arc::clone(values)]))
        };
        assert_eq!(memo.run(&column, NumberHandling::ByValue, compute).unwrap().unwrap()[0].len(), 100);
    }
    assert_eq!(asked.get(), 51);
}

#[test]
fn integers_with_and_without_exceptions_stay_numbers_in_one_batch() {
    let numbers = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let exceptions = StringViewArray::from(vec![None, Some("-")]);
    let mixed = mixed_column(numbers(vec![Some(7), None]), exceptions).unwrap();
    let plain = numbers(vec![Some(8), None]);
    let batch = |array: &ArrayRef| batch_of([("n", Arc::clone(array))], array.len()).unwrap();
    let expected = [Some("7"), Some("-"), Some("8"), None].map(|text| text.map(str::to_owned));
    let all = concat_rows(vec![batch(&mixed), batch(&plain)]).unwrap();
    assert_eq!(all.column(0).data_type(), mixed.data_type());
    assert_eq!(texts(all.column(0)), expected);
    assert_eq!(all.column(0).null_count(), 1);
    // Together with a column of texts, the numbers become texts.
    let words: ArrayRef = Arc::new(StringViewArray::from(vec!["x"]));
    let all = concat_rows(vec![batch(&mixed), batch(&plain), batch(&words)]).unwrap();
    assert_eq!(all.column(0).data_type(), &DataType::Utf8View);
    assert_eq!(texts(all.column(0))[..4], expected);
}
