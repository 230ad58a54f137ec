//! `sort`: sorts rows by fields; also sorts the groups of `stats`.
//!
//! Types differ from row to row, so each row gets a rank for each key: numbers, then IP addresses, then texts; missing
//! values last in either direction. The ranks are ordinary columns, by which [`rows::sort_rows`] sorts and spills; rows
//! beyond the limit are dropped on the way.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray, StringViewBuilder};
use arrow::compute::SortOptions;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::rank::{ADDRESS, MISSING, NUMBER, TEXT, rank};
use quarry_eval::rows::{self, ColumnReader, RowBuffer, RowIter};
use quarry_event::value::{MAX_EXACT_INTEGER, Number, SortKey as ValueKey, parse_exact_number, sort_key};
use quarry_spl::ast::{SortCommand, SortKey, SortKind};
use quarry_stdx::number::{integer_part, usize_of};

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};
use crate::new_columns::NewColumns;

/// Minimum number of buffered rows at which a sort with a limit drops rows that cannot be in the result.
const LIMITED_BUFFER_ROWS: usize = 100_000;
/// Name prefix of rank columns.
const RANK_PREFIX: &str = "__rank";

impl Execute for SortCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Sort(self.clone()))])
    }
}

/// Sorts all rows.
pub(crate) struct Sort(pub SortCommand);

impl Blocking for Sort {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let limit = (self.0.limit > 0).then_some(self.0.limit);
        let kept = || RowBuffer::new("sort", &context.dataflow);
        let (mut held, mut arrived) = (kept(), 0_i64);
        for batch in rows {
            let batch = batch?;
            held.push(&self.add_ranks(&batch, arrived)?)?;
            arrived += batch.num_rows() as i64;
            // With a limit, rows that cannot be in the result are dropped before they accumulate.
            if let Some(limit) = limit
                && held.num_rows() > limit.saturating_mul(4).max(LIMITED_BUFFER_ROWS)
            {
                let mut first = kept();
                for batch in self.sort_rows(held, Some(limit), context)? {
                    first.push(&batch?)?;
                }
                held = first;
            }
        }
        let sorted = self.sort_rows(held, limit, context)?;
        let sorted = sorted.map(|batch| rows::drop_columns(&batch?, |name| name.starts_with(RANK_PREFIX)));
        let is_cut = !self.0.has_limit && limit.is_some_and(|limit| usize_of(arrived.cast_unsigned()) > limit);
        if !is_cut {
            return Ok(Box::new(sorted));
        }
        // The message matters only to a consumer that reads all rows, which `head 5` after the sort does not.
        let messages = Arc::clone(&context.messages);
        let limit = self.0.limit;
        let report = std::iter::once_with(move || {
            messages.push(format!(
                "sort returns the first {limit} rows by default and dropped the others: `sort 0 ...` returns all"
            ));
            None
        });
        Ok(Box::new(sorted.map(Some).chain(report).flatten()))
    }
}

impl Sort {
    /// Adds the ranks to the rows: class, number and text per key, and the order of arrival.
    fn add_ranks(&self, rows: &RecordBatch, arrived: i64) -> Result<RecordBatch, EngineError> {
        let mut ranked = NewColumns::of(rows.clone());
        for (at, key) in self.0.keys.iter().enumerate() {
            let [class, number, text] = ranks(&rows::reader(rows, &key.field.text), key, self.is_descending(key));
            ranked.set(&format!("{RANK_PREFIX}_{at}_class"), class);
            ranked.set(&format!("{RANK_PREFIX}_{at}_number"), number);
            ranked.set(&format!("{RANK_PREFIX}_{at}_text"), text);
        }
        let arrival = Int64Array::from_iter_values(arrived..arrived + rows.num_rows() as i64);
        ranked.set(&format!("{RANK_PREFIX}_arrival"), Arc::new(arrival));
        ranked.finish()
    }

    fn is_descending(&self, key: &SortKey) -> bool {
        key.descending != self.0.reverse
    }

    fn sort_rows(
        &self,
        rows: RowBuffer,
        limit: Option<usize>,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        let mut keys = Vec::new();
        for (at, field) in rows.schema().fields().iter().enumerate() {
            let Some(rank) = field.name().strip_prefix(RANK_PREFIX) else { continue };
            let key = rank.trim_start_matches('_').split('_').next().and_then(|key| key.parse::<usize>().ok());
            // The class is already inverted for descending keys; missing values stay last.
            let descending = key.is_some_and(|key| self.is_descending(&self.0.keys[key])) && !rank.ends_with("class");
            keys.push((at, SortOptions { descending, nulls_first: false }));
        }
        rows::sort_rows_in_time(rows, &keys, limit, &context.dataflow)
    }
}

