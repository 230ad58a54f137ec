//! Schedules of saved searches as answers show them: the next scheduled time, and the scheduled times in a requested
//! range. Not here: running searches on a schedule, which the node does not do yet.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_apps::objects::ConfObject;
use quarry_event::TimeNs;
use quarry_event::time::{Cron, NS_PER_SEC, parse_time, strftime};

use super::run_blocking;
use crate::ApiState;
use crate::atom::Entry;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameter_types::parse_flag;
use crate::parameters::Parameters;

/// Parameters with the requested range.
pub(super) const RANGE: [&str; 2] = ["earliest_time", "latest_time"];
/// The member with the next scheduled time.
pub(super) const NEXT_TIME: &str = "next_scheduled_time";
/// The member with the scheduled times.
const SCHEDULED_TIMES: &str = "scheduled_times";
/// Maximum number of scheduled times of a search in an answer; later ones are omitted.
const TIMES_MAX: usize = 1_000;

/// The time zone of the caller's searches.
pub(super) async fn zone_of(state: &ApiState, caller: &Caller) -> Result<TimeZone, ApiError> {
    if let Some(service) = state.node.cached_search_service_of(&caller.permissions) {
        return Ok(service.zone());
    }
    let (node, viewer) = (state.node.clone(), Arc::clone(&caller.permissions));
    Ok(run_blocking(move || node.search_service_of(&viewer)).await??.zone())
}

/// The times that a request asks for.
#[derive(Clone, Debug)]
pub(super) struct RequestedTimes {
    now: TimeNs,
    zone: TimeZone,
    /// The requested range; `None` if the request lacks a bound.
    range: Option<(TimeNs, TimeNs)>,
}

impl RequestedTimes {
    pub(super) fn of(now: TimeNs, zone: TimeZone, parameters: &Parameters) -> Result<RequestedTimes, ApiError> {
        let bound = |name: &str| -> Result<Option<TimeNs>, ApiError> {
            let Some(text) = parameters.get(name).map(str::trim).filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            // As the tests of Splunk's SDK for C# expect, 0 is the present.
            let asked = if text == "0" { "now" } else { text };
            let time = parse_time(asked, now, &zone);
            time.map(Some).map_err(|reason| ApiError::bad_request(format!("{name}={text}: {reason}")))
        };
        let range = bound(RANGE[0])?.zip(bound(RANGE[1])?);
        Ok(RequestedTimes { now, zone, range })
    }

    /// The next scheduled time of a search, in Splunk's notation; `None` for a search without a schedule.
    pub(super) fn next_time(&self, object: &ConfObject) -> Option<String> {
        let next = schedule_of(object)?.next_after(self.now, &self.zone)?;
        Some(strftime(next, "%Y-%m-%d %H:%M:%S %Z", &self.zone))
    }

    /// The scheduled times of a search in the requested range, in seconds since 1970; `None` without a range.
    pub(super) fn scheduled_times(&self, object: &ConfObject) -> Option<Vec<i64>> {
        let (earliest, latest) = self.range?;
        let Some(schedule) = schedule_of(object) else { return Some(Vec::new()) };
        let after = |at: TimeNs| schedule.next_after(at, &self.zone).filter(|next| *next < latest);
        let times = std::iter::successors(after(earliest.saturating_sub(1)), |at| after(*at));
        Some(times.take(TIMES_MAX).map(|time| time.div_euclid(NS_PER_SEC)).collect())
    }

    /// Adds the next scheduled time, and the scheduled times in the requested range, if any, to the entries of saved
    /// searches, which have the paths of the entries as keys.
    pub(super) fn add_to(&self, entries: &mut [Entry], searches: &HashMap<String, &ConfObject>) {
        for entry in entries {
            let Some(search) = searches.get(&entry.path) else { continue };
            entry.content.insert(NEXT_TIME.to_owned(), self.next_time(search).unwrap_or_default().into());
            if let Some(times) = self.scheduled_times(search) {
                entry.content.insert(SCHEDULED_TIMES.to_owned(), times.into());
            }
        }
    }
}

/// The schedule of a saved search; `None` if the search is disabled or not scheduled.
pub(super) fn schedule_of(object: &ConfObject) -> Option<Cron> {
    let is_on = |name: &&str| object.get(name).and_then(parse_flag) == Some(true);
    let is_scheduled = ["is_scheduled", "enableSched"].iter().any(is_on) && !object.is_disabled();
    object.get("cron_schedule").filter(|_| is_scheduled).and_then(Cron::parse)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quarry_apps::objects::{ObjectLocation, ObjectSharing};

    use super::*;

    fn search(settings: &[(&str, &str)]) -> ConfObject {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ConfObject {
            conf: "savedsearches".to_owned(),
            name: "hourly".to_owned(),
            location: ObjectLocation::System,
            settings: settings.collect::<BTreeMap<_, _>>(),
            owner: "eva".to_owned(),
            sharing: ObjectSharing::System,
            readers: Vec::new(),
            writers: Vec::new(),
            can_write: true,
            is_local: true,
        }
    }

    #[test]
    fn times_follow_the_schedule_of_an_enabled_search() {
        let hour = 3_600 * NS_PER_SEC;
        let asked = RequestedTimes { now: 90 * 60 * NS_PER_SEC, zone: TimeZone::UTC, range: Some((hour, 3 * hour)) };
        let hourly = [("is_scheduled", "1"), ("cron_schedule", "0 * * * *")];
        assert_eq!(asked.next_time(&search(&hourly)).as_deref(), Some("1970-01-01 02:00:00 UTC"));
        assert_eq!(asked.scheduled_times(&search(&hourly)), Some(vec![3_600, 7_200]));
        let off = |key, value| search(&[&hourly[..], &[(key, value)]].concat());
        for idle in [off("disabled", "1"), off("is_scheduled", "0"), off("cron_schedule", "")] {
            assert_eq!((asked.next_time(&idle), asked.scheduled_times(&idle)), (None, Some(Vec::new())));
        }
        assert_eq!(RequestedTimes { range: None, ..asked }.scheduled_times(&search(&hourly)), None);
    }
}
