//! `inputlookup`: reads the rows of a lookup table, alone or appended to the rows of the search.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::lookup::read_csv;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows::{self, RowIter, of_batches};
use quarry_spl::ast::InputLookupCommand;

use super::Execute;
use super::append::Append;
use crate::lowering::{Environment, Lowering, SearchEnvironment, Step, blocking};

impl Execute for InputLookupCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        if !self.append {
            return Err(lowering.must_be_first_error(lowering.name, " or have append=true"));
        }
        let rows = vec![rows_of(self, lowering.environment)?];
        Ok(vec![blocking(Append { rows })])
    }

    fn check(&self, environment: &dyn SearchEnvironment) -> Result<(), EngineError> {
        match environment.lookup_table(&self.table, self.table_span) {
            Err(error) if self.strict => Err(error),
            _ => Ok(()),
        }
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        match rows_of(self, search) {
            Ok(rows) => Ok(Some(of_batches(vec![rows]))),
            // For `inputcsv` without `strict=true`, a missing file is only a warning.
            Err(error @ (EngineError::Invalid { .. } | EngineError::Failed { .. })) if !self.strict => {
                search.context().messages.push(error.to_string());
                Ok(Some(of_batches(Vec::new())))
            }
            Err(error) => Err(error),
        }
    }
}

/// The rows of the table that meet the condition.
fn rows_of(command: &InputLookupCommand, environment: &dyn Environment) -> Result<RecordBatch, EngineError> {
    let table = environment.lookup_table(&command.table, command.table_span)?;
    let expressions = environment.context().expressions();
    let filter = command.filter.as_ref().map(|expr| RowFilter::new(expr, &expressions)).transpose()?;
    let mut rows = read_csv(&table.csv).map_err(|fault| {
        EngineError::at(fault.with_context(format_args!("inputlookup {}", command.table)), command.table_span)
    })?;
    if let Some(filter) = filter {
        rows = rows::filter(&rows, &filter.matches(&rows)?)?;
    }
    let start = command.start.min(rows.num_rows());
    Ok(rows.slice(start, command.max.min(rows.num_rows() - start)))
}
