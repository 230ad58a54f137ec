//! What to tell someone whose search found nothing, or left a column empty: the index is not there, a field is spelt
//! otherwise, the events lie in another index or at another time.
//!
//! Hints cost a few small searches of their own, over what the catalog knows and over some of the newest events. They
//! never change an answer, and a hint that cannot be had is left out.

use std::collections::{BTreeMap, BTreeSet};

use quarry_spl::analyse::{asked_values, asks_for, fields_of_events};
use quarry_spl::ast::{Command, SearchPattern, Span, Stage, TimeText};
use quarry_spl::{Diagnostic, nearest};

/// Newest events of a sourcetype whose fields are looked at.
const EVENTS_PER_SOURCETYPE: usize = 200;
/// Sourcetypes whose events are looked at.
const SOURCETYPES_MAX: usize = 8;
/// Names that a hint lists.
const NAMES_MAX: usize = 12;
/// A time behind that of every event.
const LATEST_ALL: u32 = u32::MAX;
/// How hints write a time.
const TIME_FORM: &str = "%F %T %z";
/// Begins of names that stand for something in every event, or for no field.
const DEFAULT_FIELDS: [&str; 12] = [
    "date_",
    "_",
    "timeendpos",
    "timestartpos",
    "splunk_server",
    "tag",
    "eventtype",
    "index",
    "linecount",
    "punct",
    "source",
    "earliest",
];

/// A row of a small search: the text of each of its values.
pub(crate) type HintRow = BTreeMap<String, String>;

/// Runs a small search; `None` when it fails.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(&str) -> Option<Vec<HintRow>>;

/// What a search came to.
pub(crate) struct SearchOutcome<'a> {
    /// Its text.
    pub(crate) text: &'a str,
    /// Number of rows.
    pub(crate) rows: usize,
    /// Columns without any value.
    pub(crate) empty: &'a [String],
    /// Whether the command line gives it a time range.
    pub(crate) has_range: bool,
}

/// Notes on an answer that is not what was hoped for.
pub(crate) fn hints(found: &SearchOutcome<'_>, ask: Ask<'_>) -> Vec<Diagnostic> {
    let parsed = quarry_spl::parse(found.text);
    let commands = &parsed.pipeline.commands;
    if !parsed.is_ok() || !quarry_spl::analyse::begins_with_events(commands) {
        return Vec::new();
    }
    let indexes = asked_values(commands, "index");
    if found.rows > 0 && found.empty.is_empty() && indexes.is_empty() {
        return Vec::new();
    }
    let Some(counts) = events_by(ask, "| eventcount summarize=false index=* index=_*", "index", "count") else {
        return Vec::new();
    };
    let known: Vec<&str> = counts.keys().map(String::as_str).collect();
    let wrong = not_there("index", &indexes, &known);
    if !wrong.is_empty() || (found.rows > 0 && found.empty.is_empty()) {
        return wrong;
    }
    if let Some(elsewhere) = elsewhere(commands, &indexes, &counts) {
        return vec![elsewhere];
    }
    let scope = if indexes.is_empty() { "index=main".to_owned() } else { alternatives("index", &indexes) };
    let listed = format!("| metadata type=sourcetypes {}", scope.trim_matches(['(', ')']).replace(" OR ", " "));
    let sourcetypes = events_by(ask, &listed, "sourcetype", "totalCount").unwrap_or_default();
    let asked = asked_values(commands, "sourcetype");
    let known: Vec<&str> = sourcetypes.keys().map(String::as_str).collect();
    let wrong = not_there("sourcetype", &asked, &known);
    if !wrong.is_empty() {
        return wrong;
    }
    if let Some(outside) = outside_of_range(found, commands, &scope, ask) {
        return vec![outside];
    }
    wrong_fields(found, commands, (&scope, &sourcetypes), ask)
}

/// Tells when the events are where none lie in the time range of the search.
fn outside_of_range(found: &SearchOutcome<'_>, commands: &[Stage], scope: &str, ask: Ask<'_>) -> Option<Diagnostic> {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else { return None };
    let (earliest, latest) = (&search.time.earliest, &search.time.latest);
    if found.rows > 0 || (earliest.is_none() && latest.is_none() && !found.has_range) {
        return None;
    }
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let option = |name: &str, time: &Option<TimeText>| {
        time.as_ref().map_or_else(String::new, |time| format!(" {name}={}", quoted(&time.text)))
    };
    let range = format!("{}{}", option("earliest", earliest), option("latest", latest));
    let inside = ask(&format!("| tstats count WHERE {scope}{range}"))?;
    if inside.first()?.get("count")? != "0" {
        return None;
    }
    // Times before the first of January 1970 have no second that `earliest` could name.
    let all = ask(&format!(
        "| tstats count min(_time) AS first max(_time) AS last WHERE {scope} earliest=1 latest=\"{LATEST_ALL}\" \
         | eval first=strftime(first, \"{TIME_FORM}\"), last=strftime(last, \"{TIME_FORM}\")"
    ))?;
    let (count, first, last) = (all.first()?.get("count")?, all.first()?.get("first")?, all.first()?.get("last")?);
    let ends: Vec<Span> = [earliest, latest].into_iter().flatten().map(|time| time.span).collect();
    let span = Span {
        start: ends.iter().map(|span| span.start).min().unwrap_or(0),
        end: ends.iter().map(|span| span.end).max().unwrap_or(found.text.len()),
    };
    let where_from = if ends.is_empty() { "--earliest or --latest" } else { "earliest= or latest=" };
    let remark = Diagnostic::warning("no event lies in the time range of the search", span);
    (count != "0").then(|| remark.with_hint(format!("events go from {first} to {last}: change {where_from}")))
}

