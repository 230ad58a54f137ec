//! Hints for a search that found nothing, or left a column empty: an unknown index, a misspelt field, events in another
//! index or time range.
//!
//! Hints cost a few small searches over the catalog and over recent events. They never change an answer, and a hint
//! that cannot be computed is omitted.

mod absent_values;
mod absent_words;
mod generators;
mod indexes;
mod span_edges;
mod unmet_conditions;
mod unseen_fields;

use std::collections::{BTreeMap, BTreeSet};

use quarry_spl::analyse::{EqualsWhat, FieldOrigin, ReadField, asked_values, asks_for, named_fields, where_equals};
use quarry_spl::ast::{Command, SearchPattern, Span, Stage, TimeText};
use quarry_spl::{Diagnostic, nearest};

pub(crate) use indexes::unknown_indexes;

/// Recent events examined per sourcetype.
const EVENTS_PER_SOURCETYPE: usize = 200;
/// A condition on indexes that leaves the indexes which a role searches by default.
const DEFAULT_INDEXES: &str = "*";
/// Events of the indexes that a search reads if it names none.
const DEFAULT_INDEXES_COUNT: &str = "| tstats count WHERE earliest=0 latest=+100y";
/// Maximum sourcetypes examined.
const SOURCETYPES_MAX: usize = 8;
/// Maximum names in a hint.
const NAMES_MAX: usize = 12;
/// Comparisons of `where` of which it is looked whether other case is there.
const COMPARISONS_MAX: usize = 3;
/// A time after every event.
const LATEST_ALL: u32 = u32::MAX;
/// Format of times in hints.
const TIME_FORM: &str = "%F %T %:z";
/// Fields that every event has.
const INDEXED_FIELDS: [&str; 6] = ["_raw", "_time", "host", "index", "source", "sourcetype"];
/// Names that exist for every event, or do not name fields.
const DEFAULT_FIELDS: [&str; 9] =
    ["eventtype", "index", "linecount", "punct", "source", "sourcetype", "tag", "timeendpos", "timestartpos"];
/// Position of a note that does not concern a part of the search.
pub(crate) const NO_PLACE: Span = Span { start: 0, end: 0 };
/// Prefixes of such names.
const DEFAULT_BEGINS: [&str; 5] = ["date_", "_", "splunk_server", "tag::", "earliest"];

/// A row of a small search: field values as text.
pub(crate) type HintRow = BTreeMap<String, String>;

/// Runs a small search; `None` if it fails.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(&str) -> Option<Vec<HintRow>>;

/// Outcome of a search.
pub(crate) struct SearchOutcome<'a> {
    /// Its text.
    pub(crate) text: &'a str,
    /// Number of rows.
    pub(crate) rows: usize,
    /// Columns without any value.
    pub(crate) empty: &'a [String],
    /// Columns with values.
    pub(crate) filled: &'a BTreeSet<String>,
    /// Columns that contain only zeros, as counts of a non-existent field do.
    pub(crate) zeros: &'a BTreeSet<String>,
    /// Whether the command line set a time range.
    pub(crate) has_range: bool,
    /// Offset of its zone from UTC in seconds.
    pub(crate) offset_s: i32,
    /// Whether a person is watching: then even a complete answer is worth small searches.
    pub(crate) is_watched: bool,
}

/// Notes on an answer that is probably not the intended one.
pub(crate) fn hints(found: &SearchOutcome<'_>, ask: Ask<'_>) -> Vec<Diagnostic> {
    let parsed = quarry_spl::parse(found.text);
    if !parsed.is_ok() {
        return Vec::new();
    }
    let mut notes = lacking(found, &parsed, ask);
    if found.is_watched && found.rows > 0 {
        notes.extend(span_edges::remark(found.text, &parsed.pipeline.commands, found.offset_s));
        notes.extend(unseen_fields::remark(found, &parsed.pipeline.commands));
    }
    notes
}

