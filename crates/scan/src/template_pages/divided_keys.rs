//! The key of each row of a page for the locations of one field: a key of the slab (an extraction class and a template,
//! [`super::slab`]) or a subdivision of it ([`super::key_splits`]).

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_event::template::{ColumnValues, PageColumn};
use quarry_stdx::number::u32_of;

use super::cursors::Cursors;
use super::field_locations::FieldLocations;
use super::key_splits::NO_KEY;
use super::page::{PageReader, Rows};

/// If at most one in this many rows of a page is requested, only the codes of these rows are read.
const FEW_ROWS_DIVISOR: usize = 8;

/// The key of each event for the locations of a field.
pub(super) fn keys_of(field: &FieldLocations, page: &mut PageReader<'_>) -> Result<Arc<[u32]>, EngineError> {
    keys_of_rows(field, &Rows::All(u32_of(page.len())), page)
}

/// Like [`keys_of`]; only the keys of these rows are meaningful.
pub(super) fn keys_of_rows(
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<Arc<[u32]>, EngineError> {
    let keys = page.keys()?;
    let Some(split) = &field.split else { return Ok(keys) };
    if let Some((_, known)) = page.divided_keys.iter().find(|(known, _)| Arc::ptr_eq(known, split)) {
        return Ok(Arc::clone(known));
    }
    let are_few = matches!(rows, Rows::Some(some) if some.len() * FEW_ROWS_DIVISOR <= keys.len());
    if !are_few
        && let Some(column) = split.code_column()
        && let PageColumn { rows: None, values: ColumnValues::Codes(codes) } = &*page.column(column)?
        && codes.len() == keys.len()
    {
        let divided: Arc<[u32]> = codes.as_slice().into();
        page.divided_keys.push((Arc::clone(split), Arc::clone(&divided)));
        return Ok(divided);
    }
    let mut cursors = match rows {
        Rows::Some(some) if are_few => Cursors::of_rows(page, some),
        _ => Cursors::new(page),
    };
    let mut divided = vec![NO_KEY; keys.len()];
    for row in rows.iter() {
        divided[row as usize] = split.key(keys[row as usize], |column| cursors.code(column, row, page))?;
    }
    let divided: Arc<[u32]> = divided.into();
    if rows.len() == page.len() {
        page.divided_keys.push((Arc::clone(split), Arc::clone(&divided)));
    }
    Ok(divided)
}
