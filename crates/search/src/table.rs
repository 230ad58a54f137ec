//! Rows of a result under one list of fields, although their batches may differ in columns.
//!
//! Fields are in the order of the first batch, followed by fields that appear later. Columns that start with `__` are
//! internal and never shown.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListBuilder, StringViewBuilder};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use jiff::tz::TimeZone;

use crate::cell::Cell;

/// A result held in memory.
#[derive(Clone, Debug)]
pub struct ResultTable {
    fields: Arc<[String]>,
    batches: Vec<MappedBatch>,
    zone: TimeZone,
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
        ResultTable { fields, batches, zone }
    }

    /// The same rows with only these columns, in this order; missing columns are dropped.
    pub fn select(self, wanted: &[String]) -> ResultTable {
        let fields: Arc<[String]> = wanted.iter().filter(|name| self.fields.contains(name)).cloned().collect();
        let batches = self.batches.into_iter().map(|batch| batch.rows).collect();
        ResultTable::with_fields(fields, batches, self.zone)
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
        match self.batch.columns[field] {
            Some(column) => Cell::read(
                &self.table.fields[field],
                self.batch.rows.column(column).as_ref(),
                self.at,
                &self.table.zone,
            ),
            None => Cell::Null,
        }
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