/// Notes on what is missing in an answer.
fn lacking(found: &SearchOutcome<'_>, parsed: &quarry_spl::Parsed, ask: Ask<'_>) -> Vec<Diagnostic> {
    let commands = &parsed.pipeline.commands;
    // A warning about a command already covers the fields it reads.
    let is_explained = |field: &ReadField| {
        parsed
            .diagnostics
            .iter()
            .any(|remark| field.stage.start <= remark.span.start && remark.span.end <= field.stage.end)
    };
    let mut read = named_fields(commands);
    read.retain(|field| !is_explained(field));
    let nowhere: Vec<Diagnostic> = read.iter().filter_map(|field| cut_off(found.text, field)).collect();
    if !nowhere.is_empty() {
        return nowhere;
    }
    if !quarry_spl::analyse::begins_with_events(commands) || generators::is_of_metrics(commands) {
        return generators::hints(found, commands, ask);
    }
    let asked_indexes = asked_values(commands, "index");
    let wanted: Vec<&ReadField> = read.iter().filter(|field| !found.shows(field, commands)).collect();
    let is_done = found.is_whole() && (wanted.is_empty() || !found.is_watched);
    if is_done && asked_indexes.is_empty() {
        return Vec::new();
    }
    let Some(counts) = indexes::counts(&asked_indexes, ask) else { return Vec::new() };
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    let wrong = indexes::not_there(&asked_indexes, &known, ask);
    if !wrong.is_empty() || is_done {
        return wrong;
    }
    let bare = indexes::without_events(&asked_indexes, &counts);
    if found.rows == 0 && !bare.is_empty() {
        return bare;
    }
    if let Some(elsewhere) = elsewhere(commands, &asked_indexes, &counts, ask) {
        return vec![elsewhere];
    }
    let scope = match asked_indexes.is_empty() {
        true => DEFAULT_INDEXES.to_owned(),
        false => alternatives("index", &asked_indexes),
    };
    let listed = format!("| metadata type=sourcetypes {}", indexes_of(&scope));
    let sourcetypes = events_by(ask, &listed, "sourcetype", "totalCount").unwrap_or_default();
    let asked = asked_values(commands, "sourcetype");
    let known: Vec<&str> = sourcetypes.keys().map(String::as_str).collect();
    let wrong = not_there("sourcetype", &asked, &known);
    if !wrong.is_empty() && !found.is_whole() {
        return wrong;
    }
    let cased = other_case_of_default(found, &wanted);
    if found.rows == 0 && !cased.is_empty() {
        return cased;
    }
    if let Some(outside) = outside_of_range(found, commands, &scope, ask) {
        return vec![outside];
    }
    let wrong = wrong_words_and_values(found, parsed, &scope, ask);
    if !wrong.is_empty() {
        return wrong;
    }
    let mut notes = wrong_fields(found, commands, &wanted, (&scope, &sourcetypes), ask);
    if notes.is_empty() {
        notes = absent(found, commands, (&read, &scope), ask);
    }
    // Otherwise a warning explains it.
    if notes.is_empty() && found.rows == 0 && parsed.diagnostics.is_empty() {
        notes.extend(unmet_conditions::remark(found, commands, &scope, ask));
    }
    notes
}

/// Notes on words that no event contains, and on hosts and sources that none has.
fn wrong_words_and_values(
    found: &SearchOutcome<'_>,
    parsed: &quarry_spl::Parsed,
    scope: &str,
    ask: Ask<'_>,
) -> Vec<Diagnostic> {
    let commands = &parsed.pipeline.commands;
    let words = absent_words::of_words(found, parsed, scope, ask);
    if !words.is_empty() || found.is_whole() {
        return words;
    }
    let mut each = [("host", "hosts"), ("source", "sources")].into_iter();
    each.find_map(|(field, kind)| {
        let wrong = wrong_values(field, kind, commands, scope, ask);
        (!wrong.is_empty()).then_some(wrong)
    })
    .unwrap_or_default()
}

/// Notes on patterns and values that nothing matches, although the fields exist.
fn absent(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    (read, scope): (&[ReadField], &str),
    ask: Ask<'_>,
) -> Vec<Diagnostic> {
    let unmatched = absent_values::of_rex(found, commands, ask);
    if !unmatched.is_empty() || found.rows > 0 {
        return unmatched;
    }
    let fields: Vec<&str> = read.iter().map(|field| field.name.as_str()).collect();
    let values = absent_values::of_values(&fields, commands, scope, ask);
    if values.is_empty() { other_case(found, commands, ask) } else { values }
}

/// Notes on names that differ from a default field by case alone: no event has such a field.
fn other_case_of_default(found: &SearchOutcome<'_>, wanted: &[&ReadField]) -> Vec<Diagnostic> {
    let note = |field: &&&ReadField| {
        let name = &field.name;
        let near = INDEXED_FIELDS.iter().find(|known| **known != name && known.eq_ignore_ascii_case(name))?;
        let remark = format!("no event has a field `{name}`");
        let remark = Diagnostic::warning(remark, place_of(found.text, field.stage, name));
        Some(remark.with_hint(format!("names of fields are case-sensitive: did you mean `{near}`?")))
    };
    wanted.iter().filter_map(|field| note(&field)).collect()
}

