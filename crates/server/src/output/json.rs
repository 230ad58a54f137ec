//! `-o json` (array of objects) and `-o ndjson` (an object per line), multivalues as arrays. Missing fields are
//! omitted.
//!
//! In the array, all values of a field have one type: numbers if the text of every value is the text that JSON prints
//! for the number, or if all values have the same number of decimals; otherwise strings ([`JsonTypeDetector`]). The
//! types are determined before the first row is written: from all rows, or from the first rows of a server's long
//! answer. A line of ndjson is written at once, so each value has its own type.

use std::collections::HashMap;
use std::io::{self, Write};

use quarry_search::cell::{JsonType, JsonTypeDetector};
use quarry_search::{Cell, ResultTable, Row, cell};

/// The types of an array's fields.
#[derive(Default)]
pub(super) struct FieldTypes(HashMap<String, JsonTypeDetector>);

impl FieldTypes {
    /// Inspects rows to determine the types of their fields.
    pub(super) fn update(&mut self, result: &ResultTable) {
        let mut types: Vec<JsonTypeDetector> =
            result.fields().iter().map(|name| self.0.get(name).copied().unwrap_or_default()).collect();
        for row in result.rows() {
            types.iter_mut().zip(row.cells()).for_each(|(column, (_, value))| column.update(&value));
        }
        self.0.extend(result.fields().iter().cloned().zip(types));
    }

    fn of(&self, name: &str) -> JsonType {
        self.0.get(name).map_or(JsonType::Mixed, JsonTypeDetector::json_type)
    }
}

/// Writes rows as items of the array; `is_first` opens the array.
pub(super) fn write_items(
    result: &ResultTable,
    types: &FieldTypes,
    is_first: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let types: Vec<JsonType> = result.fields().iter().map(|name| types.of(name)).collect();
    let mut text = String::new();
    for (at, row) in result.rows().enumerate() {
        text.clear();
        text.push_str(if is_first && at == 0 { "[\n" } else { ",\n" });
        write_object(row, types.iter().copied(), &mut text);
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Closes the array; `is_empty` if no item was written.
pub(super) fn write_end(is_empty: bool, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(if is_empty { b"[]\n" } else { b"\n]\n" })
}

pub(super) fn write_lines(result: &ResultTable, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for row in result.rows() {
        text.clear();
        write_object(row, std::iter::repeat(JsonType::Mixed), &mut text);
        text.push('\n');
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn write_object(row: Row<'_>, types: impl Iterator<Item = JsonType>, out: &mut String) {
    out.push('{');
    let mut first = true;
    for ((name, value), kind) in row.cells().zip(types).filter(|((_, value), _)| *value != Cell::Null) {
        if !first {
            out.push(',');
        }
        first = false;
        cell::write_json_text(name, out);
        out.push(':');
        cell::write_json(&value, kind, out);
    }
    out.push('}');
}
