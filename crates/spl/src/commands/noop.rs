//! `noop` and other commands that do not change the rows: they control how Splunk distributes a search or displays
//! its result.

use serde::{Deserialize, Serialize};

use super::{Call, Command, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `noop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoopCommand;

impl Syntax for NoopCommand {
    const INFO: CommandInfo = CommandInfo {
        aliases: &["highlight", "iconify", "localop", "redistribute"],
        syntax: "noop [ARGUMENT]...",
        summary: "Changes nothing",
        group: Group::NoEffect,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<NoopCommand> {
        parser.pos = parser.end;
        Ok(NoopCommand)
    }
}

impl Semantics for NoopCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }
}

/// Skips the arguments of a command without effect, with a warning.
pub(super) fn parse_without_effect(parser: &mut Parser<'_>, name: &str, missing: &str) -> Command {
    let span = parser.since(parser.pos - name.len());
    parser.pos = parser.end;
    parser.report(Diagnostic::warning(format!("{name}: {missing}; rows pass unchanged"), span));
    Command::Noop(NoopCommand)
}
