//! `anomalousvalue`: finds values that are rare in their field, or numbers far from the mean of their field.
//!
//! Scores differ from Splunk's, but the same rows stand out.

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, rows_in_memory};
use quarry_spl::ast::{AnomalousValueCommand, AnomalyAction};
use quarry_stdx::number::f64_of;

use super::Execute;
use super::field_profile::{FieldProfile, select_fields, shown_names};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for AnomalousValueCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(AnomalousValue(self.clone()))])
    }
}

struct AnomalousValue(AnomalousValueCommand);

impl AnomalousValue {
    /// Two flags for a field: whether the rarity of its values is a meaningful measure, and whether their distance from
    /// the mean is a meaningful measure.
    fn applicable_measures(&self, facts: &FieldProfile, rows: usize) -> (bool, bool) {
        let (least, share) = self.0.support;
        let supported = facts.count >= least && f64_of(facts.count) >= share * f64_of(rows);
        let few = |figures: &[Option<f64>]| facts.share_at_most(figures, self.0.threshold) <= self.0.anomalous_share;
        let normal = facts.frequencies.iter().flatten().any(|share| *share >= self.0.normal_share);
        let numeric = facts.is_numeric() && facts.deviation > 0.0;
        (supported && normal && few(&facts.frequencies), supported && numeric && few(&facts.tail_probabilities))
    }

    fn summary(&self, all: &[FieldProfile], rows: usize) -> Result<RecordBatch, EngineError> {
        let names = [
            "fieldname",
            "count",
            "distinct_count",
            "mean",
            "stdev",
            "isNum",
            "useCat",
            "useNum",
            "catAnoFreq%",
            "numAnoFreq%",
            "supportFreq%",
        ];
        let mut columns: Vec<ColumnBuilder> = names.iter().map(|_| ColumnBuilder::new(all.len())).collect();
        for facts in all {
            let (rare, far) = self.applicable_measures(facts, rows);
            let number = |value: f64| if facts.is_numeric() { Value::from_f64(value) } else { Value::Null };
            let yes = |yes: bool| Value::borrowed_text(if yes { "yes" } else { "no" });
            let percent = |share: f64| Value::owned_text(format!("{:.2}", share * 100.0));
            let values = [
                Value::owned_text(facts.name.clone()),
                Value::Int(facts.count as i64),
                Value::Int(facts.distinct as i64),
                number(facts.mean),
                number(facts.deviation),
                yes(facts.is_numeric()),
                yes(rare),
                yes(far),
                percent(facts.share_at_most(&facts.frequencies, self.0.threshold)),
                percent(facts.share_at_most(&facts.tail_probabilities, self.0.threshold)),
                percent(f64_of(facts.count) / f64_of(rows.max(1))),
            ];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        batch_of(names.into_iter().zip(columns.into_iter().map(ColumnBuilder::finish)), all.len())
    }
}

impl BlockingTable for AnomalousValue {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("anomalousvalue", rows, context)?;
        let (names, count) = (shown_names(&all), all.num_rows());
        let mut facts = Vec::new();
        for name in select_fields(&self.0.fields, &names) {
            context.stop.check_cancelled()?;
            facts.push(FieldProfile::of(name, &all));
        }
        if self.0.action == AnomalyAction::Summary {
            return self.summary(&facts, count).map(|table| vec![table]);
        }
        let (mut result, mut anomalous) = (RecordBatch::clone(&all), vec![false; count]);
        for facts in &facts {
            let (rare, far) = self.applicable_measures(facts, count);
            for (used, figures, kind) in [(rare, &facts.frequencies, "Cat"), (far, &facts.tail_probabilities, "Num")] {
                if !used {
                    continue;
                }
                let mut column = ColumnBuilder::new(count);
                for (row, figure) in figures.iter().enumerate() {
                    match figure.filter(|figure| *figure <= self.0.threshold) {
                        Some(figure) => {
                            anomalous[row] = true;
                            column.push(Value::from_f64(figure));
                        }
                        None => column.push_null(),
                    }
                }
                let name = format!("Anomaly_Score_{kind}({})", facts.name);
                result = rows::with_column(&result, &name, column.finish())?;
            }
        }
        match self.0.action {
            AnomalyAction::Filter => Ok(vec![rows::filter(&result, &BooleanArray::from(anomalous))?]),
            _ => Ok(vec![result]),
        }
    }
}
