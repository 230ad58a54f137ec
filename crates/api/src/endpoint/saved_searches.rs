//! Actions of saved searches: `saved/searches/NAME/dispatch` starts a job, `history` lists the search's jobs,
//! `suppress` suppresses its alerts for some time, and `scheduled_times` lists its scheduled times.
//!
//! The settings `dispatch.*` control the job, and `args.NAME` replaces `$NAME$` in the search; both are taken from the
//! request or else from the saved search. Schedules and alerts do not run yet, so `reschedule` and `notify` are
//! refused with an explanation.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use quarry_apps::objects::{ConfObject, NOBODY};
use quarry_conf::permissions::SEARCH;
use quarry_engine::SearchShape;
use quarry_event::time::parse_time;
use quarry_search::SearchParams;
use quarry_search::jobs::{JobOptions, JobStatus, ROWS_MAX};
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, Content, SID};
use super::entities::{scope_of, with_objects};
use super::job_arguments::parse_sample_ratio;
use super::jobs::{APP, JOB, PRIORITY, entry, start_job};
use super::listing::{LIST_PARAMETERS, page_in_order};
use super::path_parts::PathParts;
use super::request_times::{arrival_range, in_format};
use super::row::{Access, Endpoint};
use super::run_blocking;
use super::search_jobs::{parse_now, service_of};
use super::search_schedules::{RANGE, RequestedTimes, zone_of};
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameter_types::parse_flag;
use crate::parameters::{Parameters, Settings};
use crate::suppressions::SavedSearchKey;

/// Path of the collection after the root.
const COLLECTION: &str = "saved/searches";
/// The conf of saved searches.
pub(super) const CONF: &str = "savedsearches";
/// The sampling ratio.
const SAMPLE_RATIO: &str = "dispatch.sample_ratio";
/// Parameters of `dispatch`.
const DISPATCH_PARAMETERS: &[&str] = &[
    "now",
    "dispatch.now",
    "dispatch.earliest_time",
    "dispatch.latest_time",
    "dispatch.index_earliest",
    "dispatch.index_latest",
    "dispatch.time_format",
    "dispatch.buckets",
    "dispatch.max_count",
    "dispatch.max_time",
    "dispatch.auto_cancel",
    "dispatch.auto_pause",
    "dispatch.auto_finalize_ec",
    "dispatch.lookups",
    SAMPLE_RATIO,
    "dispatch.ttl",
    "force_dispatch",
    "trigger_actions",
];
/// Note of a job whose request has `trigger_actions=1`.
const NO_ACTIONS: &str = "trigger_actions=1 has no effect: alert actions are not run yet";
/// Prefix of arguments.
const ARGUMENT_PREFIX: &str = "args.";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let search = Access::Capability(SEARCH);
    let path = |name: &str| format!("{COLLECTION}/{{name}}/{name}");
    vec![
        Endpoint::new(Method::POST, path("dispatch"), search, "Runs a saved search as a job.", post(dispatch))
            .takes(DISPATCH_PARAMETERS)
            .answers_with(StatusCode::CREATED, AnswerShape::JsonOrXml(SID)),
        Endpoint::new(Method::GET, path("history"), search, "Lists the jobs that ran a saved search.", get(history))
            .takes(LIST_PARAMETERS)
            .answers(AnswerShape::Entities(JOB)),
        Endpoint::new(
            Method::GET,
            path("suppress"),
            search,
            "Shows whether alerts are suppressed.",
            get(show_suppression),
        )
        .answers(AnswerShape::Entities(SUPPRESSION)),
        Endpoint::new(
            Method::POST,
            path("suppress"),
            search,
            "Suppresses alerts for some seconds, or ends their suppression.",
            post(suppress),
        )
        .needs(&["expiration"])
        .takes(&["key"])
        .answers(AnswerShape::Entities(SUPPRESSION)),
        Endpoint::new(Method::POST, path("acknowledge"), search, "Answers that no alert has fired.", post(acknowledge))
            .takes(&["key"])
            .answers(AnswerShape::Entities(ACKNOWLEDGED)),
        Endpoint::new(
            Method::POST,
            path("reschedule"),
            search,
            "Refuses, because schedules are not run.",
            post(reschedule),
        )
        .takes(&["schedule_time"])
        .refuses(),
        Endpoint::new(Method::POST, path("notify"), search, "Refuses, because no alert can have fired.", post(notify))
            .takes(&["sid"])
            .refuses(),
        Endpoint::new(
            Method::GET,
            path("scheduled_times"),
            search,
            "Shows the scheduled times of a saved search.",
            get(scheduled),
        )
        .needs(&RANGE)
        .answers(AnswerShape::Entities(TIMES)),
    ]
}

