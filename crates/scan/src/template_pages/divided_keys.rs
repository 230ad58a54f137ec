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
use super::value_location::ValueLocation;

/// If at most one in this many rows of a page is requested, only the codes of these rows are read.
const FEW_ROWS_DIVISOR: usize = 8;

/// The keys of some rows of a page for the locations of a field.
pub(super) struct RowKeys {
    /// By row of the page; meaningful for these rows only.
    pub keys: Arc<[u32]>,
    /// By key: number of these rows.
    pub counts: Vec<u32>,
    /// Whether the field has a location for each of these rows.
    pub is_complete: bool,
}

impl RowKeys {
    pub(super) fn of(field: &FieldLocations, rows: &Rows, page: &mut PageReader<'_>) -> Result<RowKeys, EngineError> {
        let keys = keys_of_rows(field, rows, page)?;
        let mut counts = vec![0u32; field.locations.len()];
        let mut unknown = 0;
        rows.iter().for_each(|row| match counts.get_mut(keys[row as usize] as usize) {
            Some(count) => *count += 1,
            None => unknown += 1,
        });
        Ok(RowKeys { keys, counts, is_complete: unknown == 0 })
    }

    /// The keys that occur, each with the field's location and the number of rows.
    pub(super) fn used<'a>(
        &'a self,
        field: &'a FieldLocations,
    ) -> impl Iterator<Item = (usize, &'a ValueLocation, usize)> {
        assert_eq!(self.counts.len(), field.locations.len(), "the keys are those of the field");
        let all = field.locations.iter().zip(&self.counts).enumerate();
        all.filter(|(_, (_, rows))| **rows > 0).map(|(key, (place, rows))| (key, place, *rows as usize))
    }
}

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
