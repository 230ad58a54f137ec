//! Finds the events around an event: events of the same host and source just before and after it.
//!
//! Events are located by time only, so all events with exactly the same time are returned together, in the order of
//! their source. The wanted events after the given event are the oldest events of a time range, and a search finds the
//! oldest events last. The range is therefore short at first, and is widened until it contains enough events.
//!
//! Not here: finding the event itself (a search), and displaying events.

use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_engine::SearchShape;
use quarry_event::time::NS_PER_SEC;
use quarry_event::{TimeNs, TimeRange};
use quarry_spl::ast::{Command, NodeBuilder, ReverseCommand, Span, TailCommand};

use crate::error::SearchError;
use crate::service::{SearchParams, SearchService};
use crate::table::ResultTable;

/// Maximum number of events on each side; a larger number is reduced to it.
pub const EVENTS_MAX: usize = 1_000;
/// Lengths in seconds of the ranges after the event, searched one after the other; the last search has no upper limit.
const RANGE_LENGTHS_S: [i64; 3] = [60, 3_600, 86_400];
/// Maximum number of returned events with exactly the same time; further ones are omitted.
const SAME_TIME_MAX: usize = 1_000;
/// Condition that all events meet.
const EVERY_EVENT: &str = "*";

/// An event, and the number of events wanted around it.
#[derive(Clone, Debug)]
pub struct SurroundingsQuery {
    /// Time of the event.
    pub time: TimeNs,
    /// Fields with values, such as host and source, that the events around the event must have.
    pub alike: Vec<(String, String)>,
    /// A further search condition, which may use macros but contains no commands.
    pub condition: Option<String>,
    /// Number of events wanted before the event, at most [`EVENTS_MAX`].
    pub before: usize,
    /// Number of events wanted after the event, at most [`EVENTS_MAX`].
    pub after: usize,
}

/// Events around an event, each list oldest first.
#[derive(Debug)]
pub struct Surroundings {
    /// Events before the event.
    pub before: ResultTable,
    /// Events with the same time, including the event itself.
    pub same_time: ResultTable,
    /// Events after the event.
    pub after: ResultTable,
}

/// Reads the events around an event.
pub fn read_surroundings(
    service: &SearchService,
    permissions: &Arc<Permissions>,
    zone: &TimeZone,
    wanted: &SurroundingsQuery,
) -> Result<Surroundings, SearchError> {
    let condition = wanted.condition.as_deref().map(str::trim).filter(|condition| !condition.is_empty());
    let make = NodeBuilder::at(Span::default());
    let run = |then: Vec<Command>, earliest: Option<TimeNs>, latest: Option<TimeNs>| {
        let params = SearchParams {
            text: condition.unwrap_or(EVERY_EVENT).to_owned(),
            zone: Some(zone.clone()),
            permissions: Arc::clone(permissions),
            range: Some(TimeRange { earliest, latest }),
            is_internal: true,
            shape: SearchShape {
                is_condition: true,
                same_fields: wanted.alike.clone(),
                trailing_commands: then,
                ..SearchShape::default()
            },
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
    for seconds in RANGE_LENGTHS_S {
        let found = later(Some(end.saturating_add(seconds * NS_PER_SEC)))?;
        if found.len() >= after {
            return Ok(Surroundings { before: earlier, same_time, after: found });
        }
    }
    Ok(Surroundings { before: earlier, same_time, after: later(None)? })
}
