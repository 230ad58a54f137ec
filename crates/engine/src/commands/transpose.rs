//! `transpose`: turns rows into columns.

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, batch_of, concat_rows, is_hidden, of_batches};
use quarry_spl::ast::TransposeCommand;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of rows that become columns.
const COLUMNS_MAX: usize = 10_000;

impl Execute for TransposeCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(self.clone())])
    }
}

impl Blocking for TransposeCommand {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<RowIter, EngineError> {
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        let (mut held, mut count) = (Vec::new(), 0);
        for batch in rows {
            let batch = batch?;
            let batch = batch.slice(0, batch.num_rows().min(limit - count));
            count += batch.num_rows();
            held.push(batch);
            // Checked before the limit that the search gives, which may be larger.
            if count > COLUMNS_MAX {
                let what = "transpose: too many rows to become columns".to_owned();
                return Err(EngineError::Limit { what, limit: "columns", value: COLUMNS_MAX as u64 });
            }
            if count >= limit {
                break;
            }
        }
        let all = concat_rows(held)?;
        let header = self.header_field.as_deref();
        let is_row = |name: &String| !is_hidden(name) && Some(name.as_str()) != header;
        let names: Vec<String> = names_of(&all).into_iter().filter(is_row).collect();
        let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(&all, name)).collect();
        let is_kept = |reader: &ColumnReader| {
            self.include_empty || (0..all.num_rows()).any(|row| reader.values(row).any(|text| !text.is_empty()))
        };
        let kept: Vec<usize> = (0..names.len()).filter(|at| is_kept(&readers[*at])).collect();
        let mut column = ColumnBuilder::new(kept.len());
        kept.iter().for_each(|at| column.push_text(&names[*at]));
        let mut columns = vec![(self.column_name.clone(), column.finish())];
        let headers = header.map(|header| rows::reader(&all, header));
        let mut scratch = String::new();
        for row in 0..all.num_rows() {
            let name = headers.as_ref().and_then(|headers| headers.text(row, &mut scratch)).map(str::to_owned);
            let mut column = ColumnBuilder::new(kept.len());
            kept.iter().for_each(|at| column.push(readers[*at].value(row)));
            columns.push((name.unwrap_or_else(|| format!("row {}", row + 1)), column.finish()));
        }
        Ok(of_batches(vec![batch_of(columns, kept.len())?]))
    }
}
