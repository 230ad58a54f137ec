//! Machine-learning models: parts shared by the commands that use them.
//!
//! Rows are passed to `quarry_learn` by column ([`FieldValues`]); its answers become columns again.

use std::borrow::Cow;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::{CommandContext, WorkStart};
use quarry_eval::field_names::matching_names;
use quarry_eval::lookup::LookupSource;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, RowIter, Value, batch_of, is_hidden};
use quarry_learn::score::Row;
use quarry_learn::{Column, LearnError, Model, Options, OutputValue, Predictor, Values, wire};
use quarry_spl::ast::{FieldPattern, LearnOption, ModelName, Span};
use quarry_stdx::{Fault, HasKind};

/// Rows passed to a model at once.
const CHUNK_ROWS: usize = 4_096;
/// Maximum number of model names in a message.
const NAMES_LISTED_MAX: usize = 20;

/// Reads the values of a field. An empty text counts as missing, as in Splunk's toolkit.
pub(super) struct FieldValues(ColumnReader);

impl FieldValues {
    /// The values of a column.
    pub(super) fn new(rows: &RecordBatch, name: &str) -> FieldValues {
        FieldValues(rows::reader(rows, name))
    }
}

impl Values for FieldValues {
    fn is_null(&self, row: usize) -> bool {
        self.0.is_null(row) || self.text(row).is_none()
    }

    fn number(&self, row: usize) -> Option<f64> {
        self.0.number(row).filter(|number| number.is_finite())
    }

    fn text(&self, row: usize) -> Option<Cow<'_, str>> {
        self.0.value(row).into_text().filter(|text| !text.is_empty())
    }
}

/// Columns of a batch for `quarry_learn`: names and readers.
pub(super) struct Fields {
    names: Vec<String>,
    values: Vec<FieldValues>,
}

impl Fields {
    /// The columns with these names; a missing column has no values.
    pub(super) fn new<N: AsRef<str>>(rows: &RecordBatch, names: impl IntoIterator<Item = N>) -> Fields {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        let values = names.iter().map(|name| FieldValues::new(rows, name)).collect();
        Fields { names, values }
    }

    pub(super) fn columns(&self) -> Vec<Column<'_>> {
        let pairs = self.names.iter().zip(&self.values);
        pairs.map(|(name, values)| Column { name, values: values as &dyn Values }).collect()
    }
}

