//! The timeline of a report: the number of events that the report read, by time.
//!
//! While a report runs, it passes on no events that could be counted. When a client requests the timeline, the part of
//! the search before the first reporting command is run again over the events that were stored when the job was
//! created: once for the times of the first and last event, and once for the counts.
//!
//! Not here: timelines of searches that return events ([`super::job`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_engine::SearchShape;
use quarry_event::TimeNs;
use quarry_event::time::parse_time;
use quarry_spl::ast::{BinaryOp, Command, NodeBuilder, Span, StatsFunction};

use super::job::{JobState, SearchJob};
use super::timeline::{SPANS_MAX, Timeline};
use crate::error::SearchError;
use crate::service::{SearchParams, SearchService};
use crate::table::Row;

/// Column with the start of a span, or the time of the first event.
const FIRST: &str = "first";
/// Column with the time of the last event.
const LAST: &str = "last";
/// Column with the number of events.
const COUNT: &str = "count";
/// Field with the time of an event.
const TIME: &str = "_time";

impl SearchJob {
    /// Whether the caller should now read the timeline of the job. While the report runs, this is true only once,
    /// because clients ask repeatedly for the timeline of a running job.
    pub fn begins_timeline(&self) -> bool {
        let wanted = self.record.status_buckets > 0 && !self.is_events() && !self.is_real_time();
        let mut changing = self.lock();
        if !wanted || changing.timeline.spans().next().is_some() {
            return false;
        }
        match changing.state {
            JobState::Done => true,
            JobState::Running | JobState::Finalizing => !std::mem::replace(&mut changing.is_timeline_begun, true),
            JobState::Queued | JobState::Paused | JobState::Failed => false,
        }
    }

    /// Reads the timeline of a report with the permissions of a user. If the job belongs to this user, the timeline is
    /// kept for later requests.
    pub fn read_timeline(
        &self,
        service: &SearchService,
        permissions: &Arc<Permissions>,
    ) -> Result<Timeline, SearchError> {
        let run = |trailing_commands: Vec<Command>| {
            let params = self.source_events_search(Arc::clone(permissions), 2 * SPANS_MAX);
            let shape = SearchShape { trailing_commands, ..params.shape.clone() };
            service.run(SearchParams { shape, ..params })
        };
        let found = run(bounds_commands())?;
        let bounds = found.table.rows().find_map(|row| Some((time(&row, FIRST)?, time(&row, LAST)?)));
        let Some(bounds) = bounds else { return Ok(self.timeline()) };
        let timeline = Timeline::from_counts(self.record.status_buckets.min(SPANS_MAX), bounds, |seconds| {
            let counted = run(count_commands(seconds))?;
            let pair = |row: Row<'_>| Some((number(&row, FIRST)?, u64::try_from(number(&row, COUNT)?).ok()?));
            Ok::<BTreeMap<i64, u64>, SearchError>(counted.table.rows().filter_map(pair).collect())
        })?;
        if permissions.user == self.user() {
            self.lock().timeline = timeline.clone();
        }
        Ok(timeline)
    }
}

/// Commands that find the times of the first and last event.
fn bounds_commands() -> Vec<Command> {
    let make = NodeBuilder::at(Span::default());
    let bounds = [(StatsFunction::Min, FIRST), (StatsFunction::Max, LAST)];
    let bounds = bounds.map(|(function, name)| make.aggregate(function, TIME, name));
    vec![make.stats(bounds.into(), &[]).into()]
}

/// Commands that count the events in spans of this width.
fn count_commands(seconds: i64) -> Vec<Command> {
    let make = NodeBuilder::at(Span::default());
    let width = || make.integer(usize::try_from(seconds).unwrap_or(1));
    let span = make.binary(BinaryOp::Div, make.field(TIME), width());
    let start = make.binary(BinaryOp::Mul, make.call("floor", [span]), width());
    vec![make.eval(FIRST, start), make.stats(vec![make.count(COUNT)], &[FIRST]).into()]
}

fn time(row: &Row<'_>, name: &str) -> Option<TimeNs> {
    parse_time(&row.cell_by_name(name).join_values(" "), 0, &TimeZone::UTC).ok()
}

fn number(row: &Row<'_>, name: &str) -> Option<i64> {
    row.cell_by_name(name).join_values(" ").parse().ok()
}
