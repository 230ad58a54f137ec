//! The columns of one batch, resolved for the slots of an expression.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::record_batch::RecordBatch;

use super::{ExprContext, Row, Slot};
use crate::EngineError;
use crate::functions::CallState;
use crate::rows::{self, ColumnReader};

/// A batch as an expression sees it.
pub(crate) struct Batch<'a> {
    arrays: Vec<ArrayRef>,
    readers: Vec<ColumnReader>,
    rows: usize,
    context: &'a ExprContext,
    state: &'a CallState,
}

impl<'a> Batch<'a> {
    /// Resolves `slots` in `batch`.
    pub(crate) fn new(
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
        let readers = arrays.iter().map(ColumnReader::new).collect();
        Ok(Batch { arrays, readers, rows: batch.num_rows(), context, state })
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The column of a slot.
    pub(crate) fn array(&self, slot: usize) -> Option<&ArrayRef> {
        self.arrays.get(slot)
    }

    /// One row.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> Row<'_> {
        Row { columns: &self.readers, row, binding: None, context: self.context, state: self.state }
    }
}
