//! `gauge`: returns the value and the ranges that a gauge shows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `gauge VALUE [BOUND...]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GaugeCommand {
    /// The value and the bounds of its ranges: numbers or fields.
    pub parts: Vec<String>,
}

impl Syntax for GaugeCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "gauge VALUE [BOUND...]",
        summary: "Formats a value and ranges for a gauge",
        group: Group::Reporting,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<GaugeCommand> {
        let parts: Vec<String> = parser.fields_to_end()?.into_iter().map(|field| field.text).collect();
        if parts.is_empty() {
            let remark = Diagnostic::error("gauge: no field is given", parser.here());
            return Err(remark.with_hint("write `gauge count 0 50 100`"));
        }
        Ok(GaugeCommand { parts })
    }
}

impl Semantics for GaugeCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        self.parts.iter().for_each(|part| needs.add(part));
        needs
    }
}
