//! Paths of JSON and XML texts as fields: `spath` with and without `path=`, and documents reduced to one path; and
//! whether a scan can evaluate them.
//!
//! A text is the event text or the value of an extracted field, such as the JSON at the end of a line.
//!
//! Not here: `spath` without a path if it cannot be pushed down (`commands::spath` in the crate engine); paths
//! evaluated on templates ([`crate::template_pages`]).

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::functions::xml::{XmlPath, is_xml, xml_fields};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling};
use quarry_pipeline::extract::{JsonPath, json_fields};
use quarry_spl::ast::SpathCommand;

use crate::event_fields::is_intrinsic_field;

/// The field that holds the event text.
pub(crate) const TEXT_FIELD: &str = "_raw";
/// Bytes of a text that `spath` without a path reads: Splunk's default of `extraction_cutoff`. The setting itself is
/// not read.
pub(crate) const SPATH_BYTES_MAX: usize = 5_000;

/// Passes path and value of each scalar of a JSON or XML text to `found`, as `spath` without a path reads them.
pub fn for_each_path(text: &str, found: &mut dyn FnMut(&str, Cow<'_, str>)) {
    let text = first_bytes(text, SPATH_BYTES_MAX);
    if is_xml(text) {
        xml_fields(text, &mut |path, value| found(path, Cow::Borrowed(value)));
    } else {
        json_fields(text, &mut |path, value| found(path, value));
    }
}

/// The first `bytes` bytes of the text, truncated at a character boundary.
fn first_bytes(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Extracts one path.
#[derive(Clone)]
pub struct Spath {
    command: Arc<SpathCommand>,
    /// `None` for a command without a path.
    path: Option<ValuePath>,
    /// Memo of the values found in distinct texts.
    memo: Arc<DistinctMemo>,
}

impl Spath {
    /// Prepares a command with a path; a command without a path finds nothing.
    pub fn new(command: Arc<SpathCommand>) -> Spath {
        let path = command.path.as_deref().map(ValuePath::parse);
        Spath { command, path, memo: Arc::default() }
    }

    /// The values at the path in these texts.
    fn column(&self, texts: &ArrayRef) -> Result<ArrayRef, EngineError> {
        let at_path = |values: &ArrayRef| {
            let reader = ColumnReader::new(values);
            let (mut column, mut scratch) = (ColumnBuilder::new(values.len()), String::new());
            for row in 0..values.len() {
                let text = reader.text(row, &mut scratch);
                column
                    .push_multi(self.path.as_ref().zip(text).map(|(path, text)| path.values(text)).unwrap_or_default());
            }
            column.finish()
        };
        let by_value = self.memo.run(texts, NumberHandling::ByValue, |values| Ok(Some(vec![at_path(values)])))?;
        Ok(by_value.and_then(|mut columns| columns.pop()).unwrap_or_else(|| at_path(texts)))
    }
}

impl RowCommand for Spath {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let Some(path) = self.command.path.as_deref() else { return Ok(rows) };
        let found = self.column(&rows::column_or_null(&rows, &self.command.input))?;
        with_values(&rows, self.command.output.as_deref().unwrap_or(path), found)
    }
}

/// The rows with the field `output` taken from `found`; a row without a value in `found` keeps its previous value.
pub(crate) fn with_values(rows: &RecordBatch, output: &str, found: ArrayRef) -> Result<RecordBatch, EngineError> {
    let found = rows::column(rows, output).map_or(Arc::clone(&found), |old| rows::coalesce(&found, old));
    rows::with_column(rows, output, found)
}

/// Paths of one text that a scan evaluates.
pub(crate) struct PushedPaths {
    /// The field with the text.
    pub source: String,
    reading: PathReading,
    pub paths: Vec<PushedPath>,
}

/// A path, and the field for its value.
pub(crate) struct PushedPath {
    pub kind: PathKind,
    pub output: String,
    /// Distinguishes the path, with its source, from others; the key under which its locations are cached.
    pub key: String,
}

/// Value that a path selects.
pub(crate) enum PathKind {
    /// All values, as `spath path=` reads them.
    Values(ValuePath),
    /// The scalars for which `spath` without a path creates the field with this name.
    Scalars(String),
    /// A document in which the path `keys` has the same value as in the text: the whole text, or a smaller document.
    Document { path: JsonPath, keys: Vec<String> },
}

/// A path as JSON and as XML; `None` for a format in whose texts the path selects nothing.
#[derive(Clone)]
pub(crate) struct ValuePath {
    pub json: Option<JsonPath>,
    pub xml: Option<XmlPath>,
}

impl ValuePath {
    fn parse(path: &str) -> ValuePath {
        ValuePath { json: JsonPath::parse(path), xml: XmlPath::parse(path) }
    }

    /// The values at the path in a JSON or XML text.
    fn values<'t>(&self, text: &'t str) -> Vec<Cow<'t, str>> {
        if is_xml(text) {
            return self.xml.as_ref().map(|path| path.values(text)).unwrap_or_default();
        }
        self.json.as_ref().map(|path| path.values(text)).unwrap_or_default()
    }
}

