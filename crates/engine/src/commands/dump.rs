//! `dump`: writes the rows of a search to files in the search's directory.
//!
//! All rows are read before the first is written, so that every file has the same columns; after writing, the rows
//! are passed on. The field `_dstpath` names the subdirectory for a row. A file that has reached `rollsize=` is
//! closed, and the next row of its directory starts a file with the next number.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use flate2::Compression;
use flate2::write::GzEncoder;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::SeenNames;
use quarry_eval::lookup::LookupSource;
use quarry_eval::rows::{self, ColumnReader, RowBuffer, RowIter, is_hidden};
use quarry_spl::ast::{DUMP_FOLDER_FIELD, DumpCommand, DumpFormat};
use serde_json::Value as Json;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum bytes written by one `dump`, before compression.
const DUMP_BYTES_MAX: u64 = 64 << 30;
/// Maximum number of directories one `dump` writes to; each has a file open.
const FOLDERS_MAX: usize = 200;
/// Maximum number of characters of a component of `_dstpath`; further characters are dropped.
const FOLDER_CHARS_MAX: usize = 100;
/// Maximum depth of `_dstpath`; deeper components are dropped.
const FOLDER_DEPTH_MAX: usize = 8;

impl Execute for DumpCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Dump { command: self.clone(), files: lowering.environment.lookups() })])
    }
}

struct Dump {
    command: DumpCommand,
    files: Arc<dyn LookupSource>,
}

impl Blocking for Dump {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let (mut all, mut seen) = (RowBuffer::new("dump", &context.dataflow), SeenNames::default());
        for batch in rows {
            let batch = batch?;
            seen.add(&batch);
            all.push(&batch)?;
        }
        let shown =
            |name: &&String| !is_hidden(name) && (!name.starts_with('_') || *name == "_raw" || *name == "_time");
        let names = match self.command.fields.is_empty() {
            true => seen.all().iter().filter(shown).cloned().collect(),
            false => self.command.fields.clone(),
        };
        let mut dump =
            DumpWriter { dump: self, sid: &context.id, names, folders: BTreeMap::new(), written: 0, files: 0 };
        let (mut rows_written, mut without_text) = (0_usize, 0_usize);
        for batch in all.iter() {
            if context.stop.is_cancelled() {
                break;
            }
            let batch = batch?;
            let written = dump.add(&batch)?;
            rows_written += written;
            without_text += batch.num_rows() - written;
        }
        let files = dump.finish()?;
        context
            .messages
            .push(format!("dump wrote rows: {rows_written}, files: {files}, below dispatch/{}/dump", context.id));
        if without_text > 0 {
            context.messages.push(format!("dump skipped rows without _raw: {without_text}; use another format="));
        }
        Ok(all.into_rows())
    }
}

/// State of a dump in progress.
struct DumpWriter<'d> {
    dump: &'d Dump,
    /// Id of the search.
    sid: &'d str,
    /// Fields that are written, in order.
    names: Vec<String>,
    folders: BTreeMap<String, Folder>,
    /// Bytes so far, before compression.
    written: u64,
    files: usize,
}

/// A directory with rows.
#[derive(Default)]
struct Folder {
    /// Number of the directory's last file.
    number: usize,
    /// The open file, and its size before compression.
    open: Option<(Sink, u64)>,
}

/// An output file.
enum Sink {
    Plain(Box<dyn Write + Send>),
    Gzip(Box<GzEncoder<Box<dyn Write + Send>>>),
}

impl Sink {
    fn write(&mut self, text: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::Plain(out) => out.write_all(text),
            Sink::Gzip(out) => out.write_all(text),
        }
    }

    fn close(self) -> std::io::Result<()> {
        match self {
            Sink::Plain(mut out) => out.flush(),
            Sink::Gzip(out) => out.finish()?.flush(),
        }
    }
}

