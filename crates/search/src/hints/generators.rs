//! Hints for searches whose first command generates rows: `tstats`, `mstats`, `mcatalog`, and commands that read data
//! models or lookup tables.

use std::collections::BTreeSet;

use quarry_spl::analyse::{ReadField, named_fields, required_values, search_fields};
use quarry_spl::ast::{
    AggregateArg, Command, DataModelName, MeasurementsCommand, SearchExpr, Span, Stage, TstatsCommand, TstatsSource,
};
use quarry_spl::commands::Beginning;
use quarry_spl::{Diagnostic, closest_name};

use super::absent_values::{missing_value_notes, unknown_value_notes};
use super::indexes::scope_condition;
use super::outcome::{SearchOutcome, existing_names, find_name_span};
use super::probe::{DynProbes, count_of, distinct_names, list_fields};

/// Fields stored with every event.
const INDEXED: [&str; 6] = ["host", "source", "sourcetype", "index", "splunk_server", "linecount"];
/// Search for all names of metrics.
const METRICS_SEARCH: &str = "| mcatalog values(metric_name) AS name where index=* | mvexpand name";
/// Search for all dimensions of metrics.
const DIMENSIONS_SEARCH: &str = "| mcatalog values(_dims) AS name where index=* | mvexpand name";

/// Hints about names in the first command and in the commands after it.
pub(super) fn generator_notes(found: &SearchOutcome<'_>, commands: &[Stage], ask: DynProbes<'_>) -> Vec<Diagnostic> {
    if found.is_complete() && !found.is_watched {
        return Vec::new();
    }
    match commands.first().map(|stage| (&stage.command, stage.span)) {
        _ if is_of_metrics(commands) => unknown_metric_notes(found.text, &names_of_catalog(commands), ask),
        Some((Command::Tstats(tstats), stage)) => match &tstats.source {
            TstatsSource::Metrics => unknown_metric_notes(found.text, &names_of_metrics(tstats), ask),
            TstatsSource::Indexes => {
                let wrong = unknown_metadata_notes(found, commands, ask);
                if wrong.is_empty() { index_time_field_notes(found, tstats, stage, ask) } else { wrong }
            }
            // The engine reports unknown fields of data models itself.
            TstatsSource::DataModel(name) => empty_model_notes(found, name, ask),
            _ => Vec::new(),
        },
        Some((command, stage)) => match command.begins_with() {
            Beginning::DataModel(_, name) if found.rows == 0 => {
                let empty = empty_model_notes(found, name, ask);
                if empty.is_empty() { ungenerated_field_notes(found, commands, stage, ask) } else { empty }
            }
            Beginning::LookupTable | Beginning::DataModel(..) if !found.is_complete() => {
                ungenerated_field_notes(found, commands, stage, ask)
            }
            _ => Vec::new(),
        },
        None => Vec::new(),
    }
}

/// Whether the second command reads metrics, as in the expansion of `mcatalog`.
pub(super) fn is_of_metrics(commands: &[Stage]) -> bool {
    commands.get(1).is_some_and(|stage| matches!(stage.command, Command::Measurements(_)))
}

/// Reports a data model object without events.
fn empty_model_notes(found: &SearchOutcome<'_>, name: &DataModelName, ask: DynProbes<'_>) -> Vec<Diagnostic> {
    let path = match &name.object {
        Some(object) => format!("\"{}\".\"{object}\"", name.model),
        None => format!("\"{}\"", name.model),
    };
    if found.rows > 0 || count_of(ask.rows(&format!("| tstats count FROM datamodel={path}"))) != Some(0) {
        return Vec::new();
    }
    let what = name.object.as_ref().map_or_else(|| name.model.clone(), |object| format!("{}.{object}", name.model));
    let remark = Diagnostic::warning(format!("no event of the time range belongs to {what}"), name.span);
    vec![remark.with_hint(format!(
        "`| datamodel {}` shows the conditions of its objects, such as tags (from eventtypes.conf and tags.conf)",
        name.model
    ))]
}

/// Hints about fields that the first command does not generate.
fn ungenerated_field_notes(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    first: Span,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let read: Vec<ReadField> =
        named_fields(commands).into_iter().filter(|field| !found.proves_field(field, commands)).collect();
    let Some(begin) = found.text.get(first.start..first.end).filter(|_| !read.is_empty()) else { return Vec::new() };
    let known = list_fields(&format!("| {begin}"), ask);
    let wrong = read.iter().filter(|field| !known.contains(&field.name));
    let note = |field: &ReadField| {
        let place = find_name_span(found.text, field.stage, &field.name);
        let what = format!("no row that was looked at has a field `{}`", field.name);
        unknown_name_note(what, place, &field.name, &known)
    };
    if known.is_empty() { Vec::new() } else { wrong.map(note).collect() }
}

