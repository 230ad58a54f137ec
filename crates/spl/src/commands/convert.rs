//! `convert`: converts field values between notations.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser, Word};

/// Default format of dates for convert.
const DEFAULT_TIME_FORMAT: &str = "%m/%d/%Y %H:%M:%S";

const OPTIONS: OptionNames = OptionNames::new("convert", &["timeformat"]);

/// Functions of convert by name.
const CONVERSIONS: &[(&str, ConvertFunction)] = &[
    ("auto", ConvertFunction::Auto),
    ("ctime", ConvertFunction::CTime),
    ("dur2sec", ConvertFunction::Dur2Sec),
    ("memk", ConvertFunction::MemK),
    ("mktime", ConvertFunction::MkTime),
    ("mstime", ConvertFunction::MsTime),
    ("none", ConvertFunction::None),
    ("num", ConvertFunction::Num),
    ("rmcomma", ConvertFunction::RmComma),
    ("rmunit", ConvertFunction::RmUnit),
];

/// `convert`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvertCommand {
    /// `timeformat=`: format of dates.
    pub time_format: String,
    /// Conversions in order.
    pub conversions: Vec<Conversion>,
}

/// One `function(FIELD) [AS NEW]` of convert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversion {
    /// Conversion function.
    pub function: ConvertFunction,
    /// Field that is read.
    pub field: FieldPattern,
    /// Output field; the input field if absent.
    pub output: Option<FieldPattern>,
}

/// Functions of convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConvertFunction {
    /// To a number by the conversion that fits all values.
    Auto,
    /// Seconds since the epoch to a date.
    CTime,
    /// `[D+]HH:MM:SS` to seconds.
    Dur2Sec,
    /// `10k`, `3m`, `2g` to kilobytes.
    MemK,
    /// A date to seconds since the epoch.
    MkTime,
    /// `[MM:]SS.SSS` to seconds.
    MsTime,
    /// Excludes fields from the wildcards of other conversions.
    None,
    /// To a number, or null.
    Num,
    /// Drops commas.
    RmComma,
    /// Removes everything after a leading number.
    RmUnit,
}

impl Syntax for ConvertCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "convert [timeformat=] FUNCTION(FIELD) [AS NEW]...",
        summary: "Converts field values between notations",
        group: Group::Fields,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ConvertCommand> {
        let mut command = ConvertCommand { time_format: DEFAULT_TIME_FORMAT.to_owned(), conversions: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                command.time_format = option.value;
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            command.conversions.push(parser.conversion()?);
        }
        if command.conversions.is_empty() {
            let remark = Diagnostic::error("convert: no conversion is given", parser.here());
            return Err(remark.with_hint("write `convert ctime(field)`"));
        }
        Ok(command)
    }
}

impl Semantics for ConvertCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        // A wildcard may match more fields than are needed, which only costs time.
        after.add_all(self.conversions.iter().map(|conversion| &conversion.field));
        after
    }

    fn kind(&self, declared: Kind) -> Kind {
        if self.is_automatic() { declared } else { Kind::Row }
    }
}

impl ConvertCommand {
    /// Whether a conversion is chosen by looking at all values of its field.
    pub fn is_automatic(&self) -> bool {
        self.conversions.iter().any(|conversion| conversion.function == ConvertFunction::Auto)
    }
}

impl Parser<'_> {
    /// Parses `function(field) [AS new]`.
    fn conversion(&mut self) -> ParseResult<Conversion> {
        let start = self.pos;
        let written = self.peek_name();
        self.pos += written.len();
        let known = CONVERSIONS.iter().find(|(name, _)| written.eq_ignore_ascii_case(name));
        let Some((name, function)) = known else {
            let span = if written.is_empty() { self.here() } else { self.since(start) };
            let message = match written {
                "" => format!("convert: expected a function, found {}", self.found_text()),
                written => format!("convert: unknown function `{written}`"),
            };
            let names = CONVERSIONS.iter().map(|(name, _)| *name);
            return Err(self.suggest(Diagnostic::error(message, span), written, names));
        };
        let field = self.converted_field(start, name)?;
        let output = if self.eat_keyword("as") { Some(self.expect_field("a name after AS")?.field()) } else { None };
        if let Some(output) = &output {
            let stars = |pattern: &FieldPattern| pattern.text.matches('*').count();
            if stars(&field) != stars(output) {
                let message = format!("convert: `{}` and `{}` differ in their number of `*`", field.text, output.text);
                return Err(Diagnostic::error(message, output.span));
            }
        }
        Ok(Conversion { function: *function, field, output })
    }

    /// Parses the argument of a conversion in parentheses; `()` and `auto` alone mean every field.
    fn converted_field(&mut self, start: usize, name: &str) -> ParseResult<FieldPattern> {
        let all = |parser: &Self| FieldPattern { text: "*".to_owned(), span: parser.since(start) };
        if !self.eat('(') {
            if name == "auto" && (self.at_end() || self.peek().is_some_and(|next| next.is_whitespace() || next == ','))
            {
                return Ok(all(self));
            }
            self.expect('(', &format!("after `{name}`"))?;
        }
        self.skip_blank();
        if self.eat(')') { Ok(all(self)) } else { self.field_in_parentheses() }
    }

    /// Parses a field and its closing parenthesis.
    fn field_in_parentheses(&mut self) -> ParseResult<FieldPattern> {
        self.skip_blank();
        let field = match self.eat_quoted().or_else(|| self.eat_single_quoted()) {
            Some(word) => word.field(),
            None => {
                let start = self.pos;
                let rest = self.rest();
                self.pos += rest.find(')').unwrap_or(rest.len());
                let span = self.since(start);
                Word { text: self.text[span.start..span.end].to_owned(), quoted: false, span }.field()
            }
        };
        if field.text.is_empty() {
            return Err(Diagnostic::error("convert: a field is missing in the parentheses", self.here()));
        }
        self.expect(')', "after the field")?;
        Ok(field)
    }
}
