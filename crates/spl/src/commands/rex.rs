//! `rex`: extracts fields with the named groups of a regular expression, or rewrites values with sed commands.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::ast::{Pattern, Span};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser, Word};

const OPTIONS: OptionNames = OptionNames::new("rex", &["field", "max_match", "offset_field", "mode"]);

/// `rex`, in one of its modes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RexCommand {
    /// Extracts fields.
    Extract(RexExtraction),
    /// `mode=sed`: rewrites a field.
    Sed(SedCommand),
}

/// `rex [field=FIELD] "REGEX"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RexExtraction {
    /// Field read; default `_raw`.
    pub field: String,
    /// Pattern with named groups.
    pub pattern: Pattern,
    /// Names of the pattern's groups, in order.
    pub groups: Vec<String>,
    /// `max_match=` (default `1`): maximum number of matches; 0 is unlimited.
    pub max_match: usize,
    /// `offset_field=`: field with the positions of the matches.
    pub offset_field: Option<String>,
}

/// `rex mode=sed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SedCommand {
    /// Field rewritten; default `_raw`.
    pub field: String,
    /// Sed commands in order.
    pub edits: Vec<SedEdit>,
}

/// One sed command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SedEdit {
    /// `s/pattern/replacement/flags`.
    Substitute {
        /// Pattern; flag `i` becomes `(?i)`.
        pattern: Pattern,
        /// Replacement with `\1` references.
        replacement: String,
        /// Matches that are replaced.
        which: SedMatches,
    },
    /// `y/abc/xyz/`.
    Transliterate {
        /// Characters replaced.
        from: Vec<char>,
        /// Replacements, one per character.
        to: Vec<char>,
    },
}

/// Matches that a substitution replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SedMatches {
    /// The first.
    First,
    /// All (`g`).
    All,
    /// The n-th, from 1.
    Nth(usize),
}

impl RexExtraction {
    /// The extraction of a pattern's named groups from a field; an error if no group is named.
    pub fn of(field: &str, pattern: &str) -> Result<RexExtraction, Diagnostic> {
        let pattern = Word { text: pattern.to_owned(), quoted: true, span: Span::default() };
        let groups = group_names(&pattern)?;
        let field = field.to_owned();
        Ok(RexExtraction { field, pattern: pattern.into(), groups, max_match: 1, offset_field: None })
    }
}

impl Syntax for RexCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "rex [field=FIELD] [max_match=N] [offset_field=] \"REGEX\" | rex mode=sed \"s/A/B/g\"",
        summary: "Extracts fields by a regular expression, or rewrites a field",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<RexCommand> {
        let (mut field, mut max_match, mut offset_field, mut sed) = (RAW.to_owned(), 1, None, false);
        let mut pattern: Option<Word> = None;
        while !parser.at_end() {
            if let Some(option) = parser.rex_option()? {
                match option.name.as_str() {
                    "field" => field = option.value,
                    "max_match" => max_match = option.number()?,
                    "offset_field" => offset_field = Some(option.value),
                    _ if option.value.eq_ignore_ascii_case("sed") => sed = true,
                    _ => return Err(option.invalid_value("`sed`")),
                }
            } else if pattern.is_none() {
                pattern = Some(parser.eat_quoted().unwrap_or_else(|| parser.bare_pattern()));
            } else {
                return Err(Diagnostic::error(format!("rex: unexpected {}", parser.found_text()), parser.here()));
            }
        }
        let Some(pattern) = pattern else {
            let hint = "write `rex field=name \"(?<group>...)\"`";
            return Err(Diagnostic::error("rex: no regular expression is given", parser.here()).with_hint(hint));
        };
        if sed {
            let edits = sed_edits(&pattern)?;
            return Ok(RexCommand::Sed(SedCommand { field, edits }));
        }
        let groups = group_names(&pattern)?;
        Ok(RexCommand::Extract(RexExtraction { field, pattern: pattern.into(), groups, max_match, offset_field }))
    }
}

impl Semantics for RexCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        match self {
            RexCommand::Extract(rex) => after.add(&rex.field),
            RexCommand::Sed(sed) => after.add(&sed.field),
        }
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        match self {
            RexCommand::Extract(rex) => {
                CreatedFields::adding(rex.groups.iter().chain(&rex.offset_field).map(String::as_str))
            }
            RexCommand::Sed(_) => CreatedFields::none(),
        }
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        match self {
            RexCommand::Extract(rex) => Some(rex.groups.iter().chain(&rex.offset_field).map(String::as_str).collect()),
            RexCommand::Sed(sed) => Some(vec![sed.field.as_str()]),
        }
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        let RexCommand::Extract(RexExtraction { pattern, .. }) = self else { return };
        let is_quoted = place.text.get(pattern.span.start..).is_some_and(|text| text.starts_with('"'));
        let Some((name, rest)) = pattern.text.split_once('=').filter(|_| !is_quoted) else { return };
        let is_name = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
        if !name.is_empty() && is_name && rest.starts_with('"') {
            let remark =
                Diagnostic::warning(format!("`{name}=` is read as a part of the regular expression"), pattern.span);
            found.push(remark.with_hint(format!("write `rex field={name} {rest}`")));
        }
    }
}

impl Parser<'_> {
    /// Parses an option of `rex`; any other `name=` may be part of an unquoted pattern.
    fn rex_option(&mut self) -> ParseResult<Option<OptionArg>> {
        match self.peek_option() {
            Some(name) if OPTIONS.names.contains(&name.to_ascii_lowercase().as_str()) => self.read_option().map(Some),
            _ => Ok(None),
        }
    }

    /// Reads an unquoted regular expression: the next word.
    fn bare_pattern(&mut self) -> Word {
        self.skip_blank();
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(char::is_whitespace).unwrap_or(rest.len());
        Word { text: self.text[start..self.pos].to_owned(), quoted: false, span: self.since(start) }
    }
}

