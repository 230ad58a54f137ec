//! `filldown`: replaces missing values with the last preceding value.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::parse::{ParseResult, Parser};

/// `filldown [FIELD...]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FillDownCommand {
    /// Fields filled; if empty, all.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for FillDownCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "filldown [FIELD...]",
        summary: "Replaces missing values with the last preceding value",
        group: Group::Fields,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FillDownCommand> {
        Ok(FillDownCommand { fields: parser.fields_to_end()? })
    }
}

impl Semantics for FillDownCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(&self.fields);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn optional_fields(&self) -> BTreeSet<String> {
        self.fields.iter().map(|field| field.text.clone()).collect()
    }
}
