use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray, TimestampNanosecondArray};
use arrow::record_batch::RecordBatch;

use super::*;
use crate::rows::{ColumnBuilder, ColumnReader, Value, batch_of, mixed_column};

/// 2024-11-20 00:00:00 UTC.
const NOW: i64 = 1_732_060_800 * 1_000_000_000;

fn context() -> ExprContext {
    ExprContext::new(NOW, jiff::tz::TimeZone::UTC)
}

fn compiled(text: &str) -> CompiledExpr {
    let expr = quarry_spl::parse_expression(text).unwrap_or_else(|remarks| panic!("{text}: {remarks:?}"));
    CompiledExpr::new(&expr, &context()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn multi(values: &[&[&str]]) -> ArrayRef {
    let mut builder = ColumnBuilder::new(values.len());
    values.iter().for_each(|row| builder.push_multi(row.iter()));
    builder.finish()
}

/// Three rows of every type; row 2 is null wherever that is possible.
fn sample() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from(vec![Some(7), Some(200), None]))),
        ("f", Arc::new(Float64Array::from(vec![Some(1.5), Some(200.0), None]))),
        ("s", Arc::new(StringViewArray::from(vec![Some("abc"), Some("GET"), None]))),
        ("n", Arc::new(StringViewArray::from(vec![Some("10"), Some("9.5"), None]))),
        ("t", Arc::new(TimestampNanosecondArray::from(vec![Some(NOW), Some(NOW + 1_500_000_000), None]))),
        ("m", multi(&[&["a", "b", "c"], &["1", "2"], &[]])),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("_raw", Arc::new(StringViewArray::from(vec!["GET /x status=200", "error: timeout", ""]))),
    ];
    batch_of(columns, 3).unwrap()
}

fn texts(array: &ArrayRef) -> Vec<Option<String>> {
    let reader = ColumnReader::new(array);
    (0..array.len()).map(|row| reader.value(row).text().map(|text| text.into_owned())).collect()
}

/// The expression's texts for the three rows, which column-wise and row-wise evaluation must agree on; `-` is null.
fn run(text: &str) -> String {
    let (compiled, rows) = (compiled(text), sample());
    let array = compiled.evaluate(&rows).unwrap();
    let texts = texts(&array);
    let batch = compiled.batch(&rows).unwrap();
    for (row, by_column) in texts.iter().enumerate() {
        let by_row = compiled.root.value(&batch.row(row)).text().map(|text| text.into_owned());
        assert_eq!(*by_column, by_row, "{text}: the two ways differ in row {row}");
    }
    let texts: Vec<String> = texts.into_iter().map(|text| text.unwrap_or_else(|| "-".to_owned())).collect();
    texts.join("|").replace('\n', ",")
}

fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(text, wanted)| {
            let got = run(text);
            (got != *wanted).then(|| format!("{text}: got {got}, wanted {wanted}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn arithmetic_on_every_type() {
    check(&[
        ("i + 1", "8|201|-"),
        ("i - f", "5.5|0|-"),
        ("n * 2", "20|19|-"),
        ("i / 2", "3.5|100|-"),
        ("i / 0", "-|-|-"),
        ("f / 0", "-|-|-"),
        ("i % 3", "1|2|-"),
        ("-i % 3", "-1|-2|-"),
        ("i % 0", "-|-|-"),
        ("(i - 7) % (i - 7)", "-|0|-"),
        ("(0 - 9223372036854775807 - 1 + i - i) % (i - i - 1)", "0|0|-"),
        ("f % 0", "-|-|-"),
        ("-i", "-7|-200|-"),
        ("i + missing", "-|-|-"),
        ("s - 1", "-|-|-"),
        ("s + \"x\"", "abcx|GETx|-"),
        ("n + 1", "11|10.5|-"),
        ("1 + 2 * 3", "7|7|7"),
        ("9223372036854775807 + 1", "9.223372036854776e+18|9.223372036854776e+18|9.223372036854776e+18"),
        ("i * 9223372036854775807", "6.456360425798343e+19|1.8446744073709552e+21|-"),
        ("s . \"-\" . i", "abc-7|GET-200|-"),
        ("t - 1732060800", "0|1.5|-"),
        ("t + 1", "1732060801|1732060802.5|-"),
        ("t - t", "0|0|-"),
        ("f . \"\"", "1.5|200|-"),
    ]);
}

#[test]
fn comparisons_by_number_or_text() {
    check(&[
        ("i = 200", "False|True|-"),
        ("i = \"200\"", "False|True|-"),
        ("f = 200", "False|True|-"),
        ("i = f", "False|True|-"),
        ("n < 9.6", "False|True|-"),
        ("n > \"9\"", "True|True|-"),
        ("s = \"get\"", "False|False|-"),
        ("s = \"GET\"", "False|True|-"),
        ("s != \"GET\"", "True|False|-"),
        ("\"b\" > s", "True|True|-"),
        ("s < 5", "False|False|-"),
        ("i < \"x\"", "True|True|-"),
        ("missing = 1", "-|-|-"),
        ("m = \"b\"", "True|False|-"),
        ("m = 2", "False|True|-"),
        ("t >= 1732060801", "False|True|-"),
        ("i IN (7, \"8\")", "True|False|-"),
        ("s IN (\"x\", n, \"GET\")", "False|True|-"),
        ("m IN (\"c\", 2)", "True|True|-"),
        ("match(s, \"^[a-c]+$\")", "True|False|-"),
        ("match(m, \"b\")", "True|False|-"),
        ("match(i, \"0\")", "False|True|-"),
        ("like(n, \"9%\")", "False|True|-"),
        ("s LIKE \"a%\"", "True|False|-"),
        ("s LIKE \"_ET\"", "False|True|-"),
    ]);
}

#[test]
fn three_valued_logic() {
    check(&[
        ("i = 7 AND missing = 1", "-|False|-"),
        ("i = 7 OR missing = 1", "True|-|-"),
        ("NOT i = 7", "False|True|-"),
        ("i = 7 XOR f = 200", "True|True|-"),
        ("i = 7 AND match(s, \"b\")", "True|False|-"),
        ("isnull(i) OR match(s, \"^G\")", "False|True|True"),
        ("isnull(missing)", "True|True|True"),
        ("isnotnull(m)", "True|True|False"),
    ]);
}

#[test]
fn numbers_are_recognised_in_every_type() {
    check(&[
        ("isnum(i)", "True|True|False"),
        ("isnum(f)", "True|True|False"),
        ("isnum(n)", "True|True|False"),
        ("isnum(s)", "False|False|False"),
        ("isnum(t)", "True|True|False"),
        ("isnum(m)", "False|False|False"),
        ("isnum(b)", "False|False|False"),
        ("isnum(missing)", "False|False|False"),
        ("isnum(i + 1)", "True|True|False"),
        ("isnum(lower(n))", "True|True|False"),
    ]);
}

#[test]
fn texts_and_numbers_are_ordered_by_their_bytes() {
    let numbers = [Value::Int(0), Value::Int(7), Value::Int(-7), Value::Float(0.5), Value::Float(1e300)];
    let doubtful = [-0.0, -0.5, f64::INFINITY, f64::NEG_INFINITY].map(Value::Float);
    for number in numbers.iter().chain(&doubtful) {
        for text in ["", "-", "-x", "/", "0x", "5x", "9 ", ":", "a", "inf", "i", "é"] {
            let expected = text.as_bytes().cmp(number.text().unwrap().as_bytes());
            let value = Value::borrowed_text(text);
            assert_eq!(compare::order_values(&value, number), Some(expected), "{text:?} and {number:?}");
            assert_eq!(compare::order_values(number, &value), Some(expected.reverse()), "{number:?} and {text:?}");
        }
    }
}

#[test]
fn conditionals_evaluate_lazily() {
    check(&[
        ("if(i > 100, \"big\", \"small\")", "small|big|small"),
        ("if(match(s, \"a\"), i, s)", "7|GET|-"),
        ("case(i = 7, \"seven\", i = 200, f)", "seven|200|-"),
        ("case(match(s, \"x\"), 1, true(), 2)", "2|2|2"),
        ("validate(i = 7, \"not 7\", f > 300, \"low\")", "low|not 7|-"),
        ("coalesce(i, \"none\")", "7|200|none"),
        ("coalesce(missing, n, s)", "10|9.5|-"),
        ("coalesce(nullif(i, 7), lower(s))", "abc|200|-"),
        ("nullif(s, \"abc\")", "-|GET|-"),
        ("null()", "-|-|-"),
    ]);
}

#[test]
fn values_bound_one_by_one() {
    check(&[
        ("mvfilter(m != \"b\")", "a,c|1,2|-"),
        ("mvfilter(match(m, \"[ac1]\"))", "a,c|1|-"),
        ("mvmap(m, m . \"!\")", "a!,b!,c!|1!,2!|-"),
        ("mvmap(m, m . s)", "aabc,babc,cabc|1GET,2GET|-"),
        ("mvmap(m, if(m = \"a\", null(), m))", "b,c|1,2|-"),
        ("mvmap(s, s . s)", "abcabc|GETGET|-"),
    ]);
}

#[test]
fn searchmatch_tests_the_current_row() {
    check(&[("if(searchmatch(\"s=get\"), 1, 0)", "0|1|0"), ("if(searchmatch(\"timeout OR i=7\"), 1, 0)", "1|1|0")]);
}

#[test]
fn where_keeps_only_true_rows() {
    let mask =
        |text: &str| compiled(text).matches(&sample()).unwrap().iter().map(|row| row.unwrap()).collect::<Vec<_>>();
    assert_eq!(mask("i > 100"), [false, true, false]);
    assert_eq!(mask("NOT i > 100"), [true, false, false]);
    assert_eq!(mask("isnull(i)"), [false, false, true]);
    assert_eq!(mask("i + 1"), [false, false, false]);
    assert_eq!(mask("b"), [true, false, false]);
}

#[test]
fn constants_are_folded_and_conditions_known() {
    assert!(matches!(*compiled("lower(\"A\") . 1").root, ExprNode::Constant(_)));
    assert!(!matches!(*compiled("random()").root, ExprNode::Constant(_)));
    assert!(compiled("i > 1 AND true()").is_condition());
    assert!(compiled("if(i > 1, true(), false())").is_condition());
    assert!(!compiled("tostring(i > 1)").is_condition());
}

#[test]
fn faults_are_reported_before_running() {
    for text in ["match(s, \"(\")", "replace(s, \"[\", \"\")", "strptime(s, \"nothing\")", "mvfilter(m = s)"] {
        let Ok(expr) = quarry_spl::parse_expression(text) else { continue };
        let error = CompiledExpr::new(&expr, &context()).unwrap_err();
        assert!(matches!(error, EngineError::Invalid { span: Some(_), .. }), "{text}: {error}");
    }
}

#[test]
fn typed_and_text_columns_agree() {
    let typed: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), Some(-3), None]));
    let text: ArrayRef = Arc::new(StringViewArray::from(vec![Some("7"), Some("-3"), None]));
    for expression in
        ["x + 1", "x / 2", "x . \"a\"", "x + \"a\"", "x < 5", "x = \"7\"", "len(x)", "tostring(x)", "x < \"a\""]
    {
        let compiled = compiled(expression);
        let of = |array: &ArrayRef| texts(&compiled.evaluate(&batch_of([("x", array.clone())], 3).unwrap()).unwrap());
        assert_eq!(of(&typed), of(&text), "{expression}");
    }
}

