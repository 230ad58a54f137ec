//! `-o raw`: the unmodified text of each event. Rows without `_raw` (results of a reporting command) show their values,
//! tab-separated.

use std::io::{self, Write};

use quarry_search::{Cell, ResultTable};

pub(super) fn write(result: &ResultTable, out: &mut dyn Write) -> io::Result<()> {
    let raw = result.fields().iter().position(|field| field == "_raw");
    for row in result.rows() {
        match raw.map(|raw| row.cell(raw)) {
            Some(Cell::Single(text)) => writeln!(out, "{text}")?,
            _ => {
                let values: Vec<String> = row.cells().map(|(_, value)| value.join_values(" ").into_owned()).collect();
                writeln!(out, "{}", values.join("\t"))?;
            }
        }
    }
    Ok(())
}
