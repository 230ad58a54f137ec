//! `fieldsummary`: computes statistics of fields.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, TIME};
use crate::ast::FieldPattern;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Values listed per field by default.
const DEFAULT_VALUES_MAX: usize = 100;

const OPTIONS: OptionNames = OptionNames::new("fieldsummary", &["maxvals"]);

/// `fieldsummary [maxvals=N] [FIELD...]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldSummaryCommand {
    /// `maxvals=` (default `100`): values listed per field; 0 is all.
    pub values_max: usize,
    /// Fields to summarize; empty for all that are not internal.
    pub fields: Vec<FieldPattern>,
    /// By field, the values that are listed even if `values_max` values are more frequent. No option sets this.
    pub also_listed: BTreeMap<String, BTreeSet<String>>,
}

impl Syntax for FieldSummaryCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "fieldsummary [maxvals=N] [FIELD...]",
        summary: "Computes statistics of fields",
        group: Group::Reporting,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FieldSummaryCommand> {
        let (mut values_max, mut fields) = (DEFAULT_VALUES_MAX, Vec::new());
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                values_max = option.number()?;
            }
            parser.skip_separators();
            if parser.at_end() {
                return Ok(FieldSummaryCommand { values_max, fields, also_listed: BTreeMap::new() });
            }
            fields.push(parser.expect_field("a field")?.field());
        }
    }
}

impl Semantics for FieldSummaryCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        needs.add_list(&self.fields);
        needs.every |= self.fields.is_empty();
        needs.add(TIME);
        needs
    }
}
