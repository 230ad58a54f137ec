//! `iplocation`: looks up the location of IP addresses.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("iplocation", &["prefix", "allfields", "lang"]);

/// `iplocation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpLocationCommand {
    /// Field with the address.
    pub field: String,
    /// `prefix=`: prefix of the output fields.
    pub prefix: String,
    /// `allfields=` (default `f`): whether continent, metro code and time zone are added too.
    pub all_fields: bool,
    /// `lang=`: languages of place names in order of preference; empty for English.
    pub languages: Vec<String>,
}

impl Syntax for IpLocationCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "iplocation [prefix=] [allfields=] FIELD",
        summary: "Adds country, region, city and coordinates of an IP address",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<IpLocationCommand> {
        let mut command =
            IpLocationCommand { field: String::new(), prefix: String::new(), all_fields: false, languages: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "prefix" => command.prefix = option.value,
                    "lang" => {
                        let languages = option.value.split(',').map(|name| name.trim().to_owned());
                        command.languages = languages.filter(|name| !name.is_empty()).collect();
                    }
                    _ => command.all_fields = option.boolean()?,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            let word = parser.expect_field("a field with addresses")?;
            if !command.field.is_empty() {
                return Err(Diagnostic::error(format!("iplocation: unexpected `{}`", word.text), word.span));
            }
            command.field = word.text;
        }
        if command.field.is_empty() {
            return Err(Diagnostic::error("iplocation: no field is given", parser.here()));
        }
        Ok(command)
    }
}

impl Semantics for IpLocationCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
