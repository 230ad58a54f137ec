//! `/services/search/jobs` and `/services/search/v2/jobs`: searches that outlive their request.
//!
//! `POST` with `exec_mode=normal` (default) returns the job's ID at once; with `blocking`, it returns the ID when the
//! job has ended; with `oneshot`, it returns the rows ([`super::search_jobs`]). A job is an entity: `GET` shows it,
//! `POST …/control` pauses, ends or keeps it, `DELETE` removes it; its contents are in [`super::job_results`]. Users
//! see their own jobs, administrators see all jobs.
//!
//! Not here: real-time windows ([`super::real_time`]), scheduling.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::ObjectError;
use quarry_conf::permissions::SEARCH;
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_search::cell::format_iso_time;
use quarry_search::jobs::{
    EVERYONE, JobOptions, JobRecord, JobState, JobStatus, ROWS_MAX, SAVED_TTL_S, SearchJob, StartedJob, TTL_S,
    check_custom_fields,
};
use quarry_search::{SearchError, SearchParams, SearchService};
use quarry_spl::ast::Stage;
use quarry_stdx::number::f64_of;
use quarry_stdx::{Fault, log};
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, Content, MESSAGES, SID};
use super::job_arguments::{argument_messages, count_message, custom_fields, parse_shape};
use super::job_costs::performance;
use super::job_keywords::keywords_of;
use super::job_results::COUNT_MAX;
use super::listing::{LIST_PARAMETERS, page_in_order, select_members};
use super::path_parts::PathParts;
use super::real_time::{is_backfilled, parse_window, reject_window};
use super::row::{Access, Endpoint};
use super::run_blocking;
use super::search_jobs::{SID_HEADER, oneshot, params_of, service_of, typed_search, wants_hints};
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, Form, escape_segment};
use crate::caller::Caller;
use crate::message::{ApiError, TypedSearch, escape_xml};
use crate::parameters::Parameters;
use crate::search_slots::{PRIORITY_DEFAULT, Priority, SlotPool, SlotPurpose};

/// Paths of the collection after the root.
pub(super) const COLLECTIONS: [&str; 2] = ["search/jobs", "search/v2/jobs"];
/// App of searches without a namespace.
pub(super) const APP: &str = "search";
/// Default priority.
pub(super) const PRIORITY: u8 = PRIORITY_DEFAULT;
/// The capability that lets searches of high priority start before the searches of other users.
const HIGH_PRIORITY: &str = "edit_search_schedule_priority";
/// The highest priority.
const PRIORITY_MAX: u8 = 10;

/// Answer to `action=finalize`.
const FINALIZED: &str = "Search job finalized.";
/// Parameters of a new job, in addition to the parameters of its search.
const CREATE_PARAMETERS: &[&str] = &[
    "count",
    "earliest_time",
    "latest_time",
    "now",
    "zone",
    "exec_mode",
    "search_mode",
    "rt_backfill",
    "id",
    "label",
    "max_count",
    "max_time",
    "auto_cancel",
    "auto_finalize_ec",
    "auto_pause",
    "enable_lookups",
    "index_earliest",
    "index_latest",
    "reuse_max_seconds_ago",
    "time_format",
    "timeout",
    "status_buckets",
    "priority",
    "namespace",
    "sample_ratio",
    "dispatch.sample_ratio",
    "adhoc_search_level",
    "f",
    "field_list",
    "hints",
    "history",
    "preview",
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let search = Access::Capability(SEARCH);
    let of = |jobs: &str| {
        let (one, control_path) = (format!("{jobs}/{{sid}}"), format!("{jobs}/{{sid}}/control"));
        [
            Endpoint::new(Method::GET, jobs, search, "Lists jobs, newest first.", get(list))
                .takes(LIST_PARAMETERS)
                .answers(AnswerShape::Entities(JOB)),
            Endpoint::new(Method::POST, jobs, search, "Starts a search job.", post(create))
                .needs(&["search"])
                .takes(CREATE_PARAMETERS)
                .takes_patterns(&["custom.*"])
                .answers_with(StatusCode::CREATED, AnswerShape::JsonOrXml(SID))
                .or_answers(StatusCode::OK, AnswerShape::Rows),
            Endpoint::new(Method::GET, one.as_str(), search, "Shows a job.", get(show))
                .takes(&["f"])
                .answers(AnswerShape::Entities(JOB)),
            Endpoint::new(Method::DELETE, one, search, "Cancels and deletes a job.", delete(remove))
                .answers(AnswerShape::JsonOrXml(MESSAGES)),
            Endpoint::new(
                Method::POST,
                control_path,
                search,
                "Pauses, finalises, cancels or extends a job.",
                post(control),
            )
            .needs(&["action"])
            .takes(&["ttl", "priority"])
            .answers(AnswerShape::JsonOrXml(MESSAGES)),
        ]
    };
    COLLECTIONS.into_iter().flat_map(of).collect()
}