/// Hints about fields that a `tstats` reads but that are indexed fields of no event.
fn index_time_field_notes(
    found: &SearchOutcome<'_>,
    tstats: &TstatsCommand,
    stage: Span,
    ask: DynProbes<'_>,
) -> Vec<Diagnostic> {
    let mut notes = Vec::new();
    let names: BTreeSet<String> =
        names_of_aggregates(tstats).into_iter().chain(search_fields(&tstats.filter)).collect();
    for name in &names {
        let is_plain = !name.starts_with('_') && !name.contains(['*', '(', '{', '"']);
        if !is_plain || INDEXED.contains(&name.as_str()) || found.filled.contains(name) {
            continue;
        }
        let counted = ask.rows(&format!("| tstats count WHERE index=* \"{name}\"=*"));
        if count_of(counted) != Some(0) {
            continue;
        }
        let remark = format!("no event has an index-time field `{name}`, and tstats reads only index-time fields");
        let remark = Diagnostic::warning(remark, find_name_span(found.text, stage, name));
        let searched = ask.rows(&format!("search index=* \"{name}\"=* | head 1 | stats count"));
        notes.push(match closest_name(name, INDEXED) {
            _ if count_of(searched).is_some_and(|count| count > 0) => remark.with_hint(format!(
                "searches extract it from the text of events: write `{}`",
                as_search(found.text, tstats, stage)
            )),
            Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
            None => remark.with_hint(format!("existing fields: {}", INDEXED.join(", "))),
        });
    }
    notes
}

/// Hints about indexes, sourcetypes, hosts and sources that a `tstats` names but that do not exist.
fn unknown_metadata_notes(found: &SearchOutcome<'_>, commands: &[Stage], ask: DynProbes<'_>) -> Vec<Diagnostic> {
    if found.is_complete() {
        return Vec::new();
    }
    let indexes = required_values(commands, "index");
    if !indexes.is_empty() {
        let known = distinct_names(ask.rows("| eventcount summarize=false index=* index=_*"), "index");
        let wrong = missing_value_notes("index", &indexes, &known.iter().map(String::as_str).collect::<Vec<_>>(), ask);
        if !wrong.is_empty() && !known.is_empty() {
            return wrong;
        }
    }
    let scope = scope_condition(commands, &indexes);
    let of = [("sourcetype", "sourcetypes"), ("host", "hosts"), ("source", "sources")];
    let each = of.into_iter().map(|(field, kind)| unknown_value_notes(field, kind, commands, &scope, ask));
    each.into_iter().find(|wrong| !wrong.is_empty()).unwrap_or_default()
}

/// A `tstats` rewritten as a search that extracts fields.
fn as_search(text: &str, tstats: &TstatsCommand, stage: Span) -> String {
    let written = |span: Span| text.get(span.start..span.end).unwrap_or_default().trim();
    let aggregates: Vec<&str> = tstats.aggregates.iter().map(|aggregate| written(aggregate.span)).collect();
    // The condition begins after WHERE and ends before the BY clause.
    let by = tstats.by.first().map(|split| split.place.start);
    let command = written(stage).to_ascii_lowercase();
    let begin = find_word(&command, "where").map(|at| stage.start + at + "where".len());
    let end = by.map(|by| stage.start + find_last_word(&command[..by - stage.start], "by"));
    let condition = begin.map(|start| {
        let end = end.filter(|end| *end > start).unwrap_or(stage.end);
        written(Span { start, end })
    });
    let condition = condition.filter(|text| !text.is_empty()).unwrap_or("*");
    let mut search = condition.to_owned();
    if let Some(split) = tstats.by.iter().find(|split| split.field == "_time")
        && let Some(span) = split.span
    {
        search.push_str(&format!(" | bin _time span={}{}", span.amount, span.unit.name()));
    }
    search.push_str(&format!(" | stats {}", aggregates.join(" ")));
    if !tstats.by.is_empty() {
        let names: Vec<&str> = tstats.by.iter().map(|split| split.field.as_str()).collect();
        search.push_str(&format!(" BY {}", names.join(" ")));
    }
    search
}

