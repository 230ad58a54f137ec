//! Builds columns from fields found row by row, for `extract`, `multikv` and `xmlkv`.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{self, ColumnBuilder};

/// Maximum number of distinct names per batch of rows; further names are dropped.
const NAMES_MAX: usize = 1_000;

/// A value of a row, as a range of [`FoundFields::texts`].
struct FoundValue {
    row: usize,
    start: usize,
    end: usize,
}

/// Fields found in rows, in order of first appearance.
#[derive(Default)]
pub(super) struct FoundFields {
    places: BTreeMap<String, usize>,
    columns: Vec<(String, Vec<FoundValue>)>,
    /// The column after the column of the last value; rows often have the same fields in the same order.
    next: usize,
    /// The texts of all values.
    texts: String,
}

impl FoundFields {
    /// Records a value of a row; rows come in order. With `adds`, a further value of a row is appended, otherwise
    /// ignored.
    pub(super) fn add(&mut self, row: usize, name: &str, value: &str, adds: bool) {
        let Some(at) = self.column(name) else { return };
        self.next = at + 1;
        let values = &mut self.columns[at].1;
        if !adds && values.last().is_some_and(|last| last.row == row) {
            return;
        }
        let start = self.texts.len();
        self.texts.push_str(value);
        values.push(FoundValue { row, start, end: self.texts.len() });
    }

    /// The column of a name; `None` if there are too many names.
    fn column(&mut self, name: &str) -> Option<usize> {
        if self.columns.get(self.next).is_some_and(|(known, _)| known == name) {
            return Some(self.next);
        }
        if let Some(at) = self.places.get(name) {
            return Some(*at);
        }
        if self.columns.len() >= NAMES_MAX {
            return None;
        }
        self.places.insert(name.to_owned(), self.columns.len());
        self.columns.push((name.to_owned(), Vec::new()));
        Some(self.columns.len() - 1)
    }

    /// Adds these fields to the rows; with `replaces` they override existing values.
    pub(super) fn into_rows(self, rows: &RecordBatch, replaces: bool) -> Result<RecordBatch, EngineError> {
        let mut result = rows.clone();
        for (name, found) in &self.columns {
            let old = rows::reader(rows, name);
            let mut column = ColumnBuilder::new(rows.num_rows());
            let mut rest = found.as_slice();
            for row in 0..rows.num_rows() {
                let (values, later) = rest.split_at(rest.iter().take_while(|value| value.row == row).count());
                rest = later;
                match values {
                    [_, ..] if replaces || old.is_null(row) => {
                        column.push_multi(values.iter().map(|value| &self.texts[value.start..value.end]));
                    }
                    _ => column.push(old.value(row)),
                }
            }
            result = rows::with_column(&result, name, column.finish())?;
        }
        Ok(result)
    }
}