/// Content of a job entity.
pub(super) const JOB: Content = Content::new(
    "search.jobs",
    Shape::Object(&[
        ("auto_cancel", Shape::Integer),
        ("canSummarize", Shape::Flag),
        ("cursorTime", Shape::Text),
        ("custom", Shape::Optional(&Shape::Map(&Shape::Text))),
        ("defaultSaveTTL", Shape::Text),
        ("defaultTTL", Shape::Text),
        ("delegate", Shape::Text),
        ("diskUsage", Shape::Count),
        ("dispatchState", Shape::Text),
        ("doneProgress", Shape::Number),
        ("dropCount", Shape::Count),
        ("earliestTime", Shape::Text),
        ("eventAvailableCount", Shape::Count),
        ("eventCount", Shape::Count),
        ("eventFieldCount", Shape::Count),
        ("eventIsStreaming", Shape::Flag),
        ("eventIsTruncated", Shape::Flag),
        ("eventSearch", Shape::Text),
        ("eventSorting", Shape::Word(&["desc", "none"])),
        ("hints", Shape::List(&Shape::Text)),
        ("isBatchModeSearch", Shape::Flag),
        ("isDone", Shape::Flag),
        ("isEventsPreviewEnabled", Shape::Flag),
        ("isFailed", Shape::Flag),
        ("isFinalized", Shape::Flag),
        ("isPaused", Shape::Flag),
        ("isPreviewEnabled", Shape::Flag),
        ("isRealTimeSearch", Shape::Flag),
        ("isRemoteTimeline", Shape::Flag),
        ("isSaved", Shape::Flag),
        ("isSavedSearch", Shape::Flag),
        ("isTimeCursored", Shape::Flag),
        ("isZombie", Shape::Flag),
        ("keywords", Shape::Text),
        ("label", Shape::Text),
        ("latestTime", Shape::Optional(&Shape::Text)),
        ("messages", Shape::List(&Shape::Named("Message"))),
        ("normalizedSearch", Shape::Text),
        ("numPreviews", Shape::Count),
        ("optimizedSearch", Shape::Text),
        ("performance", Shape::Map(&Shape::Map(&Shape::Number))),
        ("pid", Shape::Text),
        ("priority", Shape::Count),
        ("provenance", Shape::Text),
        ("remoteSearch", Shape::Text),
        ("reportSearch", Shape::Text),
        ("request", Shape::Map(&Shape::Nullable(&Shape::Text))),
        ("resultCount", Shape::Count),
        ("resultIsStreaming", Shape::Flag),
        ("resultPreviewCount", Shape::Count),
        ("runDuration", Shape::Number),
        ("runtime", Shape::Map(&Shape::Text)),
        ("sampleRatio", Shape::Text),
        ("scanCount", Shape::Count),
        ("search", Shape::Text),
        ("searchCanBeEventType", Shape::Flag),
        ("searchEarliestTime", Shape::Integer),
        ("searchLatestTime", Shape::Optional(&Shape::Integer)),
        ("searchProviders", Shape::List(&Shape::Text)),
        ("sid", Shape::Text),
        ("statusBuckets", Shape::Count),
        ("ttl", Shape::Integer),
        ("workload_pool", Shape::Text),
    ]),
);

/// The job named by a path, if the caller may see it.
pub(super) async fn find_job(state: &ApiState, caller: &Caller, parts: &PathParts) -> Result<Arc<SearchJob>, ApiError> {
    let sid = parts.get("sid").cloned().unwrap_or_default();
    let (jobs, permissions) = (Arc::clone(&state.jobs), Arc::clone(&caller.permissions));
    let found = run_blocking(move || jobs.get(&sid, &permissions)).await?;
    found.ok_or_else(unknown_sid)
}

