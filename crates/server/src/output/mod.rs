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

/// Writes a whole result.
pub(crate) fn write(result: &ResultTable, style: OutputStyle, out: &mut dyn Write) -> io::Result<()> {
    match style.form {
        OutputForm::Table => table::write(result, style, out),
        OutputForm::Csv => csv::write(result, out),
        OutputForm::Json => json::write_array(result, out),
        OutputForm::Ndjson => json::write_lines(result, out),
        OutputForm::Raw => raw::write(result, out),
    }
}
