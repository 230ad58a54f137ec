//! `analyzefields`: measures how well each numeric field predicts the values of one field, the class.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("analyzefields", &["classfield"]);

/// `analyzefields classfield=FIELD`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalyzeFieldsCommand {
    /// `classfield=`: the field to predict.
    pub class_field: String,
}

impl Syntax for AnalyzeFieldsCommand {
    const INFO: CommandInfo = CommandInfo {
        aliases: &["af"],
        syntax: "analyzefields classfield=FIELD",
        summary: "Measures how well numeric fields predict another field",
        group: Group::Patterns,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AnalyzeFieldsCommand> {
        let mut class = None;
        while let Some(option) = parser.option(OPTIONS)? {
            class = Some(option.value);
        }
        let Some(class_field) = class else {
            let remark = Diagnostic::error("analyzefields: no classfield= is given", parser.here());
            return Err(remark.with_hint("write `analyzefields classfield=status`"));
        };
        Ok(AnalyzeFieldsCommand { class_field })
    }
}

impl Semantics for AnalyzeFieldsCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.all = true;
        after
    }
}
