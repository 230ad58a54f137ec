//! `foreach`: runs the same commands for each of several fields, or for each value of a field.
//!
//! For named fields, the commands are expanded when the steps are made. Fields that match a pattern are known only when
//! all rows have arrived.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{BooleanArray, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::wildcard_parts;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowBuffer, RowIter, concat_rows, is_hidden};
use quarry_spl::ast::{FieldPattern, ForeachCommand, ForeachOver, Stage};
use quarry_stdx::number::{integer_part, u32_of};

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Environment, Lowering, Step, blocking, lower};
use crate::run::apply;

/// Maximum number of runs of the commands of one `foreach`.
const RUNS_MAX: usize = 10_000;
/// Column that holds the current item.
const ITEM_COLUMN: &str = "__foreach_item";
/// Column that holds the original row number while the commands run.
const ROW_COLUMN: &str = "__foreach_place";

impl Execute for ForeachCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        if let ForeachOver::Fields(fields) = &self.over
            && fields.iter().all(|field| !field.is_wildcard())
        {
            let steps = fields.iter().map(|field| steps_for_field(self, &field.text, &[], lowering.environment));
            return Ok(steps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
        }
        Ok(vec![blocking(Foreach { command: self.clone(), environment: lowering.environment.detach() })])
    }
}

/// The steps for one field; `parts` are the texts matched by the wildcards of its pattern.
fn steps_for_field(
    command: &ForeachCommand,
    field: &str,
    parts: &[&str],
    environment: &dyn Environment,
) -> Result<Vec<Step>, EngineError> {
    if let Some(eval) = command.assignments_for(field) {
        return lower(&Stage { command: eval.into(), span: command.span }, environment);
    }
    let part = |at: usize| parts.get(at).copied().unwrap_or_default();
    let matched = if parts.is_empty() { String::new() } else { parts.concat() };
    let [one, two, three] = &command.segment_texts;
    let values = [
        (command.field_text.as_str(), field),
        (command.match_text.as_str(), matched.as_str()),
        (one.as_str(), part(0)),
        (two.as_str(), part(1)),
        (three.as_str(), part(2)),
    ];
    let text = command.substitute(&command.template, &values).map_err(|name| unfit_name(name, command))?;
    steps_of(&text, command, environment)
}

/// The error for a field whose name would be read as a part of the commands.
fn unfit_name(name: &str, command: &ForeachCommand) -> EngineError {
    let message = format!(
        "foreach: the field name `{}` cannot be inserted here: outside double quotes, a name cannot contain a pipe, a bracket, a backtick or a quote; rename the field first",
        quarry_spl::excerpt(name)
    );
    EngineError::Invalid { message, span: Some(command.span) }
}

fn steps_of(text: &str, command: &ForeachCommand, environment: &dyn Environment) -> Result<Vec<Step>, EngineError> {
    let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
    let parsed = quarry_spl::parse_commands(text, true, &environment.commands().names());
    if let Some(fault) = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error) {
        return Err(invalid(format!("foreach: `{}`: {fault}", quarry_spl::excerpt(text))));
    }
    let mut steps = Vec::new();
    for stage in &parsed.pipeline.commands {
        let made = lower(stage, environment).map_err(|error| match error {
            EngineError::Invalid { message, .. } => invalid(format!("foreach: {message}")),
            other => other,
        })?;
        steps.extend(made);
    }
    Ok(steps)
}

/// `foreach` over fields or items that are known only at run time.
#[derive(Clone)]
struct Foreach {
    command: ForeachCommand,
    /// Environment in which the commands are lowered.
    environment: Arc<dyn Environment + Send + Sync>,
}

impl Blocking for Foreach {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        match &self.command.over {
            ForeachOver::Fields(patterns) => self.run_on_fields(patterns, rows, context),
            ForeachOver::Values(field) => {
                Ok(self
                    .run_on_items(rows, context, field, |reader, at| reader.values(at).map(Cow::into_owned).collect()))
            }
            ForeachOver::Collection(field) => Ok(self.run_on_items(rows, context, field, |reader, at| {
                let values: Vec<String> = reader.values(at).map(Cow::into_owned).collect();
                match values.as_slice() {
                    [one] if one.trim_start().starts_with('[') => json_items(one),
                    _ => values,
                }
            })),
            ForeachOver::JsonArray(field) => Ok(self.run_on_items(rows, context, field, |reader, at| {
                json_items(&reader.values(at).next().unwrap_or_default())
            })),
        }
    }
}

impl Foreach {
    fn run_on_fields(
        &self,
        patterns: &[FieldPattern],
        rows: RowIter,
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        let kept = RowBuffer::collect("foreach", rows, &context.dataflow)?;
        let schema = kept.schema();
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        let mut runs: Vec<(String, Vec<String>)> = Vec::new();
        for pattern in patterns {
            if !pattern.is_wildcard() {
                runs.push((pattern.text.clone(), Vec::new()));
                continue;
            }
            let internal = pattern.text.starts_with('_');
            let shown = names.iter().filter(|name| !is_hidden(name) && (internal || !name.starts_with('_')));
            for name in shown {
                let Some(parts) = wildcard_parts(&pattern.text, name) else { continue };
                if !runs.iter().any(|(known, _)| known == *name) {
                    runs.push(((*name).clone(), parts.iter().map(|part| (*part).to_owned()).collect()));
                }
            }
        }
        check_runs(runs.len())?;
        let mut rows = kept.into_rows();
        for (field, parts) in runs {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let steps = steps_for_field(&self.command, &field, &parts, self.environment.as_ref())?;
            rows = apply(rows, steps, context)?;
        }
        Ok(rows)
    }

