//! Hints for fields that no event has: misspelt, in a different case, or removed by an earlier command.

use std::collections::{BTreeMap, BTreeSet};

use quarry_spl::analyse::{FieldOrigin, ReadField, fields_as_values, mentions_field, removed_fields, required_values};
use quarry_spl::ast::Stage;
use quarry_spl::{Diagnostic, closest_name};

use super::outcome::{SearchOutcome, existing_names, find_name_span};
use super::probe::{DynProbes, any_value_condition, find_index_with_field, list_fields, newest_value, quote};

/// Maximum number of sourcetypes examined; the fields of further ones are unknown.
const SOURCETYPES_MAX: usize = 8;
/// Fields that every event has.
const INDEXED_FIELDS: [&str; 6] = ["_raw", "_time", "host", "index", "source", "sourcetype"];
/// Names for which there are no hints: default fields, which any event may have, and names that are not fields.
const DEFAULT_FIELDS: [&str; 9] =
    ["eventtype", "index", "linecount", "punct", "source", "sourcetype", "tag", "timeendpos", "timestartpos"];
/// Prefixes of further names for which there are no hints.
const DEFAULT_PREFIXES: [&str; 5] = ["date_", "_", "splunk_server", "tag::", "earliest"];

/// The options of a search that set its time range.
const TIME_OPTIONS: [&str; 2] = ["earliest", "latest"];

/// A hint about a field that an earlier command removed.
pub(super) fn removed_field_note(text: &str, commands: &[Stage], field: &ReadField) -> Option<Diagnostic> {
    let (FieldOrigin::Nowhere { command, .. } | FieldOrigin::Removed { command, .. }) = &field.origin else {
        return None;
    };
    let remark = format!("after `{command}` there is no field `{}`", field.name);
    let remark = Diagnostic::warning(remark, find_name_span(text, field.stage, &field.name));
    let names: Vec<&str> = match &field.origin {
        FieldOrigin::Removed { new_name: Some(new_name), .. } => {
            return Some(remark.with_hint(format!("it is called `{new_name}` there")));
        }
        FieldOrigin::Nowhere { .. } if field.name == "_raw" => {
            return Some(
                remark.with_hint("words are searched for in the text of events; write FIELD=VALUE to compare a field"),
            );
        }
        FieldOrigin::Nowhere { fields, .. } => fields.iter().map(String::as_str).collect(),
        _ => return Some(remark.with_hint("`fields -` removes it")),
    };
    let command = text.get(field.stage.start..field.stage.end).unwrap_or_default();
    let of_function = format!("({})", field.name);
    let column = names.iter().find(|name| name.ends_with(&of_function) && command.contains(**name));
    Some(match closest_name(&field.name, names.iter().copied()) {
        _ if column.is_some_and(|column| !command.contains(&format!("'{column}'"))) => {
            let column = column.copied().unwrap_or_default();
            remark.with_hint(format!("for the column `{column}`, write '{column}' in single quotes"))
        }
        Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
        None if fields_as_values(commands).contains(&field.name) => {
            remark.with_hint(format!("a name without quotes is a field here: write \"{}\" for the text", field.name))
        }
        None if names.is_empty() => remark,
        None => remark.with_hint(existing_names("fields", &names)),
    })
}

/// Hints about names that differ from an indexed field only in case, so that no event has such a field.
pub(super) fn default_field_case_notes(found: &SearchOutcome<'_>, wanted: &[&ReadField]) -> Vec<Diagnostic> {
    let note = |field: &&&ReadField| {
        let name = &field.name;
        let near = INDEXED_FIELDS.iter().find(|known| **known != name && known.eq_ignore_ascii_case(name))?;
        let remark = format!("no event has a field `{name}`");
        let remark = Diagnostic::warning(remark, find_name_span(found.text, field.stage, name));
        Some(remark.with_hint(format!("names of fields are case-sensitive: did you mean `{near}`?")))
    };
    wanted.iter().filter_map(|field| note(&field)).collect()
}

/// Hints about fields that no recent event has.
pub(super) fn unknown_field_notes(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    wanted: &[&ReadField],
    (scope, sourcetypes): (&str, &BTreeMap<String, u64>),
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let asked = required_values(commands, "sourcetype");
    // If the search finds events, the fields of these events are more relevant than fields of other events of the
    // sourcetype.
    let own_text = commands.first().map_or("*", |stage| &found.text[stage.span.start..stage.span.end]);
    let mut seen = BTreeSet::new();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked.text.eq_ignore_ascii_case(name));
    for name in sourcetypes.keys().filter(|name| is_asked(name)).take(SOURCETYPES_MAX) {
        seen.extend(list_fields(&format!("{scope} sourcetype={}", quote(name)), ask));
    }
    // If the answer has rows and values, only a likely typo is worth another search.
    let is_slip = |field: &&&ReadField| {
        !seen.contains(&field.name) && closest_name(&field.name, seen.iter().map(String::as_str)).is_some()
    };
    let wanted: Vec<&ReadField> = match found.is_complete() {
        true => wanted.iter().filter(is_slip).copied().collect(),
        false => wanted.to_vec(),
    };
    if seen.is_empty() || wanted.is_empty() {
        return Vec::new();
    }
    let own = list_fields(own_text, ask);
    // Only fields of the found events that no earlier command removes are suggested.
    let removed = removed_fields(commands);
    let at_hand: Vec<&str> = if own.is_empty() { &seen } else { &own }
        .iter()
        .map(String::as_str)
        .filter(|name| !removed.contains(*name))
        .collect();
    let is_missing = |name: &String| !own.contains(name) && (!own.is_empty() || !seen.contains(name));
    let missing = wanted.iter().filter(|field| is_missing(&field.name) && !is_default(&field.name));
    let missing: Vec<&&ReadField> =
        missing.filter(|field| !has_required_value(&field.name, commands, scope, ask)).collect();
    let note = |field: &&&ReadField| missing_field_note(found.text, commands, field, (&seen, &at_hand), ask);
    let mut notes: Vec<Diagnostic> = missing.iter().map(note).collect();
    // Fields that are parts of one unquoted name get the same hint.
    notes.dedup_by(|later, first| later.hint == first.hint && later.span == first.span);
    notes
}

