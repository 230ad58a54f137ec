//! Writes the files of a data set: texts as programs log them, and the parsed table as newline-delimited JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{Column, Event, Shape, Value};

/// Open files of a data set.
pub(super) struct Files {
    logs: Vec<(&'static str, BufWriter<File>)>,
    columns: Vec<Column>,
    parsed: BufWriter<File>,
    line: String,
}

impl Files {
    pub(super) fn create(shape: &dyn Shape, folder: &Path) -> io::Result<Files> {
        std::fs::create_dir_all(folder)?;
        let open = |name: &str| File::create(folder.join(name)).map(BufWriter::new);
        let logs =
            shape.files().iter().map(|file| Ok((file.sourcetype, open(file.name)?))).collect::<io::Result<_>>()?;
        Ok(Files { logs, columns: shape.columns(), parsed: open("parsed.ndjson")?, line: String::new() })
    }

    pub(super) fn write(&mut self, number: u64, millis: i64, event: &Event) -> io::Result<()> {
        let Some((sourcetype, log)) = self.logs.get_mut(event.file) else { return Ok(()) };
        log.write_all(event.text.as_bytes())?;
        log.write_all(b"\n")?;
        let line = &mut self.line;
        line.clear();
        line.push_str(&format!("{{\"n\":{number},\"t\":{millis},\"sourcetype\":\"{sourcetype}\",\"raw\":"));
        push_quoted(&event.text, line);
        for (column, value) in self.columns.iter().zip(&event.values) {
            line.push_str(&format!(",\"{}\":", column.name));
            match value {
                Value::Absent => line.push_str("null"),
                Value::Text(text) => push_quoted(text, line),
                Value::Integer(number) => line.push_str(&number.to_string()),
                Value::Number(number) => line.push_str(&number.to_string()),
            }
        }
        line.push_str("}\n");
        self.parsed.write_all(line.as_bytes())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        for (_, log) in &mut self.logs {
            log.flush()?;
        }
        self.parsed.flush()
    }
}

/// Appends a text as a JSON string.
pub(super) fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}
