//! Number of codes that the columns of a template set may have.
//!
//! Not here: codes of rows ([`super::cursors`]).

use quarry_event::template::{ColumnKind, TemplateSet};

/// Largest range of numbers whose texts are cached like dictionary entries.
const NUMBERS_MAX: i64 = 65_536;

/// Upper bound for the combinations of codes of these columns.
pub(super) fn combinations(template_set: &TemplateSet, columns: &[(u32, usize)]) -> usize {
    columns.iter().fold(1, |all: usize, (column, _)| all.saturating_mul(codes_of(template_set, *column)))
}

/// Upper bound for the codes of a column; 0 if it has none.
pub(super) fn codes_of(template_set: &TemplateSet, column: u32) -> usize {
    match &template_set.columns[column as usize].kind {
        ColumnKind::Dictionary { len } => *len as usize,
        ColumnKind::Numbers { min, max, .. } => {
            usize::try_from(max.saturating_sub(*min)).map_or(0, |span| span.saturating_add(1))
        }
        _ => 0,
    }
}

/// Whether the values of a column have codes, few enough to cache an answer for each.
pub(super) fn has_few_codes(template_set: &TemplateSet, column: u32) -> bool {
    match &template_set.columns[column as usize].kind {
        ColumnKind::Dictionary { .. } => true,
        ColumnKind::Numbers { min, max, .. } => max.saturating_sub(*min) < NUMBERS_MAX,
        ColumnKind::Texts | ColumnKind::Templates(_) => false,
    }
}
