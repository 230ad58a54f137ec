//! Hints for a search for a value that no event has, although its field exists: a misspelt value, host, source, event
//! type or tag, a value in a different case, and a `rex` whose pattern matches nothing.
//!
//! Values are compared with the most frequent values of recent events; a value that is not among them is searched for
//! before it is reported as absent.

use quarry_spl::analyse::{ComparedWith, required_values, where_equalities};
use quarry_spl::ast::{Command, RexCommand, SearchPattern, Stage};
use quarry_spl::{Diagnostic, closest_name};

use super::indexes::indexes_of;
use super::outcome::{SearchOutcome, existing_names};
use super::probe::{
    DynProbes, distinct_names, event_counts_by, find_index, finds_event_of_any_time, newest_value, quote,
};

/// Number of recent events whose values are read.
const SAMPLED_EVENTS: usize = 1_000;
/// Maximum number of known values that a searched value is compared with.
const VALUES_MAX: usize = 50;
/// Number of values shown if not all are known.
const SHOWN_VALUES_MAX: usize = 8;
const _: () = assert!(SHOWN_VALUES_MAX < VALUES_MAX, "as many are known");
/// Maximum number of fields whose values are searched, and of `rex` commands that are tried.
const PROBED_FIELDS_MAX: usize = 3;
/// Maximum number of values of a field that are searched one by one. A longer list only gets the hint about the whole
/// condition.
const PROBED_VALUES_MAX: usize = 8;
/// Maximum number of comparisons in `where` whose values are searched regardless of case.
const COMPARISONS_MAX: usize = 3;
/// Fields whose values a REST endpoint lists, each with that endpoint and the column of the list.
const KNOWN_BY_NAME: [(&str, &str, &str); 2] =
    [("eventtype", "saved/eventtypes", "title"), ("tag", "search/tags", "title")];
/// Fields that other hints handle.
const EXCLUDED_FIELDS: [&str; 4] = ["index", "sourcetype", "host", "source"];

/// Hints about values that occur in the search's conditions but in no event; `scope` is a condition on the searched
/// indexes.
pub(super) fn absent_value_notes(
    fields: &[&str],
    commands: &[Stage],
    scope: &str,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let mut looks = 0;
    for field in fields.iter().filter(|field| !EXCLUDED_FIELDS.contains(field)) {
        let asked = required_values(commands, field);
        if asked.is_empty() || asked.len() > PROBED_VALUES_MAX {
            continue;
        }
        looks += 1;
        if looks > PROBED_FIELDS_MAX {
            break;
        }
        let by_name = KNOWN_BY_NAME.iter().find(|(name, ..)| name == field);
        let probe = match by_name {
            Some((_, endpoint, column)) => {
                format!("| rest /services/{endpoint} count=0 | rename {column} AS {field} | table {field}")
            }
            None => {
                format!("{scope} {field}=* | head {SAMPLED_EVENTS} | top limit={VALUES_MAX} {field} | table {field}")
            }
        };
        let Some(rows) = ask.rows(&probe) else { continue };
        let known: Vec<&str> = rows.iter().filter_map(|row| row.get(*field)).map(String::as_str).collect();
        if known.is_empty() {
            continue;
        }
        let is_known = |value: &SearchPattern| known.iter().any(|known| known.eq_ignore_ascii_case(&value.text));
        // A value missing from `known` may be rare, or occur in older events only, so it is searched for.
        let mut is_absent = |value: &SearchPattern| {
            let search = format!("{scope} {field}={}", quote(&value.text));
            !is_known(value) && (by_name.is_some() || finds_event_of_any_time(&search, ask) == Some(false))
        };
        let wrong: Vec<Diagnostic> = asked
            .iter()
            .filter(|value| is_absent(value))
            .map(|value| value_note(field, value, &known, by_name.is_some()))
            .collect();
        if !wrong.is_empty() {
            return wrong;
        }
    }
    Vec::new()
}

fn value_note(field: &str, value: &SearchPattern, known: &[&str], by_name: bool) -> Diagnostic {
    let text = &value.text;
    let message = match (by_name, field) {
        (true, "eventtype") => format!("there is no event type `{text}`"),
        (true, _) => format!("there is no {field} `{text}`"),
        (false, _) => format!("no event has the value `{text}` in `{field}`"),
    };
    let remark = Diagnostic::warning(message, value.span);
    match closest_name(text, known.iter().copied()) {
        Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
        // At this limit, the events may have values that are not in `known`.
        None if known.len() >= VALUES_MAX => {
            remark.with_hint(format!("existing values: {} and others", known[..SHOWN_VALUES_MAX].join(", ")))
        }
        None => remark.with_hint(existing_names(if by_name { "names" } else { "values" }, known)),
    }
}

