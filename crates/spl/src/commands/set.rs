//! `set`: returns the union, difference or intersection of the rows of two searches.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::Pipeline;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `set (union|diff|intersect) [ SEARCH ] [ SEARCH ]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetCommand {
    /// The set operation.
    pub operation: SetOperation,
    /// First subsearch.
    pub left: Pipeline,
    /// Second subsearch.
    pub right: Pipeline,
}

/// Operations of `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetOperation {
    /// Rows of either side, without duplicates.
    Union,
    /// Rows of one side only.
    Diff,
    /// Rows of both sides.
    Intersect,
}

impl Syntax for SetCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "set (union|diff|intersect) [ SEARCH ] [ SEARCH ]",
        summary: "Returns the union, difference or intersection of two results",
        group: Group::Rows,
        kind: Kind::Generating,
        returns_table: true,
        has_own_keywords: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SetCommand> {
        let word = parser.expect_field("union, diff or intersect")?;
        let operation = match word.text.to_ascii_lowercase().as_str() {
            "union" => SetOperation::Union,
            "diff" => SetOperation::Diff,
            "intersect" => SetOperation::Intersect,
            _ => {
                let remark = Diagnostic::error(format!("set: unknown operation `{}`", word.text), word.span);
                return Err(parser.suggest(remark, &word.text, ["union", "diff", "intersect"]));
            }
        };
        let place = parser.here();
        let mut sides = parser.subsearches("set", 2, |_| Ok(None))?.into_iter();
        match (sides.next(), sides.next(), sides.next()) {
            (Some(left), Some(right), None) => Ok(SetCommand { operation, left, right }),
            _ => Err(Diagnostic::error("set: exactly two subsearches are required", place)),
        }
    }
}

impl Semantics for SetCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn subsearches(&self) -> Vec<&Pipeline> {
        vec![&self.left, &self.right]
    }
}
