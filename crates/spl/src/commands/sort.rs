//! `sort`: sorts rows by fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser, Word};

/// Rows kept when no number is given.
pub const DEFAULT_LIMIT: usize = 10_000;

const OPTIONS: OptionNames = OptionNames::new("sort", &["limit"]);

/// `sort [N] KEY...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SortCommand {
    /// Rows kept (default 10,000); 0 for all.
    pub limit: usize,
    /// Whether the search contains a limit.
    pub has_limit: bool,
    /// Keys, most significant first.
    pub keys: Vec<SortKey>,
    /// Trailing `desc`/`d`: reverses the whole order.
    pub reverse: bool,
}

/// One sort key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SortKey {
    /// Field name.
    pub field: FieldPattern,
    /// Descending order (`-`).
    pub descending: bool,
    /// Comparison of values.
    pub kind: SortKind,
}

/// `auto()`, `num()`, `ip()`, `str()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SortKind {
    /// Numbers numerically, addresses as addresses, everything else as text.
    Auto,
    /// Numerically.
    Num,
    /// As IP addresses.
    Ip,
    /// As text.
    Str,
}

impl Syntax for SortCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "sort [N] [+|-]FIELD... [desc]",
        summary: "Sorts rows",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SortCommand> {
        let mut limit = parser.whole_number();
        while let Some(option) = parser.option(OPTIONS)? {
            limit = Some(option.number()?);
        }
        let (keys, reverse) = parser.sort_keys("sort")?;
        while let Some(option) = parser.option(OPTIONS)? {
            limit = Some(option.number()?);
        }
        Ok(SortCommand { limit: limit.unwrap_or(DEFAULT_LIMIT), has_limit: limit.is_some(), keys, reverse })
    }
}

impl Semantics for SortCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(self.keys.iter().map(|key| &key.field));
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn find_lints(&self, _: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        if let Some(last) = self.keys.iter().skip(1).next_back().filter(|last| is_direction(&last.field.text)) {
            let remark = format!("`{}` is read as a field", last.field.text);
            let hint = "write `desc` at the end to reverse the order, or `sort -FIELD`";
            found.push(Diagnostic::warning(remark, last.field.span).with_hint(hint));
        }
        let Some(by) = self.keys.iter().find(|key| key.field.text == "by") else { return };
        let keys = self.keys.iter().filter(|key| key.field.text != "by");
        let written: Vec<String> =
            keys.map(|key| format!("{}{}", if key.descending { "-" } else { "" }, key.field.text)).collect();
        if !written.is_empty() {
            let hint = format!("write `sort {}`", written.join(" "));
            found.push(Diagnostic::warning("`by` is read as a field", by.field.span).with_hint(hint));
        }
    }
}

/// Whether a name is the word for a direction, ignoring case.
fn is_direction(name: &str) -> bool {
    ["asc", "ascending", "desc", "descending"].iter().any(|word| word.eq_ignore_ascii_case(name))
}

impl Parser<'_> {
    /// Parses sort keys up to an option or the end of the command; also returns whether a trailing `d` or `desc`
    /// reverses the order.
    ///
    /// A sign joined to a field applies to that field; a separate sign applies to the fields after it.
    pub(crate) fn sort_keys(&mut self, command: &str) -> ParseResult<(Vec<SortKey>, bool)> {
        let mut keys: Vec<SortKey> = Vec::new();
        let mut descending_after = false;
        loop {
            self.skip_separators();
            if self.at_end() || self.peek_option().is_some() {
                break;
            }
            let mut descending = descending_after;
            if let Some(sign @ ('-' | '+')) = self.peek() {
                self.bump();
                descending = sign == '-';
                if self.peek().is_some_and(|c| c.is_whitespace() || c == ',') {
                    descending_after = descending;
                    continue;
                }
            }
            if !keys.is_empty() && matches!(self.rest().trim(), "d" | "desc") {
                self.pos = self.end;
                return Ok((keys, true));
            }
            let (field, kind) = self.sort_field()?;
            keys.push(SortKey { field, descending, kind });
        }
        if keys.is_empty() {
            return Err(Diagnostic::error(format!("{command}: no field to sort by"), self.here()));
        }
        Ok((keys, false))
    }

    /// Parses `field` or `num(field)`.
    fn sort_field(&mut self) -> ParseResult<(FieldPattern, SortKind)> {
        for (name, kind) in
            [("auto", SortKind::Auto), ("num", SortKind::Num), ("ip", SortKind::Ip), ("str", SortKind::Str)]
        {
            let place = self.pos;
            if self.peek_name().eq_ignore_ascii_case(name) {
                self.pos += name.len();
                if self.eat('(') {
                    let field = self.sort_argument()?;
                    self.expect(')', "after the field")?;
                    return Ok((field, kind));
                }
            }
            self.pos = place;
        }
        Ok((self.expect_field("a field to sort by")?.field(), SortKind::Auto))
    }

    fn sort_argument(&mut self) -> ParseResult<FieldPattern> {
        self.skip_blank();
        if let Some(word) = self.eat_quoted().or_else(|| self.eat_single_quoted()) {
            return Ok(word.field());
        }
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(')').unwrap_or(rest.len());
        let span = self.since(start);
        if span.start == span.end {
            return Err(Diagnostic::error("sort: a field is missing in the parentheses", self.here()));
        }
        Ok(Word { text: self.text[span.start..span.end].to_owned(), quoted: false, span }.field())
    }
}
