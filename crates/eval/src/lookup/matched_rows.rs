//! `lookup` as a row command: adds the fields of matching table rows to each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::kernels::nullif::nullif;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;

use super::{DEFAULT_MATCHES_MAX, LookupIndex};
use crate::EngineError;
use crate::command::RowCommand;
use crate::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling};
use crate::spans::time_ns;

/// The `lookup` command.
#[derive(Clone)]
pub struct Lookup {
    index: Arc<LookupIndex>,
    /// Memo of outputs by value, for tables with a single input.
    memo: Arc<DistinctMemo>,
}

impl Lookup {
    /// The command on a table.
    pub fn new(index: LookupIndex) -> Lookup {
        Lookup { index: Arc::new(index), memo: Arc::default() }
    }

    /// Names of the command's input fields.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        let command = &self.index.command;
        let moment = self.index.table.time.as_ref().map(|_| command.time_field.as_deref().unwrap_or("_time"));
        command.inputs.iter().map(|(_, field)| field.as_str()).chain(moment)
    }

    /// The outputs for each row, given its inputs and its time.
    fn outputs(&self, inputs: &[ArrayRef], moments: Option<&ColumnReader>, count: usize) -> Vec<ArrayRef> {
        let index = &self.index;
        let inputs: Vec<ColumnReader> = inputs.iter().map(ColumnReader::new).collect();
        let table: Vec<_> = index.outputs.iter().map(|(column, _)| rows::reader(&index.rows, column)).collect();
        let mut columns: Vec<ColumnBuilder> = table.iter().map(|_| ColumnBuilder::new(count)).collect();
        let mut key = Vec::new();
        for row in 0..count {
            let found = matches_of_row(index, &inputs, row, &mut key);
            let found = index.valid_at(found, moments.and_then(|moments| time_ns(moments, row)));
            for (column, table) in columns.iter_mut().zip(&table) {
                let mut values: Vec<String> = Vec::new();
                for matched in &found {
                    let cells = table.values(*matched as usize).map(std::borrow::Cow::into_owned);
                    cells.for_each(|cell| {
                        if !values.contains(&cell) {
                            values.push(cell)
                        }
                    });
                }
                let is_short = found.is_empty() || found.len() < index.table.min_matches;
                let default = index.table.default_match.as_ref().filter(|_| is_short);
                if let Some(default) = default.filter(|default| !values.contains(default)) {
                    values.push(default.clone());
                }
                column.push_multi(values);
            }
        }
        columns.into_iter().map(ColumnBuilder::finish).collect()
    }
}

impl RowCommand for Lookup {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let command = &self.index.command;
        let inputs: Vec<ArrayRef> =
            command.inputs.iter().map(|(_, field)| rows::column_or_null(&rows, field)).collect();
        let by_value = match inputs.as_slice() {
            [input] if self.index.table.time.is_none() => self.memo.run(input, NumberHandling::ByValue, |values| {
                Ok(Some(self.outputs(&[Arc::clone(values)], None, values.len())))
            })?,
            _ => None,
        };
        let moments = rows::reader(&rows, command.time_field.as_deref().unwrap_or("_time"));
        let found = by_value.unwrap_or_else(|| self.outputs(&inputs, Some(&moments), rows.num_rows()));
        let lacks_input = rows_without_input(&inputs, rows.num_rows());
        let mut result = rows.clone();
        for ((_, field), column) in self.index.outputs.iter().zip(found) {
            let column = match &lacks_input {
                Some(lacks_input) => match rows::column(&rows, field) {
                    Some(old) => choose_values(old, &column, lacks_input),
                    // Unlike copying each value, this keeps the dictionary.
                    None if column.data_type() == &DataType::Null => column,
                    None => nullif(&column, &BooleanArray::from(lacks_input.clone()))?,
                },
                None => column,
            };
            let column = match rows::column(&rows, field).filter(|_| command.only_new) {
                Some(old) => rows::coalesce(old, &column),
                None => column,
            };
            result = rows::with_column(&result, field, column)?;
        }
        Ok(result)
    }
}

/// Marks rows without any input, which are left unchanged. `None` if every row has an input.
fn rows_without_input(inputs: &[ArrayRef], count: usize) -> Option<Vec<bool>> {
    if inputs.iter().any(|input| input.null_count() == 0 && input.data_type() != &DataType::Null) {
        return None;
    }
    let readers: Vec<ColumnReader> = inputs.iter().map(ColumnReader::new).collect();
    let lacks: Vec<bool> = (0..count).map(|row| readers.iter().all(|reader| reader.is_null(row))).collect();
    lacks.contains(&true).then_some(lacks)
}

/// For each row, the value of `first` where `takes_first` is true, otherwise the value of `second`.
fn choose_values(first: &ArrayRef, second: &ArrayRef, takes_first: &[bool]) -> ArrayRef {
    let (first, second) = (ColumnReader::new(first), ColumnReader::new(second));
    let mut column = ColumnBuilder::new(takes_first.len());
    for (row, takes_first) in takes_first.iter().enumerate() {
        column.push(if *takes_first { first.value(row) } else { second.value(row) });
    }
    column.finish()
}

/// Matches for a row. For multivalue inputs, the first [`DEFAULT_MATCHES_MAX`] combinations of values are looked up in
/// turn.
fn matches_of_row(index: &LookupIndex, inputs: &[rows::ColumnReader], row: usize, key: &mut Vec<u8>) -> Vec<u32> {
    let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
    for reader in inputs {
        let values: Vec<String> = reader.values(row).map(std::borrow::Cow::into_owned).collect();
        let longer = combinations.iter().flat_map(|head| {
            values.iter().map(|value| head.iter().cloned().chain([value.clone()]).collect::<Vec<_>>())
        });
        combinations = longer.take(DEFAULT_MATCHES_MAX).collect();
    }
    let mut found: Vec<u32> = Vec::new();
    for values in &combinations {
        for matched in index.find(values, key) {
            if !found.contains(&matched) {
                found.push(matched);
            }
        }
    }
    found
}