impl DumpWriter<'_> {
    /// Writes the rows of a batch; returns how many were written.
    fn add(&mut self, batch: &RecordBatch) -> Result<usize, EngineError> {
        let readers: Vec<ColumnReader> = match self.dump.command.format {
            DumpFormat::Raw => vec![rows::reader(batch, "_raw")],
            _ => self.names.iter().map(|name| rows::reader(batch, name)).collect(),
        };
        let (folders, mut scratch) = (rows::reader(batch, DUMP_FOLDER_FIELD), String::new());
        let mut written = 0;
        for row in 0..batch.num_rows() {
            if let Some(line) = self.line(&readers, row)? {
                let folder = folders.text(row, &mut scratch).map(folder_of).unwrap_or_default();
                self.write(folder, line.as_bytes())?;
                written += 1;
            }
        }
        Ok(written)
    }

    fn write(&mut self, folder: String, line: &[u8]) -> Result<(), EngineError> {
        if !self.folders.contains_key(&folder) && self.folders.len() >= FOLDERS_MAX {
            let what = "dump: _dstpath names too many folders".to_owned();
            return Err(EngineError::Limit { what, limit: "folders", value: FOLDERS_MAX as u64 });
        }
        self.written += line.len() as u64;
        if self.written > DUMP_BYTES_MAX {
            let what = "dump: too much data; narrow the search".to_owned();
            return Err(EngineError::Limit { what, limit: "bytes written", value: DUMP_BYTES_MAX });
        }
        let head = self.header()?;
        let mut state = self.folders.remove(&folder).unwrap_or_default();
        let (mut sink, bytes) = match state.open.take() {
            Some(open) => open,
            None => {
                state.number += 1;
                self.files += 1;
                let mut sink = self.open(&folder, state.number)?;
                sink.write(head.as_bytes()).map_err(write_error)?;
                (sink, head.len() as u64)
            }
        };
        sink.write(line).map_err(write_error)?;
        let bytes = bytes + line.len() as u64;
        if bytes >= self.dump.command.roll_bytes {
            self.close(sink)?;
        } else {
            state.open = Some((sink, bytes));
        }
        self.folders.insert(folder, state);
        Ok(())
    }

    fn open(&self, folder: &str, number: usize) -> Result<Sink, EngineError> {
        let command = &self.dump.command;
        let kind = match command.format {
            DumpFormat::Raw => "raw",
            DumpFormat::Csv => "csv",
            DumpFormat::Tsv => "tsv",
            DumpFormat::Json => "json",
            DumpFormat::Xml => "xml",
        };
        let packed = if command.compression == 0 { "" } else { ".gz" };
        let path = format!("{folder}{}_{number}.{kind}{packed}", command.base);
        let out = self.dump.files.dump_file(self.sid, &path);
        let out = out.map_err(|fault| EngineError::at(fault, command.base_span))?;
        Ok(match command.compression {
            0 => Sink::Plain(out),
            level => Sink::Gzip(Box::new(GzEncoder::new(out, Compression::new(level)))),
        })
    }

    fn close(&self, mut sink: Sink) -> Result<(), EngineError> {
        if self.dump.command.format == DumpFormat::Xml {
            sink.write(b"</results>\n").map_err(write_error)?;
        }
        sink.close().map_err(write_error)
    }

    /// Closes open files; returns the number of files written.
    fn finish(mut self) -> Result<usize, EngineError> {
        for (_, folder) in std::mem::take(&mut self.folders) {
            if let Some((sink, _)) = folder.open {
                self.close(sink)?;
            }
        }
        Ok(self.files)
    }

    /// Header of a file.
    fn header(&self) -> Result<String, EngineError> {
        match self.dump.command.format {
            DumpFormat::Csv | DumpFormat::Tsv => self.csv_record(self.names.iter().map(String::as_str)),
            DumpFormat::Xml => Ok("<?xml version='1.0' encoding='UTF-8'?>\n<results>\n".to_owned()),
            DumpFormat::Raw | DumpFormat::Json => Ok(String::new()),
        }
    }

    /// A row in output form; `None` if the row has nothing to write.
    fn line(&self, readers: &[ColumnReader], row: usize) -> Result<Option<String>, EngineError> {
        let mut scratch = String::new();
        Ok(Some(match self.dump.command.format {
            DumpFormat::Raw => {
                let Some(text) = readers.first().and_then(|reader| reader.text(row, &mut scratch)) else {
                    return Ok(None);
                };
                format!("{text}\n")
            }
            DumpFormat::Csv | DumpFormat::Tsv => {
                let cells: Vec<String> = readers
                    .iter()
                    .map(|reader| reader.text(row, &mut scratch).unwrap_or_default().to_owned())
                    .collect();
                self.csv_record(cells.iter().map(String::as_str))?
            }
            DumpFormat::Json => json_line(&self.names, readers, row),
            DumpFormat::Xml => xml_line(&self.names, readers, row),
        }))
    }

    fn csv_record<'c>(&self, cells: impl Iterator<Item = &'c str>) -> Result<String, EngineError> {
        let delimiter = if self.dump.command.format == DumpFormat::Tsv { b'\t' } else { b',' };
        let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
        writer.write_record(cells).map_err(|error| EngineError::invalid(format!("dump: {error}")))?;
        let bytes = writer.into_inner().map_err(|error| write_error(error.into_error()))?;
        String::from_utf8(bytes).map_err(|error| EngineError::invalid(format!("dump: {error}")))
    }
}

