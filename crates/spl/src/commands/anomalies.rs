//! `anomalies`: scores how unexpected each row is, given the rows before it.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{FieldPattern, Span};
use crate::parse::{OptionNames, ParseResult, Parser};

/// Maximum of `maxvalues=`.
const WINDOW_MAX: usize = 10_000;

const OPTIONS: OptionNames = OptionNames::new(
    "anomalies",
    &[
        "threshold",
        "labelonly",
        "normalize",
        "maxvalues",
        "field",
        "denylist",
        "denylistthreshold",
        "blacklist",
        "blacklistthreshold",
    ],
);

/// `anomalies`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnomaliesCommand {
    /// `threshold=` (default `0.01`): rows less unexpected than this are dropped.
    pub threshold: f64,
    /// `labelonly=` (default `f`): whether every row is kept.
    pub label_only: bool,
    /// `normalize=` (default `t`): whether all numbers count as equal.
    pub normalizes: bool,
    /// `maxvalues=` (default `100`): number of preceding rows compared.
    pub window: usize,
    /// `field=` (default `_raw`): field with the text.
    pub field: String,
    /// `denylist=`: name of a lookup table of texts that are never unexpected, and the position of the name.
    pub denied: Option<(String, Span)>,
    /// `denylistthreshold=` (default `0.05`): a row is similar to a listed text if at most this share of the short
    /// substrings of both is found only in the row.
    pub denied_threshold: f64,
    /// `BY`.
    pub by: Vec<FieldPattern>,
}

impl Syntax for AnomaliesCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "anomalies [threshold=N] [field=FIELD] [maxvalues=N] [labelonly=] [by FIELD...]",
        summary: "Scores how unexpected each row is, given the rows before it",
        group: Group::Patterns,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AnomaliesCommand> {
        let mut command = AnomaliesCommand {
            threshold: 0.01,
            label_only: false,
            normalizes: true,
            window: 100,
            field: "_raw".to_owned(),
            denied: None,
            denied_threshold: 0.05,
            by: Vec::new(),
        };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "threshold" => command.threshold = option.number()?,
                    "labelonly" => command.label_only = option.boolean()?,
                    "normalize" => command.normalizes = option.boolean()?,
                    "maxvalues" => command.window = option.number::<usize>()?.clamp(1, WINDOW_MAX),
                    "denylist" | "blacklist" => command.denied = Some((option.value, option.value_span)),
                    "denylistthreshold" | "blacklistthreshold" => command.denied_threshold = option.number()?,
                    _ => command.field = option.value,
                }
            }
            if !parser.eat_keyword("by") {
                return Ok(command);
            }
            command.by = parser.by_fields(OPTIONS)?;
        }
    }
}

impl Semantics for AnomaliesCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after.add_all(&self.by);
        after
    }
}
