//! `outlier`: truncates outliers, or removes their rows.

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::{matching_names, names_of};
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, is_hidden, rows_in_memory};
use quarry_event::value::format_number;
use quarry_spl::ast::OutlierCommand;
use quarry_stdx::number::{f64_of, integer_part};

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for OutlierCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Outlier(self.clone()))])
    }
}

struct Outlier(OutlierCommand);

impl BlockingTable for Outlier {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("outlier", rows, context)?;
        let names: Vec<String> = names_of(&all).into_iter().filter(|name| !is_hidden(name)).collect();
        let fields: Vec<&str> = match self.0.fields.is_empty() {
            true => names.iter().map(String::as_str).filter(|name| !name.starts_with('_')).collect(),
            false => matching_names(&self.0.fields, &names),
        };
        let (mut result, mut kept) = (RecordBatch::clone(&all), vec![true; all.num_rows()]);
        for field in fields {
            let reader = rows::reader(&all, field);
            let Some((low, high)) = self.bounds((0..all.num_rows()).filter_map(|row| reader.number(row)).collect())
            else {
                continue;
            };
            let mut column = ColumnBuilder::new(all.num_rows());
            for (row, kept) in kept.iter_mut().enumerate() {
                match reader.number(row).filter(|number| *number > high || *number < low) {
                    Some(number) => {
                        *kept = false;
                        let cut = if number > high { high } else { low };
                        column.push(match self.0.marks {
                            true => Value::owned_text(format!("000{}", format_number(cut))),
                            false => Value::from_f64(cut),
                        });
                    }
                    None => column.push(reader.value(row)),
                }
            }
            result = rows::with_column(&result, field, column.finish())?;
        }
        match self.0.removes {
            true => Ok(vec![rows::filter(&all, &BooleanArray::from(kept))?]),
            false => Ok(vec![result]),
        }
    }
}

impl Outlier {
    /// Bounds of the numbers that are not outliers.
    fn bounds(&self, mut numbers: Vec<f64>) -> Option<(f64, f64)> {
        numbers.retain(|number| number.is_finite());
        numbers.sort_by(f64::total_cmp);
        let quantile = |part: f64| {
            let place = part * f64_of(numbers.len().checked_sub(1)?);
            let (low, high) = (numbers[integer_part::<usize>(place)], numbers[integer_part::<usize>(place.ceil())]);
            Some(low + (high - low) * place.fract())
        };
        let (median, reach) = (quantile(0.5)?, self.0.factor * (quantile(0.75)? - quantile(0.25)?));
        let low = if self.0.lower { median - reach } else { f64::NEG_INFINITY };
        Some((low, median + reach))
    }
}
