//! `xmlkv`, `xmlunescape` and `xpath`: fields of texts that are XML.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::XPathCommand;

use super::extract_pairs::FoundFields;
use crate::EngineError;
use crate::command::RowCommand;
use crate::functions::xml::{xml_leaves, xml_unescaped, xpath_get};
use crate::rows::{self, ColumnBuilder};

/// `xmlkv FIELD`.
pub(crate) struct XmlKv(pub String);

impl RowCommand for XmlKv {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let texts = rows::reader(&rows, &self.0);
        let (mut found, mut scratch) = (FoundFields::default(), String::new());
        for row in 0..rows.num_rows() {
            let Some(text) = texts.text(row, &mut scratch) else { continue };
            xml_leaves(text, &mut |name, value| {
                if !value.is_empty() {
                    found.add(row, name, value, true);
                }
            });
        }
        found.into_rows(&rows, true)
    }
}

/// `xmlunescape`.
pub(crate) struct XmlUnescape;

impl RowCommand for XmlUnescape {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (texts, mut scratch) = (rows::reader(&rows, "_raw"), String::new());
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            match texts.text(row, &mut scratch) {
                Some(text) => column.push_text(&xml_unescaped(text)),
                None => column.push_null(),
            }
        }
        rows::with_column(&rows, "_raw", column.finish())
    }
}

/// `xpath`.
pub(crate) struct XPathValues(pub Arc<XPathCommand>);

impl RowCommand for XPathValues {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (texts, old) = (rows::reader(&rows, &self.0.field), rows::reader(&rows, &self.0.output));
        let (mut column, mut scratch) = (ColumnBuilder::new(rows.num_rows()), String::new());
        for row in 0..rows.num_rows() {
            let text = texts.text(row, &mut scratch);
            let values = text.map(|text| xpath_get(text, &self.0.path)).unwrap_or_default();
            match (values.is_empty(), &self.0.default) {
                (false, _) => column.push_multi(values),
                (true, Some(default)) => column.push_text(default),
                (true, None) => column.push(old.value(row)),
            }
        }
        rows::with_column(&rows, &self.0.output, column.finish())
    }
}