/// Numbers of events by name, as a small search lists them.
fn events_by(ask: Ask<'_>, search: &str, name: &str, count: &str) -> Option<BTreeMap<String, u64>> {
    let rows = ask(search)?;
    let pair = |row: &HintRow| Some((row.get(name)?.clone(), row.get(count).and_then(|count| count.parse().ok())?));
    Some(rows.iter().filter_map(pair).collect())
}

/// Notes on values that nothing has.
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
        match nearest(&value.text, known.iter().copied()) {
            Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
            None if shown.is_empty() => remark.with_hint("nothing has been added yet: `quarry add oneshot FILE`"),
            None => remark.with_hint(format!("there is {}", list(&shown))),
        }
    });
    wrong.collect()
}

/// Tells where events are when there are none where the search looks.
fn elsewhere(commands: &[Stage], asked: &[&SearchPattern], counts: &BTreeMap<String, u64>) -> Option<Diagnostic> {
    if !asked.is_empty() || counts.get("main").is_some_and(|count| *count > 0) {
        return None;
    }
    let others: Vec<&str> = counts
        .iter()
        .filter(|(name, count)| **count > 0 && !name.starts_with('_'))
        .map(|(name, _)| name.as_str())
        .collect();
    // Indexes may be named with a star, too.
    if asks_for(commands, "index") || others.is_empty() {
        return None;
    }
    let span = commands.first().map_or(Span { start: 0, end: 0 }, |stage| stage.span);
    let remark = Diagnostic::warning("a search that names no index reads `main`, which holds no events", span);
    Some(remark.with_hint(format!("events are in {}: write index={}", list(&others), others[0])))
}

/// Notes on fields that none of the newest events has.
fn wrong_fields(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    (scope, sourcetypes): (&str, &BTreeMap<String, u64>),
    ask: Ask<'_>,
) -> Vec<Diagnostic> {
    let Some(wanted) = fields_of_events(found.text, commands).filter(|wanted| !wanted.is_empty()) else {
        return Vec::new();
    };
    let asked = asked_values(commands, "sourcetype");
    // Events that the search finds say more than others of their sourcetype, if it finds any.
    let own_text = commands.first().map_or("*", |stage| &found.text[stage.span.start..stage.span.end]);
    let mut fields_in = |search: &str| -> BTreeSet<String> {
        let probe = format!("{search} | head {EVENTS_PER_SOURCETYPE} | fieldsummary maxvals=1 | table field");
        ask(&probe).into_iter().flatten().filter_map(|mut row| row.remove("field")).collect()
    };
    let own = fields_in(own_text);
    let mut seen = BTreeSet::new();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked.text.eq_ignore_ascii_case(name));
    for name in sourcetypes.keys().filter(|name| is_asked(name)).take(SOURCETYPES_MAX) {
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        seen.extend(fields_in(&format!("{scope} sourcetype=\"{name}\"")));
    }
    if seen.is_empty() {
        return Vec::new();
    }
    let is_default = |name: &str| DEFAULT_FIELDS.iter().any(|default| name.starts_with(default));
    let is_missing = |name: &&String| !own.contains(*name) && (!own.is_empty() || !seen.contains(*name));
    let missing = wanted.iter().filter(|name| is_missing(name) && !is_default(name));
    let note = |name: &String| {
        if seen.contains(name) {
            let remark = format!("none of the newest events that are found has the field `{name}`");
            let remark = Diagnostic::warning(remark, place_of(found.text, name));
            return remark.with_hint("other events have it; `rex` cuts it out of the text of these");
        }
        let remark = Diagnostic::warning(
            format!("no event that was looked at has a field `{name}`"),
            place_of(found.text, name),
        );
        match nearest(name, seen.iter().map(String::as_str)) {
            Some(near) if near.eq_ignore_ascii_case(name) => {
                remark.with_hint(format!("names of fields are case-sensitive: did you mean `{near}`?"))
            }
            Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
            None => {
                let shown: Vec<&str> = seen.iter().map(String::as_str).filter(|name| !is_default(name)).collect();
                remark.with_hint(format!("there is {}", list(&shown)))
            }
        }
    };
    missing.map(note).collect()
}

