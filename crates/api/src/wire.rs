//! Results in Splunk's wire forms: every JSON value a string, several values an array of strings.

use std::fmt::Write;

use quarry_search::cell::{CsvCells, write_json_text};
use quarry_search::{Cell, Row};
use quarry_stdx::Fault;

/// Forms a client may ask for with `output_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputMode {
    Json,
    /// What stands in its cells.
    Csv(CsvCells),
    Raw,
}

impl OutputMode {
    /// Reads `output_mode`, JSON when absent, and `csv_safe`, whether cells of CSV are no formulas.
    pub(crate) fn parse(text: Option<&str>, csv_safe: bool) -> Result<OutputMode, Fault> {
        match text {
            None | Some("json") => Ok(OutputMode::Json),
            Some("csv") => Ok(OutputMode::Csv(if csv_safe { CsvCells::Safe } else { CsvCells::Exact })),
            Some("raw") => Ok(OutputMode::Raw),
            Some(other) => Err(Fault::invalid(format!("output_mode={other} is not served: use json, csv or raw"))),
        }
    }

    /// Content type of the form.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            OutputMode::Json => "application/json; charset=UTF-8",
            OutputMode::Csv(_) => "text/csv; charset=UTF-8",
            OutputMode::Raw => "text/plain; charset=UTF-8",
        }
    }
}

/// The answer of a oneshot search, one object of all results, up to its first row.
pub(crate) fn results_head(fields: &[String], messages: &[String]) -> String {
    let mut out = String::from("{\"preview\":false,\"init_offset\":0,\"messages\":[");
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str("{\"type\":\"WARN\",\"text\":");
        write_json_text(message, &mut out);
        out.push('}');
    }
    out.push_str("],\"fields\":[");
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str("{\"name\":");
        write_json_text(field, &mut out);
        out.push('}');
    }
    out.push_str("],\"results\":[");
    out
}

/// A row of such an answer.
pub(crate) fn result_row(row: Row<'_>, is_first: bool, out: &mut String) {
    if !is_first {
        out.push(',');
    }
    row_json(row, out);
}

/// What comes after its last row.
pub(crate) const RESULTS_END: &str = "],\"highlighted\":{}}";

/// The line of a row, as `export` streams them; `offset` counts rows from the start, `is_last` marks the end.
pub(crate) fn export_row(row: Row<'_>, offset: usize, is_last: bool, out: &mut String) {
    out.push_str("{\"preview\":false,\"offset\":");
    // Writing into a String cannot fail.
    let _infallible = write!(out, "{offset}");
    if is_last {
        out.push_str(",\"lastrow\":true");
    }
    out.push_str(",\"result\":");
    row_json(row, out);
    out.push_str("}\n");
}

fn row_json(row: Row<'_>, out: &mut String) {
    out.push('{');
    let mut first = true;
    for (name, cell) in row.cells() {
        if cell == Cell::Null {
            continue;
        }
        if !first {
            out.push(',');
        }
        first = false;
        write_json_text(name, out);
        out.push(':');
        match cell {
            Cell::Null => out.push_str("null"),
            Cell::Single(text) => write_json_text(&text, out),
            Cell::Multi(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_json_text(value, out);
                }
                out.push(']');
            }
        }
    }
    out.push('}');
}

/// The header line of a table with these columns.
pub(crate) fn csv_head(fields: &[String], cells: CsvCells) -> String {
    let mut out = String::new();
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        cells.write(field, &mut out);
    }
    if !fields.is_empty() {
        out.push('\n');
    }
    out
}

/// The line of a row.
pub(crate) fn csv_row(row: Row<'_>, cells: CsvCells, out: &mut String) {
    for (at, (_, cell)) in row.cells().enumerate() {
        if at > 0 {
            out.push(',');
        }
        cells.write(&cell.joined("\n"), out);
    }
    out.push('\n');
}

/// The text of an event; a row without `_raw` gives nothing, as in Splunk.
pub(crate) fn raw_row(row: Row<'_>, out: &mut String) {
    if let Cell::Single(text) = row.named("_raw") {
        out.push_str(&text);
        out.push('\n');
    }
}
