//! `xmlunescape`: replaces XML entities in `_raw` with characters.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::functions::xml::unescape_xml;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_spl::ast::XmlUnescapeCommand;

use super::Execute;
use crate::lowering::{Lowering, Step, row};

impl Execute for XmlUnescapeCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![row(|| XmlUnescape)])
    }
}

struct XmlUnescape;

impl RowCommand for XmlUnescape {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (texts, mut scratch) = (rows::reader(&rows, "_raw"), String::new());
        let mut column = ColumnBuilder::new(rows.num_rows());
        for row in 0..rows.num_rows() {
            match texts.text(row, &mut scratch) {
                Some(text) => column.push_text(&unescape_xml(text)),
                None => column.push_null(),
            }
        }
        rows::with_column(&rows, "_raw", column.finish())
    }
}
