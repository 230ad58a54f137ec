//! `timewrap`: turns each period of a timechart into a series of its own.

use std::collections::{BTreeMap, BTreeSet};

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, batch_of, rows_in_memory};
use quarry_eval::spans::{length_of, time_ns};
use quarry_event::TimeNs;
use quarry_event::time::{apply_modifier, strftime};
use quarry_spl::ast::{TimeWrapCommand, WrapSeries};

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of periods.
const PERIODS_MAX: u64 = 1_000;

impl Execute for TimeWrapCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(TimeWrap(self.clone()))])
    }
}

struct TimeWrap(TimeWrapCommand);

impl BlockingTable for TimeWrap {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("timewrap", rows, context)?;
        let times = rows::reader(&all, "_time");
        if all.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let Some(last) = (0..all.num_rows()).filter_map(|row| time_ns(&times, row)).max() else {
            return Err(EngineError::invalid("timewrap: the rows have no _time; use it after timechart"));
        };
        let end = match (self.0.ends_now, context.range.latest) {
            (true, _) => context.now,
            (false, Some(latest)) => latest.max(last.saturating_add(1)),
            // If the range has no end, the last row ends the last period.
            (false, None) => last.saturating_add(1),
        };
        // Input row by time in the last period and number of periods back.
        let mut grid: BTreeMap<TimeNs, BTreeMap<u64, usize>> = BTreeMap::new();
        let mut periods = BTreeSet::new();
        for row in 0..all.num_rows() {
            let Some(time) = time_ns(&times, row) else { continue };
            let (age, moment) = self.wrap_time(time, end, context)?;
            periods.insert(age);
            grid.entry(moment).or_default().insert(age, row);
        }
        let names: Vec<String> = names_of(&all).into_iter().filter(|name| !name.starts_with('_')).collect();
        let mut moments = ColumnBuilder::new(grid.len());
        grid.keys().for_each(|time| moments.push_time(*time));
        let mut columns = vec![("_time".to_owned(), moments.finish())];
        for name in &names {
            let reader: ColumnReader = rows::reader(&all, name);
            for age in periods.iter().rev() {
                let mut column = ColumnBuilder::new(grid.len());
                for cells in grid.values() {
                    column.push(cells.get(age).map_or(Value::Null, |row| reader.value(*row)));
                }
                let series = self.series(*age, end, context)?;
                let series = if names.len() == 1 { series } else { format!("{name}_{series}") };
                columns.push((series, column.finish()));
            }
        }
        Ok(vec![batch_of(columns, grid.len())?])
    }
}

impl TimeWrap {
    /// A time moved by a number of periods.
    fn shift_time(
        &self,
        time: TimeNs,
        periods: u64,
        back: bool,
        context: &CommandContext,
    ) -> Result<TimeNs, EngineError> {
        let amount = periods.saturating_mul(self.0.span.amount);
        if amount == 0 {
            return Ok(time);
        }
        let unit = match self.0.unit.as_str() {
            "second" => "s",
            "minute" => "m",
            "hour" => "h",
            "day" => "d",
            "week" => "w",
            "month" => "mon",
            "quarter" => "q",
            _ => "y",
        };
        let sign = if back { '-' } else { '+' };
        apply_modifier(&format!("{sign}{amount}{unit}"), time, &context.zone)
            .map_err(|error| EngineError::invalid(format!("timewrap: {error}")))
    }

    /// Age of a time in periods before the last period, and the corresponding moment in the last period.
    fn wrap_time(&self, time: TimeNs, end: TimeNs, context: &CommandContext) -> Result<(u64, TimeNs), EngineError> {
        let length = length_of(&self.0.span).max(1);
        // Months and days vary in length: start from a low estimate and step forward.
        let estimate = (end - 1).saturating_sub(time).max(0) / length;
        let mut age = u64::try_from(estimate).unwrap_or(0);
        age = age.saturating_sub(1 + age / 16);
        let mut moment = self.shift_time(time, age, false, context)?;
        loop {
            if age > PERIODS_MAX {
                let what = "timewrap: too many periods; use a longer one".to_owned();
                return Err(EngineError::Limit { what, limit: "periods", value: PERIODS_MAX });
            }
            let next = self.shift_time(time, age + 1, false, context)?;
            if next >= end {
                return Ok((age, moment));
            }
            (age, moment) = (age + 1, next);
        }
    }

    /// Name of the series `age` periods before the last.
    fn series(&self, age: u64, end: TimeNs, context: &CommandContext) -> Result<String, EngineError> {
        let (amount, unit) = (self.0.span.amount, &self.0.unit);
        Ok(match &self.0.series {
            WrapSeries::Short => format!("s{age}"),
            WrapSeries::Exact(format) => {
                let start = self.shift_time(end, age + 1, true, context)?;
                strftime(start, format, &context.zone)
            }
            WrapSeries::Relative if age == 0 && amount == 1 => format!("latest_{unit}"),
            WrapSeries::Relative if age == 0 => format!("latest_{amount}{unit}s"),
            WrapSeries::Relative if age * amount == 1 => format!("1{unit}_before"),
            WrapSeries::Relative => format!("{}{unit}s_before", age * amount),
        })
    }
}
