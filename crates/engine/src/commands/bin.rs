//! `bin`: puts numbers or times into spans.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::functions::time::seconds;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling, RowBuffer, RowIter};
use quarry_eval::spans::{
    NumberSpans, SPANS_MAX, TimeSpans, length_of, number_spans, time_bounds, time_span, usual_span,
};
use quarry_event::time::NS_PER_SEC;
use quarry_event::value::Number;
use quarry_spl::ast::{BinCommand, BinOptions, BinSpan};
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking, row};

impl Execute for BinCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![match Bin::new(self, lowering.environment.context())? {
            Some(bin) => row(move || bin.clone()),
            None => blocking(BinByRange(self.clone())),
        }])
    }
}

/// Bins with a fixed span, row by row.
#[derive(Clone)]
struct Bin {
    field: String,
    output: String,
    spans: Spans,
    /// Names of spans by value.
    memo: Arc<DistinctMemo>,
}

#[derive(Clone)]
enum Spans {
    /// For `_time`: the start of the span, as a time.
    Time(TimeSpans),
    /// For times in another field: the start of the span, in seconds.
    Seconds(TimeSpans),
    Number(NumberSpans),
}

impl Bin {
    /// The command; `None` if its options leave the spans to be derived from the values.
    fn new(command: &BinCommand, context: &CommandContext) -> Result<Option<Bin>, EngineError> {
        let field = command.field.text.clone();
        let output = command.output.clone().unwrap_or_else(|| field.clone());
        let spans = if field == "_time" {
            let Some(span) = time_span(&command.options) else { return Ok(None) };
            Spans::Time(TimeSpans::new(span, command.options.align_time.as_deref(), context)?)
        } else if let Some(BinSpan::Time(span)) = command.options.span {
            Spans::Seconds(TimeSpans::new(span, command.options.align_time.as_deref(), context)?)
        } else {
            match number_spans(&command.options) {
                Some(spans) => Spans::Number(spans),
                None => return Ok(None),
            }
        };
        Ok(Some(Bin { field, output, spans, memo: Arc::default() }))
    }
}

impl RowCommand for Bin {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let values = rows::column_or_null(&rows, &self.field);
        let column = match &mut self.spans {
            Spans::Time(spans) => spans.starts(&ColumnReader::new(&values)),
            Spans::Seconds(spans) => starts_of(spans, &values),
            Spans::Number(spans) => {
                let by_value = self
                    .memo
                    .run(&values, NumberHandling::ByValue, |values| Ok(Some(vec![names_of(spans, values)])))?;
                by_value.and_then(|mut columns| columns.pop()).unwrap_or_else(|| names_of(spans, &values))
            }
        };
        rows::with_column(&rows, &self.output, column)
    }
}

/// The starts of the spans that contain these times in seconds; values that are not times are kept.
fn starts_of(spans: &mut TimeSpans, values: &ArrayRef) -> ArrayRef {
    let reader = ColumnReader::new(values);
    let mut column = ColumnBuilder::new(values.len());
    for row in 0..values.len() {
        match reader.exact_number(row).and_then(Number::to_nanos) {
            Some(time) => column.push(seconds(spans.floor(time))),
            None => column.push(reader.value(row)),
        }
    }
    column.finish()
}

/// The names of the spans that contain these numbers; values that are not numbers are kept.
fn names_of(spans: &NumberSpans, values: &ArrayRef) -> ArrayRef {
    let reader = ColumnReader::new(values);
    let (mut column, mut names) = (ColumnBuilder::new(values.len()), spans.names());
    for row in 0..values.len() {
        match reader.number(row) {
            Some(number) => column.push_text(names.of(number)),
            None => column.push(reader.value(row)),
        }
    }
    column.finish()
}

/// `bin` without a span, which is derived from all values.
struct BinByRange(BinCommand);

impl Blocking for BinByRange {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let field = self.0.field.text.clone();
        let output = self.0.output.clone().unwrap_or_else(|| field.clone());
        let is_time = field == "_time";
        let mut kept = RowBuffer::new("bin", &context.dataflow);
        let (mut times, mut numbers) = (None, None);
        for batch in rows {
            let batch = batch?;
            if is_time {
                times = time_bounds(times, &batch);
            } else {
                let reader = rows::reader(&batch, &field);
                numbers = bounds_of_numbers(numbers, (0..batch.num_rows()).filter_map(|row| reader.number(row)));
            }
            kept.push(&batch)?;
        }
        let options = &self.0.options;
        let spans = if is_time {
            let (from, to) = times.unwrap_or((0, 0));
            let span = usual_span(from, to, options.bins.unwrap_or(SPANS_MAX), options.min_time_span());
            Spans::Time(TimeSpans::new(span, options.align_time.as_deref(), context)?)
        } else {
            Spans::Number(spans_of_numbers(numbers, options))
        };
        let mut bin = Bin { field, output, spans, memo: Arc::default() };
        Ok(Box::new(kept.into_unified_rows().map(move |batch| bin.apply(batch?))))
    }
}

/// The smallest and the largest number, including those in `known`.
fn bounds_of_numbers(known: Option<(f64, f64)>, numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.fold(known, |bounds: Option<(f64, f64)>, number| match bounds {
        None => Some((number, number)),
        Some((low, high)) => Some((low.min(number), high.max(number))),
    })
}

fn spans_of_numbers(bounds: Option<(f64, f64)>, options: &BinOptions) -> NumberSpans {
    let (low, high) = bounds.unwrap_or((0.0, 0.0));
    let (low, high) =
        (options.start.map_or(low, |start| start.min(low)), options.end.map_or(high, |end| end.max(high)));
    let least = match &options.min_span {
        Some(BinSpan::Time(span)) => f64_of(length_of(span)) / f64_of(NS_PER_SEC),
        Some(BinSpan::Number(width)) => *width,
        Some(BinSpan::Log { .. }) | None => 0.0,
    };
    NumberSpans::for_range(low, high, options.bins.unwrap_or(SPANS_MAX), least)
}
