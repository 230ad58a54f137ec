//! How fields are shown that `fieldformat` gives another look: applied to the rows that leave a search, never before.
//!
//! Commands after `fieldformat` see the values as they are. A format follows its field through `rename`, and ends where a
//! report makes new rows. Where it gives nothing, for a field it reads may be gone by then, the value itself is shown.
//!
//! Not here: subsearches, whose rows are read by commands and so keep their values.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::expr::{CompiledExpr, ExprContext};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader};
use quarry_spl::ast::{Command, FieldFormatCommand, Pipeline, Stage};

/// The formats of a search.
#[derive(Default)]
pub(crate) struct ShownFormats(Vec<ShownFormat>);

struct ShownFormat {
    /// Name of the field in the result.
    field: String,
    /// Its name where the format was given, which its expression reads.
    known_as: String,
    expr: CompiledExpr,
}

impl ShownFormats {
    /// The formats that hold at the end of a search.
    pub(crate) fn of(pipeline: &Pipeline, context: &CommandContext) -> Result<ShownFormats, EngineError> {
        let expressions = context.expressions();
        let mut formats: Vec<ShownFormat> = Vec::new();
        for stage in &pipeline.commands {
            match &stage.command {
                Command::FieldFormat(format) => {
                    let added = ShownFormat::new(format, &expressions)?;
                    formats.retain(|known| known.field != added.field);
                    formats.push(added);
                }
                Command::Rename(rename) => {
                    for (from, to) in rename.pairs.iter().filter(|(from, to)| from.text != to.text) {
                        formats.retain(|format| format.field != to.text);
                        let renamed = formats.iter_mut().filter(|format| format.field == from.text);
                        renamed.for_each(|format| format.field.clone_from(&to.text));
                    }
                }
                _ if makes_rows(stage) => formats.clear(),
                _ => {}
            }
        }
        Ok(ShownFormats(formats))
    }

    /// The rows as they are shown.
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

impl ShownFormat {
    fn new(format: &FieldFormatCommand, expressions: &ExprContext) -> Result<ShownFormat, EngineError> {
        let expr = CompiledExpr::new(&format.expr, expressions)?;
        if expr.is_condition() {
            let message = format!("{} cannot show a condition; use if(…, \"true\", \"false\")", format.field);
            return Err(EngineError::Invalid { message, span: Some(format.expr.span) });
        }
        Ok(ShownFormat { field: format.field.clone(), known_as: format.field.clone(), expr })
    }
}

/// Whether the rows after a command are others than those before.
fn makes_rows(stage: &Stage) -> bool {
    // `table` makes a report of rows that stay what they are.
    !matches!(stage.command, Command::Table(_)) && quarry_spl::analyse::is_transforming(std::slice::from_ref(stage))
}