/// Like [`find_job`], for a job that the caller controls or changes.
pub(super) async fn find_own_job(
    state: &ApiState,
    caller: &Caller,
    parts: &PathParts,
) -> Result<Arc<SearchJob>, ApiError> {
    let job = find_job(state, caller, parts).await?;
    match job.is_writable_by(&caller.permissions) {
        true => Ok(job),
        false => Err(ApiError::forbidden(format!(
            "user {} may read the job of {}, but not change it",
            caller.identity.user,
            job.user()
        ))),
    }
}

fn unknown_sid() -> ApiError {
    ApiError::with_status(StatusCode::NOT_FOUND, "Unknown sid.")
}

/// The answer if the rows of a job cannot be read. A job removed during the read is reported as unknown.
pub(super) fn unreadable_rows(job: &SearchJob, error: &SearchError) -> ApiError {
    if job.is_removed() { unknown_sid() } else { ApiError::internal(error.to_string()) }
}

/// Starts a search.
async fn create(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let service = service_of(&state, &caller, &place).await?;
    let mode = parameters.get("exec_mode");
    if mode == Some("oneshot") {
        reject_window(&state, &caller, &parameters, "exec_mode=oneshot")?;
        return oneshot(state, service, caller, parameters).await;
    }
    if mode == Some("blocking") {
        reject_window(&state, &caller, &parameters, "exec_mode=blocking")?;
    }
    let real_time = parse_window(&state, &caller, &parameters)?;
    let most = parameters.number("max_count")?.filter(|count| *count > 0).map_or(ROWS_MAX, |count| count.min(ROWS_MAX));
    let params = params_of(&service, &parameters, &caller, Some(most))?;
    let is_not_backfilled = !is_backfilled(&parameters);
    let asked = JobOptions { real_time, is_not_backfilled, ..parse_options(&parameters, &place)? };
    check_custom_fields(&asked.custom)?;
    let is_waited_for = mode == Some("blocking");
    let form = Form::of(parameters.get("output_mode"));
    if let Some(seconds) = parameters.number("reuse_max_seconds_ago")?.filter(|seconds| *seconds > 0) {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let (jobs, wanted, options) = (Arc::clone(&state.jobs), params.clone(), asked.clone());
        let repeated = run_blocking(move || jobs.find_repeated(&wanted, &options, seconds)).await?;
        let repeated = repeated.filter(|_| asked.id.is_none());
        if let Some(job) = repeated.filter(|job| !is_waited_for || job.state().is_over()) {
            job.record_access();
            return Ok(created(job.sid(), form));
        }
    }
    start_job(&state, &caller, &service, params, asked, (is_waited_for, form)).await
}

/// Starts a job, waits for its end if requested, and returns its ID.
pub(super) async fn start_job(
    state: &ApiState,
    caller: &Caller,
    service: &Arc<SearchService>,
    params: SearchParams,
    asked: JobOptions,
    (is_waited_for, form): (bool, Form),
) -> Result<Response, ApiError> {
    let (typed, jobs, service) = (typed_search(&params), Arc::clone(&state.jobs), Arc::clone(service));
    let started = run_blocking(move || jobs.create(&service, params, asked)).await?;
    let started = started.map_err(|error| refusal(&typed, error))?;
    let sid = started.job().sid().to_owned();
    let limits = &caller.permissions.limits;
    let (slots, quota) = match started.job().is_real_time() {
        true => (&state.real_time_slots, limits.real_time_jobs),
        false => (&state.slots, limits.jobs),
    };
    slots.set_quota(&caller.identity.user, quota);
    let priority = priority_of(caller, started.job());
    let running = tokio::spawn(run(Arc::clone(slots), caller.identity.user.clone(), priority, started));
    if is_waited_for {
        running.await.map_err(|error| ApiError::internal(format!("the job's task ended early: {error}")))?;
    }
    Ok(created(&sid, form))
}