/// The alerts that an acknowledgment is about: owner, app and name of the saved search, and the key of its request.
const ACKNOWLEDGED: Content =
    Content::new("saved.searches.acknowledge", Shape::Object(&[("suppressionKey", Shape::Text)]));
/// Whether alerts are suppressed.
const SUPPRESSION: Content =
    Content::new("suppress", Shape::Object(&[("suppressed", Shape::Text), ("expiration", Shape::Text)]));
/// Scheduled times in seconds.
const TIMES: Content =
    Content::new("scheduled_times", Shape::Object(&[("scheduled_times", Shape::List(&Shape::Integer))]));

async fn saved(state: &ApiState, caller: &Caller, parts: &PathParts) -> Result<ConfObject, ApiError> {
    let (scope, name) = (scope_of(parts, caller)?, parts.get("name").cloned().unwrap_or_default());
    with_objects(state, caller, move |objects, viewer| objects.get(CONF, &name, &scope, viewer)).await
}

async fn reschedule(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    _: Parameters,
) -> Result<Response, ApiError> {
    let why = "scheduled searches are not run yet, so no run can be moved; dispatch the search";
    refuse_action(&state, &caller, &parts, why).await
}

async fn notify(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    _: Parameters,
) -> Result<Response, ApiError> {
    let why = "alert actions are not run yet; dispatch the search and use its results";
    refuse_action(&state, &caller, &parts, why).await
}

/// Refuses an action of a saved search that exists.
async fn refuse_action(state: &ApiState, caller: &Caller, parts: &PathParts, why: &str) -> Result<Response, ApiError> {
    let name = saved(state, caller, parts).await?.name;
    Err(ApiError::bad_request(format!("{name}: {why}")))
}

