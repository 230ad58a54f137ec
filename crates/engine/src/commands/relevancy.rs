//! `relevancy`: scores how relevant each text is to the search terms; rare words count more.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowBuffer, RowIter, Value};
use quarry_spl::ast::RelevancyCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for RelevancyCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Relevancy(self.words.clone()))])
    }
}

/// The search terms in lower case.
struct Relevancy(Vec<String>);

impl Blocking for Relevancy {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let mut kept = RowBuffer::new("relevancy", &context.dataflow);
        let (mut all, mut found) = (0_usize, vec![0_usize; self.0.len()]);
        for batch in rows {
            let batch = batch?;
            kept.push(&batch)?;
            for (words, counts) in self.counts(&batch) {
                all += words;
                found.iter_mut().zip(counts).for_each(|(found, count)| *found += count);
            }
        }
        // Rare terms weigh more: log of the inverse frequency among all words.
        let weight = |found: &usize| (1.0 + f64_of(all) / f64_of((*found).max(1))).ln();
        let weights: Vec<f64> = found.iter().map(weight).collect();
        let command = Relevancy(self.0.clone());
        Ok(Box::new(kept.into_unified_rows().map(move |batch| {
            let batch = batch?;
            let mut column = ColumnBuilder::new(batch.num_rows());
            for (words, counts) in command.counts(&batch) {
                let weighted: f64 = counts.iter().zip(&weights).map(|(count, weight)| f64_of(*count) * weight).sum();
                column.push(Value::from_f64(if words == 0 { 0.0 } else { weighted / f64_of(words) }));
            }
            rows::with_column(&batch, "relevancy", column.finish())
        })))
    }
}

impl Relevancy {
    /// For each row: its number of words, and the count of each search term.
    fn counts(&self, rows: &RecordBatch) -> Vec<(usize, Vec<usize>)> {
        let (reader, mut scratch) = (rows::reader(rows, "_raw"), String::new());
        let count = |row: usize| {
            let text = reader.text(row, &mut scratch).unwrap_or_default().to_lowercase();
            let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count();
            (words, self.0.iter().map(|word| text.matches(word.as_str()).count()).collect())
        };
        (0..rows.num_rows()).map(count).collect()
    }
}
