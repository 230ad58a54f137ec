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

struct Associate(AssociateCommand);

/// Entropy of this distribution in bits.
fn entropy(counts: &BTreeMap<&str, usize>) -> f64 {
    let all: usize = counts.values().sum();
    let share = |count: &usize| f64_of(*count) / f64_of(all);
    counts.values().map(|count| -share(count) * share(count).log2()).sum::<f64>().abs()
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
        'fields: for reference in &fields {
            for target in fields.iter().filter(|target| target.name != reference.name) {
                if context.stop.should_end_work(start) {
                    break 'fields;
                }
                self.associate_pair(reference, target, all.num_rows(), &mut found);
            }
        }
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
        reference: &FieldTexts,
        target: &FieldTexts,
        rows: usize,
        found: &mut Vec<(f64, Vec<Value<'static>>)>,
    ) {
        let mut whole: BTreeMap<&str, usize> = BTreeMap::new();
        let mut given: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (value, target_value) in reference.texts.iter().zip(&target.texts) {
            let Some(target_value) = target_value else { continue };
            *whole.entry(target_value).or_default() += 1;
            if let Some(value) = value {
                *given.entry(value).or_default().entry(target_value).or_default() += 1;
            }
        }
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