/// Position of a word between blanks or brackets.
fn find_word(text: &str, word: &str) -> Option<usize> {
    words_of(text, word).next()
}

fn find_last_word(text: &str, word: &str) -> usize {
    words_of(text, word).last().unwrap_or(text.len())
}

fn words_of<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_edge = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | ')'));
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| is_edge(text[..at].chars().next_back()) && is_edge(text[at + word.len()..].chars().next()))
}

fn names_of_aggregates(tstats: &TstatsCommand) -> BTreeSet<String> {
    let by = tstats.by.iter().map(|split| split.field.clone());
    let arguments = tstats.aggregates.iter().filter_map(|aggregate| match &aggregate.arg {
        AggregateArg::Field(field) => Some(field.text.clone()),
        _ => None,
    });
    by.chain(arguments).collect()
}

/// The name of a metric or a dimension.
struct NamedItem {
    name: String,
    place: Span,
    is_metric: bool,
}

fn names_of_metrics(tstats: &TstatsCommand) -> Vec<NamedItem> {
    let by =
        tstats.by.iter().map(|split| NamedItem { name: split.field.clone(), place: split.place, is_metric: false });
    let metrics = tstats.aggregates.iter().filter_map(|aggregate| match &aggregate.arg {
        AggregateArg::Field(field) => Some(NamedItem { name: field.text.clone(), place: field.span, is_metric: true }),
        _ => None,
    });
    let mut found: Vec<NamedItem> = metrics.chain(by).collect();
    collect_names(&tstats.filter, &mut found);
    found
}

/// Metrics and dimensions named in a condition.
fn collect_names(expr: &SearchExpr, found: &mut Vec<NamedItem>) {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().for_each(|part| collect_names(part, found)),
        SearchExpr::Compare { field, value, .. } if field.text == MeasurementsCommand::METRIC => {
            found.push(NamedItem { name: value.text.clone(), place: value.span, is_metric: true });
        }
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } => {
            found.push(NamedItem { name: field.text.clone(), place: field.span, is_metric: false });
        }
        _ => {}
    }
}

/// Names whose values an `mcatalog` lists, and names by which an `mcatalog` groups.
fn names_of_catalog(commands: &[Stage]) -> Vec<NamedItem> {
    let stats = commands.iter().find_map(|stage| match &stage.command {
        Command::Stats(stats) => Some((stats, stage.span)),
        _ => None,
    });
    let Some((stats, place)) = stats else { return Vec::new() };
    let arguments = stats.aggregates.iter().filter_map(|aggregate| match &aggregate.arg {
        AggregateArg::Field(field) => Some(field.text.clone()),
        _ => None,
    });
    let by = stats.by.iter().map(|field| field.text.clone());
    arguments.chain(by).map(|name| NamedItem { name, place, is_metric: false }).collect()
}

fn unknown_metric_notes(text: &str, named: &[NamedItem], ask: DynProbes<'_>) -> Vec<Diagnostic> {
    let is_plain = |named: &&NamedItem| !named.name.starts_with('_') && !named.name.contains(['*', '(']);
    let is_dimension = |named: &&NamedItem| {
        !named.is_metric && !INDEXED.contains(&named.name.as_str()) && named.name != MeasurementsCommand::METRIC
    };
    let named: Vec<&NamedItem> =
        named.iter().filter(is_plain).filter(|named| named.is_metric || is_dimension(named)).collect();
    let Some(first) = named.first() else { return Vec::new() };
    let known = distinct_names(ask.rows(METRICS_SEARCH), "name");
    if known.is_empty() {
        let remark = Diagnostic::warning("no index holds measurements of metrics", first.place);
        return vec![
            remark.with_hint("metrics come from `| mcollect`, StatsD, collectd, OTLP, HEC with \"metric_name:NAME\""),
        ];
    }
    let mut dimensions = BTreeSet::new();
    if named.iter().any(|named| !named.is_metric) {
        dimensions = distinct_names(ask.rows(DIMENSIONS_SEARCH), "name");
        dimensions.extend(INDEXED.iter().map(|name| (*name).to_owned()));
        dimensions.insert(MeasurementsCommand::METRIC.to_owned());
    }
    let is_there = |named: &&&NamedItem| {
        if named.is_metric { known.contains(&named.name) } else { dimensions.contains(&named.name) }
    };
    let note = |named: &&NamedItem| {
        let place = find_name_span(text, named.place, &named.name);
        match named.is_metric {
            true => unknown_name_note(format!("there is no metric `{}`", named.name), place, &named.name, &known),
            false => unknown_name_note(
                format!("no metric has a dimension `{}`", named.name),
                place,
                &named.name,
                &dimensions,
            ),
        }
    };
    named.iter().filter(|named| !is_there(named)).map(note).collect()
}

