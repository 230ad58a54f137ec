//! `delta`: computes the difference between a value and the value of an earlier row.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("delta", &["p"]);

/// Maximum number of rows that `delta` and `autoregress` look back.
pub(super) const LOOKBACK_ROWS_MAX: usize = 10_000;

/// `delta FIELD [AS NEW] [p=N]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeltaCommand {
    /// Field compared.
    pub field: String,
    /// Field written.
    pub output: String,
    /// `p=` (default `1`): number of rows back.
    pub distance: usize,
}

impl Syntax for DeltaCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "delta FIELD [AS NEW] [p=N]",
        summary: "Computes the difference from the value of an earlier row",
        group: Group::Fields,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<DeltaCommand> {
        let mut distance = 1;
        let (field, output) = field_as(parser, OPTIONS, |option| {
            distance = option.number()?;
            if distance == 0 || distance > LOOKBACK_ROWS_MAX {
                return Err(option.invalid_value(&format!("a number from 1 to {LOOKBACK_ROWS_MAX}")));
            }
            Ok(())
        })?;
        let output = output.unwrap_or_else(|| format!("delta({field})"));
        Ok(DeltaCommand { field, output, distance })
    }
}

impl Semantics for DeltaCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}

/// Parses `FIELD [AS NEW]` with options before, between and after; passes each option to `take`.
pub(super) fn field_as(
    parser: &mut Parser<'_>,
    known: OptionNames,
    mut take: impl FnMut(&OptionArg) -> ParseResult<()>,
) -> ParseResult<(String, Option<String>)> {
    let (mut field, mut output) = (None, None);
    loop {
        while let Some(option) = parser.option(known)? {
            take(&option)?;
        }
        if parser.at_end() {
            break;
        }
        if field.is_some() && output.is_none() && parser.at_keyword("as") {
            output = parser.name_after_as()?;
        } else if field.is_none() {
            field = Some(parser.expect_field("a field")?.text);
        } else {
            let message = format!("{}: unexpected {}", known.command, parser.found_text());
            return Err(Diagnostic::error(message, parser.here()));
        }
    }
    let Some(field) = field else {
        return Err(Diagnostic::error(format!("{}: no field is given", known.command), parser.here()));
    };
    Ok((field, output))
}