/// The answer to a request that starts a job: the job's ID.
fn created(sid: &str, form: Form) -> Response {
    let body = match form {
        Form::Json => json!({ "sid": sid }).to_string(),
        // The ID contains no character that must be escaped in XML.
        Form::Atom => {
            format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<response>\n  <sid>{sid}</sid>\n</response>\n")
        }
    };
    let location = format!("/services/{}/{sid}", COLLECTIONS[0]);
    let headers = [(header::LOCATION, location), (SID_HEADER, sid.to_owned())];
    (StatusCode::CREATED, headers, form.answer(body)).into_response()
}

fn refusal(search: &TypedSearch, error: SearchError) -> ApiError {
    job_refusal(error).unwrap_or_else(|error| ApiError::from_typed_search(search, error))
}

/// The refusal of a job whose search is not at fault; the error itself if the search is.
pub(super) fn job_refusal(error: SearchError) -> Result<ApiError, SearchError> {
    Ok(match error {
        SearchError::TooManyUnfinishedJobs { .. }
        | SearchError::TooManyJobs { .. }
        | SearchError::JobsTooLarge { .. } => ApiError::too_many(error.to_string()),
        SearchError::DiskQuota { .. } => ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        SearchError::JobExists(sid) => ObjectError::Exists(sid).into(),
        SearchError::InvalidJobName(_) | SearchError::JobFolder(_) => Fault::from(error).into(),
        error => return Err(error),
    })
}

/// Reads the job options of a request.
fn parse_options(parameters: &Parameters, parts: &PathParts) -> Result<JobOptions, ApiError> {
    let text = |name: &str| parameters.text(name).filter(|text| !text.is_empty());
    let seconds = |name: &str| -> Result<Option<i64>, ApiError> {
        Ok(parameters.number(name)?.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX)))
    };
    Ok(JobOptions {
        id: text("id"),
        label: text("label"),
        saved: None,
        app: parts.get("app").cloned().or_else(|| text("namespace")).unwrap_or_else(|| APP.to_owned()),
        status_buckets: parameters.number("status_buckets")?.unwrap_or(0),
        real_time: None,
        is_not_backfilled: false,
        ttl_s: seconds("timeout")?,
        auto_cancel_s: seconds("auto_cancel")?.unwrap_or(0),
        auto_pause_s: seconds("auto_pause")?.unwrap_or(0),
        time_max_s: seconds("max_time")?.unwrap_or(0),
        priority: parse_priority(parameters)?.unwrap_or(PRIORITY),
        level: parse_shape(parameters)?.1,
        notes: argument_messages(parameters).into_iter().chain(count_message(parameters, ROWS_MAX)?).collect(),
        has_hints: wants_hints(parameters),
        previews: parameters.get("preview").map(|_| parameters.is_set("preview")),
        custom: custom_fields(parameters),
        previewed: None,
    })
}

fn parse_priority(parameters: &Parameters) -> Result<Option<u8>, ApiError> {
    let Some(priority) = parameters.number("priority")? else { return Ok(None) };
    let allowed = u8::try_from(priority).ok().filter(|priority| *priority <= PRIORITY_MAX);
    let wrong = || ApiError::bad_request(format!("priority={priority}: give a whole number from 0 to {PRIORITY_MAX}"));
    allowed.ok_or_else(wrong).map(Some)
}

/// The priority of a job that waits for a slot.
fn priority_of(caller: &Caller, job: &SearchJob) -> Priority {
    let outranks_others = caller.permissions.has_capability(HIGH_PRIORITY);
    Priority { value: job.shared_priority(), outranks_others }
}

/// Runs a job when it gets a slot.
async fn run(slots: Arc<SlotPool>, user: String, priority: Priority, started: StartedJob) {
    let job = Arc::clone(started.job());
    let permit = slots.acquire_reporting(&user, SlotPurpose::Search, priority, |why| job.set_waiting(why)).await;
    let work = tokio::task::spawn_blocking(move || match permit {
        Ok(permit) => started.run(Some(Box::new(permit))),
        Err(error) => started.refuse(error.text()),
    });
    // Errors are recorded in the job.
    drop(work.await);
}

