//! `rangemap`: names the range that a number lies in.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// Value if no range fits.
const NO_RANGE: &str = "None";

/// `rangemap field=FIELD [NAME=START-END]... [default=TEXT]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeMapCommand {
    /// `field=`: field with the number.
    pub field: String,
    /// Name, minimum and maximum of each range.
    pub ranges: Vec<(String, f64, f64)>,
    /// `default=` (default `None`): value if no range contains the number.
    pub default: String,
}

impl Syntax for RangeMapCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "rangemap field=FIELD [NAME=START-END]... [default=TEXT]",
        summary: "Names the range that a number lies in",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<RangeMapCommand> {
        let hint = "write `rangemap field=NAME low=0-10 high=11-100 default=other`";
        let (mut field, mut ranges, mut default) = (None, Vec::new(), NO_RANGE.to_owned());
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.peek_option().is_none() {
                let message = format!("rangemap: expected name=start-end, found {}", parser.found_text());
                return Err(Diagnostic::error(message, parser.here()).with_hint(hint));
            }
            let option = parser.read_option()?;
            match option.name.as_str() {
                "field" => field = Some(option.value),
                "default" => default = option.value,
                _ => {
                    let (least, greatest) = number_range(&option.value)
                        .ok_or_else(|| option.invalid_value("a range of two numbers such as 0-10").with_hint(hint))?;
                    let name = parser.text[option.name_span.start..option.name_span.end].to_owned();
                    ranges.push((name, least, greatest));
                }
            }
        }
        let Some(field) = field else {
            return Err(Diagnostic::error("rangemap: no field is given", parser.here()).with_hint(hint));
        };
        Ok(RangeMapCommand { field, ranges, default })
    }
}

impl Semantics for RangeMapCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}

/// Parses `a-b`; both numbers may be negative.
fn number_range(text: &str) -> Option<(f64, f64)> {
    let dashes = text.char_indices().skip(1).filter(|(_, character)| *character == '-');
    let ends = dashes.filter_map(|(at, _)| {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number(&text[..at]).zip(number(&text[at + 1..]))
    });
    let (first, second) = { ends }.next()?;
    Some(if first <= second { (first, second) } else { (second, first) })
}