/// Hints about `rex` commands that match none of the rows before them.
pub(super) fn unmatched_rex_notes(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let mut looks = 0;
    for stage in commands.iter().skip(1) {
        let Command::Rex(RexCommand::Extract(rex)) = &stage.command else { continue };
        if rex.groups.is_empty() || rex.groups.iter().any(|group| found.filled.contains(group)) {
            continue;
        }
        looks += 1;
        if looks > PROBED_FIELDS_MAX {
            break;
        }
        let before = found.text.get(..stage.span.start).unwrap_or_default().trim_end();
        let before = before.strip_suffix('|').unwrap_or(before);
        let command = found.text.get(stage.span.start..stage.span.end).unwrap_or_default();
        let counts: Vec<String> =
            rex.groups.iter().enumerate().map(|(at, name)| format!("count('{name}') AS group{at}")).collect();
        let probe = format!("{before} | head {SAMPLED_EVENTS} | {command} | stats count AS rows {}", counts.join(" "));
        let Some(rows) = ask.rows(&probe) else { continue };
        let Some(row) = rows.first() else { continue };
        let has_rows = row.get("rows").is_some_and(|rows| rows != "0");
        let is_zero = |at: usize| row.get(&format!("group{at}")).is_none_or(|count| count == "0");
        if has_rows && (0..rex.groups.len()).all(is_zero) {
            let remark =
                Diagnostic::warning("the pattern of `rex` matches none of the events that were looked at", stage.span);
            let field = &rex.field;
            return vec![
                remark.with_hint(format!("look at what it reads: `{} | head 5 | table {field}`", before.trim())),
            ];
        }
    }
    Vec::new()
}

/// Hints about hosts or sources that no event has.
pub(super) fn unknown_value_notes(
    field: &str,
    kind: &str,
    commands: &[Stage],
    scope: &str,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let asked = required_values(commands, field);
    if asked.is_empty() {
        return Vec::new();
    }
    let indexes = indexes_of(scope);
    let Some(counts) = event_counts_by(&format!("| metadata type={kind} {indexes}"), field, "totalCount", ask) else {
        return Vec::new();
    };
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    if known.is_empty() { Vec::new() } else { missing_value_notes(field, &asked, &known, ask) }
}

/// Hints about the values in `asked` that `known` does not contain.
pub(super) fn missing_value_notes(
    field: &str,
    asked: &[&SearchPattern],
    known: &[&str],
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let is_there = |value: &str| match field {
        "index" => known.contains(&value),
        _ => known.iter().any(|known| known.eq_ignore_ascii_case(value)),
    };
    let wrong = asked.iter().filter(|value| !is_there(&value.text)).map(|value| {
        let message = match field {
            "index" => format!("there is no index `{}`", value.text),
            _ => format!("no event has the {field} `{}`", value.text),
        };
        let shown: Vec<&str> =
            known.iter().copied().filter(|name| field != "index" || !name.starts_with('_')).collect();
        let remark = Diagnostic::warning(message, value.span);
        if field != "index"
            && let Some(index) = find_index(&format!("{field}={}", quote(&value.text)), ask)
        {
            let message = format!("no event of the searched indexes has the {field} `{}`", value.text);
            return Diagnostic::warning(message, value.span).with_hint(format!("events of index={index} have it"));
        }
        let below = format!("/{}", value.text);
        match closest_name(&value.text, known.iter().copied()) {
            _ if field == "source" && known.iter().any(|known| known.ends_with(&below)) => {
                remark.with_hint(format!("a source is a whole path: write source=*{below}"))
            }
            Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
            None if shown.is_empty() => remark.with_hint("nothing has been added yet: `quarry add oneshot FILE`"),
            None => remark.with_hint(existing_names(if field == "index" { "indexes" } else { "values" }, &shown)),
        }
    });
    wrong.collect()
}

/// A hint about a `where` that keeps no row because the values in the events differ in case or are spelt slightly
/// differently.
pub(super) fn case_mismatch_notes(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    for equals in where_equalities(commands).into_iter().take(COMPARISONS_MAX) {
        let ComparedWith::Text(text) = equals.other else { continue };
        let before = found.text.get(..equals.stage_start).unwrap_or_default().trim_end();
        let before = before.strip_suffix('|').unwrap_or(before);
        let (field, lower) = (equals.field, quote(&text.to_lowercase()));
        let other = newest_value(&format!("{before} | where lower('{field}')={lower}"), field, ask).flatten();
        if let Some(value) = other.filter(|value| value != text) {
            let remark = Diagnostic::warning(format!("no value of `{field}` is written `{text}`"), equals.span);
            let is_plain = field.chars().all(|c| c.is_alphanumeric() || c == '_');
            let (here, searched) = match is_plain {
                true => (field.to_owned(), field.to_owned()),
                false => (format!("'{field}'"), quote(field)),
            };
            return vec![remark.with_hint(format!(
                "`where` compares case-sensitively: write {here}=\"{value}\", or `| search {searched}=\"{text}\"`"
            ))];
        }
        let probe = format!("{before} | head {SAMPLED_EVENTS} | top limit={VALUES_MAX} {field} | table {field}");
        let known = distinct_names(ask.rows(&probe), field);
        let near = closest_name(text, known.iter().map(String::as_str)).filter(|_| !known.contains(text));
        if let Some(near) = near {
            let remark = format!("no event that was looked at has the value `{text}` in `{field}`");
            return vec![Diagnostic::warning(remark, equals.span).with_hint(format!("did you mean `{near}`?"))];
        }
    }
    Vec::new()
}
