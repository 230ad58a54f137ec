//! `typer`: adds event types to any rows.
//!
//! Events already have event types; this command determines them again from a row's current values and adds them to
//! existing event types. Keywords in event type conditions are matched on `_raw`.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::expr::ExprContext;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_spl::ast::TyperCommand;

use super::Execute;
use crate::knowledge::KnowledgeSource;
use crate::knowledge::labels::{EVENT_TYPE, Labels};
use crate::lowering::{Lowering, Step, row};

impl Execute for TyperCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let typer = Typer::new(lowering.environment.knowledge().as_ref(), &lowering.expressions())?;
        Ok(vec![row(move || typer.clone())])
    }
}

/// Event types and their conditions.
#[derive(Clone)]
struct Typer(Arc<Vec<(String, RowFilter)>>);

impl Typer {
    fn new(knowledge: &dyn KnowledgeSource, context: &ExprContext) -> Result<Typer, EngineError> {
        let labels = Labels::new(knowledge, context);
        let filter = |known| RowFilter::new(&labels.condition_of_type(known)?, context);
        let types = labels.types.iter().map(|known| Ok((known.name.clone(), filter(known)?)));
        Ok(Typer(Arc::new(types.collect::<Result<Vec<_>, EngineError>>()?)))
    }
}

impl RowCommand for Typer {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut found = vec![Vec::new(); rows.num_rows()];
        for (name, filter) in self.0.iter() {
            let fits = filter.matches(&rows)?;
            (0..rows.num_rows()).filter(|row| fits.value(*row)).for_each(|row| found[row].push(name.clone()));
        }
        add_labels(rows, EVENT_TYPE, &found)
    }
}

/// Adds labels to those that a field already has, without duplicates.
pub(super) fn add_labels(rows: RecordBatch, field: &str, found: &[Vec<String>]) -> Result<RecordBatch, EngineError> {
    let before = rows::reader(&rows, field);
    let mut column = ColumnBuilder::new(rows.num_rows());
    for (row, found) in found.iter().enumerate() {
        let mut labels: Vec<String> = before.values(row).map(|text| text.into_owned()).collect();
        for label in found {
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }
        column.push_multi(labels);
    }
    rows::with_column(&rows, field, column.finish())
}