/// Notes on hosts or sources that no event has.
fn wrong_values(field: &str, kind: &str, commands: &[Stage], scope: &str, ask: Ask<'_>) -> Vec<Diagnostic> {
    let asked = asked_values(commands, field);
    if asked.is_empty() {
        return Vec::new();
    }
    let indexes = indexes_of(scope);
    let Some(counts) = events_by(ask, &format!("| metadata type={kind} {indexes}"), field, "totalCount") else {
        return Vec::new();
    };
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    if known.is_empty() { Vec::new() } else { not_there(field, &asked, &known) }
}

/// A note on a `where` that keeps nothing because the values that are there are written in other case.
fn other_case(found: &SearchOutcome<'_>, commands: &[Stage], ask: Ask<'_>) -> Vec<Diagnostic> {
    for equals in where_equals(commands).into_iter().take(COMPARISONS_MAX) {
        let EqualsWhat::Text(text) = equals.other else { continue };
        let before = found.text.get(..equals.stage_start).unwrap_or_default().trim_end();
        let before = before.strip_suffix('|').unwrap_or(before);
        let (field, lower) = (equals.field, quoted(&text.to_lowercase()));
        let probe = format!("{before} | where lower('{field}')={lower} | head 1 | table {field}");
        let rows = ask(&probe).unwrap_or_default();
        if let Some(value) = rows.first().and_then(|row| row.get(field)).filter(|value| *value != text) {
            let remark = Diagnostic::warning(format!("no value of `{field}` is written `{text}`"), equals.span);
            return vec![remark.with_hint(format!(
                "`where` compares case-sensitively: write {field}=\"{value}\", or `| search {field}=\"{text}\"`"
            ))];
        }
    }
    Vec::new()
}

impl SearchOutcome<'_> {
    /// Whether there are rows, and a value in each column.
    fn is_whole(&self) -> bool {
        self.rows > 0 && self.empty.is_empty() && self.zeros.is_empty() && !self.is_split_by_nothing()
    }

    /// Whether all values of a chart are in the column of events that lack the field by which it is split.
    fn is_split_by_nothing(&self) -> bool {
        let is_null = |column: &&String| *column == "NULL" || column.ends_with(": NULL");
        let mut series = self.filled.iter().filter(|column| !column.starts_with('_'));
        self.filled.iter().any(|column| is_null(&column)) && series.all(|column| is_null(&column))
    }

    /// Whether the result shows that the field exists: it has values, or rows passed a condition on it.
    fn shows(&self, field: &ReadField, commands: &[Stage]) -> bool {
        let in_call = format!("({})", field.name);
        let counts = |column: &String| column.contains(&in_call) && !self.zeros.contains(column);
        let has_values = self.filled.iter().any(|column| *column == field.name || counts(column));
        let is_read_by = |stage: &&Stage| stage.span == field.stage;
        let selects = commands.iter().find(is_read_by).is_some_and(|stage| stage.command.selects());
        has_values || (self.is_whole() && selects)
    }
}

/// A note on a field that an earlier command removed.
fn cut_off(text: &str, field: &ReadField) -> Option<Diagnostic> {
    let FieldOrigin::Nowhere { command, fields } = &field.origin else { return None };
    let remark = format!("behind `{command}` there is no field `{}`", field.name);
    let remark = Diagnostic::warning(remark, place_of(text, field.stage, &field.name));
    let names: Vec<&str> = fields.iter().map(String::as_str).collect();
    Some(match nearest(&field.name, names.iter().copied()) {
        Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
        None if names.is_empty() => remark,
        None => remark.with_hint(format!("there is {}", list(&names))),
    })
}

/// Reports the time range of existing events if none is in the search's range, or if those that the search selects are
/// outside of it.
fn outside_of_range(found: &SearchOutcome<'_>, commands: &[Stage], scope: &str, ask: Ask<'_>) -> Option<Diagnostic> {
    let stage = commands.first()?;
    let Command::Search(search) = &stage.command else { return None };
    let (earliest, latest) = (&search.time.earliest, &search.time.latest);
    if found.rows > 0 || (earliest.is_none() && latest.is_none() && !found.has_range) {
        return None;
    }
    let option = |name: &str, time: &Option<TimeText>| {
        time.as_ref().map_or_else(String::new, |time| format!(" {name}={}", quoted(&time.text)))
    };
    let range = format!("{}{}", option("earliest", earliest), option("latest", latest));
    // Between two time modifiers there may be unrelated words; those of the command line have no position in the
    // search.
    let end = earliest.as_ref().or(latest.as_ref());
    let where_from = if end.is_some() { "earliest= or latest=" } else { "--earliest or --latest" };
    let place = end.map_or(NO_PLACE, |time| time.span);
    let inside = ask(&format!("| tstats count WHERE {scope}{range}"))?;
    if inside.first()?.get("count")? != "0" {
        let selects = found.text.get(stage.span.start..stage.span.end)?;
        let newest = ask(&format!("{selects} earliest=1 latest=\"{LATEST_ALL}\" | head 1 | table _time"))?;
        let newest = newest.first()?.get("_time")?;
        let remark = Diagnostic::warning("no event that the search selects lies in its time range", place);
        return Some(remark.with_hint(format!("the newest one outside of it is of {newest}: change {where_from}")));
    }
    // `earliest` cannot express times before 1970.
    let all = ask(&format!(
        "| tstats count min(_time) AS first max(_time) AS last WHERE {scope} earliest=1 latest=\"{LATEST_ALL}\" \
         | eval first=strftime(first, \"{TIME_FORM}\"), last=strftime(last, \"{TIME_FORM}\")"
    ))?;
    let (count, first, last) = (all.first()?.get("count")?, all.first()?.get("first")?, all.first()?.get("last")?);
    let remark = Diagnostic::warning("no event lies in the time range of the search", place);
    (count != "0").then(|| remark.with_hint(format!("events go from {first} to {last}: change {where_from}")))
}

