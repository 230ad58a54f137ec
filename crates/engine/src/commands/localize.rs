//! `localize`: finds time ranges in which rows are close together.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of};
use quarry_eval::spans::{length_of, time_ns};
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, Span};
use quarry_spl::ast::LocalizeCommand;
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for LocalizeCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Localize(self.clone()))])
    }
}

struct Localize(LocalizeCommand);

impl BlockingTable for Localize {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let mut account = context.dataflow.account("localize");
        let mut times: Vec<TimeNs> = Vec::new();
        for batch in rows {
            let batch = batch?;
            let reader = rows::reader(&batch, "_time");
            times.extend((0..batch.num_rows()).filter_map(|row| time_ns(&reader, row)));
            account.set(times.capacity() * size_of::<TimeNs>())?;
        }
        // Ranges are returned newest first.
        times.sort_unstable_by_key(|time| std::cmp::Reverse(*time));
        let length = |span: &Option<Span>| span.as_ref().map_or(0, length_of);
        let pause = length(&self.0.max_pause);
        let regions: Vec<&[TimeNs]> = times.chunk_by(|later, earlier| later - earlier <= pause).collect();
        let (before, after) = (length(&self.0.before), length(&self.0.after));
        let mut columns = [(); 6].map(|()| ColumnBuilder::new(regions.len()));
        for region in &regions {
            let (Some(last), Some(first)) = (region.first(), region.last()) else { continue };
            let (start, end) = (first.saturating_sub(before), last.saturating_add(after));
            let (seconds, count) = (f64_of(end - start) / f64_of(NS_PER_SEC), region.len());
            let epoch = |time: TimeNs| Value::from_f64(f64_of(time) / f64_of(NS_PER_SEC));
            let density = if seconds > 0.0 { Value::from_f64(f64_of(count) / seconds) } else { Value::Null };
            let values = [
                Value::Time(*first),
                epoch(start),
                epoch(end),
                Value::Int(count as i64),
                Value::from_f64(seconds),
                density,
            ];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let names = ["_time", "starttime", "endtime", "count", "duration", "density"];
        Ok(vec![batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), regions.len())?])
    }
}
