//! `xmlkv`: extracts the leaf elements of XML as fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("xmlkv", &[]).ignoring(&["maxinputs"]);

/// `xmlkv [FIELD]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XmlKvCommand {
    /// Field with the XML; default `_raw`.
    pub field: String,
}

impl Syntax for XmlKvCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "xmlkv [FIELD]",
        summary: "Extracts the elements of XML as fields",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<XmlKvCommand> {
        let mut field = "_raw".to_owned();
        loop {
            while parser.option(OPTIONS)?.is_some() {}
            match parser.field_word() {
                Some(word) => field = word.text,
                None => return Ok(XmlKvCommand { field }),
            }
        }
    }
}

impl Semantics for XmlKvCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
