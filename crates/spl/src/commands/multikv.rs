//! `multikv`: turns the rows of a table in the text of an event into rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("multikv", &["conf", "copyattrs", "forceheader", "multitable", "noheader", "rmorig"]);

/// `multikv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultiKvCommand {
    /// `copyattrs=` (default `t`): whether rows keep the fields of their event.
    pub copies_fields: bool,
    /// `fields`: columns that become fields; if empty, all.
    pub fields: Vec<String>,
    /// `filter`: rows that contain none of these texts are dropped, unless the list is empty.
    pub filter: Vec<String>,
    /// `forceheader=`: line number of the header, from 1, not counting blank lines.
    pub header_line: Option<usize>,
    /// `multitable=` (default `t`): whether a text may contain several tables.
    pub several_tables: bool,
    /// `noheader=` (default `f`): whether columns are named `Column_1` and so on.
    pub no_header: bool,
    /// `rmorig=` (default `t`): whether the original event is dropped.
    pub removes_event: bool,
    /// `conf=`: a stanza of multikv.conf, and its position.
    pub rule: Option<(String, Span)>,
}

impl Syntax for MultiKvCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "multikv [conf=STANZA] [fields NAME...] [filter TEXT...] [forceheader=N] [noheader=] [multitable=] [rmorig=] [copyattrs=]",
        summary: "Extracts the rows of tables in the text",
        group: Group::Fields,
        kind: Kind::Row,
        clauses: &["fields"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MultiKvCommand> {
        let mut command = MultiKvCommand {
            copies_fields: true,
            fields: Vec::new(),
            filter: Vec::new(),
            header_line: None,
            several_tables: true,
            no_header: false,
            removes_event: true,
            rule: None,
        };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "conf" => command.rule = Some((option.value, option.value_span)),
                    "copyattrs" => command.copies_fields = option.boolean()?,
                    "forceheader" => command.header_line = Some(option.number()?).filter(|line| *line > 0),
                    "multitable" => command.several_tables = option.boolean()?,
                    "noheader" => command.no_header = option.boolean()?,
                    _ => command.removes_event = option.boolean()?,
                }
            }
            if parser.eat_keyword("fields") {
                command.fields.extend(words_before_keyword(parser)?);
            } else if parser.eat_keyword("filter") {
                command.filter.extend(words_before_keyword(parser)?);
            } else {
                return Ok(command);
            }
        }
    }
}

impl Semantics for MultiKvCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(RAW);
        after
    }
}

/// The words of a list, up to the next list or option.
fn words_before_keyword(parser: &mut Parser<'_>) -> ParseResult<Vec<String>> {
    let mut words = Vec::new();
    loop {
        parser.skip_separators();
        let keyword = parser.at_keyword("fields") || parser.at_keyword("filter");
        if parser.at_end() || keyword || parser.peek_option().is_some() {
            break;
        }
        words.push(parser.expect_field("a word")?.text);
    }
    match words.is_empty() {
        true => Err(Diagnostic::error("multikv: a list is empty", parser.here())),
        false => Ok(words),
    }
}
