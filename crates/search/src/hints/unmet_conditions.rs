//! Hints for a search that finds nothing because no event meets all of its conditions. A hint names the condition that
//! no event meets, or, if each condition is met by some event, the condition without which the search finds events. If
//! the first command finds events, the hint names the command that removes them all.

use quarry_spl::analyse::{find_command_in_words, is_transforming, required_conditions, subsearches_of};
use quarry_spl::ast::{Command, Span, Stage};
use quarry_spl::{Diagnostic, excerpt};

use super::outcome::SearchOutcome;
use super::probe::{DynProbes, finds_event};

/// Maximum number of conditions, or of commands, that are tried one by one.
const TRIES_MAX: usize = 6;
/// Fields whose values `metadata` lists.
const LISTED_FIELDS: [&str; 3] = ["sourcetype", "source", "host"];

/// A hint about the conditions that no event meets together; `scope` is a condition on the indexes.
pub(super) fn unmet_conditions_note(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    scope: &str,
    ask: DynProbes<'_>,
) -> Option<Diagnostic> {
    let mut has_events = |search: &str| finds_event(search, ask);
    let stage = commands.first()?.span;
    if has_events(found.text.get(stage.start..stage.end)?)? {
        return emptying_command_note(found.text, commands, &mut has_events);
    }
    if let Some(remark) = empty_subsearch_note(found.text, commands, &mut has_events) {
        return Some(remark);
    }
    let (places, are_all) = required_conditions(commands);
    let (first, last) = (*places.first()?, *places.last()?);
    let conditions: Option<Vec<&str>> = places.iter().map(|place| found.text.get(place.start..place.end)).collect();
    let conditions = conditions.filter(|conditions| (1..=TRIES_MAX).contains(&conditions.len()))?;
    for (condition, place) in conditions.iter().zip(&places) {
        if !has_events(&format!("{scope} ({condition})"))? {
            return Some(unmet_condition_note(condition, *place));
        }
    }
    let together = excerpt(&conditions.join(" "));
    if !are_all && has_events(&format!("{scope} ({})", conditions.join(" ")))? {
        let remark = format!("no event that meets `{together}` meets the other conditions");
        return Some(Diagnostic::warning(remark, stage));
    }
    if conditions.len() == 1 {
        return None;
    }
    let whole = Span { start: first.start, end: last.end };
    let remark = Diagnostic::warning("events meet each of these conditions, but none meets all of them", whole);
    if let Some(command) = find_command_in_words(found.text, commands) {
        return Some(remark.with_hint(command.hint.unwrap_or_default()));
    }
    for (at, condition) in conditions.iter().enumerate().rev() {
        let others: Vec<&str> = (0..conditions.len()).filter(|other| *other != at).map(|at| conditions[at]).collect();
        let others = others.join(" ");
        if conditions.len() > 2 && has_events(&format!("{scope} ({others})"))? {
            return Some(remark.with_hint(format!("without `{}` there are events", excerpt(condition))));
        }
    }
    // If one of the conditions is on an index, sourcetype, source or host, joining the conditions by OR would add
    // unrelated events.
    let is_scoped =
        conditions.iter().any(|condition| compares_field(condition, "index") || listed_field(condition).is_some());
    Some(match are_all && !is_scoped {
        true => remark.with_hint(format!("write OR for events that meet one of them: {}", conditions.join(" OR "))),
        false => remark,
    })
}

/// A hint about a condition that no event meets.
fn unmet_condition_note(condition: &str, place: Span) -> Diagnostic {
    let remark = Diagnostic::warning(format!("no event meets `{}`", excerpt(condition)), place);
    match listed_field(condition) {
        Some(field) => remark.with_hint(format!("`| metadata type={field}s` lists the existing ones")),
        None => remark,
    }
}

fn compares_field(condition: &str, field: &str) -> bool {
    condition.strip_prefix(field).is_some_and(|rest| rest.trim_start().starts_with(['=', ':']))
}

/// The field with listed values that a condition compares.
fn listed_field(condition: &str) -> Option<&'static str> {
    LISTED_FIELDS.into_iter().find(|field| compares_field(condition, field))
}

/// A hint about the first command that keeps none of the rows before it.
fn emptying_command_note(
    text: &str,
    commands: &[Stage],
    has_rows: &mut dyn FnMut(&str) -> Option<bool>,
) -> Option<Diagnostic> {
    let selects = |stage: &&Stage| matches!(stage.command, Command::Search(_) | Command::Where(_) | Command::Regex(_));
    let is_report = |stage: &Stage| is_transforming(std::slice::from_ref(stage));
    let report = commands.iter().skip(1).position(is_report).map_or(commands.len(), |at| at + 1);
    for stage in commands[1..report].iter().filter(selects).take(TRIES_MAX) {
        if !has_rows(text.get(..stage.span.end)?)? {
            let command = excerpt(text.get(stage.span.start..stage.span.end)?);
            return Some(Diagnostic::warning(format!("`{command}` keeps none of the events before it"), stage.span));
        }
    }
    // Testing a condition after a report runs the report again over all events, so only the first such condition is
    // tried.
    let stage = commands[report..].iter().find(selects)?;
    let before = text.get(..stage.span.start)?.trim_end().strip_suffix('|')?;
    if !has_rows(before)? || has_rows(text.get(..stage.span.end)?)? {
        return None;
    }
    let command = text.get(stage.span.start..stage.span.end)?;
    let remark = format!("`{}` keeps none of the rows before it", excerpt(command));
    let remark = Diagnostic::warning(remark, stage.span);
    let columns = written_columns(text, &commands[report]);
    let is_unquoted = |name: &&str| command.contains(*name) && !command.contains(&format!("'{name}'"));
    Some(match columns.into_iter().find(is_unquoted) {
        Some(name) => remark.with_hint(format!("for the column `{name}`, write '{name}' in single quotes")),
        None => remark,
    })
}

/// Function calls in a `stats` command, such as `count(x)`, whose text is also the name of their column.
fn written_columns<'t>(text: &'t str, report: &Stage) -> Vec<&'t str> {
    let Command::Stats(stats) = &report.command else { return Vec::new() };
    let written = |span: Span| text.get(span.start..span.end).filter(|name| name.contains('('));
    stats.aggregates.iter().filter_map(|aggregate| written(aggregate.span)).collect()
}

/// A hint about a subsearch that is used as a condition and finds nothing.
fn empty_subsearch_note(
    text: &str,
    commands: &[Stage],
    has_rows: &mut dyn FnMut(&str) -> Option<bool>,
) -> Option<Diagnostic> {
    subsearches_of(commands).into_iter().find_map(|subsearch| {
        let inner = text.get(subsearch.span.start..subsearch.span.end)?;
        let inner = inner.trim().trim_start_matches('[').trim_end_matches(']');
        let remark = || Diagnostic::warning("this subsearch finds nothing, so no event can match it", subsearch.span);
        (!has_rows(inner)?).then(remark)
    })
}
