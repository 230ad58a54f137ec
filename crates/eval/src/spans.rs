//! Spans of time and of numbers, shared by bin, chart and timechart.
//!
//! Spans shorter than a day start at multiples of their length since the epoch, days and longer spans at local midnight
//! (see `quarry_event::time`). With `aligntime=@d`, spans that divide a day are counted from each local midnight, even
//! on days on which the offset of the zone changes. If only a maximum number of spans is specified, the shortest usual
//! span that yields at most this many is chosen.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, TimestampNanosecondArray};
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use jiff::tz::TimeZone;
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, Span, SpanFloor, SpanUnit, parse_epoch, parse_time};
use quarry_event::value::{Number, format_number};
use quarry_spl::ast::{BinOptions, BinSpan};
use quarry_stdx::number::{f64_of, integer_part};

use crate::EngineError;
use crate::context::CommandContext;
use crate::rows::{self, ColumnBuilder, ColumnReader};

/// Default maximum number of spans of timechart and bin.
pub const SPANS_MAX: usize = 100;
/// The usual spans, ascending.
const USUAL_SPANS: [(u64, SpanUnit); 11] = [
    (1, SpanUnit::Second),
    (5, SpanUnit::Second),
    (10, SpanUnit::Second),
    (30, SpanUnit::Second),
    (1, SpanUnit::Minute),
    (5, SpanUnit::Minute),
    (10, SpanUnit::Minute),
    (30, SpanUnit::Minute),
    (1, SpanUnit::Hour),
    (1, SpanUnit::Day),
    (1, SpanUnit::Month),
];
/// Length of a month in days, where an approximate length suffices.
const DAYS_PER_MONTH: i64 = 30;

/// Approximate length of a span, in nanoseconds.
pub fn length_of(span: &Span) -> i64 {
    let day = 86_400 * NS_PER_SEC;
    let amount = i64::try_from(span.amount).unwrap_or(i64::MAX);
    span.fixed_ns().unwrap_or_else(|| match span.unit {
        SpanUnit::Month => amount.saturating_mul(DAYS_PER_MONTH * day),
        SpanUnit::Quarter => amount.saturating_mul(3 * DAYS_PER_MONTH * day),
        SpanUnit::Year => amount.saturating_mul(365 * day),
        SpanUnit::Week => amount.saturating_mul(7 * day),
        _ => amount.saturating_mul(day),
    })
}

/// The shortest usual span that divides `from..to` into at most `spans` spans and is at least as long as `least`; if
/// there is none, a month, or `least` if that is longer.
pub fn usual_span(from: TimeNs, to: TimeNs, spans: usize, least: Option<&Span>) -> Span {
    let range = to.saturating_sub(from).max(0);
    let least_length = least.map_or(0, length_of);
    let fits = |span: &Span| {
        let length = length_of(span);
        let needed = range / length + i64::from(range % length > 0);
        length >= least_length && needed <= i64::try_from(spans.max(1)).unwrap_or(i64::MAX)
    };
    let mut usual = USUAL_SPANS.iter().map(|(amount, unit)| Span::new(*amount, *unit));
    let month = Span::new(1, SpanUnit::Month);
    usual.find(fits).unwrap_or_else(|| *least.filter(|least| length_of(least) > length_of(&month)).unwrap_or(&month))
}

/// Time spans with their alignment.
#[derive(Clone, Debug)]
pub struct TimeSpans {
    /// Length of a span.
    pub span: Span,
    floor: SpanFloor,
    zone: TimeZone,
    /// Alignment of spans with a fixed length.
    align: Option<Align>,
    /// The last span found; consecutive times are usually in the same span.
    current: std::ops::Range<TimeNs>,
}

/// Origin of spans with a fixed length.
#[derive(Clone, Copy, Debug)]
enum Align {
    At(TimeNs),
    /// Spans are counted from each local midnight.
    Midnight,
}

/// The alignment to midnight in the search's zone.
const MIDNIGHT: &str = "@d";

impl TimeSpans {
    /// Spans of this length, aligned according to `align_time`.
    pub fn new(span: Span, align_time: Option<&str>, context: &CommandContext) -> Result<TimeSpans, EngineError> {
        let align = match align_time {
            None => None,
            Some("earliest") => context.range.earliest.map(Align::At),
            Some("latest") => context.range.latest.map(Align::At),
            Some(text) if text.trim() == MIDNIGHT && divides_day(&span) => Some(Align::Midnight),
            Some(text) => match parse_time(text, context.now, &context.zone) {
                Ok(time) => Some(Align::At(time)),
                Err(error) => return Err(EngineError::invalid(format!("aligntime={text}: {error}"))),
            },
        };
        let align = align.filter(|_| is_below_day(&span));
        let (floor, zone) = (SpanFloor::new(span, context.zone.clone()), context.zone.clone());
        Ok(TimeSpans { span, floor, zone, align, current: 0..0 })
    }

    /// Start of the span that contains `time`.
    #[inline]
    pub fn floor(&mut self, time: TimeNs) -> TimeNs {
        if !self.current.contains(&time) {
            self.current = self.span_of(time);
        }
        self.current.start
    }