#[test]
fn numbers_with_exceptions_and_texts_agree() {
    let rows = [Some("7"), Some("-"), None, Some("-3"), Some("1e1"), Some("250")];
    let number = |text: &Option<&str>| text.filter(|text| *text != "1e1").and_then(|text| text.parse::<i64>().ok());
    let numbers: ArrayRef = Arc::new(rows.iter().map(number).collect::<Int64Array>());
    let exceptions = rows.iter().map(|text| text.filter(|_| number(text).is_none())).collect::<StringViewArray>();
    let mixed = mixed_column(numbers, exceptions).unwrap();
    let text: ArrayRef = Arc::new(rows.iter().copied().collect::<StringViewArray>());
    let limits: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(6.5), Some(1.0), Some(1.0), None, Some(10.0), Some(250.0)]));
    for expression in [
        "isnum(x)",
        "NOT isnum(x)",
        "x < 5",
        "x >= 7",
        "x = \"-\"",
        "x != \"-\"",
        "x < \"a\"",
        "x = 10",
        "isnull(x)",
        "x > y",
        "y > x",
        "x = y",
        "x > 2 * y",
        "x != x",
        "x >= x",
    ] {
        let compiled = compiled(expression);
        let of = |array: &ArrayRef| {
            let columns = [("x", array.clone()), ("y", limits.clone())];
            compiled.matches(&batch_of(columns, rows.len()).unwrap()).unwrap()
        };
        let (mixed, text) = (of(&mixed), of(&text));
        let true_rows = |found: &BooleanArray| found.iter().map(|row| row == Some(true)).collect::<Vec<_>>();
        assert_eq!(true_rows(&mixed), true_rows(&text), "{expression}");
    }
}

