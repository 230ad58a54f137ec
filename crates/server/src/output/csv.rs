//! `-o csv`: header line, RFC 4180 quoting, several values joined by a line break.

use std::io::{self, Write};

use quarry_search::{ResultTable, cell};

pub(super) fn write(result: &ResultTable, out: &mut dyn Write) -> io::Result<()> {
    if result.fields().is_empty() {
        return Ok(());
    }
    let mut line = String::new();
    for (at, field) in result.fields().iter().enumerate() {
        if at > 0 {
            line.push(',');
        }
        cell::write_csv(field, &mut line);
    }
    writeln!(out, "{line}")?;
    for row in result.rows() {
        line.clear();
        for (at, (_, value)) in row.cells().enumerate() {
            if at > 0 {
                line.push(',');
            }
            cell::write_csv(&value.joined("\n"), &mut line);
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}
