//! `join`: hash join with the rows of a subsearch.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::{KeyTable, add_key_part};
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowBuffer, RowIter, concat_rows, is_hidden, of_batches};
use quarry_spl::ast::{JoinCommand, SubsearchLimits};
use quarry_stdx::number::u32_of;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for JoinCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let defaults = lowering.environment.context().subsearches;
        let limits = SubsearchLimits {
            max_out: self.limits.max_out.or(Some(defaults.join_rows)),
            max_time_s: self.limits.max_time_s.or(Some(defaults.join_time_s)),
            ..self.limits
        };
        let right = lowering.subsearch(&self.subsearch, limits)?;
        Ok(vec![blocking(Join { command: self.clone(), right, rows_max: JOINED_ROWS_MAX })])
    }
}

/// Adds the fields of matching subsearch rows.
#[derive(Clone)]
struct Join {
    command: JoinCommand,
    /// Result of the subsearch.
    right: Vec<RecordBatch>,
    /// Maximum number of joined rows.
    rows_max: usize,
}

/// Maximum number of rows of a join; further rows are dropped, and a message says so.
const JOINED_ROWS_MAX: usize = 5_000_000;

/// Rows of the left side, each with the matching row of the right side, if any.
type Pairs = (Vec<u32>, Vec<Option<u32>>);

/// Rows of the right side by their key.
struct RightIndex {
    rows: RecordBatch,
    fields: Vec<String>,
    keys: KeyTable,
    places: Vec<Vec<u32>>,
}

impl Blocking for Join {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let left = RowBuffer::collect("join", rows, &context.dataflow)?;
        let right = concat_rows(self.right.clone())?;
        let (left_fields, right_fields) = self.key_fields(&RecordBatch::new_empty(left.schema()), &right);
        if left_fields.is_empty() {
            // Without common fields nothing matches.
            return Ok(if self.command.left_outer { left.into_unified_rows() } else { of_batches(Vec::new()) });
        }
        let (index, join) = (index_right(right, &right_fields), self.clone());
        let (mut room, messages) = (Some(self.rows_max), Arc::clone(&context.messages));
        let joined = left.into_unified_rows().map_while(move |left| {
            let most = room?;
            Some(left.and_then(|left| {
                let (mut left_places, mut right_places) = join.pairs(&left, &left_fields, &index, most);
                room = most.checked_sub(left_places.len());
                if room.is_none() {
                    messages.push(format!(
                        "join: the first {} joined rows are kept, and the others dropped: join on more fields, or set max=",
                        join.rows_max
                    ));
                    left_places.truncate(most);
                    right_places.truncate(most);
                }
                join.join_rows(&left, &left_places, &right_places, &index)
            }))
        });
        Ok(Box::new(joined))
    }
}

impl Join {
    fn key_fields(&self, left: &RecordBatch, right: &RecordBatch) -> (Vec<String>, Vec<String>) {
        if let Some(aliases) = &self.command.aliases {
            return aliases.pairs.iter().cloned().unzip();
        }
        let fields: Vec<String> = if self.command.fields.is_empty() {
            let right = names_of(right);
            names_of(left).into_iter().filter(|name| right.contains(name) && !name.starts_with('_')).collect()
        } else {
            self.command.fields.iter().map(|field| field.text.clone()).collect()
        };
        (fields.clone(), fields)
    }

    /// Matching rows of both sides and, in an outer join, the other rows of the left side, in the order of the left
    /// side. Stops as soon as there are more than `most` pairs.
    fn pairs(&self, left: &RecordBatch, fields: &[String], index: &RightIndex, most: usize) -> Pairs {
        let readers: Vec<ColumnReader> = fields.iter().map(|field| rows::reader(left, field)).collect();
        let times = (rows::reader(left, "_time"), rows::reader(&index.rows, "_time"));
        let limit = if self.command.max == 0 { usize::MAX } else { self.command.max };
        let (mut left_places, mut right_places) = (Vec::new(), Vec::new());
        let mut key = Vec::new();
        for row in 0..left.num_rows() {
            let found = key_of(&readers, row, &mut key).then(|| index.keys.find(&key)).flatten();
            let in_time = |place: &&u32| {
                let (Some(left), Some(right)) = (times.0.number(row), times.1.number(**place as usize)) else {
                    return true;
                };
                !self.command.use_time || if self.command.earlier { right <= left } else { right >= left }
            };
            let found = found.map(|at| index.places[at as usize].as_slice()).unwrap_or_default();
            let before = left_places.len();
            for place in found.iter().filter(in_time).take(limit.min(most.saturating_add(1) - before)) {
                left_places.push(u32_of(row));
                right_places.push(Some(*place));
            }
            if left_places.len() == before && self.command.left_outer {
                left_places.push(u32_of(row));
                right_places.push(None);
            }
            if left_places.len() > most {
                break;
            }
        }
        (left_places, right_places)
    }

