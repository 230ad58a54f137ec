//! Rows in which the location of a field is uncertain, so that the field must be extracted from the text: one of their
//! values may itself contain a `key=value` pair with the field's name, or may end with the beginning of the key that
//! follows it.
//!
//! Not here: detection of such columns ([`super::key_end`], [`super::segments`]).

use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues, TemplatePart, TemplateSet};

use super::ambiguous_columns::{AmbiguousColumn, SEPARATORS, is_unseparated};
use super::divided_keys::keys_of;
use super::field_locations::FieldLocations;
use super::key_end::KeyEnd;
use super::page::PageReader;

/// Rows of a page that need their text although the field's location is known.
pub(super) fn ambiguous_rows(field: &FieldLocations, page: &mut PageReader<'_>) -> Result<Vec<u32>, EngineError> {
    let mut columns: Vec<AmbiguousColumn> = field.ambiguous_columns.iter().flatten().copied().collect();
    columns.sort_unstable();
    columns.dedup();
    let mut found = Vec::new();
    for column in columns {
        let rows = match column {
            AmbiguousColumn::WithKey(column) => rows_with_key_end(&field.key_end, column, page)?,
            AmbiguousColumn::Unseparated(column) => unseparated_rows(column, page)?,
        };
        if !rows.is_empty() {
            let keys = keys_of(field, page)?;
            let is_concerned = |row: &u32| field.ambiguous_columns[keys[*row as usize] as usize].contains(&column);
            found.extend(rows.into_iter().filter(is_concerned));
        }
    }
    Ok(found)
}

/// Rows of a page whose value in this column contains the end of a key, ascending.
fn rows_with_key_end(end: &KeyEnd, column: u32, page: &mut PageReader<'_>) -> Result<Vec<u32>, EngineError> {
    let values = page.column(column)?;
    let row_of = |place: usize| values.row_at(place);
    Ok(match (&values.values, &page.template_set().columns[column as usize].kind) {
        (ColumnValues::Codes(codes), ColumnKind::Dictionary { .. }) => {
            let holds = page.slab.codes_with_key_end(column, end)?;
            if !holds.contains(&true) {
                return Ok(Vec::new());
            }
            let places = codes.iter().enumerate().filter(|(_, code)| holds.get(**code as usize) == Some(&true));
            places.map(|(place, _)| row_of(place)).collect()
        }
        (ColumnValues::Texts { bytes, ends }, _) => end.matching_texts(bytes, ends).into_iter().map(row_of).collect(),
        _ => {
            let rows: Vec<u32> = (0..values.values.len()).map(row_of).collect();
            let texts = page.texts(column, &rows)?;
            end.matching_texts(&texts.bytes, &texts.ends).into_iter().map(|place| rows[place]).collect()
        }
    })
}

/// Rows of a page whose value in this column does not end with a separator, ascending.
fn unseparated_rows(column: u32, page: &mut PageReader<'_>) -> Result<Vec<u32>, EngineError> {
    let values = page.column(column)?;
    let row_of = |place: usize| values.row_at(place);
    let rows_of_codes = |codes: &[u32], is_open: &[bool]| -> Vec<u32> {
        let places = codes.iter().enumerate().filter(|(_, code)| is_open.get(**code as usize) != Some(&false));
        places.map(|(place, _)| row_of(place)).collect()
    };
    let rows = match (&values.values, &page.template_set().columns[column as usize].kind) {
        (ColumnValues::Codes(codes), ColumnKind::Dictionary { .. }) => {
            return Ok(rows_of_codes(codes, &page.slab.unseparated_codes(column)?));
        }
        (ColumnValues::Codes(codes), ColumnKind::Templates(templates)) => {
            let is_open = |parts: &[TemplatePart]| !ends_with_separator(parts, page.template_set());
            rows_of_codes(codes, &templates.iter().map(|template| is_open(&template.parts)).collect::<Vec<_>>())
        }
        _ => (0..values.values.len()).map(row_of).collect(),
    };
    let texts = page.texts(column, &rows)?;
    let is_open = |place: &usize| is_unseparated(texts.get(*place));
    Ok((0..rows.len()).filter(is_open).map(|place| rows[place]).collect())
}

/// Whether all texts of these parts end with a separator.
fn ends_with_separator(parts: &[TemplatePart], template_set: &TemplateSet) -> bool {
    match parts.last() {
        Some(TemplatePart::Literal(literal)) => !is_unseparated(literal),
        Some(TemplatePart::Variable(column)) => template_set
            .columns
            .get(*column as usize)
            .is_some_and(|column| column.traits.min_len > 0 && column.traits.lasts.is_subset(SEPARATORS)),
        None => false,
    }
}
