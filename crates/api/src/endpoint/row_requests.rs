//! Parameters of a job's rows: a time range, further commands, an order, and the format of events.
//!
//! `earliest_time` and `latest_time` keep the rows whose `_time` is in this range, `sort_key` with `sort_dir` sorts all
//! rows before the page is chosen, `output_time_format` (or else `time_format`) formats `_time`, and `max_lines`
//! shortens `_raw` (with both values of `truncation_mode`, the first lines are shown). Source: Splunk's REST API
//! reference, `search/jobs/SID/events`.
//!
//! Not here: pages and their output ([`super::job_results`]).

use jiff::tz::TimeZone;
use quarry_event::time::{NS_PER_SEC, parse_time};
use quarry_event::{TimeNs, TimeRange};
use quarry_search::EventFormat;

use super::request_times::in_format;
use crate::message::{ApiError, TypedSearch};
use crate::parameters::Parameters;

/// The requested time range, if any.
pub(super) fn requested_range(
    parameters: &Parameters,
    now: TimeNs,
    zone: &TimeZone,
) -> Result<Option<TimeRange>, ApiError> {
    let bound = |name: &str| {
        let text = parameters.get(name).filter(|text| !text.trim().is_empty());
        let text = text.map(|text| in_format(text.to_owned(), parameters.get("time_format"), zone));
        let time = text.map(|text| parse_time(&text, now, zone)).transpose();
        time.map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
    };
    let range = TimeRange { earliest: bound("earliest_time")?, latest: bound("latest_time")? };
    Ok((range != TimeRange::ALL).then_some(range))
}

/// Parameters with the format of times in an answer; the first overrules the second, which is also the format of the
/// bounds of the range.
pub(super) const TIME_FORMATS: &[&str] = &["output_time_format", "time_format"];

/// The requested format of times.
pub(super) fn time_format(parameters: &Parameters) -> Option<&str> {
    TIME_FORMATS.iter().find_map(|name| parameters.get(name).filter(|format| !format.is_empty()))
}

/// The requested format of events.
pub(super) fn event_format(parameters: &Parameters) -> Result<EventFormat, ApiError> {
    let time = time_format(parameters).map(str::to_owned);
    Ok(EventFormat { time, lines_max: parameters.number("max_lines")?.unwrap_or(0) })
}

/// Whether an order is requested.
pub(super) fn is_sorted(parameters: &Parameters) -> bool {
    parameters.get("sort_key").is_some_and(|key| !key.trim().is_empty())
}

/// Commands to be run on all rows of the job before the page is chosen, including the commands of `search`; `None`
/// if neither `search` nor an order is given, because a time range alone requires no command.
pub(super) fn further_commands(
    parameters: &Parameters,
    search: Option<TypedSearch>,
    range: Option<TimeRange>,
) -> Result<Option<TypedSearch>, ApiError> {
    if search.is_none() && !is_sorted(parameters) {
        return Ok(None);
    }
    let (mut text, mut prefix) = (range.map_or_else(String::new, condition), 0);
    if let Some(typed) = search {
        // The pipe before the first command is added if the client has omitted it.
        let joint = if text.is_empty() || typed.text.trim_start().starts_with('|') { "" } else { "|" };
        text.push_str(joint);
        prefix = text.len() + typed.prefix;
        text.push_str(&typed.text);
    }
    if is_sorted(parameters) {
        let key = parameters.get("sort_key").unwrap_or_default().trim();
        if key.contains(['"', '\\']) {
            return Err(ApiError::bad_request(format!("sort_key={key}: give the name of a field, without quotes")));
        }
        let sign = if parameters.get("sort_dir") == Some("desc") { '-' } else { '+' };
        text.push_str(&format!("|sort 0 {sign}\"{key}\""));
    }
    Ok(Some(TypedSearch { text, prefix }))
}

/// The command that keeps the rows of a time range.
fn condition(range: TimeRange) -> String {
    let seconds = |time: TimeNs| format!("({}+0.{:09})", time.div_euclid(NS_PER_SEC), time.rem_euclid(NS_PER_SEC));
    let bounds = [range.earliest.map(|time| (">=", time)), range.latest.map(|time| ("<", time))];
    let bounds = bounds.into_iter().flatten().map(|(sign, time)| format!("_time{sign}{}", seconds(time)));
    format!("|where {} ", bounds.collect::<Vec<_>>().join(" AND "))
}
