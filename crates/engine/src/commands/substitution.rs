//! Substitutes subsearch results as text: runs the subsearches, inserts their results, then parses the command.
//!
//! A field named `search` or `query` yields its value verbatim (`return $field` produces such a field); rows without
//! such a field yield a condition as written by `format`. A subsearch without a result yields an empty text; if the
//! command does not parse with an empty text, a null value or a quoted empty text is inserted. A search condition with
//! an empty result matches nothing. Source: Splunk's manual on subsearches.
//!
//! The inserted text comes from events, so it must not change the rest of the command: text that could end the
//! command, begin a subsearch, open a quote or begin a comment is rejected.

use std::borrow::Cow;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::field_names::names_of;
use quarry_eval::rows;
use quarry_spl::ast::{Command, Pipeline, SearchCommand, SearchExpr, Span, Stage, SubstitutionCommand, TimeModifiers};

use super::Execute;
use crate::lowering::{Environment, Lowering, Step};
use crate::subsearch::SubsearchBounds;

/// Substitutes tried for an empty result: nothing, a null value, and an empty text.
const EMPTY_SUBSTITUTES: [&str; 3] = ["", "null()", "\"\""];

impl Execute for SubstitutionCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let commands = substitute(self, lowering.span, lowering.environment)?;
        let steps = commands.iter().map(|command| lowering.steps(command));
        Ok(steps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// The commands of a pipeline, with subsearch results substituted.
pub(crate) fn substitute_all<'a>(
    pipeline: &'a Pipeline,
    environment: &dyn Environment,
) -> Result<Cow<'a, Pipeline>, EngineError> {
    let is_substitution = |stage: &Stage| matches!(stage.command, Command::Substitution(_));
    if !pipeline.commands.iter().any(is_substitution) {
        return Ok(Cow::Borrowed(pipeline));
    }
    let mut commands = Vec::with_capacity(pipeline.commands.len());
    for stage in &pipeline.commands {
        match &stage.command {
            // An unresolved condition selects all events; the result of any other unresolved command is unknown.
            Command::Substitution(command) if environment.is_dynamic(&stage.command) => {
                match command.shape.as_slice() {
                    [Command::Search(_)] if command.first => {
                        let none = SubsearchBounds::of_count(0);
                        command
                            .subsearches
                            .iter()
                            .try_for_each(|inner| environment.subsearch(inner, none).map(drop))?;
                        let search = SearchCommand { expr: SearchExpr::All, time: TimeModifiers::default() };
                        commands.push(Stage { command: search.into(), span: stage.span });
                    }
                    _ => commands.push(stage.clone()),
                }
            }
            Command::Substitution(command) => {
                let read = substitute(command, stage.span, environment)?;
                commands.extend(read.into_iter().map(|command| Stage { command, span: stage.span }));
            }
            _ => commands.push(stage.clone()),
        }
    }
    Ok(Cow::Owned(Pipeline { commands, span: pipeline.span }))
}

/// The command with the results of its subsearches substituted.
fn substitute(
    command: &SubstitutionCommand,
    span: Span,
    environment: &dyn Environment,
) -> Result<Vec<Command>, EngineError> {
    let mut texts = Vec::with_capacity(command.subsearches.len());
    for subsearch in &command.subsearches {
        let text =
            results_text(&environment.subsearch(subsearch, SubsearchBounds::of_condition(environment.context()))?);
        if !quarry_spl::is_part_of_command(&text) {
            let message = format!(
                "a subsearch returned `{}`: a command cannot contain a pipe, a bracket, a backtick or an unclosed quote; put it in quotes",
                quarry_spl::excerpt(&text)
            );
            return Err(EngineError::Invalid { message, span: Some(span) });
        }
        texts.push(text);
    }
    let mut fault = None;
    for empty in EMPTY_SUBSTITUTES {
        let texts: Vec<String> =
            texts.iter().map(|text| if text.is_empty() { empty.to_owned() } else { text.clone() }).collect();
        let text = command.with_texts(&texts);
        let parsed = quarry_spl::parse_commands(&text, command.first, &environment.commands().names());
        if parsed.is_ok() {
            return Ok(parsed.pipeline.commands.into_iter().map(|stage| stage.command).collect());
        }
        let remark = parsed.diagnostics.into_iter().find(|remark| remark.severity == quarry_spl::Severity::Error);
        fault = fault.or(remark);
    }
    // As a condition, an empty result matches nothing.
    if texts.iter().all(String::is_empty) && matches!(command.shape.as_slice(), [Command::Search(_)]) {
        let expr = SearchExpr::Not(Box::new(SearchExpr::All));
        return Ok(vec![Command::Search(SearchCommand { expr, time: TimeModifiers::default() })]);
    }
    let reason = fault.map(|remark| remark.to_string()).unwrap_or_default();
    let given: Vec<String> = texts.iter().map(|text| quarry_spl::excerpt(text)).collect();
    let message = format!("with the subsearch result ({}), the command is not valid: {reason}", given.join("; "));
    Err(EngineError::Invalid { message, span: Some(span) })
}

/// Rows as text: a single literal as it is, otherwise a condition.
fn results_text(batches: &[RecordBatch]) -> String {
    let mut conditions: Vec<Vec<String>> = Vec::new();
    let mut literal = false;
    for batch in batches {
        let names: Vec<String> = names_of(batch).into_iter().filter(|name| !name.starts_with('_')).collect();
        let readers: Vec<_> = names.iter().map(|name| rows::reader(batch, name)).collect();
        for row in 0..batch.num_rows() {
            let mut parts = Vec::new();
            for (name, reader) in names.iter().zip(&readers) {
                let is_literal = matches!(name.as_str(), "search" | "query");
                literal |= is_literal;
                let written = |value: &str| match is_literal {
                    true => value.to_owned(),
                    false => format!("{name}=\"{}\"", escape(value)),
                };
                let values: Vec<String> = reader.values(row).map(|value| written(&value)).collect();
                match values.len() {
                    0 => {}
                    1 => parts.extend(values),
                    _ => parts.push(format!("( {} )", values.join(" OR "))),
                }
            }
            if !parts.is_empty() {
                conditions.push(parts);
            }
        }
    }
    match conditions.as_slice() {
        [] => String::new(),
        [parts] if literal && parts.len() == 1 => parts.concat(),
        _ => {
            let rows: Vec<String> = conditions.iter().map(|parts| format!("( {} )", parts.join(" AND "))).collect();
            format!("( {} )", rows.join(" OR "))
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
