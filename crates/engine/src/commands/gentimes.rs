//! `gentimes`: generates a row for each step of a time range.

use arrow::record_batch::RecordBatch;
use jiff::civil::DateTime;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{ColumnBuilder, RowIter, batch_of, of_batches};
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, SpanUnit, apply_modifier, strftime};
use quarry_spl::ast::{GenTime, GenTimesCommand};

use super::Execute;
use crate::lowering::SearchEnvironment;

/// Maximum number of rows made.
const ROWS_MAX: usize = 1_000_000;
/// Human-readable time format.
const HUMAN_TIME_FORMAT: &str = "%a %b %e %H:%M:%S %Y";

impl Execute for GenTimesCommand {
    fn check(&self, search: &dyn SearchEnvironment) -> Result<(), EngineError> {
        self.generate(search).map(drop)
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        Ok(Some(of_batches(vec![gen_times(self, search.context())?])))
    }
}

fn gen_times(command: &GenTimesCommand, context: &CommandContext) -> Result<RecordBatch, EngineError> {
    let instant = |time: &GenTime| {
        instant_of(time, context).ok_or_else(|| {
            EngineError::invalid("gentimes: start= or end= is not a date, or is outside the years 1678 to 2261")
        })
    };
    let (mut start, end) = (instant(&command.start)?, instant(command.end.as_ref().unwrap_or(&GenTime::Days(0)))?);
    let unit = match command.increment.unit {
        SpanUnit::Second => 's',
        SpanUnit::Minute => 'm',
        SpanUnit::Hour => 'h',
        _ => 'd',
    };
    let step = format!("+{}{unit}", command.increment.amount);
    let mut columns: [ColumnBuilder; 4] = std::array::from_fn(|_| ColumnBuilder::new(0));
    let mut count = 0;
    while start < end {
        if count >= ROWS_MAX {
            let what = "gentimes: too many rows; use a longer increment".to_owned();
            return Err(EngineError::Limit { what, limit: "rows", value: ROWS_MAX as u64 });
        }
        let next = apply_modifier(&step, start, &context.zone).ok().filter(|next| *next > start);
        let Some(next) = next else { break };
        let last = next - NS_PER_SEC;
        columns[0].push_text(&strftime(last, HUMAN_TIME_FORMAT, &context.zone));
        columns[1].push_int(last.div_euclid(NS_PER_SEC));
        columns[2].push_text(&strftime(start, HUMAN_TIME_FORMAT, &context.zone));
        columns[3].push_int(start.div_euclid(NS_PER_SEC));
        (start, count) = (next, count + 1);
    }
    let names = ["endhuman", "endtime", "starthuman", "starttime"];
    batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), count)
}

fn instant_of(time: &GenTime, context: &CommandContext) -> Option<TimeNs> {
    match time {
        GenTime::Days(days) => {
            let midnight = apply_modifier("@d", context.now, &context.zone).ok()?;
            apply_modifier(&format!("{days:+}d"), midnight, &context.zone).ok()
        }
        GenTime::Date([year, month, day, hour, minute, second]) => {
            let [month, day, hour, minute, second] =
                [month, day, hour, minute, second].map(|part| i8::try_from(*part).ok());
            let civil = DateTime::new(*year, month?, day?, hour?, minute?, second?, 0).ok()?;
            let instant = civil.to_zoned(context.zone.clone()).ok()?.timestamp().as_second();
            instant.checked_mul(NS_PER_SEC)
        }
    }
}
