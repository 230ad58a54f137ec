//! `-o table`: aligned columns for people. Events show their time and text, results all their columns.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use quarry_event::value;
use quarry_search::{Cell, PART_ROWS, ResultTable};

use super::OutputStyle;
use crate::bucket::COLUMN_PADDING;

const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Rows of a table; `is_first` where its head goes before them.
pub(super) fn write(result: &ResultTable, is_first: bool, style: OutputStyle, out: &mut dyn Write) -> io::Result<()> {
    if style.events { write_events(result, style, out) } else { write_results(result, is_first, style, out) }
}

/// Each event as `time  text`.
fn write_events(result: &ResultTable, style: OutputStyle, out: &mut dyn Write) -> io::Result<()> {
    for row in result.rows() {
        let (time, raw) = (row.named("_time"), row.named("_raw"));
        let (time, raw) = (time.joined(" "), raw.joined("\n"));
        if style.color {
            writeln!(out, "{DIM}{time}{PLAIN}  {raw}")?;
        } else {
            writeln!(out, "{time}  {raw}")?;
        }
    }
    Ok(())
}

/// Columns are as wide as the widest value of their block.
fn write_results(result: &ResultTable, is_first: bool, style: OutputStyle, out: &mut dyn Write) -> io::Result<()> {
    let shown: Vec<usize> = (0..result.fields().len()).filter(|&at| is_shown(&result.fields()[at])).collect();
    let rows: Vec<_> = result.rows().collect();
    for (block_at, block) in rows.chunks(PART_ROWS).enumerate() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if let Some(width) = style.width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        if is_first && block_at == 0 {
            table.set_header(shown.iter().map(|&at| heading(&result.fields()[at], style)));
        }
        let mut numeric = vec![true; shown.len()];
        for row in block {
            let cells: Vec<Cell<'_>> = shown.iter().map(|&at| row.cell(at)).collect();
            for (column, cell) in cells.iter().enumerate() {
                numeric[column] &= is_numeric(cell);
            }
            table.add_row(cells.iter().map(|cell| cell.joined("\n").into_owned()));
        }
        for (column, is_numeric) in table.column_iter_mut().zip(numeric) {
            column.set_padding(COLUMN_PADDING);
            if is_numeric {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.to_string().lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// Internal fields stay hidden, as in Splunk's tables; `_time` and `_raw` are what people look for.
fn is_shown(field: &str) -> bool {
    !field.starts_with('_') || field == "_time" || field == "_raw"
}

fn heading(field: &str, style: OutputStyle) -> String {
    if style.color { format!("{BOLD}{field}{PLAIN}") } else { field.to_owned() }
}

fn is_numeric(cell: &Cell<'_>) -> bool {
    match cell {
        Cell::Null => true,
        Cell::Single(text) => value::parse_number(text).is_some(),
        Cell::Multi(_) => false,
    }
}
