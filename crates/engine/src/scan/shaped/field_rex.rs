//! Patterns that read a field which is cut out of the text.
//!
//! The parts a field has in a template are a template themselves and are asked like one ([`super::rex`]). Where a pattern
//! reads a part whose values are too many to ask each, all rows of the page are answered from the field's column instead.
//! Rows whose field only their text can tell are left to their text.

use arrow::array::{Array, ArrayRef};
use quarry_event::shape::{Part, Template};

use super::columns::field_column;
use super::fields::Place;
use super::groups::Groups;
use super::page::{PageReader, Rows};
use super::rex::RexReader;
use super::slab::{FieldPlaces, Slab};
use crate::EngineError;
use crate::pattern::shaped::FlatTemplate;
use crate::rows::{ColumnBuilder, ColumnReader, null_column};

/// The field's own template for each key of a slab, a template without values where it is absent; `None` where only the
/// text tells.
pub(super) fn field_templates(name: &str, slab: &Slab) -> Vec<Option<FlatTemplate>> {
    let Some(field) = slab.field(name) else { return Vec::new() };
    let of_place = |place: &Place| {
        let parts = match place {
            Place::Absent | Place::Text => return None,
            Place::Constant(text) => vec![Part::Literal(text.as_bytes().into())],
            Place::Slot(column) => vec![Part::Slot(*column)],
            Place::Composite(parts) => parts.to_vec(),
        };
        FlatTemplate::of(&slab.shapes, &Template { parts })
    };
    field.places.iter().map(of_place).collect()
}

impl RexReader {
    /// The groups that are found in a field.
    pub(super) fn read_field(
        &mut self,
        name: &str,
        rows: &Rows,
        page: &mut PageReader<'_>,
    ) -> Result<Groups, EngineError> {
        let slab = page.slab;
        let keys = page.keys()?;
        let Some(field) = slab.field(name) else { return self.ask_rows(rows, |_| Some(usize::MAX), page) };
        let by_text = |row: u32| {
            let key = keys[row as usize];
            matches!(field.places.get(key as usize), Some(Place::Text) | None) || field.is_patterned(key, slab)
        };
        let root = |row: u32| {
            let key = keys[row as usize] as usize;
            let is_absent = field.places.get(key) == Some(&Place::Absent);
            (!is_absent && !by_text(row)).then_some(key)
        };
        let mut found = self.ask_rows(rows, root, page)?;
        if !found.undecided.is_empty() {
            found.columns = Some(self.read_column(field, rows, page)?);
        }
        found.undecided = rows.iter().filter(|row| by_text(*row)).collect();
        Ok(found)
    }

    /// The groups from the field's values.
    fn read_column(
        &mut self,
        field: &FieldPlaces,
        rows: &Rows,
        page: &mut PageReader<'_>,
    ) -> Result<Vec<ArrayRef>, EngineError> {
        let Some(values) = field_column(field, rows, page)? else {
            return Ok(self.groups.iter().map(|_| null_column(rows.len())).collect());
        };
        let (reader, mut scratch) = (ColumnReader::new(&values), String::new());
        let mut columns: Vec<ColumnBuilder> = self.groups.iter().map(|_| ColumnBuilder::new(values.len())).collect();
        for row in 0..values.len() {
            let text = reader.text(row, &mut scratch);
            let text = text.filter(|text| self.regex.captures_into(text, &mut self.captures));
            for (column, (group, _)) in columns.iter_mut().zip(&self.groups) {
                match text.and_then(|text| self.captures.text(text, *group)) {
                    Some(found) => column.push_text(found),
                    None => column.push_null(),
                }
            }
        }
        Ok(columns.into_iter().map(ColumnBuilder::finish).collect())
    }
}
