//! `appendcols`: adds the columns of a subsearch, row by row.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{Pipeline, SubsearchLimits};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("appendcols", &["override", "maxout", "maxtime", "timeout", "extendtimerange"]);

/// `appendcols [override=] [maxout=N] [ SEARCH ]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppendColsCommand {
    /// `override=` (default `f`): whether values of the subsearch replace existing values.
    pub replaces: bool,
    /// Subsearch whose columns are appended.
    pub subsearch: Pipeline,
    /// Limits of the subsearch.
    pub limits: SubsearchLimits,
}

impl Syntax for AppendColsCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "appendcols [override=] [maxout=N] [ SEARCH ]",
        summary: "Appends the columns of a subsearch",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AppendColsCommand> {
        let (mut replaces, mut limits, mut subsearch) = (false, SubsearchLimits::default(), None);
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "override" => replaces = option.boolean()?,
                    _ => limits.take(&option)?,
                }
            }
            if parser.at_end() || subsearch.is_some() {
                break;
            }
            subsearch = Some(parser.subsearch()?);
        }
        let Some(subsearch) = subsearch else {
            let remark = Diagnostic::error("appendcols: no subsearch is given", parser.here());
            return Err(remark.with_hint("write `appendcols [ search ... ]`"));
        };
        Ok(AppendColsCommand { replaces, subsearch, limits })
    }
}

impl Semantics for AppendColsCommand {
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds {
        // Rows are paired by position only.
        after
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.subsearch]
    }
}