/// Event counts by name, as listed by a small search.
fn events_by(ask: Ask<'_>, search: &str, name: &str, count: &str) -> Option<BTreeMap<String, u64>> {
    let rows = ask(search)?;
    let pair = |row: &HintRow| Some((row.get(name)?.clone(), row.get(count).and_then(|count| count.parse().ok())?));
    Some(rows.iter().filter_map(pair).collect())
}

/// Notes on values that do not exist.
fn not_there(field: &str, asked: &[&SearchPattern], known: &[&str]) -> Vec<Diagnostic> {
    let is_there = |value: &str| known.iter().any(|known| known.eq_ignore_ascii_case(value));
    let wrong = asked.iter().filter(|value| !is_there(&value.text)).map(|value| {
        let message = match field {
            "index" => format!("there is no index `{}`", value.text),
            _ => format!("no event has the {field} `{}`", value.text),
        };
        let shown: Vec<&str> =
            known.iter().copied().filter(|name| field != "index" || !name.starts_with('_')).collect();
        let remark = Diagnostic::warning(message, value.span);
        let below = format!("/{}", value.text);
        match nearest(&value.text, known.iter().copied()) {
            _ if field == "source" && known.iter().any(|known| known.ends_with(&below)) => {
                remark.with_hint(format!("a source is a whole path: write source=*{below}"))
            }
            Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
            None if shown.is_empty() => remark.with_hint("nothing has been added yet: `quarry add oneshot FILE`"),
            None => remark.with_hint(format!("there is {}", list(&shown))),
        }
    });
    wrong.collect()
}

/// The indexes of a condition on indexes, as `metadata` takes them.
fn indexes_of(scope: &str) -> String {
    if scope == DEFAULT_INDEXES { String::new() } else { scope.trim_matches(['(', ')']).replace(" OR ", " ") }
}

/// Names indexes with events if the searched ones have none.
fn elsewhere(
    commands: &[Stage],
    asked: &[&SearchPattern],
    counts: &BTreeMap<String, u64>,
    ask: Ask<'_>,
) -> Option<Diagnostic> {
    if !asked.is_empty() || counts.get("main").is_some_and(|count| *count > 0) {
        return None;
    }
    let others: Vec<&str> = counts
        .iter()
        .filter(|(name, count)| **count > 0 && !name.starts_with('_'))
        .map(|(name, _)| name.as_str())
        .collect();
    // Index patterns count as well.
    if asks_for(commands, "index") || others.is_empty() {
        return None;
    }
    // A role may search other indexes by default.
    let reads = ask(DEFAULT_INDEXES_COUNT)?;
    if reads.first().and_then(|row| row.get("count")).is_none_or(|count| count != "0") {
        return None;
    }
    let span = commands.first().map_or(Span { start: 0, end: 0 }, |stage| stage.span);
    let text = "a search that names no index reads the default indexes, `main` unless a role has others, and they hold no events";
    let remark = Diagnostic::warning(text, span);
    Some(remark.with_hint(format!("events are in {}: write index={}", list(&others), others[0])))
}

