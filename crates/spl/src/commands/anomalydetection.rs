//! `anomalydetection`: finds improbable rows, by one of three methods.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{AnomalousValueCommand, AnomalyAction, FieldPattern, OutlierCommand};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames =
    OptionNames::new("anomalydetection", &["method", "action", "pthresh", "cutoff", "param", "uselower", "mark"]);

/// `anomalydetection`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnomalyDetectionCommand {
    /// `method=histogram`.
    Histogram(HistogramDetection),
    /// `method=zscore`: like `anomalousvalue`.
    ZScore(AnomalousValueCommand),
    /// `method=iqr`: like `outlier`.
    Quartiles(OutlierCommand),
}

/// `anomalydetection method=histogram`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistogramDetection {
    /// `action=` (default `filter`): treatment of anomalies.
    pub action: AnomalyAction,
    /// `pthresh=`: probability below which a row is anomalous; estimated if absent.
    pub threshold: Option<f64>,
    /// `cutoff=` (default `t`): whether few anomalies are reported rather than many.
    pub cutoff: bool,
    /// Fields; if empty, all.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for AnomalyDetectionCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "anomalydetection [method=histogram|zscore|iqr] [action=] [pthresh=N] [FIELD...]",
        summary: "Finds improbable rows",
        group: Group::Patterns,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<AnomalyDetectionCommand> {
        let mut command =
            HistogramDetection { action: AnomalyAction::Filter, threshold: None, cutoff: true, fields: Vec::new() };
        let start = parser.pos;
        let (mut method, mut action) = ("histogram".to_owned(), None);
        let mut quartiles =
            OutlierCommand { removes: false, marks: false, factor: 2.5, lower: false, fields: Vec::new() };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "method" => method = option.value.to_ascii_lowercase(),
                    "action" => action = Some(option),
                    "pthresh" => command.threshold = Some(option.number()?),
                    "cutoff" => command.cutoff = option.boolean()?,
                    "param" => quartiles.factor = option.number()?,
                    "uselower" => quartiles.lower = option.boolean()?,
                    _ => quartiles.marks = option.boolean()?,
                }
            }
            match parser.next_field() {
                Some(field) => command.fields.push(field),
                None => break,
            }
        }
        match method.as_str() {
            "histogram" => {
                if let Some(action) = &action {
                    command.action = AnomalyAction::of(action)?;
                }
                Ok(AnomalyDetectionCommand::Histogram(command))
            }
            "zscore" => {
                parser.pos = start;
                AnomalousValueCommand::with_options(parser, OPTIONS).map(AnomalyDetectionCommand::ZScore)
            }
            "iqr" => {
                if let Some(action) = action {
                    quartiles.removes = match action.value.to_ascii_lowercase().as_str() {
                        "rm" | "remove" => true,
                        "tf" | "transform" => false,
                        _ => return Err(action.invalid_value("remove or transform")),
                    };
                }
                quartiles.fields = command.fields;
                Ok(AnomalyDetectionCommand::Quartiles(quartiles))
            }
            _ => {
                let message = format!("anomalydetection: there is no method `{method}`");
                Err(Diagnostic::error(message, parser.since(start)).with_hint("use histogram, zscore or iqr"))
            }
        }
    }
}

impl Semantics for AnomalyDetectionCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        match self {
            AnomalyDetectionCommand::Histogram(histogram) => after.add_list(&histogram.fields),
            AnomalyDetectionCommand::ZScore(command) => return command.fields_before(after),
            AnomalyDetectionCommand::Quartiles(command) => return command.fields_before(after),
        }
        after
    }

    fn returns_table(&self, declared: bool) -> bool {
        match self {
            AnomalyDetectionCommand::Histogram(histogram) => histogram.action == AnomalyAction::Summary,
            AnomalyDetectionCommand::ZScore(command) => command.returns_table(declared),
            AnomalyDetectionCommand::Quartiles(command) => command.returns_table(declared),
        }
    }
}
