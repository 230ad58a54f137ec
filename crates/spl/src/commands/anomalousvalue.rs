//! `anomalousvalue`: finds values that are rare in their field or far from the mean of the field.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "anomalousvalue",
    &["action", "pthresh", "minsupcount", "minsupfreq", "maxanofreq", "minnormfreq"],
)
.ignoring(&["usefields"]);

/// `anomalousvalue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnomalousValueCommand {
    /// `action=` (default `filter`): treatment of anomalies.
    pub action: AnomalyAction,
    /// `pthresh=` (default `0.01`): probability below which a value is anomalous.
    pub threshold: f64,
    /// `minsupcount=` (default `100`) and `minsupfreq=` (default `0.05`): minimum number and share of rows that have a
    /// field.
    pub support: (usize, f64),
    /// `maxanofreq=` (default `0.05`): a field is ignored if a larger share of its rows is anomalous.
    pub anomalous_share: f64,
    /// `minnormfreq=` (default `0.01`): a text field is ignored if its most frequent value is rarer.
    pub normal_share: f64,
    /// Fields; if empty, all.
    pub fields: Vec<FieldPattern>,
}

/// Treatment of anomalies by `anomalousvalue` and `anomalydetection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnomalyAction {
    /// Keep only anomalous rows.
    Filter,
    /// Keep all rows and add fields that describe the anomalies.
    Annotate,
    /// Replace the rows with one row per field.
    Summary,
}

impl Syntax for AnomalousValueCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "anomalousvalue [action=filter|annotate|summary] [pthresh=N] [FIELD...]",
        summary: "Finds values that are rare or far from the mean",
        group: Group::Patterns,
        kind: Kind::Blocking,
        page: Some("anomalydetection"),
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AnomalousValueCommand> {
        AnomalousValueCommand::with_options(parser, OPTIONS)
    }
}

impl Semantics for AnomalousValueCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_list(&self.fields);
        after
    }

    fn returns_table(&self, _: bool) -> bool {
        self.action == AnomalyAction::Summary
    }
}

impl AnomalousValueCommand {
    /// Parses the options and fields; options of `anomalydetection` for its other methods are errors.
    pub(super) fn with_options(parser: &mut Parser<'_>, known: OptionNames) -> ParseResult<AnomalousValueCommand> {
        let mut command = AnomalousValueCommand {
            action: AnomalyAction::Filter,
            threshold: 0.01,
            support: (100, 0.05),
            anomalous_share: 0.05,
            normal_share: 0.01,
            fields: Vec::new(),
        };
        loop {
            while let Some(option) = parser.option(known)? {
                match option.name.as_str() {
                    "method" => {}
                    "action" => command.action = AnomalyAction::of(&option)?,
                    "pthresh" => command.threshold = option.number()?,
                    "minsupcount" => command.support.0 = option.number()?,
                    "minsupfreq" => command.support.1 = option.number()?,
                    "maxanofreq" => command.anomalous_share = option.number()?,
                    "minnormfreq" => command.normal_share = option.number()?,
                    other => {
                        let message = format!("{}: method=zscore has no option {other}", known.command);
                        return Err(Diagnostic::error(message, option.value_span));
                    }
                }
            }
            match parser.next_field() {
                Some(field) => command.fields.push(field),
                None => return Ok(command),
            }
        }
    }
}

impl AnomalyAction {
    /// The value of `action=`.
    pub(super) fn of(option: &OptionArg) -> ParseResult<AnomalyAction> {
        Ok(match option.value.to_ascii_lowercase().as_str() {
            "filter" => AnomalyAction::Filter,
            "annotate" => AnomalyAction::Annotate,
            "summary" => AnomalyAction::Summary,
            _ => return Err(option.invalid_value("filter, annotate or summary")),
        })
    }
}
