//! `walklex`: lists the words and fields of an index.
//!
//! Rewritten to a search of events: the term dictionaries of sealed buckets omit words that columns contain, and hot
//! events have no dictionary yet, so a list from dictionaries would be incomplete.

use quarry_event::segment::{is_breaker, is_major};
use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Pipeline;
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, Parser, Read, quote};

const OPTIONS: Known = Known {
    command: "walklex",
    names: &["type", "prefix", "pattern", "index"],
    ignored: &["splunk_server", "splunk_server_group"],
};

/// `walklex [type=field|fieldvalue|term|all] [prefix=TEXT|pattern=TEXT] index=INDEX...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkLexCommand {
    /// The search over index-time fields that lists the words.
    pub search: Pipeline,
}

/// What `walklex` lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Fields,
    FieldValues,
    Terms,
    All,
}

impl Syntax for WalkLexCommand {
    const INFO: CommandInfo = CommandInfo {
        names: &["walklex"],
        syntax: "walklex [type=field|fieldvalue|term|all] [prefix=TEXT|pattern=TEXT] index=INDEX...",
        summary: "Lists words and indexed fields of an index",
        group: Group::Searching,
        capability: Some("run_walklex"),
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<WalkLexCommand> {
        let (mut listed, mut pattern, mut indexes) = (Listed::All, None, Vec::new());
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "index" => indexes.push(option.value),
                "type" => {
                    listed = match option.value.to_ascii_lowercase().as_str() {
                        "all" => Listed::All,
                        "field" => Listed::Fields,
                        "fieldvalue" => Listed::FieldValues,
                        "term" => Listed::Terms,
                        _ => return Err(option.refuse("all, field, fieldvalue or term")),
                    };
                }
                _ if pattern.is_some() => {
                    let remark =
                        Diagnostic::error("walklex: prefix= and pattern= exclude each other", option.name_span);
                    return Err(remark.with_hint("write pattern=abc* for a prefix"));
                }
                "prefix" => pattern = Some(format!("{}*", option.value)),
                _ => pattern = Some(option.value),
            }
        }
        if indexes.is_empty() {
            let remark = Diagnostic::error("walklex: no index is given", parser.here());
            return Err(remark.with_hint("write `walklex type=term index=main`"));
        }
        let pairs = "foreach * [ eval __word=mvappend(__word, mvmap('<<FIELD>>', \"<<FIELD>>::\".'<<FIELD>>')) ]";
        let (majors, breakers) = (class_of(is_major), class_of(is_breaker));
        // Words are listed with their parts at minor breakers.
        let terms = format!(
            "rex max_match=0 {} | rex max_match=0 {} | eval __word=mvappend(__word, __part, __piece)",
            quote(&format!("(?<__part>[^{majors}]+)")),
            quote(&format!("(?<__piece>[^{breakers}]+)")),
        );
        let once = "eval __word=mvdedup(mvmap(__word, lower(__word))) | stats count BY index __word";
        let (name, made) = match listed {
            Listed::Fields => (
                "field",
                format!(
                    "{pairs} | stats count BY index __word | eval field=replace(__word, \"(?s)::.*$\", \"\") \
                     | stats sum(count) AS count count AS distinct_values BY index field"
                ),
            ),
            Listed::FieldValues => ("term", format!("{pairs} | {once} | rename __word AS term")),
            Listed::Terms => ("term", format!("eval __word=null() | {terms} | {once} | rename __word AS term")),
            Listed::All => ("term", format!("{pairs} | {terms} | {once} | rename __word AS term")),
        };
        let kept =
            pattern.map_or(String::new(), |pattern| format!(" | where like(lower({name}), {})", like_of(&pattern)));
        let columns = if listed == Listed::Fields { "field count distinct_values index" } else { "term count index" };
        let text = format!("search {} | {made}{kept} | table {columns}", scope_of(&indexes));
        Ok(WalkLexCommand { search: index_time_search(parser, &text)? })
    }
}

impl Semantics for WalkLexCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::IndexedFields(&self.search)
    }

    fn makes_table(&self) -> bool {
        true
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.search]
    }
}

/// Parses the search over index-time fields to which a command is rewritten.
pub(super) fn index_time_search(parser: &Parser<'_>, text: &str) -> Read<Pipeline> {
    let parsed = crate::parse::parse(text);
    match parsed.diagnostics.first() {
        Some(fault) => Err(Diagnostic::error(fault.message.clone(), parser.since(parser.stage_start()))),
        None => Ok(parsed.pipeline),
    }
}

/// The content of a regular expression's character class for these ASCII characters.
pub(super) fn class_of(holds: impl Fn(u8) -> bool) -> String {
    let marks = (b' '..=b'~').filter(|byte| holds(*byte) && !byte.is_ascii_whitespace());
    format!("\\s{}", marks.map(|byte| format!("\\{}", char::from(byte))).collect::<String>())
}

/// Converts a pattern with `*` to a `like` pattern.
fn like_of(pattern: &str) -> String {
    let escaped = pattern.to_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    quote(&escaped.replace('*', "%"))
}

/// The condition for events of one of these indexes; empty for any.
pub(super) fn scope_of(indexes: &[String]) -> String {
    let terms: Vec<String> = indexes.iter().map(|index| format!("index={}", quote(index))).collect();
    if terms.is_empty() { "index=*".to_owned() } else { format!("({})", terms.join(" OR ")) }
}
