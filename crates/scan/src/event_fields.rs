//! Fields that events have beside those cut out of their text: metadata, times, and what they were given when they were
//! indexed (`field::value`).

use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::row_filter::network_of;
use quarry_event::{Metadata, Page};
use quarry_spl::ast::SearchPattern;

use crate::plan::TEXT_VALUE_PREFIX;

/// Whether a field exists without looking at the text.
pub(crate) fn is_given(name: &str) -> bool {
    METADATA_FIELDS.contains(&name)
        || matches!(name, "_time" | "_raw" | "_indextime")
        || name.starts_with(TEXT_VALUE_PREFIX)
}

/// One of an event's metadata.
pub(crate) fn metadata_text<'a>(meta: &'a Metadata, field: &str) -> &'a str {
    match field {
        "host" => &meta.host,
        "source" => &meta.source,
        "sourcetype" => &meta.sourcetype,
        _ => &meta.index,
    }
}

/// Ends the name of a column of what events were given when they were indexed; no field's name ends so.
const GIVEN: &str = "::";

/// Name of the column of what events were given of a field.
pub(crate) fn given_column(field: &str) -> String {
    format!("{field}{GIVEN}")
}

/// Whether that is the name of such a column.
pub(crate) fn is_given_column(name: &str) -> bool {
    name.ends_with(GIVEN)
}

/// What an event was given of a field.
pub(crate) fn given_values<'a>(events: &'a Page, row: usize, field: &'a str) -> impl Iterator<Item = &'a str> {
    let first = events.fields.partition_point(|given| (given.row as usize) < row);
    let of_row = events.fields[first..].iter().take_while(move |given| given.row as usize == row);
    of_row.filter(move |given| *given.name == *field).map(|given| &*given.value)
}

/// Whether an event whose field has this value holds it as written.
pub(crate) fn is_in_text(field: &str, value: &SearchPattern) -> bool {
    // A number is also equal to a text that writes it otherwise (`404.0`), which no word search finds: Splunk's rule
    // is that the value must be there as written, and so is ours for whole numbers without a fraction.
    // A network is in no text of its addresses.
    !is_given(field)
        && network_of(&value.text).is_none()
        && !value.text.is_empty()
        // A quote may be doubled in the text, as CSV does.
        && !value.text.contains(['*', '"'])
}
