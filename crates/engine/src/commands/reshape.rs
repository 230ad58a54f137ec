//! Commands that turn tables into other tables: mvcombine, transpose, xyseries, untable, gauge.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use quarry_event::value::{parse_number, sort_key};
use quarry_spl::ast::{TransposeCommand, XySeriesCommand};

use super::pivot::row_order;
use super::values::DELIMITER_KEY;
use crate::EngineError;
use crate::aggregate::keys::KeyTable;
use crate::command::{Blocking, CommandContext, RowCommand, RowIter, of_batches};
use crate::field_names::names_of;
use crate::rows::{self, ColumnBuilder, ColumnReader, Value, batch_of, concat_rows, is_hidden, rows_in_memory};

/// Columns that transpose and xyseries make at most.
const COLUMNS_MAX: usize = 10_000;
/// Cells of a table that xyseries makes at most.
const CELLS_MAX: usize = 20_000_000;

/// `mvcombine`: rows alike but for one field become one.
pub(crate) struct MvCombine {
    /// Field whose values are gathered.
    pub field: String,
    /// What joins them where one text is wanted.
    pub delimiter: String,
}

impl Blocking for MvCombine {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let all = rows_in_memory("reshape", rows, context)?;
        if rows::column(&all, &self.field).is_none() {
            return Ok(of_batches(vec![all]));
        }
        let values = rows::reader(&all, &self.field);
        let others = names_of(&all).into_iter().filter(|name| *name != self.field && !is_hidden(name));
        let readers: Vec<ColumnReader> = others.map(|name| rows::reader(&all, &name)).collect();
        let mut keys = KeyTable::default();
        let (mut first, mut gathered): (Vec<u32>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
        let mut key = Vec::new();
        for row in 0..all.num_rows() {
            row_key(&readers, values.is_null(row), row, &mut key);
            let at = keys.intern(&key) as usize;
            // Rows without the field stay apart.
            if at < gathered.len() && !values.is_null(row) {
                gathered[at].push(row as u32);
                continue;
            }
            if at < gathered.len() {
                key.extend_from_slice(&(row as u64).to_le_bytes());
                keys.intern(&key);
            }
            first.push(row as u32);
            gathered.push(vec![row as u32]);
        }
        let mut column = ColumnBuilder::new(gathered.len());
        for places in &gathered {
            column.push_multi(places.iter().flat_map(|row| values.values(*row as usize)).collect::<Vec<_>>());
        }
        let combined = rows::take(&all, &UInt32Array::from(first))?;
        let combined = rows::with_column(&combined, &self.field, column.finish())?;
        Ok(of_batches(vec![with_delimiter(&combined, &self.field, &self.delimiter)?]))
    }
}

/// What tells a row from others: every value of every column, with its length.
fn row_key(readers: &[ColumnReader], lacks_field: bool, row: usize, key: &mut Vec<u8>) {
    key.clear();
    key.push(u8::from(lacks_field));
    for reader in readers {
        let start = key.len();
        key.extend_from_slice(&0_u32.to_le_bytes());
        let mut count = 0_u32;
        for value in reader.values(row) {
            key.extend_from_slice(&(value.len() as u32).to_le_bytes());
            key.extend_from_slice(value.as_bytes());
            count += 1;
        }
        key[start..start + size_of::<u32>()].copy_from_slice(&count.to_le_bytes());
    }
}

/// The rows with a note of what joins the values of a column.
fn with_delimiter(rows: &RecordBatch, name: &str, delimiter: &str) -> Result<RecordBatch, EngineError> {
    let noted = rows.schema_ref().fields().iter().map(|field| match field.name() == name {
        true => {
            let note = [(DELIMITER_KEY.to_owned(), delimiter.to_owned())];
            Arc::new(Field::clone(field).with_metadata(note.into_iter().collect()))
        }
        false => Arc::clone(field),
    });
    let schema = Arc::new(Schema::new(noted.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, rows.columns().to_vec())?)
}

/// `transpose`: rows become columns.
pub(crate) struct Transpose(pub TransposeCommand);

