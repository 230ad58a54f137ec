//! `score`: computes statistics on how well predictions fit.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{RowIter, rows_in_memory};
use quarry_learn::LearnError;
use quarry_learn::score::{SCORED_ROWS_MAX, score};
use quarry_spl::ast::ScoreCommand;

use super::Execute;
use super::models::{Fields, expand_patterns, learn_error, options_of, table};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for ScoreCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Score(self.clone()))])
    }
}

/// Compares the columns of all rows.
struct Score(ScoreCommand);

impl BlockingTable for Score {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let command = &self.0;
        let all = rows_in_memory("score", rows, context)?;
        if all.num_rows() > SCORED_ROWS_MAX {
            let what = "score: too many rows; take a sample".to_owned();
            return Err(EngineError::Limit { what, limit: "scored rows", value: SCORED_ROWS_MAX as u64 });
        }
        let names = names_of(&all);
        let actual = Fields::new(&all, expand_patterns(&command.actual, &names));
        let predicted = Fields::new(&all, expand_patterns(&command.predicted, &names));
        let stop = || context.stop.is_cancelled();
        let options = options_of(&command.options);
        let (method, count) = (command.method.name, all.num_rows());
        match score(method, &actual.columns(), &predicted.columns(), count, &options, &stop) {
            Ok(rows) => Ok(vec![table(&rows)?]),
            Err(LearnError::Cancelled) => Ok(Vec::new()),
            Err(error) => Err(learn_error("score", &error, &command.options, command.span)),
        }
    }
}
