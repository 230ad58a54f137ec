//! `multireport`: concatenates the results of several pipelines that run on the same rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, fields_needed_before};
use crate::ast::Pipeline;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `multireport [ COMMANDS ] [ COMMANDS ]...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MultiReportCommand {
    /// The pipelines.
    pub reports: Vec<Pipeline>,
}

impl Syntax for MultiReportCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "multireport [ COMMANDS ] [ COMMANDS ]...",
        summary: "Runs several pipelines of commands on the same rows",
        group: Group::Rows,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<MultiReportCommand> {
        if parser.at_end() {
            let remark = Diagnostic::error("multireport: no commands in brackets are given", parser.here());
            return Err(remark.with_hint("write `multireport [ stats count ] [ stats dc(host) ]`"));
        }
        Ok(MultiReportCommand { reports: parser.subsearches("multireport", 1, |_| Ok(None))? })
    }
}

impl Semantics for MultiReportCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        for report in &self.reports {
            needs.add_needs(fields_needed_before(&report.commands, after.clone()));
        }
        needs
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        self.reports.iter().collect()
    }
}
