//! `cofilter`: counts, for each pair of items, the users who have both.

use std::collections::{BTreeMap, BTreeSet};

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of};
use quarry_spl::ast::CofilterCommand;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of counted pairs.
const PAIRS_MAX: usize = 1_000_000;
/// Approximate overhead of a value in a set, in bytes.
const VALUE_OVERHEAD_BYTES: usize = 64;

impl Execute for CofilterCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Cofilter(self.clone()))])
    }
}

struct Cofilter(CofilterCommand);

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
                        bytes += user.len() + item.len() + VALUE_OVERHEAD_BYTES;
                        of_users.entry(user.clone().into_owned()).or_default().insert(item.into_owned());
                    }
                }
            }
            account.set(bytes)?;
        }
        let (mut users, mut pairs) = (BTreeMap::<&str, i64>::new(), BTreeMap::<(&str, &str), i64>::new());
        let start = context.stop.begin_work();
        for items in of_users.values() {
            for (at, item) in items.iter().enumerate() {
                *users.entry(item).or_default() += 1;
                items.iter().skip(at + 1).for_each(|other| *pairs.entry((item, other)).or_default() += 1);
            }
            if pairs.len() > PAIRS_MAX {
                let what = "cofilter: too many pairs of items; leave out rare items".to_owned();
                return Err(EngineError::Limit { what, limit: "pairs", value: PAIRS_MAX as u64 });
            }
            if context.stop.should_end_work(start) {
                break;
            }
        }
        let mut columns = [(); 5].map(|()| ColumnBuilder::new(pairs.len()));
        for ((item, other), count) in &pairs {
            let of = |item: &str| Value::Int(users.get(item).copied().unwrap_or_default());
            let values =
                [Value::borrowed_text(item), of(item), Value::borrowed_text(other), of(other), Value::Int(*count)];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let names = ["Item 1", "Item 1 user count", "Item 2", "Item 2 user count", "Pair count"];
        Ok(vec![batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), pairs.len())?])
    }
}
