//! Answers of searches in the notation of the pages, and their differences from the expected answers.

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType};
use jiff::tz::TimeZone;
use quarry_engine::{EngineError, ResultKind};
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_event::value::{format_number, write_nanos};
use quarry_spl::ast::Span;
use quarry_spl::{Diagnostic, Severity};

use crate::page::{Block, Example, ExpectedOutcome};
use crate::world::{EventStorage, World};

/// Rows of texts under names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

enum Outcome {
    Rows { table: Table, kind: ResultKind, messages: Vec<String> },
    Refused { message: String, span: Option<Span> },
}

/// Runs an example; the error describes the difference from the expected answer, with the line of the page.
pub(crate) fn check(example: &Example, kept: EventStorage) -> Result<(), String> {
    let outcome = run(example, kept).map_err(|reason| format!("{}: {reason}", example.line))?;
    match (&example.expected, outcome) {
        (ExpectedOutcome::Result(block), Outcome::Rows { table, kind, messages }) => {
            let expected = read_table(block).map_err(|reason| format!("{}: {reason}", block.line))?;
            are_of_kind(&table, kind, example).map_err(|reason| format!("{}: {reason}", block.line))?;
            compare(&expected, &table, kind).map_err(|reason| {
                format!(
                    "{}: {reason}\n{}{}",
                    block.line,
                    indented("answer", &written(&table)),
                    format_messages(&messages)
                )
            })?;
            let Some(block) = &example.messages else { return Ok(()) };
            if block.lines == messages {
                return Ok(());
            }
            Err(format!("{}: other messages\n{}", block.line, indented("messages", &messages.join("\n"))))
        }
        (ExpectedOutcome::Error(block), Outcome::Refused { message, span }) => {
            let shown = refusal(&example.search.text(), &message, span);
            let same = if block.lines.len() == 1 { block.lines[0] == message } else { block.text() == shown };
            if same { Ok(()) } else { Err(format!("{}: another error\n{}", block.line, indented("error", &shown))) }
        }
        (ExpectedOutcome::Result(block), Outcome::Refused { message, span }) => {
            let shown = refusal(&example.search.text(), &message, span);
            Err(format!("{}: refused\n{}", block.line, indented("error", &shown)))
        }
        (ExpectedOutcome::Error(block), Outcome::Rows { table, .. }) => {
            Err(format!("{}: not refused\n{}", block.line, indented("answer", &written(&table))))
        }
    }
}

/// Rows declared as events are compared by time and text, so they must have a time or a text unless the search removes
/// both.
///
fn are_of_kind(table: &Table, kind: ResultKind, example: &Example) -> Result<(), String> {
    let is_event = table.columns.iter().any(|name| name == "_raw" || name == "_time");
    let removes = example.search.text().contains("fields -");
    match kind == ResultKind::Events && !is_event && !removes && !table.rows.is_empty() {
        true => Err(format!("rows with {} are called events", table.columns.join(", "))),
        false => Ok(()),
    }
}

fn run(example: &Example, kept: EventStorage) -> Result<Outcome, String> {
    let (started, _folder) = World::of(example)?.start(&example.search, kept)?;
    let mut job = match started {
        Ok(job) => job,
        Err(diagnostics) => return Ok(refused(&diagnostics)),
    };
    let mut table = Table::default();
    while let Some(batch) = job.next_batch() {
        let batch = match batch {
            Ok(batch) => batch,
            Err(EngineError::Invalid { message, span }) => return Ok(Outcome::Refused { message, span }),
            Err(EngineError::Failed { fault, span }) => {
                return Ok(Outcome::Refused { message: fault.to_string(), span });
            }
            Err(error) => return Ok(Outcome::Refused { message: error.to_string(), span: None }),
        };
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        let first = table.rows.len();
        table.rows.extend((0..batch.num_rows()).map(|_| vec![String::new(); table.columns.len()]));
        for (name, column) in names.iter().zip(batch.columns()) {
            let at = table.columns.iter().position(|known| known == name).unwrap_or_else(|| {
                table.columns.push(name.clone());
                table.rows.iter_mut().for_each(|row| row.push(String::new()));
                table.columns.len() - 1
            });
            for row in 0..batch.num_rows() {
                table.rows[first + row][at] = cell(name, column, row);
            }
        }
    }
    Ok(Outcome::Rows { table, kind: job.kind(), messages: job.messages() })
}

