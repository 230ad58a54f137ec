//! `extract`: extracts fields from name-value pairs in the text of an event.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Default of `limit=`.
const DEFAULT_PAIRS_MAX: usize = 50;
/// Default of `maxchars=`.
const DEFAULT_CHARS_MAX: usize = 10_240;

const OPTIONS: OptionNames =
    OptionNames::new("extract", &["pairdelim", "kvdelim", "limit", "maxchars", "clean_keys", "mv_add"])
        .ignoring(&["auto", "reload", "segment"]);

/// `extract` / `kv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractCommand {
    /// Stanzas of transforms.conf, each with its position; if given, name-value pairs are not extracted.
    pub rules: Vec<(String, Span)>,
    /// `pairdelim=` and `kvdelim=`: characters that end a pair and a name; by default `name=value` is found anywhere.
    pub delimiters: Option<(String, String)>,
    /// `limit=` (default `50`): maximum pairs per row.
    pub limit: usize,
    /// `maxchars=` (default `10240`): maximum characters read per row.
    pub chars_max: usize,
    /// `clean_keys=` (default `t`): whether characters in names become `_` unless they are letters or digits.
    pub clean_keys: bool,
    /// `mv_add=` (default `f`): whether a repeated name adds a value.
    pub adds_values: bool,
    /// The fields that later commands read; `None` if they may read any field. The planner sets it.
    pub names: Option<Vec<String>>,
}

impl Syntax for ExtractCommand {
    const INFO: CommandInfo = CommandInfo {
        aliases: &["kv"],
        syntax: "extract [pairdelim=TEXT kvdelim=TEXT] [limit=N] [maxchars=N] [clean_keys=] [mv_add=]",
        summary: "Extracts name-value pairs from the text as fields",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ExtractCommand> {
        let (mut pair, mut name) = (None, None);
        let mut command = ExtractCommand {
            rules: Vec::new(),
            delimiters: None,
            limit: DEFAULT_PAIRS_MAX,
            chars_max: DEFAULT_CHARS_MAX,
            clean_keys: true,
            adds_values: false,
            names: None,
        };
        loop {
            let Some(option) = parser.option(OPTIONS)? else {
                parser.skip_separators();
                match parser.field_word() {
                    Some(word) => command.rules.push((word.text, word.span)),
                    None => break,
                }
                continue;
            };
            match option.name.as_str() {
                "pairdelim" => pair = Some(option.value),
                "kvdelim" => name = Some(option.value),
                "limit" => command.limit = option.number()?,
                "maxchars" => command.chars_max = option.number()?,
                "clean_keys" => command.clean_keys = option.boolean()?,
                _ => command.adds_values = option.boolean()?,
            }
        }
        command.delimiters = match (pair, name) {
            (Some(pair), Some(name)) => Some((pair, name)),
            (None, None) => None,
            _ => {
                let remark = Diagnostic::error("extract: pairdelim= and kvdelim= go together", parser.here());
                return Err(remark.with_hint("write `extract pairdelim=\";\" kvdelim=\":\"`"));
            }
        };
        Ok(command)
    }
}

impl Semantics for ExtractCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(RAW);
        after
    }
}