/// Evaluation on texts.
enum PathReading {
    Values(Spath),
    Scalars,
    Documents,
}

impl PushedPaths {
    /// The pushed-down form of `spath path=`, if the scan can run it.
    pub(crate) fn of_command(command: &SpathCommand) -> Option<PushedPaths> {
        let text = command.path.clone()?;
        let output = command.output.clone().unwrap_or_else(|| text.clone());
        let path = Some(ValuePath::parse(&text)).filter(|path| path.json.is_some() || path.xml.is_some())?;
        if is_not_from_text(&output) || !is_readable(&command.input) {
            return None;
        }
        let reading = PathReading::Values(Spath::new(Arc::new(command.clone())));
        let key = format!("{}\nvalues\n{text}", command.input);
        let paths = vec![PushedPath { kind: PathKind::Values(path), output, key }];
        Some(PushedPaths { source: command.input.clone(), reading, paths })
    }

    /// The pushed-down form of `spath` without a path, of which only `fields` are needed.
    pub(crate) fn of_fields(input: &str, fields: &[String]) -> Option<PushedPaths> {
        if !is_readable(input) || fields.iter().any(|name| name == TEXT_FIELD || rows::is_hidden(name)) {
            return None;
        }
        let path = |name: &String| PushedPath {
            kind: PathKind::Scalars(name.clone()),
            output: name.clone(),
            key: format!("{input}\nscalars\n{name}"),
        };
        let paths = fields.iter().map(path).collect();
        Some(PushedPaths { source: input.to_owned(), reading: PathReading::Scalars, paths })
    }

    /// Documents in which `path` has the same value as in the text; `None` if the path has parts other than keys.
    pub(crate) fn of_documents(input: &str, path: &str, output: &str) -> Option<PushedPaths> {
        let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
        let is_plain = !path.contains(['{', '}', '\\']) && keys.iter().all(|key| !key.is_empty());
        let parsed = JsonPath::parse(path).filter(|_| is_plain && is_readable(input))?;
        let key = format!("{input}\ndocument\n{path}");
        let paths =
            vec![PushedPath { kind: PathKind::Document { path: parsed, keys }, output: output.to_owned(), key }];
        Some(PushedPaths { source: input.to_owned(), reading: PathReading::Documents, paths })
    }

    /// The values of the paths in these texts, one column per path.
    pub(crate) fn columns(&self, texts: &ArrayRef) -> Result<Vec<ArrayRef>, EngineError> {
        match &self.reading {
            PathReading::Values(spath) => Ok(vec![spath.column(texts)?]),
            PathReading::Documents => Ok(vec![Arc::clone(texts)]),
            PathReading::Scalars => Ok(self.scalar_columns(texts)),
        }
    }

    fn scalar_columns(&self, texts: &ArrayRef) -> Vec<ArrayRef> {
        let (reader, mut scratch) = (ColumnReader::new(texts), String::new());
        let mut columns: Vec<ColumnBuilder> = self.paths.iter().map(|_| ColumnBuilder::new(texts.len())).collect();
        let mut found: Vec<Vec<String>> = vec![Vec::new(); self.paths.len()];
        for row in 0..texts.len() {
            if let Some(text) = reader.text(row, &mut scratch) {
                for_each_path(text, &mut |path, value| {
                    if let Some(at) = self.paths.iter().position(|known| known.output == path) {
                        found[at].push(value.into_owned());
                    }
                });
            }
            for (column, values) in columns.iter_mut().zip(&mut found) {
                column.push_multi(values.drain(..));
            }
        }
        columns.into_iter().map(ColumnBuilder::finish).collect()
    }

    /// Adds the values of the paths to rows that have the field with the text.
    pub(crate) fn apply(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let found = self.columns(&rows::column_or_null(&rows, &self.source))?;
        assert_eq!(found.len(), self.paths.len(), "each path has a column");
        self.paths.iter().zip(found).try_fold(rows, |rows, (path, found)| with_values(&rows, &path.output, found))
    }
}

/// Whether a scan can read the texts of this field when it evaluates paths.
fn is_readable(field: &str) -> bool {
    field == TEXT_FIELD || !is_not_from_text(field)
}

/// Whether a field exists without extraction from the event text, as intrinsic and hidden fields do. A command that is
/// pushed down must not produce such a field.
pub(crate) fn is_not_from_text(name: &str) -> bool {
    is_intrinsic_field(name) || rows::is_hidden(name)
}
