//! The small searches that hints run. They are written in SPL because hints are a client of a search service, which
//! often belongs to another node.

use std::collections::{BTreeMap, BTreeSet};

use quarry_spl::ast::SearchPattern;

/// Maximum number of recent events, or of rows, whose fields are listed.
const SAMPLED_ROWS_MAX: usize = 200;
/// Number of newest events of all indexes among which a field is searched.
const SAMPLED_EVENTS_MAX: usize = 5_000;

/// A row of a small search: field values as text.
pub type HintRow = BTreeMap<String, String>;

/// Runs the small searches of hints.
pub trait Probes {
    /// The rows of a search in the time range of the request (`--earliest`, `--latest`); `None` if it fails.
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>>;

    /// The rows of a search over all time; `None` if it fails.
    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>>;
}

/// If the request sets no time range, one function runs both kinds of search.
impl<F: FnMut(&str) -> Option<Vec<HintRow>>> Probes for F {
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self(search)
    }

    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self(search)
    }
}

/// Limits the number of small searches. Searches beyond the limit fail, and hints that depend on them are omitted.
pub(super) struct BoundedProbes<'a> {
    pub(super) probes: DynProbes<'a>,
    pub(super) left: usize,
}

impl BoundedProbes<'_> {
    fn acquire(&mut self) -> Option<DynProbes<'_>> {
        self.left = self.left.checked_sub(1)?;
        Some(&mut *self.probes)
    }
}

impl Probes for BoundedProbes<'_> {
    fn rows(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self.acquire()?.rows(search)
    }

    fn rows_of_all_time(&mut self, search: &str) -> Option<Vec<HintRow>> {
        self.acquire()?.rows_of_all_time(search)
    }
}

/// Argument through which a hint runs its searches.
pub(super) type DynProbes<'a> = &'a mut dyn Probes;

/// A field of the newest event that a search finds; an empty text if that event lacks the field. The outer `Option` is
/// `None` if the search failed; the inner `Option` is `None` if the search found no event.
pub(super) fn newest_value(search: &str, field: &str, ask: DynProbes<'_>) -> Option<Option<String>> {
    let rows = ask.rows(&format!("{search} | head 1 | table {field}"))?;
    Some(rows.into_iter().next().map(|mut row| row.remove(field).unwrap_or_default()))
}

/// Whether a search finds an event; `None` if it fails.
pub(super) fn finds_event(search: &str, ask: DynProbes<'_>) -> Option<bool> {
    Some(newest_value(search, "_time", ask)?.is_some())
}

pub(super) fn finds_event_of_any_time(search: &str, ask: DynProbes<'_>) -> Option<bool> {
    Some(!ask.rows_of_all_time(&format!("{search} | head 1 | table _time"))?.is_empty())
}

/// Fields of the first rows of a search.
pub(super) fn list_fields(search: &str, ask: DynProbes<'_>) -> BTreeSet<String> {
    distinct_names(
        ask.rows(&format!("{search} | head {SAMPLED_ROWS_MAX} | fieldsummary maxvals=1 | table field")),
        "field",
    )
}

/// Distinct non-empty values of a column.
pub(super) fn distinct_names(rows: Option<Vec<HintRow>>, column: &str) -> BTreeSet<String> {
    let values = rows.into_iter().flatten().filter_map(|mut row| row.remove(column));
    values.filter(|name| !name.is_empty()).collect()
}

/// The number in the column `count` of the first row.
pub(super) fn count_of(rows: Option<Vec<HintRow>>) -> Option<u64> {
    rows?.first()?.get("count")?.parse().ok()
}

/// An index with an event, of any time, that meets a condition.
pub(super) fn find_index(condition: &str, ask: DynProbes<'_>) -> Option<String> {
    let rows = ask.rows_of_all_time(&format!("index=* {condition} | head 1 | table index"))?;
    rows.into_iter().next()?.remove("index")
}

/// An index with a field in one of the newest events. Older events are not searched: term dictionaries do not list
/// names of fields, so the search would read every event.
pub(super) fn find_index_with_field(field: &str, ask: DynProbes<'_>) -> Option<String> {
    let search = format!("index=* | head {SAMPLED_EVENTS_MAX} | search {field}=* | head 1 | table index");
    ask.rows_of_all_time(&search)?.into_iter().next()?.remove("index")
}

/// Event counts over all time by name, read from the columns `name` and `count` of a small search.
pub(super) fn event_counts_by(
    search: &str,
    name: &str,
    count: &str,
    ask: DynProbes<'_>,
) -> Option<BTreeMap<String, u64>> {
    let rows = ask.rows_of_all_time(search)?;
    let pair = |row: &HintRow| Some((row.get(name)?.clone(), row.get(count).and_then(|count| count.parse().ok())?));
    Some(rows.iter().filter_map(pair).collect())
}

/// A text as a quoted SPL string.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A condition that matches any of the given values of a field.
pub(super) fn any_value_condition(field: &str, values: &[&SearchPattern]) -> String {
    let each: Vec<String> = values.iter().map(|value| format!("{field}={}", quote(&value.text))).collect();
    format!("({})", each.join(" OR "))
}
