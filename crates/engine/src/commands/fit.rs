//! `fit`: fits a model to the rows, stores it, and passes the rows on with the model's predictions.
//!
//! All rows are buffered ([`RowBuffer`], which may spill). The model is fitted to a sample with a bounded number of
//! rows and only the named fields; the model is then applied to all rows, unless its algorithm only labels the rows of
//! the sample.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::SeenNames;
use quarry_eval::lookup::LookupSource;
use quarry_eval::rows::{self, ColumnBuilder, RowBuffer, RowIter, batch_of};
use quarry_learn::{
    Column, FitControl, FitRequest, FitResult, LearnError, Options, OutputValue, ROWS_MAX, fit, sample, wire,
};
use quarry_spl::ast::{FitCommand, ModelName};
use quarry_stdx::number::u32_of;

use super::Execute;
use super::models::{FieldValues, Fields, PredictedRows, expand_patterns, learn_error, options_of, push_value};
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

/// Approximate memory per table cell while fitting: the number itself, and the sort orders used by trees.
const CELL_BYTES: usize = 24;
/// Default of `random_state`, the seed of the sample.
const SAMPLE_SEED: u64 = 42;

impl Execute for FitCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(Fit { command: self.clone(), models: lowering.environment.lookups() })])
    }
}

/// Buffers all rows, fits the model to them or to a sample, and adds the predictions.
struct Fit {
    command: FitCommand,
    /// Store of the models.
    models: Arc<dyn LookupSource>,
}

impl Blocking for Fit {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let (mut kept, mut names) = (RowBuffer::new("fit", &context.dataflow), SeenNames::default());
        for batch in rows {
            let batch = batch?;
            names.add(&batch);
            kept.push(&batch)?;
        }
        if kept.num_rows() == 0 {
            context.messages.push("fit: there are no rows to fit to, so no model is created");
            return Ok(kept.into_rows());
        }
        let options = options_of(&self.command.options);
        let drawn = self.sample_rows(kept.num_rows(), &options, context)?;
        let features = expand_patterns(&self.command.features, names.all());
        let wanted: Vec<&str> = self.fields(&features).collect();
        let table = training_table(&kept, &wanted, drawn.as_deref())?;
        let mut account = context.dataflow.account("fit");
        account.set(table.num_rows() * wanted.len() * CELL_BYTES + table.get_array_memory_size())?;
        let fitted = match self.fit_model(&table, &features, &options, context) {
            // The search was cancelled, so nobody needs the predictions.
            Err(LearnError::Cancelled) => return Ok(kept.into_rows()),
            other => other.map_err(|error| self.fault(&error))?,
        };
        drop(table);
        fitted.notes.iter().for_each(|note| context.messages.push(format!("fit: {note}")));
        if let Some(name) = &self.command.model {
            self.save_model(name, &fitted)?;
        }
        match fitted.labels {
            Some((name, labels)) => with_labels(kept, &name, &labels, drawn.as_deref()),
            None => {
                let applied = fitted.model.prepare(&Options::default(), None).map_err(|error| self.fault(&error))?;
                Ok(Box::new(PredictedRows::new("fit", kept.into_rows(), applied, context.clone())))
            }
        }
    }
}

impl Fit {
    fn fault(&self, error: &LearnError) -> EngineError {
        learn_error("fit", error, &self.command.options, self.command.span)
    }

    /// Row numbers of the sample; `None` for all rows.
    fn sample_rows(
        &self,
        rows: usize,
        options: &Options,
        context: &CommandContext,
    ) -> Result<Option<Vec<usize>>, EngineError> {
        if rows <= ROWS_MAX {
            return Ok(None);
        }
        let seed = options.get("random_state").and_then(|seed| seed.parse().ok()).unwrap_or(SAMPLE_SEED);
        context.messages.push(format!("fit: fitted to a sample of {ROWS_MAX} of {rows} rows"));
        Ok(Some(sample(rows, ROWS_MAX, seed)))
    }

