//! Columns of a batch, resolved for the slots of an expression: the fields and `searchmatch()` calls that it reads.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::record_batch::RecordBatch;

use super::context::ExprContext;
use super::node::{ExprNode, Row};
use super::single_column::SingleColumnPart;
use crate::EngineError;
use crate::functions::CallState;
use crate::row_filter::RowFilter;
use crate::rows::{self, ColumnReader};

/// Source of a slot's values in a batch.
#[derive(Debug)]
pub enum Slot {
    /// A column.
    Field(String),
    /// The rows selected by a `searchmatch()`.
    Search(Box<RowFilter>),
}

/// A batch as seen by an expression.
pub struct Batch<'a> {
    arrays: Vec<ArrayRef>,
    readers: Vec<ColumnReader>,
    singles: Vec<Option<ArrayRef>>,
    single_readers: Vec<Option<ColumnReader>>,
    rows: usize,
    context: &'a ExprContext,
    state: &'a CallState,
}

impl<'a> Batch<'a> {
    /// Resolves `slots` in `batch`.
    pub fn new(
        batch: &RecordBatch,
        slots: &[Slot],
        context: &'a ExprContext,
        state: &'a CallState,
    ) -> Result<Batch<'a>, EngineError> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(slots.len());
        for slot in slots {
            arrays.push(match slot {
                Slot::Field(name) => rows::column_or_null(batch, name),
                Slot::Search(filter) => {
                    let found: BooleanArray = filter.matches(batch)?;
                    std::sync::Arc::new(found)
                }
            });
        }
        Ok(Batch::of_arrays(arrays, batch.num_rows(), context, state))
    }

    /// A batch with one column at its slot; the other slots are null.
    pub(super) fn of_slot(slot: usize, values: &ArrayRef, context: &'a ExprContext, state: &'a CallState) -> Batch<'a> {
        let mut arrays = vec![rows::null_column(values.len()); slot];
        arrays.push(std::sync::Arc::clone(values));
        Batch::of_arrays(arrays, values.len(), context, state)
    }

    /// A batch with columns by slot.
    pub(super) fn of_arrays(
        arrays: Vec<ArrayRef>,
        rows: usize,
        context: &'a ExprContext,
        state: &'a CallState,
    ) -> Batch<'a> {
        let readers = arrays.iter().map(ColumnReader::new).collect();
        Batch { arrays, readers, singles: Vec::new(), single_readers: Vec::new(), rows, context, state }
    }

    /// Evaluates the parts of the expression that read a single dictionary column.
    pub(super) fn evaluate_singles(mut self, root: &ExprNode) -> Result<Batch<'a>, EngineError> {
        let mut singles: Vec<Option<ArrayRef>> = Vec::new();
        root.for_each_single(&mut |single| {
            let found = self.array(single.slot).map_or(Ok(None), |column| single.compute(column, self.context))?;
            singles.resize(singles.len().max(single.at + 1), None);
            singles[single.at] = found;
            Ok(())
        })?;
        self.single_readers = singles.iter().map(|array| array.as_ref().map(ColumnReader::new)).collect();
        self.singles = singles;
        Ok(self)
    }

    /// The result of a single-column part, if it has been computed.
    pub(super) fn single(&self, single: &SingleColumnPart) -> Option<&ArrayRef> {
        self.singles.get(single.at).and_then(Option::as_ref)
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The column of a slot.
    pub fn array(&self, slot: usize) -> Option<&ArrayRef> {
        self.arrays.get(slot)
    }

    /// One row.
    #[inline]
    pub fn row(&self, row: usize) -> Row<'_> {
        Row {
            columns: &self.readers,
            singles: &self.single_readers,
            row,
            binding: None,
            context: self.context,
            state: self.state,
        }
    }
}
