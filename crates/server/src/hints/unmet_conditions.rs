//! Hints for a search that finds nothing because no event meets all of its conditions: the condition that none meets; where
//! each is met by some event, the one to leave out; or the command that keeps none of the events that the search selects.

use quarry_spl::analyse::{asked_conditions, command_among_words, is_transforming};
use quarry_spl::ast::{Command, Span, Stage};
use quarry_spl::{Diagnostic, excerpt};

use super::{Ask, SearchOutcome};

/// Maximum conditions, or commands, that are tried one by one.
const TRIES_MAX: usize = 6;
/// Fields of which `metadata` lists the values.
const LISTED: [&str; 3] = ["sourcetype", "source", "host"];

/// A note on the conditions that leave nothing; `scope` is a condition on the indexes.
pub(super) fn remark(found: &SearchOutcome<'_>, commands: &[Stage], scope: &str, ask: Ask<'_>) -> Option<Diagnostic> {
    let mut has_events = |search: &str| ask(&format!("{search} | head 1 | table _time")).map(|rows| !rows.is_empty());
    let stage = commands.first()?.span;
    if has_events(found.text.get(stage.start..stage.end)?)? {
        return emptied(found.text, commands, &mut has_events);
    }
    let (places, are_all) = asked_conditions(commands);
    let (first, last) = (*places.first()?, *places.last()?);
    let conditions: Option<Vec<&str>> = places.iter().map(|place| found.text.get(place.start..place.end)).collect();
    let conditions = conditions.filter(|conditions| (1..=TRIES_MAX).contains(&conditions.len()))?;
    for (condition, place) in conditions.iter().zip(&places) {
        if !has_events(&format!("{scope} ({condition})"))? {
            return Some(unmet(condition, *place));
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
    if let Some(command) = command_among_words(found.text, commands) {
        return Some(remark.with_hint(command.hint.unwrap_or_default()));
    }
    for (at, condition) in conditions.iter().enumerate().rev() {
        let others: Vec<&str> = (0..conditions.len()).filter(|other| *other != at).map(|at| conditions[at]).collect();
        let others = others.join(" ");
        if conditions.len() > 2 && has_events(&format!("{scope} ({others})"))? {
            return Some(remark.with_hint(format!("without `{}` there are events", excerpt(condition))));
        }
    }
    Some(match are_all {
        true => remark.with_hint(format!("write OR for events that meet one of them: {}", conditions.join(" OR "))),
        false => remark,
    })
}

/// A note on a condition that no event meets.
fn unmet(condition: &str, place: Span) -> Diagnostic {
    let remark = Diagnostic::warning(format!("no event meets `{}`", excerpt(condition)), place);
    let is_of =
        |field: &str| condition.strip_prefix(field).is_some_and(|rest| rest.trim_start().starts_with(['=', ':']));
    match LISTED.into_iter().find(|field| is_of(field)) {
        Some(field) => remark.with_hint(format!("`| metadata type={field}s` lists those that there are")),
        None => remark,
    }
}

/// A note on the first command that keeps none of the events before it.
fn emptied(text: &str, commands: &[Stage], has_events: &mut dyn FnMut(&str) -> Option<bool>) -> Option<Diagnostic> {
    let selects = |stage: &&Stage| matches!(stage.command, Command::Search(_) | Command::Where(_) | Command::Regex(_));
    let events = commands.iter().skip(1).take_while(|stage| !is_transforming(std::slice::from_ref(*stage)));
    for stage in events.filter(selects).take(TRIES_MAX) {
        let before = text.get(..stage.span.end)?;
        if !has_events(before)? {
            let command = excerpt(text.get(stage.span.start..stage.span.end)?);
            return Some(Diagnostic::warning(format!("`{command}` keeps none of the events before it"), stage.span));
        }
    }
    None
}
