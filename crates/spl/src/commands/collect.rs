//! `collect`: stores rows as events of an index.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "collect",
    &[
        "index",
        "sourcetype",
        "source",
        "name",
        "host",
        "marker",
        "addtime",
        "testmode",
        "addinfo",
        "timeformat",
        "output_format",
    ],
)
.ignoring(&["spool", "file", "run_in_preview", "uselb"]);

/// `collect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectCommand {
    /// The name in messages: `collect`, even if an alias was written, or the command that was rewritten to `collect`.
    pub name: String,
    /// `index=`: index in which the events are stored.
    pub index: String,
    /// Position of the name.
    pub index_span: Span,
    /// `sourcetype=` (default `stash`): sourcetype of the events.
    pub sourcetype: String,
    /// `source=`: source of the events.
    pub source: Option<String>,
    /// `host=`: host of the events.
    pub host: Option<String>,
    /// `marker=`: text added to every event.
    pub marker: Option<String>,
    /// `addtime=` (default `t`): whether a time is prepended to events without `_raw`.
    pub add_time: bool,
    /// `addinfo=` (default `t`): whether the time range of the search and the time at which it started are added after
    /// the event's time.
    pub add_info: bool,
    /// `timeformat=`: format of the prepended time.
    pub time_format: Option<String>,
    /// Whether events contain their fields as a JSON object (`output_format=hec`).
    pub as_json: bool,
    /// `testmode=` (default `f`): whether the events are shown without being stored.
    pub test_mode: bool,
}

impl Syntax for CollectCommand {
    const INFO: CommandInfo = CommandInfo {
        aliases: &["summaryindex", "sumindex"],
        syntax: "collect index=INDEX [source=] [sourcetype=] [marker=] [testmode=]",
        summary: "Stores the rows as events of an index",
        group: Group::Storing,
        capability: Some("run_collect"),
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<CollectCommand> {
        let mut name = None;
        let mut command = CollectCommand::default();
        loop {
            let Some(option) = parser.option(OPTIONS)? else {
                parser.skip_separators();
                // The index may be given without `index=`.
                match parser.field_word() {
                    Some(word) if command.index.is_empty() => {
                        (command.index, command.index_span) = (word.text, word.span);
                        continue;
                    }
                    Some(word) => {
                        return Err(Diagnostic::error(format!("collect: unexpected `{}`", word.text), word.span));
                    }
                    None => break,
                }
            };
            match option.name.as_str() {
                "index" => (command.index, command.index_span) = (option.value, option.value_span),
                "sourcetype" => command.sourcetype = option.value,
                "source" => command.source = Some(option.value),
                // Alert actions pass the name of their search this way.
                "name" => name = Some(option.value),
                "host" => command.host = Some(option.value),
                "marker" => command.marker = Some(option.value),
                "addtime" => command.add_time = option.boolean()?,
                "addinfo" => command.add_info = option.boolean()?,
                "timeformat" => command.time_format = Some(option.value),
                "output_format" => {
                    command.as_json = match option.value.to_ascii_lowercase().as_str() {
                        "raw" => false,
                        "hec" => true,
                        _ => return Err(option.invalid_value("raw or hec")),
                    }
                }
                _ => command.test_mode = option.boolean()?,
            }
        }
        command.source = command.source.or(name);
        if command.index.is_empty() {
            let remark = Diagnostic::error("collect: no index is given", parser.here());
            return Err(remark.with_hint("write `collect index=summary`"));
        }
        Ok(command)
    }
}

impl Default for CollectCommand {
    fn default() -> CollectCommand {
        CollectCommand {
            name: "collect".to_owned(),
            index: String::new(),
            index_span: Span::default(),
            sourcetype: "stash".to_owned(),
            source: None,
            host: None,
            marker: None,
            add_time: true,
            add_info: true,
            time_format: None,
            as_json: false,
            test_mode: false,
        }
    }
}

impl Semantics for CollectCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        Some(Effect::Index(&self.index))
    }

    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::all_fields()
    }

    fn name<'a>(&'a self, _: &'a str) -> &'a str {
        &self.name
    }

    fn capability(&self, declared: Option<&'static str>) -> Option<&'static str> {
        match self.name.as_str() {
            "collect" => declared,
            _ => super::mcollect::INFO.capability,
        }
    }
}
