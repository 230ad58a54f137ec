//! Bodies of eval functions: one plain function per name, found in static tables. Names, arguments, result types and
//! volatility are rows of [`quarry_spl::functions`].
//!
//! A function gets the values of its arguments and gives a value; text it did not change stays borrowed. Null in gives
//! null out unless the function says otherwise. Patterns and formats that are constants come compiled ([`Prepared`]).
//!
//! Not here: functions that choose which arguments to compute (`if`, `case`, `mvmap`...): these are nodes of
//! [`crate::expr`].

mod condition;
mod crypto;
pub mod figures;
mod json;
pub mod json_tree;
mod math;
mod multivalue;
mod printf;
mod statistics;
pub mod table;
mod text;
pub mod time;
pub mod xml;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::tz::TimeZone;
use quarry_event::TimeNs;
use quarry_event::time::Format;
use quarry_spl::functions::{EvalFunction, ResultType, Volatility, eval_function};

use crate::EngineError;
use crate::pattern::{LikePattern, Regex, Replacement};
use crate::rows::Value;

pub use condition::Network;
pub use text::percent_decode;

/// Most values a function may create (`mvrange`, `split`).
pub const VALUES_MAX: usize = 100_000;
/// Longest text `printf` may create by a width or precision, in bytes.
pub const PRINTF_WIDTH_MAX: usize = 10_000;

/// What a function may know beside its arguments.
pub struct Call<'c> {
    /// Start of the search.
    pub now: TimeNs,
    /// Time zone of the user.
    pub zone: &'c TimeZone,
    /// What calls of one expression share.
    pub state: &'c CallState,
    /// Constant arguments, compiled.
    pub prepared: &'c Prepared,
}

/// What calls of one expression share.
#[derive(Debug, Default)]
pub struct CallState {
    /// State of `random()`.
    pub random: AtomicU64,
    /// Whether some multivalue had more values than it may; the expression then fails.
    outgrown: AtomicBool,
}

impl CallState {
    /// A state whose random numbers follow from `seed`.
    pub fn new(seed: u64) -> CallState {
        CallState { random: AtomicU64::new(seed), outgrown: AtomicBool::new(false) }
    }

    /// Fails when a multivalue outgrew its limit: a cut one would answer wrongly without a sign.
    pub fn check(&self) -> Result<(), EngineError> {
        if !self.outgrown.load(Ordering::Relaxed) {
            return Ok(());
        }
        let what = "a function makes too many values for one field".to_owned();
        Err(EngineError::Limit { what, limit: "values of a multivalue", value: VALUES_MAX as u64 })
    }
}

impl Call<'_> {
    /// The values, unless they are more than [`VALUES_MAX`]: then the expression fails.
    fn collected<T>(&self, mut values: impl Iterator<Item = T>) -> Vec<T> {
        let kept: Vec<T> = values.by_ref().take(VALUES_MAX).collect();
        if kept.len() == VALUES_MAX && values.next().is_some() {
            self.state.outgrown.store(true, Ordering::Relaxed);
        }
        kept
    }
}

/// A function body. It may take values out of `args`.
pub type Run = for<'a> fn(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a>;

/// A function with its body.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// What is known of it.
    pub row: &'static EvalFunction,
    /// The body.
    pub run: Run,
}

impl Function {
    /// Whether equal arguments give equal results within a search.
    pub fn is_stable(&self) -> bool {
        self.row.volatility != Volatility::Volatile
    }

    /// Whether the result is a condition or null.
    pub fn is_condition(&self) -> bool {
        self.row.result == ResultType::Boolean
    }

    /// Whether a value is of the type that the row states.
    pub fn may_return(&self, value: &Value<'_>) -> bool {
        match (self.row.result, value) {
            (ResultType::Any, _) | (_, Value::Null) | (ResultType::Boolean, Value::Bool(_)) => true,
            (ResultType::Number, Value::Int(_) | Value::Float(_) | Value::Time(_)) => true,
            (ResultType::Text, Value::Text(_) | Value::Multi(_)) => true,
            // A number whose digits are kept, such as 2.00.
            (ResultType::Number, Value::Text(text)) => quarry_event::value::parse_number(text).is_some(),
            (ResultType::Boolean | ResultType::Number | ResultType::Text, _) => false,
        }
    }
}

/// Constant arguments compiled once.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// Nothing to prepare, or the argument is no constant.
    Nothing,
    /// A regular expression.
    Regex(Regex),
    /// A regular expression and what replaces its matches.
    Replace(Regex, Replacement),
    /// A LIKE pattern.
    Like(LikePattern),
    /// A time format.
    Format(Box<Format>),
    /// A network.
    Network(condition::Network),
    /// A table.
    Table(Box<table::EvalTable>),
    /// A calculation whose figures count.
    Figures(Box<figures::Figures>),
}