/// Resumes a paused job as soon as there is a slot.
fn resume(slots: Arc<SlotPool>, priority: Priority, job: Arc<SearchJob>) {
    if !job.resume_unless_begun() {
        return;
    }
    tokio::spawn(async move {
        match slots.acquire_reporting(job.user(), SlotPurpose::Search, priority, |_| {}).await {
            Ok(permit) => job.resume(Some(Box::new(permit))),
            Err(error) => log::warning(format!("job {} stays paused: {}", job.sid(), error.text())),
        }
    });
}

async fn list(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let form = Form::of(parameters.get("output_mode"));
    let (jobs, permissions) = (Arc::clone(&state.jobs), Arc::clone(&caller.permissions));
    let path = format!("/services/{}", COLLECTIONS[0]);
    let node = state.node.clone();
    let feed = run_blocking(move || {
        let name = node.name();
        let entries = jobs.list(&permissions).iter().map(|job| entry(&job.status(), &caller, &name)).collect();
        page_in_order("jobs", path, entries, &parameters)
    });
    Ok(feed.await??.answer(form))
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    let mut entry = entry(&job.status(), &caller, &state.node.name());
    select_members(std::slice::from_mut(&mut entry), &parameters.list("f"));
    Ok(entry.answer("jobs", Form::of(parameters.get("output_mode"))))
}

async fn remove(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_own_job(&state, &caller, &parts).await?;
    let jobs = Arc::clone(&state.jobs);
    run_blocking(move || jobs.remove(&job)).await?;
    Ok(message_response(Form::of(parameters.get("output_mode")), "Search job cancelled."))
}

/// Controls a job; the parameter `action` selects the operation.
async fn control(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let action = parameters.required("action")?.to_owned();
    let sid = parts.get("sid").map(String::as_str).unwrap_or_default();
    if action == "finalize" && state.oneshots.finalize(&caller.identity.user, sid) {
        return Ok(message_response(Form::of(parameters.get("output_mode")), FINALIZED));
    }
    let job = find_own_job(&state, &caller, &parts).await?;
    let ttl = parameters.number("ttl")?.map(|ttl| i64::try_from(ttl).unwrap_or(i64::MAX));
    let priority = parse_priority(&parameters)?;
    let place = priority_of(&caller, &job);
    let slots = if job.is_real_time() { &state.real_time_slots } else { &state.slots };
    let (jobs, slots) = (Arc::clone(&state.jobs), Arc::clone(slots));
    let text = run_blocking(move || -> Result<Cow<'static, str>, ApiError> {
        let missing = |name: &str| ApiError::bad_request(format!("action={action} needs the parameter {name}"));
        let done = match action.as_str() {
            "pause" => {
                jobs.pause(&job)?;
                "Search job paused."
            }
            "unpause" => {
                resume(slots, place, job);
                "Search job continued."
            }
            "finalize" => {
                job.finalize();
                FINALIZED
            }
            "cancel" => {
                jobs.remove(&job);
                "Search job cancelled."
            }
            "touch" => {
                job.touch();
                "Search job touched."
            }
            "setttl" => {
                let ttl = ttl.ok_or_else(|| missing("ttl"))?;
                job.set_ttl(ttl);
                return Ok(format!("The ttl of the search job was changed to {ttl}.").into());
            }
            "setpriority" => {
                job.set_priority(priority.ok_or_else(|| missing("priority"))?);
                "The search job's priority was changed."
            }
            "save" | "unsave" => {
                job.save(action == "save");
                "The search job's time was changed."
            }
            "enablepreview" | "disablepreview" => {
                job.set_previews_shown(action == "enablepreview");
                "The previews of the search job were switched on or off."
            }
            other => {
                let text = format!(
                    "action={other} is unknown: give pause, unpause, finalize, cancel, touch, setttl, setpriority, \
                     save, unsave, enablepreview or disablepreview"
                );
                return Err(ApiError::bad_request(text));
            }
        };
        Ok(done.into())
    })
    .await??;
    Ok(message_response(Form::of(parameters.get("output_mode")), &text))
}

/// An answer with only a message.
pub(super) fn message_response(form: Form, text: &str) -> Response {
    form.answer(match form {
        Form::Json => json!({ "messages": [{ "type": "INFO", "text": text }] }).to_string(),
        Form::Atom => format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<response>\n  <messages>\n    <msg type=\"INFO\">{}</msg>\n  \
             </messages>\n</response>\n",
            escape_xml(text)
        ),
    })
}

