//! Contents of a job: `results`, `results_preview`, `events`, `timeline`, `summary` and `search.log` below its path.
//!
//! `results` is available when the job is done (until then, its status is 204); `results_preview` and `events` return
//! the rows found so far. `offset` and `count` (default 100, 0 for the maximum) select rows; `f` and `field_list`
//! select columns; other parameters limit rows to a time range, sort them, and format events ([`super::row_requests`]).
//! Rows are written as they are read, with the same limits as an export.
//!
//! The events of a report are not stored; a request for them repeats the search over the data that the report read.
//!
//! Not here: previews of reports (engine).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::tz::TimeZone;
use quarry_conf::permissions::SEARCH;
use quarry_engine::SearchShape;
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, parse_zone, strftime};
use quarry_search::cell::format_iso_time;
use quarry_search::jobs::{
    FieldSummary, JobState, JobStatus, JobSummary, ReadStats, RowsView, SearchJob, SummaryRequest, TimeSpan, Timeline,
};
use quarry_search::{EventFormat, ResultTable, SearchError, SearchParams};
use quarry_stdx::number::f64_of;
use serde_json::{Map, Value, json};

use super::answer_shape::AnswerShape;
use super::job_costs::cost_lines;
use super::jobs::{COLLECTIONS, find_job, unreadable_rows};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint};
use super::row_requests::{TIME_FORMATS, event_format, further_commands, is_sorted, requested_range, time_format};
use super::run_blocking;
use super::search_jobs::{
    AnswerBody, DisconnectGuard, EVENTS_HEADER, PARTIAL_HEADER, RowPresentation, TimeBound, body_of, flag, mode_of,
    respond_with_rows, select_fields, service_of, typed_search, wanted_fields, warning_messages, with_pipe,
};
use super::shape::Shape;
use crate::ApiState;
use crate::atom::Form;
use crate::caller::Caller;
use crate::message::{ApiError, TypedSearch, escape_xml};
use crate::outlet::{ClientGone, Outlet};
use crate::parameter_types::parse_flag;
use crate::parameters::{Offset, Parameters};
use crate::search_slots::SlotPurpose;
use crate::wire::{OutputMode, ResultsHead, WireMessage, column_cell};

/// Default rows of a page.
const COUNT_DEFAULT: usize = 100;
/// Maximum number of rows of a page (limits.conf `[restapi] maxresultrows`).
pub(crate) const COUNT_MAX: usize = 50_000;

/// Parameters that select rows and columns.
const ROW_PARAMETERS: &[&str] = &[
    "count",
    "offset",
    "f",
    "field_list",
    "search",
    "earliest_time",
    "latest_time",
    "sort_key",
    "sort_dir",
    TIME_FORMATS[0],
    TIME_FORMATS[1],
    "max_lines",
    "truncation_mode",
    "zone",
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let search = Access::Capability(SEARCH);
    let of = |jobs: &str| {
        let path = |name: &str| format!("{jobs}/{{sid}}/{name}");
        let row = |method, name, summary, serve| Endpoint::new(method, path(name), search, summary, serve);
        let rows = |method, name, summary, serve| {
            let row = row(method, name, summary, serve).takes(ROW_PARAMETERS).answers(AnswerShape::Rows);
            // The job may not have rows yet; the answer is then 204.
            if name == "events" { row } else { row.or_answers(StatusCode::NO_CONTENT, AnswerShape::Nothing) }
        };
        [
            rows(Method::GET, "results", "Returns the rows of a finished job.", get(results)),
            rows(Method::POST, "results", "Returns the rows of a finished job.", post(results)),
            rows(Method::GET, "results_preview", "Returns the current rows of a running job.", get(preview)),
            rows(Method::POST, "results_preview", "Returns the current rows of a running job.", post(preview)),
            rows(Method::GET, "events", "Returns the events that a job has found so far.", get(events)),
            rows(Method::POST, "events", "Returns the events that a job has found so far.", post(events)),
            row(Method::GET, "timeline", "Counts a job's events by time.", get(timeline))
                .takes(TIME_FORMATS)
                .answers(AnswerShape::JsonOrXml(TIMELINE)),
            row(Method::GET, "summary", "Summarises the fields of a job's events.", get(summary))
                .takes(&[
                    "f",
                    "top_count",
                    "min_freq",
                    "histogram",
                    "earliest_time",
                    "latest_time",
                    "search",
                    "time_format",
                    "zone",
                ])
                .answers(AnswerShape::JsonOrXml(SUMMARY)),
            row(Method::GET, "search.log", "Shows the log of a job.", get(log))
                .takes(&[ATTACHMENT])
                .answers(AnswerShape::Texts(&["text/plain"])),
        ]
    };
    COLLECTIONS.into_iter().flat_map(of).collect()
}

