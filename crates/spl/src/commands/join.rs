//! `join`: joins rows with the rows of a subsearch.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, TIME};
use crate::ast::{FieldPattern, Pipeline, SubsearchLimits};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser, Word};

const OPTIONS: OptionNames = OptionNames::new(
    "join",
    &["type", "max", "overwrite", "usetime", "earlier", "left", "right", "maxout", "maxtime", "timeout"],
);

/// `join`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinCommand {
    /// Join fields; empty for all common fields.
    pub fields: Vec<FieldPattern>,
    /// Whether rows without a match are kept (`type=left` or `type=outer`).
    pub left_outer: bool,
    /// `max=` (default `1`): maximum number of matches for each row; 0 is all.
    pub max: usize,
    /// `overwrite=` (default `t`): whether fields of the subsearch replace fields of the same name.
    pub overwrite: bool,
    /// `usetime=` (default `f`): whether the time of a row restricts its matches.
    pub use_time: bool,
    /// `earlier=` (default `t`): with `usetime`, whether matches must be earlier than the row rather than later.
    pub earlier: bool,
    /// `left=L right=R where L.a=R.b`: aliases of both sides.
    pub aliases: Option<JoinAliases>,
    /// Subsearch with the rows of the right side.
    pub subsearch: Pipeline,
    /// Limits of the subsearch.
    pub limits: SubsearchLimits,
}

/// Aliased form of join.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinAliases {
    /// Left alias.
    pub left: String,
    /// Right alias.
    pub right: String,
    /// Equal pairs: field of the left side, field of the right side.
    pub pairs: Vec<(String, String)>,
}

impl Syntax for JoinCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "join [type=inner|left] [max=N] FIELD... [ SEARCH ]",
        summary: "Joins rows with the rows of a subsearch",
        group: Group::Rows,
        kind: Kind::Blocking,
        clauses: &["where"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<JoinCommand> {
        let mut command = JoinCommand {
            fields: Vec::new(),
            left_outer: false,
            max: 1,
            overwrite: true,
            use_time: false,
            earlier: true,
            aliases: None,
            subsearch: Pipeline { commands: Vec::new(), span: parser.here() },
            limits: SubsearchLimits::default(),
        };
        let (mut left, mut right, mut pairs) = (None, None, Vec::new());
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "left" => left = Some(option.value),
                    "right" => right = Some(option.value),
                    _ => join_option(&option, &mut command)?,
                }
            }
            parser.skip_separators();
            match parser.peek() {
                None => {
                    let remark = Diagnostic::error("join: no subsearch is given", parser.here());
                    return Err(remark.with_hint("write `join field [ search ... ]`"));
                }
                Some('[') => break,
                _ => {}
            }
            if let (Some(left), Some(right)) = (&left, &right)
                && parser.eat_keyword("where")
            {
                pairs = parser.join_pairs(left, right)?;
            } else {
                command.fields.push(parser.expect_field("a field")?.field());
            }
        }
        command.subsearch = parser.subsearch()?;
        command.aliases = match (left, right) {
            (Some(left), Some(right)) if !pairs.is_empty() => Some(JoinAliases { left, right, pairs }),
            (None, None) => None,
            _ => {
                let remark = Diagnostic::error("join: left=, right= and where belong together", parser.here());
                return Err(remark.with_hint("write `join left=L right=R where L.a=R.b [ ... ]`"));
            }
        };
        Ok(command)
    }
}

impl Semantics for JoinCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        match (&self.aliases, self.fields.is_empty()) {
            (Some(aliases), _) => aliases.pairs.iter().for_each(|(left, _)| after.add(left)),
            (None, true) => after.all = true,
            (None, false) => after.add_all(&self.fields),
        }
        if self.use_time {
            after.add(TIME);
        }
        after
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.subsearch]
    }
}

impl Parser<'_> {
    /// Parses `L.a = R.b [AND] ...` up to the subsearch; the sides may be swapped.
    fn join_pairs(&mut self, left: &str, right: &str) -> ParseResult<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        loop {
            self.skip_separators();
            if self.peek() == Some('[') || self.at_end() || self.peek_option().is_some() {
                return Ok(pairs);
            }
            if !pairs.is_empty() && self.eat_keyword("and") {
                continue;
            }
            let first = self.alias_side()?;
            self.expect('=', "between the fields of join")?;
            self.eat('=');
            let second = self.alias_side()?;
            let strip = |word: &Word, alias: &str| {
                word.text.strip_prefix(alias).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned)
            };
            let straight = strip(&first, left).zip(strip(&second, right));
            let swapped = strip(&second, left).zip(strip(&first, right));
            let Some(pair) = straight.or(swapped) else {
                let message = format!("join: expected {left}.field={right}.field");
                return Err(Diagnostic::error(message, first.span));
            };
            pairs.push(pair);
        }
    }

    fn alias_side(&mut self) -> ParseResult<Word> {
        self.skip_blank();
        if let Some(word) = self.eat_quoted().or_else(|| self.eat_single_quoted()) {
            return Ok(word);
        }
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(|c: char| c.is_whitespace() || matches!(c, '=' | ',' | '[')).unwrap_or(rest.len());
        if self.pos == start {
            return Err(Diagnostic::error(format!("join: expected a field, found {}", self.found_text()), self.here()));
        }
        Ok(Word { text: self.text[start..self.pos].to_owned(), quoted: false, span: self.since(start) })
    }
}

/// Parses an option of join other than its aliases.
fn join_option(option: &OptionArg, command: &mut JoinCommand) -> ParseResult<()> {
    match option.name.as_str() {
        "type" => {
            command.left_outer = match option.value.to_ascii_lowercase().as_str() {
                "inner" => false,
                "left" | "outer" => true,
                _ => return Err(option.invalid_value("inner, left or outer")),
            }
        }
        "max" => command.max = option.number()?,
        "overwrite" => command.overwrite = option.boolean()?,
        "usetime" => command.use_time = option.boolean()?,
        "earlier" => command.earlier = option.boolean()?,
        _ => command.limits.take(option)?,
    }
    Ok(())
}
