//! `multireport`: concatenates the results of several pipelines over the same rows.

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{RowBuffer, RowIter};
use quarry_spl::ast::MultiReportCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};
use crate::run::apply;

impl Execute for MultiReportCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let steps = self.reports.iter().map(|report| lowering.steps_of(report)).collect::<Result<_, _>>()?;
        Ok(vec![blocking(MultiReport(steps))])
    }
}

struct MultiReport(Vec<Vec<Step>>);

impl Blocking for MultiReport {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = Arc::new(RowBuffer::collect("multireport", rows, &context.dataflow)?);
        let mut all = RowBuffer::new("multireport", &context.dataflow);
        for steps in &self.0 {
            for batch in apply(kept.iter_shared(), steps.clone(), context)? {
                all.push(&batch?)?;
            }
        }
        Ok(all.into_rows())
    }
}
