//! Functions of eval and stats: one table row for each, with name, arguments, help line and planner properties.
//!
//! The parser checks calls against these rows, help pages and completion read them, and the cache of partial states
//! skips results of functions whose value may change. The functions are implemented in `crates/eval`.

mod eval;
mod stats;

pub use eval::{EVAL_FUNCTIONS, EvalFunction, ResultType, Volatility, eval_function};
pub use stats::{
    DependsOn, PercentileKind, PercentileMethod, STATS_FUNCTIONS, StatsFunction, StatsRow, stats_function,
};

/// Description of a function for help and for the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionHelp {
    /// Name in lower case, with which `syntax` begins.
    pub name: &'static str,
    /// Number of arguments.
    pub arity: Arity,
    /// Syntax of a call.
    pub syntax: &'static str,
    /// Description of the result in one line.
    pub summary: &'static str,
}

/// Number of arguments that a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    /// Minimum.
    pub min: usize,
    /// Maximum; `None` is unlimited.
    pub max: Option<usize>,
}

impl FunctionHelp {
    /// Describes the function whose name is at the start of `syntax`.
    const fn new(syntax: &'static str, arity: Arity, summary: &'static str) -> FunctionHelp {
        let mut name_len = 0;
        while matches!(syntax.as_bytes()[name_len], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            name_len += 1;
        }
        FunctionHelp { name: syntax.split_at(name_len).0, arity, syntax, summary }
    }
}

const fn exactly(count: usize) -> Arity {
    Arity { min: count, max: Some(count) }
}

const fn between(least: usize, most: usize) -> Arity {
    Arity { min: least, max: Some(most) }
}

const fn at_least(least: usize) -> Arity {
    Arity { min: least, max: None }
}

impl Arity {
    /// Whether a call may have this many arguments.
    pub fn allows(self, count: usize) -> bool {
        count >= self.min && self.max.is_none_or(|most| count <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_found() {
        let of_eval = EVAL_FUNCTIONS.iter().map(|function| function.help).collect::<Vec<_>>();
        let of_stats = STATS_FUNCTIONS.iter().map(|function| function.help).collect();
        for table in [of_eval, of_stats] {
            assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name));
            assert!(table.iter().all(|row| row.arity.allows(row.arity.min)));
        }
        assert!(EVAL_FUNCTIONS.iter().all(|row| eval_function(row.help.name) == Some(row)));
        assert!(STATS_FUNCTIONS.iter().all(|row| stats_function(row.help.name) == Some(row)));
        assert_eq!(eval_function("nope"), None);
    }
}
