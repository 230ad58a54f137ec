//! Results on standard output; each format has a module.
//!
//! All formats write to a locked, buffered stream; a reader that closes the output (`| head`) ends the program without
//! an error.

mod csv;
pub(crate) mod grid;
mod highlight;
mod json;
pub(crate) mod line_folding;
pub(crate) mod pager;
mod raw;
pub(crate) mod shown_times;
mod sparkline;
mod table;
pub(crate) mod text_width;
mod vertical;

use std::io::{self, Write};

use quarry_search::ResultTable;
use quarry_search::cell::CsvCells;
use quarry_search::hints::AnswerColumns;
use quarry_spl::analyse::SearchedText;
use quarry_stdx::log;

use crate::cli::OutputForm;
use table::TableParts;

/// Presentation of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputStyle {
    /// The format.
    pub(crate) form: OutputForm,
    /// Whether tables and CSV have a line of headings.
    pub(crate) has_head: bool,
    /// Whether the rows are events rather than results of a reporting command.
    pub(crate) events: bool,
    /// Whether colours may be used.
    pub(crate) color: bool,
    /// Width of the terminal; `None` if the output is not a terminal. On a terminal, control characters in the data are
    /// escaped.
    pub(crate) width: Option<u16>,
}

/// Width that disables wrapping.
pub(crate) const NO_WRAP: u16 = u16::MAX;

/// Search terms to highlight in events.
#[derive(Debug, Default)]
pub(crate) struct HighlightTerms(Vec<SearchedText>);

impl HighlightTerms {
    /// The terms of a search, if colours may be used.
    pub(crate) fn of(search: &str, style: OutputStyle) -> HighlightTerms {
        match style.color && style.width.is_some() {
            true => {
                HighlightTerms(quarry_spl::analyse::highlighted_texts(&quarry_spl::parse(search).pipeline.commands))
            }
            false => HighlightTerms::default(),
        }
    }

    /// Highlights the search terms in a line.
    fn highlight(&self, line: &str) -> String {
        if self.0.is_empty() { line.to_owned() } else { highlight::highlight(line, &self.0) }
    }
}

/// Writes the rows of a result, part by part.
pub(crate) struct OutputWriter<'a> {
    style: OutputStyle,
    marks: HighlightTerms,
    out: &'a mut dyn Write,
    table: TableParts,
    written: OutputStatistics,
    /// Expected number of rows, if known.
    rows_all: Option<usize>,
    types: json::FieldTypes,
    /// Rows of a JSON array held until the types of its fields are known.
    held: Vec<ResultTable>,
    held_rows: usize,
    held_bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct OutputStatistics {
    /// Columns and number of rows written.
    pub(crate) columns: AnswerColumns,
    /// Note with the columns that did not fit the terminal, if any.
    pub(crate) left_out: Option<String>,
    /// Whether rows that are events were written.
    has_events: bool,
}

impl OutputStatistics {
    /// True if the result is one row of counts and sums over no events, or such a row for each time span.
    pub(crate) fn is_empty_aggregate(&self) -> bool {
        !self.has_events && self.columns.is_empty_aggregate()
    }
}

/// Maximum number of rows of a JSON array from a server that are held to determine the types of fields. Later rows use
/// the same types; values of another type become strings.
const HELD_ROWS_MAX: usize = 100_000;
/// Maximum memory of held rows; rows beyond it are treated like rows beyond [`HELD_ROWS_MAX`].
const HELD_BYTES_MAX: usize = 64 << 20;

