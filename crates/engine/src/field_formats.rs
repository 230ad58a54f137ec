//! Display formats set by `fieldformat`, applied only to the final rows of a search.
//!
//! Commands after `fieldformat` see the original values. A format follows its field through `rename`, and ends at a
//! reporting command, which makes new rows. If a format yields null, for example because a field that it reads no
//! longer exists, the original value is shown.
//!
//! Not here: subsearches, whose rows are read by commands and keep their values.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::expr::{CompiledExpr, ExprContext};
use quarry_eval::field_names::{covers, fill_wildcards, wildcard_parts};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader};
use quarry_spl::ast::{Command, FieldFormatCommand, FieldPattern, Pipeline, Stage};

/// The display formats of a search.
#[derive(Default)]
pub(crate) struct DisplayFormats(Vec<DisplayFormat>);

struct DisplayFormat {
    /// Name of the field in the result.
    field: String,
    /// Name of the field at the `fieldformat` command, which the expression uses.
    known_as: String,
    expr: CompiledExpr,
}

impl DisplayFormats {
    /// The formats in effect at the end of a search.
    pub(crate) fn of(pipeline: &Pipeline, context: &CommandContext) -> Result<DisplayFormats, EngineError> {
        let expressions = context.expressions();
        let mut formats: Vec<DisplayFormat> = Vec::new();
        for stage in &pipeline.commands {
            match &stage.command {
                Command::FieldFormat(format) => {
                    let added = DisplayFormat::new(format, &expressions)?;
                    formats.retain(|known| known.field != added.field);
                    formats.push(added);
                }
                Command::Rename(rename) => {
                    rename.pairs.iter().for_each(|(from, to)| follow_rename(&mut formats, from, to));
                }
                _ if creates_rows(stage) => formats.clear(),
                _ => {}
            }
        }
        Ok(DisplayFormats(formats))
    }

    /// Formats the rows for display.
    pub(crate) fn apply(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut shown = rows.clone();
        for format in &self.0 {
            let Some(column) = rows::column(&rows, &format.field) else { continue };
            let read = rows::rename(&rows, &format.field, &format.known_as)?;
            let (values, old) = (format.expr.evaluate(&read)?, ColumnReader::new(column));
            let values = ColumnReader::new(&values);
            let mut column = ColumnBuilder::new(rows.num_rows());
            for row in 0..rows.num_rows() {
                column.push(if values.is_null(row) { old.value(row) } else { values.value(row) });
            }
            shown = rows::with_column(&shown, &format.field, column.finish())?;
        }
        Ok(shown)
    }
}

impl DisplayFormat {
    fn new(format: &FieldFormatCommand, expressions: &ExprContext) -> Result<DisplayFormat, EngineError> {
        let expr = CompiledExpr::new(&format.expr, expressions)?;
        if expr.is_condition() {
            let message = format!("{} cannot show a condition; use if(…, \"true\", \"false\")", format.field);
            return Err(EngineError::Invalid { message, span: Some(format.expr.span) });
        }
        Ok(DisplayFormat { field: format.field.clone(), known_as: format.field.clone(), expr })
    }
}

/// Applies a renaming to the fields of the formats. A field that gets the name of another field replaces it.
fn follow_rename(formats: &mut Vec<DisplayFormat>, from: &FieldPattern, to: &FieldPattern) {
    let renamed = |field: &str| {
        let parts = wildcard_parts(&from.text, field).filter(|_| covers(from, field) || !from.is_wildcard())?;
        Some(fill_wildcards(&to.text, &parts)).filter(|name| name != field)
    };
    let names: Vec<Option<String>> = formats.iter().map(|format| renamed(&format.field)).collect();
    let mut replaced: Vec<String> = names.iter().flatten().cloned().collect();
    // Without wildcards, the new name never keeps its old values, even if there is no field to rename.
    if !from.is_wildcard() && from.text != to.text {
        replaced.push(to.text.clone());
    }
    let mut names = names.into_iter();
    formats.retain_mut(|format| match names.next().flatten() {
        Some(name) => {
            format.field = name;
            true
        }
        None => !replaced.contains(&format.field),
    });
}

/// Whether a command makes new rows.
fn creates_rows(stage: &Stage) -> bool {
    // `table` is a reporting command, but keeps the rows.
    !matches!(stage.command, Command::Table(_)) && quarry_spl::analyse::is_transforming(std::slice::from_ref(stage))
}
