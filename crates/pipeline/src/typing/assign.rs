//! `INGEST_EVAL`: assignments of expressions to keys and fields; also boolean conditions.
//!
//! `name = expression` adds a value to a field; `name := expression` replaces its values, or removes them if the
//! expression is null. Keys (`_raw`, `_time`, `queue`, `host`, `source`, `sourcetype`, `index`) have one value, which
//! is always replaced; null leaves the value unchanged. An expression sees the effects of earlier assignments. A field
//! name reads the field's first value; `$mv:NAME$` reads all values. `$pd:NAME$` always refers to a key and
//! `$field:NAME$` always to a field. A name may end in a type: `[int]`, `[float]`, `[string]`.
//!
//! The expression language is implemented elsewhere ([`quarry_event::expression`]).

use std::borrow::Cow;
use std::sync::Arc;

use quarry_event::time::seconds_text;
use quarry_event::value::{parse_number, write_integer, write_number};
use quarry_event::{Expression, ExpressionCompiler, ExpressionValue, TimeNs};
use quarry_stdx::Fault;
use quarry_stdx::number::f64_of;

use super::event::{Key, TypedEvent, time_of_seconds};

/// Maximum number of assignments of one rule.
const ASSIGNMENTS_MAX: usize = 1_000;
/// Field with the number of lines of an event.
const LINE_COUNT: &str = "linecount";
/// Texts of true and false.
const CONDITION_TEXTS: [&str; 2] = ["True", "False"];

/// Assignments of a rule, in order.
#[derive(Debug)]
pub(crate) struct Assignments {
    all: Vec<Assignment>,
}

#[derive(Debug)]
struct Assignment {
    target: Target,
    /// Whether the operator is `:=`.
    replaces: bool,
    form: ValueType,
    value: Reader,
}

#[derive(Debug)]
enum Target {
    Key(Key),
    Field(Arc<str>),
}

/// Type according to which a value is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueType {
    AsIs,
    Integer,
    Number,
}

/// An expression with its inputs.
#[derive(Debug)]
struct Reader {
    expression: Box<dyn Expression>,
    operands: Vec<Operand>,
}

#[derive(Debug)]
enum Operand {
    Key(Key),
    First(String),
    All(String),
    LineCount,
}

/// A boolean expression.
#[derive(Debug)]
pub(crate) struct Condition(Reader);

impl Assignments {
    /// Parses the setting; the error describes the fault.
    pub(crate) fn new(text: &str, compiler: Option<&dyn ExpressionCompiler>) -> Result<Assignments, Fault> {
        let parts = split(text)?;
        if parts.is_empty() || parts.len() > ASSIGNMENTS_MAX {
            return Err(Fault::invalid(format!(
                "it has {} assignments; 1 to {ASSIGNMENTS_MAX} are allowed",
                parts.len()
            )));
        }
        let all = parts.into_iter().map(|part| Assignment::new(part, compiler)).collect::<Result<_, _>>()?;
        Ok(Assignments { all })
    }

    pub(crate) fn run(&self, event: &mut TypedEvent, now: TimeNs) {
        for assignment in &self.all {
            let value = assignment.value.evaluate(event, now);
            assignment.assign(event, value);
        }
    }
}

impl Assignment {
    fn new(text: &str, compiler: Option<&dyn ExpressionCompiler>) -> Result<Assignment, Fault> {
        let equals = text.find('=').ok_or_else(|| Fault::invalid(format!("{text}: give name = expression")))?;
        let (name, expression) = (&text[..equals], &text[equals + 1..]);
        let (name, replaces) = name.strip_suffix(':').map_or((name, false), |name| (name, true));
        let (name, form) = split_type(name.trim())?;
        let value = Reader::new(expression.trim(), compiler)?;
        Ok(Assignment { target: target(name)?, replaces, form, value })
    }

    fn assign(&self, event: &mut TypedEvent, value: ExpressionValue<'static>) {
        match &self.target {
            Target::Key(Key::Time) => match &value {
                ExpressionValue::Time(time) => event.time = *time,
                value => {
                    if let Some(time) = number_of(value).and_then(time_of_seconds) {
                        event.time = time;
                    }
                }
            },
            Target::Key(key) => {
                if let Some(text) = text_of_value(&value, self.form) {
                    event.write(key, Cow::Owned(text));
                }
            }
            Target::Field(name) => {
                if self.replaces {
                    event.remove_field(name);
                }
                let texts: Vec<String> = match value {
                    ExpressionValue::Multi(values) => {
                        let one = |value| text_of_value(&ExpressionValue::Text(value), self.form);
                        values.into_iter().filter_map(one).collect()
                    }
                    value => text_of_value(&value, self.form).into_iter().collect(),
                };
                texts.into_iter().for_each(|text| event.add_field(Arc::clone(name), text));
            }
        }
    }
}

