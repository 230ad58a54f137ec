//! The same rows as texts and as a scan codes them give the same tables.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal64Array, DictionaryArray, Int64Array, StringViewArray, UInt32Array,
};
use arrow::array::{StringViewBuilder, TimestampNanosecondArray};
use arrow::record_batch::RecordBatch;
use quarry_event::TimeRange;
use quarry_event::shape::NumberFormat;
use quarry_spl::ast::Command;

use super::{WAYS, answer_by, context, lines_of};
use crate::command::{CommandContext, Reduce};
use crate::commands::chart::Chart;
use crate::commands::timechart::TimeChart;
use crate::commands::top::Top;
use crate::expr::ExprContext;
use crate::rows::{ColumnReader, batch_of};

/// Rows of a batch.
const BATCH: usize = 50;
/// Batches; every third keeps its texts.
const BATCHES: usize = 12;

/// Values of a column, by row.
type Values = fn(usize) -> Option<String>;

fn mixed(row: usize) -> usize {
    row.wrapping_mul(2_654_435_761) >> 7
}

fn texts_of(values: Values, batch: usize) -> Vec<Option<String>> {
    (batch * BATCH..(batch + 1) * BATCH).map(values).collect()
}

const COLUMNS: [(&str, Values); 7] = [
    ("word", |row| (!mixed(row).is_multiple_of(11)).then(|| format!("word {}", mixed(row) % 5))),
    ("path", |row| Some(["/a", "/b", "/a/long/path/that/needs/a/buffer", "7"][mixed(row + 1) % 4].to_owned())),
    ("user", |row| (!mixed(row).is_multiple_of(7)).then(|| (mixed(row) as i64 % 90 - 20).to_string())),
    ("big", |row| Some((mixed(row) as i64 % 9 * 1_000_000_007_000).to_string())),
    ("price", |row| {
        let cents = mixed(row) as i64 % 500 - 100;
        (cents % 9 != 0)
            .then(|| format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100))
    }),
    ("address", |row| Some(format!("10.0.{}.{}", mixed(row) % 3, mixed(row) % 6))),
    // Numbers in forms that no column of integers has, beside ones that it has.
    ("odd", |row| {
        Some(
            ["007", "7", "1.0", "1", "-0", "1e3", "10.0.0.1", "", "1.50", "12345678901234567890"][mixed(row) % 10]
                .to_owned(),
        )
    }),
];

fn plain(texts: &[Option<String>]) -> ArrayRef {
    Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>())
}