fn refused(diagnostics: &[Diagnostic]) -> Outcome {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    Outcome::Refused {
        message: first.map(Diagnostic::to_string).unwrap_or_default(),
        span: first.map(|diagnostic| diagnostic.span),
    }
}

/// A cell's text; `_time` as a date and time.
fn cell(name: &str, column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    let text = match column.data_type() {
        DataType::Utf8View => column.as_string_view().value(row).to_owned(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => format_number(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => if column.as_boolean().value(row) { "True" } else { "False" }.to_owned(),
        DataType::Timestamp(..) => {
            let ns = column.as_primitive::<TimestampNanosecondType>().value(row);
            if name == "_time" { instant(ns) } else { seconds(ns) }
        }
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            let items = items.as_string_view();
            items.iter().flatten().collect::<Vec<_>>().join("\n")
        }
        DataType::Null => String::new(),
        other => format!("a column of type {other}"),
    };
    match text.parse::<i64>() {
        Ok(seconds) if name == "_time" => instant(seconds * NS_PER_SEC),
        _ => text,
    }
}

fn instant(ns: i64) -> String {
    let text = strftime(ns, "%Y-%m-%d %H:%M:%S.%9N", &TimeZone::UTC);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time in a field other than `_time`: epoch seconds with their fraction.
fn seconds(ns: i64) -> String {
    let mut text = String::new();
    write_nanos(ns, &mut text);
    text
}

fn read_table(block: &Block) -> Result<Table, String> {
    let text = block.text();
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let columns = reader.headers().map_err(|error| error.to_string())?.iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| format!("the result is not CSV: {error}"))?;
        rows.push(record.iter().map(str::to_owned).collect());
    }
    Ok(Table { columns, rows })
}

/// Compares row by row. For events, only the named columns count; for reports, all columns with a value.
fn compare(expected: &Table, actual: &Table, kind: ResultKind) -> Result<(), String> {
    if expected.rows.is_empty() && actual.rows.is_empty() {
        return Ok(());
    }
    if kind == ResultKind::Results {
        let (want, have) = (filled(expected), filled(actual));
        if want != have {
            return Err(format!("columns are {} instead of {}", have.join(", "), want.join(", ")));
        }
    }
    if expected.rows.len() != actual.rows.len() {
        return Err(format!("{} rows instead of {}", actual.rows.len(), expected.rows.len()));
    }
    for (number, (want, have)) in expected.rows.iter().zip(&actual.rows).enumerate() {
        for (name, want) in expected.columns.iter().zip(want) {
            let at = actual.columns.iter().position(|known| known == name);
            let have = at.map_or("", |at| have[at].as_str());
            if want != have {
                return Err(format!("row {}, {name}: {have:?} instead of {want:?}", number + 1));
            }
        }
    }
    Ok(())
}

/// Columns with a value in some row.
fn filled(table: &Table) -> Vec<&str> {
    let columns = table.columns.iter().enumerate();
    columns.filter(|(at, _)| table.rows.iter().any(|row| !row[*at].is_empty())).map(|(_, name)| name.as_str()).collect()
}

fn written(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let rows = std::iter::once(&table.columns).chain(&table.rows);
    let ok = rows.map(|row| writer.write_record(row)).all(|result| result.is_ok());
    let bytes = writer.into_inner().unwrap_or_default();
    if ok { String::from_utf8_lossy(&bytes).into_owned() } else { format!("{table:?}") }
}

fn format_messages(messages: &[String]) -> String {
    if messages.is_empty() { String::new() } else { format!("\n{}", indented("messages", &messages.join("\n"))) }
}

fn indented(name: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("        {line}")).collect();
    format!("      {name}:\n{}", lines.join("\n"))
}

/// The message, the line of the search that it concerns, and carets below the position.
fn refusal(search: &str, message: &str, span: Option<Span>) -> String {
    let Some(span) = span else { return message.to_owned() };
    let start = span.start.min(search.len());
    let line_start = search[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = search[line_start..].lines().next().unwrap_or_default();
    let before = search[line_start..start].chars().count();
    let end = span.end.clamp(start, line_start + line.len());
    let width = search[start..end].chars().count().max(1);
    format!("{message}\n{line}\n{}{}", " ".repeat(before), "^".repeat(width))
}