/// Splits assignments at commas outside quotes and brackets.
fn split(text: &str) -> Result<Vec<&str>, Fault> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0usize);
    let unopened = || Fault::invalid("a bracket is closed that was never opened");
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth = depth.checked_sub(1).ok_or_else(unopened)?,
            (None, ',') if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 || quote.is_some() {
        return Err(Fault::invalid("a bracket or quote is never closed"));
    }
    parts.push(&text[from..]);
    Ok(parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect())
}

/// Splits a name with a type into both.
fn split_type(name: &str) -> Result<(&str, ValueType), Fault> {
    let Some((bare, form)) = name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) else {
        return Ok((name, ValueType::AsIs));
    };
    match form {
        "int" => Ok((bare.trim(), ValueType::Integer)),
        "float" | "float32" | "float-sf" | "float32-sf" => Ok((bare.trim(), ValueType::Number)),
        "string" => Ok((bare.trim(), ValueType::AsIs)),
        other => Err(Fault::invalid(format!("{name}: the type {other} is unknown; types are int, float and string"))),
    }
}

fn target(name: &str) -> Result<Target, Fault> {
    let (bare, kind) = split_kind(name);
    let bare = bare.trim_matches(['"', '\'']);
    if bare.is_empty() || bare.contains('{') {
        return Err(Fault::invalid(format!(
            "{name}: give the name of a key or field; names in braces are not computed here"
        )));
    }
    Ok(match kind {
        Some("field") => Target::Field(Arc::from(bare)),
        Some("pd") => Target::Key(Key::of_expression(bare).unwrap_or_else(|| Key::of_rule(bare))),
        _ => Key::of_expression(bare).map_or_else(|| Target::Field(Arc::from(bare)), Target::Key),
    })
}

/// Splits `$kind:name$` into name and kind.
fn split_kind(name: &str) -> (&str, Option<&str>) {
    let inner = name.strip_prefix('$').and_then(|name| name.strip_suffix('$')).and_then(|name| name.split_once(':'));
    inner.map_or((name, None), |(kind, bare)| (bare, Some(kind)))
}

impl Reader {
    fn new(text: &str, compiler: Option<&dyn ExpressionCompiler>) -> Result<Reader, Fault> {
        let compiler = compiler.ok_or_else(|| Fault::invalid("expressions cannot be evaluated here"))?;
        let expression = compiler.compile(&quote_names(text))?;
        let places = expression.names().iter().map(|name| operand(name)).collect();
        Ok(Reader { expression, operands: places })
    }

    /// The value of the expression; null if it cannot be computed.
    fn evaluate(&self, event: &TypedEvent, now: TimeNs) -> ExpressionValue<'static> {
        let lines;
        let text = |text: &'_ str| ExpressionValue::Text(Cow::Owned(text.to_owned()));
        let values: Vec<ExpressionValue<'_>> = if self.operands.is_empty() {
            Vec::new()
        } else {
            lines = event.raw.lines().count().max(1) as i64;
            let read = |place: &Operand| match place {
                Operand::Key(Key::Time) => ExpressionValue::Time(event.time),
                Operand::Key(Key::Raw) => ExpressionValue::Text(Cow::Borrowed(event.raw.as_str())),
                Operand::Key(key) => event.plain(key).map_or(ExpressionValue::Null, text),
                Operand::First(name) => event.field(name).map_or(ExpressionValue::Null, text),
                Operand::LineCount => ExpressionValue::Integer(lines),
                Operand::All(name) => {
                    let mut values: Vec<Cow<'_, str>> =
                        event.values(name).map(|value| Cow::Owned(value.to_owned())).collect();
                    match values.len() {
                        0 => ExpressionValue::Null,
                        1 => values.pop().map_or(ExpressionValue::Null, ExpressionValue::Text),
                        _ => ExpressionValue::Multi(values),
                    }
                }
            };
            self.operands.iter().map(read).collect()
        };
        self.expression.evaluate(&values, now).unwrap_or(ExpressionValue::Null)
    }
}