    /// The span that contains `time`.
    #[cold]
    fn span_of(&mut self, time: TimeNs) -> std::ops::Range<TimeNs> {
        let start = match (self.align, self.span.fixed_ns()) {
            (Some(Align::At(align)), Some(length)) => floor_from(time, align, length),
            (Some(Align::Midnight), Some(length)) => floor_from(time, day().floor(time, &self.zone), length),
            _ => self.floor.floor(time),
        };
        start..self.next(start)
    }

    /// Starts of the spans that contain the times of a column.
    pub fn starts(&mut self, times: &ColumnReader) -> ArrayRef {
        if let ColumnReader::Time(times) = times {
            let starts: Vec<i64> = times.values().iter().map(|time| self.floor(*time)).collect();
            return Arc::new(TimestampNanosecondArray::new(starts.into(), times.nulls().cloned()));
        }
        let mut starts = ColumnBuilder::new(times.len());
        for row in 0..times.len() {
            match time_ns(times, row) {
                Some(time) => starts.push_time(self.floor(time)),
                None => starts.push_null(),
            }
        }
        starts.finish()
    }

    /// Start of the span after the span that starts at `start`.
    pub fn next(&self, start: TimeNs) -> TimeNs {
        match (self.align, self.span.fixed_ns()) {
            (Some(Align::At(_)), Some(length)) => start.saturating_add(length),
            // On a day with a clock change, the last span may be shorter, or there may be more spans.
            (Some(Align::Midnight), Some(length)) => start.saturating_add(length).min(day().next(start, &self.zone)),
            _ => self.span.next(start, &self.zone),
        }
    }
}

/// The last time before or at `time` that is a whole number of lengths away from `origin`.
fn floor_from(time: TimeNs, origin: TimeNs, length: i64) -> TimeNs {
    // The distance of two times may exceed 64 bits; the remainder does not.
    let rest = (i128::from(time) - i128::from(origin)).rem_euclid(i128::from(length));
    time.saturating_sub(i64::try_from(rest).unwrap_or(0))
}

fn day() -> Span {
    Span::new(1, SpanUnit::Day)
}

fn divides_day(span: &Span) -> bool {
    is_below_day(span) && span.fixed_ns().is_some_and(|length| (24 * 3_600 * NS_PER_SEC) % length == 0)
}

/// Whether the unit of the span is shorter than a day.
fn is_below_day(span: &Span) -> bool {
    !matches!(span.unit, SpanUnit::Day | SpanUnit::Week | SpanUnit::Month | SpanUnit::Quarter | SpanUnit::Year)
}

/// Spans of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumberSpans {
    /// Multiples of a width.
    Width(f64),
    /// Powers of a base times a coefficient.
    Log {
        /// Coefficient.
        coefficient: f64,
        /// Base.
        base: f64,
    },
}

impl NumberSpans {
    /// The ends of the span that contains a value; `None` for a value without a logarithm.
    fn ends(&self, value: f64) -> Option<(f64, f64)> {
        match *self {
            NumberSpans::Width(width) => {
                // The quotient is computed with decimals: 0.3 is exactly three tenths, but a quotient of doubles is a
                // little less.
                let (value, width) = (Number::of_float(value), Number::of_float(width));
                let spans = value.divided_by(width).map_or(f64::NAN, Number::as_f64).floor();
                let low = Number::of_float(spans).times(width);
                Some((low.as_f64(), low.plus(width).as_f64()))
            }
            NumberSpans::Log { .. } if value <= 0.0 => None,
            NumberSpans::Log { coefficient, base } => {
                // The sum is slightly more than the quotient, so that an exact power belongs to its own span.
                let power = ((value / coefficient).ln() / base.ln() + 1e-12).floor();
                Some((coefficient * base.powf(power), coefficient * base.powf(power + 1.0)))
            }
        }
    }

    /// The names of spans, each written once.
    pub fn names(self) -> SpanNames {
        SpanNames { spans: self, known: HashMap::default() }
    }

    /// The smallest power of ten that is at least `least` and divides `low..high` into at most `spans` spans, as in
    /// Splunk.
    pub fn for_range(low: f64, high: f64, spans: usize, least: f64) -> NumberSpans {
        let range = (high - low).abs();
        let exact = (range / f64_of(spans.max(1))).max(least);
        if exact == 0.0 || !exact.is_finite() || (range == 0.0 && least <= 1.0) {
            return NumberSpans::Width(1.0);
        }
        // The difference is slightly less than the logarithm, so that an exact power is not rounded up.
        NumberSpans::Width(10f64.powi(integer_part((exact.log10() - 1e-9).ceil())))
    }
}

/// Names of spans of numbers, by the low end of the span.
pub struct SpanNames {
    spans: NumberSpans,
    known: HashMap<Option<u64>, String, FixedState>,
}

impl SpanNames {
    /// The name of the span that contains a value: `low-high`.
    pub fn of(&mut self, value: f64) -> &str {
        let ends = self.spans.ends(value);
        self.known.entry(ends.map(|(low, _)| low.to_bits())).or_insert_with(|| match ends {
            Some((low, high)) => format!("{}-{}", format_number(low), format_number(high)),
            None => "0".to_owned(),
        })
    }
}