/// The job as an entity; `node` is the name of the node that ran its search.
pub(super) fn entry(status: &JobStatus, caller: &Caller, node: &str) -> Entry {
    let record = &status.record;
    let path = format!("/services/{}/{}", COLLECTIONS[0], escape_segment(record.sid()));
    let below = |name: &str| format!("{path}/{name}");
    let links = vec![
        ("search.log", below("search.log")),
        ("events", below("events")),
        ("results", below("results")),
        ("results_preview", below("results_preview")),
        ("timeline", below("timeline")),
        ("summary", below("summary")),
        ("control", below("control")),
    ];
    Entry {
        name: record.search().to_owned(),
        path: path.clone(),
        author: record.user().to_owned(),
        app: record.app().to_owned(),
        acl: acl_of(record, caller),
        fields: None,
        updated: status.updated_ns,
        links,
        content: content(status, node),
    }
}

/// The permissions of a job.
pub(super) fn acl_of(record: &JobRecord, caller: &Caller) -> Acl {
    let (owner, sharing) = (record.user(), record.sharing());
    let names = |others: &[String]| match others.iter().any(|name| name == EVERYONE) {
        true => vec![EVERYONE.to_owned()],
        false => std::iter::once(owner.to_owned()).chain(others.iter().cloned()).collect(),
    };
    let is_own = caller.permissions.may_see(Some(owner));
    let can_write = is_own || sharing.permits_changes(&caller.permissions);
    Acl {
        readers: names(&sharing.readers),
        writers: names(&sharing.writers),
        can_share: is_own,
        can_be_private: true,
        ..Acl::for_user(owner, can_write)
    }
}

fn time(time: TimeNs) -> Value {
    Value::String(format_iso_time(time, &jiff::tz::TimeZone::UTC))
}

/// Members as in Splunk's `search/jobs/{search_id}`.
fn content(status: &JobStatus, node: &str) -> Map<String, Value> {
    let record = &status.record;
    let events = if status.is_events { status.rows_shown as u64 } else { status.matched };
    let available = match status.is_events {
        true => status.rows_shown,
        false if record.shows_events() => usize::try_from(status.matched).unwrap_or(usize::MAX).min(COUNT_MAX),
        false => 0,
    };
    let mut messages = Map::new();
    if !status.messages.is_empty() {
        messages.insert("warn".to_owned(), json!(status.messages));
    }
    if let Some(why) = &status.waiting {
        messages.insert("info".to_owned(), json!([why]));
    }
    if let Some(failure) = &status.failure {
        messages.insert("fatal".to_owned(), json!([failure]));
    }
    let seconds = |time: Option<TimeNs>| time.map(|time| time.div_euclid(NS_PER_SEC));
    let of_search = json!({
        "delegate": "", "earliestTime": time(status.range.earliest.unwrap_or(0)),
        "isBatchModeSearch": false, "isRealTimeSearch": record.is_real_time(), "isSavedSearch": record.saved().is_some(),
        "keywords": keywords_of(record.search()), "label": record.label().unwrap_or_default(),
        "optimizedSearch": record.expanded(), "provenance": "", "workload_pool": "",
        "sampleRatio": record.sample_ratio().to_string(), "search": record.search(),
        "searchEarliestTime": seconds(status.range.earliest).unwrap_or(0), "searchProviders": [node], "sid": record.sid(),
        "statusBuckets": record.status_buckets(),
        "request": { "search": record.search(), "earliest_time": record.earliest(), "latest_time": record.latest(),
            "adhoc_search_level": record.level().word(), "sample_ratio": record.sample_ratio().to_string() },
    });
    let of_state = json!({
        "auto_cancel": record.auto_cancel_s(), "canSummarize": false, "defaultSaveTTL": SAVED_TTL_S.to_string(),
        "defaultTTL": TTL_S.to_string(), "diskUsage": status.bytes, "dispatchState": status.state.name(),
        "doneProgress": if status.state.is_over() { json!(1) } else { json!(status.done) }, "isDone": status.state.is_over(),
        "isFailed": status.state == JobState::Failed, "isFinalized": status.is_finalized,
        "hints": status.hints, "isPaused": status.is_paused, "isPreviewEnabled": status.asks_previews,
        "isSaved": status.is_saved, "isZombie": false, "messages": messages, "numPreviews": status.previews,
        "pid": std::process::id().to_string(), "priority": record.priority(),
        "runtime": { "auto_cancel": record.auto_cancel_s().to_string(), "auto_pause": record.auto_pause_s().to_string() },
        "runDuration": f64_of(status.elapsed_ms) / 1_000.0, "ttl": status.ttl_left_s,
    });
    let of_rows = json!({
        "cursorTime": time(status.event_times.map_or(0, |(first, _)| first)), "dropCount": 0,
        "eventAvailableCount": available, "eventCount": events, "eventFieldCount": status.event_fields, "eventIsStreaming": true,
        "eventIsTruncated": status.is_truncated, "eventSorting": if status.is_events { "desc" } else { "none" },
        "isEventsPreviewEnabled": status.is_events, "isRemoteTimeline": false, "isTimeCursored": status.is_events,
        "resultCount": status.rows, "resultIsStreaming": status.is_events, "resultPreviewCount": status.rows_shown,
        "scanCount": status.scanned, "performance": performance(status),
    });
    let members = [of_search, written_searches(record), of_state, of_rows].into_iter().flat_map(|part| match part {
        Value::Object(members) => members,
        _ => Map::new(),
    });
    let mut content: Map<String, Value> = members.collect();
    if !record.custom().is_empty() {
        content.insert("custom".to_owned(), json!(record.custom()));
    }
    if let Some(latest) = status.range.latest {
        content.insert("latestTime".to_owned(), time(latest));
        content.insert("searchLatestTime".to_owned(), json!(seconds(Some(latest))));
    }
    content
}

