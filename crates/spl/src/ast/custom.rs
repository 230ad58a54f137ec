//! Syntax of commands that apps bring along: the name, and its arguments as written.

use super::Span;

/// A command of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomCommand {
    /// Name, lower-cased.
    pub name: String,
    /// Arguments, split at blanks outside quotes, quotes taken away.
    pub arguments: Vec<String>,
    /// The same with their quotes.
    pub raw_arguments: Vec<String>,
    /// Whether it stands first and has to make its rows.
    pub is_first: bool,
    /// Place in the text.
    pub span: Span,
}
