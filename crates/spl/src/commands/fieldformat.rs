//! `fieldformat`: sets how a field is displayed without changing its value.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{AssignTarget, Expr};
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `fieldformat FIELD=EXPR`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldFormatCommand {
    /// Field displayed.
    pub field: String,
    /// Expression for the displayed value.
    pub expr: Expr,
}

impl Syntax for FieldFormatCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "fieldformat FIELD=EXPR",
        summary: "Sets how a field is displayed, without changing its value",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FieldFormatCommand> {
        let start = parser.pos;
        let assignment = parser.assignment()?;
        let AssignTarget::Field(field) = assignment.target else {
            return Err(Diagnostic::error(
                "fieldformat: the field must be named without wildcards",
                parser.since(start),
            ));
        };
        Ok(FieldFormatCommand { field, expr: assignment.expr })
    }
}

impl Semantics for FieldFormatCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after.add_expr(&self.expr);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }
}
