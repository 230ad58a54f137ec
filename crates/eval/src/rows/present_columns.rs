//! Batches without all-null columns.
//!
//! Events with many different keys have thousands of columns in one schema, of which each row uses a few. Such batches
//! are reduced to the columns that have values; their names identify the columns of the schema. Batches are
//! concatenated column by column, each column only from the batches that contain it.
//!
//! Not here: splitting batches so that few columns have values ([`super::sparse_rows`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::row_buffer::compact;
use super::sparse_rows::split_sparse;
use super::unify::conform_column;
use super::{null_column, rebuild};
use crate::EngineError;

/// The schema to which reduced batches refer.
pub(super) struct PresentColumns {
    fields: Vec<FieldRef>,
    positions: HashMap<String, usize, FixedState>,
    /// One null of each type.
    nulls: Vec<ArrayRef>,
    /// For each column, a field of the same name whose type is null.
    missing: Vec<FieldRef>,
}

impl PresentColumns {
    /// The columns of `schema`, with text in place of dictionaries and mixed columns, which may differ
    /// between batches.
    pub(super) fn new(schema: &SchemaRef) -> PresentColumns {
        let with_type = |field: &FieldRef, kind| Arc::new(Field::new(field.name(), kind, true));
        let plain = |field: &FieldRef| match field.data_type() {
            DataType::Dictionary(..) | DataType::Struct(_) => with_type(field, DataType::Utf8View),
            _ => Arc::clone(field),
        };
        let fields: Vec<FieldRef> = schema.fields().iter().map(plain).collect();
        PresentColumns {
            positions: fields.iter().enumerate().map(|(at, field)| (field.name().clone(), at)).collect(),
            nulls: fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect(),
            missing: fields.iter().map(|field| with_type(field, DataType::Null)).collect(),
            fields,
        }
    }

    /// Type of the column at this index.
    pub(super) fn kind(&self, at: usize) -> &DataType {
        self.fields[at].data_type()
    }

    /// Bytes of a row with all columns, without long texts.
    pub(super) fn row_bytes(&self) -> usize {
        let width = |kind: &DataType| match kind {
            DataType::Null => 0,
            kind => kind.primitive_width().unwrap_or(size_of::<u128>()),
        };
        self.fields.iter().map(|field| width(field.data_type())).sum()
    }

    /// Reduces the rows to the columns with values.
    pub(super) fn without_null_columns(&self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
            if array.logical_null_count() < array.len()
                && let Some(at) = self.positions.get(field.name())
            {
                fields.push(Arc::clone(&self.fields[*at]));
                columns.push(conform_column(array, self.kind(*at)));
            }
        }
        rebuild(fields, columns, rows.num_rows())
    }

    /// The column at this index in the full schema, from a reduced batch.
    pub(super) fn column(&self, rows: &RecordBatch, at: usize) -> ArrayRef {
        let field = &self.fields[at];
        match rows.column_by_name(field.name()) {
            Some(column) => Arc::clone(column),
            None => new_null_array(field.data_type(), rows.num_rows()),
        }
    }

    /// Restores all columns of a reduced batch; missing columns become nulls without storage.
    pub(super) fn restore(&self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let nothing = null_column(rows.num_rows());
        let mut fields = self.missing.clone();
        let mut columns = vec![nothing; fields.len()];
        for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
            if let Some(at) = self.positions.get(field.name()) {
                fields[*at] = Arc::clone(&self.fields[*at]);
                columns[*at] = Arc::clone(array);
            }
        }
        rebuild(fields, columns, rows.num_rows())
    }

    /// Gathers rows, each given by its batch and its index in the batch, into reduced batches with copied texts.
    pub(super) fn gather(
        &self,
        batches: &[RecordBatch],
        positions: &[(usize, usize)],
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let mut numbers: HashMap<usize, usize, FixedState> = HashMap::default();
        let mut sources = Vec::new();
        let numbered: Vec<(usize, usize)> = (positions.iter())
            .map(|(batch, row)| {
                let number = numbers.entry(*batch).or_insert_with(|| {
                    sources.push(&batches[*batch]);
                    sources.len() - 1
                });
                (*number, *row)
            })
            .collect();
        let mut by_position: BTreeMap<usize, Vec<(usize, &ArrayRef)>> = BTreeMap::new();
        for (number, batch) in sources.iter().enumerate() {
            for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                if let Some(at) = self.positions.get(field.name()) {
                    by_position.entry(*at).or_default().push((number, array));
                }
            }
        }
        let (mut fields, mut columns) = (Vec::with_capacity(by_position.len()), Vec::with_capacity(by_position.len()));
        for (at, arrays) in by_position {
            let mut all: Vec<&dyn Array> = vec![self.nulls[at].as_ref()];
            // A batch that lacks the column contributes the leading null.
            let mut array_of = vec![None; sources.len()];
            for (number, array) in arrays {
                array_of[number] = Some(all.len());
                all.push(array.as_ref());
            }
            let taken = |(number, row): &(usize, usize)| array_of[*number].map_or((0, 0), |array| (array, *row));
            let taken: Vec<(usize, usize)> = numbered.iter().map(taken).collect();
            let column = interleave(&all, &taken)?;
            if column.logical_null_count() < column.len() {
                fields.push(Arc::clone(&self.fields[at]));
                columns.push(column);
            }
        }
        let (rows, _) = compact(&rebuild(fields, columns, positions.len())?)?;
        split_sparse(rows)?.iter().map(|part| self.without_null_columns(part)).collect()
    }

    /// A reduced batch without rows.
    pub(super) fn empty() -> RecordBatch {
        RecordBatch::new_empty(Arc::new(Schema::empty()))
    }
}
