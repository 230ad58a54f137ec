//! Results in Splunk's wire formats: JSON with every value as a string and multivalues as arrays; XML with a `<result>`
//! per row; CSV; and the raw texts of events.

use std::fmt::Write;

use quarry_search::cell::{CsvCells, write_json_text};
use quarry_search::{Cell, Row};
use quarry_stdx::Fault;

use crate::message::escape_xml;

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputMode {
    Xml,
    /// An object per row.
    Json,
    /// An array per row.
    JsonRows,
    /// An array per column.
    JsonCols,
    /// CSV with this treatment of formulas in cells.
    Csv(CsvCells),
    Raw,
}

/// Metadata before the rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultsHead<'a> {
    /// Whether these rows are a preview that later rows may replace.
    pub(crate) is_preview: bool,
    /// Number of the first row.
    pub(crate) offset: usize,
    pub(crate) fields: &'a [String],
    pub(crate) messages: &'a [WireMessage],
    /// Number of rows after post-processing; `None` without post-processing.
    pub(crate) post_processed: Option<usize>,
}

/// A message returned with the rows: kind (`INFO`, `WARN`, `FATAL`) and text.
pub(crate) type WireMessage = (&'static str, String);

impl OutputMode {
    /// Parses `output_mode`, default XML, and `csv_safe`, which neutralises formulas in CSV.
    pub(crate) fn parse(text: Option<&str>, csv_safe: bool) -> Result<OutputMode, Fault> {
        match text {
            None | Some("" | "xml" | "atom") => Ok(OutputMode::Xml),
            Some("json") => Ok(OutputMode::Json),
            Some("json_rows") => Ok(OutputMode::JsonRows),
            Some("json_cols") => Ok(OutputMode::JsonCols),
            Some("csv") => Ok(OutputMode::Csv(if csv_safe { CsvCells::Safe } else { CsvCells::Exact })),
            Some("raw") => Ok(OutputMode::Raw),
            Some(other) => Err(Fault::invalid(format!(
                "output_mode={other} is not supported: use xml, json, json_rows, json_cols, csv or raw"
            ))),
        }
    }

    /// Content type of the format.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            OutputMode::Xml => "text/xml; charset=UTF-8",
            OutputMode::Json | OutputMode::JsonRows | OutputMode::JsonCols => "application/json; charset=UTF-8",
            OutputMode::Csv(_) => "text/csv; charset=UTF-8",
            OutputMode::Raw => "text/plain; charset=UTF-8",
        }
    }

    /// Whether an answer in this format has a place for messages.
    pub(crate) fn has_messages(self) -> bool {
        !matches!(self, OutputMode::Csv(_) | OutputMode::Raw)
    }

    /// Output before the first row.
    pub(crate) fn write_head(self, head: &ResultsHead<'_>, out: &mut String) {
        match self {
            OutputMode::Xml => xml_head(head, out),
            OutputMode::Json | OutputMode::JsonRows | OutputMode::JsonCols => json_head(self, head, out),
            OutputMode::Csv(cells) => out.push_str(&csv_head(head.fields, cells)),
            OutputMode::Raw => {}
        }
    }

    /// Writes row number `offset` of the result; nothing in `JsonCols`, whose cells [`column_cell`] writes.
    pub(crate) fn write_row(self, row: Row<'_>, offset: usize, is_first: bool, out: &mut String) {
        match self {
            OutputMode::Xml => xml_row(row, offset, out),
            OutputMode::Json => result_row(row, is_first, out),
            OutputMode::JsonRows => array_row(row, is_first, out),
            OutputMode::JsonCols => {}
            OutputMode::Csv(cells) => csv_row(row, cells, out),
            OutputMode::Raw => raw_row(row, out),
        }
    }

    /// Output after the last row.
    pub(crate) fn write_end(self, out: &mut String) {
        out.push_str(match self {
            OutputMode::Xml => "</results>\n",
            OutputMode::Json => "],\"highlighted\":{}}",
            OutputMode::JsonRows | OutputMode::JsonCols => "]}",
            OutputMode::Csv(_) | OutputMode::Raw => "",
        });
    }
}

fn xml_head(head: &ResultsHead<'_>, out: &mut String) {
    let is_preview = u8::from(head.is_preview);
    out.push_str(&format!(
        "<?xml version='1.0' encoding='UTF-8'?>\n<results preview='{is_preview}'>\n<meta>\n<fieldOrder>\n"
    ));
    for field in head.fields {
        out.push_str(&format!("<field>{}</field>\n", escape_xml(field)));
    }
    out.push_str("</fieldOrder>\n</meta>\n");
    if !head.messages.is_empty() {
        out.push_str("<messages>\n");
        for (kind, text) in head.messages {
            out.push_str(&format!("  <msg type=\"{kind}\">{}</msg>\n", escape_xml(text)));
        }
        out.push_str("</messages>\n");
    }
}