impl Blocking for Transpose {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<RowIter, EngineError> {
        let limit = if self.0.limit == 0 { usize::MAX } else { self.0.limit };
        let (mut held, mut count) = (Vec::new(), 0);
        for batch in rows {
            let batch = batch?;
            let batch = batch.slice(0, batch.num_rows().min(limit - count));
            count += batch.num_rows();
            held.push(batch);
            if count >= limit {
                break;
            }
            if count > COLUMNS_MAX {
                let value = COLUMNS_MAX as u64;
                return Err(EngineError::Limit { what: "transpose 0".into(), limit: "columns", value });
            }
        }
        let all = concat_rows(held)?;
        let header = self.0.header_field.as_deref();
        let is_row = |name: &String| !is_hidden(name) && Some(name.as_str()) != header;
        let names: Vec<String> = names_of(&all).into_iter().filter(is_row).collect();
        let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&all, name)).collect();
        let is_kept = |reader: &ColumnReader| {
            self.0.include_empty || (0..all.num_rows()).any(|row| reader.values(row).any(|text| !text.is_empty()))
        };
        let kept: Vec<usize> = (0..names.len()).filter(|at| is_kept(&readers[*at])).collect();
        let mut column = ColumnBuilder::new(kept.len());
        kept.iter().for_each(|at| column.push_text(&names[*at]));
        let mut columns = vec![(self.0.column_name.clone(), column.finish())];
        let headers = header.map(|header| rows::reader(&all, header));
        let mut scratch = String::new();
        for row in 0..all.num_rows() {
            let name = headers.as_ref().and_then(|headers| headers.text(row, &mut scratch)).map(str::to_owned);
            let mut column = ColumnBuilder::new(kept.len());
            kept.iter().for_each(|at| column.push(readers[*at].value(row)));
            columns.push((name.unwrap_or_else(|| format!("row {}", row + 1)), column.finish()));
        }
        Ok(of_batches(vec![batch_of(columns, kept.len())?]))
    }
}

/// `xyseries`: values of one field become columns.
pub(crate) struct XySeries(pub XySeriesCommand);

/// Rows and columns of a table, and the source row of each cell.
struct Grid {
    /// A source row for each row.
    rows: Vec<u32>,
    /// Names of series, in order.
    names: Vec<String>,
    /// Source row by series and row.
    cells: Vec<Vec<Option<u32>>>,
}

impl Blocking for XySeries {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let all = rows_in_memory("reshape", rows, context)?;
        let grid = self.grid(&all)?;
        let keys = rows::take(&rows::select(&all, &[&self.0.row])?, &UInt32Array::from(grid.rows.clone()))?;
        let mut columns = vec![(self.0.row.clone(), rows::column_or_null(&keys, &self.0.row))];
        for data in &self.0.data {
            let reader = rows::reader(&all, data);
            for (name, cells) in grid.names.iter().zip(&grid.cells) {
                let mut column = ColumnBuilder::new(cells.len());
                for cell in cells {
                    column.push(cell.map_or(Value::Null, |row| reader.value(row as usize)));
                }
                columns.push((self.column_name(data, name), column.finish()));
            }
        }
        Ok(of_batches(vec![batch_of(columns, grid.rows.len())?]))
    }
}

impl XySeries {
    fn column_name(&self, data: &str, name: &str) -> String {
        if let Some(format) = &self.0.format {
            let format = format.replace("$AGG$", data).replace("$agg$", data);
            return format.replace("$VAL$", name).replace("$val$", name);
        }
        match self.0.data.len() {
            // Names of internal fields start with an underscore, names of columns from values must not.
            1 if name.starts_with('_') => format!("VALUE{name}"),
            1 => name.to_owned(),
            _ => format!("{data}{}{name}", self.0.separator),
        }
    }

    fn grid(&self, all: &RecordBatch) -> Result<Grid, EngineError> {
        let (rows, names) = (rows::reader(all, &self.0.row), rows::reader(all, &self.0.name));
        let (mut row_keys, mut series) = (KeyTable::default(), KeyTable::default());
        // The first source row of each row; the row, series and source row of each cell.
        let (mut first, mut cells): (Vec<u32>, Vec<(u32, u32, u32)>) = (Vec::new(), Vec::new());
        let (mut scratch, mut other) = (String::new(), String::new());
        let mut last: Option<String> = None;
        for row in 0..all.num_rows() {
            let (Some(x), Some(name)) = (rows.text(row, &mut scratch), names.text(row, &mut other)) else { continue };
            let at = match self.0.grouped {
                // Rows of one x stand together; another x after them starts a row of its own.
                true if last.as_deref() == Some(x) => first.len() - 1,
                true => first.len(),
                false => row_keys.intern(x.as_bytes()) as usize,
            };
            if at == first.len() {
                first.push(row as u32);
            }
            if self.0.grouped && last.as_deref() != Some(x) {
                last = Some(x.to_owned());
            }
            cells.push((at as u32, series.intern(name.as_bytes()), row as u32));
        }
        let order = if self.0.grouped { (0..first.len()).collect() } else { sorted_by(&row_keys, row_order) };
        let columns = sorted_by(&series, |a, b| sort_key(a).cmp(&sort_key(b)).then_with(|| a.cmp(b)));
        let width = columns.len().saturating_mul(self.0.data.len());
        if width > COLUMNS_MAX || width.saturating_mul(first.len()) > CELLS_MAX {
            let value = COLUMNS_MAX as u64;
            return Err(EngineError::Limit { what: "table of xyseries".into(), limit: "columns", value });
        }
        let (row_ranks, column_ranks) = (ranks(&order), ranks(&columns));
        let mut placed = vec![vec![None; order.len()]; columns.len()];
        for (row, column, source) in cells {
            placed[column_ranks[column as usize]][row_ranks[row as usize]] = Some(source);
        }
        let name = |at: &usize| String::from_utf8_lossy(series.key(*at)).into_owned();
        Ok(Grid {
            rows: order.iter().map(|at| first[*at]).collect(),
            names: columns.iter().map(name).collect(),
            cells: placed,
        })
    }
}

