//! SPL parser: turns text into a syntax tree and diagnostics, and computes the fields that a search needs from the
//! event scan.
//!
//! [`parse()`] never fails and never panics: it returns what it could parse and a list of [`Diagnostic`]s, each with
//! its position in the text. Not here: execution.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod analyse;
pub mod ast;
pub mod capabilities;
mod check;
pub mod commands;
mod condition_text;
pub mod dependencies;
mod diagnostic;
pub mod editing;
mod foreign_words;
pub mod functions;
mod lints;
pub mod macros;
mod missing_pipe;
mod parse;
mod spl_text;

pub use check::{parse, parse_commands, parse_with_commands, parse_with_unknown_macros};
pub use condition_text::condition_text;
pub use diagnostic::{Diagnostic, MESSAGE_BYTES_MAX, Severity, closest_name, excerpt, first_fault, truncate_message};
pub use parse::{
    MAX_COMMANDS, MAX_NESTING, MAX_SEARCH_BYTES, MAX_SUBSEARCH_DEPTH, ParsedSearch, is_part_of_command,
    parse_arguments, parse_condition, parse_expression,
};