/// A hint about an unknown name, with the most similar known name or a list of the known names.
fn unknown_name_note(what: String, place: Span, name: &str, known: &BTreeSet<String>) -> Diagnostic {
    let remark = Diagnostic::warning(what, place);
    match closest_name(name, known.iter().map(String::as_str)) {
        Some(near) => remark.with_hint(format!("did you mean `{near}`?")),
        None => remark.with_hint(existing_names("names", &known.iter().map(String::as_str).collect::<Vec<_>>())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::HintRow;
    use super::*;

    /// Hints for a search without results. The known data is a metric `cpu.idle` with the dimension `core`, and rows
    /// with the fields `status` and `user`.
    fn hint_texts(text: &str) -> Vec<String> {
        let filled = BTreeSet::new();
        let found = SearchOutcome {
            text,
            rows: 0,
            empty: &[],
            filled: &filled,
            zeros: &BTreeSet::new(),
            now: 0,
            offset_s: 0,
            has_range: false,
            is_watched: false,
            is_filtered: false,
        };
        let row = |name: &str, value: &str| HintRow::from([(name.to_owned(), value.to_owned())]);
        let mut ask = |search: &str| {
            Some(match search {
                METRICS_SEARCH => vec![row("name", "cpu.idle"), row("name", "")],
                DIMENSIONS_SEARCH => vec![row("name", "core")],
                search if search.ends_with("datamodel=\"M\".\"O\"") => vec![row("count", "5")],
                search if search.contains("fieldsummary") => vec![row("field", "status"), row("field", "user")],
                search => {
                    vec![row("count", if search.contains("user") && !search.starts_with('|') { "1" } else { "0" })]
                }
            })
        };
        let parsed = quarry_spl::parse(text);
        assert!(parsed.is_ok(), "{text}: {:?}", parsed.diagnostics);
        generator_notes(&found, &parsed.pipeline.commands, &mut ask)
            .iter()
            .map(|remark| remark.to_one_line(text))
            .collect()
    }

    #[test]
    fn unknown_names_in_generating_commands_are_reported() {
        for (text, want) in [
            ("| mstats avg(cpu.idl) by core", "there is no metric `cpu.idl` (character 14); did you mean `cpu.idle`?"),
            (
                "| mstats avg(cpu.idle) by cores",
                "no metric has a dimension `cores` (character 27); did you mean `core`?",
            ),
            (
                "| mcatalog values(metric_nam)",
                "no metric has a dimension `metric_nam` (character 19); did you mean `metric_name`?",
            ),
            (
                "| tstats count by hots",
                "no event has an index-time field `hots`, and tstats reads only index-time fields (character 19); did you mean `host`?",
            ),
            (
                "| tstats count where user=eva",
                "no event has an index-time field `user`, and tstats reads only index-time fields (character 22); searches extract it from the text of events: write `user=eva | stats count`",
            ),
            (
                "| tstats avg(user) AS a where index=web (host=by OR x) by _time span=1h, host",
                "no event has an index-time field `user`, and tstats reads only index-time fields (character 14); searches extract it from the text of events: write `index=web (host=by OR x) | bin _time span=1h | stats avg(user) AS a BY _time host`",
            ),
            (
                "| from datamodel:M.Q | stats count",
                "no event of the time range belongs to M.Q (character 18); `| datamodel M` shows the conditions of its objects, such as tags (from eventtypes.conf and tags.conf)",
            ),
            (
                "| from datamodel:M.O | stats count by statu",
                "no row that was looked at has a field `statu` (character 39); did you mean `status`?",
            ),
            (
                "| inputlookup users | search usr=eva",
                "no row that was looked at has a field `usr` (character 30); did you mean `user`?",
            ),
        ] {
            assert_eq!(hint_texts(text), [want], "{text}");
        }
        for text in
            ["| mstats avg(cpu.idle) by core", "| tstats count by host", "| from datamodel:M.O | stats count by user"]
        {
            assert!(hint_texts(text).is_empty(), "{text}: {:?}", hint_texts(text));
        }
    }
}
