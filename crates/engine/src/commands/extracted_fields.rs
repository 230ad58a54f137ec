//! Builds columns from fields found row by row, for `extract`, `multikv` and `xmlkv`.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{self, ColumnBuilder};

/// Maximum number of distinct names per batch of rows; further names are dropped.
const NAMES_MAX: usize = 1_000;

/// Rows with a field, each with its values.
type ValuesByRow = Vec<(usize, Vec<String>)>;

/// Fields found in rows, in order of first appearance.
#[derive(Default)]
pub(super) struct FoundFields {
    places: BTreeMap<String, usize>,
    columns: Vec<(String, ValuesByRow)>,
}

impl FoundFields {
    /// Records a value of a row; rows come in order. With `adds`, a further value of a row is appended, otherwise
    /// ignored.
    pub(super) fn add(&mut self, row: usize, name: &str, value: &str, adds: bool) {
        let at = match self.places.get(name) {
            Some(at) => *at,
            None if self.columns.len() >= NAMES_MAX => return,
            None => {
                self.places.insert(name.to_owned(), self.columns.len());
                self.columns.push((name.to_owned(), Vec::new()));
                self.columns.len() - 1
            }
        };
        match self.columns[at].1.last_mut() {
            Some((last, values)) if *last == row => {
                if adds {
                    values.push(value.to_owned());
                }
            }
            _ => self.columns[at].1.push((row, vec![value.to_owned()])),
        }
    }

    /// Adds these fields to the rows; with `replaces` they override existing values.
    pub(super) fn into_rows(self, rows: &RecordBatch, replaces: bool) -> Result<RecordBatch, EngineError> {
        let mut result = rows.clone();
        for (name, found) in self.columns {
            let old = rows::reader(rows, &name);
            let mut column = ColumnBuilder::new(rows.num_rows());
            let mut found = found.into_iter().peekable();
            for row in 0..rows.num_rows() {
                match found.next_if(|(at, _)| *at == row) {
                    Some((_, values)) if replaces || old.is_null(row) => column.push_multi(values),
                    _ => column.push(old.value(row)),
                }
            }
            result = rows::with_column(&result, &name, column.finish())?;
        }
        Ok(result)
    }
}
