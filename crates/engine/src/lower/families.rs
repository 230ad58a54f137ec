//! Steps of the commands that come in families: values rewritten, rows seen after one another, tables reshaped.

use std::sync::Arc;

use quarry_spl::ast::{AddTotalsCommand, Pipeline, ReshapeCommand, SequenceCommand, SeveralCommand, ValuesCommand};

use super::{Lowering, Step, ordered, row};
use crate::EngineError;
use crate::commands::append::Append;
use crate::commands::conditions::{Format, Return};
use crate::commands::convert::{Convert, ConvertAll, Converter};
use crate::commands::fieldsummary::FieldSummary;
use crate::commands::labels::{Tags, Typer};
use crate::commands::reshape::{Gauge, MvCombine, Transpose, Untable, XySeries};
use crate::commands::sequence::{AutoRegress, Delta, TrendLine, Uniq};
use crate::commands::several::{AppendCols, AppendPipe, MultiReport};
use crate::commands::totals::{ColumnTotals, RowTotals};
use crate::commands::values::{Constants, FillDown, NoMv, RangeMap, Replace, Strcat, search_facts};

impl Lowering<'_> {
    pub(super) fn values(&self, command: &ValuesCommand) -> Result<Vec<Step>, EngineError> {
        let context = self.environment.context();
        Ok(vec![match command {
            ValuesCommand::Convert(convert) => {
                let converter = Arc::new(Converter::new(convert, context)?);
                match converter.needs_all_rows() {
                    true => Step::Blocking(Arc::new(ConvertAll(converter))),
                    false => row(move || Convert(Arc::clone(&converter))),
                }
            }
            ValuesCommand::FillDown(fields) => {
                let fields = fields.clone();
                ordered(move || FillDown::new(fields.clone()))
            }
            ValuesCommand::Strcat(strcat) => {
                let command = Arc::new(strcat.clone());
                row(move || Strcat(Arc::clone(&command)))
            }
            ValuesCommand::Replace(replace) => {
                let command = replace.clone();
                row(move || Replace::new(&command))
            }
            ValuesCommand::RangeMap(map) => {
                let command = Arc::new(map.clone());
                row(move || RangeMap(Arc::clone(&command)))
            }
            ValuesCommand::NoMv(field) => {
                let field = field.clone();
                row(move || NoMv(field.clone()))
            }
            ValuesCommand::Typer => {
                let typer = Typer::new(self.environment.knowledge().as_ref(), &self.expressions())?;
                row(move || typer.clone())
            }
            ValuesCommand::Tags(command) => {
                let tags = Tags::new(command, self.environment.knowledge().as_ref(), &self.expressions())?;
                row(move || tags.clone())
            }
            ValuesCommand::AddInfo => constants(search_facts(context)),
            ValuesCommand::SetFields(fields) => constants(fields.clone()),
            // Formats are applied where the result leaves the search: see `crate::shown`.
            ValuesCommand::FieldFormat(_) | ValuesCommand::Pass => return Ok(Vec::new()),
        }])
    }

    pub(super) fn sequence(&self, command: &SequenceCommand) -> Step {
        match command {
            SequenceCommand::AutoRegress(command) => {
                let command = Arc::new(command.clone());
                ordered(move || AutoRegress::new(Arc::clone(&command)))
            }
            SequenceCommand::Delta(command) => {
                let command = Arc::new(command.clone());
                ordered(move || Delta::new(Arc::clone(&command)))
            }
            SequenceCommand::TrendLine(trends) => {
                let trends = Arc::new(trends.clone());
                ordered(move || TrendLine::new(Arc::clone(&trends)))
            }
            SequenceCommand::Uniq => ordered(Uniq::default),
        }
    }

    pub(super) fn reshape(&self, command: &ReshapeCommand) -> Vec<Step> {
        vec![match command {
            ReshapeCommand::AddTotals(totals) => return add_totals(totals),
            ReshapeCommand::MvCombine { field, delimiter } => {
                Step::Blocking(Arc::new(MvCombine { field: field.clone(), delimiter: delimiter.clone() }))
            }
            ReshapeCommand::Transpose(transpose) => Step::Blocking(Arc::new(Transpose(transpose.clone()))),
            ReshapeCommand::XySeries(xy) => Step::Blocking(Arc::new(XySeries(xy.clone()))),
            ReshapeCommand::Untable { row: stays, name, value } => {
                let (stays, name, value) = (stays.clone(), name.clone(), value.clone());
                row(move || Untable { row: stays.clone(), name: name.clone(), value: value.clone() })
            }
            ReshapeCommand::FieldSummary { values_max, fields } => {
                Step::Blocking(Arc::new(FieldSummary { values_max: *values_max, fields: fields.clone() }))
            }
            ReshapeCommand::Gauge(parts) => Step::Blocking(Arc::new(Gauge(parts.clone()))),
        }]
    }
}

impl Lowering<'_> {
    pub(super) fn several(&self, command: &SeveralCommand) -> Result<Step, EngineError> {
        Ok(match command {
            SeveralCommand::AppendCols { replaces, subsearch, limits } => {
                let right = self.subsearch(subsearch, *limits)?;
                Step::Blocking(Arc::new(AppendCols { right, replaces: *replaces }))
            }
            SeveralCommand::AppendPipe(pipeline) => Step::Blocking(Arc::new(AppendPipe(self.steps_of(pipeline)?))),
            SeveralCommand::MultiReport(reports) => {
                let steps = reports.iter().map(|report| self.steps_of(report)).collect::<Result<_, _>>()?;
                Step::Blocking(Arc::new(MultiReport(steps)))
            }
            SeveralCommand::Union { subsearches, limits } => {
                let mut rows = Vec::new();
                for subsearch in subsearches {
                    rows.extend(self.subsearch(subsearch, *limits)?);
                }
                Step::Blocking(Arc::new(Append { rows }))
            }
            SeveralCommand::Format(format) => Step::Blocking(Arc::new(Format(format.clone()))),
            SeveralCommand::Return(command) => Step::Blocking(Arc::new(Return(command.clone()))),
            SeveralCommand::MultiSearch(_) => return Err(self.must_be_first("multisearch", "")),
            SeveralCommand::Set { .. } => return Err(self.must_be_first("set", "")),
            SeveralCommand::IndexTime { command, .. } => return Err(self.must_be_first(command, "")),
            SeveralCommand::GenTimes(_) => return Err(self.must_be_first("gentimes", "")),
        })
    }
}

impl Lowering<'_> {
    /// The steps of commands in brackets that take the rows there are.
    fn steps_of(&self, pipeline: &Pipeline) -> Result<Vec<Step>, EngineError> {
        let steps = pipeline.commands.iter().map(|stage| super::lower(stage, self.environment));
        Ok(steps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

fn constants(fields: Vec<(String, String)>) -> Step {
    let fields = Arc::new(fields);
    row(move || Constants(Arc::clone(&fields)))
}

fn add_totals(totals: &AddTotalsCommand) -> Vec<Step> {
    let command = Arc::new(totals.clone());
    let mut steps = Vec::new();
    if command.row {
        let command = Arc::clone(&command);
        steps.push(row(move || RowTotals(Arc::clone(&command))));
    }
    if command.column {
        steps.push(Step::Blocking(Arc::new(ColumnTotals(command))));
    }
    steps
}