/// The parts of a job's search as Splunk shows them.
fn written_searches(record: &JobRecord) -> Value {
    let parts = SearchParts::of(record.expanded());
    let (base, literal) = match record.base() {
        Some(base) => (base.search.as_str(), format!("litsearch {}", base.condition)),
        None => (parts.base, parts.base.to_owned()),
    };
    json!({
        "eventSearch": piped(&[base, parts.rest]), "remoteSearch": piped(&[&literal, parts.rest]),
        "normalizedSearch": piped(&[&literal, parts.rest, parts.report]), "reportSearch": parts.report,
        "searchCanBeEventType": parts.report.is_empty(),
    })
}

/// A search split after its first command and before its first reporting command.
struct SearchParts<'a> {
    /// The first command; empty if it is a reporting command.
    base: &'a str,
    /// The commands between the first command and the report.
    rest: &'a str,
    report: &'a str,
}

impl SearchParts<'_> {
    fn of(text: &str) -> SearchParts<'_> {
        let commands = quarry_spl::parse(text).pipeline.commands;
        let is_report = |stage: &Stage| quarry_spl::analyse::is_transforming(std::slice::from_ref(stage));
        let start_of = |stage: Option<&Stage>| stage.map_or(text.len(), |stage| stage.span.start);
        let report_start = start_of(commands.iter().find(|stage| is_report(stage)));
        let rest_start = start_of(commands.get(1)).min(report_start);
        let part = |from: usize, to: usize| {
            let part = text.get(from..to).unwrap_or_default().trim_end();
            part.trim_end_matches('|').trim()
        };
        SearchParts {
            base: part(0, rest_start),
            rest: part(rest_start, report_start),
            report: text.get(report_start..).unwrap_or_default().trim(),
        }
    }
}

/// The parts of a search that are not empty, joined by pipes.
fn piped(parts: &[&str]) -> String {
    let given: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    given.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_split_before_the_report() {
        for (text, base, rest, report) in [
            ("search error | head 5", "search error", "head 5", ""),
            ("search error", "search error", "", ""),
            (
                "search error | stats count by host | sort - count",
                "search error",
                "",
                "stats count by host | sort - count",
            ),
            ("error | eval é=1 | top é", "error", "eval é=1", "top é"),
            ("| stats count", "", "", "stats count"),
            ("| makeresults | eval a=1", "", "", "makeresults | eval a=1"),
            ("", "", "", ""),
        ] {
            let parts = SearchParts::of(text);
            assert_eq!((parts.base, parts.rest, parts.report), (base, rest, report));
        }
    }
}
