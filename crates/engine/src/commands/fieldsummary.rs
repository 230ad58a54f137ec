//! `fieldsummary`: computes statistics of fields.

use std::collections::BTreeSet;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::aggregate::moments::Moments;
use quarry_eval::aggregate::numbers::NumberParts;
use quarry_eval::aggregate::running_state::Sums;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::{names_of, wildcard_parts};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, batch_of, of_batches};
use quarry_event::value::Number;
use quarry_spl::ast::{FieldPattern, FieldSummaryCommand};

use super::Execute;
use super::selection::smallest;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of distinct values over all fields; with more, the command fails, because values are counted exactly.
const DISTINCT_MAX: usize = 5_000_000;

impl Execute for FieldSummaryCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(self.clone())])
    }
}

/// Statistics of one field.
#[derive(Default)]
struct FieldSummary {
    values: KeyTable,
    counts: Vec<u64>,
    count: u64,
    numbers: u64,
    sums: Sums,
    moments: Moments,
    least: Option<Number>,
    greatest: Option<Number>,
}

impl FieldSummary {
    fn add(&mut self, reader: &ColumnReader, row: usize) {
        if reader.is_null(row) {
            return;
        }
        self.count += 1;
        for value in reader.values(row) {
            let at = self.values.intern(value.as_bytes()) as usize;
            if at >= self.counts.len() {
                self.counts.push(0);
            }
            self.counts[at] += 1;
        }
        let Some(number) = reader.exact_number(row) else { return };
        self.numbers += 1;
        if self.least.is_none_or(|least| number.total_cmp(least).is_lt()) {
            self.least = Some(number);
        }
        if self.greatest.is_none_or(|greatest| number.total_cmp(greatest).is_gt()) {
            self.greatest = Some(number);
        }
        self.sums.add(number);
        self.moments.add_number_parts(NumberParts::without_scale(number));
    }

    /// The values with their counts, the most frequent first, as JSON: the `values_max` most frequent values (all if
    /// 0), and the values in `also_listed`.
    fn values_json(&self, values_max: usize, also_listed: Option<&BTreeSet<String>>) -> String {
        let text = |at: usize| String::from_utf8_lossy(self.values.key(at));
        let order = |a: &usize, b: &usize| {
            self.counts[*b].cmp(&self.counts[*a]).then_with(|| self.values.key(*a).cmp(self.values.key(*b)))
        };
        let mut listed = smallest(0..self.counts.len(), if values_max == 0 { usize::MAX } else { values_max }, order);
        let wanted = also_listed.into_iter().flatten().filter_map(|text| self.values.find(text.as_bytes()));
        let mut rare: Vec<usize> = wanted.map(|at| at as usize).filter(|at| !listed.contains(at)).collect();
        rare.sort_by(order);
        listed.extend(rare);
        let items = listed.into_iter().map(|at| {
            let value = serde_json::Value::String(text(at).into_owned());
            format!("{{\"value\":{value},\"count\":{}}}", self.counts[at])
        });
        format!("[{}]", items.collect::<Vec<_>>().join(","))
    }
}

impl Blocking for FieldSummaryCommand {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<RowIter, EngineError> {
        let mut fields: Vec<(String, FieldSummary)> = Vec::new();
        for batch in rows {
            let batch = batch?;
            for name in names_of(&batch).into_iter().filter(|name| is_summarized(self, name)) {
                let at = match fields.iter().position(|(known, _)| *known == name) {
                    Some(at) => at,
                    None => {
                        fields.push((name.clone(), FieldSummary::default()));
                        fields.len() - 1
                    }
                };
                let reader = rows::reader(&batch, &name);
                (0..batch.num_rows()).for_each(|row| fields[at].1.add(&reader, row));
            }
            if fields.iter().map(|(_, facts)| facts.values.len()).sum::<usize>() > DISTINCT_MAX {
                let what = "fieldsummary: too many distinct values; name fewer fields".to_owned();
                return Err(EngineError::Limit { what, limit: "distinct values", value: DISTINCT_MAX as u64 });
            }
        }
        fields.retain(|(_, facts)| facts.count > 0);
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(of_batches(vec![table(self, &fields)?]))
    }
}

fn is_summarized(command: &FieldSummaryCommand, name: &str) -> bool {
    let fits = |field: &FieldPattern| {
        (!name.starts_with('_') || field.text.starts_with('_')) && wildcard_parts(&field.text, name).is_some()
    };
    match command.fields.is_empty() {
        true => !name.starts_with('_'),
        false => !rows::is_hidden(name) && command.fields.iter().any(fits),
    }
}

/// A row for each field.
fn table(command: &FieldSummaryCommand, fields: &[(String, FieldSummary)]) -> Result<RecordBatch, EngineError> {
    type Cell = fn(&FieldSummary) -> Value<'static>;
    let cells: [(&str, Cell); 8] = [
        ("count", |facts| Value::Int(facts.count as i64)),
        ("distinct_count", |facts| Value::Int(facts.values.len() as i64)),
        ("is_exact", |_| Value::Int(1)),
        ("max", |facts| facts.greatest.map_or(Value::Null, Value::from_number)),
        ("mean", |facts| facts.sums.mean().map_or(Value::Null, Value::from_number)),
        ("min", |facts| facts.least.map_or(Value::Null, Value::from_number)),
        ("numeric_count", |facts| Value::Int(facts.numbers as i64)),
        ("stdev", |facts| {
            facts.moments.variance(true).map_or(Value::Null, |variance| Value::from_f64(variance.sqrt()))
        }),
    ];
    let column = |cell: &dyn Fn(&str, &FieldSummary) -> Value<'static>| {
        let mut column = ColumnBuilder::new(fields.len());
        fields.iter().for_each(|(name, facts)| column.push(cell(name, facts)));
        column.finish()
    };
    let mut columns = vec![("field", column(&|name, _| Value::owned_text(name.to_owned())))];
    columns.extend(cells.map(|(name, cell)| (name, column(&|_, facts| cell(facts)))));
    let listed = |name: &str, facts: &FieldSummary| {
        Value::owned_text(facts.values_json(command.values_max, command.also_listed.get(name)))
    };
    columns.push(("values", column(&listed)));
    batch_of(columns, fields.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_values_are_listed_if_they_are_named() {
        let mut summary = FieldSummary::default();
        for (value, count) in [("a", 3), ("b", 2), ("c", 1)] {
            summary.values.intern(value.as_bytes());
            summary.counts.push(count);
        }
        let named = BTreeSet::from(["c".to_owned(), "d".to_owned()]);
        let listed = |values_max, named| summary.values_json(values_max, named).replace('"', "");
        assert_eq!(listed(1, None), "[{value:a,count:3}]");
        assert_eq!(listed(1, Some(&named)), "[{value:a,count:3},{value:c,count:1}]");
        assert_eq!(listed(0, Some(&named)).matches("value:").count(), 3);
    }
}
