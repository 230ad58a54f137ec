//! `xmlkv`: extracts the leaf elements of XML as fields.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::functions::xml::xml_leaves;
use quarry_eval::rows;
use quarry_spl::ast::XmlKvCommand;

use super::Execute;
use super::extracted_fields::FoundFields;
use crate::lowering::{Lowering, Step, row};

impl Execute for XmlKvCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let field = self.field.clone();
        Ok(vec![row(move || XmlKv(field.clone()))])
    }
}

/// The field with the XML.
struct XmlKv(String);

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
