//! `associate`: finds values that predict the values of another field, measured by the decrease in entropy.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::matching_names;
use quarry_eval::rows::{RowIter, Value, rows_in_memory};
use quarry_spl::ast::AssociateCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use super::field_texts::{FieldTexts, shown_names, table_of, texts_of};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for AssociateCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Associate(self.clone()))])
    }
}

/// Number of rows between two checks whether to end.
const CHECKED_ROWS: usize = 4_096;

struct Associate(AssociateCommand);

/// Entropy of this distribution in bits.
fn entropy(counts: &BTreeMap<&str, usize>) -> f64 {
    let all: usize = counts.values().sum();
    let share = |count: &usize| f64_of(*count) / f64_of(all);
    counts.values().map(|count| -share(count) * share(count).log2()).sum::<f64>().abs()
}

/// Frequencies of the values of a field, in all rows and by the value of another field.
struct Pair<'t> {
    whole: BTreeMap<&'t str, usize>,
    given: BTreeMap<&'t str, BTreeMap<&'t str, usize>>,
}

impl<'t> Pair<'t> {
    /// Counts the values of `target`; `None` if the search ended before all rows were counted.
    fn count(reference: &'t FieldTexts, target: &'t FieldTexts, should_end: &dyn Fn() -> bool) -> Option<Pair<'t>> {
        let mut pair = Pair { whole: BTreeMap::new(), given: BTreeMap::new() };
        for (row, (value, target_value)) in reference.texts().zip(target.texts()).enumerate() {
            if row.is_multiple_of(CHECKED_ROWS) && should_end() {
                return None;
            }
            let Some(target_value) = target_value else { continue };
            *pair.whole.entry(target_value).or_default() += 1;
            if let Some(value) = value {
                *pair.given.entry(value).or_default().entry(target_value).or_default() += 1;
            }
        }
        Some(pair)
    }
}

impl BlockingTable for Associate {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("associate", rows, context)?;
        let names = shown_names(&all);
        let chosen: Vec<&str> = match self.0.fields.is_empty() {
            true => names.iter().map(String::as_str).collect(),
            false => matching_names(&self.0.fields, &names),
        };
        let fields = texts_of(&all, &chosen, "associate")?;
        let mut found: Vec<(f64, Vec<Value<'static>>)> = Vec::new();
        let start = context.stop.begin_work();
        let should_end = || context.stop.should_end_work(start);
        'fields: for reference in &fields {
            for target in fields.iter().filter(|target| target.name != reference.name) {
                let Some(pair) = Pair::count(reference, target, &should_end) else { break 'fields };
                self.associate_pair((reference, target), pair, all.num_rows(), &mut found);
            }
        }
        context.stop.check_cancelled()?;
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let names = [
            "Reference_Key",
            "Reference_Value",
            "Target_Key",
            "Unconditional_Entropy",
            "Conditional_Entropy",
            "Entropy_Improvement",
            "Description",
            "Support",
        ];
        table_of(&names, found.into_iter().map(|(_, row)| row).collect()).map(|table| vec![table])
    }
}

impl Associate {
    /// Values of one field that predict another field.
    fn associate_pair(
        &self,
        (reference, target): (&FieldTexts, &FieldTexts),
        Pair { whole, given }: Pair<'_>,
        rows: usize,
        found: &mut Vec<(f64, Vec<Value<'static>>)>,
    ) {
        let before = entropy(&whole);
        for (value, counts) in given {
            let support: usize = counts.values().sum();
            let share = f64_of(support) / f64_of(rows.max(1));
            let after = entropy(&counts);
            if support < self.0.support || share < self.0.support_share || before - after < self.0.improvement {
                continue;
            }
            let likeliest = counts.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
            let target_value = likeliest.map(|(target_value, _)| (*target_value).to_owned()).unwrap_or_default();
            let (from, to) = (&reference.name, &target.name);
            let text = format!(
                "When {from} has the value {value}, the entropy of {to} falls from {before:.3} to {after:.3}. \
                 Its most frequent value is then {target_value}."
            );
            let row = vec![
                Value::owned_text(from.clone()),
                Value::owned_text(value.to_owned()),
                Value::owned_text(to.clone()),
                Value::owned_text(format!("{before:.3}")),
                Value::owned_text(format!("{after:.3}")),
                Value::owned_text(format!("{:.3}", before - after)),
                Value::owned_text(text),
                Value::owned_text(format!("{:.2}%", share * 100.0)),
            ];
            found.push((before - after, row));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use quarry_eval::rows::{ColumnBuilder, batch_of};

    use super::*;

    #[test]
    fn a_pair_whose_count_is_cut_is_left_out() {
        let mut column = ColumnBuilder::new(2 * CHECKED_ROWS);
        (0..2 * CHECKED_ROWS).for_each(|_| column.push_text("x"));
        let rows = batch_of([("a", column.finish())], 2 * CHECKED_ROWS).unwrap();
        let (reference, target) = (FieldTexts::of(&rows, "a"), FieldTexts::of(&rows, "a"));
        let count = |calls: usize| {
            let left = Cell::new(calls);
            Pair::count(&reference, &target, &|| left.replace(left.get().saturating_sub(1)) == 0)
        };
        assert!(count(0).is_none() && count(1).is_none());
        assert_eq!(count(2).map(|pair| pair.whole["x"]), Some(2 * CHECKED_ROWS));
    }
}
