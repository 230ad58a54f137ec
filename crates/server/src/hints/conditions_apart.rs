//! Hints for a search that finds nothing because no event meets all of its conditions: which of them none meets, or, where
//! each is met by some event, which one to leave out.

use quarry_spl::analyse::{asked_conditions, command_among_words};
use quarry_spl::ast::{Span, Stage};
use quarry_spl::{Diagnostic, excerpt};

use super::{Ask, SearchOutcome};

/// Maximum conditions that are tried one by one.
const CONDITIONS_MAX: usize = 6;

/// Fields of which `metadata` lists the values.
const LISTED: [&str; 3] = ["sourcetype", "source", "host"];

/// A note on conditions of which each has events but not all together; `scope` is a condition on the indexes.
pub(super) fn remark(found: &SearchOutcome<'_>, commands: &[Stage], scope: &str, ask: Ask<'_>) -> Option<Diagnostic> {
    let places = asked_conditions(commands);
    let (first, last) = (*places.first()?, *places.last()?);
    let stage = commands.first()?.span;
    let conditions: Option<Vec<&str>> = places.iter().map(|place| found.text.get(place.start..place.end)).collect();
    let conditions = conditions.filter(|conditions| (1..=CONDITIONS_MAX).contains(&conditions.len()))?;
    let mut has_events = |search: &str| ask(&format!("{search} | head 1 | table _time")).map(|rows| !rows.is_empty());
    // Later commands may have removed what the search finds.
    if has_events(found.text.get(stage.start..stage.end)?)? {
        return None;
    }
    for (condition, place) in conditions.iter().zip(&places) {
        if !has_events(&format!("{scope} ({condition})"))? {
            let remark = Diagnostic::warning(format!("no event meets `{}`", excerpt(condition)), *place);
            let listed = LISTED.iter().find(|field| {
                condition.strip_prefix(**field).is_some_and(|rest| rest.trim_start().starts_with(['=', ':']))
            });
            return Some(match listed {
                Some(field) => remark.with_hint(format!("`| metadata type={field}s` lists those that there are")),
                None => remark,
            });
        }
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
    Some(remark.with_hint(format!("write OR for events that meet one of them: {}", conditions.join(" OR "))))
}