impl<'a> OutputWriter<'a> {
    /// Creates a writer to `out`.
    pub(crate) fn new(style: OutputStyle, marks: HighlightTerms, out: &'a mut dyn Write) -> OutputWriter<'a> {
        OutputWriter {
            style,
            marks,
            out,
            table: TableParts::default(),
            written: OutputStatistics::default(),
            rows_all: None,
            types: json::FieldTypes::default(),
            held: Vec::new(),
            held_rows: 0,
            held_bytes: 0,
        }
    }

    /// Sets the expected number of rows.
    pub(crate) fn set_expected_rows(&mut self, rows: usize) {
        self.rows_all = Some(rows);
    }

    /// True if rows may be written as they arrive, because nothing before them depends on later rows.
    pub(crate) fn can_stream(style: OutputStyle) -> bool {
        match style.form {
            OutputForm::Raw | OutputForm::Ndjson | OutputForm::Vertical => true,
            OutputForm::Table => style.events,
            OutputForm::Csv | OutputForm::SafeCsv | OutputForm::Json => false,
        }
    }

    /// True if rows must be passed to [`OutputWriter::inspect`] before the first is written.
    pub(crate) fn requires_inspection(&self) -> bool {
        self.style.form == OutputForm::Json
    }

    /// Inspects rows that will be written.
    pub(crate) fn inspect(&mut self, part: &ResultTable) {
        self.types.update(part);
    }

    /// Takes rows that were not inspected before; they may be held before they are written.
    pub(crate) fn take_rows(&mut self, part: ResultTable) -> io::Result<()> {
        if !self.requires_inspection() || self.held_rows >= HELD_ROWS_MAX || self.held_bytes >= HELD_BYTES_MAX {
            self.write_held()?;
            return self.write(&part);
        }
        self.inspect(&part);
        self.held_rows += part.len();
        self.held_bytes += part.memory_bytes();
        self.held.push(part);
        Ok(())
    }

    fn write_held(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.held).iter().try_for_each(|part| self.write(part))
    }

    /// Writes the head before the first row; `fields` are the columns of all rows.
    pub(crate) fn begin(&mut self, fields: &[String]) -> io::Result<()> {
        match csv_cells(self.style.form).filter(|_| self.style.has_head) {
            Some(cells) => self.write_data(|out| csv::write_head(fields, cells, out)),
            None => Ok(()),
        }
    }

    /// Writes some rows; all parts must have the same columns, unless [`OutputWriter::can_stream`] is true.
    pub(crate) fn write(&mut self, part: &ResultTable) -> io::Result<()> {
        let before = self.written.columns.rows;
        if self.style.events {
            self.written.columns.rows += part.len();
            self.written.has_events |= !part.is_empty();
        } else {
            self.written.columns.add(part);
        }
        match self.style.form {
            OutputForm::Table => {
                let place = (before == 0, self.rows_all == Some(part.len()));
                self.table.write(part, place, self.style, &self.marks, self.out)
            }
            OutputForm::Vertical => vertical::write(part, before, self.style, &self.marks, self.out),
            OutputForm::Csv | OutputForm::SafeCsv => {
                let cells = csv_cells(self.style.form).unwrap_or(CsvCells::Exact);
                self.write_data(|out| csv::write(part, cells, out))
            }
            OutputForm::Json => {
                let types = std::mem::take(&mut self.types);
                let written = self.write_data(|out| json::write_items(part, &types, before == 0, out));
                self.types = types;
                written
            }
            OutputForm::Ndjson => self.write_data(|out| json::write_lines(part, out)),
            OutputForm::Raw => self.write_data(|out| raw::write(part, out)),
        }
    }

    /// Writes data in a format for programs: unchanged, except that control characters are escaped on a terminal.
    fn write_data(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if self.style.width.is_none() {
            return write(self.out);
        }
        let mut text = Vec::new();
        write(&mut text)?;
        let is_json = matches!(self.style.form, OutputForm::Json | OutputForm::Ndjson);
        // The text is written line by line, so that Ctrl-C can end the output after a whole line.
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.split_inclusive('\n');
        lines.try_for_each(|line| self.out.write_all(text_width::escape_unsafe(line, is_json).as_bytes()))
    }

    /// Writes the end of the output after the last row and returns statistics.
    pub(crate) fn end(mut self) -> io::Result<OutputStatistics> {
        self.write_held()?;
        match self.style.form {
            // An empty result is a text on a terminal; elsewhere nothing is written, and a message on standard error
            // says so.
            OutputForm::Table | OutputForm::Vertical if self.written.columns.rows == 0 => match self.style.width {
                Some(_) => writeln!(self.out, "no results")?,
                None => log::info("no results"),
            },
            OutputForm::Table => {
                self.table.end(self.style, self.out)?;
                self.written.left_out = self.table.dropped_columns_note();
            }
            OutputForm::Json => json::write_end(self.written.columns.rows == 0, self.out)?,
            _ => {}
        }
        self.out.flush()?;
        Ok(self.written)
    }
}