fn operand(name: &str) -> Operand {
    let (bare, kind) = split_kind(name);
    match kind {
        Some("field") => Operand::First(bare.to_owned()),
        Some("mv") => Operand::All(bare.to_owned()),
        Some("pd") => Operand::Key(Key::of_expression(bare).unwrap_or_else(|| Key::of_rule(bare))),
        _ if bare == LINE_COUNT => Operand::LineCount,
        _ => Key::of_expression(bare).map_or_else(|| Operand::First(bare.to_owned()), Operand::Key),
    }
}

/// The expression, with each `$kind:name$` replaced by a quoted name, which the language reads as a field.
fn quote_names(text: &str) -> String {
    let (mut out, mut rest, mut quote) = (String::new(), text, None);
    while let Some(letter) = rest.chars().next() {
        if quote.is_none()
            && letter == '$'
            && let Some(end) = rest[1..].find('$')
            && rest[1..=end].split_once(':').is_some_and(|(kind, _)| matches!(kind, "pd" | "field" | "mv"))
        {
            out.extend(["'", &rest[..end + 2], "'"]);
            rest = &rest[end + 2..];
            continue;
        }
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
        // A quote after a backslash does not close the quoted text.
        let length = if letter == '\\' && quote.is_some() {
            rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at)
        } else {
            letter.len_utf8()
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

fn number_of(value: &ExpressionValue<'_>) -> Option<f64> {
    match value {
        ExpressionValue::Integer(value) => Some(f64_of(*value)),
        ExpressionValue::Number(value) => Some(*value),
        ExpressionValue::Text(text) => parse_number(text),
        _ => None,
    }
}

/// The text of a value formatted as this type; `None` for null, and for non-numbers if a number is required.
fn text_of_value(value: &ExpressionValue<'_>, form: ValueType) -> Option<String> {
    if form != ValueType::AsIs {
        let number = number_of(value)?;
        let number = if form == ValueType::Integer { number.trunc() } else { number };
        let mut text = String::new();
        write_number(number, &mut text);
        return Some(text);
    }
    Some(match value {
        ExpressionValue::Null => return None,
        ExpressionValue::Bool(holds) => CONDITION_TEXTS[usize::from(!holds)].to_owned(),
        ExpressionValue::Integer(value) => {
            let mut text = String::new();
            write_integer(*value, &mut text);
            text
        }
        ExpressionValue::Number(value) => {
            let mut text = String::new();
            write_number(*value, &mut text);
            text
        }
        ExpressionValue::Time(time) => seconds_text(*time),
        ExpressionValue::Text(text) => text.clone().into_owned(),
        ExpressionValue::Multi(values) => values.join("\n"),
    })
}

impl Condition {
    /// Parses the condition.
    pub(crate) fn new(text: &str, compiler: Option<&dyn ExpressionCompiler>) -> Result<Condition, Fault> {
        Reader::new(text, compiler).map(Condition)
    }

    /// Whether the condition is true; null, false and zero do not count as true.
    pub(crate) fn is_true(&self, event: &TypedEvent, now: TimeNs) -> bool {
        match self.0.evaluate(event, now) {
            ExpressionValue::Bool(holds) => holds,
            value => number_of(&value).is_some_and(|number| number != 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_and_quotes_do_not_split() {
        assert_eq!(
            split("a=if(x,1,2), b := \"c,d\" , 'e,f'=g[1,2],").unwrap(),
            ["a=if(x,1,2)", "b := \"c,d\"", "'e,f'=g[1,2]"]
        );
        assert!(split("a=(1").is_err() && split("a=1)").is_err() && split("a=\"1").is_err());
    }

    #[test]
    fn marked_names_are_quoted() {
        assert_eq!(quote_names("$mv:a b$ + len(\"$mv:x$\") . $x$"), "'$mv:a b$' + len(\"$mv:x$\") . $x$");
    }

    #[test]
    fn names_may_end_in_a_type() {
        assert_eq!(split_type("a[int]").unwrap(), ("a", ValueType::Integer));
        assert_eq!(split_type("a[float-sf]").unwrap(), ("a", ValueType::Number));
        assert!(split_type("a[date]").is_err());
    }
}