/// Notes on fields that no recent event has.
fn wrong_fields(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    wanted: &[&ReadField],
    (scope, sourcetypes): (&str, &BTreeMap<String, u64>),
    ask: Ask<'_>,
) -> Vec<Diagnostic> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let asked = asked_values(commands, "sourcetype");
    // If the search finds events, those are more significant than others of their sourcetype.
    let own_text = commands.first().map_or("*", |stage| &found.text[stage.span.start..stage.span.end]);
    let mut fields_in = |search: &str| -> BTreeSet<String> {
        let probe = format!("{search} | head {EVENTS_PER_SOURCETYPE} | fieldsummary maxvals=1 | table field");
        ask(&probe).into_iter().flatten().filter_map(|mut row| row.remove("field")).collect()
    };
    let mut seen = BTreeSet::new();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked.text.eq_ignore_ascii_case(name));
    for name in sourcetypes.keys().filter(|name| is_asked(name)).take(SOURCETYPES_MAX) {
        seen.extend(fields_in(&format!("{scope} sourcetype={}", quoted(name))));
    }
    // If nothing else is suspicious, only a likely typo is worth another search.
    let is_slip = |field: &&&ReadField| {
        !seen.contains(&field.name) && nearest(&field.name, seen.iter().map(String::as_str)).is_some()
    };
    let wanted: Vec<&ReadField> = match found.is_whole() {
        true => wanted.iter().filter(is_slip).copied().collect(),
        false => wanted.to_vec(),
    };
    if seen.is_empty() || wanted.is_empty() {
        return Vec::new();
    }
    let own = fields_in(own_text);
    let texts = names_compared_with(commands);
    let is_default =
        |name: &str| DEFAULT_FIELDS.contains(&name) || DEFAULT_BEGINS.iter().any(|begin| name.starts_with(begin));
    let is_missing = |name: &String| !own.contains(name) && (!own.is_empty() || !seen.contains(name));
    let missing = wanted.iter().filter(|field| is_missing(&field.name) && !is_default(&field.name));
    let note = |field: &&ReadField| {
        let (name, place) = (&field.name, place_of(found.text, field.stage, &field.name));
        if seen.contains(name) {
            let remark = format!("none of the newest events that are found has the field `{name}`");
            let remark = Diagnostic::warning(remark, place);
            return remark.with_hint("other events have it; `rex` cuts it out of the text of these");
        }
        let remark = Diagnostic::warning(format!("no event that was looked at has a field `{name}`"), place);
        match nearest(name, seen.iter().map(String::as_str)) {
            Some(near) if near.eq_ignore_ascii_case(name) => {
                remark.with_hint(format!("names of fields are case-sensitive: did you mean `{near}`?"))
            }
            Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
            None if texts.contains(&name.as_str()) => {
                remark.with_hint(format!("a name without quotes is a field here: write \"{name}\" for the text"))
            }
            None => {
                let shown: Vec<&str> = seen.iter().map(String::as_str).filter(|name| !is_default(name)).collect();
                match shown.as_slice() {
                    [] | ["host"] => {
                        remark.with_hint("nothing is cut out of their text: `rex` does so, or another sourcetype")
                    }
                    shown => remark.with_hint(format!("there is {}", list(shown))),
                }
            }
        }
    };
    missing.filter(|field| !has_asked_value(&field.name, commands, scope, ask)).map(note).collect()
}

/// Whether events have the value of a field that the search asks for: the field of a condition may be rare.
fn has_asked_value(name: &str, commands: &[Stage], scope: &str, ask: Ask<'_>) -> bool {
    asked_values(commands, name).first().is_some_and(|value| {
        let probe = format!("{scope} {} | head 1 | table {name}", alternatives(name, &[value]));
        ask(&probe).is_some_and(|rows| rows.iter().any(|row| row.contains_key(name)))
    })
}

/// Names on the right of a comparison in `where`, which are often meant as texts.
fn names_compared_with(commands: &[Stage]) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for equals in where_equals(commands) {
        if let EqualsWhat::Field(name) = equals.other {
            names.insert(name);
        }
    }
    names
}

/// A text in quotes, as a search takes it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A condition that matches any of some values of a field.
fn alternatives(field: &str, values: &[&SearchPattern]) -> String {
    let each: Vec<String> = values.iter().map(|value| format!("{field}={}", quoted(&value.text))).collect();
    format!("({})", each.join(" OR "))
}

/// Position of a whole name in a command; the whole command if it does not occur.
fn place_of(text: &str, stage: Span, name: &str) -> Span {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let command = text.get(stage.start..stage.end).unwrap_or_default();
    let found = command.match_indices(name).map(|(at, _)| (at, at + name.len()));
    let mut whole = found.filter(|(start, end)| {
        !is_word(command[..*start].chars().next_back()) && !is_word(command[*end..].chars().next())
    });
    let place = whole.next().map(|(start, end)| Span { start: stage.start + start, end: stage.start + end });
    place.unwrap_or(stage)
}