/// Counts of events over time.
const TIMELINE: Shape = Shape::Object(&[
    ("event_count", Shape::Count),
    ("cursor_time", Shape::Integer),
    (
        "buckets",
        Shape::List(&Shape::Object(&[
            ("total_count", Shape::Count),
            ("available_count", Shape::Count),
            ("earliest_time", Shape::Number),
            ("earliest_time_offset", Shape::Integer),
            ("latest_time_offset", Shape::Integer),
            ("duration", Shape::Number),
            ("is_finalized", Shape::Flag),
            ("earliest_strftime", Shape::Text),
        ])),
    ),
]);
/// A number in a field's statistics: absent if the field has no numbers, null if infinite.
const STATISTIC: Shape = Shape::Optional(&Shape::Nullable(&Shape::Number));
/// Statistics of fields.
const SUMMARY: Shape = Shape::Object(&[
    ("event_count", Shape::Count),
    ("earliest_time", Shape::Integer),
    ("latest_time", Shape::Integer),
    ("duration", Shape::Integer),
    (
        "fields",
        Shape::Map(&Shape::Object(&[
            ("count", Shape::Count),
            ("distinct_count", Shape::Count),
            ("numeric_count", Shape::Count),
            ("is_exact", Shape::Flag),
            ("relevant", Shape::Flag),
            ("min", STATISTIC),
            ("max", STATISTIC),
            ("mean", STATISTIC),
            ("stdev", STATISTIC),
            (
                "modes",
                Shape::List(&Shape::Object(&[
                    ("value", Shape::Text),
                    ("count", Shape::Count),
                    ("is_exact", Shape::Flag),
                ])),
            ),
            (
                "histogram",
                Shape::Optional(&Shape::List(&Shape::Object(&[
                    ("earliest_time", Shape::Integer),
                    ("duration", Shape::Integer),
                    ("count", Shape::Count),
                ]))),
            ),
        ])),
    ),
]);

/// The rows of a finished job.
async fn results(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    if !job.state().is_over() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    rows_of(&state, &caller, (&job, &parts), &parameters, SearchJob::rows).await
}

/// The rows of a job so far.
async fn preview(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    if matches!(job.state(), JobState::Queued) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    rows_of(&state, &caller, (&job, &parts), &parameters, SearchJob::preview).await
}

/// The events of a job so far. For a report that was started with `adhoc_search_level=verbose` or `status_buckets`,
/// these are the events from which the report was computed.
async fn events(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    if job.is_events() {
        return rows_of(&state, &caller, (&job, &parts), &parameters, SearchJob::rows).await;
    }
    let mode = mode_of(&parameters)?;
    if job.status().record.shows_events() && job.state() != JobState::Failed {
        if parameters.get("search").is_some_and(|text| !text.trim().is_empty()) {
            return Err(ApiError::bad_request("search= is not supported for the events of a report: run a new search"));
        }
        if is_sorted(&parameters) {
            return Err(ApiError::bad_request(
                "sort_key= is not supported for the events of a report: run a new search",
            ));
        }
        let (offset, count, fields) = requested_page(&parameters)?;
        let most =
            if offset.is_from_end() { COUNT_MAX } else { offset.in_total(0).saturating_add(count).min(COUNT_MAX) };
        let mut params = job.source_events_search(Arc::clone(&caller.permissions), most);
        if let Some(range) = requested_range(&parameters, state.auth.now(), &zone_of(&parameters, &job)?)? {
            params.range = Some(params.range.map_or(range, |whole| whole.intersect(&range)));
        }
        let service = service_of(&state, &caller, &parts).await?;
        let shown = RowPresentation::page(mode, offset, count, fields).formatted(event_format(&parameters)?);
        return respond_with_rows(state.clone(), service, caller.clone(), params, (shown, None)).await;
    }
    let mut body = String::new();
    mode.write_head(
        &ResultsHead {
            is_preview: !job.state().is_over(),
            offset: 0,
            fields: &[],
            messages: &[],
            post_processed: None,
        },
        &mut body,
    );
    mode.write_end(&mut body);
    Ok(([(header::CONTENT_TYPE, mode.content_type())], body).into_response())
}