/// The values of a dictionary for these texts, in an order of its own, with a text no row has and perhaps a null.
fn dictionary_values(texts: &[Option<String>], shift: usize, has_null: bool) -> ArrayRef {
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

/// The texts as codes; a missing one as the code of null where the dictionary has one.
fn dictionary(texts: &[Option<String>], values: &ArrayRef) -> ArrayRef {
    let known = values.as_string_view();
    let code_of = |text: Option<&str>| known.iter().position(|known| known == text).map(|code| code as u32);
    let codes: UInt32Array = texts.iter().map(|text| code_of(text.as_deref())).collect();
    Arc::new(DictionaryArray::new(codes, Arc::clone(values)))
}

/// Texts as integers in a form; `None` when one has another form.
fn integers(texts: &[Option<String>], format: NumberFormat) -> Option<Vec<Option<i64>>> {
    let parse = |text: &Option<String>| match text {
        None => Some(None),
        Some(text) => format.parse(text.as_bytes()).map(Some),
    };
    texts.iter().map(parse).collect()
}

fn coded(texts: &[Option<String>], batch: usize) -> ArrayRef {
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

/// Batches that share the dictionaries of their columns.
const SLAB: usize = 4;

/// The dictionaries of a column, slab by slab.
fn slabs(values: Values) -> Vec<ArrayRef> {
    let texts =
        |slab: usize| (slab * SLAB..(slab + 1) * SLAB).flat_map(|batch| texts_of(values, batch)).collect::<Vec<_>>();
    (0..BATCHES.div_ceil(SLAB)).map(|slab| dictionary_values(&texts(slab), slab, slab == 1)).collect()
}

/// The rows as texts, typed with a dictionary per batch where there is no type, and with dictionaries of slabs.
fn batches() -> [Vec<RecordBatch>; 3] {
    let slabs: Vec<Vec<ArrayRef>> = COLUMNS.iter().map(|(_, values)| slabs(*values)).collect();
    let slabs = &slabs;
    let make = |coding: usize| {
        (0..BATCHES).map(move |batch| {
            let times = (batch * BATCH..(batch + 1) * BATCH).map(|row| (9_000 - row as i64 * 13) * 1_000_000_000);
            let times: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(times));
            let columns = COLUMNS.iter().zip(slabs).map(move |((name, values), slabs)| {
                let texts = texts_of(*values, batch);
                // Plain batches come in between, of one column or of all.
                let is_plain = coding == 0 || batch % 5 == 4 || (coding == 1 && (batch + name.len()) % 3 == 0);
                let column = match coding {
                    _ if is_plain => plain(&texts),
                    1 => coded(&texts, batch),
                    _ => dictionary(&texts, &slabs[batch / SLAB]),
                };
                (*name, column)
            });
            batch_of([("_time", times)].into_iter().chain(columns), BATCH).unwrap()
        })
    };
    [make(0).collect(), make(1).collect(), make(2).collect()]
}

#[test]
fn coded_columns_read_as_their_texts() {
    let [texts, typed, dictionaries] = batches();
    for (texts, coded) in texts.iter().chain(&texts).zip(typed.iter().chain(&dictionaries)) {
        for (name, _) in COLUMNS {
            let column = |rows: &RecordBatch| ColumnReader::new(rows.column_by_name(name).unwrap());
            let (text, coded) = (column(texts), column(coded));
            let mut scratch = String::new();
            for row in 0..BATCH {
                let expected = text.text(row, &mut String::new()).map(str::to_owned);
                assert_eq!(coded.text(row, &mut scratch).map(str::to_owned), expected, "{name}");
                assert_eq!(coded.is_null(row), expected.is_none());
                assert_eq!(coded.values(row).map(|text| text.into_owned()).next(), expected);
                assert_eq!(coded.number(row).map(f64::to_bits), text.number(row).map(f64::to_bits), "{expected:?}");
                assert_eq!(coded.value(row).text().map(|text| text.into_owned()), expected);
                assert_eq!(coded.present().is_none_or(|present| present.is_valid(row)), expected.is_some());
            }
        }
    }
}

#[test]
fn a_decimal_is_the_number_its_text_reads_as() {
    let numbers: Vec<i64> =
        (0..2_000).map(|at| (mixed(at) as i64).wrapping_mul(7_919) % 10i64.pow(1 + at as u32 % 18)).collect();
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
    let [texts, typed, dictionaries] = batches();
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
            for way in WAYS {
                let expected = answer_by(&stats, &texts, way);
                assert!(!expected.is_empty());
                assert_eq!(answer_by(&stats, &typed, way), expected, "{stats} by {way:?}, typed");
                assert_eq!(answer_by(&stats, &dictionaries, way), expected, "{stats} by {way:?}, dictionaries");
            }
        }
    }
}

#[test]
fn counts_alone_are_the_same_for_codes_and_texts() {
    let [texts, typed, dictionaries] = batches();
    for by in
        ["", "path", "word", "user", "big", "price", "address", "odd", "path, address", "odd, path", "path, big, odd"]
    {
        let stats = if by.is_empty() { "count".to_owned() } else { format!("count, count as again by {by}") };
        for way in WAYS {
            let expected = answer_by(&stats, &texts, way);
            assert_eq!(answer_by(&stats, &typed, way), expected, "{stats} by {way:?}, typed");
            assert_eq!(answer_by(&stats, &dictionaries, way), expected, "{stats} by {way:?}, dictionaries");
        }
    }
}

fn reduce_of(search: &str) -> Arc<dyn Reduce> {
    let parsed = quarry_spl::parse(&format!("* | {search}"));
    assert!(parsed.is_ok(), "{search}: {:?}", parsed.diagnostics);
    let context = ExprContext::new(0, jiff::tz::TimeZone::UTC);
    match &parsed.pipeline.commands[1].command {
        Command::Chart(chart) => Arc::new(Chart::new(chart, &context).unwrap()),
        Command::TimeChart(chart) => Arc::new(TimeChart::new(chart, &context).unwrap()),
        Command::Top(top) => Arc::new(Top::new(top)),
        other => panic!("{other:?}"),
    }
}

