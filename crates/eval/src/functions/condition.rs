//! Conditions and type tests.

use quarry_event::time::NS_PER_SEC;
use quarry_event::value::Number;
use quarry_spl::ast::CompareOp;

use super::call::{Call, FunctionImpl, Prepared, any_text, take};
use super::network::Network;
use crate::expr::compare_values;
use crate::pattern::{LikePattern, Regex};
use crate::rows::Value;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("match", match_regex),
    ("like", like),
    ("cidrmatch", cidrmatch),
    ("nullif", nullif),
    ("isnum", |args, _| Value::Bool(args.first().is_some_and(is_number))),
    ("isint", |args, _| Value::Bool(args.first().is_some_and(is_integer))),
    ("isdouble", |args, _| Value::Bool(args.first().is_some_and(|value| is_number(value) && !is_integer(value)))),
    ("isstr", |args, _| Value::Bool(args.first().is_some_and(is_text))),
    ("isbool", |args, _| Value::Bool(matches!(args.first(), Some(Value::Bool(_))))),
    ("ismv", |args, _| Value::Bool(matches!(args.first(), Some(Value::Multi(_))))),
    ("typeof", type_of),
    ("tobool", to_bool),
    ("ipmask", ip_mask),
];

fn match_regex<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let subject = take(args, 0);
    if let Prepared::Regex(regex) = call.prepared {
        return any_text(&subject, |text| regex.is_match(text));
    }
    let Some(Ok(regex)) = take(args, 1).text().map(|pattern| Regex::new(&pattern)) else { return Value::Null };
    any_text(&subject, |text| regex.is_match(text))
}

fn like<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let subject = take(args, 0);
    if let Prepared::Like(pattern) = call.prepared {
        return any_text(&subject, |text| pattern.is_match(text));
    }
    let pattern = take(args, 1);
    let Some(pattern) = pattern.text() else { return Value::Null };
    let pattern = LikePattern::new(&pattern);
    any_text(&subject, |text| pattern.is_match(text))
}

fn cidrmatch<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let address = take(args, 1);
    let network = match call.prepared {
        Prepared::Network(network) => Some(*network),
        _ => take(args, 0).text().and_then(|text| Network::parse(&text)),
    };
    let Some(network) = network else { return Value::Null };
    any_text(&address, |text| network.contains(text))
}

fn nullif<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let (value, other) = (take(args, 0), take(args, 1));
    if compare_values(CompareOp::Eq, &value, &other) == Some(true) { Value::Null } else { value }
}

fn is_number(value: &Value<'_>) -> bool {
    value.number().is_some()
}

fn is_integer(value: &Value<'_>) -> bool {
    match value.exact_number() {
        Some(Number::Int(_)) => true,
        Some(Number::Float(value)) => value.fract() == 0.0,
        Some(Number::Nanos(ns)) => ns % NS_PER_SEC == 0,
        None => false,
    }
}

fn is_text(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(_)) && !is_number(value)
}

fn type_of<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    Value::borrowed_text(match args.first() {
        None | Some(Value::Null) => "Invalid",
        Some(Value::Bool(_)) => "Boolean",
        Some(Value::Multi(_)) => "Multivalue",
        Some(value) if is_number(value) => "Number",
        Some(_) => "String",
    })
}

/// `tobool`: conditions are returned as they are, texts are parsed, numbers are true unless zero.
fn to_bool<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let value = take(args, 0);
    if let Value::Bool(_) = value {
        return value;
    }
    if let Some(number) = value.number() {
        return Value::Bool(number != 0.0);
    }
    match value.text().map(|text| text.trim().to_ascii_lowercase()).as_deref() {
        Some("true" | "t" | "yes") => Value::Bool(true),
        Some("false" | "f" | "no") => Value::Bool(false),
        _ => Value::Null,
    }
}

/// `ipmask`: applies a mask to an IPv4 address.
fn ip_mask<'a>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    let address = |at: usize| args.get(at)?.text()?.trim().parse::<std::net::Ipv4Addr>().ok();
    let (Some(mask), Some(address)) = (address(0), address(1)) else { return Value::Null };
    Value::owned_text(std::net::Ipv4Addr::from(u32::from(mask) & u32::from(address)).to_string())
}
