//! `tojson`: writes the fields of a row as a JSON object.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("tojson", &["default_type", "fill_null", "include_internal", "output_field"]);

/// `tojson`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToJsonCommand {
    /// Patterns of fields and their types; if empty, all fields.
    pub fields: Vec<(JsonType, String)>,
    /// `default_type=` (default `none`): type of fields that are listed without a type.
    pub default_type: JsonType,
    /// `fill_null=` (default `f`): whether values that cannot be written in their type become `null`.
    pub fill_null: bool,
    /// `include_internal=` (default `f`): whether fields whose names begin with `_` are included.
    pub internal: bool,
    /// `output_field=` (default `_raw`): field with the object.
    pub output: String,
}

/// JSON type in which `tojson` writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JsonType {
    /// By the form of the text: number, boolean, null, JSON document, or else text.
    Auto,
    /// As a boolean.
    Bool,
    /// As a JSON document.
    Json,
    /// Numbers as numbers, everything else as text.
    None,
    /// As a number.
    Num,
    /// As text.
    Str,
}

impl Syntax for ToJsonCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "tojson [TYPE(FIELD)]... [default_type=] [fill_null=] [include_internal=] [output_field=]",
        summary: "Writes fields as a JSON object",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ToJsonCommand> {
        let mut command = ToJsonCommand::default();
        let mut plain = Vec::new();
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "default_type" => {
                        command.default_type = json_type(&option.value)
                            .ok_or_else(|| option.invalid_value("auto, bool, json, none, num or str"))?
                    }
                    "fill_null" => command.fill_null = option.boolean()?,
                    "include_internal" => command.internal = option.boolean()?,
                    _ => command.output = option.value,
                }
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            let word = parser.expect_field("a field or a type such as num(FIELD)")?;
            let Some((kind, inner)) = word.text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
                plain.push(word.text);
                continue;
            };
            let Some(kind) = json_type(kind) else {
                return Err(Diagnostic::error(format!("tojson: unknown type `{kind}`"), word.span)
                    .with_hint("types are auto, bool, json, none, num and str"));
            };
            let names = inner.split([',', ' ']).filter(|name| !name.is_empty());
            command.fields.extend(names.map(|name| (kind, name.trim_matches('"').to_owned())));
        }
        command.fields.extend(plain.into_iter().map(|name| (command.default_type, name)));
        Ok(command)
    }
}

impl Default for ToJsonCommand {
    fn default() -> ToJsonCommand {
        ToJsonCommand {
            fields: Vec::new(),
            default_type: JsonType::None,
            fill_null: false,
            internal: false,
            output: "_raw".to_owned(),
        }
    }
}

impl Semantics for ToJsonCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        match self.fields.is_empty() {
            true => after.all = true,
            false => self.fields.iter().for_each(|(_, field)| after.add(field)),
        }
        after
    }
}

fn json_type(name: &str) -> Option<JsonType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "auto" => JsonType::Auto,
        "bool" => JsonType::Bool,
        "json" => JsonType::Json,
        "none" => JsonType::None,
        "num" => JsonType::Num,
        "str" => JsonType::Str,
        _ => return None,
    })
}
