//! `where`: keeps the rows for which an expression is true.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, is_constant, possibly_missing_fields};
use crate::ast::Expr;
use crate::diagnostic::Diagnostic;
use crate::lints::find_in_expression;
use crate::parse::{ParseResult, Parser};

/// `where EXPR`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhereCommand {
    /// Expression that is true for the rows to keep.
    pub condition: Expr,
}

impl Syntax for WhereCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "where EXPR",
        summary: "Keeps rows for which an expression is true",
        group: Group::Searching,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<WhereCommand> {
        Ok(WhereCommand { condition: parser.whole_expression()? })
    }
}

impl Semantics for WhereCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_expr(&self.condition);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn optional_fields(&self) -> BTreeSet<String> {
        possibly_missing_fields(&self.condition)
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        Some(Vec::new())
    }

    fn is_repeatable(&self) -> bool {
        is_constant(&self.condition)
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        find_in_expression(place.text, &self.condition, found);
    }
}
