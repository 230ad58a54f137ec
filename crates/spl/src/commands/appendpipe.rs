//! `appendpipe`: runs commands on the rows and appends their result.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, fields_needed_before};
use crate::ast::Pipeline;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("appendpipe", &[]).ignoring(&["run_in_preview"]);

/// `appendpipe [ COMMANDS ]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppendPipeCommand {
    /// The commands.
    pub pipeline: Pipeline,
}

impl Syntax for AppendPipeCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "appendpipe [ COMMANDS ]",
        summary: "Appends the result of commands on the rows",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AppendPipeCommand> {
        while parser.option(OPTIONS)?.is_some() {}
        Ok(AppendPipeCommand { pipeline: parser.subsearch()? })
    }
}

impl Semantics for AppendPipeCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        let inner = fields_needed_before(&self.pipeline.commands, after.clone());
        after.add_needs(inner);
        after
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.pipeline]
    }
}