/// Reads rows of a job from an offset, up to a count.
type View = fn(&SearchJob, usize, usize) -> Result<RowsView, SearchError>;

async fn rows_of(
    state: &ApiState,
    caller: &Caller,
    (job, place): (&Arc<SearchJob>, &PathParts),
    parameters: &Parameters,
    rows: View,
) -> Result<Response, ApiError> {
    let mode = mode_of(parameters)?;
    let zone = zone_of(parameters, job)?;
    let range = requested_range(parameters, state.auth.now(), &zone)?;
    let search = parameters.get("search").filter(|text| !text.trim().is_empty()).map(with_pipe);
    if let Some(search) = further_commands(parameters, search, range)? {
        return post_process(state, caller, (job, place), parameters, search).await;
    }
    let format = event_format(parameters)?;
    let (offset, count, wanted) = requested_page(parameters)?;
    let status = job.status();
    let read = Arc::clone(job);
    let view = run_blocking(move || {
        let page = |offset, count| match range {
            Some(range) => Ok(rows(&read, 0, usize::MAX)?.within(range, offset, count)),
            None => rows(&read, offset, count),
        };
        let total = if offset.is_from_end() { page(0, usize::MAX)?.count_rows()? } else { 0 };
        page(offset.in_total(total), count)
    });
    let view = view.await?.map_err(|error| unreadable_rows(job, &error))?;
    let view = match select_fields(view.fields(), &wanted) {
        Some(fields) => view.with_fields(&fields),
        None => view,
    };
    let (messages, is_preview) = (messages_of(&status), !status.state.is_over());
    let page = Page { view, messages, is_preview, mode, zone, format };
    let (mut outlet, chunks) = Outlet::new(&state.slots, &caller.identity.user, None, state.acquire_answer_permit()?);
    tokio::task::spawn_blocking(move || page.send(&mut outlet));
    let mut answer = AnswerBody { chunks, attendance: None };
    // A page that cannot be read at all gets an error status.
    let first = answer.next().await.transpose().map_err(|error| unreadable_rows(job, &error))?;
    let headers = [
        (header::CONTENT_TYPE, mode.content_type()),
        (PARTIAL_HEADER, flag(status.is_partial)),
        (EVENTS_HEADER, flag(status.is_events)),
    ];
    Ok((headers, body_of(first, answer)).into_response())
}

/// Requested offset, count and columns.
fn requested_page(parameters: &Parameters) -> Result<(Offset, usize, Vec<String>), ApiError> {
    let offset = parameters.offset()?;
    let count = parameters.number("count")?.unwrap_or(COUNT_DEFAULT);
    let wanted = wanted_fields(parameters);
    Ok((offset, if count == 0 { COUNT_MAX } else { count.min(COUNT_MAX) }, wanted))
}

/// Runs further commands over the rows of a job, in the request's namespace.
async fn post_process(
    state: &ApiState,
    caller: &Caller,
    (job, place): (&Arc<SearchJob>, &PathParts),
    parameters: &Parameters,
    search: TypedSearch,
) -> Result<Response, ApiError> {
    let params = SearchParams { rows_max: Some(COUNT_MAX), ..params_over(job, caller, parameters, search)? };
    let (offset, count, fields) = requested_page(parameters)?;
    let service = service_of(state, caller, place).await?;
    let shown = RowPresentation::page(mode_of(parameters)?, offset, count, fields).post_processed();
    let shown = shown.formatted(event_format(parameters)?);
    respond_with_rows(state.clone(), service, caller.clone(), params, (shown, None)).await
}

