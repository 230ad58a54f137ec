//! `cofilter`: for two values of a field, how many values of another have both; `relevancy`: how much of a text is what
//! the search asked for.

use std::collections::{BTreeMap, BTreeSet};

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::CofilterCommand;

use crate::EngineError;
use crate::command::{Blocking, BlockingTable, CommandContext, RowIter};
use crate::rows::{self, ColumnBuilder, KeptRows, Value, batch_of};

/// Pairs of items that are counted.
const PAIRS_MAX: usize = 1_000_000;
/// Bytes that a value in a set takes besides its text, about.
const VALUE_BYTES: usize = 64;

/// `cofilter`.
pub(crate) struct Cofilter(pub CofilterCommand);

impl BlockingTable for Cofilter {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let mut account = context.dataflow.account("cofilter");
        let (mut of_users, mut bytes): (BTreeMap<String, BTreeSet<String>>, usize) = (BTreeMap::new(), 0);
        for batch in rows {
            let batch = batch?;
            let (users, items) = (rows::reader(&batch, &self.0.user), rows::reader(&batch, &self.0.item));
            for row in 0..batch.num_rows() {
                for user in users.values(row) {
                    for item in items.values(row) {
                        bytes += user.len() + item.len() + VALUE_BYTES;
                        of_users.entry(user.clone().into_owned()).or_default().insert(item.into_owned());
                    }
                }
            }
            account.set(bytes)?;
        }
        let (mut users, mut pairs) = (BTreeMap::<&str, i64>::new(), BTreeMap::<(&str, &str), i64>::new());
        for items in of_users.values() {
            for (at, item) in items.iter().enumerate() {
                *users.entry(item).or_default() += 1;
                items.iter().skip(at + 1).for_each(|other| *pairs.entry((item, other)).or_default() += 1);
            }
            if pairs.len() > PAIRS_MAX {
                let what = "cofilter: too many pairs of items: leave rare items out".to_owned();
                return Err(EngineError::Limit { what, limit: "pairs", value: PAIRS_MAX as u64 });
            }
            if context.stop.is_cancelled() {
                return Ok(Vec::new());
            }
        }
        let mut columns = [(); 5].map(|()| ColumnBuilder::new(pairs.len()));
        for ((item, other), count) in &pairs {
            let of = |item: &str| Value::Int(users.get(item).copied().unwrap_or_default());
            let values = [Value::text_of(item), of(item), Value::text_of(other), of(other), Value::Int(*count)];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let names = ["Item 1", "Item 1 user count", "Item 2", "Item 2 user count", "Pair count"];
        Ok(vec![batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), pairs.len())?])
    }
}

/// `relevancy`; the words that the search asked for, in lower case.
pub(crate) struct Relevancy(pub Vec<String>);

impl Blocking for Relevancy {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let kept = KeptRows::collect("relevancy", rows, &context.dataflow)?;
        let (mut all, mut found) = (0_usize, vec![0_usize; self.0.len()]);
        for batch in kept.iter() {
            let batch = batch?;
            for (words, counts) in self.counts(&batch) {
                all += words;
                found.iter_mut().zip(counts).for_each(|(found, count)| *found += count);
            }
        }
        // The rarer a word, the more it tells.
        let weight = |found: &usize| (1.0 + all as f64 / (*found).max(1) as f64).ln();
        let weights: Vec<f64> = found.iter().map(weight).collect();
        let command = Relevancy(self.0.clone());
        Ok(Box::new(kept.into_unified_rows().map(move |batch| {
            let batch = batch?;
            let mut column = ColumnBuilder::new(batch.num_rows());
            for (words, counts) in command.counts(&batch) {
                let told: f64 = counts.iter().zip(&weights).map(|(count, weight)| *count as f64 * weight).sum();
                column.push(Value::number_of(if words == 0 { 0.0 } else { told / words as f64 }));
            }
            rows::with_column(&batch, "relevancy", column.finish())
        })))
    }
}

impl Relevancy {
    /// Of each row's text how many words it has, and how often each of those asked for.
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
