//! `-o csv`: header line, RFC 4180 quoting, multivalues joined by a line break.

use std::io::{self, Write};

use quarry_search::ResultTable;
use quarry_search::cell::CsvCells;

/// Writes the header line, or nothing if there are no columns.
pub(super) fn write_head(fields: &[String], cells: CsvCells, out: &mut dyn Write) -> io::Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    let mut line = String::new();
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            line.push(',');
        }
        cells.write(field, &mut line);
    }
    writeln!(out, "{line}")
}

/// Writes a line per row.
pub(super) fn write(result: &ResultTable, cells: CsvCells, out: &mut dyn Write) -> io::Result<()> {
    if result.fields().is_empty() {
        return Ok(());
    }
    let mut line = String::new();
    for row in result.rows() {
        line.clear();
        for (at, (_, value)) in row.cells().enumerate() {
            if at > 0 {
                line.push(',');
            }
            cells.write(&value.join_values("\n"), &mut line);
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}
