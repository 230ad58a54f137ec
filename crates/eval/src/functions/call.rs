//! Shared parts of function implementations: the call, its limits, its arguments.
//!
//! Not here: the functions, and their lookup by name ([`super::find`]).

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::tz::TimeZone;
use quarry_event::TimeNs;
use quarry_event::time::{Format, NS_PER_SEC};
use quarry_event::value::Number;
use quarry_spl::functions::{EvalFunction, ResultType, Volatility};
use quarry_stdx::number::integer_part;

use super::network::Network;
use super::significant_figures::Figures;
use super::table::EvalTable;
use crate::EngineError;
use crate::pattern::{LikePattern, Regex, Replacement};
use crate::rows::Value;

/// Maximum number of values that a function such as `mvrange` or `split` may create; with more, the search fails.
pub const VALUES_MAX: usize = 100_000;
/// Maximum bytes of the values that a function such as `mvmap` or `mvzip` may create for one field of a row; with more,
/// the search fails.
const VALUES_BYTES_MAX: usize = 64 << 20;
/// Maximum width or precision of `printf`, in bytes; a larger one has the same effect.
pub const PRINTF_WIDTH_MAX: usize = 10_000;

/// Context of a function call besides its arguments.
pub struct Call<'c> {
    /// Start of the search.
    pub now: TimeNs,
    /// Time zone of the user.
    pub zone: &'c TimeZone,
    /// State shared by the calls of one expression.
    pub state: &'c CallState,
    /// Constant arguments in compiled form.
    pub prepared: &'c Prepared,
}

/// State shared by the calls of one expression.
#[derive(Debug, Default)]
pub struct CallState {
    /// State of `random()`.
    pub random: AtomicU64,
    /// Whether a multivalue exceeded its limit; the expression then fails.
    has_exceeded_limit: AtomicBool,
    /// Whether the texts of a multivalue exceeded [`VALUES_BYTES_MAX`]; the expression then fails.
    has_exceeded_bytes: AtomicBool,
}

impl CallState {
    /// A state whose random numbers are determined by `seed`.
    pub fn new(seed: u64) -> CallState {
        let (has_exceeded_limit, has_exceeded_bytes) = (AtomicBool::new(false), AtomicBool::new(false));
        CallState { random: AtomicU64::new(seed), has_exceeded_limit, has_exceeded_bytes }
    }

    /// Fails if a multivalue exceeded its limit, because a truncated value would silently give a wrong result.
    pub fn check(&self) -> Result<(), EngineError> {
        let limit = |what: &str, limit: &'static str, value: usize| {
            Err(EngineError::Limit { what: what.to_owned(), limit, value: value as u64 })
        };
        if self.has_exceeded_limit.load(Ordering::Relaxed) {
            return limit("a function returns too many values for one field", "values of a multivalue", VALUES_MAX);
        }
        if self.has_exceeded_bytes.load(Ordering::Relaxed) {
            return limit(
                "a function returns values that are too long for one field",
                "bytes of a multivalue",
                VALUES_BYTES_MAX,
            );
        }
        Ok(())
    }

    /// Whether a multivalue may have this many values with this many bytes in total; if not, the expression fails.
    pub(crate) fn allows(&self, values: usize, bytes: usize) -> bool {
        let (is_many, is_long) = (values > VALUES_MAX, bytes > VALUES_BYTES_MAX);
        if is_many {
            self.has_exceeded_limit.store(true, Ordering::Relaxed);
        }
        if is_long {
            self.has_exceeded_bytes.store(true, Ordering::Relaxed);
        }
        !is_many && !is_long
    }
}

impl Call<'_> {
    /// The values. If there are more than [`VALUES_MAX`], the expression fails.
    pub(super) fn collect_limited<T>(&self, mut values: impl Iterator<Item = T>) -> Vec<T> {
        let kept: Vec<T> = values.by_ref().take(VALUES_MAX).collect();
        if kept.len() == VALUES_MAX && values.next().is_some() {
            self.state.has_exceeded_limit.store(true, Ordering::Relaxed);
        }
        kept
    }
}