/// A hint about a field that the found events lack. `seen` are the fields of all events of the sourcetypes; `at_hand`
/// are the fields that may be suggested.
fn missing_field_note(
    text: &str,
    commands: &[Stage],
    field: &ReadField,
    (seen, at_hand): (&BTreeSet<String>, &[&str]),
    ask: DynProbes<'_>,
) -> Diagnostic {
    let (name, place) = (&field.name, find_name_span(text, field.stage, &field.name));
    let remark = Diagnostic::warning(format!("no event that was looked at has a field `{name}`"), place);
    if let Some(longer) = find_unquoted_name(text, field, at_hand) {
        return remark.with_hint(format!("for the field `{longer}`, write '{longer}' in single quotes"));
    }
    let is_value = fields_as_values(commands).contains(name);
    match closest_name(name, at_hand.iter().copied()) {
        Some(near) if near.eq_ignore_ascii_case(name) => {
            remark.with_hint(format!("names of fields are case-sensitive: did you mean `{near}`?"))
        }
        Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
        None if is_value && name.eq_ignore_ascii_case("null") => {
            remark.with_hint("isnull(FIELD) and isnotnull(FIELD) test whether a field has a value")
        }
        None if is_value => {
            remark.with_hint(format!("a name without quotes is a field here: write \"{name}\" for the text"))
        }
        None if seen.contains(name) => {
            let remark = format!("none of the newest events that are found has the field `{name}`");
            let remark = Diagnostic::warning(remark, place);
            remark.with_hint("other events have it; to extract it from the events found, use `rex`")
        }
        None if TIME_OPTIONS.iter().any(|option| closest_name(name, [*option]).is_some()) => {
            remark.with_hint("the time range of a search is set with earliest= and latest=")
        }
        None => match find_index_with_field(name, ask).filter(|index| !is_searched(index, commands)) {
            Some(index) => remark.with_hint(format!("events of index={index} have it")),
            None => remark.with_hint(list_available_fields(at_hand)),
        },
    }
}

/// Whether a search reads an index; assumed if the search has a condition on `index` that names no single index.
fn is_searched(index: &str, commands: &[Stage]) -> bool {
    let asked = required_values(commands, "index");
    asked.iter().any(|asked| asked.text == index) || (asked.is_empty() && mentions_field(commands, "index"))
}

/// Whether there are no hints for a name, because it is a default field or no field at all.
fn is_default(name: &str) -> bool {
    DEFAULT_FIELDS.contains(&name) || DEFAULT_PREFIXES.iter().any(|begin| name.starts_with(begin))
}

/// Hint that lists the fields to choose from.
fn list_available_fields(at_hand: &[&str]) -> String {
    let shown: Vec<&str> = at_hand.iter().copied().filter(|name| !is_default(name)).collect();
    match shown.as_slice() {
        [] | ["host"] => {
            "no fields are extracted from these events: use `rex`, or give the data another sourcetype".to_owned()
        }
        shown => existing_names("fields", shown),
    }
}

/// A field such as `ctx.region` or `host-name` that an expression names without quotes, so that it is read as several
/// fields.
fn find_unquoted_name<'n>(text: &str, field: &ReadField, at_hand: &[&'n str]) -> Option<&'n str> {
    let command = text.get(field.stage.start..field.stage.end)?;
    let is_in_parts = |name: &&&str| {
        let parts = name.split(|c: char| !c.is_alphanumeric() && c != '_');
        name.len() > field.name.len() && parts.into_iter().any(|part| part == field.name)
    };
    at_hand.iter().filter(is_in_parts).find(|name| command.contains(**name)).copied()
}

/// Whether an event has the value that the search requires of a field. The field may be too rare to be among the known
/// fields.
fn has_required_value(name: &str, commands: &[Stage], scope: &str, ask: DynProbes<'_>) -> bool {
    required_values(commands, name).first().is_some_and(|value| {
        let found = newest_value(&format!("{scope} {}", any_value_condition(name, &[value])), name, ask);
        found.flatten().is_some_and(|value| !value.is_empty())
    })
}
