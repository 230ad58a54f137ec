//! Results on standard output: one file per form.
//!
//! All forms write to a locked, buffered stream; a reader that goes away (`| head`) ends the program quietly.

mod csv;
mod json;
mod raw;
mod table;

use std::io::{self, Write};

use quarry_search::ResultTable;

use crate::cli::OutputForm;

/// How a result is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputStyle {
    /// The form.
    pub(crate) form: OutputForm,
    /// Whether the rows are events, not results of a reporting command.
    pub(crate) events: bool,
    /// Whether colours may be used.
    pub(crate) color: bool,
    /// Width of the terminal in columns; `None` when the output is no terminal.
    pub(crate) width: Option<u16>,
}

/// Writes the rows of a result as they come.
pub(crate) struct OutputWriter<'a> {
    style: OutputStyle,
    out: &'a mut dyn Write,
    rows: usize,
}

impl<'a> OutputWriter<'a> {
    /// A writer to `out`.
    pub(crate) fn new(style: OutputStyle, out: &'a mut dyn Write) -> OutputWriter<'a> {
        OutputWriter { style, out, rows: 0 }
    }

    /// Whether rows may be written as they come: their form has no head that depends on all of them.
    pub(crate) fn takes_rows_as_they_come(style: OutputStyle) -> bool {
        match style.form {
            OutputForm::Raw | OutputForm::Ndjson | OutputForm::Json => true,
            OutputForm::Table => style.events,
            OutputForm::Csv => false,
        }
    }

    /// Writes what comes before the first row, where `fields` are the columns of all rows.
    pub(crate) fn begin(&mut self, fields: &[String]) -> io::Result<()> {
        match self.style.form {
            OutputForm::Csv => csv::write_head(fields, self.out),
            _ => Ok(()),
        }
    }

    /// Writes some rows; all parts have the same columns unless [`OutputWriter::takes_rows_as_they_come`].
    pub(crate) fn write(&mut self, part: &ResultTable) -> io::Result<()> {
        let before = self.rows;
        self.rows += part.len();
        match self.style.form {
            OutputForm::Table => table::write(part, before == 0, self.style, self.out),
            OutputForm::Csv => csv::write(part, self.out),
            OutputForm::Json => json::write_items(part, before == 0, self.out),
            OutputForm::Ndjson => json::write_lines(part, self.out),
            OutputForm::Raw => raw::write(part, self.out),
        }
    }

    /// Writes what comes after the last row.
    pub(crate) fn end(self) -> io::Result<()> {
        match self.style.form {
            OutputForm::Table if self.rows == 0 => writeln!(self.out, "no results")?,
            OutputForm::Json => json::write_end(self.rows == 0, self.out)?,
            _ => {}
        }
        self.out.flush()
    }
}

/// Writes a whole result.
pub(crate) fn write(result: &ResultTable, style: OutputStyle, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = OutputWriter::new(style, out);
    writer.begin(result.fields())?;
    writer.write(result)?;
    writer.end()
}