/// A function implementation. It may take values out of `args`.
pub type FunctionImpl = for<'a> fn(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a>;

/// A function with its implementation.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The function's row in the function table.
    pub row: &'static EvalFunction,
    /// The implementation.
    pub run: FunctionImpl,
}

impl Function {
    /// Whether equal arguments have equal results within a search.
    pub fn is_stable(&self) -> bool {
        self.row.volatility != Volatility::Volatile
    }

    /// Whether the result is a condition or null.
    pub fn is_condition(&self) -> bool {
        self.row.result == ResultType::Boolean
    }

    /// Whether a value has the type stated in the function table.
    pub fn may_return(&self, value: &Value<'_>) -> bool {
        match (self.row.result, value) {
            (ResultType::Any, _) | (_, Value::Null) | (ResultType::Boolean, Value::Bool(_)) => true,
            (ResultType::Number, Value::Int(_) | Value::Float(_) | Value::Time(_)) => true,
            (ResultType::Text, Value::Text(_) | Value::Multi(_)) => true,
            // A number such as 2.00 is a text, because its trailing zeros are significant.
            (ResultType::Number, Value::Text(text)) => quarry_event::value::parse_number(text).is_some(),
            (ResultType::Boolean | ResultType::Number | ResultType::Text, _) => false,
        }
    }
}

/// Constant arguments, compiled once.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// Nothing to prepare, or the argument is not constant.
    Nothing,
    /// A regular expression.
    Regex(Regex),
    /// A regular expression with its replacement.
    Replace(Regex, Replacement),
    /// A `LIKE` pattern.
    Like(LikePattern),
    /// A time format.
    Format(Box<Format>),
    /// A network.
    Network(Network),
    /// A table.
    Table(Box<EvalTable>),
    /// A calculation with significant figures, for `sigfig`.
    Figures(Box<Figures>),
}

/// Takes an argument; a missing argument is null.
#[inline]
pub(super) fn take<'a>(args: &mut [Value<'a>], at: usize) -> Value<'a> {
    args.get_mut(at).map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
}

/// An argument as a number.
#[inline]
pub(super) fn number(args: &[Value<'_>], at: usize) -> Option<f64> {
    args.get(at).and_then(Value::number)
}

/// An argument as an integer, truncated towards zero; a number beyond 64 bits becomes the nearest integer of 64 bits.
pub(super) fn integer(args: &[Value<'_>], at: usize) -> Option<i64> {
    match args.get(at)?.exact_number()? {
        Number::Int(value) => Some(value),
        Number::Nanos(ns) => Some(ns / NS_PER_SEC),
        Number::Float(value) => value.is_finite().then(|| integer_part(value)),
    }
}

/// Applies `change` to every text of a value.
pub(super) fn map_texts<'a>(value: Value<'a>, mut change: impl FnMut(Cow<'a, str>) -> Cow<'a, str>) -> Value<'a> {
    match value {
        Value::Multi(values) => Value::Multi(values.into_iter().map(change).collect()),
        single => single.into_text().map_or(Value::Null, |text| Value::Text(change(text))),
    }
}

/// Whether any text of a value passes the test; null for null.
pub(super) fn any_text<'a>(value: &Value<'_>, mut test: impl FnMut(&str) -> bool) -> Value<'a> {
    match value {
        Value::Null => Value::Null,
        Value::Multi(values) => Value::Bool(values.iter().any(|text| test(text))),
        single => single.text().map_or(Value::Null, |text| Value::Bool(test(&text))),
    }
}

/// A part of a text; borrowed if the text is.
pub(super) fn part_of<'a>(text: Cow<'a, str>, part: impl Fn(&str) -> &str) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => {
            let kept = part(text);
            // A result that is not part of the text, such as a literal, has no offset in it.
            let at = (kept.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
            text.get(at..at.saturating_add(kept.len())).map_or_else(|| Cow::Owned(kept.to_owned()), Cow::Borrowed)
        }
        Cow::Owned(text) => {
            let kept = part(&text);
            if kept.len() == text.len() { Cow::Owned(text) } else { Cow::Owned(kept.to_owned()) }
        }
    }
}
