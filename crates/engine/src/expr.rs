//! Eval expressions, compiled once and run over batches of rows.
//!
//! Compiling resolves field names to slots, folds constants and prepares patterns and formats. Running goes by whole
//! columns where a node has such a way (fields, comparisons, arithmetic, AND/OR/NOT) and row by row below the others,
//! so that `if`, `case` and `AND` need not compute what a row does not use. Nothing fails while running: what cannot
//! be computed is null.
//!
//! Not here: what functions compute ([`crate::functions`]), assignment to fields (the eval command).

mod arithmetic;
mod batch;
mod column;
mod compare;
mod compile;
mod node;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::record_batch::RecordBatch;
use quarry_event::TimeNs;
use quarry_spl::ast::Expr;

use crate::EngineError;
use crate::row_filter::RowFilter;

pub(crate) use batch::Batch;
pub(crate) use compare::{Literal, compare_column, compare_values, exact_number, holds, order_values};
pub(crate) use node::{Node, Row};

/// What an expression may know about the search it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct ExprContext {
    /// Start of the search; `now()`.
    pub now: TimeNs,
    /// Time zone of the user.
    pub zone: jiff::tz::TimeZone,
}

/// An expression ready to run. Clones share the state of `random()`.
#[derive(Clone, Debug)]
pub(crate) struct CompiledExpr {
    root: Arc<Node>,
    slots: Arc<[Slot]>,
    context: ExprContext,
    random: Arc<AtomicU64>,
}

/// What a slot reads from a batch.
#[derive(Debug)]
pub(crate) enum Slot {
    /// A column.
    Field(String),
    /// The rows a `searchmatch()` selects.
    Search(Box<RowFilter>),
}

impl CompiledExpr {
    /// Compiles an expression; errors name patterns, formats and arguments that cannot work.
    pub(crate) fn new(expr: &Expr, context: &ExprContext) -> Result<CompiledExpr, EngineError> {
        let (root, slots) = compile::compile(expr, context)?;
        Ok(CompiledExpr {
            root: Arc::new(root),
            slots: slots.into(),
            context: context.clone(),
            random: Arc::new(AtomicU64::new(context.now as u64)),
        })
    }

    /// The value of every row as a column; conditions are Boolean columns.
    pub(crate) fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef, EngineError> {
        let batch = self.batch(rows)?;
        column::evaluate(&self.root, &batch)
    }

    /// The rows where the condition is true; null and what is no condition count as false.
    pub(crate) fn matches(&self, rows: &RecordBatch) -> Result<BooleanArray, EngineError> {
        let batch = self.batch(rows)?;
        let mask = column::condition(&self.root, &batch)?;
        Ok(if mask.nulls().is_some() { arrow::compute::prep_null_mask_filter(&mask) } else { mask })
    }

    /// Whether the result is a condition whatever the rows hold. Such a value cannot be assigned to a field.
    pub(crate) fn is_condition(&self) -> bool {
        self.root.is_condition()
    }

    fn batch<'a>(&'a self, rows: &'a RecordBatch) -> Result<Batch<'a>, EngineError> {
        Batch::new(rows, &self.slots, &self.context, &self.random)
    }
}

#[cfg(test)]
mod tests;
