//! `name=value` options, shared by all commands.
//!
//! A command declares the options it knows in one place and then reads one option after another. Unknown options are
//! reported with a suggestion and skipped, so that a typing error does not hide later errors.

use std::str::FromStr;

use quarry_event::time::Span as TimeSpan;

use super::cursor::{ParseResult, Parser};
use crate::ast::{Span, SubsearchLimits};
use crate::diagnostic::Diagnostic;

/// One option as written.
#[derive(Clone, Debug)]
pub(crate) struct OptionArg {
    /// Name in lower case.
    pub(crate) name: String,
    /// Value, unquoted.
    pub(crate) value: String,
    /// Position of the name.
    pub(crate) name_span: Span,
    /// Position of the value.
    pub(crate) value_span: Span,
}

impl OptionArg {
    /// Converts a setting to an option.
    pub(crate) fn of(name: &str, value: &str) -> OptionArg {
        let place = Span::default();
        OptionArg { name: name.to_owned(), value: value.to_owned(), name_span: place, value_span: place }
    }

    fn value_error(&self, wants: &str) -> Diagnostic {
        Diagnostic::error(format!("`{}` expects {wants}, got `{}`", self.name, self.value), self.value_span)
    }

    /// Parses `t`, `true`, `1`, `yes` and their opposites.
    pub(crate) fn boolean(&self) -> ParseResult<bool> {
        match self.value.to_ascii_lowercase().as_str() {
            "t" | "true" | "1" | "yes" | "y" => Ok(true),
            "f" | "false" | "0" | "no" | "n" => Ok(false),
            _ => Err(self.value_error("true or false")),
        }
    }

    /// A number of this type, such as an integer or a float.
    pub(crate) fn number<T: FromStr>(&self) -> ParseResult<T> {
        self.value.parse().map_err(|_| self.value_error("a number"))
    }

    pub(crate) fn time_span(&self) -> ParseResult<TimeSpan> {
        TimeSpan::parse(&self.value)
            .map_err(|error| self.value_error("a span of time such as 5m").with_hint(error.to_string()))
    }

    /// An error about the value; `wants` describes valid values. If `wants` lists values, the closest one is suggested.
    pub(crate) fn invalid_value(&self, wants: &str) -> Diagnostic {
        let words = wants.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| word.len() > 1);
        self.value_error(wants)
            .suggest(&self.value, words.filter(|word| !matches!(*word, "or" | "and" | "such" | "as")))
    }
}

/// Options that a command reads or skips; other options are errors.
#[derive(Clone, Copy)]
pub(crate) struct OptionNames {
    /// The command, for messages.
    pub(crate) command: &'static str,
    /// Options that the command reads.
    pub(crate) names: &'static [&'static str],
    /// Options that have no effect and are skipped.
    pub(crate) ignored: &'static [&'static str],
}

impl OptionNames {
    pub(crate) const fn new(command: &'static str, names: &'static [&'static str]) -> OptionNames {
        OptionNames { command, names, ignored: &[] }
    }

    /// Also skips options of these names.
    pub(crate) const fn ignoring(self, ignored: &'static [&'static str]) -> OptionNames {
        OptionNames { ignored, ..self }
    }
}

impl SubsearchLimits {
    /// Applies an option: `maxout=`, `maxtime=`, `timeout=` or `extendtimerange=`.
    pub(crate) fn take(&mut self, option: &OptionArg) -> ParseResult<()> {
        match option.name.as_str() {
            "maxout" => self.max_out = Some(option.number()?),
            "timeout" => self.timeout_s = Some(option.number()?),
            "extendtimerange" => self.extends_time = option.boolean()?,
            _ => self.max_time_s = Some(option.number()?),
        }
        Ok(())
    }
}

impl Parser<'_> {
    /// The name of the option at the cursor, if `name=` or `name =` is next.
    pub(crate) fn peek_option(&mut self) -> Option<&str> {
        self.skip_blank();
        let name = self.peek_name();
        let after = self.rest()[name.len()..].trim_start();
        let is_option = !name.is_empty() && after.starts_with('=') && !after.starts_with("==");
        is_option.then_some(name)
    }

    /// Reads the option at the cursor. Must be called only if [`Parser::peek_option`] returned one.
    pub(crate) fn read_option(&mut self) -> ParseResult<OptionArg> {
        self.skip_blank();
        self.read_option_of(self.peek_name().len())
    }

    /// Like [`Parser::read_option`], with a name of this many bytes.
    pub(crate) fn read_option_of(&mut self, length: usize) -> ParseResult<OptionArg> {
        let start = self.pos;
        let name = self.text[start..start + length].to_ascii_lowercase();
        self.pos += length;
        let name_span = self.since(start);
        self.expect('=', "after the name of the option")?;
        self.skip_blank();
        let value_start = self.pos;
        let value = match self.eat_quoted() {
            Some(word) => word.text,
            None => self.bare_value(),
        };
        if self.pos == value_start {
            return Err(Diagnostic::error(format!("`{name}` has no value"), name_span));
        }
        Ok(OptionArg { name, value, name_span, value_span: self.since(value_start) })
    }

    /// An unquoted value: up to the next blank, bracket or `|`, or to a comma after its first character.
    fn bare_value(&mut self) -> String {
        let rest = self.rest();
        let length = rest
            .char_indices()
            .find(|(offset, c)| c.is_whitespace() || matches!(c, '[' | ']' | '|') || (*offset > 0 && *c == ','))
            .map_or(rest.len(), |(offset, _)| offset);
        self.pos += length;
        rest[..length].to_owned()
    }

    /// Reads the next option that the command knows. Unknown options are reported, ignored options skipped.
    pub(crate) fn option(&mut self, known: OptionNames) -> ParseResult<Option<OptionArg>> {
        loop {
            let place = self.pos;
            self.skip_separators();
            if self.peek_option().is_none() {
                self.pos = place;
                return Ok(None);
            }
            let option = self.read_option()?;
            if known.names.contains(&option.name.as_str()) {
                return Ok(Some(option));
            }
            if !known.ignored.contains(&option.name.as_str()) {
                self.report_unknown_option(known, &option);
            }
        }
    }

    pub(crate) fn report_unknown_option(&mut self, known: OptionNames, option: &OptionArg) {
        let message = format!("{}: unknown option `{}`", known.command, option.name);
        let remark = Diagnostic::error(message, option.name_span);
        let mut remark = self.suggest(remark, &option.name, known.names.iter().copied());
        if remark.hint.is_none() && option.name == "span" {
            let command = known.command;
            remark = remark.with_hint(format!("write `bin _time span=... | {command} ...`, or use timechart"));
        } else if remark.hint.is_none() && !known.names.is_empty() {
            let names: Vec<String> = known.names.iter().map(|name| format!("{name}=")).collect();
            remark = remark.with_hint(format!("{} has {}", known.command, names.join(", ")));
        }
        self.report(remark);
        self.report_unsupported(format!("option:{}:{}", known.command, option.name));
    }
}
