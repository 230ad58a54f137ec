//! `anomalies`: scores how much text each row contains that the rows before it do not.
//!
//! Scores differ from Splunk's, but the same rows stand out.

use std::collections::{BTreeMap, VecDeque};

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::lookup::read_csv;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, rows_in_memory};
use quarry_spl::ast::AnomaliesCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Length of the n-grams that `anomalies` compares.
const NGRAM_CHARS: usize = 3;

impl Execute for AnomaliesCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let denied = match &self.denied {
            Some((name, span)) => {
                let table = lowering.environment.lookup_table(name, *span)?;
                Some(read_csv(&table.csv).map_err(|fault| EngineError::at(fault, *span))?)
            }
            None => None,
        };
        Ok(vec![blocking(Anomalies::new(self, denied.as_ref()))])
    }
}

struct Anomalies {
    command: AnomaliesCommand,
    /// N-grams of each text on the denylist; rows with such texts get the score 0.
    denied: Vec<Window>,
}

/// The texts before a row, with the count of each n-gram.
#[derive(Default)]
struct Window {
    texts: VecDeque<Vec<u64>>,
    counts: HashMap<u64, u32, foldhash::fast::FixedState>,
}

impl Window {
    /// Distinct n-grams of a row that are missing from the window, divided by the sum of the numbers of distinct
    /// n-grams of the row and of the window.
    fn unexpectedness(&self, pieces: &[u64]) -> f64 {
        let new = pieces.iter().filter(|piece| !self.counts.contains_key(*piece)).count();
        let all = self.counts.len() + pieces.len();
        if all == 0 || self.texts.is_empty() { 0.0 } else { f64_of(new) / f64_of(all) }
    }

    fn push(&mut self, pieces: Vec<u64>, most: usize) {
        pieces.iter().for_each(|piece| *self.counts.entry(*piece).or_default() += 1);
        self.texts.push_back(pieces);
        if self.texts.len() <= most {
            return;
        }
        for piece in self.texts.pop_front().unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&piece) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&piece);
                }
            }
        }
    }
}

impl BlockingTable for Anomalies {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("anomalies", rows, context)?;
        let (texts, mut scratch) = (rows::reader(&all, &self.command.field), String::new());
        let by: Vec<ColumnReader> = self.command.by.iter().map(|field| rows::reader(&all, &field.text)).collect();
        let mut windows: BTreeMap<Vec<String>, Window> = BTreeMap::new();
        let (mut column, mut kept) = (ColumnBuilder::new(all.num_rows()), Vec::with_capacity(all.num_rows()));
        let work = context.stop.begin_work();
        for row in 0..all.num_rows() {
            context.stop.check_cancelled()?;
            if context.stop.should_end_rows(work) {
                break;
            }
            let key = by.iter().map(|reader| reader.value(row).into_text().unwrap_or_default().into_owned()).collect();
            let pieces = self.ngrams(texts.text(row, &mut scratch).unwrap_or_default());
            let window = windows.entry(key).or_default();
            let unexpected = if self.is_denied(&pieces) { 0.0 } else { window.unexpectedness(&pieces) };
            window.push(pieces, self.command.window);
            column.push(Value::from_f64(unexpected));
            kept.push(self.command.label_only || unexpected >= self.command.threshold);
        }
        let result = rows::with_column(&all.slice(0, kept.len()), "unexpectedness", column.finish())?;
        Ok(vec![rows::filter(&result, &BooleanArray::from(kept))?])
    }
}

impl Anomalies {
    /// `denied` is the denylist: a table with texts in the command's field.
    fn new(command: &AnomaliesCommand, denied: Option<&RecordBatch>) -> Anomalies {
        let mut anomalies = Anomalies { command: command.clone(), denied: Vec::new() };
        if let Some(table) = denied {
            let (texts, mut scratch) = (rows::reader(table, &command.field), String::new());
            for row in 0..table.num_rows() {
                let pieces = texts.text(row, &mut scratch).map(|text| anomalies.ngrams(text));
                let mut window = Window::default();
                window.push(pieces.unwrap_or_default(), 1);
                anomalies.denied.push(window);
            }
        }
        anomalies
    }

    /// Whether nearly all n-grams of a text occur in one of the texts on the denylist.
    fn is_denied(&self, pieces: &[u64]) -> bool {
        self.denied.iter().any(|denied| denied.unexpectedness(pieces) <= self.command.denied_threshold)
    }

    /// Distinct n-grams of a text, each as a number.
    fn ngrams(&self, text: &str) -> Vec<u64> {
        let letter = |c: char| if self.command.normalizes && c.is_ascii_digit() { '0' } else { c };
        let mut letters: Vec<char> = text.chars().map(letter).collect();
        if self.command.normalizes {
            // Runs of digits count as equal regardless of length.
            letters.dedup_by(|a, b| *a == '0' && *b == '0');
        }
        let code = |run: &[char]| run.iter().fold(0u64, |code, c| (code << 21) | u64::from(u32::from(*c)));
        let mut pieces: Vec<u64> = letters.windows(NGRAM_CHARS).map(code).collect();
        pieces.sort_unstable();
        pieces.dedup();
        pieces
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use quarry_eval::rows::{batch_of, of_batches};
    use quarry_spl::ast::Command;

    use super::*;
    use crate::plan::tests::{ReadClock, runner};

    #[test]
    fn a_finalised_search_scores_its_first_rows() {
        let parsed = quarry_spl::parse("* | anomalies field=a labelonly=t");
        let Command::Anomalies(command) = &parsed.pipeline.commands[1].command else { panic!("{parsed:?}") };
        let context = runner("*").context;
        let scored = || {
            let mut column = ColumnBuilder::new(9);
            (0..9).for_each(|_| column.push_text("text"));
            let rows = of_batches(vec![batch_of([("a", column.finish())], 9).unwrap()]);
            let made = BlockingTable::run(&Anomalies::new(command, None), rows, &context).unwrap();
            made.iter().map(RecordBatch::num_rows).sum::<usize>()
        };
        assert_eq!(scored(), 9);
        context.stop.set_clock(Arc::new(ReadClock::default()));
        // Finalised at 0 ms; the work begins at 40 ms. It may go on at 80 and 120 ms, and ends at 160 ms.
        context.stop.finish_early();
        assert_eq!(scored(), 2);
        assert!(context.stop.was_cut());
    }
}
