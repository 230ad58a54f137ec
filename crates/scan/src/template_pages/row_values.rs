//! Values of single rows in the columns that a pattern reads.
//!
//! Not here: patterns ([`super::rex`], [`super::decider`]).

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, Dictionary, TemplatePart};
use quarry_store::Segment;

use super::cursors::Cursors;
use super::page::PageReader;

/// Dictionaries of a slab by column, loaded on first use.
pub(super) type Dictionaries = HashMap<u32, Arc<Dictionary>, FixedState>;

/// A row with access to its values.
pub(super) struct RowOf<'a, 'p> {
    pub row: u32,
    pub cursors: &'a mut Cursors,
    pub page: &'a mut PageReader<'p>,
    pub segment: &'a Arc<dyn Segment>,
    pub dictionaries: &'a mut Dictionaries,
}

/// The values of one row in the columns on which a result depends.
pub(super) struct RowValues<'a, 'p> {
    /// Values already read, each with its part of the template.
    pub known: Vec<(usize, Vec<u8>)>,
    /// Columns, each with its part of the template.
    pub columns: &'a [(u32, usize)],
    pub row: u32,
    pub cursors: &'a mut Cursors,
    pub page: &'a mut PageReader<'p>,
    pub segment: &'a Arc<dyn Segment>,
    pub dictionaries: &'a mut Dictionaries,
    /// Whether the row had all values requested so far.
    pub outcome: Result<bool, EngineError>,
}

impl RowValues<'_, '_> {
    /// Appends the value of a part.
    pub(super) fn append(&mut self, part: usize, text: &mut Vec<u8>) {
        if let Some((_, value)) = self.known.iter().find(|(known, _)| *known == part) {
            text.extend_from_slice(value);
            return;
        }
        let column = self.columns.iter().find(|(_, known)| *known == part);
        if let (Ok(true), Some((column, _))) = (&self.outcome, column) {
            self.outcome = self.append_column(*column, text);
        }
    }

    /// Appends the row's value in a column; `false` if the row has no value. The recursion is as deep as template
    /// columns are nested (`MAX_TEMPLATE_DEPTH`).
    fn append_column(&mut self, column: u32, text: &mut Vec<u8>) -> Result<bool, EngineError> {
        match &self.page.template_set().columns[column as usize].kind {
            ColumnKind::Dictionary { .. } => match self.cursors.code(column, self.row, self.page)? {
                Some(code) => append_text(column, code, self.segment, self.dictionaries, text).map(|()| true),
                None => Ok(false),
            },
            ColumnKind::Templates(templates) => {
                let templates = Arc::clone(templates);
                let code = self.cursors.code(column, self.row, self.page)?;
                let Some(template) = code.and_then(|code| templates.get(code as usize)) else { return Ok(false) };
                for part in &template.parts {
                    match part {
                        TemplatePart::Literal(bytes) => text.extend_from_slice(bytes),
                        TemplatePart::Variable(column) if !self.append_column(*column, text)? => return Ok(false),
                        TemplatePart::Variable(_) => {}
                    }
                }
                Ok(true)
            }
            _ => self.cursors.append_value(column, self.row, self.page, text),
        }
    }
}

/// Appends a text of a dictionary, which is read on first use.
pub(super) fn append_text(
    column: u32,
    code: u32,
    segment: &Arc<dyn Segment>,
    dictionaries: &mut Dictionaries,
    bytes: &mut Vec<u8>,
) -> Result<(), EngineError> {
    if !dictionaries.contains_key(&column) {
        dictionaries.insert(column, segment.dictionary(column)?);
    }
    match dictionaries.get(&column).filter(|texts| (code as usize) < texts.len()) {
        Some(texts) => bytes.extend_from_slice(texts.get(code)),
        None => {
            return Err(EngineError::invalid("a bucket refers to a text that it does not contain; rebuild the bucket"));
        }
    }
    Ok(())
}
