use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray};

use super::*;
use crate::rows::{ColumnBuilder, batch_of};

fn sample() -> RecordBatch {
    let mut many = ColumnBuilder::new(4);
    many.push_multi(["Alice", "bob"]);
    many.push_text("bob");
    many.push_null();
    many.push_text("");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("status", Arc::new(Int64Array::from(vec![Some(200), Some(404), None, Some(500)]))),
        ("took", Arc::new(Float64Array::from(vec![Some(0.5), Some(2.0), None, Some(10.25)]))),
        ("code", Arc::new(StringViewArray::from(vec![Some("200"), Some("200.0"), Some("0xC8"), None]))),
        ("host", Arc::new(StringViewArray::from(vec![Some("Web-01"), Some("web-02"), Some("db"), None]))),
        ("user", many.finish()),
        (
            "_raw",
            Arc::new(StringViewArray::from(vec![
                "GET /index.html from 10.0.0.1",
                "error: disk full on /dev/sda1",
                "Error code=E42",
                "all quiet",
            ])),
        ),
    ];
    batch_of(columns, 4).unwrap()
}

/// Indices of the rows that pass.
fn run_on(rows: &RecordBatch, text: &str) -> Vec<usize> {
    let context = ExprContext::new(0, jiff::tz::TimeZone::UTC);
    let filter = RowFilter::parse(text, &context).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mask = filter.matches(rows).unwrap();
    assert_eq!((mask.len(), mask.null_count()), (rows.num_rows(), 0), "{text}");
    (0..mask.len()).filter(|row| mask.value(*row)).collect()
}

fn check(cases: &[(&str, &[usize])]) {
    let rows = sample();
    for (text, wanted) in cases {
        assert_eq!(run_on(&rows, text), *wanted, "{text}");
    }
}

#[test]
fn fields_by_number() {
    check(&[
        ("status=200", &[0]),
        ("status=\"200\"", &[0]),
        ("status=2*", &[0]),
        ("status>=404", &[1, 3]),
        ("status!=200", &[1, 3]),
        ("NOT status=200", &[1, 2, 3]),
        ("status=*", &[0, 1, 3]),
        ("NOT status=*", &[2]),
        ("took<2.5", &[0, 1]),
        ("took=10.25", &[3]),
        ("code=200", &[0, 1]),
        ("code>100", &[0, 1]),
        ("missing=1", &[]),
        ("missing!=1", &[]),
        ("NOT missing=1", &[0, 1, 2, 3]),
    ]);
}

#[test]
fn fields_by_text() {
    check(&[
        ("host=web-01", &[0]),
        ("host=WEB*", &[0, 1]),
        ("host=*0*", &[0, 1]),
        ("host!=web*", &[2]),
        ("host=CASE(web*)", &[1]),
        ("host IN (db, web-02)", &[1, 2]),
        ("host::web-01", &[0]),
        ("user=alice", &[0]),
        ("user=b*", &[0, 1]),
        ("user!=bob", &[0, 3]),
        ("user=\"\"", &[3]),
        ("user=*", &[0, 1, 3]),
    ]);
}

#[test]
fn keywords_on_raw() {
    check(&[
        ("error", &[1, 2]),
        ("err*", &[1, 2]),
        ("rror", &[]),
        ("\"disk full\"", &[1]),
        ("CASE(Error)", &[2]),
        ("TERM(10.0.0.1)", &[0]),
        ("10.0.0", &[0]),
        ("*", &[0, 1, 2, 3]),
        ("error NOT full", &[2]),
        ("error OR quiet status=500", &[3]),
        ("(error status=404) OR host=web-01", &[0, 1]),
    ]);
    let rows = crate::rows::drop_columns(&sample(), |name| name == "_raw").unwrap();
    assert!(run_on(&rows, "error").is_empty());
    assert_eq!(run_on(&rows, "error OR status=200"), [0]);
}

#[test]
fn many_values_are_looked_up() {
    let fillers: Vec<String> = (0..50).map(|at| format!("x{at}")).collect();
    let fillers = fillers.join(", ");
    let in_list = |values: &str| format!("{values}, {fillers}");
    let rows = sample();
    assert_eq!(run_on(&rows, &format!("host IN ({})", in_list("WEB-01, d*"))), [0, 2]);
    assert_eq!(run_on(&rows, &format!("status IN ({})", in_list("404, 5e2"))), [1, 3]);
    assert_eq!(run_on(&rows, &format!("code IN ({})", in_list("200"))), [0, 1]);
    assert_eq!(run_on(&rows, &format!("user IN ({})", in_list("alice"))), [0]);
    let alternatives: Vec<String> = (0..20).map(|at| format!("host=y{at} OR status={at}")).collect();
    let search = format!("{} OR host=db OR status=500 OR quiet", alternatives.join(" OR "));
    assert_eq!(run_on(&rows, &search), [2, 3]);
}

#[test]
fn a_subsearch_is_refused() {
    let context = ExprContext::new(0, jiff::tz::TimeZone::UTC);
    let pipeline = quarry_spl::ast::Pipeline { commands: Vec::new(), span: quarry_spl::ast::Span { start: 3, end: 9 } };
    let error = RowFilter::new(&SearchExpr::Subsearch(Box::new(pipeline)), &context).unwrap_err();
    assert!(matches!(error, EngineError::Invalid { span: Some(_), .. }));
}

#[test]
fn networks_contain_addresses() {
    let addresses: ArrayRef = Arc::new(StringViewArray::from(vec![
        Some("10.1.2.3"),
        Some("10.2.0.1"),
        Some("2001:db8::7"),
        Some("10.1.0.0/16"),
        Some("no address"),
        None,
    ]));
    let rows = batch_of([("ip", addresses)], 6).unwrap();
    for (text, wanted) in [
        ("ip=10.1.0.0/16", &[0, 3][..]),
        ("ip!=10.1.0.0/16", &[1, 2, 4]),
        ("ip IN (10.2.0.0/16, 2001:db8::/32)", &[1, 2]),
        ("ip=10.1.2.3/99", &[]),
    ] {
        assert_eq!(run_on(&rows, text), wanted, "{text}");
    }
}
