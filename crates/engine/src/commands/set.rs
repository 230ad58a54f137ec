//! `set`: returns the union, difference or intersection of two search results.

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnReader, RowIter, concat_rows, is_hidden, of_batches};
use quarry_spl::ast::{SetCommand, SetOperation, SubsearchLimits};
use quarry_stdx::number::u32_of;

use super::Execute;
use crate::lowering::SearchEnvironment;
use crate::subsearch::SubsearchBounds;

impl Execute for SetCommand {
    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        let bounds = SubsearchBounds::of_rows(&SubsearchLimits::default(), search.context());
        let left = search.subsearch(&self.left, bounds)?;
        let right = search.subsearch(&self.right, bounds)?;
        Ok(Some(of_batches(set_of(self.operation, left, right)?)))
    }
}

/// Key that identifies a row: its non-null fields, by name.
fn row_key(columns: &[(String, ColumnReader)], row: usize, key: &mut Vec<u8>) {
    key.clear();
    let add = |key: &mut Vec<u8>, text: &str| {
        key.extend_from_slice(&u32_of(text.len()).to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    };
    for (name, reader) in columns.iter().filter(|(_, reader)| !reader.is_null(row)) {
        add(key, name);
        key.extend_from_slice(&u32_of(reader.values(row).count()).to_le_bytes());
        reader.values(row).for_each(|value| add(key, &value));
    }
}

/// The rows kept by a set operation, without duplicates, in order of first appearance.
fn set_of(
    operation: SetOperation,
    left: Vec<RecordBatch>,
    right: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>, EngineError> {
    let sides = [concat_rows(left)?, concat_rows(right)?];
    let mut keys = KeyTable::default();
    let mut numbers: [Vec<u32>; 2] = Default::default();
    let mut key = Vec::new();
    for (side, numbers) in sides.iter().zip(&mut numbers) {
        let mut names: Vec<String> = names_of(side).into_iter().filter(|name| !is_hidden(name)).collect();
        names.sort_unstable();
        let columns: Vec<(String, ColumnReader)> =
            names.into_iter().map(|name| (name.clone(), rows::reader(side, &name))).collect();
        for row in 0..side.num_rows() {
            row_key(&columns, row, &mut key);
            numbers.push(keys.intern(&key));
        }
    }
    let holds = |side: usize| {
        let mut is_there = vec![false; keys.len()];
        numbers[side].iter().for_each(|number| is_there[*number as usize] = true);
        is_there
    };
    let (in_left, in_right) = (holds(0), holds(1));
    let mut is_taken = vec![false; keys.len()];
    let mut kept = Vec::new();
    for (side, numbers) in sides.iter().zip(&numbers) {
        let keep = numbers.iter().map(|number| {
            let at = *number as usize;
            let wanted = match operation {
                SetOperation::Union => true,
                SetOperation::Diff => in_left[at] != in_right[at],
                SetOperation::Intersect => in_left[at] && in_right[at],
            };
            wanted && !std::mem::replace(&mut is_taken[at], true)
        });
        kept.push(rows::filter(side, &BooleanArray::from(keep.collect::<Vec<_>>()))?);
    }
    Ok(kept)
}
