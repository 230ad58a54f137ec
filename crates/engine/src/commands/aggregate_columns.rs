//! Output columns of chart and timechart: aggregates, and expressions over aggregates.
//!
//! Expressions are evaluated per group when the groups are complete; the aggregates that they use are hidden. For a
//! cell without rows, an expression is not evaluated; the cell is empty.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::FunctionBody;
use quarry_eval::expr::{CompiledExpr, ExprContext};
use quarry_eval::rows::{self, batch_of};
use quarry_spl::ast::{Aggregate, ComputedAggregate, PART_PREFIX};

/// One column of values.
#[derive(Clone)]
pub(crate) struct Output {
    pub name: String,
    /// Column of the groups that contains the values.
    pub column: String,
    /// Whether a cell without rows is 0.
    pub is_zero_when_missing: bool,
    /// The expression; `None` for an aggregate.
    expr: Option<Arc<CompiledExpr>>,
}

/// The columns in order.
#[derive(Clone)]
pub(crate) struct Outputs(Vec<Output>);

impl Outputs {
    /// Compiles the expressions.
    pub(crate) fn new(
        aggregates: &[Aggregate],
        computed: &[ComputedAggregate],
        context: &ExprContext,
    ) -> Result<Outputs, EngineError> {
        let mut columns = Vec::new();
        let mut computed = computed.iter().peekable();
        for (at, aggregate) in aggregates.iter().enumerate() {
            while let Some(next) = computed.next_if(|next| next.at == at) {
                columns.push(of_expression(columns.len(), next, context)?);
            }
            if !aggregate.name.starts_with(PART_PREFIX) {
                let is_zero_when_missing = FunctionBody::of(&aggregate.function).is_count();
                columns.push(Output {
                    name: aggregate.name.clone(),
                    column: aggregate.name.clone(),
                    is_zero_when_missing,
                    expr: None,
                });
            }
        }
        Ok(Outputs(columns))
    }

    pub(crate) fn columns(&self) -> &[Output] {
        &self.0
    }

    /// Adds the values of the expressions to the groups.
    pub(crate) fn add_computed(&self, mut groups: RecordBatch) -> Result<RecordBatch, EngineError> {
        for output in &self.0 {
            if let Some(expr) = &output.expr {
                let values = expr.evaluate(&groups)?;
                groups = rows::with_column(&groups, &output.column, values)?;
            }
        }
        Ok(groups)
    }

    /// The grouping fields and the output columns, without the hidden aggregates.
    pub(crate) fn select_output(&self, groups: &RecordBatch, by: &[String]) -> Result<RecordBatch, EngineError> {
        let keys = by.iter().map(|name| (name, name));
        let names = keys.chain(self.0.iter().map(|output| (&output.name, &output.column)));
        let columns: Vec<(String, ArrayRef)> =
            names.map(|(name, column)| (name.clone(), rows::column_or_null(groups, column))).collect();
        batch_of(columns, groups.num_rows())
    }

    /// Whether a column is an expression.
    pub(crate) fn has_computed(&self) -> bool {
        self.0.iter().any(|output| output.expr.is_some())
    }
}

fn of_expression(number: usize, computed: &ComputedAggregate, context: &ExprContext) -> Result<Output, EngineError> {
    let expr = CompiledExpr::new(&computed.expr, context)?;
    if expr.is_condition() {
        let message = format!("{} cannot be a condition; use if(…, \"true\", \"false\")", computed.name);
        return Err(EngineError::Invalid { message, span: Some(computed.span) });
    }
    let column = format!("__computed{number}");
    Ok(Output { name: computed.name.clone(), column, is_zero_when_missing: false, expr: Some(Arc::new(expr)) })
}
