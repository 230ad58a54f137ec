//! Upper bounds for the number of codes of a template set's columns.
//!
//! Not here: codes of rows ([`super::cursors`]).

use quarry_event::template::{ColumnKind, TemplateSet};

/// Largest range of numbers whose texts are cached in the same way as dictionary entries.
const CACHED_NUMBERS_MAX: i64 = 65_536;

/// Upper bound for the number of combinations of these columns' codes.
pub(super) fn max_combinations(template_set: &TemplateSet, columns: &[(u32, usize)]) -> usize {
    columns.iter().fold(1, |all: usize, (column, _)| all.saturating_mul(max_codes(template_set, *column)))
}

/// Upper bound for the number of codes of a column; 0 if its values have no codes.
pub(super) fn max_codes(template_set: &TemplateSet, column: u32) -> usize {
    match &template_set.columns[column as usize].kind {
        ColumnKind::Dictionary { len } => *len as usize,
        ColumnKind::Numbers { min, max, .. } => {
            usize::try_from(max.saturating_sub(*min)).map_or(0, |span| span.saturating_add(1))
        }
        _ => 0,
    }
}

/// Whether the values of a column have codes, and so few that an answer can be cached for each.
pub(super) fn has_few_codes(template_set: &TemplateSet, column: u32) -> bool {
    match &template_set.columns[column as usize].kind {
        ColumnKind::Dictionary { .. } => true,
        ColumnKind::Numbers { min, max, .. } => max.saturating_sub(*min) < CACHED_NUMBERS_MAX,
        ColumnKind::Texts | ColumnKind::Templates(_) => false,
    }
}