/// Class, number and text of each row for one key. The text of a large number distinguishes integers that map to the
/// same double.
fn ranks(reader: &ColumnReader, key: &SortKey, descending: bool) -> [ArrayRef; 3] {
    let (mut classes, mut numbers, mut texts) = (Vec::new(), Vec::new(), StringViewBuilder::new());
    let mut scratch = String::new();
    // Neither the texts of such a column nor numbers parsed from them are needed.
    let is_typed = key.kind != SortKind::Str && matches!(reader, ColumnReader::Int(_) | ColumnReader::Time(_));
    for row in 0..reader.len() {
        if is_typed && let Some(number) = reader.exact_number(row) {
            let number_f64 = number.as_f64();
            classes.push(if descending { -NUMBER } else { NUMBER });
            numbers.push(Some(number_f64));
            texts.append_option((number_f64.abs() >= MAX_EXACT_INTEGER).then(|| ordered_text(integer_of(number))));
            continue;
        }
        let value = reader.text(row, &mut scratch);
        let (class, number, text) = rank(key.kind, value);
        let turned = if descending && class != MISSING { -class } else { class };
        classes.push(turned);
        numbers.push(number);
        match number.is_some_and(|number| class == NUMBER && number.abs() >= MAX_EXACT_INTEGER) {
            true => {
                texts.append_option(value.and_then(parse_exact_number).map(|number| ordered_text(integer_of(number))))
            }
            false => texts.append_option(text),
        }
    }
    [Arc::new(Int64Array::from(classes)), Arc::new(Float64Array::from(numbers)), Arc::new(texts.finish())]
}

/// Adds ranks for [`sort_by_ranks`]: numbers by value, then IP addresses, then texts; equal numbers by their text.
pub(crate) fn add_value_ranks(rows: &RecordBatch, fields: &[String]) -> Result<RecordBatch, EngineError> {
    let mut ranked = rows.clone();
    for (at, field) in fields.iter().enumerate() {
        let column = rows::as_text_array(&rows::column_or_null(rows, field));
        let (mut classes, mut numbers, mut integers, mut texts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in 0..column.len() {
            // A missing value counts as an empty text.
            let text = column.value(row);
            let (class, number, integer, ranked_text) = match sort_key(text) {
                // Both zeros are equal.
                ValueKey::Number(number) => (NUMBER, Some(number.as_f64() + 0.0), Some(integer_of(number)), None),
                ValueKey::Address(address) => (ADDRESS, Some(f64::from(address)), None, None),
                ValueKey::Text(text) => (TEXT, None, None, Some(text)),
            };
            classes.push(class);
            numbers.push(number);
            integers.push(integer);
            texts.push(ranked_text);
        }
        let columns: [(&str, ArrayRef); 4] = [
            ("class", Arc::new(Int64Array::from(classes))),
            ("number", Arc::new(Float64Array::from(numbers))),
            ("integer", Arc::new(Int64Array::from(integers))),
            ("text", Arc::new(StringViewArray::from(texts))),
        ];
        for (name, array) in columns {
            ranked = rows::with_column(&ranked, &format!("{RANK_PREFIX}_{at}_{name}"), array)?;
        }
    }
    for (at, field) in fields.iter().enumerate() {
        let texts = rows::as_text_array(&rows::column_or_null(rows, field));
        ranked = rows::with_column(&ranked, &format!("{RANK_PREFIX}_tie_{at}"), Arc::new(texts))?;
    }
    Ok(ranked)
}

/// A text that sorts like the integer.
fn ordered_text(integer: i64) -> String {
    const DIGITS: usize = 20;
    format!("{:0DIGITS$}", i128::from(integer) - i128::from(i64::MIN))
}

/// The number as an integer, which distinguishes integers that map to the same double.
fn integer_of(number: Number) -> i64 {
    match number {
        Number::Int(integer) => integer,
        Number::Float(number) => integer_part(number),
        Number::Nanos(ns) => ns,
    }
}

/// Sorts rows of [`add_value_ranks`] and removes the ranks.
pub(crate) fn sort_by_ranks(rows: RowBuffer, context: &CommandContext) -> Result<RowIter, EngineError> {
    let ascending = SortOptions { descending: false, nulls_first: false };
    let schema = rows.schema();
    let ranks = schema.fields().iter().enumerate().filter(|(_, field)| field.name().starts_with(RANK_PREFIX));
    let keys: Vec<_> = ranks.map(|(at, _)| (at, ascending)).collect();
    let sorted = rows::sort_rows_in_time(rows, &keys, None, &context.dataflow)?;
    Ok(Box::new(sorted.map(|batch| rows::drop_columns(&batch?, |name| name.starts_with(RANK_PREFIX)))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow::array::{AsArray as _, TimestampNanosecondArray};
    use arrow::datatypes::Float64Type;
    use quarry_spl::ast::{FieldPattern, Span};

    use super::*;

    #[test]
    fn typed_columns_rank_like_their_texts() {
        let field = FieldPattern { text: "a".to_owned(), span: Span::default() };
        let integers = [Some(-7), None, Some(0), Some(9_007_199_254_740_993), Some(-9_007_199_254_740_995)];
        let times = [Some(1_795_824_000_500_000_000), None, Some(-500_000_000), Some(0)];
        let columns: [ArrayRef; 2] =
            [Arc::new(Int64Array::from(integers.to_vec())), Arc::new(TimestampNanosecondArray::from(times.to_vec()))];
        for (column, kind) in columns.iter().flat_map(|column| [(column, SortKind::Auto), (column, SortKind::Num)]) {
            for descending in [false, true] {
                let key = SortKey { field: field.clone(), descending, kind };
                let typed = ranks(&ColumnReader::new(column), &key, descending);
                let texts: ArrayRef = Arc::new(rows::as_text_array(column));
                assert_eq!(typed, ranks(&ColumnReader::new(&texts), &key, descending), "{column:?} {kind:?}");
            }
        }
        let by_text = SortKey { field, descending: false, kind: SortKind::Str };
        let [_, numbers, _] = ranks(&ColumnReader::new(&columns[0]), &by_text, false);
        assert_eq!(numbers.as_primitive::<Float64Type>().null_count(), integers.len());
    }
}