/// The table, its rows in order, from one folder or from one per batch.
fn table(search: &str, batches: &[RecordBatch], workers: bool, memory: usize) -> Vec<String> {
    let dataflow = Arc::new(crate::dataflow::Dataflow::new(memory, None).unwrap());
    let context = CommandContext { range: TimeRange::ALL, dataflow, ..context() };
    let reduce = reduce_of(search);
    reduce.prepare(Some((0, 9_000 * 1_000_000_000)), &context);
    let mut folders = vec![reduce.folder(&context).unwrap()];
    for (rows, slice) in batches.iter().zip(0..) {
        if workers && slice > 0 {
            folders.push(reduce.folder(&context).unwrap());
        }
        folders.last_mut().unwrap().add(rows, slice, 0).unwrap();
    }
    let rows: Vec<RecordBatch> = reduce.finish(folders, &context).unwrap().collect::<Result<_, _>>().unwrap();
    let schema = rows[0].schema();
    let mut lines = vec![schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(" ")];
    for batch in &rows {
        (0..batch.num_rows()).for_each(|row| lines.extend(lines_of(&batch.slice(row, 1))));
    }
    lines
}

#[test]
fn tables_are_the_same_for_codes_and_texts_and_for_any_workers() {
    let [texts, typed, dictionaries] = batches();
    for search in [
        "chart count by word",
        "chart count, dc(user) by word, path",
        "chart limit=2 avg(price) over user by word",
        "chart useother=f limit=3 sum(user) over address by odd",
        "timechart span=1m count",
        "timechart span=90s aligntime=17 count by path",
        "timechart span=1h max(user) by word",
        "timechart span=1h count",
        "timechart span=1h count by path",
        "timechart span=20m count by address",
        "timechart span=1d count by word",
        "timechart dc(address) by odd",
        "timechart span=1d per_hour(user) by _time",
        "top user",
        "top limit=3 odd",
        "top limit=0 address",
        "top limit=2 path by word",
        "top limit=4 useother=t word, path",
        "rare limit=5 user",
        "rare odd by path",
        "top price",
    ] {
        /// Memory for all groups, and for none.
        const MEMORY: [usize; 2] = [64 << 20, 0];
        let expected = table(search, &texts, false, MEMORY[0]);
        assert!(expected.len() > 1, "{search}: {expected:?}");
        for rows in [&texts, &typed, &dictionaries] {
            for workers in [false, true] {
                assert_eq!(table(search, rows, workers, MEMORY[0]), expected, "{search}, workers: {workers}");
            }
        }
        assert_eq!(table(search, &typed, true, 8 << 20), expected, "{search}");
    }
}

#[test]
fn many_values_leave_the_small_tables() {
    // Far apart and many, so that arrays give way to hash tables, for keys, for sets and for pairs.
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
        for way in WAYS {
            let expected = answer_by(stats, &texts, super::Way::OneFolder);
            assert_eq!(answer_by(stats, &typed, way), expected, "{stats} by {way:?}");
        }
    }
    assert_eq!(answer_by("dc(v) as d", &typed, super::Way::Folders), ["20000"]);
}

/// A folder looks at its size only now and then: rows it counts by code after it gave states away must not be lost.
#[test]
fn rows_counted_by_code_after_states_were_given_away_count() {
    let texts: Vec<Option<String>> = (0..BATCH).map(|row| Some(format!("group {}", row % 5))).collect();
    let codes = dictionary(&texts, &dictionary_values(&texts, 0, false));
    let rows = batch_of([("g", codes)], BATCH).unwrap();
    let (plan, context) = (super::plan("count by g"), context());
    let mut folder = super::Folder::with_limit(&plan, BATCH + 10, &context);
    (0..4).for_each(|slice| folder.add(&rows, slice, 0).unwrap());
    assert!(folder.has_given());
    let folded = plan.gather(vec![folder], &context).unwrap();
    let result = plan.values(folded, &context).unwrap();
    let counts = crate::rows::as_number_array(&crate::rows::column_or_null(&result, "count"));
    assert_eq!(counts.values().iter().sum::<f64>(), (4 * BATCH) as f64);
}