async fn dispatch(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let object = saved(&state, &caller, &parts).await?;
    if object.is_disabled() {
        return Err(ApiError::bad_request(format!("Search \"{}\" is disabled: enable it first", object.name)));
    }
    let service = service_of(&state, &caller, &parts).await?;
    let option =
        |name: &str| form.get(name).or_else(|| object.get(name)).map(str::trim).filter(|text| !text.is_empty());
    let number = |name: &str| -> Result<Option<usize>, ApiError> {
        let wrong = |text: &str| ApiError::bad_request(format!("{name}={text}: give a whole number, 0 or more"));
        option(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    };
    let most = number("dispatch.max_count")?.filter(|count| *count > 0).map_or(ROWS_MAX, |count| count.min(ROWS_MAX));
    // Splunk documents `dispatch.now` as a boolean. If a client sends a boolean, the current time is used.
    let is_time = |text: &&str| text.starts_with(|first: char| first.is_ascii_digit()) || parse_flag(text).is_none();
    let now = ["now", "dispatch.now"].into_iter().find_map(|name| Some((name, option(name).filter(is_time)?)));
    let now = now.map(|(name, text)| parse_now(name, text, &service, None)).transpose()?;
    let zone = service.zone();
    let bound = |name: &str| option(name).map(|text| in_format(text.to_owned(), option("dispatch.time_format"), &zone));
    let arrived = arrival_range(
        ["dispatch.index_earliest", "dispatch.index_latest"].map(|name| (name, option(name))),
        |bound| match now {
            Some(now) => parse_time(bound, now, &zone),
            None => service.resolve_time(bound, None),
        },
    )?;
    let params = SearchParams {
        now,
        text: with_arguments(object.get("search").unwrap_or_default(), &object.settings, &form),
        earliest: bound("dispatch.earliest_time"),
        latest: bound("dispatch.latest_time"),
        rows_max: Some(most),
        permissions: Arc::clone(&caller.permissions),
        shape: SearchShape {
            sample: option(SAMPLE_RATIO).map_or(Ok(1), |text| parse_sample_ratio(SAMPLE_RATIO, text))?,
            arrived,
            events_max: number("dispatch.auto_finalize_ec")?
                .filter(|events| *events > 0)
                .and_then(|events| u64::try_from(events).ok()),
            skips_lookups: option("dispatch.lookups").and_then(parse_flag) == Some(false),
            ..SearchShape::default()
        },
        ..SearchParams::default()
    };
    // A lifetime in periods of the schedule (`2p`) is ignored, because it applies only to scheduled runs.
    let ttl_s = option("dispatch.ttl").and_then(|text| text.parse().ok());
    let asked = JobOptions {
        id: None,
        label: Some(object.name.clone()),
        saved: Some(object.name.clone()),
        app: parts.get("app").cloned().unwrap_or_else(|| APP.to_owned()),
        status_buckets: number("dispatch.buckets")?.unwrap_or(0),
        ttl_s,
        auto_cancel_s: seconds_of(number("dispatch.auto_cancel")?),
        auto_pause_s: seconds_of(number("dispatch.auto_pause")?),
        time_max_s: seconds_of(number("dispatch.max_time")?),
        priority: PRIORITY,
        notes: form.is_set("trigger_actions").then(|| NO_ACTIONS.to_owned()).into_iter().collect(),
        has_hints: true,
        ..JobOptions::default()
    };
    start_job(&state, &caller, &service, params, asked, (false, Form::of(form.get("output_mode")))).await
}

/// A number of seconds; 0 if absent.
fn seconds_of(number: Option<usize>) -> i64 {
    number.map_or(0, |seconds| i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// The text of a saved search with its arguments inserted. An argument of the request takes precedence over an argument
/// stored with the search.
fn with_arguments(text: &str, stored: &BTreeMap<String, String>, form: &Parameters) -> String {
    let stored = stored.iter().filter(|(name, _)| form.get(name).is_none());
    let stored = stored.map(|(name, value)| (name.clone(), value.clone()));
    form.clone().into_pairs().into_iter().chain(stored).fold(text.to_owned(), |text, (name, value)| {
        match name.strip_prefix(ARGUMENT_PREFIX) {
            Some(name) => text.replace(&format!("${name}$"), &value),
            None => text,
        }
    })
}

async fn history(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let object = saved(&state, &caller, &parts).await?;
    let (jobs, permissions, name) = (Arc::clone(&state.jobs), Arc::clone(&caller.permissions), object.name.clone());
    let ran = run_blocking(move || {
        let statuses = jobs.list(&permissions).into_iter().map(|job| job.status());
        statuses.filter(|status| status.record.saved() == Some(name.as_str())).collect::<Vec<_>>()
    });
    let node = state.node.name();
    let named = |status: &JobStatus| Entry { name: status.record.sid().to_owned(), ..entry(status, &caller, &node) };
    let entries: Vec<Entry> = ran.await?.iter().map(named).collect();
    let path = format!("/services/{COLLECTION}/{}/history", escape_segment(&object.name));
    Ok(page_in_order("savedsearch", path, entries, &parameters)?.answer(Form::of(parameters.get("output_mode"))))
}

async fn show_suppression(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let object = saved(&state, &caller, &parts).await?;
    Ok(suppression_response(&state, &object, &parameters))
}

/// Suppresses alerts for `expiration` seconds; 0 ends the suppression.
async fn suppress(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let object = saved(&state, &caller, &parts).await?;
    let (text, name) = (parameters.required("expiration")?, &object.name);
    let seconds = text.trim().parse::<i64>().ok().filter(|seconds| *seconds >= 0);
    let wrong = || ApiError::bad_request(format!("expiration={text}: give a whole number, 0 or more"));
    if !object.can_write {
        return Err(ApiError::forbidden(format!("user {} may not change {name}", caller.identity.user)));
    }
    let (suppressions, now) = (Arc::clone(&state.suppressions), state.auth.now());
    let (key, seconds) = (suppression_key(&object), seconds.ok_or_else(wrong)?);
    run_blocking(move || suppressions.set(key, seconds, now)).await??;
    Ok(suppression_response(&state, &object, &parameters))
}

/// Moves the suppression of a saved search to its new location, or ends the suppression if the search is removed.
pub(super) fn move_suppression(
    state: &ApiState,
    before: &ConfObject,
    now: Option<&ConfObject>,
) -> Result<(), ApiError> {
    let (before, now) = (suppression_key(before), now.map(suppression_key));
    Ok(state.suppressions.move_to(&before, now, state.auth.now())?)
}

fn suppression_key(object: &ConfObject) -> SavedSearchKey {
    let owner = object.location.user().unwrap_or(NOBODY);
    (owner.to_owned(), object.location.app().to_owned(), object.name.clone())
}

fn suppression_response(state: &ApiState, object: &ConfObject, parameters: &Parameters) -> Response {
    let left = state.suppressions.seconds_left(&suppression_key(object), state.auth.now());
    let told = "Scheduled searches do not run yet, so no alert fires, and suppression has no effect.";
    let content = json!({ "suppressed": if left > 0 { "1" } else { "0" }, "expiration": left.to_string() });
    message_response(object, "suppress", content, told, parameters)
}

async fn acknowledge(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let object = saved(&state, &caller, &parts).await?;
    let told = "Scheduled searches do not run yet, so no alert has fired, and there is nothing to acknowledge.";
    let (user, app, name) = suppression_key(&object);
    let content =
        json!({ "suppressionKey": format!("{user};{app};{name};{}", parameters.get("key").unwrap_or_default()) });
    Ok(message_response(&object, "acknowledge", content, told, &parameters))
}

/// The scheduled times between two instants, in seconds since 1970.
async fn scheduled(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let object = saved(&state, &caller, &parts).await?;
    for bound in RANGE {
        parameters.required(bound)?;
    }
    let asked = RequestedTimes::of(state.auth.now(), zone_of(&state, &caller).await?, &parameters)?;
    let (times, object) = run_blocking(move || (asked.scheduled_times(&object).unwrap_or_default(), object)).await?;
    let told = "Scheduled searches do not run yet: these are the times at which they would run.";
    Ok(message_response(&object, "scheduled_times", json!({ "scheduled_times": times }), told, &parameters))
}

/// An answer about a saved search with an additional message.
fn message_response(
    object: &ConfObject,
    below: &str,
    content: Value,
    told: &'static str,
    parameters: &Parameters,
) -> Response {
    let path = format!("/services/{COLLECTION}/{}/{below}", escape_segment(&object.name));
    let content = if let Value::Object(members) = content { members } else { Map::new() };
    let (author, app, links) = (object.owner.clone(), object.location.app().to_owned(), Vec::new());
    let (name, acl) = (object.name.clone(), Acl::for_node());
    let entry = Entry { name, path: path.clone(), author, app, acl, fields: None, updated: 0, links, content };
    let feed = Feed::of("savedsearch", path, vec![entry]);
    Feed { notice: Some(Cow::Borrowed(told)), ..feed }.answer(Form::of(parameters.get("output_mode")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_replace_their_placeholders() {
        let form = |pairs: &[(&str, &str)]| {
            Parameters::of(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let given = form(&[("args.host", "web 1"), ("args.n", "5"), ("now", "0")]);
        let stored = BTreeMap::from([("args.n", "9"), ("args.by", "user"), ("now", "1")]);
        let stored = stored.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(
            with_arguments("host=\"$host$\" | head $n$ | stats count by $by$ | eval x=\"$now$\"", &stored, &given),
            "host=\"web 1\" | head 5 | stats count by user | eval x=\"$now$\""
        );
    }
}