/// Names of the groups `(?<name>`, `(?P<name>` and `(?'name'` of a pattern, in order.
fn group_names(pattern: &Word) -> ParseResult<Vec<String>> {
    let text = pattern.text.as_str();
    let (mut names, mut known): (Vec<String>, BTreeSet<&str>) = Default::default();
    let mut in_class = false;
    let mut is_unclosed = false;
    // Computed once for all groups, because a pattern may have many.
    let last_end = text.rfind(['>', '\'', '=', '!']);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        match c {
            '\\' => at += rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' if !in_class => {
                in_class = true;
                let negation = usize::from(rest[1..].starts_with('^'));
                at += negation + usize::from(rest[1 + negation..].starts_with(']'));
            }
            ']' => in_class = false,
            '(' if !in_class => {
                is_unclosed = is_unclosed
                    || ["(?<", "(?P<", "(?'"].iter().any(|begin| rest.starts_with(begin))
                        && last_end.is_none_or(|end| end < at);
                if let Some(name) = group_name(rest) {
                    check_group_name(name, pattern.span)?;
                    if known.insert(name) {
                        names.push(name.to_owned());
                    }
                }
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    if is_unclosed {
        let remark = Diagnostic::error("rex: the name of a group is never closed", pattern.span);
        return Err(remark.with_hint("a named group is written (?<field>...)"));
    }
    if names.is_empty() {
        let remark = Diagnostic::error("rex: the regular expression has no named group", pattern.span);
        return Err(remark.with_hint("name what to extract: (?<field>...)"));
    }
    Ok(names)
}

/// Maximum length of a group's name in bytes, beyond which its end is not looked for.
const GROUP_NAME_BYTES_MAX: usize = 1_024;

/// The name of the group at the start of `text`, if the group is named.
fn group_name(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("(?")?;
    let (rest, close) = match rest.strip_prefix('\'') {
        Some(rest) => (rest, '\''),
        None => (rest.strip_prefix('P').unwrap_or(rest).strip_prefix('<')?, '>'),
    };
    if rest.starts_with(['=', '!']) {
        return None;
    }
    let rest = &rest[..rest.floor_char_boundary(GROUP_NAME_BYTES_MAX)];
    rest.find(close).map(|end| &rest[..end])
}

fn check_group_name(name: &str, span: Span) -> ParseResult<()> {
    let valid = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !valid || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        let remark = Diagnostic::error(format!("rex: `{name}` cannot be the name of a group"), span);
        return Err(remark.with_hint("use letters, digits and `_`, then rename the field"));
    }
    Ok(())
}

/// Parses the `s/…/…/` and `y/…/…/` commands of a sed text.
fn sed_edits(word: &Word) -> ParseResult<Vec<SedEdit>> {
    let wrong = |what: &str| {
        Diagnostic::error(format!("rex mode=sed: {what}"), word.span).with_hint("write \"s/regex/replacement/g\"")
    };
    let mut edits = Vec::new();
    let mut rest = word.text.trim_start();
    while let Some(kind) = rest.chars().next() {
        let body = &rest[kind.len_utf8()..];
        let Some(delimiter) = body.chars().next().filter(|c| matches!(kind, 's' | 'y') && !c.is_alphanumeric()) else {
            return Err(wrong("expected `s/` or `y/`"));
        };
        let body = &body[delimiter.len_utf8()..];
        let (from, body) = sed_part(body, delimiter).ok_or_else(|| wrong("the pattern is never closed"))?;
        let (to, body) = sed_part(body, delimiter).ok_or_else(|| wrong("the replacement is never closed"))?;
        let flags_len = body.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(body.len());
        let flags = &body[..flags_len];
        edits.push(if kind == 's' {
            let (ignore_case, which) = sed_flags(flags).ok_or_else(|| wrong(&format!("unknown flag in `{flags}`")))?;
            let text = if ignore_case { format!("(?i){from}") } else { from };
            SedEdit::Substitute { pattern: Pattern { text, span: word.span }, replacement: to, which }
        } else {
            let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
            if from.len() != to.len() {
                return Err(wrong("both parts of `y` must have the same length"));
            }
            SedEdit::Transliterate { from, to }
        });
        rest = body[flags_len..].trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    }
    if edits.is_empty() {
        return Err(wrong("nothing to do"));
    }
    Ok(edits)
}

/// Splits `text` at the next delimiter: the text before it, with escaped delimiters resolved, and the text after it.
fn sed_part(text: &str, delimiter: char) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == delimiter {
            return Some((part, &text[at + c.len_utf8()..]));
        }
        if c != '\\' {
            part.push(c);
            continue;
        }
        match chars.next() {
            Some((_, next)) if next == delimiter => part.push(next),
            Some((_, next)) => part.extend([c, next]),
            None => part.push(c),
        }
    }
    None
}

/// Parses the flags after a substitution: `g`, `i`, a number.
fn sed_flags(flags: &str) -> Option<(bool, SedMatches)> {
    let ignore_case = flags.contains(['i', 'I']);
    let rest: String = flags.chars().filter(|c| !matches!(c, 'i' | 'I')).collect();
    let which = match rest.as_str() {
        "" => SedMatches::First,
        "g" => SedMatches::All,
        digits => SedMatches::Nth(digits.parse().ok().filter(|n| *n > 0)?),
    };
    Some((ignore_case, which))
}
