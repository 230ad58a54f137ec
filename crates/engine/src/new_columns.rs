//! Columns that a command adds to its rows, collected and added to the batch all at once.
//!
//! A batch is immutable: adding a column copies the list of its columns, so a command that adds columns one by one
//! takes quadratic time. Here, a column is found through a hash table.
//!
//! Not here: columns of rows that are read only ([`quarry_eval::rows`]).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows;

/// Number of new columns up to which names are compared one after another.
const LINEAR_LOOKUP_MAX: usize = 16;

/// Rows with new columns.
pub(crate) struct NewColumns {
    /// The rows without the new columns.
    rows: RecordBatch,
    /// New columns in the order of their first assignment; a name may also be a column of the rows.
    columns: Vec<(String, ArrayRef)>,
    /// Positions of the new columns, once there are more than [`LINEAR_LOOKUP_MAX`].
    places: HashMap<String, usize>,
}

impl NewColumns {
    /// Rows that have no new columns yet.
    pub(crate) fn of(rows: RecordBatch) -> NewColumns {
        NewColumns { rows, columns: Vec::new(), places: HashMap::new() }
    }

    fn place(&self, name: &str) -> Option<usize> {
        match self.places.is_empty() {
            true => self.columns.iter().position(|(known, _)| known == name),
            false => self.places.get(name).copied(),
        }
    }

    /// Replaces the column `name`, or adds it at the end.
    pub(crate) fn set(&mut self, name: &str, column: ArrayRef) {
        match self.place(name) {
            Some(at) => self.columns[at].1 = column,
            None => {
                self.columns.push((name.to_owned(), column));
                if self.columns.len() > LINEAR_LOOKUP_MAX {
                    let noted = self.places.len();
                    let new = self.columns[noted..].iter().zip(noted..);
                    self.places.extend(new.map(|((name, _), at)| (name.clone(), at)));
                }
            }
        }
    }

    /// The column `name`, or a column of nulls.
    pub(crate) fn column(&self, name: &str) -> ArrayRef {
        match self.place(name) {
            Some(at) => self.columns[at].1.clone(),
            None => rows::column_or_null(&self.rows, name),
        }
    }

    /// Only these columns; columns that do not exist are ignored.
    pub(crate) fn select(&self, names: &[String]) -> Result<RecordBatch, EngineError> {
        let found = names.iter().filter_map(|name| {
            let column = match self.place(name) {
                Some(at) => Some(&self.columns[at].1),
                None => rows::column(&self.rows, name),
            };
            column.map(|column| (name.as_str(), column.clone()))
        });
        rows::batch_of(found, self.rows.num_rows())
    }

    /// All columns as one batch, to which later columns are added.
    pub(crate) fn all(&mut self) -> Result<&RecordBatch, EngineError> {
        if !self.columns.is_empty() {
            self.places.clear();
            // Fields keep their metadata, such as the delimiter of a multivalue.
            let mut fields: Vec<FieldRef> = self.rows.schema_ref().fields().to_vec();
            let mut arrays = self.rows.columns().to_vec();
            let columns = std::mem::take(&mut self.columns);
            let known: HashMap<String, usize> = match columns.len() {
                ..=LINEAR_LOOKUP_MAX => HashMap::new(),
                _ => fields.iter().map(|field| field.name().clone()).zip(0..).collect(),
            };
            let own = fields.len();
            for (name, array) in columns {
                let place = match known.is_empty() {
                    true => fields[..own].iter().position(|field| *field.name() == name),
                    false => known.get(&name).copied(),
                };
                let field = Arc::new(Field::new(name, array.data_type().clone(), true));
                match place {
                    Some(at) => (fields[at], arrays[at]) = (field, array),
                    None => {
                        fields.push(field);
                        arrays.push(array);
                    }
                }
            }
            let options = RecordBatchOptions::new().with_row_count(Some(self.rows.num_rows()));
            self.rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?;
        }
        Ok(&self.rows)
    }

    /// The rows with the new columns.
    pub(crate) fn finish(mut self) -> Result<RecordBatch, EngineError> {
        self.all()?;
        Ok(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn columns_are_replaced_in_place_and_added_in_order() {
        let number = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let rows = rows::batch_of([("a", number(1)), ("b", number(2))], 1).unwrap();
        // The result does not depend on whether columns are found one by one or in a batch, linearly or by hash.
        for count in [1, LINEAR_LOOKUP_MAX, 3 * LINEAR_LOOKUP_MAX] {
            let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
            let all = ["c", "a"].into_iter().chain(names.iter().map(String::as_str)).chain(["c", "n0", "b"]);
            let mut expected = rows.clone();
            let mut new = NewColumns::of(rows.clone());
            for (name, value) in all.zip(10..) {
                expected = rows::with_column(&expected, name, number(value)).unwrap();
                new.set(name, number(value));
                assert_eq!(new.column(name).as_ref(), number(value).as_ref());
                let selected = new.select(&[name.to_owned(), "missing".to_owned()]).unwrap();
                assert_eq!((selected.num_columns(), selected.column(0).as_ref()), (1, number(value).as_ref()));
            }
            assert_eq!(*new.all().unwrap(), expected);
            new.set("d", number(0));
            assert_eq!(new.finish().unwrap(), rows::with_column(&expected, "d", number(0)).unwrap());
        }
    }
}
