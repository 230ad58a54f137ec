//! `selfjoin`: joins rows of a result with each other.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, batch_of, is_hidden, rows_in_memory};
use quarry_spl::ast::SelfJoinCommand;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of rows of a join.
const ROWS_MAX: usize = 1_000_000;
/// Number of rows between two checks whether the search is to end.
const CHECKED_ROWS: usize = 1_024;

impl Execute for SelfJoinCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(SelfJoin(self.clone()))])
    }
}

/// Joins each row with later rows that have the same values.
struct SelfJoin(SelfJoinCommand);

impl SelfJoin {
    /// Numbers of the joined rows, in pairs; a row that is kept without a partner is paired with `None`. A search that
    /// is finalised gets the pairs of the first rows.
    fn pairs(&self, all: &RecordBatch, stop: &Stop) -> Result<Vec<(usize, Option<usize>)>, EngineError> {
        let should_end = |row: usize, work| row.is_multiple_of(CHECKED_ROWS) && stop.should_end_rows(work);
        let work = stop.begin_work();
        let readers: Vec<ColumnReader> = self.0.fields.iter().map(|field| rows::reader(all, &field.text)).collect();
        let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        let mut keys: Vec<Option<Vec<String>>> = Vec::with_capacity(all.num_rows());
        for row in 0..all.num_rows() {
            if should_end(row, work) {
                break;
            }
            let key: Option<Vec<String>> =
                readers.iter().map(|reader| reader.value(row).into_text().map(|text| text.into_owned())).collect();
            if let Some(key) = &key {
                groups.entry(key.clone()).or_default().push(row);
            }
            keys.push(key);
        }
        // If reading the keys ended early, the rows that were read are joined.
        let work = stop.begin_work();
        let mut pairs = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            if should_end(row, work) {
                break;
            }
            let group = key.as_ref().and_then(|key| groups.get(key)).map(Vec::as_slice).unwrap_or_default();
            let others = group.get(group.partition_point(|other| *other <= row)..).unwrap_or_default().iter().copied();
            let most = if self.0.max == 0 { usize::MAX } else { self.0.max };
            pairs.extend(others.take(most).map(|other| (row, Some(other))));
            if group.len() < 2 && self.0.keeps_single {
                pairs.push((row, None));
            }
            if pairs.len() > ROWS_MAX {
                let what = "selfjoin: too many rows; join on more fields, or set max=".to_owned();
                return Err(EngineError::Limit { what, limit: "rows", value: ROWS_MAX as u64 });
            }
        }
        Ok(pairs)
    }
}

impl BlockingTable for SelfJoin {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("selfjoin", rows, context)?;
        let pairs = self.pairs(&all, &context.stop)?;
        let names: Vec<String> = names_of(&all).into_iter().filter(|name| !is_hidden(name)).collect();
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            context.stop.check_cancelled()?;
            let reader = rows::reader(&all, &name);
            let mut column = ColumnBuilder::new(pairs.len());
            for (row, other) in &pairs {
                let (own, other) = (reader.value(*row), other.map_or(Value::Null, |other| reader.value(other)));
                let (first, second) = if self.0.overwrites { (other, own) } else { (own, other) };
                column.push(if first.is_null() { second } else { first });
            }
            columns.push((name, column.finish()));
        }
        Ok(vec![batch_of(columns, pairs.len())?])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use arrow::array::{ArrayRef, StringViewArray};
    use quarry_spl::ast::{FieldPattern, Span};
    use quarry_stdx::Clock;

    use super::*;

    fn join() -> SelfJoin {
        let fields = vec![FieldPattern { text: "user".to_owned(), span: Span::default() }];
        SelfJoin(SelfJoinCommand { overwrites: true, max: 1, keeps_single: true, fields })
    }

    fn rows_of<'u>(users: impl IntoIterator<Item = &'u str>) -> RecordBatch {
        let users: ArrayRef = Arc::new(StringViewArray::from_iter_values(users));
        let count = users.len();
        batch_of([("user", users)], count).unwrap()
    }

    /// A clock that moves on by 20 ms whenever it is read.
    #[derive(Debug, Default)]
    struct MovingClock(AtomicI64);

    impl Clock for MovingClock {
        fn now_ns(&self) -> i64 {
            self.elapsed_ns()
        }

        fn elapsed_ns(&self) -> i64 {
            self.0.fetch_add(20_000_000, Ordering::Relaxed)
        }
    }

    #[test]
    fn cancelled_searches_join_no_rows() {
        let (join, rows, stop) = (join(), rows_of(["eva", "tom", "eva"]), Stop::default());
        assert_eq!(join.pairs(&rows, &stop).unwrap(), [(0, Some(2)), (1, None)]);
        stop.cancel();
        assert!(join.pairs(&rows, &stop).unwrap().is_empty());
    }

    #[test]
    fn finalised_searches_join_the_first_rows() {
        let stop = Stop::default();
        stop.set_clock(Arc::new(MovingClock::default()));
        stop.finish_at(0);
        let pairs = join().pairs(&rows_of(std::iter::repeat_n("eva", 20 * CHECKED_ROWS)), &stop).unwrap();
        let expected: Vec<_> = (0..pairs.len()).map(|row| (row, Some(row + 1))).collect();
        assert_eq!(pairs, expected);
        assert!((1..20 * CHECKED_ROWS - 1).contains(&pairs.len()) && stop.was_cut(), "{} pairs", pairs.len());
    }
}
