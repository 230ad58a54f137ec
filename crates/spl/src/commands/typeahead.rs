//! `typeahead`: words and field values with a given prefix; rewritten to a search of events.

use quarry_event::segment::is_major;
use serde::{Deserialize, Serialize};

use super::walklex::{class_of, index_time_search, scope_of};
use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Pipeline;
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, Parser, Read, quote};

const OPTIONS: Known = Known {
    command: "typeahead",
    names: &["prefix", "count", "index", "starttimeu", "endtimeu"],
    ignored: &["max_time", "collapse", "splunk_server", "use_fast_typeahead"],
};

/// Default of `count=`.
const SUGGESTIONS: usize = 50;
/// Fields of every event that `typeahead` suggests by name.
const EVENT_FIELDS: [&str; 4] = ["host", "index", "source", "sourcetype"];

/// `typeahead prefix=TEXT [count=N] [index=INDEX]...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeAheadCommand {
    /// The search over index-time fields that lists the suggestions.
    pub search: Pipeline,
}

impl Syntax for TypeAheadCommand {
    const INFO: CommandInfo = CommandInfo {
        names: &["typeahead"],
        syntax: "typeahead prefix=TEXT [count=N] [index=INDEX]...",
        summary: "Lists words and field values that begin with a prefix",
        group: Group::Searching,
        capability: Some("get_typeahead"),
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<TypeAheadCommand> {
        let (mut prefix, mut count, mut indexes, mut range) = (None, SUGGESTIONS, Vec::new(), String::new());
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "prefix" => prefix = Some((option.value, option.value_span)),
                "count" => count = option.number()?,
                "index" => indexes.push(option.value),
                "starttimeu" => range.push_str(&format!(" earliest={}", option.number::<u32>()?)),
                _ => range.push_str(&format!(" latest={}", option.number::<u32>()?)),
            }
        }
        let Some((prefix, place)) = prefix else {
            let remark = Diagnostic::error("typeahead: no prefix= is given", parser.here());
            return Err(remark.with_hint("write `typeahead prefix=err count=10`"));
        };
        let scope = format!("{}{range}", scope_of(&indexes));
        let values = |name: &str, value: &str| {
            let field = name.replace('\'', "");
            format!(
                "tstats count WHERE {scope} {name}={} BY {name} \
                 | eval content=\"{field}=\\\"\".replace('{field}', \"([\\\\\\\\\\\"])\", \"\\\\\\\\\\1\").\"\\\"\"",
                quote(&format!("{value}*"))
            )
        };
        let text = if let Some((name, value)) = prefix.split_once('=') {
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
            if !is_name {
                let remark = Diagnostic::error(format!("typeahead: `{name}` is not a field name"), place);
                return Err(remark.with_hint("write prefix=sourcetype=acc"));
            }
            format!("| {}", values(name, value.trim_matches('"')))
        } else {
            if prefix.is_empty() || prefix.bytes().any(|byte| is_major(byte) || byte == b'`') {
                let remark = Diagnostic::error("typeahead: a prefix is the beginning of one word", place);
                return Err(remark.with_hint("write prefix=err or prefix=sourcetype=acc"));
            }
            let literal: String =
                prefix.chars().map(|c| if c.is_alphanumeric() { c.to_string() } else { format!("\\{c}") }).collect();
            let majors = class_of(is_major);
            let words = quote(&format!("(?i)(?:^|[{majors}])(?<content>{literal}[^{majors}]*)"));
            let mut text = format!(
                "search {scope} {} | rex max_match=0 {words} | eval content=mvdedup(mvmap(content, lower(content))) \
                 | stats count BY content",
                quote(&format!("{prefix}*"))
            );
            for name in EVENT_FIELDS.iter().filter(|name| name.starts_with(&prefix.to_ascii_lowercase())) {
                text.push_str(&format!(" | append [ | {} ]", values(name, "")));
            }
            text
        };
        let text = format!(
            "{text} | eval operator=\"false\" | sort {count} -num(count) content | table content count operator"
        );
        Ok(TypeAheadCommand { search: index_time_search(parser, &text)? })
    }
}

impl Semantics for TypeAheadCommand {
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
