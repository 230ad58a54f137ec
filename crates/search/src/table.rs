//! Rows of a result under one list of fields, although their batches may differ in columns.
//!
//! Fields are in the order of the first batch, followed by fields that appear later. Columns that start with `__` are
//! internal and never shown.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::{Field, Schema, TimestampNanosecondType};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use jiff::tz::TimeZone;
use quarry_event::time::strftime;

use crate::cell::Cell;

/// Format in which the times and texts of events are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFormat {
    /// Format of `_time` as for `strftime`; by default ISO 8601.
    pub time: Option<String>,
    /// Maximum number of lines of `_raw`; 0 for all.
    pub lines_max: usize,
}

impl EventFormat {
    /// The value of a field in a row of a column, if this format shows it differently from [`Cell::read`].
    fn cell<'a>(&self, field: &str, column: &'a dyn Array, row: usize, zone: &TimeZone) -> Option<Cell<'a>> {
        match (field, &self.time) {
            ("_time", Some(format)) => {
                let times = column.as_primitive_opt::<TimestampNanosecondType>()?;
                let time = times.is_valid(row).then(|| times.value(row))?;
                Some(Cell::Single(strftime(time, format, zone).into()))
            }
            ("_raw", _) if self.lines_max > 0 => match Cell::read(field, column, row, zone) {
                Cell::Single(text) => {
                    let (end, _) = text.match_indices('\n').nth(self.lines_max - 1)?;
                    Some(Cell::Single(text[..end].to_owned().into()))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// A result held in memory.
#[derive(Clone, Debug)]
pub struct ResultTable {
    fields: Arc<[String]>,
    batches: Vec<MappedBatch>,
    zone: TimeZone,
    format: EventFormat,
}

#[derive(Clone, Debug)]
struct MappedBatch {
    rows: RecordBatch,
    /// For each field of the table, its column in the batch, if any.
    columns: Vec<Option<usize>>,
}

impl ResultTable {
    /// A table over `batches`; times are shown in `zone`.
    pub fn new(batches: Vec<RecordBatch>, zone: TimeZone) -> ResultTable {
        let mut fields: Vec<String> = Vec::new();
        let mut known = HashSet::new();
        for batch in &batches {
            for field in batch.schema_ref().fields() {
                if !field.name().starts_with("__") && known.insert(field.name()) {
                    fields.push(field.name().clone());
                }
            }
        }
        ResultTable::with_fields(fields.into(), batches, zone)
    }

    /// Rows under a given list of fields, which may include fields that the rows lack.
    pub(crate) fn with_fields(fields: Arc<[String]>, batches: Vec<RecordBatch>, zone: TimeZone) -> ResultTable {
        let batches =
            batches.into_iter().map(|rows| MappedBatch { columns: map_columns(&fields, &rows), rows }).collect();
        ResultTable { fields, batches, zone, format: EventFormat::default() }
    }

    /// The same rows, shown in this format.
    pub fn with_format(self, format: &EventFormat) -> ResultTable {
        ResultTable { format: format.clone(), ..self }
    }

    /// The same rows with only these columns, in this order; missing columns are dropped.
    pub fn select(self, wanted: &[String]) -> ResultTable {
        let fields: Arc<[String]> = wanted.iter().filter(|name| self.fields.contains(name)).cloned().collect();
        let batches = self.batches.into_iter().map(|batch| batch.rows).collect();
        ResultTable::with_fields(fields, batches, self.zone).with_format(&self.format)
    }

    /// A table of texts received from a server. `values_of` returns the values of a cell by row and column, and no
    /// value for null.
    pub fn from_texts<'a>(
        fields: &[String],
        rows: usize,
        zone: TimeZone,
        values_of: impl Fn(usize, usize) -> &'a [String],
    ) -> Result<ResultTable, ArrowError> {
        let column = |column: usize| -> ArrayRef {
            let mut lists = ListBuilder::new(StringViewBuilder::new());
            for row in 0..rows {
                let values = values_of(row, column);
                values.iter().for_each(|text| lists.values().append_value(text));
                lists.append(!values.is_empty());
            }
            Arc::new(lists.finish())
        };
        let columns: Vec<ArrayRef> = (0..fields.len()).map(column).collect();
        let schema =
            fields.iter().zip(&columns).map(|(name, column)| Field::new(name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(schema.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok(ResultTable::new(vec![batch], zone))
    }

    /// Names of the columns.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows.num_rows()).sum()
    }

    /// Memory use of the rows in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows.get_array_memory_size()).sum()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.batches
            .iter()
            .flat_map(move |batch| (0..batch.rows.num_rows()).map(move |at| Row { table: self, batch, at }))
    }
}

fn map_columns(fields: &[String], rows: &RecordBatch) -> Vec<Option<usize>> {
    // A linear search per name would be slow with thousands of columns.
    let mut places = BTreeMap::new();
    for (at, field) in rows.schema_ref().fields().iter().enumerate() {
        places.entry(field.name().as_str()).or_insert(at);
    }
    fields.iter().map(|field| places.get(field.as_str()).copied()).collect()
}

/// One row of a [`ResultTable`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a ResultTable,
    batch: &'a MappedBatch,
    at: usize,
}

impl<'a> Row<'a> {
    /// Value of the field at index `field` of [`ResultTable::fields`].
    pub fn cell(&self, field: usize) -> Cell<'a> {
        let ResultTable { fields, zone, format, .. } = self.table;
        let Some(column) = self.batch.columns[field] else { return Cell::Null };
        let (name, column) = (fields[field].as_str(), self.batch.rows.column(column).as_ref());
        format.cell(name, column, self.at, zone).unwrap_or_else(|| Cell::read(name, column, self.at, zone))
    }

    /// Value of the named field.
    pub fn cell_by_name(&self, name: &str) -> Cell<'a> {
        self.table.fields.iter().position(|field| field == name).map_or(Cell::Null, |field| self.cell(field))
    }

    /// Every field with its value.
    pub fn cells(self) -> impl Iterator<Item = (&'a str, Cell<'a>)> {
        self.table.fields.iter().enumerate().map(move |(at, name)| (name.as_str(), self.cell(at)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringViewArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn times_and_long_events_are_shown_in_the_format() {
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(0), None]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a\nb\nc", "d"]));
        let rows = RecordBatch::try_from_iter([("_time", times), ("_raw", texts)]).unwrap();
        let table = ResultTable::new(vec![rows], TimeZone::UTC);
        let shown = |table: ResultTable| -> Vec<String> {
            table
                .rows()
                .flat_map(|row| row.cells().map(|(_, cell)| cell.join_values(",").into_owned()).collect::<Vec<_>>())
                .collect()
        };
        assert_eq!(shown(table.clone()), ["1970-01-01T00:00:00.000+00:00", "a\nb\nc", "", "d"]);
        let format = EventFormat { time: Some("%Y/%s".to_owned()), lines_max: 2 };
        assert_eq!(shown(table.with_format(&format)), ["1970/0", "a\nb", "", "d"]);
    }
}