/// Numbers of the keys in the order of their texts.
fn sorted_by(keys: &KeyTable, compare: impl Fn(&str, &str) -> std::cmp::Ordering) -> Vec<usize> {
    let texts: Vec<String> = (0..keys.len()).map(|at| String::from_utf8_lossy(keys.key(at)).into_owned()).collect();
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by(|a, b| compare(&texts[*a], &texts[*b]).then_with(|| a.cmp(b)));
    order
}

/// The place of each number in an order.
fn ranks(order: &[usize]) -> Vec<usize> {
    let mut ranks = vec![0; order.len()];
    for (rank, at) in order.iter().enumerate() {
        ranks[*at] = rank;
    }
    ranks
}

/// `untable`: columns become rows.
pub(crate) struct Untable {
    /// Field that stays.
    pub row: String,
    /// Field that takes the names of columns.
    pub name: String,
    /// Field that takes their values.
    pub value: String,
}

impl RowCommand for Untable {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let names: Vec<String> =
            names_of(&rows).into_iter().filter(|name| *name != self.row && !name.starts_with('_')).collect();
        let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&rows, name)).collect();
        let (mut places, mut labels, mut values) = (Vec::new(), ColumnBuilder::new(0), ColumnBuilder::new(0));
        for row in 0..rows.num_rows() {
            for (name, reader) in names.iter().zip(&readers).filter(|(_, reader)| !reader.is_null(row)) {
                places.push(row as u32);
                labels.push_text(name);
                values.push(reader.value(row));
            }
        }
        let count = places.len();
        let keys = rows::take(&rows::select(&rows, &[&self.row])?, &UInt32Array::from(places))?;
        let columns: Vec<(&str, ArrayRef)> = vec![
            (&self.row, rows::column_or_null(&keys, &self.row)),
            (&self.name, labels.finish()),
            (&self.value, values.finish()),
        ];
        batch_of(columns, count)
    }
}

/// `gauge`: the first row as a value and the bounds of its ranges.
pub(crate) struct Gauge(pub Vec<String>);

impl Blocking for Gauge {
    fn run(&self, mut rows: RowIter, _: &CommandContext) -> Result<RowIter, EngineError> {
        let first = loop {
            match rows.next().transpose()? {
                Some(batch) if batch.num_rows() > 0 => break batch.slice(0, 1),
                Some(_) => {}
                None => return Ok(of_batches(Vec::new())),
            }
        };
        let value = |part: &str| match parse_number(part) {
            Some(number) => Value::number_of(number),
            None => rows::reader(&first, part).value(0).into_owned(),
        };
        let mut parts: Vec<(String, Value<'static>)> = Vec::new();
        let names = std::iter::once("x".to_owned()).chain((1..).map(|at| format!("y{at}")));
        for (name, part) in names.zip(&self.0) {
            parts.push((name, value(part)));
        }
        // One bound alone bounds nothing.
        if parts.len() <= 2 {
            parts.truncate(1);
            parts.extend([("y1".to_owned(), Value::Int(0)), ("y2".to_owned(), Value::Int(100))]);
        }
        let columns = parts.into_iter().map(|(name, value)| {
            let mut column = ColumnBuilder::new(1);
            column.push(value);
            (name, column.finish())
        });
        Ok(of_batches(vec![batch_of(columns.collect::<Vec<_>>(), 1)?]))
    }
}