/// A search over the rows of a job; `search` begins with a command, whose input is these rows.
fn params_over(
    job: &SearchJob,
    caller: &Caller,
    parameters: &Parameters,
    TypedSearch { text, prefix }: TypedSearch,
) -> Result<SearchParams, ApiError> {
    if !job.state().is_over() {
        let name = if is_sorted(parameters) { "sort_key=" } else { "search=" };
        return Err(ApiError::bad_request(format!(
            "{name} needs the rows of a finished job: wait until the job is done, or omit {name}"
        )));
    }
    Ok(SearchParams {
        text,
        prefix,
        zone: Some(zone_of(parameters, job)?),
        permissions: Arc::clone(&caller.permissions),
        shape: SearchShape { job: Some(job.sid().to_owned()), ..SearchShape::default() },
        // The user's search is that of the job: reading its rows is no search of its own in the history.
        is_internal: true,
        ..SearchParams::default()
    })
}

pub(super) fn zone_of(parameters: &Parameters, job: &SearchJob) -> Result<TimeZone, ApiError> {
    let Some(name) = parameters.get("zone").filter(|name| !name.is_empty()) else { return Ok(job.zone().clone()) };
    parse_zone(name).ok_or_else(|| {
        ApiError::bad_request(format!("zone={name} is not a known time zone: use a name such as Europe/Berlin"))
    })
}

fn messages_of(status: &JobStatus) -> Vec<WireMessage> {
    let failure = status.failure.iter().map(|failure| ("FATAL", failure.clone()));
    failure.chain(warning_messages(status.messages.clone())).collect()
}

/// Rows to be sent.
struct Page {
    view: RowsView,
    messages: Vec<WireMessage>,
    is_preview: bool,
    mode: OutputMode,
    zone: TimeZone,
    format: EventFormat,
}

/// Reason why a page was not sent completely.
enum SendError {
    Unread(SearchError),
    Disconnected,
}

impl From<SearchError> for SendError {
    fn from(error: SearchError) -> SendError {
        SendError::Unread(error)
    }
}

impl From<ClientGone> for SendError {
    fn from(_: ClientGone) -> SendError {
        SendError::Disconnected
    }
}

impl Page {
    fn tables(&self) -> impl Iterator<Item = Result<ResultTable, SearchError>> + '_ {
        self.view.tables(&self.zone).map(|table| Ok(table?.with_format(&self.format)))
    }

    fn send(&self, outlet: &mut Outlet) {
        let sent = self.write(outlet);
        // A client that disconnected cannot receive an error.
        let _left = match sent {
            Ok(()) => outlet.flush(&mut || {}),
            // If nothing has been sent yet, the error becomes the status of the answer.
            Err(SendError::Unread(error)) => outlet.fail_at_once(error),
            Err(SendError::Disconnected) => Err(ClientGone),
        };
    }

    fn write(&self, outlet: &mut Outlet) -> Result<(), SendError> {
        let (fields, offset) = (self.view.fields(), self.view.offset());
        let head =
            ResultsHead { is_preview: self.is_preview, offset, fields, messages: &self.messages, post_processed: None };
        // The first rows are read before the head is sent, so that a missing file is answered with an error status.
        let mut tables = self.tables().peekable();
        if let Some(Err(_)) = tables.peek() {
            return tables.next().transpose().map(drop).map_err(SendError::Unread);
        }
        outlet.write(|out| self.mode.write_head(&head, out), &mut || {})?;
        if self.mode == OutputMode::JsonCols {
            drop(tables);
            (0..fields.len()).try_for_each(|column| self.write_column(column, outlet))?;
        } else {
            let mut at = offset;
            for table in tables {
                for row in table?.rows() {
                    outlet.write(|out| self.mode.write_row(row, at, at == offset, out), &mut || {})?;
                    at += 1;
                }
            }
        }
        Ok(outlet.write(|out| self.mode.write_end(out), &mut || {})?)
    }

    fn write_column(&self, column: usize, outlet: &mut Outlet) -> Result<(), SendError> {
        outlet.write(|out| out.push_str(if column == 0 { "[" } else { ",[" }), &mut || {})?;
        let mut is_first = true;
        for table in self.tables() {
            for row in table?.rows() {
                outlet.write(|out| column_cell(row, column, is_first, out), &mut || {})?;
                is_first = false;
            }
        }
        Ok(outlet.write(|out| out.push(']'), &mut || {})?)
    }
}

