//! `-o table`: aligned columns for people. Events are shown with time and text, other results with the columns that
//! fit.

use std::borrow::Cow;
use std::io::{self, Write};

use quarry_event::value;
use quarry_search::{Cell, PART_ROWS, ResultTable, Row};

use super::grid::{ColumnWidths, Grid, Heading};
use super::line_folding::fold_text;
use super::shown_times::to_millis;
use super::text_width::{escape_line, width, wrap};
use super::{HighlightTerms, OutputStyle, is_shown, sparkline, vertical};

const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Blanks between an event's time and text.
const EVENT_GAP: usize = 2;
/// Minimum number of columns of an event's text.
const TEXT_COLUMNS_MIN: usize = 20;
/// Maximum length of a list of column names in a note, in bytes.
const NAMES_BYTES_MAX: usize = 300;

/// State shared by the parts of a table.
#[derive(Debug, Default)]
pub(super) struct TableParts {
    /// Column widths of the last part on a terminal; the columns of a later part are at least as wide.
    fit: Option<ColumnWidths>,
    /// Names of the columns that do not fit.
    left_out: Vec<String>,
}

impl TableParts {
    /// Writes rows; `is_first` if the head precedes them, `is_only` if no other rows follow.
    pub(super) fn write(
        &mut self,
        result: &ResultTable,
        (is_first, is_only): (bool, bool),
        style: OutputStyle,
        marks: &HighlightTerms,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if style.events {
            return write_events(result, style, marks, out);
        }
        let shown: Vec<usize> = (0..result.fields().len()).filter(|&at| is_shown(&result.fields()[at])).collect();
        if style.width.is_some() && shown.iter().all(|&at| result.fields()[at] == "_raw") {
            return write_events(result, style, marks, out);
        }
        let rows: Vec<_> = result.rows().collect();
        for (block_at, block) in rows.chunks(PART_ROWS).enumerate() {
            let cells: Vec<Vec<Cell<'_>>> =
                block.iter().map(|row| shown.iter().map(|&at| row.cell(at)).collect()).collect();
            let headings = shown.iter().enumerate().map(|(column, &at)| Heading {
                text: result.fields()[at].clone(),
                is_numeric: cells.iter().all(|row| is_numeric(&row[column])),
            });
            let mut grid = Grid::new(headings.collect(), style.width.map(usize::from));
            let is_terminal = style.width.is_some();
            let times = shown.iter().position(|&at| is_terminal && result.fields()[at] == "_time");
            let shown_text = |(column, cell): (usize, &Cell<'_>)| -> Cow<'_, str> {
                let text = text_of(cell, is_terminal);
                let millis = if Some(column) == times { to_millis(&text) } else { None };
                millis.unwrap_or_else(|| Cow::Owned(text.into_owned()))
            };
            cells.iter().for_each(|row| grid.push(row.iter().enumerate().map(shown_text)));
            let fit = match &self.fit {
                Some(fit) => grid.widen_fit(fit),
                None => grid.fit(),
            };
            let left_out = grid.dropped_columns(&fit);
            if is_first && block_at == 0 {
                // A single row wider than the terminal is easier to read as a record.
                if is_only && rows.len() == 1 && !left_out.is_empty() {
                    return vertical::write(result, 0, style, marks, out);
                }
                self.left_out = left_out.into_iter().map(str::to_owned).collect();
                if style.has_head {
                    grid.write_head(&fit, style.color, out)?;
                }
            }
            let raw = shown.iter().position(|&at| result.fields()[at] == "_raw");
            let dress = |at: usize, line: &str| if Some(at) == raw { marks.highlight(line) } else { line.to_owned() };
            grid.write_rows(&fit, &dress, out)?;
            self.fit = style.width.map(|_| fit);
        }
        Ok(())
    }

    /// Writes a note with the columns that did not fit.
    pub(super) fn end(&self, style: OutputStyle, out: &mut dyn Write) -> io::Result<()> {
        let Some(text) = self.dropped_columns_note() else { return Ok(()) };
        let (dim, plain) = if style.color { (DIM, PLAIN) } else { ("", "") };
        let text = style.width.map_or_else(|| text.clone(), |columns| fold_text(&text, usize::from(columns)));
        writeln!(out, "{dim}{text}{plain}")
    }

    /// Note with the columns that did not fit, if any.
    pub(super) fn dropped_columns_note(&self) -> Option<String> {
        if self.left_out.is_empty() {
            return None;
        }
        let count = self.left_out.len();
        let mut names = String::new();
        for (at, name) in self.left_out.iter().enumerate() {
            if names.len() + name.len() > NAMES_BYTES_MAX && at > 0 {
                names.push_str(&format!(" and {} more", count - at));
                break;
            }
            names.push_str(if at > 0 { ", " } else { "" });
            names.push_str(&escape_line(name));
        }
        let columns = if count == 1 { "column" } else { "columns" };
        Some(format!("… {count} more {columns}: {names} (use | table, --vertical or -o csv)"))
    }
}

/// Formats as `name=value` the fields of an event whose text was removed.
fn format_pairs(row: Row<'_>) -> String {
    let mut text = String::new();
    for (name, cell) in row.cells().filter(|(name, cell)| is_pair(name, cell)) {
        let value = cell.join_values(",");
        let quote = if value.contains(|letter: char| letter.is_whitespace()) { "\"" } else { "" };
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(&format!("{name}={quote}{value}{quote}"));
    }
    text
}

fn is_pair(name: &str, cell: &Cell<'_>) -> bool {
    is_shown(name) && name != "_time" && !matches!(cell, Cell::Null)
}

/// Writes each event as `time  text`; for an event without a text, its fields are written. Of rows that are not events,
/// only the text is written.
fn write_events(
    result: &ResultTable,
    style: OutputStyle,
    marks: &HighlightTerms,
    out: &mut dyn Write,
) -> io::Result<()> {
    let has_text = !style.events || result.fields().iter().any(|field| field == "_raw");
    for row in result.rows() {
        let (time, raw) = (row.cell_by_name("_time"), row.cell_by_name("_raw"));
        let time = time.join_values(" ");
        let raw = if has_text { raw.join_values("\n") } else { Cow::Owned(format_pairs(row)) };
        let time = style.width.and_then(|_| to_millis(&time)).unwrap_or(time);
        // On a terminal, the lines of an event are aligned, so that a time at the margin marks the next event.
        let indent = if style.events { width(&time) + EVENT_GAP } else { 0 };
        let raw = match style.width {
            Some(columns) => {
                let room = usize::from(columns).saturating_sub(indent).max(TEXT_COLUMNS_MIN);
                let folded = |line: &str| -> Vec<String> {
                    wrap(&escape_line(line), room).into_iter().map(|part| marks.highlight(part)).collect()
                };
                let lines: Vec<String> = raw.split('\n').flat_map(folded).collect();
                lines.join(&format!("\n{:indent$}", ""))
            }
            None => raw.into_owned(),
        };
        match (style.events, style.color) {
            (true, true) => writeln!(out, "{DIM}{time}{PLAIN}  {raw}")?,
            (true, false) => writeln!(out, "{time}  {raw}")?,
            (false, _) => writeln!(out, "{raw}")?,
        }
    }
    Ok(())
}

/// The text of a cell; sparklines are drawn on a terminal only.
fn text_of<'c>(cell: &'c Cell<'_>, is_terminal: bool) -> Cow<'c, str> {
    let bars = sparkline::draw(cell).filter(|_| is_terminal);
    bars.map_or_else(|| cell.join_values("\n"), Cow::Owned)
}

fn is_numeric(cell: &Cell<'_>) -> bool {
    match cell {
        Cell::Null => true,
        Cell::Single(text) => value::parse_number(text).is_some(),
        Cell::Multi(_) => false,
    }
}
