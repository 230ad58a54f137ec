//! Implementations of eval functions, one per name, in static tables. Names, arguments, result types and volatility
//! are in the tables of [`quarry_spl::functions`].
//!
//! A function receives the values of its arguments and returns a value; unchanged text stays borrowed. If an argument
//! is null, the result is null unless the function's documentation says otherwise. Constant patterns and formats are
//! passed precompiled ([`Prepared`]).
//!
//! Not here: functions that choose which arguments to evaluate (`if`, `case`, `mvmap`...); they are nodes of
//! [`crate::expr`].

mod call;
mod condition;
mod crypto;
mod json;
pub mod json_tree;
mod math;
mod multivalue;
mod network;
mod printf;
pub mod significant_figures;
mod statistics;
pub mod table;
mod text;
pub mod time;
pub mod xml;

use quarry_event::time::Format;
use quarry_spl::functions::eval_function;
use quarry_stdx::Fault;

use crate::pattern::{LikePattern, Regex, Replacement};
use crate::rows::Value;

pub use call::{Call, CallState, Function, FunctionImpl, PRINTF_WIDTH_MAX, Prepared, VALUES_MAX};
pub use network::Network;
pub use text::percent_decode;

/// All implementations with their function names.
fn bodies() -> impl Iterator<Item = &'static (&'static str, FunctionImpl)> {
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

/// The function of this name; `None` for a function that is a node of [`crate::expr`], such as `if`.
pub fn find(name: &str) -> Option<Function> {
    let (_, run) = bodies().find(|(known, _)| *known == name)?;
    Some(Function { row: eval_function(name)?, run: *run })
}

/// Compiles the constant arguments of a call; the error is a message for the user.
pub fn prepare(name: &str, args: &[Option<&Value<'static>>]) -> Result<Prepared, Fault> {
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
                let format = Format::new(&format).map_err(|error| Fault::invalid(format!("strptime(): {error}")))?;
                Prepared::Format(Box::new(format))
            }
            None => Prepared::Nothing,
        },
        "cidrmatch" => match text(0) {
            Some(network) => {
                let wrong = || format!("cidrmatch(): '{network}' is not a network; write it like 10.0.0.0/8");
                Prepared::Network(Network::parse(&network).ok_or_else(|| Fault::invalid(wrong()))?)
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

fn compile(name: &str, pattern: &str) -> Result<Regex, Fault> {
    Regex::new(pattern).map_err(|fault| fault.with_context(format_args!("{name}()")))
}

#[cfg(test)]
mod tests;