    fn join_rows(
        &self,
        left: &RecordBatch,
        left_places: &[u32],
        right_places: &[Option<u32>],
        index: &RightIndex,
    ) -> Result<RecordBatch, EngineError> {
        let mut result = rows::take(left, &UInt32Array::from(left_places.to_vec()))?;
        let places = UInt32Array::from(right_places.to_vec());
        for name in names_of(&index.rows) {
            let is_key = self.command.aliases.is_none() && index.fields.contains(&name);
            if is_key || is_hidden(&name) {
                continue;
            }
            let right = rows::reader(&index.rows, &name);
            let stored = rows::column_or_null(&index.rows, &name);
            let shown = match &self.command.aliases {
                Some(aliases) => format!("{}.{name}", aliases.right),
                None => name,
            };
            let exists = rows::column(&result, &shown).is_some();
            if exists && !self.command.overwrite {
                continue;
            }
            if !exists {
                result = rows::with_column(&result, &shown, rows::take_column(&stored, &places)?)?;
                continue;
            }
            rows::check_repetition(&stored, &places)?;
            let old = rows::reader(&result, &shown);
            let mut column = ColumnBuilder::new(right_places.len());
            for (row, place) in right_places.iter().enumerate() {
                match place.filter(|place| !right.is_null(*place as usize)) {
                    Some(place) => column.push(right.value(place as usize)),
                    None => column.push(old.value(row)),
                }
            }
            let column = column.finish();
            drop(old);
            result = rows::with_column(&result, &shown, column)?;
        }
        if let Some(aliases) = &self.command.aliases {
            for name in names_of(left) {
                result = rows::rename(&result, &name, &format!("{}.{name}", aliases.left))?;
            }
        }
        Ok(result)
    }
}

fn index_right(rows: RecordBatch, fields: &[String]) -> RightIndex {
    let readers: Vec<ColumnReader> = fields.iter().map(|field| rows::reader(&rows, field)).collect();
    let mut keys = KeyTable::default();
    let mut places: Vec<Vec<u32>> = Vec::new();
    let mut key = Vec::new();
    for row in 0..rows.num_rows() {
        if !key_of(&readers, row, &mut key) {
            continue;
        }
        let at = keys.intern(&key) as usize;
        if at >= places.len() {
            places.push(Vec::new());
        }
        places[at].push(u32_of(row));
    }
    RightIndex { rows, fields: fields.to_vec(), keys, places }
}

/// Writes the row's key; false if a field is missing.
fn key_of(readers: &[ColumnReader], row: usize, key: &mut Vec<u8>) -> bool {
    key.clear();
    let mut scratch = String::new();
    for reader in readers {
        match reader.text(row, &mut scratch) {
            Some(text) => add_key_part(key, text, readers.len()),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use quarry_eval::rows::batch_of;
    use quarry_spl::ast::Command;

    use super::*;
    use crate::plan::tests::runner;

    #[test]
    fn rows_beyond_the_limit_are_dropped_with_a_message() {
        let numbers = |from: i64, to: i64| {
            let mut column = ColumnBuilder::new(0);
            (from..to).for_each(|number| column.push_int(number));
            batch_of([("n", column.finish())], (to - from) as usize).unwrap()
        };
        let parsed = quarry_spl::parse("* | join type=left n [search x]");
        let Command::Join(command) = parsed.pipeline.commands[1].command.clone() else { panic!("{parsed:?}") };
        let (join, fields) = (Join { command, right: vec![numbers(3, 9)], rows_max: 3 }, ["n".to_owned()]);
        // One of the four rows has a match.
        let (left, index) = (numbers(0, 4), index_right(numbers(3, 9), &fields));
        let (left_places, right_places) = join.pairs(&left, &fields, &index, 4);
        assert_eq!((left_places, right_places), (vec![0, 1, 2, 3], vec![None, None, None, Some(0)]));
        for (rows, kept, messages) in [(0..3, 3, 0), (0..4, 3, 1), (2..5, 3, 0)] {
            let context = &runner("*").context;
            let joined = join.run(of_batches(vec![numbers(rows.start, rows.end)]), context).unwrap();
            assert_eq!(joined.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), kept, "{rows:?}");
            assert_eq!(context.messages.list().len(), messages, "{rows:?}");
        }
        let context = &runner("*").context;
        let joined = join.run(of_batches(vec![numbers(0, 2), numbers(2, 9)]), context).unwrap();
        assert_eq!(joined.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
        assert!(context.messages.list()[0].starts_with("join: the first 3 joined rows are kept"));
    }
}
