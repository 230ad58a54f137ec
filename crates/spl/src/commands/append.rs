//! `append`: appends the rows of a subsearch.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Pipeline, SubsearchLimits};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("append", &["maxout", "maxtime", "timeout", "extendtimerange"]);

/// `append [ SEARCH ]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppendCommand {
    /// Subsearch whose rows are appended.
    pub subsearch: Pipeline,
    /// Limits of the subsearch.
    pub limits: SubsearchLimits,
}

impl Syntax for AppendCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "append [maxout=N] [maxtime=S] [ SEARCH ]",
        summary: "Appends the rows of a subsearch",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AppendCommand> {
        let mut limits = SubsearchLimits::default();
        let mut subsearch = None;
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                limits.take(&option)?;
            }
            if parser.at_end() || subsearch.is_some() {
                break;
            }
            subsearch = Some(parser.subsearch()?);
        }
        let Some(subsearch) = subsearch else {
            let remark = Diagnostic::error("append: no subsearch is given", parser.here());
            return Err(remark.with_hint("write `append [ search ... ]`"));
        };
        Ok(AppendCommand { subsearch, limits })
    }
}

impl Semantics for AppendCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        after
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.subsearch]
    }
}
