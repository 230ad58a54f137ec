//! `table`: keeps the listed fields, in this order.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::lints::find_calls_in_fields;
use crate::parse::{ParseResult, Parser};

/// `table FIELD...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableCommand {
    /// Fields in the order of the columns.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for TableCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "table FIELD...",
        summary: "Keeps the listed fields, in this order",
        group: Group::Fields,
        kind: Kind::Row,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TableCommand> {
        Ok(TableCommand { fields: parser.field_list("table")? })
    }
}

impl Semantics for TableCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        needs.add_all(&self.fields);
        needs
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::exactly(self.fields.iter().map(|field| field.text.as_str()))
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        find_calls_in_fields(place, &self.fields, found);
    }
}