fn write_error(error: std::io::Error) -> EngineError {
    EngineError::invalid(format!("dump: {error}"))
}

/// The directory named by `_dstpath`, ending in `/`. Characters other than letters, digits and a few marks become `_`,
/// so that the path cannot lead out of the search's directory.
fn folder_of(path: &str) -> String {
    let mut folder = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()).take(FOLDER_DEPTH_MAX) {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | ' ' | '@' | '+');
        let part = part.chars().take(FOLDER_CHARS_MAX).map(|c| if is_plain(c) { c } else { '_' });
        // A leading dot would hide a directory, or name the parent.
        let part: String = part.enumerate().map(|(at, c)| if at == 0 && c == '.' { '_' } else { c }).collect();
        folder.push_str(&part);
        folder.push('/');
    }
    folder
}

/// The fields of a row as a JSON object; multiple values become a list.
fn json_line(names: &[String], readers: &[ColumnReader], row: usize) -> String {
    let mut line = String::from("{");
    for (name, reader) in names.iter().zip(readers) {
        let mut values: Vec<Json> = reader.values(row).map(|value| Json::String(value.into_owned())).collect();
        let value = match values.len() {
            0 => continue,
            1 => values.swap_remove(0),
            _ => Json::Array(values),
        };
        let comma = if line.len() > 1 { "," } else { "" };
        line.push_str(&format!("{comma}{}:{value}", Json::String(name.clone())));
    }
    line.push_str("}\n");
    line
}

/// The fields of a row as XML of Splunk's result format.
fn xml_line(names: &[String], readers: &[ColumnReader], row: usize) -> String {
    let mut line = String::from("<result>");
    for (name, reader) in names.iter().zip(readers) {
        let mut values = reader.values(row).peekable();
        if values.peek().is_none() {
            continue;
        }
        line.push_str("<field k=\"");
        push_escaped(&mut line, name);
        line.push_str("\">");
        for value in values {
            line.push_str("<value><text>");
            push_escaped(&mut line, &value);
            line.push_str("</text></value>");
        }
        line.push_str("</field>");
    }
    line.push_str("</result>\n");
    line
}

/// Escapes XML text; control characters other than tabs and line breaks become U+FFFD.
fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && !matches!(c, '\t' | '\n' | '\r') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_folders_stay_within_the_search_folder() {
        for (path, folder) in [
            ("", ""),
            ("20261122/web-1", "20261122/web-1/"),
            ("/etc//passwd/", "etc/passwd/"),
            ("../../x", "_./_./x/"),
            (".hidden", "_hidden/"),
            ("a\\b/c:d\n", "a_b/c_d_/"),
            ("1/2/3/4/5/6/7/8/9", "1/2/3/4/5/6/7/8/"),
        ] {
            assert_eq!(folder_of(path), folder, "{path:?}");
        }
    }
}