/// A condition for some values of a field.
fn alternatives(field: &str, values: &[&SearchPattern]) -> String {
    let each: Vec<String> =
        values.iter().map(|value| format!("{field}=\"{}\"", value.text.replace('"', "\\\""))).collect();
    format!("({})", each.join(" OR "))
}

/// Where a name stands whole in a search; the whole search when it does not.
fn place_of(text: &str, name: &str) -> Span {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let found = text.match_indices(name).map(|(at, _)| Span { start: at, end: at + name.len() });
    let mut whole = found
        .filter(|span| !is_word(text[..span.start].chars().next_back()) && !is_word(text[span.end..].chars().next()));
    whole.next().unwrap_or(Span { start: 0, end: text.len() })
}

/// Names in a sentence, the first few.
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

    /// What is said of a search over a node with two indexes, two sourcetypes and some fields.
    fn said(text: &str, rows: usize, empty: &[&str]) -> Vec<String> {
        let empty: Vec<String> = empty.iter().map(|name| (*name).to_owned()).collect();
        let mut ask = |search: &str| {
            let rows = if search.starts_with("| eventcount") {
                vec![row(&[("index", "main"), ("count", "5")]), row(&[("index", "web"), ("count", "9")])]
            } else if search.starts_with("| metadata") {
                vec![row(&[("sourcetype", "access"), ("totalCount", "9")])]
            } else {
                ["status", "user", "host", "date_hour"].iter().map(|name| row(&[("field", name)])).collect()
            };
            Some(rows)
        };
        hints(&SearchOutcome { text, rows, empty: &empty, has_range: false }, &mut ask)
            .iter()
            .map(|remark| remark.told(text))
            .collect()
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is_near() {
        let table: [(&str, usize, &[&str], &[&str]); 12] = [
            ("index=maim error", 0, &[], &["there is no index `maim` at character 7 (did you mean `main`?)"]),
            ("index=foo error", 3, &[], &["there is no index `foo` at character 7 (there is main, web)"]),
            ("index=we* error", 0, &[], &[]),
            (
                "sourcetype=acess x",
                0,
                &[],
                &["no event has the sourcetype `acess` at character 12 (did you mean `access`?)"],
            ),
            (
                "* | stats count by statu",
                0,
                &[],
                &["no event that was looked at has a field `statu` at character 20 (did you mean `status`?)"],
            ),
            (
                "* | stats avg(Status) by host",
                2,
                &["avg(Status)"],
                &[
                    "no event that was looked at has a field `Status` at character 15 (names of fields are case-sensitive: did you mean `status`?)",
                ],
            ),
            (
                "usr=anna",
                0,
                &[],
                &["no event that was looked at has a field `usr` at character 1 (did you mean `user`?)"],
            ),
            (
                "* | stats count by nothing",
                0,
                &[],
                &["no event that was looked at has a field `nothing` at character 20 (there is host, status, user)"],
            ),
            ("* | rex \"(?<statu>\\d+)\" | stats count by statu", 0, &[], &[]),
            ("* | eval statu=1 | where statu=2", 0, &[], &[]),
            ("* | lookup t statu", 0, &[], &[]),
            ("status=500 | stats count by user", 4, &[], &[]),
        ];
        for (text, rows, empty, want) in table {
            assert_eq!(said(text, rows, empty), want, "{text}");
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
                "no event lies in the time range of the search at character 16: `-7d` (events go from A to Z: change earliest= or latest=)",
            ),
            ("error earliest=-8d", true, ""),
            (
                "failed | stats count by user",
                false,
                "none of the newest events that are found has the field `user` at character 25 (other events have it; `rex` cuts it out of the text of these)",
            ),
            ("nothing | stats count by user", false, ""),
        ];
        for (text, has_range, said) in table {
            let found = hints(&SearchOutcome { text, rows: 0, empty: &[], has_range }, &mut ask);
            assert_eq!(found.first().map(|remark| remark.told(text)).unwrap_or_default(), said, "{text}");
        }
    }

    #[test]
    fn events_in_another_index_are_pointed_at() {
        let mut ask =
            |search: &str| search.starts_with("| eventcount").then(|| vec![row(&[("index", "web"), ("count", "9")])]);
        let text = "error";
        let found = hints(&SearchOutcome { text, rows: 0, empty: &[], has_range: false }, &mut ask);
        assert_eq!(found[0].hint.as_deref(), Some("events are in web: write index=web"));
        assert!(
            hints(&SearchOutcome { text: "index=* error", rows: 0, empty: &[], has_range: true }, &mut ask).is_empty()
        );
    }
}