/// Expands field patterns: `*` matches existing fields, internal fields only if the pattern begins with `_`; any
/// other name is kept, whether the field exists or not.
pub(super) fn expand_patterns(patterns: &[FieldPattern], names: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for pattern in patterns {
        let is_meant = |name: &&str| !is_hidden(name) && (pattern.text.starts_with('_') || !name.starts_with('_'));
        let these: Vec<String> = match pattern.is_wildcard() {
            true => {
                let there = matching_names(std::slice::from_ref(pattern), names).into_iter();
                there.filter(is_meant).map(str::to_owned).collect()
            }
            false => vec![pattern.text.clone()],
        };
        for name in these {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// Options as written in the search.
pub(super) fn options_of(options: &[LearnOption]) -> Options {
    options.iter().map(|option| (option.name.clone(), option.value.clone())).collect()
}

/// Converts an error of `quarry_learn`, with its position in the search.
pub(super) fn learn_error(command: &str, error: &LearnError, options: &[LearnOption], span: Span) -> EngineError {
    let place = match error {
        LearnError::Option { name, .. } => options.iter().find(|option| option.name == *name).map(|option| option.span),
        _ => None,
    };
    EngineError::Invalid { message: format!("{command}: {error}"), span: Some(place.unwrap_or(span)) }
}

/// Loads the model of this name.
pub(super) fn model(command: &str, name: &ModelName, models: &dyn LookupSource) -> Result<Model, EngineError> {
    let invalid = |message: String| EngineError::Invalid { message, span: Some(name.span) };
    let bytes = models.model(&name.text, name.shared);
    let bytes = bytes.map_err(|fault| EngineError::at(fault.with_context(command), name.span))?;
    let Some(bytes) = bytes else {
        return Err(invalid(format!("{command}: {}", unknown_model_message(name, models))));
    };
    wire::from_bytes(&bytes).map_err(|error| {
        EngineError::at(Fault::new(error.kind(), format!("{command}: model {}: {error}", name.text)), name.span)
    })
}

pub(super) fn unknown_model_message(name: &ModelName, models: &dyn LookupSource) -> String {
    let known = models.models().unwrap_or_default();
    let mut known: Vec<&str> = known.iter().map(|file| file.name.as_str()).collect();
    known.dedup();
    let hint = match known.len() {
        0 => "there are no models; `fit ... into NAME` creates one".to_owned(),
        count if count > NAMES_LISTED_MAX => format!("`| listmodels` shows the {count} existing ones"),
        _ => format!("existing models: {}", known.join(", ")),
    };
    let whose = if name.shared { " that the app shares" } else { "" };
    format!("there is no model {}{whose}; {hint}", name.text)
}

/// Rows with the predictions of a model.
pub(super) struct PredictedRows {
    command: &'static str,
    rows: RowIter,
    predictor: Predictor,
    context: CommandContext,
    /// Whether there was a row, and whether a row got a prediction.
    seen: (bool, bool),
    /// Time of the first request for rows.
    work: Option<WorkStart>,
}

impl PredictedRows {
    /// Predicts for the rows of each batch as it is read.
    pub(super) fn new(
        command: &'static str,
        rows: RowIter,
        applied: Predictor,
        context: CommandContext,
    ) -> PredictedRows {
        PredictedRows { command, rows, predictor: applied, context, seen: (false, false), work: None }
    }

    fn with_predictions(&mut self, rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut columns: Vec<ColumnBuilder> =
            self.predictor.names().iter().map(|_| ColumnBuilder::new(rows.num_rows())).collect();
        for start in (0..rows.num_rows()).step_by(CHUNK_ROWS) {
            let chunk = rows.slice(start, CHUNK_ROWS.min(rows.num_rows() - start));
            let fields = Fields::new(&chunk, self.predictor.model().fields());
            let stop = || self.context.stop.is_cancelled();
            let answers = match self.predictor.apply(&fields.columns(), chunk.num_rows(), &stop) {
                Ok(answers) => answers,
                Err(LearnError::Cancelled) => return Ok(rows.slice(0, 0)),
                Err(error) => return Err(EngineError::invalid(format!("{}: {error}", self.command))),
            };
            for (column, answers) in columns.iter_mut().zip(&answers) {
                for answer in answers {
                    self.seen.1 |= *answer != OutputValue::Null;
                    push_value(column, answer);
                }
            }
            self.seen.0 = true;
        }
        let mut result = rows.clone();
        for (name, column) in self.predictor.names().iter().zip(columns) {
            result = rows::with_column(&result, name, column.finish())?;
        }
        Ok(result)
    }

    fn warn_if_no_prediction(&mut self) {
        if self.seen == (true, false) {
            let names: Vec<&str> = self.predictor.model().fields().collect();
            let message = format!(
                "{}: no row has a prediction: none has valid values of all of the fields {}",
                self.command,
                names.join(", ")
            );
            self.context.messages.push(message);
        }
        self.seen = (false, false);
    }
}

impl Iterator for PredictedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let work = *self.work.get_or_insert_with(|| self.context.stop.begin_work());
        let has_ended = !self.context.stop.is_cancelled() && self.context.stop.should_end_rows(work);
        match if has_ended { None } else { self.rows.next() } {
            Some(Ok(rows)) => Some(self.with_predictions(&rows)),
            Some(error) => Some(error),
            None => {
                self.warn_if_no_prediction();
                None
            }
        }
    }
}

/// Appends a predicted value to a column.
pub(super) fn push_value(column: &mut ColumnBuilder, answer: &OutputValue) {
    match answer {
        OutputValue::Null => column.push_null(),
        OutputValue::Number(number) => column.push(Value::from_f64(*number)),
        OutputValue::Whole(number) => column.push_int(*number),
        OutputValue::Text(text) => column.push(Value::borrowed_text(text)),
        OutputValue::List(texts) => column.push_multi(texts.iter()),
    }
}

/// A table of rows with possibly different fields.
pub(super) fn table(rows: &[Row]) -> Result<RecordBatch, EngineError> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let column = |name: &str| -> ArrayRef {
        let mut column = ColumnBuilder::new(rows.len());
        for row in rows {
            push_value(
                &mut column,
                row.iter().find(|(known, _)| known == name).map_or(&OutputValue::Null, |(_, answer)| answer),
            );
        }
        column.finish()
    };
    let columns: Vec<(&str, ArrayRef)> = names.iter().map(|name| (*name, column(name))).collect();
    batch_of(columns, rows.len())
}

/// A serialized model that reads no field and predicts 0, for checking searches without their models.
pub fn empty_model() -> Result<Vec<u8>, Fault> {
    wire::to_bytes(&Model::empty()).map_err(|error| Fault::bug(error.to_string()))
}