/// Time span specified by the options; `None` if they specify only a number of spans.
pub fn time_span(options: &BinOptions) -> Option<Span> {
    match options.span.as_ref()? {
        BinSpan::Time(span) => Some(*span),
        BinSpan::Number(seconds) => Some(span_of_seconds(*seconds)),
        BinSpan::Log { .. } => None,
    }
}

fn span_of_seconds(seconds: f64) -> Span {
    if seconds.fract() == 0.0 && seconds >= 1.0 {
        Span::new(integer_part(seconds), SpanUnit::Second)
    } else {
        Span::new(integer_part::<u64>((seconds * 1e3).round()).max(1), SpanUnit::Millisecond)
    }
}

/// Number spans specified by the options.
pub fn number_spans(options: &BinOptions) -> Option<NumberSpans> {
    match options.span.as_ref()? {
        BinSpan::Number(width) if *width > 0.0 => Some(NumberSpans::Width(*width)),
        BinSpan::Number(_) => None,
        BinSpan::Time(span) => Some(NumberSpans::Width(f64_of(length_of(span)) / f64_of(NS_PER_SEC))),
        BinSpan::Log { coefficient, base } => Some(NumberSpans::Log { coefficient: *coefficient, base: *base }),
    }
}

/// A `_time` value in any form as nanoseconds.
pub fn time_ns(reader: &ColumnReader, row: usize) -> Option<TimeNs> {
    match reader {
        crate::rows::ColumnReader::Time(times) => times.is_valid(row).then(|| times.value(row)),
        other => {
            let mut scratch = String::new();
            other.text(row, &mut scratch).and_then(parse_epoch)
        }
    }
}

/// First and last time of the rows, combined with `known`.
pub fn time_bounds(known: Option<(TimeNs, TimeNs)>, rows: &RecordBatch) -> Option<(TimeNs, TimeNs)> {
    let reader = rows::reader(rows, "_time");
    let times = (0..rows.num_rows()).filter_map(|row| time_ns(&reader, row));
    times.fold(known, |bounds, time| Some(bounds.map_or((time, time), |(low, high)| (low.min(time), high.max(time)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spans_are_those_of_the_pickers() {
        let hour = 3_600 * NS_PER_SEC;
        for (hours, expected) in [(4, "5m"), (24, "30m"), (7 * 24, "1d"), (30 * 24, "1d"), (365 * 24, "1mon")] {
            assert_eq!(usual_span(0, hours * hour, SPANS_MAX, None), Span::parse(expected).unwrap());
        }
        assert_eq!(usual_span(0, hour / 4, SPANS_MAX, None), Span::parse("10s").unwrap());
        assert_eq!(usual_span(0, 3 * hour, 3, None), Span::parse("1h").unwrap());
        assert_eq!(usual_span(0, 3 * hour + 1, 3, None), Span::parse("1d").unwrap());
        let least = Span::parse("1h").unwrap();
        assert_eq!(usual_span(0, hour, SPANS_MAX, Some(&least)), least);
        for least in ["2mon", "1y"].map(|text| Span::parse(text).unwrap()) {
            assert_eq!(usual_span(0, hour, SPANS_MAX, Some(&least)), least);
        }
    }

    #[test]
    fn spans_of_any_unit_below_a_day_are_aligned() {
        for (text, is_aligned) in [("1500ms", true), ("10ms", true), ("36h", true), ("90m", true), ("1d", false)] {
            assert_eq!(is_below_day(&Span::parse(text).unwrap()), is_aligned, "{text}");
        }
        assert_eq!(floor_from(17, 3, 5), 13);
        assert_eq!(floor_from(i64::MAX, i64::MIN, 10), i64::MAX - 5);
        assert_eq!(floor_from(i64::MIN, i64::MAX, 10), i64::MIN);
    }

    #[test]
    fn numbers_fall_into_named_spans() {
        assert_eq!(NumberSpans::Width(10.0).names().of(12.0), "10-20");
        assert_eq!(NumberSpans::Width(10.0).names().of(-1.0), "-10-0");
        assert_eq!(NumberSpans::Width(0.1).names().of(0.35), "0.3-0.4");
        assert_eq!(NumberSpans::Log { coefficient: 1.0, base: 10.0 }.names().of(100.0), "100-1000");
        assert_eq!(NumberSpans::for_range(0.0, 1_000.0, 10, 0.0), NumberSpans::Width(100.0));
        assert_eq!(NumberSpans::for_range(0.0, 1_500.0, 10, 0.0), NumberSpans::Width(1_000.0));
        assert_eq!(NumberSpans::for_range(0.0, 1_000.0, 100, 30.0), NumberSpans::Width(100.0));
        for (value, width, name) in
            [(0.3, 0.1, "0.3-0.4"), (0.7, 0.1, "0.7-0.8"), (-0.3, 0.1, "-0.3--0.2"), (1.15, 0.05, "1.15-1.2")]
        {
            assert_eq!(NumberSpans::Width(width).names().of(value), name);
        }
    }
}
