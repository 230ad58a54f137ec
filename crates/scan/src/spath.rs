//! `spath path=`: the values at one JSON or XML path as a field; and the check whether a scan can run the command.
//!
//! Not here: `spath` without a path (`commands::spath` in the crate engine); paths evaluated on templates
//! ([`crate::template_pages`]).

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::functions::xml::{is_xml, xml_get};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling};
use quarry_pipeline::extract::JsonPath;
use quarry_spl::ast::SpathCommand;

use crate::event_fields::is_intrinsic_field;

/// The field that holds the event text.
pub(crate) const TEXT_FIELD: &str = "_raw";

/// Extracts one path.
#[derive(Clone)]
pub struct Spath {
    command: Arc<SpathCommand>,
    /// The path; `None` if it is not a valid JSON path.
    path: Option<JsonPath>,
    /// Memo of the values found in distinct texts.
    memo: Arc<DistinctMemo>,
}

impl Spath {
    /// Prepares a command with a path; a command without one finds nothing.
    pub fn new(command: Arc<SpathCommand>) -> Spath {
        let path = command.path.as_deref().and_then(JsonPath::parse);
        Spath { command, path, memo: Arc::default() }
    }

    /// The values at the path in a JSON or XML text.
    fn values_at<'t>(&self, text: &'t str, path: &str) -> Vec<Cow<'t, str>> {
        if is_xml(text) {
            return xml_get(text, path);
        }
        self.path.as_ref().map(|path| path.values(text)).unwrap_or_default()
    }
}

impl RowCommand for Spath {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let Some(path) = self.command.path.as_deref() else { return Ok(rows) };
        let output = self.command.output.as_deref().unwrap_or(path);
        let source = rows::column_or_null(&rows, &self.command.input);
        let at_path = |values: &ArrayRef| {
            let reader = ColumnReader::new(values);
            let (mut column, mut scratch) = (ColumnBuilder::new(values.len()), String::new());
            for row in 0..values.len() {
                let text = reader.text(row, &mut scratch);
                column.push_multi(text.map(|text| self.values_at(text, path)).unwrap_or_default());
            }
            column.finish()
        };
        let by_value = self.memo.run(&source, NumberHandling::ByValue, |values| Ok(Some(vec![at_path(values)])))?;
        let found = by_value.and_then(|mut columns| columns.pop()).unwrap_or_else(|| at_path(&source));
        let found = rows::column(&rows, output).map_or(Arc::clone(&found), |old| rows::coalesce(&found, old));
        rows::with_column(&rows, output, found)
    }
}

/// An `spath` command pushed down into a scan.
pub(crate) struct PushedPath {
    pub command: Arc<SpathCommand>,
    pub path: JsonPath,
    /// The path as written; the key under which its locations are cached.
    pub text: String,
    /// The field that the command produces.
    pub output: String,
}

impl PushedPath {
    /// The pushed-down form of the command, if the scan can run it.
    pub(crate) fn new(command: &SpathCommand) -> Option<PushedPath> {
        let text = command.path.clone().filter(|_| command.input == TEXT_FIELD)?;
        let output = command.output.clone().unwrap_or_else(|| text.clone());
        let path = JsonPath::parse(&text).filter(|_| !is_not_from_text(&output))?;
        Some(PushedPath { command: Arc::new(command.clone()), path, text, output })
    }
}

/// Whether a field exists without extraction from the event text: intrinsic and hidden fields, and `_raw` itself. A
/// command that is pushed down must not produce it.
pub(crate) fn is_not_from_text(name: &str) -> bool {
    is_intrinsic_field(name) || rows::is_hidden(name) || name == TEXT_FIELD
}
