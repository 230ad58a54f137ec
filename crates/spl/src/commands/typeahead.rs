//! `typeahead`: lists words and field values with a given prefix; rewritten to a search of events.

use quarry_event::segment::is_major;
use serde::{Deserialize, Serialize};

use super::walklex::{all_matches, char_class, index_condition, search_indexes, to_like_pattern};
use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{
    AppendCommand, BinaryOp, Command, NodeBuilder, Pipeline, SearchExpr, SearchPattern, SortKind, SubsearchLimits,
    TimeModifiers, TimeText, TstatsCommand, TstatsSplit,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("typeahead", &["prefix", "count", "index", "starttimeu", "endtimeu"])
    .ignoring(&["max_time", "collapse", "splunk_server", "use_fast_typeahead"]);

/// Default of `count=`.
const DEFAULT_SUGGESTIONS_MAX: usize = 50;
/// Field with a suggestion.
const CONTENT_FIELD: &str = "content";
/// The metadata field with the index.
const INDEX: &str = "index";
/// The metadata fields, which every event has. `typeahead` suggests their names and their values.
const EVENT_FIELDS: [&str; 4] = ["host", INDEX, "source", "sourcetype"];

/// `typeahead prefix=TEXT [count=N] [index=INDEX]...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeAheadCommand {
    /// The search that lists the suggestions.
    pub search: Pipeline,
    /// Whether the search reads no fields but index-time fields.
    pub is_indexed: bool,
}

impl Syntax for TypeAheadCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "typeahead prefix=TEXT [count=N] [index=INDEX]...",
        summary: "Lists words and field values that begin with a prefix",
        group: Group::Searching,
        capability: Some("get_typeahead"),
        kind: Kind::Generating,
        returns_table: true,
        clauses: &["where"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TypeAheadCommand> {
        let (mut prefix, mut count, mut indexes, mut range) =
            (None, DEFAULT_SUGGESTIONS_MAX, Vec::new(), TimeModifiers::default());
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "prefix" => prefix = Some((option.value, option.value_span)),
                "count" => count = option.number()?,
                "index" => indexes.push(option.value),
                name => {
                    let time = Some(TimeText { text: option.number::<u32>()?.to_string(), span: option.value_span });
                    if name == "starttimeu" { range.earliest = time } else { range.latest = time }
                }
            }
        }
        let Some((prefix, place)) = prefix else {
            let remark = Diagnostic::error("typeahead: no prefix= is given", parser.here());
            return Err(remark.with_hint("write `typeahead prefix=err count=10`"));
        };
        TypeAheadCommand::new(NodeBuilder::at(place), &prefix, count, &TypeAheadScope { indexes, range })
    }
}

/// The events whose words and values are suggested.
#[derive(Default)]
pub struct TypeAheadScope {
    /// Indexes of the events; if empty, all indexes that the user may search.
    pub indexes: Vec<String>,
    /// Time range of the events.
    pub range: TimeModifiers,
}

impl TypeAheadCommand {
    /// A command that returns at most `count` suggestions for a prefix.
    pub fn new(
        make: NodeBuilder,
        prefix: &str,
        count: usize,
        scope: &TypeAheadScope,
    ) -> Result<TypeAheadCommand, Diagnostic> {
        let mut is_indexed = true;
        let mut commands = if let Some((name, value)) = prefix.split_once('=') {
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '{' | '}'));
            if !is_name {
                let remark = Diagnostic::error(format!("typeahead: `{name}` is not a field name"), make.span());
                return Err(remark.with_hint("write prefix=sourcetype=acc"));
            }
            is_indexed = EVENT_FIELDS.contains(&name);
            values(make, scope, name, value.trim_matches('"'))
        } else {
            words(make, scope, prefix)?
        };
        let keys =
            vec![make.sort_key("count", true, SortKind::Num), make.sort_key(CONTENT_FIELD, false, SortKind::Auto)];
        commands.extend([
            make.eval("operator", make.text("false")),
            make.sort(count, keys),
            make.table(&[CONTENT_FIELD, "count", "operator"]),
        ]);
        Ok(TypeAheadCommand { search: make.pipeline(commands), is_indexed })
    }
}

/// Commands that count the words of events, and the values of those [`EVENT_FIELDS`] whose names begin with the prefix.
fn words(make: NodeBuilder, scope: &TypeAheadScope, prefix: &str) -> ParseResult<Vec<Command>> {
    if prefix.is_empty() || prefix.bytes().any(|byte| is_major(byte) || byte == b'`') {
        let remark = Diagnostic::error("typeahead: the prefix must be the beginning of one word", make.span());
        return Err(remark.with_hint("write prefix=err or prefix=sourcetype=acc"));
    }
    let literal: String =
        prefix.chars().map(|c| if c.is_alphanumeric() { c.to_string() } else { format!("\\{c}") }).collect();
    let majors = char_class(is_major);
    let begins = SearchPattern { text: format!("{prefix}*"), quoted: true, span: make.span() };
    let lower = make.call("mvmap", [make.field(CONTENT_FIELD), make.call("lower", [make.field(CONTENT_FIELD)])]);
    let mut commands = vec![
        search_indexes(make, &scope.indexes, SearchExpr::Keyword(begins), scope.range.clone()),
        all_matches(make, &format!("(?i)(?:^|[{majors}])(?<content>{literal}[^{majors}]*)"))?,
        make.eval(CONTENT_FIELD, make.call("mvdedup", [lower])),
        make.stats(vec![make.count("count")], &[CONTENT_FIELD]).into(),
    ];
    for name in EVENT_FIELDS.iter().filter(|name| name.starts_with(&prefix.to_ascii_lowercase())) {
        let subsearch = make.pipeline(values(make, scope, name, ""));
        commands.push(AppendCommand { subsearch, limits: SubsearchLimits::default() }.into());
    }
    Ok(commands)
}

/// Commands that count the values that begin with `value` in a field, and show each as `field="value"`.
fn values(make: NodeBuilder, scope: &TypeAheadScope, name: &str, value: &str) -> Vec<Command> {
    let begins = format!("{value}*");
    let condition = make.equals(name, &begins);
    let mut commands = if EVENT_FIELDS.contains(&name) {
        let tstats = TstatsCommand {
            aggregates: vec![make.count("count")],
            // `index=*` does not match internal indexes, so it must not be combined with `index=_int*`.
            filter: match scope.indexes.is_empty() && name == INDEX {
                true => condition,
                false => SearchExpr::conjunction(vec![index_condition(make, &scope.indexes), condition]),
            },
            time: scope.range.clone(),
            by: vec![TstatsSplit { field: name.to_owned(), span: None, place: make.span() }],
            ..TstatsCommand::empty()
        };
        vec![tstats.into()]
    } else {
        // A multivalue field may also have values that do not begin with `value`.
        let pattern = make.text(&to_like_pattern(&begins));
        vec![
            search_indexes(make, &scope.indexes, condition, scope.range.clone()),
            make.stats(vec![make.count("count")], &[name]).into(),
            make.filter(make.call("like", [make.call("lower", [make.field(name)]), pattern])),
        ]
    };
    let escaped = [make.field(name), make.text("([\\\\\"])"), make.text("\\\\\\1")];
    let begin = make.text(&format!("{name}=\""));
    let content = [begin, make.call("replace", escaped), make.text("\"")];
    commands.push(make.eval(CONTENT_FIELD, make.join_operands(BinaryOp::Concat, content)));
    commands
}

impl Semantics for TypeAheadCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Search { search: &self.search, is_indexed: self.is_indexed }
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.search]
    }
}
