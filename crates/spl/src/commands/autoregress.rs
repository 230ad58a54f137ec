//! `autoregress`: copies values of earlier rows into each row.

use serde::{Deserialize, Serialize};

use super::delta::{LOOKBACK_ROWS_MAX, field_as};
use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("autoregress", &["p"]);

/// `autoregress FIELD [AS NEW] [p=N|N-M]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutoRegressCommand {
    /// Field copied.
    pub field: String,
    /// Output field (`AS`), allowed only with a single distance.
    pub output: Option<String>,
    /// Minimum distance in rows.
    pub first: usize,
    /// Maximum distance in rows.
    pub last: usize,
}

impl Syntax for AutoRegressCommand {
    const INFO: CommandInfo = CommandInfo {
        aliases: &["ar"],
        syntax: "autoregress FIELD [AS NEW] [p=N|N-M]",
        summary: "Copies values of earlier rows into each row",
        group: Group::Fields,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AutoRegressCommand> {
        let (mut first, mut last) = (1, 1);
        let mut place = parser.here();
        let (field, output) = field_as(parser, OPTIONS, |option| {
            let wrong =
                || option.invalid_value(&format!("a number or a range such as 1-3, at most {LOOKBACK_ROWS_MAX}"));
            let (low, high) = option.value.split_once('-').unwrap_or((&option.value, &option.value));
            first = low.trim().parse().map_err(|_| wrong())?;
            last = high.trim().parse().map_err(|_| wrong())?;
            place = option.value_span;
            if first == 0 || first > last || last > LOOKBACK_ROWS_MAX { Err(wrong()) } else { Ok(()) }
        })?;
        if output.is_some() && first != last {
            let remark = Diagnostic::error("autoregress: AS names one field, but p= makes several", place);
            return Err(remark.with_hint("leave out AS; the fields are named FIELD_p1, FIELD_p2 and so on"));
        }
        Ok(AutoRegressCommand { field, output, first, last })
    }
}

impl Semantics for AutoRegressCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}
