//! `rest`: lists the entries of a REST endpoint of this node.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("rest", &["count", "search", "f", "strict", "report_as", "splunk_server"])
        .ignoring(&["splunk_server_group", "timeout"]);

/// `rest`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestCommand {
    /// Path of the endpoint, from `/services`.
    pub path: String,
    /// Position of the path in the text.
    pub span: Span,
    /// `count=` (default `0`): maximum entries; 0 for all.
    pub count: usize,
    /// `search=`: words or `name=value` conditions that entries must match.
    pub search: Option<String>,
    /// `f=`: fields that are kept; if empty, all.
    pub fields: Vec<String>,
    /// `strict=` (default `f`): whether an unknown endpoint is an error.
    pub strict: bool,
    /// `splunk_server=`: names of the nodes to query, possibly with `*`; empty for this node.
    pub servers: Vec<String>,
    /// Whether the response is returned as one text (`report_as=text`) instead of its entries.
    pub as_text: bool,
}

impl Syntax for RestCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "rest PATH [count=N] [search=TEXT] [f=FIELD]",
        summary: "Reads a REST endpoint of this node",
        group: Group::Generating,
        kind: Kind::Generating,
        returns_table: true,
        has_own_keywords: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<RestCommand> {
        let mut command = RestCommand {
            path: String::new(),
            span: parser.here(),
            count: 0,
            search: None,
            fields: Vec::new(),
            strict: false,
            servers: Vec::new(),
            as_text: false,
        };
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.peek_option().is_some() {
                let place = parser.pos;
                let option = parser.read_option()?;
                match option.name.as_str() {
                    "count" => command.count = option.number()?,
                    "search" => command.search = Some(option.value),
                    "f" => command.fields.extend(option.value.split(',').map(|name| name.trim().to_owned())),
                    "strict" => command.strict = option.boolean()?,
                    "splunk_server" => command.servers.push(option.value),
                    "report_as" if option.value.eq_ignore_ascii_case("text") => command.as_text = true,
                    "report_as" => return Err(option.invalid_value("text")),
                    name if OPTIONS.ignored.contains(&name) => {}
                    // All other options are arguments of the endpoint.
                    _ => {
                        let written = parser.text[place..parser.pos].trim();
                        let mark = if command.path.contains('?') { '&' } else { '?' };
                        command.path.push_str(&format!("{mark}{}", written.replace('"', "")));
                    }
                }
                continue;
            }
            let word = parser.expect_field("the path of an endpoint")?;
            let rest = std::mem::replace(&mut command.path, word.text);
            command.path.push_str(&rest);
            command.span = word.span;
        }
        if command.path.is_empty() || command.path.starts_with('?') {
            let remark = Diagnostic::error("rest: no endpoint is given", command.span);
            return Err(remark.with_hint("write `rest /services/server/info`"));
        }
        if !command.path.starts_with('/') {
            command.path.insert(0, '/');
        }
        Ok(command)
    }
}

impl Semantics for RestCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }
}
