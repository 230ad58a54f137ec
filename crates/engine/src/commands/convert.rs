//! `convert`: converts values of fields from one notation to another.
//!
//! A value that cannot be converted is kept, except by `num`, which removes it. `auto` converts a field only if a
//! single function converts all its values, so `auto` must see every row; the other functions convert values one by
//! one.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::{fill_wildcards, names_of, wildcard_parts};
use quarry_eval::functions::time::{instant, seconds};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, is_hidden, of_batches, rows_in_memory};
use quarry_event::TimeNs;
use quarry_event::time::{Format, ResolveContext, strftime};
use quarry_event::value::{Number, parse_exact_number, parse_number};
use quarry_spl::ast::{Conversion, ConvertCommand, ConvertFunction};
use quarry_stdx::number::f64_of;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking, row};

impl Execute for ConvertCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let converter = Arc::new(Converter::new(self, lowering.environment.context())?);
        Ok(vec![match self.is_automatic() {
            true => blocking(ConvertAll(converter)),
            false => row(move || Convert(Arc::clone(&converter))),
        }])
    }
}

/// The command with its time format and zone.
struct Converter {
    command: ConvertCommand,
    format: Option<Format>,
    zone: TimeZone,
    now: TimeNs,
}

/// Functions that `auto` and `num` try for values that are not numbers, in this order.
const NUMBER_FUNCTIONS: [ConvertFunction; 5] = [
    ConvertFunction::RmComma,
    ConvertFunction::Dur2Sec,
    ConvertFunction::MsTime,
    ConvertFunction::MemK,
    ConvertFunction::MkTime,
];

impl Converter {
    fn new(command: &ConvertCommand, context: &CommandContext) -> Result<Converter, EngineError> {
        let reads = |conversion: &Conversion| {
            matches!(conversion.function, ConvertFunction::MkTime | ConvertFunction::Auto | ConvertFunction::Num)
        };
        let format = match command.conversions.iter().any(reads) {
            true => Some(
                Format::new(&command.time_format)
                    .map_err(|error| EngineError::invalid(format!("convert: timeformat: {error}")))?,
            ),
            false => None,
        };
        Ok(Converter { command: command.clone(), format, zone: context.zone.clone(), now: context.now })
    }

    fn convert(&self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for conversion in &self.command.conversions {
            if conversion.function == ConvertFunction::None {
                continue;
            }
            for (name, parts) in self.matching_fields(conversion, &rows) {
                let output = match &conversion.output {
                    Some(output) => fill_wildcards(&output.text, &parts.iter().map(String::as_str).collect::<Vec<_>>()),
                    None => name.clone(),
                };
                let column = self.convert_column(conversion.function, &rows::reader(&rows, &name));
                rows = rows::with_column(&rows, &output, column)?;
            }
        }
        Ok(rows)
    }

    /// Fields that a conversion applies to, with the texts matched by its wildcards.
    fn matching_fields(&self, conversion: &Conversion, rows: &RecordBatch) -> Vec<(String, Vec<String>)> {
        let pattern = &conversion.field.text;
        let spared = |name: &str| {
            let internal = is_hidden(name) || (name.starts_with('_') && !pattern.starts_with('_'));
            let none = |other: &&Conversion| other.function == ConvertFunction::None;
            let fits = |other: &Conversion| wildcard_parts(&other.field.text, name).is_some();
            internal || self.command.conversions.iter().filter(none).any(fits)
        };
        let names = names_of(rows).into_iter();
        let found = names.filter_map(|name| {
            let parts: Vec<String> = wildcard_parts(pattern, &name)?.into_iter().map(str::to_owned).collect();
            (!conversion.field.is_wildcard() || !spared(&name)).then_some((name, parts))
        });
        found.collect()
    }