/// The job's event counts over time.
async fn timeline(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    let timeline = match job.begins_timeline() {
        true => report_timeline(&state, &caller, (&job, &parts)).await?,
        false => job.timeline(),
    };
    let is_final = job.state().is_over();
    let form = Form::of(parameters.get("output_mode"));
    let time_text = |time: TimeNs| match time_format(&parameters) {
        Some(format) => strftime(time, format, job.zone()),
        None => format_iso_time(time, job.zone()),
    };
    Ok(form.answer(match form {
        Form::Json => timeline_json(&timeline, is_final, time_text).to_string(),
        Form::Atom => timeline_xml(&timeline, is_final, time_text),
    }))
}

/// The parameter that lets a browser save a log as a file.
const ATTACHMENT: &str = "attachment";

/// The timeline of a report, whose events are read when the timeline is requested.
async fn report_timeline(
    state: &ApiState,
    caller: &Caller,
    (job, place): (&Arc<SearchJob>, &PathParts),
) -> Result<Timeline, ApiError> {
    let service = service_of(state, caller, place).await?;
    let permit = state.acquire_slot(caller, SlotPurpose::Search).await?;
    let (read, permissions) = (Arc::clone(job), Arc::clone(&caller.permissions));
    let timeline = run_blocking(move || {
        let timeline = read.read_timeline(&service, &permissions);
        drop(permit);
        timeline
    });
    timeline.await?.map_err(|error| ApiError::from_search_error(job.status().record.search(), error))
}

/// A displayed span of a timeline: `start` and `duration` in seconds, `time` (the start) in nanoseconds.
struct ShownSpan {
    start: Value,
    duration: Value,
    count: u64,
    time: TimeNs,
}

/// The displayed spans; if all events are in one millisecond, a single span of that millisecond, as in Splunk.
fn shown_spans(timeline: &Timeline) -> Vec<ShownSpan> {
    const NS_PER_MS: TimeNs = 1_000_000;
    let spans: Vec<_> = timeline.spans().collect();
    match (timeline.bounds(), spans.as_slice()) {
        (Some((first, last)), [span]) if first.div_euclid(NS_PER_MS) == last.div_euclid(NS_PER_MS) => {
            let time = first - first.rem_euclid(NS_PER_MS);
            let start = json!(f64_of(time.div_euclid(NS_PER_MS)) / 1_000.0);
            vec![ShownSpan { start, duration: json!(0.001), count: span.count, time }]
        }
        _ => {
            let shown = |span: &TimeSpan| ShownSpan {
                start: json!(span.start),
                duration: json!(span.seconds),
                count: span.count,
                time: span.start * NS_PER_SEC,
            };
            spans.iter().map(shown).collect()
        }
    }
}

fn timeline_json(timeline: &Timeline, is_final: bool, time_text: impl Fn(TimeNs) -> String) -> Value {
    let buckets: Vec<Value> = shown_spans(timeline)
        .into_iter()
        .map(|ShownSpan { start, duration, count, time }| {
            json!({
                "total_count": count, "available_count": count, "earliest_time": start, "earliest_time_offset": 0,
                "latest_time_offset": 0, "duration": duration, "is_finalized": is_final,
                "earliest_strftime": time_text(time),
            })
        })
        .collect();
    let events: u64 = timeline.spans().map(|span| span.count).sum();
    let cursor = timeline.bounds().map_or(0, |(first, _)| first.div_euclid(NS_PER_SEC));
    json!({ "buckets": buckets, "event_count": events, "cursor_time": cursor })
}

