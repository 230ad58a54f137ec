//! `xmlunescape`: decodes the XML entities in `_raw`.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, RAW};
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("xmlunescape", &[]).ignoring(&["maxinputs"]);

/// `xmlunescape`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XmlUnescapeCommand;

impl Syntax for XmlUnescapeCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "xmlunescape",
        summary: "Replaces XML entities with the characters they stand for",
        group: Group::Fields,
        kind: Kind::Row,
        page: Some("xmlkv"),
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<XmlUnescapeCommand> {
        while parser.option(OPTIONS)?.is_some() {}
        Ok(XmlUnescapeCommand)
    }
}

impl Semantics for XmlUnescapeCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(RAW);
        after
    }
}
