//! The events around an event: those of the same host and source just before and after it.
//!
//! Times alone place an event, so all events with exactly its time are returned together, in the order of their source.
//! Later events are the oldest ones after it, which a search finds last; the range searched is therefore widened step by
//! step, until it has enough of them.
//!
//! Not here: finding the event (a search), showing them.

use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_engine::SearchShape;
use quarry_event::time::NS_PER_SEC;
use quarry_event::{TimeNs, TimeRange};
use quarry_spl::ast::{Command, NodeBuilder, ReverseCommand, Span, TailCommand};
use quarry_spl::macros::{self, Macro, MacroSource, MacroValue};
use quarry_stdx::Fault;

use crate::service::{SearchError, SearchParams, SearchService};
use crate::table::ResultTable;

/// Maximum events on each side.
pub const EVENTS_MAX: usize = 1_000;
/// Seconds after the event that are searched, one step after the other; then everything.
const STEPS_S: [i64; 3] = [60, 3_600, 86_400];
/// Maximum events with exactly the same time that are returned.
const SAME_TIME_MAX: usize = 1_000;

/// An event, and how much of its surroundings is wanted.
#[derive(Clone, Debug)]
pub struct Surrounded {
    /// Its time.
    pub time: TimeNs,
    /// Its fields that its surroundings have too, such as host and source, with their values.
    pub alike: Vec<(String, String)>,
    /// A further search condition.
    pub condition: Option<String>,
    /// Events before it, at most [`EVENTS_MAX`].
    pub before: usize,
    /// Events after it, at most [`EVENTS_MAX`].
    pub after: usize,
}

/// Events around an event, each list oldest first.
#[derive(Debug)]
pub struct Surroundings {
    /// Those before it.
    pub before: ResultTable,
    /// Those with its time, itself among them.
    pub same_time: ResultTable,
    /// Those after it.
    pub after: ResultTable,
}

/// Reads the events around one.
pub fn surroundings(
    service: &SearchService,
    permissions: &Arc<Permissions>,
    zone: &TimeZone,
    wanted: &Surrounded,
) -> Result<Surroundings, SearchError> {
    let search = search_of(wanted.condition.as_deref())?;
    let make = NodeBuilder::at(Span::default());
    let run = |then: Vec<Command>, earliest: Option<TimeNs>, latest: Option<TimeNs>| {
        let params = SearchParams {
            text: search.clone(),
            zone: Some(zone.clone()),
            permissions: Arc::clone(permissions),
            range: Some(TimeRange { earliest, latest }),
            is_internal: true,
            shape: SearchShape { same_fields: wanted.alike.clone(), then, ..SearchShape::default() },
            ..SearchParams::default()
        };
        service.run(params).map(|outcome| outcome.table)
    };
    let end = wanted.time.saturating_add(1);
    let (before, after) = (wanted.before.min(EVENTS_MAX), wanted.after.min(EVENTS_MAX));
    let newest = |count: usize| vec![make.head(count), ReverseCommand.into()];
    let earlier = run(newest(before), None, Some(wanted.time))?;
    let same_time = run(newest(SAME_TIME_MAX), Some(wanted.time), Some(end))?;
    let later = |latest| run(vec![TailCommand { count: after }.into()], Some(end), latest);
    for seconds in STEPS_S {
        let found = later(Some(end.saturating_add(seconds * NS_PER_SEC)))?;
        if found.len() >= after {
            return Ok(Surroundings { before: earlier, same_time, after: found });
        }
    }
    Ok(Surroundings { before: earlier, same_time, after: later(None)? })
}

/// The search for events that meet the condition, which may use macros but contains no commands.
fn search_of(condition: Option<&str>) -> Result<String, SearchError> {
    let Some(condition) = condition.map(str::trim).filter(|condition| !condition.is_empty()) else {
        return Ok("search *".to_owned());
    };
    let without_macros = macros::expand(condition, &AnyMacro).text;
    quarry_spl::parse_condition(&without_macros).map_err(SearchError::Syntax)?;
    Ok(format!("search ({condition})"))
}

/// Expands every macro to a plain word, so that the text around macros can be checked without their definitions.
struct AnyMacro;

impl MacroSource for AnyMacro {
    fn find(&self, _: &str, arguments: usize) -> Option<Macro> {
        let arguments = (0..arguments).map(|number| format!("argument{number}")).collect();
        Some(Macro { arguments, definition: "macro".to_owned(), ..Macro::default() })
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn evaluate(&self, _: &str) -> Result<MacroValue, Fault> {
        Ok(MacroValue::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_cannot_go_on_with_commands() {
        assert_eq!(search_of(Some("x OR `m`")).unwrap(), "search (x OR `m`)");
        assert_eq!(search_of(None).unwrap(), "search *");
        for condition in
            ["x | delete", "x) | delete", "(x | delete", "x) | search (y", "`m` | delete", "`m`) | search (y"]
        {
            let error = search_of(Some(condition)).map_err(|error| error.to_string());
            assert!(error.is_err(), "{condition}: {error:?}");
        }
    }
}