fn timeline_xml(timeline: &Timeline, is_final: bool, time_text: impl Fn(TimeNs) -> String) -> String {
    let events: u64 = timeline.spans().map(|span| span.count).sum();
    let cursor = timeline.bounds().map_or(0, |(first, _)| first.div_euclid(NS_PER_SEC));
    let mut out =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<timeline c=\"{events}\" cursor=\"{cursor}\">\n");
    for ShownSpan { start, duration, count, time } in shown_spans(timeline) {
        out.push_str(&format!(
            "<bucket c=\"{count}\" a=\"{count}\" t=\"{start}\" d=\"{duration}\" f=\"{}\" etz=\"0\" ltz=\"0\">{}</bucket>\n",
            u8::from(is_final),
            escape_xml(&time_text(time)),
        ));
    }
    out.push_str("</timeline>\n");
    out
}

/// Field statistics of the job's rows, of those in a time range, or of those that the commands in `search` return: `f`
/// selects fields, `top_count` limits their values, `min_freq` is the minimum share of rows with the field, and
/// `histogram` adds counts by time.
async fn summary(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    let wanted = wanted_fields(&parameters);
    let most = parameters.number("top_count")?.unwrap_or(TOP_COUNT);
    let least = parameters.get("min_freq").and_then(|share| share.parse::<f64>().ok()).unwrap_or(0.0);
    let range = requested_range(&parameters, state.auth.now(), &zone_of(&parameters, &job)?)?;
    let request = SummaryRequest { range, has_histograms: parameters.is_set("histogram") };
    let read = Arc::clone(&job);
    let search = parameters.get("search").filter(|text| !text.trim().is_empty()).map(with_pipe);
    let mut summary = match further_commands(&parameters, search, range)? {
        None => {
            let summary = run_blocking(move || read.summary(&request)).await?;
            summary.map_err(|error| unreadable_rows(&job, &error))?
        }
        Some(search) => {
            let params = params_over(&job, &caller, &parameters, search)?;
            let typed = typed_search(&params);
            let service = service_of(&state, &caller, &parts).await?;
            let permit = state.acquire_slot(&caller, SlotPurpose::Search).await?;
            let running = run_blocking(move || service.start_on_reader_thread(params)).await?;
            let mut running = running.map_err(|error| ApiError::from_typed_search(&typed, error))?;
            let attendance = DisconnectGuard::of(&running);
            let bound = TimeBound::of(&caller, &attendance);
            let summary = run_blocking(move || {
                let summary = read.summary_after(&mut running, &request);
                drop(permit);
                summary
            });
            let summary = summary.await?.map_err(|error| ApiError::from_typed_search(&typed, error))?;
            attendance.end();
            match bound.timeout_message() {
                None => summary,
                // A summary has no place for a message, so an incomplete one is refused.
                Some(text) => return Err(ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, text)),
            }
        }
    };
    let rows = f64_of(summary.rows);
    summary.fields.retain(|name, field| {
        (wanted.is_empty() || wanted.contains(name)) && f64_of(field.count) >= least * rows && field.count > 0
    });
    summary.fields.values_mut().for_each(|field| field.values.truncate(most));
    let form = Form::of(parameters.get("output_mode"));
    Ok(form.answer(match form {
        Form::Json => summary_json(&summary).to_string(),
        Form::Atom => summary_xml(&summary),
    }))
}

/// Default number of values per field in a summary.
const TOP_COUNT: usize = 10;

fn seconds_of(summary: &JobSummary) -> (i64, i64) {
    summary.times.map_or((0, 0), |(first, last)| (first.div_euclid(NS_PER_SEC), last.div_euclid(NS_PER_SEC)))
}

fn summary_json(summary: &JobSummary) -> Value {
    let field = |field: &FieldSummary| {
        let modes: Vec<Value> = field
            .values
            .iter()
            .map(|value| json!({ "value": value.value, "count": value.count, "is_exact": field.is_exact }))
            .collect();
        let mut told = json!({
            "count": field.count, "distinct_count": field.distinct, "is_exact": field.is_exact,
            "numeric_count": field.numbers, "relevant": false, "modes": modes,
        });
        if field.numbers > 0 {
            for (name, value) in
                [("min", field.min), ("max", field.max), ("mean", field.mean), ("stdev", field.deviation)]
            {
                told[name] = value.into();
            }
        }
        if let Some(histogram) = &field.histogram {
            told["histogram"] = histogram
                .spans()
                .map(|span| json!({ "earliest_time": span.start, "duration": span.seconds, "count": span.count }))
                .collect();
        }
        told
    };
    let fields: Map<String, Value> =
        summary.fields.iter().map(|(name, summary)| (name.clone(), field(summary))).collect();
    let (first, last) = seconds_of(summary);
    json!({
        "fields": fields, "event_count": summary.rows, "earliest_time": first, "latest_time": last, "duration": last - first,
    })
}

