//! `makecontinuous`: inserts rows for missing values of a time or number.

use std::collections::BTreeMap;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, rows_in_memory};
use quarry_eval::spans::{TimeSpans, time_ns, usual_span};
use quarry_event::time::NS_PER_SEC;
use quarry_spl::ast::{ContinuousStep, MakeContinuousCommand};
use quarry_stdx::number::{f64_of, integer_part, u32_of};

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of rows made.
const ROWS_MAX: usize = 1_000_000;

impl Execute for MakeContinuousCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(MakeContinuous(self.clone()))])
    }
}

struct MakeContinuous(MakeContinuousCommand);

impl BlockingTable for MakeContinuous {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("makecontinuous", rows, context)?;
        let reader = rows::reader(&all, &self.0.field);
        let (values, places) = match is_time(&self.0, &reader) {
            true => self.fill_times(&reader, context)?,
            false => self.fill_numbers(&reader)?,
        };
        if values.is_empty() {
            return Ok(vec![all.into_batch()]);
        }
        let mut column = ColumnBuilder::new(values.len());
        values.into_iter().for_each(|value| column.push(value));
        let filled = rows::take(&all, &places.into_iter().collect::<UInt32Array>())?;
        Ok(vec![rows::with_column(&filled, &self.0.field, column.finish())?])
    }
}

fn is_time(command: &MakeContinuousCommand, reader: &ColumnReader) -> bool {
    let by_time = matches!(command.step, ContinuousStep::Time(_));
    command.field == "_time" || by_time || matches!(reader, ColumnReader::Time(_))
}

/// The value of each output row, and the input row it comes from.
type FilledRows = (Vec<Value<'static>>, Vec<Option<u32>>);

impl MakeContinuous {
    fn fill_times(&self, reader: &ColumnReader, context: &CommandContext) -> Result<FilledRows, EngineError> {
        let times: Vec<(u32, i64)> =
            (0..reader.len()).filter_map(|row| Some((u32_of(row), time_ns(reader, row)?))).collect();
        let (Some(low), Some(high)) = (times.iter().map(|(_, t)| *t).min(), times.iter().map(|(_, t)| *t).max()) else {
            return Ok(FilledRows::default());
        };
        let span = match self.0.step {
            ContinuousStep::Time(span) => span,
            ContinuousStep::Bins(bins) => usual_span(low, high, bins, None),
            ContinuousStep::Number(seconds) => {
                let whole = (seconds.fract() == 0.0).then_some(integer_part(seconds));
                let Some(seconds) = whole else {
                    return Err(EngineError::invalid(
                        "makecontinuous: span= of a time must be whole seconds or have a unit",
                    ));
                };
                quarry_event::time::Span::new(seconds, quarry_event::time::SpanUnit::Second)
            }
        };
        let mut spans = TimeSpans::new(span, None, context)?;
        let mut by_start: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (row, time) in times {
            by_start.entry(spans.floor(time)).or_default().push(row);
        }
        let bound = |seconds: f64| integer_part::<i64>(seconds * f64_of(NS_PER_SEC));
        let first = self.0.bounds.0.map_or(low, bound);
        // The end is exclusive.
        let last = self.0.bounds.1.map_or(high, |end| bound(end).saturating_sub(1));
        let mut at = spans.floor(first);
        let mut filled = FilledRows::default();
        while at <= last {
            fill(&mut filled, || Value::Time(at), by_start.get(&at))?;
            let next = spans.next(at);
            if next <= at {
                break;
            }
            at = next;
        }
        Ok(filled)
    }

    fn fill_numbers(&self, reader: &ColumnReader) -> Result<FilledRows, EngineError> {
        let numbers: Vec<(u32, f64)> = (0..reader.len())
            .filter_map(|row| Some((u32_of(row), reader.number(row).filter(|number| number.is_finite())?)))
            .collect();
        if numbers.is_empty() {
            return Ok(FilledRows::default());
        }
        let low = numbers.iter().map(|(_, number)| *number).fold(f64::INFINITY, f64::min);
        let high = numbers.iter().map(|(_, number)| *number).fold(f64::NEG_INFINITY, f64::max);
        let width = match self.0.step {
            ContinuousStep::Number(width) => width,
            ContinuousStep::Bins(bins) => decimal_width(high - low, bins),
            ContinuousStep::Time(_) => return Err(EngineError::invalid("makecontinuous: the field holds no times")),
        };
        let place = |number: f64| place_of(number, width);
        let (first, last) = (self.0.bounds.0.map_or(low, |start| start), self.0.bounds.1.map_or(high, |end| end));
        let (from, to) = (place(first), place(last));
        if to - from >= f64_of(ROWS_MAX) {
            return Err(too_many());
        }
        let mut by_place: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (row, number) in numbers {
            by_place.entry(integer_part(place(number))).or_default().push(row);
        }
        let mut filled = FilledRows::default();
        for at in integer_part::<i64>(from)..=integer_part(to) {
            let start = f64_of(at) * width;
            if self.0.bounds.1.is_some_and(|end| start >= end) {
                break;
            }
            fill(&mut filled, || Value::from_f64(start), by_place.get(&at))?;
        }
        Ok(filled)
    }
}

/// Number of the span that contains a number: the quotient, rounded down.
fn place_of(number: f64, width: f64) -> f64 {
    let quotient = number / width;
    // The quotient is increased slightly, even if it is negative, so that multiples of the width fall into their own
    // span.
    (quotient + quotient.abs() * f64::EPSILON).floor()
}

/// The smallest power of ten, at least 1, that divides a range into at most `bins` parts.
fn decimal_width(range: f64, bins: usize) -> f64 {
    let mut width = 1.0;
    while range / width > f64_of(bins) {
        width *= 10.0;
    }
    width
}

/// Adds the rows of one value, or an empty row.
fn fill(
    filled: &mut FilledRows,
    value: impl Fn() -> Value<'static>,
    rows: Option<&Vec<u32>>,
) -> Result<(), EngineError> {
    match rows {
        Some(rows) => {
            for row in rows {
                filled.0.push(value());
                filled.1.push(Some(*row));
            }
        }
        None => {
            filled.0.push(value());
            filled.1.push(None);
        }
    }
    if filled.0.len() > ROWS_MAX { Err(too_many()) } else { Ok(()) }
}

fn too_many() -> EngineError {
    EngineError::Limit {
        what: "makecontinuous creates too many rows; use a longer span=".into(),
        limit: "rows",
        value: ROWS_MAX as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_the_width_fall_into_their_own_span() {
        for at in -100..=100_i32 {
            for width in [1.0, 2.0, 0.1, 0.3, 0.7, 10.0] {
                let place = f64::from(at);
                assert_eq!(place_of(place * width, width), place, "{at} * {width}");
                assert_eq!(place_of((place + 0.5) * width, width), place, "({at} + 0.5) * {width}");
            }
        }
        assert_eq!((place_of(0.3, 0.1), place_of(-0.3, 0.1)), (3.0, -3.0));
    }
}
