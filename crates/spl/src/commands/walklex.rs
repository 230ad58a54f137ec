//! `walklex`: lists the words and fields of an index.
//!
//! Rewritten to a search of events. A list from term dictionaries would be incomplete: the dictionaries of sealed
//! buckets omit words that columns contain, and hot events have no dictionary yet.

use quarry_event::segment::{is_breaker, is_major};
use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::ast::{
    BinaryOp, Command, ForeachCommand, NodeBuilder, Pipeline, RexCommand, RexExtraction, SearchCommand, SearchExpr,
    StatsFunction, TimeModifiers,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("walklex", &["type", "prefix", "pattern", "index"])
    .ignoring(&["splunk_server", "splunk_server_group"]);

/// Field with the words of an event; no user field has this name.
const WORD: &str = "__word";

/// `walklex [type=field|fieldvalue|term|all] [prefix=TEXT|pattern=TEXT] index=INDEX...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkLexCommand {
    /// The search that lists the words; it reads only the text and the index-time fields of events.
    pub search: Pipeline,
}

/// Words to list, the value of the option `type`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordKind {
    Fields,
    FieldValues,
    Terms,
    All,
}

impl Syntax for WalkLexCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "walklex [type=field|fieldvalue|term|all] [prefix=TEXT|pattern=TEXT] index=INDEX...",
        summary: "Lists words and indexed fields of an index",
        group: Group::Searching,
        capability: Some("run_walklex"),
        kind: Kind::Generating,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<WalkLexCommand> {
        let (mut listed, mut pattern, mut indexes) = (WordKind::All, None, Vec::new());
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "index" => indexes.push(option.value),
                "type" => {
                    listed = match option.value.to_ascii_lowercase().as_str() {
                        "all" => WordKind::All,
                        "field" => WordKind::Fields,
                        "fieldvalue" => WordKind::FieldValues,
                        "term" => WordKind::Terms,
                        _ => return Err(option.invalid_value("all, field, fieldvalue or term")),
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
        let make = parser.builder();
        let name = if listed == WordKind::Fields { "field" } else { "term" };
        let mut commands = vec![search_indexes(make, &indexes, SearchExpr::All, TimeModifiers::default())];
        match listed {
            WordKind::Terms => commands.push(make.eval(WORD, make.nullary("null"))),
            _ => commands.push(pairs(make)),
        }
        if matches!(listed, WordKind::Terms | WordKind::All) {
            commands.extend(terms(make)?);
        }
        if listed == WordKind::Fields {
            let field = [make.field(WORD), make.text("(?s)::.*$"), make.text("")];
            let sum = make.aggregate(StatsFunction::Sum, "count", "count");
            commands.extend([
                make.stats(vec![make.count("count")], &["index", WORD]).into(),
                make.eval("field", make.call("replace", field)),
                make.stats(vec![sum, make.count("distinct_values")], &["index", "field"]).into(),
            ]);
        } else {
            let lower = make.call("mvmap", [make.field(WORD), make.call("lower", [make.field(WORD)])]);
            commands.extend([
                make.eval(WORD, make.call("mvdedup", [lower])),
                make.stats(vec![make.count("count")], &["index", WORD]).into(),
                make.rename(WORD, name),
            ]);
        }
        if let Some(pattern) = pattern {
            let like = make.text(&to_like_pattern(&pattern));
            commands.push(make.filter(make.call("like", [make.call("lower", [make.field(name)]), like])));
        }
        commands.push(match listed {
            WordKind::Fields => make.table(&["field", "count", "distinct_values", "index"]),
            _ => make.table(&["term", "count", "index"]),
        });
        Ok(WalkLexCommand { search: make.pipeline(commands) })
    }
}

impl Semantics for WalkLexCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Search { search: &self.search, is_indexed: true }
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.search]
    }
}

/// Adds `FIELD::VALUE` of every value of an event to its words.
fn pairs(make: NodeBuilder) -> Command {
    let field = || make.field(ForeachCommand::FIELD);
    let pair = make.binary(BinaryOp::Concat, make.text(&format!("{}::", ForeachCommand::FIELD)), field());
    let words = make.call("mvappend", [make.field(WORD), make.call("mvmap", [field(), pair])]);
    make.each_field("*", vec![make.assignment(WORD, words)])
}

/// Adds the words of an event's text, and the parts of words between minor breakers.
fn terms(make: NodeBuilder) -> ParseResult<[Command; 3]> {
    let (majors, breakers) = (char_class(is_major), char_class(is_breaker));
    let words = [make.field(WORD), make.field("__part"), make.field("__piece")];
    Ok([
        all_matches(make, &format!("(?<__part>[^{majors}]+)"))?,
        all_matches(make, &format!("(?<__piece>[^{breakers}]+)"))?,
        make.eval(WORD, make.call("mvappend", words)),
    ])
}

/// `rex max_match=0`: extracts every match of a pattern in the event's text.
pub(super) fn all_matches(make: NodeBuilder, pattern: &str) -> ParseResult<Command> {
    let extraction = RexExtraction::of(RAW, pattern).map_err(|fault| Diagnostic::error(fault.message, make.span()))?;
    Ok(RexCommand::Extract(RexExtraction { max_match: 0, ..extraction }).into())
}

/// The content of a regular expression's character class that contains all white space and the printable ASCII
/// characters for which `holds` is true.
pub(super) fn char_class(holds: impl Fn(u8) -> bool) -> String {
    let marks = (b' '..=b'~').filter(|byte| holds(*byte) && !byte.is_ascii_whitespace());
    format!("\\s{}", marks.map(|byte| format!("\\{}", char::from(byte))).collect::<String>())
}

/// Converts a pattern with `*` to a `like` pattern in lower case.
pub(super) fn to_like_pattern(pattern: &str) -> String {
    let escaped = pattern.to_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    escaped.replace('*', "%")
}

/// A search for the events that match a condition, in these indexes; in any index if the list is empty.
pub(super) fn search_indexes(
    make: NodeBuilder,
    indexes: &[String],
    condition: SearchExpr,
    time: TimeModifiers,
) -> Command {
    SearchCommand { expr: SearchExpr::conjunction(vec![index_condition(make, indexes), condition]), time }.into()
}

/// The condition for events in these indexes; in any index if the list is empty.
pub(super) fn index_condition(make: NodeBuilder, indexes: &[String]) -> SearchExpr {
    if indexes.is_empty() { make.equals("index", "*") } else { make.equals_any("index", indexes) }
}
