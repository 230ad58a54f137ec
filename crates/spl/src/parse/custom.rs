//! Commands of apps: everything up to the end of the command is arguments, which the app's program reads.

use super::cursor::Parser;
use super::quoted_len;
use crate::ast::{Command, CustomCommand};

/// Commands whose first argument names a program.
const RUN_PROGRAMS: [&str; 2] = ["run", "script"];

impl Parser<'_> {
    /// A command that an app brings along; `None` when there is none of this name.
    pub(crate) fn custom_command(&mut self, name: &str, first: bool) -> Option<Command> {
        if !self.custom.contains(name) && !RUN_PROGRAMS.contains(&name) {
            return None;
        }
        let start = self.pos;
        let raw_arguments = split(&self.text[start..self.end]);
        self.pos = self.end;
        let arguments = raw_arguments.iter().map(|argument| unquoted(argument)).collect();
        let (name, span) = (name.to_owned(), self.since(start));
        Some(Command::Custom(CustomCommand { name, arguments, raw_arguments, is_first: first, span }))
    }
}

/// The text cut at blanks outside quotes.
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

/// The text without its quotes; `\"` and `\\` in quotes are what they stand for.
fn unquoted(text: &str) -> String {
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
        assert_eq!(raw.iter().map(|text| unquoted(text)).collect::<Vec<_>>(), ["a", "b=c d", "e \"f\"", "g=h\\n"]);
    }
}
