//! The delimiter that joins a multivalue field's values into a single text. It is stored in the column's metadata.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_spl::ast::StatsCommand;

use crate::lowering::{Step, names, row};

/// Default delimiter.
pub(super) const DELIMITER: &str = " ";

/// Key of the delimiter in the metadata of a column.
pub(super) const DELIMITER_KEY: &str = "delimiter";

/// The step that sets the `delim=` of `stats` and `eventstats` on their result columns.
pub(super) fn step_for_results(stats: &StatsCommand) -> Option<Step> {
    let (delimiter, by) = (stats.delim.clone(), names(&stats.by));
    (delimiter != DELIMITER)
        .then(|| row(move || Delimit { fields: None, except: by.clone(), delimiter: delimiter.clone() }))
}

/// Sets the delimiter of the named fields, or of all fields if no names are given.
pub(super) struct Delimit {
    pub fields: Option<Vec<String>>,
    /// Fields that are excluded.
    pub except: Vec<String>,
    pub delimiter: String,
}

impl RowCommand for Delimit {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let is_meant = |name: &String| {
            self.fields.as_ref().is_none_or(|fields| fields.contains(name)) && !self.except.contains(name)
        };
        let noted = rows.schema_ref().fields().iter().map(|field| match is_meant(field.name()) {
            true => {
                let note = [(DELIMITER_KEY.to_owned(), self.delimiter.clone())];
                Arc::new(Field::clone(field).with_metadata(note.into_iter().collect()))
            }
            false => Arc::clone(field),
        });
        let schema = Arc::new(Schema::new(noted.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, rows.columns().to_vec(), &options)?)
    }
}
