//! `-o json` (array of objects) and `-o ndjson` (one object a line): numbers as numbers, several values as an array.
//! A field that a row lacks is left out of its object.

use std::io::{self, Write};

use quarry_search::{Cell, ResultTable, Row, cell};

/// Items of the array; `is_first` opens it.
pub(super) fn write_items(result: &ResultTable, is_first: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for (at, row) in result.rows().enumerate() {
        text.clear();
        text.push_str(if is_first && at == 0 { "[\n" } else { ",\n" });
        object(row, &mut text);
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Closes the array; `is_empty` when no item was written.
pub(super) fn write_end(is_empty: bool, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(if is_empty { b"[]\n" } else { b"\n]\n" })
}

pub(super) fn write_lines(result: &ResultTable, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for row in result.rows() {
        text.clear();
        object(row, &mut text);
        text.push('\n');
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn object(row: Row<'_>, out: &mut String) {
    out.push('{');
    let mut first = true;
    for (name, value) in row.cells().filter(|(_, value)| *value != Cell::Null) {
        if !first {
            out.push(',');
        }
        first = false;
        cell::write_json_text(name, out);
        out.push(':');
        cell::write_json(&value, out);
    }
    out.push('}');
}