fn xml_row(row: Row<'_>, offset: usize, out: &mut String) {
    out.push_str(&format!("\t<result offset='{offset}'>\n"));
    for (name, cell) in row.cells() {
        let values = match cell {
            Cell::Null => continue,
            Cell::Single(value) => vec![value],
            Cell::Multi(values) => values,
        };
        out.push_str(&format!("\t\t<field k='{}'>\n", escape_xml(name).replace('\'', "&apos;")));
        for value in values {
            let value = escape_xml(&value);
            out.push_str(&match name {
                "_raw" => format!("\t\t\t<v xml:space='preserve' trunc='0'>{value}</v>\n"),
                _ => format!("\t\t\t<value><text>{value}</text></value>\n"),
            });
        }
        out.push_str("\t\t</field>\n");
    }
    out.push_str("\t</result>\n");
}

/// Output up to the first row or column.
fn json_head(mode: OutputMode, head: &ResultsHead<'_>, out: &mut String) {
    let is_preview = head.is_preview;
    out.push_str(&format!("{{\"preview\":{is_preview},\"init_offset\":{},\"messages\":[", head.offset));
    for (at, (kind, message)) in head.messages.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"type\":\"" } else { "{\"type\":\"" });
        out.push_str(kind);
        out.push_str("\",\"text\":");
        write_json_text(message, out);
        out.push('}');
    }
    out.push(']');
    if let Some(rows) = head.post_processed {
        out.push_str(&format!(",\"post_process_count\":{rows}"));
    }
    out.push_str(",\"fields\":[");
    for (at, field) in head.fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        if mode == OutputMode::Json {
            out.push_str("{\"name\":");
        }
        write_json_text(field, out);
        if mode == OutputMode::Json {
            out.push('}');
        }
    }
    out.push_str(match mode {
        OutputMode::JsonRows => "],\"rows\":[",
        OutputMode::JsonCols => "],\"columns\":[",
        _ => "],\"results\":[",
    });
}

/// A row as an array, with `null` for missing fields.
fn array_row(row: Row<'_>, is_first: bool, out: &mut String) {
    out.push_str(if is_first { "[" } else { ",[" });
    for (at, (_, cell)) in row.cells().enumerate() {
        if at > 0 {
            out.push(',');
        }
        cell_json(&cell, out);
    }
    out.push(']');
}

/// A row's value in a column.
pub(crate) fn column_cell(row: Row<'_>, column: usize, is_first: bool, out: &mut String) {
    if !is_first {
        out.push(',');
    }
    cell_json(&row.cell(column), out);
}

fn result_row(row: Row<'_>, is_first: bool, out: &mut String) {
    if !is_first {
        out.push(',');
    }
    row_json(row, out);
}

/// A row as a line of `export`; `offset` counts rows from the start, `is_last` marks the last row.
pub(crate) fn export_row(row: Row<'_>, offset: usize, is_last: bool, out: &mut String) {
    write_export_row(row, (offset, is_last), false, out);
}

/// Like [`export_row`], for a row of a preview.
pub(crate) fn export_preview_row(row: Row<'_>, offset: usize, is_last: bool, out: &mut String) {
    write_export_row(row, (offset, is_last), true, out);
}

fn write_export_row(row: Row<'_>, (offset, is_last): (usize, bool), is_preview: bool, out: &mut String) {
    // Writing into a String cannot fail.
    let _infallible = write!(out, "{{\"preview\":{is_preview},\"offset\":{offset}");
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
        cell_json(&cell, out);
    }
    out.push('}');
}

fn cell_json(cell: &Cell<'_>, out: &mut String) {
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Single(text) => write_json_text(text, out),
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

/// The header line for these columns.
fn csv_head(fields: &[String], cells: CsvCells) -> String {
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
fn csv_row(row: Row<'_>, cells: CsvCells, out: &mut String) {
    for (at, (_, cell)) in row.cells().enumerate() {
        if at > 0 {
            out.push(',');
        }
        cells.write(&cell.join_values("\n"), out);
    }
    out.push('\n');
}

/// The text of an event; nothing for a row without `_raw`, as in Splunk.
pub(crate) fn raw_row(row: Row<'_>, out: &mut String) {
    if let Cell::Single(text) = row.cell_by_name("_raw") {
        out.push_str(&text);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_have_messages_write_them() {
        let told = "no event has a field `levle`";
        let messages: [WireMessage; 1] = [("INFO", told.to_owned())];
        for name in ["xml", "json", "json_rows", "json_cols", "csv", "raw"] {
            let mode = OutputMode::parse(Some(name), false).unwrap();
            let mut out = String::new();
            mode.write_head(&ResultsHead { messages: &messages, ..ResultsHead::default() }, &mut out);
            assert_eq!(mode.has_messages(), out.contains(told), "{name}: {out}");
        }
    }
}