fn summary_xml(summary: &JobSummary) -> String {
    let (first, last) = seconds_of(summary);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<summary earliest_time=\"{first}\" latest_time=\"{last}\" \
         duration=\"{}\" c=\"{}\">\n",
        last - first,
        summary.rows
    );
    for (name, field) in &summary.fields {
        let is_exact = u8::from(field.is_exact);
        out.push_str(&format!(
            "<field k=\"{}\" c=\"{}\" nc=\"{}\" dc=\"{}\" exact=\"{is_exact}\" relevant=\"0\">\n",
            escape_xml(name),
            field.count,
            field.numbers,
            field.distinct
        ));
        if field.numbers > 0 {
            out.push_str(&format!(
                "<min>{}</min>\n<max>{}</max>\n<mean>{}</mean>\n<stdev>{}</stdev>\n",
                field.min, field.max, field.mean, field.deviation
            ));
        }
        out.push_str("<modes>\n");
        for value in &field.values {
            let (count, text) = (value.count, escape_xml(&value.value));
            out.push_str(&format!("<value c=\"{count}\" exact=\"{is_exact}\"><text>{text}</text></value>\n"));
        }
        out.push_str("</modes>\n");
        if let Some(histogram) = &field.histogram {
            let bucket =
                |TimeSpan { start, seconds, count }| format!("<bucket t=\"{start}\" d=\"{seconds}\" c=\"{count}\"/>\n");
            out.push_str(&format!("<histogram>\n{}</histogram>\n", histogram.spans().map(bucket).collect::<String>()));
        }
        out.push_str("</field>\n");
    }
    out.push_str("</summary>\n");
    out
}

/// The log of a job: a line each for its start, its search, messages, totals and costs.
async fn log(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    let status = job.status();
    let record = &status.record;
    let began = format_iso_time(record.began_ns(), job.zone());
    let mut lines = vec![
        format!(
            "{began} INFO  dispatchRunner - job {} of user {} in app {}",
            record.sid(),
            record.user(),
            record.app()
        ),
        format!("{began} INFO  search: {}", record.search()),
    ];
    lines.extend(status.messages.iter().map(|message| format!("{began} WARN  {message}")));
    lines.extend(status.hints.iter().map(|hint| format!("{began} INFO  {hint}")));
    lines.extend(status.failure.iter().map(|failure| format!("{began} FATAL {failure}")));
    let (state, ran) = (status.state.name(), status.elapsed_ms);
    let (read, matched, rows) = (status.scanned, status.matched, status.rows);
    lines.push(format!("{began} INFO  {state} after {ran} ms: {read} events read, {matched} matched, {rows} rows"));
    lines.extend((!status.reads.is_empty()).then(|| {
        let ReadStats { cached_reads, cached_bytes, requests, fetched_bytes, waited_ns } = status.reads;
        format!(
            "{began} INFO  remote volumes: {requests} requests with {fetched_bytes} bytes, {} ms waited; \
             cache: {cached_reads} reads with {cached_bytes} bytes",
            waited_ns / 1_000_000
        )
    }));
    lines.extend(cost_lines(&status).into_iter().map(|line| format!("{began} INFO  {line}")));
    let body = lines.join("\n") + "\n";
    let mut answer = ([(header::CONTENT_TYPE, "text/plain; charset=UTF-8")], body).into_response();
    if parameters.get(ATTACHMENT).and_then(parse_flag) == Some(true) {
        let saved = HeaderValue::from_static("attachment; filename=\"search.log\"");
        answer.headers_mut().insert(header::CONTENT_DISPOSITION, saved);
    }
    Ok(answer)
}
