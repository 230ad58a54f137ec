//! Eval expressions, compiled once and run over batches of rows.
//!
//! Compiling resolves field names to slots, folds constants and prepares patterns and formats. Evaluation is
//! column-wise where a node supports it (fields, comparisons, arithmetic, AND/OR/NOT) and row-wise elsewhere, so that
//! `if`, `case` and `AND` need not compute what a row does not use. Values that cannot be computed are null; they
//! never fail the evaluation.
//!
//! Not here: functions ([`crate::functions`]), assignment to fields (the eval command).

mod arithmetic;
mod batch;
mod column;
mod compare;
mod compile;
mod context;
mod node;
mod single_column;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::Expr;

use crate::EngineError;
use crate::functions::CallState;
use crate::rows::{ColumnReader, Value, batch_of, column_or_null, concat_rows, decode_column};

pub use batch::{Batch, Slot};
pub use compare::{Literal, compare_column, compare_values, holds, order_values};
pub use context::{ExprContext, ExprTables};
pub use node::{ExprNode, Row};

/// Number of rows evaluated first, to detect whether values are large.
const TRIAL_ROWS: usize = 64;
/// Maximum size of a value that does not count as large.
const SMALL_VALUE_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of an expression's large values per batch of rows; beyond it, the search fails.
const LARGE_VALUES_BYTES_MAX: usize = 256 << 20;

/// A compiled expression. Clones share the state of `random()`.
#[derive(Clone, Debug)]
pub struct CompiledExpr {
    root: Arc<ExprNode>,
    slots: Arc<[Slot]>,
    context: ExprContext,
    state: Arc<CallState>,
}

impl CompiledExpr {
    /// Compiles an expression; fails for invalid patterns, formats and arguments.
    pub fn new(expr: &Expr, context: &ExprContext) -> Result<CompiledExpr, EngineError> {
        let (root, slots) = compile::compile(expr, context)?;
        Ok(CompiledExpr {
            root: Arc::new(single_column::mark_singles(root, &slots)),
            slots: slots.into(),
            context: context.clone(),
            state: Arc::new(CallState::new(context.now.cast_unsigned())),
        })
    }

    /// The value of every row as a column; conditions are Boolean columns.
    pub fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef, EngineError> {
        let values = self.evaluate_guarded(rows)?;
        self.state.check()?;
        Ok(values)
    }

    fn evaluate_guarded(&self, rows: &RecordBatch) -> Result<ArrayRef, EngineError> {
        if rows.num_rows() <= TRIAL_ROWS {
            return column::evaluate(&self.root, &self.batch(rows)?);
        }
        // The first rows show whether values are large; if so, rows are evaluated in small parts, with a memory limit.
        let trial = rows.slice(0, TRIAL_ROWS);
        let trial = column::evaluate(&self.root, &self.batch(&trial)?)?;
        if weight_of(&trial) <= TRIAL_ROWS * SMALL_VALUE_BYTES_MAX {
            return column::evaluate(&self.root, &self.batch(rows)?);
        }
        self.evaluate_in_parts(rows)
    }

    /// [`CompiledExpr::evaluate`] for large values.
    fn evaluate_in_parts(&self, rows: &RecordBatch) -> Result<ArrayRef, EngineError> {
        const NAME: &str = "value";
        let (mut parts, mut weight) = (Vec::new(), 0);
        for start in (0..rows.num_rows()).step_by(TRIAL_ROWS) {
            let part = rows.slice(start, TRIAL_ROWS.min(rows.num_rows() - start));
            let values = column::evaluate(&self.root, &self.batch(&part)?)?;
            weight += weight_of(&values);
            if weight > LARGE_VALUES_BYTES_MAX {
                let what = "the values of an expression for a batch of rows are too large".to_owned();
                return Err(EngineError::Limit {
                    what,
                    limit: "expression bytes",
                    value: LARGE_VALUES_BYTES_MAX as u64,
                });
            }
            parts.push(batch_of([(NAME, decode_column(&values)?)], part.num_rows())?);
        }
        Ok(column_or_null(&concat_rows(parts)?, NAME))
    }

    /// Names of the fields that the expression reads, by slot; `None` if it contains a `searchmatch()`.
    pub fn field_names(&self) -> Option<Vec<String>> {
        let name = |slot: &Slot| match slot {
            Slot::Field(name) => Some(name.clone()),
            Slot::Search(_) => None,
        };
        self.slots.iter().map(name).collect()
    }

    /// Names of the fields that the expression reads outside of `searchmatch()`.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Field(name) => Some(name.as_str()),
            Slot::Search(_) => None,
        })
    }

    /// The value for one row, given as one column per slot.
    pub fn evaluate_one(&self, columns: Vec<ArrayRef>) -> Result<Value<'static>, EngineError> {
        let batch = Batch::of_arrays(columns, 1, &self.context, &self.state);
        let value = self.root.value(&batch.row(0)).into_owned();
        self.state.check()?;
        Ok(value)
    }

    /// The rows for which the condition is true; null and non-conditions count as false.
    pub fn matches(&self, rows: &RecordBatch) -> Result<BooleanArray, EngineError> {
        let batch = self.batch(rows)?;
        let mask = column::condition(&self.root, &batch)?;
        self.state.check()?;
        Ok(if mask.nulls().is_some() { arrow::compute::prep_null_mask_filter(&mask) } else { mask })
    }

    /// Whether the result is a condition for all rows. A condition cannot be assigned to a field.
    pub fn is_condition(&self) -> bool {
        self.root.is_condition()
    }

    fn batch<'a>(&'a self, rows: &'a RecordBatch) -> Result<Batch<'a>, EngineError> {
        Batch::new(rows, &self.slots, &self.context, &self.state)?.evaluate_singles(&self.root)
    }
}

/// Approximate bytes of a column's texts; 0 for other types.
fn weight_of(values: &ArrayRef) -> usize {
    /// Overhead of a value of a multivalue, in bytes.
    const VALUE_BYTES: usize = 16;
    match values.data_type() {
        DataType::Utf8View => values.as_string_view().iter().flatten().map(str::len).sum(),
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let offsets = lists.value_offsets();
            let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
            (end - start) * VALUE_BYTES + weight_of(&lists.values().slice(start, end - start))
        }
        DataType::Dictionary(..) => match ColumnReader::new(values) {
            ColumnReader::Dictionary(column) => {
                let bytes = |row| column.code(row).map_or(0, |code| column.texts.value(code).len());
                (0..column.codes.len()).map(bytes).sum()
            }
            _ => 0,
        },
        DataType::Struct(_) => values.as_struct().columns().iter().map(weight_of).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