    fn convert_column(&self, function: ConvertFunction, reader: &ColumnReader) -> ArrayRef {
        let convert = |value: &Value<'_>| match function {
            ConvertFunction::Num => Some(self.convert_to_number(value).unwrap_or(Value::Null)),
            function => self.convert_value(function, value),
        };
        if function == ConvertFunction::Auto {
            let way = self.common_converter(reader);
            return self.map_column(reader, |value| way.and_then(|way| way(self, value)));
        }
        self.map_column(reader, convert)
    }

    /// The column with each value converted; values that cannot be converted are kept.
    fn map_column(&self, reader: &ColumnReader, convert: impl Fn(&Value<'_>) -> Option<Value<'static>>) -> ArrayRef {
        let mut column = ColumnBuilder::new(reader.len());
        for row in 0..reader.len() {
            match reader.value(row) {
                Value::Null => column.push_null(),
                Value::Multi(values) => {
                    let values = values.into_iter().flat_map(|value| match convert(&Value::Text(value.clone())) {
                        Some(converted) => converted.into_values(),
                        None => vec![value],
                    });
                    column.push(Value::multi(values.collect()));
                }
                value => match convert(&value) {
                    Some(converted) => column.push(converted),
                    None => column.push(value),
                },
            }
        }
        column.finish()
    }

    /// The first function that converts every value of the column to a number.
    fn common_converter(&self, reader: &ColumnReader) -> Option<NumberConverter> {
        let ways: [NumberConverter; 6] = [
            |_, value| number(value),
            |all, value| all.convert_value(NUMBER_FUNCTIONS[0], value),
            |all, value| all.convert_value(NUMBER_FUNCTIONS[1], value),
            |all, value| all.convert_value(NUMBER_FUNCTIONS[2], value),
            |all, value| all.convert_value(NUMBER_FUNCTIONS[3], value),
            |all, value| all.convert_value(NUMBER_FUNCTIONS[4], value),
        ];
        let fits = |way: &NumberConverter| {
            (0..reader.len()).all(|row| reader.values(row).all(|text| way(self, &Value::Text(text)).is_some()))
        };
        ways.into_iter().find(fits)
    }

    /// The value converted by the first function that yields a number.
    fn convert_to_number(&self, value: &Value<'_>) -> Option<Value<'static>> {
        number(value).or_else(|| NUMBER_FUNCTIONS.iter().find_map(|way| self.convert_value(*way, value)))
    }

    /// Converts a value; `None` if that is not possible.
    fn convert_value(&self, function: ConvertFunction, value: &Value<'_>) -> Option<Value<'static>> {
        if function == ConvertFunction::CTime {
            let text = strftime(instant(value)?, &self.command.time_format, &self.zone);
            return Some(Value::owned_text(text));
        }
        let text = value.text()?;
        let text = text.trim();
        match function {
            ConvertFunction::MkTime => {
                let context = ResolveContext { now: self.now, tz: &self.zone, last: None };
                self.format.as_ref()?.parse(text.as_bytes(), &context).map(seconds)
            }
            ConvertFunction::Dur2Sec => duration_seconds(text).map(Value::from_number),
            ConvertFunction::MsTime => minutes_seconds(text).map(Value::from_f64),
            ConvertFunction::MemK => kilobytes(text).map(Value::from_f64),
            ConvertFunction::RmComma => {
                let bare = text.replace(',', "");
                parse_number(&bare).map(|_| Value::owned_text(bare)).and_then(|value| number(&value))
            }
            ConvertFunction::RmUnit => leading_number(text).and_then(|digits| number(&Value::borrowed_text(digits))),
            ConvertFunction::Auto | ConvertFunction::Num => self.convert_to_number(value),
            ConvertFunction::None | ConvertFunction::CTime => None,
        }
    }
}

/// A function that converts a value to a number.
type NumberConverter = fn(&Converter, &Value<'_>) -> Option<Value<'static>>;

/// Parses a value as a number.
fn number(value: &Value<'_>) -> Option<Value<'static>> {
    value.exact_number().map(Value::from_number)
}

/// Seconds of `[D+]HH:MM:SS`; also accepts a sign and a fraction, as `tostring` writes them.
fn duration_seconds(text: &str) -> Option<Number> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (text, fraction) = match text.split_once('.') {
        Some((whole, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            (whole, parse_exact_number(&format!("0.{digits}"))?)
        }
        Some(_) => return None,
        None => (text, Number::Int(0)),
    };
    let (days, clock) = match text.split_once('+') {
        Some((days, clock)) => (parse_digits(days)?, clock),
        None => (0, text),
    };
    let mut parts = clock.split(':');
    let (hours, minutes, seconds) =
        (parse_digits(parts.next()?)?, parse_digits(parts.next()?)?, parse_digits(parts.next()?)?);
    if parts.next().is_some() {
        return None;
    }
    let total = days.checked_mul(24)?.checked_add(hours)?.checked_mul(60)?.checked_add(minutes)?;
    let seconds = Number::Int(total.checked_mul(60)?.checked_add(seconds)?).plus(fraction);
    Some(if is_negative { seconds.negated() } else { seconds })
}

/// Seconds of `[MM:]SS.SSS`.
fn minutes_seconds(text: &str) -> Option<f64> {
    let (minutes, rest) = match text.split_once(':') {
        Some((minutes, rest)) => (parse_digits(minutes)?, rest),
        None => (0, text),
    };
    let is_plain = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds: f64 = if is_plain { rest.parse().ok()? } else { return None };
    Some(f64_of(minutes) * 60.0 + seconds)
}

/// Parses a number with the suffix `k`, `m` or `g`, or without a suffix; the result is in kilobytes.
fn kilobytes(text: &str) -> Option<f64> {
    const STEP: f64 = 1024.0;
    let (digits, factor) = match text.chars().last()?.to_ascii_lowercase() {
        'k' => (&text[..text.len() - 1], 1.0),
        'm' => (&text[..text.len() - 1], STEP),
        'g' => (&text[..text.len() - 1], STEP * STEP),
        _ => (text, 1.0),
    };
    let number = parse_number(digits.trim_end())?;
    (number >= 0.0).then_some(number * factor)
}

/// The number at the start of a text.
fn leading_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let whole = digits(sign);
    let mut end = sign + whole;
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    (end > sign).then(|| &text[..end])
}

/// A number that consists of digits only.
fn parse_digits(text: &str) -> Option<i64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// `convert` with functions that convert values one by one.
struct Convert(Arc<Converter>);

impl RowCommand for Convert {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        self.0.convert(rows)
    }
}

/// `convert` with `auto`.
struct ConvertAll(Arc<Converter>);

impl Blocking for ConvertAll {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let all = rows_in_memory("convert", rows, context)?;
        Ok(of_batches(vec![self.0.convert(RecordBatch::clone(&all))?]))
    }
}