/// All bodies with the names of their functions.
fn bodies() -> impl Iterator<Item = &'static (&'static str, Run)> {
    let tables = [
        text::BODIES,
        condition::BODIES,
        multivalue::BODIES,
        time::BODIES,
        math::BODIES,
        json::BODIES,
        statistics::BODIES,
        crypto::BODIES,
        table::BODIES,
    ];
    tables.into_iter().flatten()
}

/// The function of this name; none where it is a node of its own.
pub fn find(name: &str) -> Option<Function> {
    let (_, run) = bodies().find(|(known, _)| *known == name)?;
    Some(Function { row: eval_function(name)?, run: *run })
}

/// Compiles the constants among the arguments of a call; the error is a message for the user.
pub fn prepare(name: &str, args: &[Option<&Value<'static>>]) -> Result<Prepared, String> {
    let text = |at: usize| args.get(at).copied().flatten().and_then(|value| value.text());
    Ok(match name {
        "match" | "mvfind" => match text(1) {
            Some(pattern) => Prepared::Regex(compile(name, &pattern)?),
            None => Prepared::Nothing,
        },
        "replace" => match (text(1), text(2)) {
            (Some(pattern), Some(with)) => {
                let regex = compile(name, &pattern)?;
                let replacement = Replacement::new(&with, &regex);
                Prepared::Replace(regex, replacement)
            }
            (Some(pattern), None) => Prepared::Regex(compile(name, &pattern)?),
            _ => Prepared::Nothing,
        },
        "like" => text(1).map_or(Prepared::Nothing, |pattern| Prepared::Like(LikePattern::new(&pattern))),
        "strptime" => match text(1) {
            Some(format) => {
                let format = Format::new(&format).map_err(|error| format!("strptime(): {error}"))?;
                Prepared::Format(Box::new(format))
            }
            None => Prepared::Nothing,
        },
        "cidrmatch" => match text(0) {
            Some(network) => {
                let message = || format!("cidrmatch(): '{network}' is no network; write it like 10.0.0.0/8");
                Prepared::Network(condition::Network::parse(&network).ok_or_else(message)?)
            }
            None => Prepared::Nothing,
        },
        "relative_time" => {
            if let Some(modifier) = text(1) {
                time::check_modifier(&modifier)?;
            }
            Prepared::Nothing
        }
        _ => Prepared::Nothing,
    })
}

fn compile(name: &str, pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|message| format!("{name}(): {message}"))
}

/// Takes an argument out; a missing one is null.
#[inline]
fn take<'a>(args: &mut [Value<'a>], at: usize) -> Value<'a> {
    args.get_mut(at).map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
}

/// An argument as a number.
#[inline]
fn number(args: &[Value<'_>], at: usize) -> Option<f64> {
    args.get(at).and_then(Value::number)
}

/// An argument as a whole number, cut off towards zero.
fn integer(args: &[Value<'_>], at: usize) -> Option<i64> {
    number(args, at).filter(|value| value.is_finite()).map(|value| value as i64)
}

/// Applies `change` to every text of a value.
fn map_texts<'a>(value: Value<'a>, mut change: impl FnMut(Cow<'a, str>) -> Cow<'a, str>) -> Value<'a> {
    match value {
        Value::Multi(values) => Value::Multi(values.into_iter().map(change).collect()),
        single => single.into_text().map_or(Value::Null, |text| Value::Text(change(text))),
    }
}

/// Whether any text of a value passes; null for null.
fn any_text<'a>(value: &Value<'_>, mut test: impl FnMut(&str) -> bool) -> Value<'a> {
    match value {
        Value::Null => Value::Null,
        Value::Multi(values) => Value::Bool(values.iter().any(|text| test(text))),
        single => single.text().map_or(Value::Null, |text| Value::Bool(test(&text))),
    }
}

/// A part of a text, borrowed if the text is.
fn part_of<'a>(text: Cow<'a, str>, part: impl Fn(&str) -> &str) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => {
            let kept = part(text);
            // A part that lies elsewhere, such as a literal, has no place in the text.
            let at = (kept.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
            text.get(at..at.saturating_add(kept.len())).map_or_else(|| Cow::Owned(kept.to_owned()), Cow::Borrowed)
        }
        Cow::Owned(text) => {
            let kept = part(&text);
            if kept.len() == text.len() { Cow::Owned(text) } else { Cow::Owned(kept.to_owned()) }
        }
    }
}

#[cfg(test)]
mod tests;
