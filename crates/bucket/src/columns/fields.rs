//! Names of the index-time fields that have a column, at the end of the column layout block.
//!
//! If every event has exactly one value of a field, its column has no parent. Otherwise its parent is a column with two
//! templates: an empty template, for events without the field, and a template that consists of a variable, the field.
//! The rows of the field's column are then determined by the parent, as for any other variable. Stored search-time
//! fields are listed after these names (`super::extractions`). Blocks of older versions, and of slabs with neither kind
//! of field, end before the names.
//!
//! Not here: which fields get columns (`crate::templates`); all other fields (`crate::fields`).

use quarry_event::template::{ColumnKind, FieldColumn, TemplateSet};
use quarry_stdx::number::u32_of;

use crate::columns::extractions::has_extractions;
use crate::limits::{MAX_FIELD_BYTES, MAX_FIELD_COLUMNS};
use crate::wire::{Cursor, Malformed, put_bytes, put_varint};

/// Appends the names with their columns; nothing if there are no names and nothing follows.
pub(super) fn put(template_set: &TemplateSet, out: &mut Vec<u8>) {
    let fields = &template_set.fields;
    assert!(fields.len() <= MAX_FIELD_COLUMNS, "more columns would be rejected when they are read");
    if fields.is_empty() && !has_extractions(template_set) {
        return;
    }
    put_varint(out, fields.len() as u64);
    for FieldColumn { name, column } in fields {
        put_bytes(out, name.as_bytes());
        put_varint(out, u64::from(*column));
    }
}

/// Reads the names; none if the block ends here.
pub(super) fn read(cursor: &mut Cursor<'_>, template_set: &TemplateSet) -> Result<Vec<FieldColumn>, Malformed> {
    if cursor.remaining() == 0 {
        return Ok(Vec::new());
    }
    let first = template_set.text_columns().len();
    let mut fields: Vec<FieldColumn> = Vec::new();
    for _ in 0..cursor.count("number of index-time fields with a column", MAX_FIELD_COLUMNS)? {
        let name = cursor.text("name of a field", MAX_FIELD_BYTES)?;
        let column = cursor.count("column of a field", template_set.columns.len().saturating_sub(1))?;
        let kind = template_set.columns.get(column).map(|column| &column.kind);
        let is_leaf = kind.is_some_and(|kind| !matches!(kind, ColumnKind::Templates(_)));
        let is_taken = fields.iter().any(|field| *field.name == *name || field.column as usize == column);
        if column < first || !is_leaf || is_taken {
            return Err(Malformed(format!("column {column} cannot contain a field")));
        }
        fields.push(FieldColumn { name: name.into(), column: u32_of(column) });
    }
    Ok(fields)
}