/// CSV form of cells; `None` for other formats.
fn csv_cells(form: OutputForm) -> Option<CsvCells> {
    match form {
        OutputForm::Csv => Some(CsvCells::Exact),
        OutputForm::SafeCsv => Some(CsvCells::Safe),
        OutputForm::Table | OutputForm::Vertical | OutputForm::Json | OutputForm::Ndjson | OutputForm::Raw => None,
    }
}

/// Writes a complete result.
pub(crate) fn write(result: &ResultTable, style: OutputStyle, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = OutputWriter::new(style, HighlightTerms::default(), out);
    writer.set_expected_rows(result.len());
    writer.begin(result.fields())?;
    writer.inspect(result);
    writer.write(result)?;
    writer.end().map(|_| ())
}

/// True if a field is shown; internal fields are hidden, as in Splunk's tables, except `_time` and `_raw`.
fn is_shown(field: &str) -> bool {
    !field.starts_with('_') || field == "_time" || field == "_raw"
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    /// Returns the output for `rows` rows with these field values.
    fn shown(fields: &[(&str, &str)], rows: usize, style: OutputStyle) -> String {
        let names: Vec<String> = fields.iter().map(|(name, _)| (*name).to_owned()).collect();
        let values: Vec<[String; 1]> = fields.iter().map(|(_, value)| [(*value).to_owned()]).collect();
        let value_of = |_: usize, column: usize| &values[column][..];
        let table = ResultTable::from_texts(&names, rows, TimeZone::UTC, value_of).unwrap();
        let mut out = Vec::new();
        write(&table, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const TERMINAL: OutputStyle =
        OutputStyle { form: OutputForm::Table, has_head: true, events: false, color: false, width: Some(36) };
    const WIDE: &[(&str, &str)] =
        &[("a", "1"), ("message", "some longer text here"), ("b", "2345"), ("c", "xyzxyzxyz")];

    #[test]
    fn columns_that_do_not_fit_are_named() {
        let text = shown(WIDE, 2, TERMINAL);
        assert_eq!(
            text,
            "a  message                   b\n1  some longer text here  2345\n1  some longer text here  2345\n… 1 more column: c (use | table,\n--vertical or -o csv)\n"
        );
        let pipe = shown(WIDE, 1, OutputStyle { width: None, ..TERMINAL });
        assert_eq!(pipe.lines().count(), 2, "{pipe}");
        assert!(pipe.lines().all(|line| line.contains('c') || line.contains("xyz")), "{pipe}");
    }

    #[test]
    fn headings_can_be_omitted() {
        let bare = OutputStyle { has_head: false, ..TERMINAL };
        assert_eq!(shown(&[("n", "12345"), ("x", "y")], 1, bare), "12345  y\n");
        assert_eq!(shown(&[("n", "12345")], 2, OutputStyle { form: OutputForm::Csv, ..bare }), "12345\n12345\n");
    }

    #[test]
    fn single_wide_rows_and_requested_records_are_vertical() {
        let record = "-[ 1 ]----------------------------------\na        1\nmessage  some longer text here\nb        2345\nc        xyzxyzxyz\n";
        assert_eq!(shown(WIDE, 1, TERMINAL), record);
        assert_eq!(shown(WIDE, 1, OutputStyle { form: OutputForm::Vertical, width: None, ..TERMINAL }), record);
    }

    #[test]
    fn records_highlight_terms_in_the_event_text_only() {
        let style = OutputStyle { form: OutputForm::Vertical, color: true, width: Some(80), ..TERMINAL };
        let names = ["message", "_raw"].map(str::to_owned);
        let texts = [["an error\nan error".to_owned()], ["one error\ntwo error".to_owned()]];
        let table = ResultTable::from_texts(&names, 1, TimeZone::UTC, |_, column| &texts[column][..]).unwrap();
        let mut out = Vec::new();
        let mut writer = OutputWriter::new(style, HighlightTerms::of("error", style), &mut out);
        writer.begin(table.fields()).unwrap();
        writer.write(&table).unwrap();
        writer.end().unwrap();
        let shown = String::from_utf8(out).unwrap();
        let marked: Vec<bool> =
            shown.lines().filter(|line| line.contains("error")).map(|line| line.contains("\u{1b}[1;33m")).collect();
        assert_eq!(marked, [false, false, true, true], "{shown:?}");
    }

    #[test]
    fn no_format_lets_data_control_a_terminal() {
        let event = &[("_raw", "a\u{1b}[31mred\u{9b}2J\tb")];
        for (form, on_terminal) in [
            (OutputForm::Raw, "a\\x1b[31mred\\u{9b}2J\tb\n"),
            (OutputForm::Csv, "_raw\na\\x1b[31mred\\u{9b}2J\tb\n"),
            (OutputForm::Ndjson, "{\"_raw\":\"a\\u001b[31mred\\u009b2J\\tb\"}\n"),
            (OutputForm::Table, "_raw\na\\x1b[31mred\\u{9b}2J    b\n"),
        ] {
            let style = OutputStyle { form, width: Some(NO_WRAP), ..TERMINAL };
            let shown_there = shown(event, 1, style);
            assert!(shown_there.ends_with(on_terminal.trim_start_matches("_raw\n")), "{form:?} {shown_there:?}");
            let exact = shown(event, 1, OutputStyle { width: None, ..style });
            assert!(exact.contains("\u{9b}2J"), "{form:?} {exact:?}");
        }
    }

    #[test]
    fn held_rows_of_an_array_are_bounded_by_their_bytes() {
        let text = "x".repeat(HELD_BYTES_MAX / 16);
        let part = |value: &str| {
            let values = [[value.to_owned()], [text.clone()]];
            let names = ["n".to_owned(), "text".to_owned()];
            ResultTable::from_texts(&names, 1, TimeZone::UTC, |_, column| &values[column][..]).unwrap()
        };
        let style = OutputStyle { form: OutputForm::Json, width: None, ..TERMINAL };
        let mut out = Vec::new();
        let mut writer = OutputWriter::new(style, HighlightTerms::default(), &mut out);
        let mut held_max = 0;
        for row in 0..40 {
            // A string among the first rows makes all values strings; a later string does not affect other values.
            writer.take_rows(part(if row == 39 { "none" } else { "7" })).unwrap();
            held_max = held_max.max(writer.held.iter().map(ResultTable::memory_bytes).sum());
        }
        assert!(held_max > 0 && held_max <= HELD_BYTES_MAX + 2 * text.len(), "{held_max}");
        writer.end().unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!((out.matches("\"n\":7,").count(), out.matches("\"n\":\"none\"").count()), (39, 1));
        assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok());
    }

    #[test]
    fn lines_of_an_event_are_aligned_on_a_terminal() {
        let event = &[("_time", "T1"), ("_raw", "first\n  at a\nlast")];
        let style = OutputStyle { events: true, ..TERMINAL };
        assert_eq!(shown(event, 1, style), "T1  first\n      at a\n    last\n");
        assert_eq!(shown(event, 1, OutputStyle { width: None, ..style }), "T1  first\n  at a\nlast\n");
    }

    #[test]
    fn events_are_folded_at_words_only_on_a_terminal() {
        let event = &[("_time", "T1"), ("_raw", "user eva logs in from 192.168.1.10 port=40022 ok")];
        let style = OutputStyle { events: true, ..TERMINAL };
        assert_eq!(shown(event, 1, style), "T1  user eva logs in from\n    192.168.1.10 port=40022 ok\n");
        let narrow = OutputStyle { width: Some(24), ..style };
        assert_eq!(shown(event, 1, narrow), "T1  user eva logs in\n    from 192.168.1.10\n    port=40022 ok\n");
        let pipe = OutputStyle { width: None, ..style };
        assert_eq!(shown(event, 1, pipe), "T1  user eva logs in from 192.168.1.10 port=40022 ok\n");
    }

    #[test]
    fn headings_and_texts_are_escaped_on_a_terminal() {
        let colored = OutputStyle { color: true, ..TERMINAL };
        let text = shown(&[("n", "12345"), ("x", "y")], 1, colored);
        assert_eq!(text, "    \u{1b}[1mn\u{1b}[0m  \u{1b}[1mx\u{1b}[0m\n12345  y\n");
        let raw = shown(&[("_raw", "a\u{1b}[2Jb and so on, longer than the terminal is")], 1, TERMINAL);
        assert_eq!(raw, "a\\x1b[2Jb and so on, longer than the\nterminal is\n");
    }
}