/// The first few names, as a phrase.
fn list(names: &[&str]) -> String {
    let mut text = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMES_MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, &str)]) -> HintRow {
        cells.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Hints for a search over a node with two indexes, two sourcetypes and some fields.
    fn said(text: &str, rows: usize, empty: &[&str]) -> Vec<String> {
        let empty: Vec<String> = empty.iter().map(|name| (*name).to_owned()).collect();
        let mut ask = |search: &str| {
            let rows = if search.starts_with("| eventcount") {
                vec![row(&[("index", "main"), ("count", "5")]), row(&[("index", "web"), ("count", "9")])]
            } else if search.starts_with("| metadata type=hosts") {
                vec![row(&[("host", "web-1"), ("totalCount", "9")])]
            } else if search.starts_with("| metadata") {
                vec![row(&[("sourcetype", "access"), ("totalCount", "9")])]
            } else if search.contains("lower('user')=\"eva\"") {
                vec![row(&[("user", "EVA")])]
            } else if search.contains("lower(")
                || (search.contains("nosuch") && !search.contains("*nosuch*") && !search.contains("OR error"))
            {
                Vec::new()
            } else {
                ["status", "user", "host", "sourcetype", "date_hour"]
                    .iter()
                    .map(|name| row(&[("field", name)]))
                    .collect()
            };
            Some(rows)
        };
        let filled = BTreeSet::from(["host".to_owned(), "count".to_owned()]);
        hints(
            &SearchOutcome {
                text,
                rows,
                empty: &empty,
                filled: &filled,
                zeros: &BTreeSet::new(),
                offset_s: 0,
                has_range: false,
                is_watched: true,
            },
            &mut ask,
        )
        .iter()
        .map(|remark| remark.told(text))
        .collect()
    }

    #[test]
    fn values_that_no_event_has_are_explained() {
        for (text, says) in [
            ("host=wbe-1 error", "no event has the host `wbe-1` (character 6); did you mean `web-1`?"),
            (
                "error | where user=\"Eva\"",
                "no value of `user` is written `Eva` (character 20: `\"Eva\"`); `where` compares case-sensitively: write user=\"EVA\", \
                 or `| search user=\"Eva\"`",
            ),
            (
                "error | where user=anna",
                "no event that was looked at has a field `anna` (character 20); a name without quotes is a field here: \
                 write \"anna\" for the text",
            ),
        ] {
            assert_eq!(said(text, 0, &[]), [says], "{text}");
        }
        assert_eq!(said("host=web-1 error | where user=\"tom\"", 0, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_word_that_no_event_has_is_named_before_fields_are() {
        for text in ["error nosuch | table statu", "error nosuch"] {
            let says = "no event contains the word `nosuch` (character 7); words are matched whole: write *nosuch* for a part of a word";
            assert_eq!(said(text, 0, &[]), [says], "{text}");
        }
        assert_eq!(said("\"nosuch\" error", 0, &[]), ["no event contains `nosuch`"]);
        let either = "no event contains the word `nosuch` or `nosuch2` (character 8: `nosuch OR nosuch2`); words are matched whole: write *nosuch* OR *nosuch2* for a part of a word";
        assert_eq!(said("error (nosuch OR nosuch2)", 0, &[]), [either]);
        assert_eq!(said("nosuch OR error", 0, &[]), Vec::<String>::new());
        assert_eq!(said("bnosuch*", 0, &[]), ["no event contains `bnosuch*`"]);
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is_near() {
        let table: [(&str, usize, &[&str], &[&str]); 13] = [
            ("index=maim error", 0, &[], &["there is no index `maim` (character 7); did you mean `main`?"]),
            ("index=foo error", 3, &[], &["there is no index `foo` (character 7); there is main, web"]),
            ("index=we* error", 0, &[], &[]),
            (
                "sourcetype=acess x",
                0,
                &[],
                &["no event has the sourcetype `acess` (character 12); did you mean `access`?"],
            ),
            (
                "* | stats count by statu",
                0,
                &[],
                &["no event that was looked at has a field `statu` (character 20); did you mean `status`?"],
            ),
            (
                "* | stats avg(Status) by host",
                2,
                &["avg(Status)"],
                &[
                    "no event that was looked at has a field `Status` (character 15); names of fields are case-sensitive: did you mean `status`?",
                ],
            ),
            (
                "usr=anna",
                0,
                &[],
                &["no event that was looked at has a field `usr` (character 1); did you mean `user`?"],
            ),
            (
                "* | stats count by nothing",
                0,
                &[],
                &["no event that was looked at has a field `nothing` (character 20); there is host, status, user"],
            ),
            (
                "* | stats count by sourcetyp",
                0,
                &[],
                &["no event that was looked at has a field `sourcetyp` (character 20); did you mean `sourcetype`?"],
            ),
            ("* | rex \"(?<statu>\\d+)\" | stats count by statu", 0, &[], &[]),
            ("* | eval statu=1 | where statu=2", 0, &[], &[]),
            ("* | lookup t host | where statu=2", 0, &[], &[]),
            ("status=500 | stats count by user", 4, &[], &[]),
        ];
        for (text, rows, empty, want) in table {
            assert_eq!(said(text, rows, empty), want, "{text}");
        }
    }

    #[test]
    fn misspelt_fields_are_told_whatever_command_reads_them() {
        // The events have status, user, host and date_hour.
        for (text, rows) in [
            ("* | sort -statu", 2),
            ("* | sort -statu | table _time user", 2),
            ("* | timechart count by statu", 2),
            ("* | chart count over host by statu", 2),
            ("* | chart sum(statu) over host", 2),
            ("* | eventstats count by statu", 2),
            ("* | streamstats count by statu", 2),
            ("* | transaction statu", 0),
            ("* | transaction statu | table user", 0),
            ("* | rex field=statu \"(?<a>.)\"", 2),
            ("* | rex field=statu \"(?<a>.)\" | table a", 2),
            ("* | stats count by statu", 0),
            ("* | stats sum(statu) AS s by host", 2),
            ("* | dedup statu", 0),
            ("* | top statu", 0),
            ("* | rare statu by host", 0),
            ("* | where statu=200", 0),
            ("* | where statu>200 | stats count by user", 0),
            ("* | search statu=200", 0),
            ("statu=200", 0),
            ("* | regex statu=\"2..\"", 0),
            ("* | eval x=statu*2", 2),
            ("* | eval x=if(statu=\"a\", 1, 2) | stats count by x", 1),
            ("* | bin statu span=10", 2),
            ("* | mvexpand statu", 2),
            ("* | makemv statu", 2),
            ("* | lookup t code AS statu OUTPUT word", 2),
            ("* | table statu", 2),
            ("* | rename statu AS s | table s", 2),
            ("* | rex \"(?<a>.)\" | eval b=a | sort statu", 2),
            ("* | fieldformat statu=statu.\"%\"", 2),
        ] {
            let said = said(text, rows, &[]);
            let place = text.find("statu").map(|at| at + 1).unwrap_or_default();
            let says =
                format!("no event that was looked at has a field `statu` (character {place}); did you mean `status`?");
            assert_eq!(said, [says], "{text}");
        }
    }

    #[test]
    fn fields_that_a_report_has_cut_off_are_told() {
        for (text, said_of) in [
            ("* | stats count by user | where status=200", ("stats", "status", "there is count, user")),
            ("* | stats count by user | table user cuont", ("stats", "cuont", "did you mean `count`?")),
            ("* | stats count by user | sort -cuont", ("stats", "cuont", "did you mean `count`?")),
            ("* | stats count by user | eval x=cuont*2", ("stats", "cuont", "did you mean `count`?")),
            ("* | stats sum(a) AS total by user | eval b=1 | where totl>1", ("stats", "totl", "did you mean `total`?")),
            ("* | top user | where cnt>5", ("top", "cnt", "there is user, count, percent")),
            ("* | table user host | stats count by status", ("table", "status", "there is user, host")),
            ("* | fields user host | dedup status", ("fields", "status", "there is user, host")),
            ("* | timechart count | where status=1", ("timechart", "status", "there is count, _time")),
            ("* | chart count over host | sort user", ("chart", "user", "there is count, host")),
            ("* | rare user | rename counts AS n", ("rare", "counts", "did you mean `count`?")),
            ("| makeresults | stats count AS n | table m", ("stats", "m", "did you mean `n`?")),
        ] {
            let (command, name, hint) = said_of;
            let at = text.rfind(name).unwrap_or_default() + 1;
            let want = format!("behind `{command}` there is no field `{name}` (character {at}); {hint}");
            assert_eq!(said(text, 2, &[]), [want], "{text}");
        }
    }

    #[test]
    fn fields_that_may_be_there_are_let_pass() {
        for (text, rows) in [
            ("* | rex \"(?<statu>.)\" | sort statu", 2),
            ("* | eval statu=1 | timechart count by statu", 2),
            ("* | lookup t host | sort statu", 2),
            ("* | lookup t host OUTPUT statu | sort statu", 2),
            ("* | spath | sort statu", 2),
            ("* | extract | stats count by statu", 0),
            ("* | eval x_{host}=1 | sort statu", 2),
            ("* | fillnull value=0 statu | stats sum(statu)", 1),
            ("* | eval u=coalesce(usr, user) | stats count by u", 2),
            ("* | where isnull(statu)", 2),
            ("* | search NOT statu=5", 2),
            ("* | search statu=5 OR status=5", 2),
            ("* | search statu=5", 2),
            ("usr=eva OR user=eva", 2),
            ("* | foreach a b [eval statu=1] | sort statu", 2),
            ("* | stats count by host | appendcols [search a] | sort status", 2),
            ("* | stats count by host | append [search a] | sort status", 2),
            ("* | stats count by host | join host [search a] | table statu", 2),
            ("* | stats values(*) AS * by host | table statu", 2),
            ("* | chart count over host by user | table host statu", 2),
            ("* | timechart count by user | fields - statu", 2),
            ("* | rename status AS code | sort code", 2),
            ("* | stats count by host | rename count AS n | sort n", 2),
            ("* | stats count by host | eventstats sum(count) AS all | eval share=count/all | sort share", 2),
            ("* | transaction user | where duration>5 AND eventcount>2", 2),
            ("* | fields - statu", 2),
            ("* | table stat*", 2),
            ("* | sort -date_hour punct", 2),
            ("* | mine statu", 2),
        ] {
            assert_eq!(said(text, rows, &[]), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_range_without_events_and_a_field_that_others_have_are_told() {
        let mut ask = |search: &str| {
            let rows = match search {
                _ if search.starts_with("| eventcount") => vec![row(&[("index", "main"), ("count", "9")])],
                _ if search.starts_with("| metadata") => vec![row(&[("sourcetype", "access"), ("totalCount", "9")])],
                _ if search.starts_with("| tstats count WHERE") && search.contains("earliest=\"-") => {
                    vec![row(&[("count", if search.contains("-7d") { "0" } else { "9" })])]
                }
                _ if search.starts_with("| tstats") => vec![row(&[("count", "9"), ("first", "A"), ("last", "Z")])],
                _ if search.starts_with("failed") => vec![row(&[("field", "host")])],
                _ if search.starts_with("nothing") => Vec::new(),
                _ => vec![row(&[("field", "user")])],
            };
            Some(rows)
        };
        let table = [
            (
                "error earliest=-7d",
                false,
                "no event lies in the time range of the search (character 16: `-7d`); events go from A to Z: change earliest= or latest=",
            ),
            ("error earliest=-8d", true, ""),
            (
                "failed | stats count by user",
                false,
                "none of the newest events that are found has the field `user` (character 25); other events have it; `rex` cuts it out of the text of these",
            ),
            ("nothing | stats count by user", false, ""),
        ];
        for (text, has_range, said) in table {
            let filled = BTreeSet::new();
            let found = hints(
                &SearchOutcome {
                    text,
                    rows: 0,
                    empty: &[],
                    filled: &filled,
                    zeros: &BTreeSet::new(),
                    offset_s: 0,
                    has_range,
                    is_watched: true,
                },
                &mut ask,
            );
            assert_eq!(found.first().map(|remark| remark.told(text)).unwrap_or_default(), said, "{text}");
        }
    }

    #[test]
    fn events_in_another_index_are_pointed_at() {
        let by_default = std::cell::Cell::new("0");
        let mut ask = |search: &str| match search {
            DEFAULT_INDEXES_COUNT => Some(vec![row(&[("count", by_default.get())])]),
            _ => search.starts_with("| eventcount").then(|| vec![row(&[("index", "web"), ("count", "9")])]),
        };
        let text = "error";
        let filled = BTreeSet::new();
        let found = hints(
            &SearchOutcome {
                text,
                rows: 0,
                empty: &[],
                filled: &filled,
                zeros: &BTreeSet::new(),
                offset_s: 0,
                has_range: false,
                is_watched: true,
            },
            &mut ask,
        );
        assert_eq!(found[0].hint.as_deref(), Some("events are in web: write index=web"));
        let all = SearchOutcome {
            text: "index=* error",
            rows: 0,
            empty: &[],
            filled: &filled,
            zeros: &BTreeSet::new(),
            offset_s: 0,
            has_range: true,
            is_watched: true,
        };
        assert!(hints(&all, &mut ask).is_empty());
        by_default.set("9");
        let of_role = SearchOutcome { text, has_range: false, ..all };
        assert!(hints(&of_role, &mut ask).iter().all(|note| !note.message.contains("names no index")));
    }

    #[test]
    fn an_answer_that_lacks_nothing_costs_programs_no_search() {
        let filled = BTreeSet::from(["count".to_owned()]);
        let found = SearchOutcome {
            text: "* | stats count by statu",
            rows: 3,
            empty: &[],
            filled: &filled,
            zeros: &BTreeSet::new(),
            offset_s: 0,
            has_range: false,
            is_watched: false,
        };
        let mut asked = Vec::new();
        hints(&found, &mut |search| {
            asked.push(search.to_owned());
            None
        });
        assert!(asked.is_empty(), "{asked:?}");
    }
}