#[test]
fn doubles_are_compared_exactly_with_long_integers() {
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![9_007_199_254_740_992.0, 1.5]));
    let rows = batch_of([("x", doubles)], 2).unwrap();
    for (text, expected) in [
        ("x = 9007199254740993", [false, false]),
        ("x < 9007199254740993", [true, true]),
        ("x = 9007199254740992", [true, false]),
    ] {
        let mask = compiled(text).matches(&rows).unwrap();
        assert_eq!(mask.iter().map(|row| row.unwrap()).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn the_texts_of_multivalues_have_a_weight() {
    let values = multi(&[&["a", "b"], &["a text that is not stored in its view", "c"], &[]]);
    assert!(weight_of(&values) > 100, "{}", weight_of(&values));
    assert!(weight_of(&values.slice(0, 1)) < weight_of(&values));
}

#[test]
fn random_differs_by_row_and_repeats_by_search() {
    let values = |expr: &CompiledExpr| texts(&expr.evaluate(&sample()).unwrap());
    let (first, second) = (compiled("random()"), compiled("random()"));
    let drawn = values(&first);
    assert_eq!(drawn, values(&second));
    assert_ne!(drawn[0], drawn[1]);
    assert_ne!(drawn, values(&first));
    assert!(drawn.iter().flatten().all(|text| text.parse::<u64>().unwrap() < 1 << 31));
}

/// Formats of times are computed once per unit, with the same result as for each time alone.
#[test]
fn formats_of_times_by_unit_are_those_of_each_time() {
    // Around the end of summer time: the clock shows 2:00 to 3:00 twice.
    let start = 1_792_884_600_i64;
    let time = |row: i64| (row % 10 != 3).then_some((start + row * 11) * 1_000_000_000 + row);
    let mut times: Vec<Option<i64>> = (0..1_000).map(time).collect();
    times.extend((0..500).rev().map(time));
    let rows = batch_of([("t", Arc::new(TimestampNanosecondArray::from(times.clone())) as ArrayRef)], 1_500).unwrap();
    let zone = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
    for text in [
        "strftime(t, \"%H\")",
        "strftime(t, \"%H:%M %z\")",
        "strftime(t, \"%F %T\")",
        "strftime(t, \"%H:%M:%S.%6N\")",
        "tonumber(strftime(t, \"%H\")) + 1",
        "if(strftime(t, \"%H\") > \"02\", strftime(t, \"%M\"), \"none\")",
        "strftime(t, \"%H\") . t",
        "coalesce(strftime(t, \"%d\"), \"no time\")",
    ] {
        let expr = quarry_spl::parse_expression(text).unwrap();
        let expr = CompiledExpr::new(&expr, &ExprContext::new(NOW, zone.clone())).unwrap();
        let found = ColumnReader::new(&expr.evaluate(&rows).unwrap());
        for (row, time) in times.iter().enumerate() {
            let one: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![*time]));
            let expected = expr.evaluate_one(vec![one]).unwrap();
            assert_eq!(found.value(row).text(), expected.text(), "{text} in row {row}");
        }
    }
}
