//! `regex`: keeps the rows whose field matches a regular expression.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::ast::Pattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser, Word};

/// `regex [FIELD=|FIELD!=]"REGEX"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegexCommand {
    /// Field tested; default `_raw`.
    pub field: String,
    /// `!=`: whether matching rows are dropped rather than kept.
    pub negated: bool,
    /// Pattern, unanchored.
    pub pattern: Pattern,
}

impl Syntax for RegexCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "regex [FIELD=|FIELD!=]\"REGEX\"",
        summary: "Keeps rows that match a regular expression",
        group: Group::Searching,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<RegexCommand> {
        parser.skip_blank();
        let place = parser.pos;
        let (mut field, mut negated) = (RAW.to_owned(), false);
        let name = match parser.eat_quoted() {
            Some(word) => Some(word.text),
            None => {
                let rest = parser.rest();
                let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '{' | '}' | '@');
                let length = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
                parser.pos += length;
                (length > 0).then(|| rest[..length].to_owned())
            }
        };
        parser.skip_blank();
        match (name, parser.peek(), parser.peek_second()) {
            (Some(name), Some('='), _) => {
                parser.bump();
                field = name;
            }
            (Some(name), Some('!'), Some('=')) => {
                parser.pos += "!=".len();
                (field, negated) = (name, true);
            }
            _ => parser.pos = place,
        }
        parser.skip_blank();
        let start = parser.pos;
        let pattern = parser.eat_quoted().unwrap_or_else(|| {
            parser.pos = parser.end;
            let span = parser.since(start);
            Word { text: parser.text[span.start..span.end].to_owned(), quoted: false, span }
        });
        if pattern.text.is_empty() {
            let remark = Diagnostic::error("regex: no regular expression is given", parser.here());
            return Err(remark.with_hint("write `regex field=\"...\"`"));
        }
        Ok(RegexCommand { field, negated, pattern: pattern.into() })
    }
}

impl Semantics for RegexCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        Some(Vec::new())
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    /// `field~"x"` and `field "x"` are read as one pattern on the whole text.
    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        let Pattern { text, span } = &self.pattern;
        let is_quoted = place.text.get(span.start..).is_some_and(|text| text.starts_with('"'));
        let (words, value) = text.split_at(text.find(['~', '"']).unwrap_or(0));
        let is_name = |word: &str| word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
        if let Some(name) = words.split_whitespace().next_back().filter(|_| words.split_whitespace().all(is_name))
            && !is_quoted
        {
            let value = value.trim_start_matches(['~', '=']);
            let remark = Diagnostic::warning(format!("`{text}` is read as one regular expression"), *span);
            found.push(remark.with_hint(format!("write regex {name}=\"{}\"", value.trim().trim_matches('"'))));
        }
    }
}
