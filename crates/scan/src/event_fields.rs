//! Fields that are not extracted from text: metadata, times and index-time fields (`field::value`).

use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::row_filter::network_of;
use quarry_event::{Metadata, Page};
use quarry_spl::ast::SearchPattern;

use crate::plan::TEXT_VALUE_PREFIX;

/// Whether a field is available without reading the event text.
pub(crate) fn is_intrinsic_field(name: &str) -> bool {
    METADATA_FIELDS.contains(&name)
        || matches!(name, "_time" | "_raw" | "_indextime")
        || name.starts_with(TEXT_VALUE_PREFIX)
}

/// The value of a metadata field.
pub(crate) fn metadata_text<'a>(meta: &'a Metadata, field: &str) -> &'a str {
    match field {
        "host" => &meta.host,
        "source" => &meta.source,
        "sourcetype" => &meta.sourcetype,
        _ => &meta.index,
    }
}

/// Suffix of the column with an event's index-time values of a field; no field name ends with it.
const INDEX_TIME_SUFFIX: &str = "::";

/// Name of the column with the index-time values of a field.
pub(crate) fn index_time_column_name(field: &str) -> String {
    format!("{field}{INDEX_TIME_SUFFIX}")
}

/// Whether `name` is the name of a column with index-time values.
pub(crate) fn is_index_time_column(name: &str) -> bool {
    name.ends_with(INDEX_TIME_SUFFIX)
}

/// The field whose index-time values are in the column of this name.
pub(crate) fn index_time_field(name: &str) -> &str {
    name.strip_suffix(INDEX_TIME_SUFFIX).unwrap_or(name)
}

/// The index-time values of a field.
pub(crate) fn index_time_values<'a>(events: &'a Page, row: usize, field: &'a str) -> impl Iterator<Item = &'a str> {
    let of_row = events.fields.of_rows(row..row + 1).iter();
    of_row.filter(move |given| **given.name == *field).map(|given| given.value)
}

/// Whether every event whose field has this value contains it verbatim in its text.
pub(crate) fn appears_verbatim(field: &str, value: &SearchPattern) -> bool {
    !value.text.contains('*') && is_written(field, value)
}

/// Whether every event whose field has a value that matches this pattern contains such a value in its text.
pub(crate) fn is_written(field: &str, value: &SearchPattern) -> bool {
    // The field name may be a wildcard pattern, which may match a field of any rule.
    !is_intrinsic_field(field)
        && !field.contains('*')
        && network_of(&value.text).is_none()
        && !value.text.is_empty()
        // The text may double a quote, as CSV does.
        && !value.text.contains('"')
}