    /// Runs the commands for the first item of every row, then the second, and so on, batch by batch.
    fn run_on_items(
        &self,
        rows: RowIter,
        context: &CommandContext,
        field: &str,
        items_of: impl Fn(&ColumnReader, usize) -> Vec<String> + Send + 'static,
    ) -> RowIter {
        let (this, context, field) = (self.clone(), context.clone(), field.to_owned());
        Box::new(rows.map(move |rows| {
            let mut rows = rows?;
            let reader = rows::reader(&rows, &field);
            let items: Vec<Vec<String>> = (0..rows.num_rows()).map(|row| items_of(&reader, row)).collect();
            let most = items.iter().map(Vec::len).max().unwrap_or(0);
            check_runs(most)?;
            for number in 0..most {
                rows = this.run_on_item(rows, &items, number, &context)?;
            }
            Ok(rows)
        }))
    }

    /// Runs the commands on the rows that have an item with this number; other rows are unchanged.
    fn run_on_item(
        &self,
        rows: RecordBatch,
        items: &[Vec<String>],
        number: usize,
        context: &CommandContext,
    ) -> Result<RecordBatch, EngineError> {
        let has: BooleanArray = items.iter().map(|items| Some(items.len() > number)).collect();
        let hasnt: BooleanArray = items.iter().map(|items| Some(items.len() <= number)).collect();
        let (mut item, mut place) = (ColumnBuilder::new(items.len()), ColumnBuilder::new(items.len()));
        for (row, items) in items.iter().enumerate() {
            match items.get(number) {
                Some(text) => item.push_text(text),
                None => item.push_null(),
            }
            place.push_int(row as i64);
        }
        let rows = rows::with_column(&rows, ROW_COLUMN, place.finish())?;
        let with_item = rows::with_column(&rows, ITEM_COLUMN, item.finish())?;
        let text = substitute_item(&self.command, number)?;
        let steps = steps_of(&text, &self.command, self.environment.as_ref())?;
        let part = rows::filter(&with_item, &has)?;
        let changed = apply(Box::new(std::iter::once(Ok(part))), steps, context)?.collect::<Result<Vec<_>, _>>()?;
        let mut all = Vec::with_capacity(changed.len() + 1);
        for batch in changed {
            all.push(rows::drop_columns(&batch, |name| name == ITEM_COLUMN)?);
        }
        all.push(rows::filter(&rows, &hasnt)?);
        let all = concat_rows(all)?;
        if all.num_rows() != items.len() {
            let message = "foreach: in this mode the commands may not drop or add rows".to_owned();
            return Err(EngineError::Invalid { message, span: Some(self.command.span) });
        }
        let places = rows::reader(&all, ROW_COLUMN);
        let mut order: Vec<u32> = (0..u32_of(all.num_rows())).collect();
        order.sort_by_key(|row| integer_part::<i64>(places.number(*row as usize).unwrap_or(0.0)));
        rows::drop_columns(&rows::take(&all, &UInt32Array::from(order))?, |name| name == ROW_COLUMN)
    }
}

/// The commands with the item replaced by a field, including inside quotes.
fn substitute_item(command: &ForeachCommand, number: usize) -> Result<String, EngineError> {
    let mark = command.item_text.as_str();
    let mut out = String::with_capacity(command.template.len());
    let mut rest = command.template.as_str();
    let mut in_quotes = false;
    while let Some(next) = rest.chars().next() {
        if !mark.is_empty() && rest.starts_with(mark) {
            if in_quotes {
                out.push_str(&format!("\".{ITEM_COLUMN}.\""));
            } else {
                out.push_str(ITEM_COLUMN);
            }
            rest = &rest[mark.len()..];
            continue;
        }
        let escaped = next == '\\' && rest[1..].starts_with(['"', '\\']);
        let length = if escaped { 2 } else { next.len_utf8() };
        in_quotes ^= next == '"';
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    let number = number.to_string();
    command.substitute(&out, &[(&command.number_text, &number)]).map_err(|name| unfit_name(name, command))
}

/// Items of a JSON array: strings without quotes, everything else as JSON.
fn json_items(text: &str) -> Vec<String> {
    let Ok(items) = serde_json::from_str::<Vec<serde_json::Value>>(text) else { return Vec::new() };
    items
        .into_iter()
        .map(|item| match item {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        })
        .collect()
}

fn check_runs(runs: usize) -> Result<(), EngineError> {
    if runs <= RUNS_MAX {
        return Ok(());
    }
    let what = "foreach has too many fields or items; name fewer".to_owned();
    Err(EngineError::Limit { what, limit: "foreach runs", value: RUNS_MAX as u64 })
}
