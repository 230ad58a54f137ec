//! Conversion between rows and the body of a chunk: CSV with an additional column `__mv_NAME` for each multivalue
//! column.

use std::io::Write;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::field_names::{names_of, wildcard_parts};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, Value, batch_of, is_hidden};
use quarry_event::time::parse_epoch;
use quarry_stdx::Fault;

/// Name prefix of the column with the list of values.
const MULTIVALUE_PREFIX: &str = "__mv_";
const TIME_COLUMN: &str = "_time";

/// The rows as CSV, with only the columns covered by `wanted`; all columns if `wanted` is empty.
pub(crate) fn body_of(rows: &RecordBatch, wanted: &[String]) -> Result<Vec<u8>, EngineError> {
    let covers = |name: &str| wanted.is_empty() || wanted.iter().any(|pattern| wildcard_parts(pattern, name).is_some());
    let names: Vec<String> = names_of(rows).into_iter().filter(|name| !is_hidden(name) && covers(name)).collect();
    if names.is_empty() || rows.num_rows() == 0 {
        return Ok(Vec::new());
    }
    let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(rows, name)).collect();
    let multi: Vec<bool> = readers.iter().map(|reader| is_multivalue(reader, rows.num_rows())).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    write_body(&mut writer, rows, &names, &multi, true)?;
    writer.into_inner().map_err(|error| write_error(&error))
}

fn write_error(error: &dyn std::fmt::Display) -> EngineError {
    EngineError::invalid(format!("rows cannot be written as CSV: {error}"))
}

/// Whether one of the rows has several values.
pub(crate) fn is_multivalue(reader: &ColumnReader, rows: usize) -> bool {
    (0..rows).any(|row| matches!(reader.value(row), Value::Multi(_)))
}

/// Writes these columns of the rows, and a list column for each that `multi` marks.
pub(crate) fn write_body<W: Write>(
    writer: &mut csv::Writer<W>,
    rows: &RecordBatch,
    names: &[String],
    multi: &[bool],
    with_header: bool,
) -> Result<(), EngineError> {
    let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(rows, name)).collect();
    let mut record: Vec<String> = names.to_vec();
    if with_header {
        record.extend(
            names.iter().zip(multi).filter(|(_, is)| **is).map(|(name, _)| format!("{MULTIVALUE_PREFIX}{name}")),
        );
        writer.write_record(&record).map_err(|error| write_error(&error))?;
    }
    for row in 0..rows.num_rows() {
        record.clear();
        let text = |reader: &ColumnReader| reader.value(row).text().map(|text| text.into_owned()).unwrap_or_default();
        record.extend(readers.iter().map(text));
        let lists = readers.iter().zip(multi).filter(|(_, is)| **is);
        record.extend(lists.map(|(reader, _)| match reader.value(row) {
            Value::Multi(values) => encode(values.iter().map(AsRef::as_ref)),
            _ => String::new(),
        }));
        writer.write_record(&record).map_err(|error| write_error(&error))?;
    }
    Ok(())
}

/// Parses the rows of a body; an empty cell means no value.
pub(crate) fn rows_of(body: &[u8]) -> Result<RecordBatch, Fault> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(body);
    let wrong = |error: csv::Error| Fault::unavailable(format!("its answer is not CSV: {error}"));
    let header = reader.headers().map_err(wrong)?.clone();
    let plain: Vec<usize> = (0..header.len()).filter(|at| !header[*at].starts_with(MULTIVALUE_PREFIX)).collect();
    let list_of =
        |at: &usize| header.iter().position(|name| name.strip_prefix(MULTIVALUE_PREFIX) == Some(&header[*at]));
    let lists: Vec<Option<usize>> = plain.iter().map(list_of).collect();
    let mut columns: Vec<ColumnBuilder> = plain.iter().map(|_| ColumnBuilder::new(0)).collect();
    let mut count = 0;
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        for ((at, list), column) in plain.iter().zip(&lists).zip(&mut columns) {
            let values = list.and_then(|list| record.get(list)).and_then(decode);
            let cell = record.get(*at).unwrap_or_default();
            match (values, cell) {
                (Some(values), _) => column.push_multi(&values),
                (None, "") => column.push_null(),
                (None, cell) if &header[*at] == TIME_COLUMN => match parse_epoch(cell) {
                    Some(time) => column.push_time(time),
                    None => column.push_text(cell),
                },
                (None, cell) => column.push_text(cell),
            }
        }
        count += 1;
    }
    let named = plain.iter().map(|at| header[*at].to_owned()).zip(columns.into_iter().map(ColumnBuilder::finish));
    Ok(batch_of(named, count)?)
}

/// The values in dollar signs, joined by semicolons (`$a$;$b$`); dollar signs in values are doubled.
fn encode<'v>(values: impl Iterator<Item = &'v str>) -> String {
    values.map(|value| format!("${}$", value.replace('$', "$$"))).collect::<Vec<_>>().join(";")
}

/// Parses a value list; `None` if the text is not a value list.
fn decode(text: &str) -> Option<Vec<String>> {
    let mut values = Vec::new();
    let mut characters = text.chars().peekable();
    loop {
        if characters.next()? != '$' {
            return None;
        }
        let mut value = String::new();
        loop {
            match characters.next()? {
                '$' if characters.next_if_eq(&'$').is_some() => value.push('$'),
                '$' => break,
                other => value.push(other),
            }
        }
        values.push(value);
        match characters.next() {
            None => return Some(values),
            Some(';') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip() {
        let mut multi = ColumnBuilder::new(2);
        multi.push_multi(["a$", "", "b;c"]);
        multi.push_text("one");
        let mut time = ColumnBuilder::new(2);
        time.push_time(1_795_132_800_500_000_000);
        time.push_null();
        let mut text = ColumnBuilder::new(2);
        text.push_text("say \"hi\",\nyou");
        text.push_null();
        let columns = [("m", multi.finish()), (TIME_COLUMN, time.finish()), ("t", text.finish())];
        let rows = batch_of(columns, 2).unwrap();
        let body = body_of(&rows, &[]).unwrap();
        let back = rows_of(&body).unwrap();
        for name in ["m", TIME_COLUMN, "t"] {
            let (was, is) = (rows::reader(&rows, name), rows::reader(&back, name));
            for row in 0..2 {
                assert_eq!(is.value(row).values(), was.value(row).values(), "{name} of row {row}");
            }
        }
        assert_eq!(
            String::from_utf8(body_of(&rows, &["t*".to_owned()]).unwrap()).unwrap(),
            "t\n\"say \"\"hi\"\",\nyou\"\n\"\"\n"
        );
        assert_eq!(rows_of(b"").unwrap().num_rows(), 0);
        assert!(decode("plain").is_none() && decode("$a").is_none() && decode("").is_none());
    }
}
