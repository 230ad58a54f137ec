//! `script`, `run` and the commands of apps: pass rows through a program.
//!
//! All text up to the end of the command is its arguments, which the program parses. The parser receives the names of
//! apps' commands from its caller.

use serde::{Deserialize, Serialize};

use super::{CUSTOM_CAPABILITY, Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Span;
use crate::parse::{ParseResult, Parser, quoted_len};

/// A command that runs a program of an app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomCommand {
    /// Name in lower case: `script`, `run` or the name of an app's command.
    pub name: String,
    /// Arguments, split at blanks outside quotes, without the quotes.
    pub arguments: Vec<String>,
    /// Arguments with their quotes.
    pub raw_arguments: Vec<String>,
    /// Whether this is the first command, which must generate rows.
    pub is_first: bool,
    /// Position in the text.
    pub span: Span,
}

impl Syntax for CustomCommand {
    const INFO: CommandInfo = CommandInfo {
        aliases: &["run"],
        syntax: "script [python|perl] NAME [ARGUMENT...]",
        summary: "Passes the rows through a program of an app",
        group: Group::Storing,
        capability: Some(CUSTOM_CAPABILITY),
        kind: Kind::Generating,
        returns_table: true,
        has_own_keywords: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<CustomCommand> {
        let start = parser.pos;
        let raw_arguments = split(&parser.text[start..parser.end]);
        parser.pos = parser.end;
        let arguments = raw_arguments.iter().map(|argument| unquote(argument)).collect();
        let (name, span) = (call.name.to_owned(), parser.since(start));
        Ok(CustomCommand { name, arguments, raw_arguments, is_first: call.is_first, span })
    }
}

impl Semantics for CustomCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        Some(Effect::Other)
    }

    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        // Only the program knows the fields that it reads and creates.
        FieldNeeds::all_fields()
    }

    fn kind(&self, declared: Kind) -> Kind {
        match self.is_first {
            true => declared,
            false => Kind::Blocking,
        }
    }

    fn name<'a>(&'a self, _: &'a str) -> &'a str {
        &self.name
    }
}

/// Splits the text at blanks outside quotes.
fn split(text: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut current = String::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let length = match next {
            '"' => quoted_len(&text[at..]).unwrap_or(text.len() - at),
            _ => next.len_utf8(),
        };
        if !next.is_whitespace() {
            current.push_str(&text[at..at + length]);
        } else if !current.is_empty() {
            arguments.push(std::mem::take(&mut current));
        }
        at += length;
    }
    if !current.is_empty() {
        arguments.push(current);
    }
    arguments
}

/// Removes quotes and resolves `\"` and `\\` inside them.
fn unquote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(next) = characters.next() {
        match next {
            '"' => is_quoted = !is_quoted,
            '\\' if is_quoted => match characters.next_if(|escaped| matches!(escaped, '"' | '\\')) {
                Some(escaped) => out.push(escaped),
                None => out.push('\\'),
            },
            _ => out.push(next),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_at_blanks_outside_quotes() {
        let raw = split(" a  b=\"c d\" \"e \\\"f\\\"\" g=h\\n ");
        assert_eq!(raw, ["a", "b=\"c d\"", "\"e \\\"f\\\"\"", "g=h\\n"]);
        assert_eq!(raw.iter().map(|text| unquote(text)).collect::<Vec<_>>(), ["a", "b=c d", "e \"f\"", "g=h\\n"]);
    }
}
