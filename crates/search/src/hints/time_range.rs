//! A hint for a search whose time range contains no events, or no events that the search selects.

use jiff::tz::{Offset, TimeZone};
use quarry_event::time::parse_time;
use quarry_spl::Diagnostic;
use quarry_spl::ast::{Command, Stage, TimeText};

use super::outcome::{NO_SPAN, SearchOutcome};
use super::probe::{DynProbes, finds_event, newest_value, quote};

/// A time after every event.
const LATEST_ALL: u32 = u32::MAX;
/// Format of times in hints.
const TIME_FORMAT: &str = "%F %T %:z";

/// Reports the time range of the existing events if the search's time range contains no events, or the newest selected
/// event if all selected events are outside the range.
pub(super) fn outside_range_notes(
    found: &SearchOutcome<'_>,
    commands: &[Stage],
    scope: &str,
    ask: DynProbes<'_>,
) -> Option<Diagnostic> {
    let stage = commands.first()?;
    let Command::Search(search) = &stage.command else { return None };
    let (earliest, latest) = (&search.time.earliest, &search.time.latest);
    if found.rows > 0 || (earliest.is_none() && latest.is_none() && !found.has_range) {
        return None;
    }
    let option = |name: &str, time: &Option<TimeText>| {
        time.as_ref().map_or_else(String::new, |time| format!(" {name}={}", quote(&time.text)))
    };
    let range = format!("{}{}", option("earliest", earliest), option("latest", latest));
    // The hint points at a single time modifier, because unrelated words may stand between two modifiers. Modifiers on
    // the command line have no position in the search.
    let end = earliest.as_ref().or(latest.as_ref());
    let where_from = if end.is_some() { "earliest= or latest=" } else { "--earliest or --latest" };
    let place = end.map_or(NO_SPAN, |time| time.span);
    if let (Some(earliest), Some(latest)) = (earliest, latest)
        && is_after(&earliest.text, &latest.text, found)
    {
        let remark = format!("earliest={} is after latest={}: no event lies between them", earliest.text, latest.text);
        return Some(Diagnostic::warning(remark, place).with_hint("swap them"));
    }
    let inside = ask.rows(&format!("| tstats count WHERE {scope}{range}"))?;
    if inside.first()?.get("count")? != "0" {
        let selects = found.text.get(stage.span.start..stage.span.end)?;
        // If the first command finds events in the range, later commands removed them.
        if finds_event(selects, ask)? {
            return None;
        }
        let newest = newest_value(&format!("{selects} earliest=1 latest=\"{LATEST_ALL}\""), "_time", ask)?
            .filter(|time| !time.is_empty())?;
        let remark = Diagnostic::warning("no event that the search selects lies in its time range", place);
        return Some(remark.with_hint(format!("the newest event outside it is from {newest}: change {where_from}")));
    }
    // Events before 1970 are not covered, because `earliest` cannot express such times.
    let all = ask.rows(&format!(
        "| tstats count min(_time) AS first max(_time) AS last WHERE {scope} earliest=1 latest=\"{LATEST_ALL}\" \
         | eval first=strftime(first, \"{TIME_FORMAT}\"), last=strftime(last, \"{TIME_FORMAT}\")"
    ))?;
    let (count, first, last) = (all.first()?.get("count")?, all.first()?.get("first")?, all.first()?.get("last")?);
    let remark = Diagnostic::warning("no event lies in the time range of the search", place);
    (count != "0").then(|| remark.with_hint(format!("events go from {first} to {last}: change {where_from}")))
}

/// Whether a time modifier is after another one, if both are valid.
fn is_after(one: &str, other: &str, found: &SearchOutcome<'_>) -> bool {
    let zone = TimeZone::fixed(Offset::from_seconds(found.offset_s).unwrap_or(Offset::UTC));
    let time = |text: &str| parse_time(text, found.now, &zone).ok();
    matches!((time(one), time(other)), (Some(one), Some(other)) if one > other)
}
