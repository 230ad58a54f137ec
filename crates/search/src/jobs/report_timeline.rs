//! The timeline of a report: the events that it read, by time.
//!
//! A report passes on no events that could be counted while it runs. When a client asks for its timeline, the part of
//! the search before the first reporting command is run again over the events that were stored when the job was
//! created, once for their bounds and once for their counts.
//!
//! Not here: timelines of searches that return events ([`super::job`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_engine::SearchShape;
use quarry_event::TimeNs;
use quarry_event::time::parse_time;
use quarry_spl::ast::Command;

use super::job::{JobState, SearchJob};
use super::timeline::{SPANS_MAX, Timeline};
use crate::service::{SearchError, SearchParams, SearchService};
use crate::table::Row;

/// Counts the events and finds their bounds.
const BOUNDS: &str = "stats count min(_time) AS first max(_time) AS last";

impl SearchJob {
    /// Whether the job has a timeline that is still to be read.
    pub fn lacks_timeline(&self) -> bool {
        let wanted = self.record.status_buckets > 0 && !self.is_events() && !self.is_real_time();
        wanted && self.state() == JobState::Done && self.timeline().spans().next().is_none()
    }

    /// Reads the timeline of a finished report with the permissions of a user. It is kept for later requests if that is
    /// the user of the job.
    pub fn read_timeline(
        &self,
        service: &SearchService,
        permissions: &Arc<Permissions>,
    ) -> Result<Timeline, SearchError> {
        let run = |commands: &str| {
            let params = self.source_events_search(Arc::clone(permissions), 2 * SPANS_MAX);
            let shape = SearchShape { trailing_commands: commands_of(commands), ..params.shape.clone() };
            service.run(SearchParams { shape, is_internal: true, ..params })
        };
        let found = run(BOUNDS)?;
        let bounds = found.table.rows().find_map(|row| Some((time(&row, "first")?, time(&row, "last")?)));
        let Some(bounds) = bounds else { return Ok(self.timeline()) };
        let timeline = Timeline::from_counts(self.record.status_buckets.min(SPANS_MAX), bounds, |seconds| {
            let counted = run(&format!("eval first=floor(_time/{seconds})*{seconds} | stats count BY first"))?;
            let pair = |row: Row<'_>| Some((number(&row, "first")?, u64::try_from(number(&row, "count")?).ok()?));
            Ok::<BTreeMap<i64, u64>, SearchError>(counted.table.rows().filter_map(pair).collect())
        })?;
        if permissions.user == self.user() {
            self.lock().timeline = timeline.clone();
        }
        Ok(timeline)
    }
}

/// The commands of a text that this file has written.
fn commands_of(text: &str) -> Vec<Command> {
    let stages = quarry_spl::parse(&format!("* | {text}")).pipeline.commands;
    stages.into_iter().skip(1).map(|stage| stage.command).collect()
}

fn time(row: &Row<'_>, name: &str) -> Option<TimeNs> {
    parse_time(&row.cell_by_name(name).join_values(" "), 0, &TimeZone::UTC).ok()
}

fn number(row: &Row<'_>, name: &str) -> Option<i64> {
    row.cell_by_name(name).join_values(" ").parse().ok()
}