    /// All fields that are read.
    fn fields<'a>(&'a self, features: &'a [String]) -> impl Iterator<Item = &'a str> {
        let target = self.command.target.iter().map(|field| field.text.as_str());
        let names = target.chain(self.command.by.iter().map(String::as_str)).chain(features.iter().map(String::as_str));
        names.collect::<std::collections::BTreeSet<_>>().into_iter()
    }

    fn fit_model(
        &self,
        table: &RecordBatch,
        features: &[String],
        options: &Options,
        context: &CommandContext,
    ) -> Result<FitResult, LearnError> {
        let target =
            self.command.target.as_ref().map(|field| (field.text.as_str(), FieldValues::new(table, &field.text)));
        let (features, by) = (Fields::new(table, features), Fields::new(table, &self.command.by));
        let request = FitRequest {
            algorithm: self.command.algorithm.name,
            target: target.as_ref().map(|(name, values)| Column { name, values }),
            features: features.columns(),
            by: by.columns(),
            rows: table.num_rows(),
            options: options.clone(),
            output: self.command.output.clone(),
        };
        let start = context.stop.begin_work();
        // If the search is finalised, fitting ends early. Exception: with `into`, the search writes
        // (`Stop::keep_rows`), and `should_end_rows` then ends the fit only if the search is cancelled.
        let control =
            FitControl { stop: &|| context.stop.is_cancelled(), should_end: &|| context.stop.should_end_rows(start) };
        fit(&request, control)
    }

    fn save_model(&self, name: &ModelName, fitted: &FitResult) -> Result<(), EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(name.span) };
        if !fitted.model.can_be_applied() {
            let message = format!(
                "fit: {} cannot be applied to other rows, so it has no model: leave out `into`",
                fitted.model.algorithm
            );
            return Err(invalid(message));
        }
        let bytes = wire::to_bytes(&fitted.model).map_err(|error| invalid(format!("fit: {error}")))?;
        let written = self.models.write_model(&name.text, name.shared, &bytes);
        written.map_err(|fault| EngineError::at(fault.with_context("fit"), name.span))
    }
}

/// The sampled rows with the fields that are read.
fn training_table(kept: &RowBuffer, names: &[&str], drawn: Option<&[usize]>) -> Result<RecordBatch, EngineError> {
    let mut parts = Vec::with_capacity(kept.num_batches());
    let (mut start, mut next) = (0, drawn.unwrap_or_default());
    for batch in kept.iter() {
        let batch = batch?;
        let count = batch.num_rows();
        let columns = names.iter().map(|name| (*name, rows::column_or_null(&batch, name)));
        let mut part = batch_of(columns, count)?;
        if drawn.is_some() {
            let here = next.partition_point(|row| *row < start + count);
            let places: UInt32Array = next[..here].iter().map(|row| u32_of(row - start)).collect::<Vec<_>>().into();
            part = rows::take(&part, &places)?;
            next = &next[here..];
        }
        start += count;
        parts.push(part);
    }
    rows::concat_rows(parts)
}

/// All rows; those of the sample have labels.
fn with_labels(
    kept: RowBuffer,
    name: &str,
    labels: &[OutputValue],
    drawn: Option<&[usize]>,
) -> Result<RowIter, EngineError> {
    let by_row: Option<BTreeMap<usize, OutputValue>> =
        drawn.map(|drawn| drawn.iter().copied().zip(labels.iter().cloned()).collect());
    let (name, labels) = (name.to_owned(), labels.to_vec());
    let mut start = 0;
    Ok(Box::new(kept.into_rows().map(move |batch| {
        let batch = batch?;
        let mut column = ColumnBuilder::new(batch.num_rows());
        for row in start..start + batch.num_rows() {
            let answer = match &by_row {
                Some(answers) => answers.get(&row),
                None => labels.get(row),
            };
            push_value(&mut column, answer.unwrap_or(&OutputValue::Null));
        }
        start += batch.num_rows();
        rows::with_column(&batch, &name, column.finish())
    })))
}
