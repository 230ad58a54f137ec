//! Reading a search for whoever wrote it: parsed, and with warnings of what runs but was hardly meant.

use std::collections::BTreeSet;

use crate::lints::lints;
use crate::parse::{self, MAX_DIAGNOSTICS, Parsed, with_stack};

/// Reads a search. Never fails: faults are in [`Parsed::diagnostics`].
pub fn parse(text: &str) -> Parsed {
    with_lints(parse::parse(text), text)
}

/// Reads a search that may use commands of apps, whose lower-case names are given.
pub fn parse_with_commands(text: &str, custom: &BTreeSet<String>) -> Parsed {
    with_lints(parse::parse_with_commands(text, custom), text)
}

/// Reads a search in which macros that are not there stay: a command that has one is taken as it stands, without the
/// faults that come of the missing part.
pub fn parse_with_stand_ins(text: &str) -> Parsed {
    with_lints(parse::parse_with_stand_ins(text), text)
}

/// Adds the warnings, where the search can run.
fn with_lints(mut parsed: Parsed, text: &str) -> Parsed {
    if parsed.is_ok() {
        let room = MAX_DIAGNOSTICS.saturating_sub(parsed.diagnostics.len());
        parsed.diagnostics.extend(with_stack(|| lints(text, &parsed.pipeline)).into_iter().take(room));
        parsed.diagnostics.sort_by_key(|remark| remark.span.start);
    }
    parsed
}
