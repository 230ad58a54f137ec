//! `tstats` after other rows: with `append=true`, appends its rows. At the start of a search, the planner substitutes a
//! search over index-time fields or a data model object (`crate::plan`).

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_spl::ast::{Pipeline, Stage, TstatsCommand};

use super::Execute;
use super::append::Append;
use crate::lowering::{Lowering, Step, blocking};
use crate::subsearch::SubsearchBounds;

/// Number of appended rows at which the command fails.
const APPENDED_ROWS_MAX: usize = 20_000_000;

impl Execute for TstatsCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        if !self.append {
            return Err(lowering.must_be_first_error(lowering.name, " or have prestats=true append=true"));
        }
        let stage = Stage { command: self.clone().into(), span: lowering.span };
        let search = Pipeline { commands: vec![stage], span: lowering.span };
        let rows = lowering.environment.subsearch(&search, SubsearchBounds::of_count(APPENDED_ROWS_MAX))?;
        if rows.iter().map(RecordBatch::num_rows).sum::<usize>() >= APPENDED_ROWS_MAX {
            let what = "tstats appends too many rows; narrow the search".to_owned();
            return Err(EngineError::Limit { what, limit: "appended rows", value: APPENDED_ROWS_MAX as u64 });
        }
        Ok(vec![blocking(Append { rows })])
    }
}
