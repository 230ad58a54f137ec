//! Searches that last as long as their request: `POST /services/search/jobs` with `exec_mode=oneshot`.
//!
//! The answer contains at most `count` rows (default 100; 0 means all). `/services/quarry/explain` explains a search.
//! Below `/servicesNS/USER/APP`, searches use the knowledge objects of that namespace. Export, which streams rows as
//! the search finds them, is in [`super::export`]; jobs that outlive the request are in [`super::jobs`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::{StreamExt, stream};
use jiff::tz::TimeZone;
use quarry_conf::permissions::SEARCH;
use quarry_engine::{SearchShape, Stopper};
use quarry_event::TimeNs;
use quarry_event::time::{parse_time, parse_zone};
use quarry_search::{
    AnswerWatch, AnsweredSearch, CollectedRows, EventFormat, Row, RunningSearch, SearchError, SearchParams,
    SearchService,
};
use quarry_stdx::log;
use tokio::task::JoinHandle;

use super::answer_shape::AnswerShape;
use super::job_arguments::{argument_messages, parse_shape};
use super::listing::matches;
use super::path_parts::PathParts;
use super::plan_shape::EXPLAINED;
use super::request_times::{arrival_range, in_format};
use super::row::{Access, Endpoint};
use super::run_blocking;
use crate::ApiState;
use crate::caller::Caller;
use crate::message::{ApiError, TypedSearch};
use crate::outlet::{Chunks, ClientGone, Outlet};
use crate::parameter_types::parse_flag;
use crate::parameters::{Offset, Parameters};
use crate::search_slots::SlotPurpose;
use crate::wire::{OutputMode, ResultsHead, WireMessage, column_cell};

/// Default number of rows of a oneshot answer, as in Splunk.
const COUNT_DEFAULT: usize = 100;

/// Names in paths that mean all users and no user.
pub(super) const RESERVED_USERS: [&str; 2] = ["-", "nobody"];

/// Parameters of a search besides its text.
pub(super) const SEARCH_PARAMETERS: &[&str] = &[
    "count",
    "earliest_time",
    "latest_time",
    "now",
    "rt_backfill",
    "search_mode",
    "zone",
    "sample_ratio",
    "dispatch.sample_ratio",
    "adhoc_search_level",
    "auto_finalize_ec",
    "enable_lookups",
    "f",
    "field_list",
    "hints",
    "history",
    "index_earliest",
    "index_latest",
    "time_format",
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let search = Access::Capability(SEARCH);
    vec![
        Endpoint::new(Method::POST, "quarry/explain", search, "Shows the plan of a search.", post(explain))
            .needs(&["search"])
            .takes(&["earliest_time", "latest_time", "zone"])
            .answers(AnswerShape::JsonOrText(EXPLAINED)),
    ]
}

/// The search service of a path for the caller. A user's private objects can be used only by this user and by
/// administrators.
pub(super) async fn service_of(
    state: &ApiState,
    caller: &Caller,
    parts: &PathParts,
) -> Result<Arc<SearchService>, ApiError> {
    let identity = &caller.identity;
    let (Some(user), Some(app)) = (parts.get("user").cloned(), parts.get("app").cloned()) else {
        if let Some(service) = state.node.cached_search_service_of(&caller.permissions) {
            return Ok(service);
        }
        let (node, viewer) = (state.node.clone(), Arc::clone(&caller.permissions));
        return Ok(run_blocking(move || node.search_service_of(&viewer)).await??);
    };
    if !RESERVED_USERS.contains(&user.as_str()) && !caller.permissions.may_see(Some(&user)) {
        return Err(ApiError::forbidden(format!("user {} may not search as {user}", identity.user)));
    }
    let (node, viewer) = (state.node.clone(), Arc::clone(&caller.permissions));
    Ok(run_blocking(move || node.search_service_in(&user, &app, &viewer)).await??)
}

/// Search parameters: Splunk's, and `zone`, the time zone for parsing and showing times. Other parameters are ignored.
pub(super) fn params_of(
    service: &SearchService,
    parameters: &Parameters,
    caller: &Caller,
    rows_max: Option<usize>,
) -> Result<SearchParams, ApiError> {
    let unknown = |name: &str| {
        ApiError::bad_request(format!("zone={name} is not a known time zone: use a name such as Europe/Berlin"))
    };
    let text = |name: &str| parameters.text(name).filter(|text| !text.is_empty());
    let zone = text("zone").map(|name| parse_zone(&name).ok_or_else(|| unknown(&name))).transpose()?;
    let now = text("now").map(|text| parse_now("now", &text, service, zone.as_ref())).transpose()?;
    let user_zone = zone.clone().unwrap_or_else(|| service.zone());
    let format = parameters.get("time_format").filter(|format| !format.trim().is_empty());
    let [earliest, latest] =
        ["earliest_time", "latest_time"].map(|name| text(name).map(|bound| in_format(bound, format, &user_zone)));
    check_bounds(service, [earliest.clone(), latest.clone()], zone.as_ref())?;
    let arrived = arrival_range(
        ["index_earliest", "index_latest"].map(|name| (name, parameters.get(name))),
        |bound| match now {
            Some(now) => parse_time(bound, now, &user_zone),
            None => service.resolve_time(bound, zone.as_ref()),
        },
    )?;
    let shape = SearchShape { arrived, ..parse_shape(parameters)?.0 };
    let TypedSearch { text: search, prefix } = search_text(parameters)?;
    Ok(SearchParams {
        text: search,
        prefix,
        is_narrowed: shape.is_for_output(),
        earliest,
        latest,
        zone,
        rows_max: rows_max.filter(|count| *count > 0),
        permissions: Arc::clone(&caller.permissions),
        shape,
        now,
        is_internal: parameters.get("history").and_then(parse_flag) == Some(false),
        ..SearchParams::default()
    })
}

/// Refuses a time range that ends before it begins. Bounds of real-time windows are checked elsewhere.
fn check_bounds(service: &SearchService, bounds: [Option<String>; 2], zone: Option<&TimeZone>) -> Result<(), ApiError> {
    let [Some(earliest), Some(latest)] = bounds else { return Ok(()) };
    let times = [&earliest, &latest].map(|text| service.resolve_time(text, zone));
    let [Ok(from), Ok(to)] = times else { return Ok(()) };
    if from <= to {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "Invalid time bounds in search: earliest_time={earliest} is later than latest_time={latest}; exchange them"
    )))
}

/// Time that `now` means in a search: an absolute time, or a time relative to the clock.
pub(super) fn parse_now(
    name: &str,
    text: &str,
    service: &SearchService,
    zone: Option<&TimeZone>,
) -> Result<TimeNs, ApiError> {
    let time = service.resolve_time(text, zone);
    time.map_err(|reason| ApiError::bad_request(format!("{name}={text}: {reason}")))
}

/// The search of a request. Its text begins with a command, with or without `|`, as in Splunk's REST API; an unknown
/// first word is an error, not a search term. With `implied_search`, which the command line sends, the text may begin
/// with search terms.
fn search_text(parameters: &Parameters) -> Result<TypedSearch, ApiError> {
    let text = required_search(parameters)?;
    Ok(if parameters.is_set("implied_search") { TypedSearch { text, prefix: 0 } } else { with_pipe(&text) })
}

/// The text of a search with these parameters.
pub(super) fn typed_search(params: &SearchParams) -> TypedSearch {
    TypedSearch { text: params.text.clone(), prefix: params.prefix }
}

/// Prefixes a search with `|`, so that its first word is a command, unless the search begins with `|`, a macro, a
/// subsearch or the command `search`.
pub(super) fn with_pipe(text: &str) -> TypedSearch {
    let first = text.trim_start();
    let word = first.split(|letter: char| letter.is_whitespace() || letter == '|').next().unwrap_or_default();
    let is_whole = first.starts_with(['|', '`', '[']) || word.eq_ignore_ascii_case("search");
    let prefix = if is_whole { "" } else { "|" };
    TypedSearch { text: format!("{prefix}{text}"), prefix: prefix.len() }
}

/// Error for a request without a search, in Splunk's words.
const MISSING_SEARCH: &str = "The required 'search' parameter for the Splunk platform REST API search/jobs endpoint is not specified. Give the search to run.";

/// The required search as typed, which may begin with search terms; Splunk's error if it is missing.
pub(super) fn required_search(parameters: &Parameters) -> Result<String, ApiError> {
    let text = parameters.get("search").filter(|text| !text.trim().is_empty());
    let missing = || ApiError::bad_request(MISSING_SEARCH);
    text.map(str::to_owned).ok_or_else(missing)
}

pub(super) fn mode_of(parameters: &Parameters) -> Result<OutputMode, ApiError> {
    OutputMode::parse(parameters.get("output_mode"), parameters.is_set("csv_safe")).map_err(ApiError::from)
}

/// Explains a search: `output_mode=text` or `json`.
pub(super) async fn explain(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let service = service_of(&state, &caller, &place).await?;
    let params = params_of(&service, &parameters, &caller, None)?;
    explain_text(state, service, parameters, params).await
}

/// Like [`explain`], for a search that may begin with search terms, as in a search bar.
pub(super) async fn explain_typed(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let service = service_of(&state, &caller, &place).await?;
    let params = params_of(&service, &parameters, &caller, None)?;
    let params = SearchParams { text: required_search(&parameters)?, prefix: 0, ..params };
    explain_text(state, service, parameters, params).await
}

async fn explain_text(
    state: ApiState,
    service: Arc<SearchService>,
    parameters: Parameters,
    params: SearchParams,
) -> Result<Response, ApiError> {
    let node = state.node.clone();
    let zone = params.zone.clone().unwrap_or_else(|| service.zone());
    let is_json = parameters.get("output_mode") != Some("text");
    let search = typed_search(&params);
    let explained = run_blocking(move || {
        let explanation = service.explain(params, true);
        let explanation = explanation.map_err(|error| ApiError::from_typed_search(&search, error))?;
        node.explanation(&search.text, &explanation, &zone, is_json).map_err(ApiError::from)
    })
    .await??;
    let kind = if is_json { "application/json; charset=UTF-8" } else { "text/plain; charset=UTF-8" };
    Ok(([(header::CONTENT_TYPE, kind)], explained).into_response())
}

/// Answers with the rows of a search.
pub(super) async fn oneshot(
    state: ApiState,
    service: Arc<SearchService>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let most = parameters.number("count")?.unwrap_or(COUNT_DEFAULT);
    let params = params_of(&service, &parameters, &caller, Some(most))?;
    let mode = mode_of(&parameters)?;
    let has_hints = shows_hints(&parameters) && mode.has_messages();
    let (told, fields) = (argument_messages(&parameters), wanted_fields(&parameters));
    let shown = RowPresentation { told, has_hints, fields, ..RowPresentation::all(mode) };
    respond_with_rows(state, service, caller, params, (shown, parameters.get("id").map(str::to_owned))).await
}

/// Presentation of a search's rows.
pub(super) struct RowPresentation {
    /// Format of the answer.
    mode: OutputMode,
    /// Number of the first row returned.
    offset: Offset,
    /// Maximum number of rows returned.
    count: usize,
    /// Columns returned; all if empty.
    fields: Vec<String>,
    /// Whether the answer reports the number of post-processed rows.
    is_post_processed: bool,
    /// Additional messages.
    told: Vec<String>,
    /// Whether hints are added if nothing is found.
    has_hints: bool,
    /// Format of events.
    format: EventFormat,
}

impl RowPresentation {
    /// Shows all rows in this format.
    pub(super) fn all(mode: OutputMode) -> RowPresentation {
        RowPresentation {
            mode,
            offset: Offset::default(),
            count: usize::MAX,
            fields: Vec::new(),
            is_post_processed: false,
            told: Vec::new(),
            has_hints: false,
            format: EventFormat::default(),
        }
    }

    /// Shows a page of rows.
    pub(super) fn page(mode: OutputMode, offset: Offset, count: usize, fields: Vec<String>) -> RowPresentation {
        RowPresentation { offset, count, fields, ..RowPresentation::all(mode) }
    }

    /// Shows the post-processed rows of a job.
    pub(super) fn post_processed(self) -> RowPresentation {
        RowPresentation { is_post_processed: true, ..self }
    }

    /// Sets the format of events.
    pub(super) fn formatted(self, format: EventFormat) -> RowPresentation {
        RowPresentation { format, ..self }
    }

    fn select_columns(&self, rows: CollectedRows) -> CollectedRows {
        match select_fields(rows.fields(), &self.fields) {
            Some(fields) => rows.with_fields(&fields),
            None => rows,
        }
    }

    /// Calls `take` with each row of the requested page, which begins at row `offset`, and with the number of the row.
    /// Stops at the first error.
    fn for_each_row(
        &self,
        rows: &CollectedRows,
        offset: usize,
        mut take: impl FnMut(Row<'_>, usize) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let end = offset.saturating_add(self.count);
        let mut at = 0;
        for part in rows.parts_to_send() {
            for row in part?.with_format(&self.format).rows() {
                if (offset..end).contains(&at) {
                    take(row, at)?;
                }
                at += 1;
            }
            if at >= end {
                break;
            }
        }
        Ok(())
    }
}

/// Answers with the rows of a search. While the search runs, the client can end it by the ID that the client has
/// chosen.
pub(super) async fn respond_with_rows(
    state: ApiState,
    service: Arc<SearchService>,
    caller: Caller,
    params: SearchParams,
    (shown, id): (RowPresentation, Option<String>),
) -> Result<Response, ApiError> {
    let mode = shown.mode;
    let zone = params.zone.clone().unwrap_or_else(|| service.zone());
    let typed = typed_search(&params);
    let (permit, waited) = state.acquire_slot_with_message(&caller, SlotPurpose::Search).await?;
    let attendance = DisconnectGuard::default();
    let attended = Arc::clone(&attendance.search);
    let bound = TimeBound::of(&caller, &attendance);
    let (named, user) = (Arc::clone(&state.oneshots), caller.identity.user.clone());
    let permissions = Arc::clone(&caller.permissions);
    let has_hints = shown.has_hints && params.shape.sample <= 1;
    let searched = typed.clone();
    let collected = run_blocking(move || {
        let mut running = service.start_on_reader_thread(params)?;
        register_search(&attended, &running);
        let _named = id.and_then(|id| named.add(&user, &id, running.stopper()));
        let mut permit = Some(permit);
        let rows = running.collect_rows_to_send(&zone, |running| {
            permit = permit.take().and_then(|permit| permit.grow(|| release_memory(running)));
        })?;
        let mut hints = Vec::new();
        if has_hints && !running.is_partial() && rows.is_small() && !running.has_reached_row_limit() {
            let range = running.range();
            let TypedSearch { text, prefix } = searched;
            let search = AnsweredSearch { service, text, prefix, range, zone, permissions };
            hints = hints_on(&rows, AnswerWatch::new(search, running.is_events()))?;
        }
        drop(permit);
        Ok::<_, SearchError>((rows, running, hints))
    });
    let (rows, running, hints) = collected.await?.map_err(|error| ApiError::from_typed_search(&typed, error))?;
    let rows = shown.select_columns(rows);
    attendance.end();
    let content_type = (header::CONTENT_TYPE, mode.content_type());
    let sid = running.id().to_owned();
    let flags = [
        content_type,
        (PARTIAL_HEADER, flag(running.is_partial())),
        (EVENTS_HEADER, flag(running.is_events())),
        (SID_HEADER, sid.as_str()),
    ];
    let told = running.messages().into_iter().chain(bound.timeout_message()).chain(waited).chain(shown.told.clone());
    let messages: Vec<WireMessage> = warning_messages(told.collect()).into_iter().chain(hint_messages(hints)).collect();
    drop(running);
    let body = if rows.is_small() {
        let mut body = String::new();
        let written = write_collected(&rows, &messages, &shown, &mut |write| {
            write(&mut body);
            Ok(())
        });
        match written {
            Ok(()) => Body::from(body),
            Err(WriteError::Failed(error)) => return Err(ApiError::from_typed_search(&typed, error)),
            // Writing into a string never fails.
            Err(WriteError::Disconnected(ClientGone)) => Body::empty(),
        }
    } else {
        let (mut outlet, chunks) =
            Outlet::new(&state.slots, &caller.identity.user, None, state.acquire_answer_permit()?);
        tokio::task::spawn_blocking(move || send_collected(&rows, &messages, &shown, &mut outlet));
        body_of(None, AnswerBody { chunks, attendance: None })
    };
    Ok((flags, body).into_response())
}

/// Hints on a small answer.
fn hints_on(rows: &CollectedRows, mut watch: AnswerWatch) -> Result<Vec<String>, SearchError> {
    rows.parts().try_for_each(|part| part.map(|part| watch.observe_rows(&part)))?;
    Ok(watch.find_hints(&|| false))
}

/// The running search that a client waits for; `None` if the client disconnected before the search began.
type AttendedSearch = OnceLock<Option<Stopper>>;

/// Guard: stops the search if its client disconnects. A failed send would reveal the disconnection too late, because
/// nothing may be sent for a long time.
#[derive(Default)]
pub(super) struct DisconnectGuard {
    search: Arc<AttendedSearch>,
    is_over: bool,
}

impl DisconnectGuard {
    pub(super) fn of(running: &RunningSearch) -> DisconnectGuard {
        let attendance = DisconnectGuard::default();
        register_search(&attendance.search, running);
        attendance
    }

    /// Disarms the guard, because the search has ended.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        if let Some(stopper) = self.search.get_or_init(|| None).as_ref().filter(|_| !self.is_over) {
            stopper.cancel();
        }
    }
}

/// Guard: ends a search, with the rows found so far, at the maximum run time of the user's roles (`srchMaxTime`),
/// unless the guard is dropped first.
pub(super) struct TimeBound {
    seconds: u64,
    /// Task that waits until the maximum run time is over.
    work: Option<JoinHandle<()>>,
    has_come: Arc<AtomicBool>,
}

impl TimeBound {
    pub(super) fn of(caller: &Caller, attendance: &DisconnectGuard) -> TimeBound {
        let (search, has_come) = (Arc::clone(&attendance.search), Arc::<AtomicBool>::default());
        let seconds = caller.permissions.limits.time_s.unwrap_or(0);
        let said = Arc::clone(&has_come);
        let work = (seconds > 0).then(|| {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                if let Some(Some(stopper)) = search.get() {
                    said.store(true, Ordering::Relaxed);
                    stopper.finish_early();
                }
            })
        });
        TimeBound { seconds, work, has_come }
    }

    pub(super) fn timeout_message(&self) -> Option<String> {
        let seconds = self.seconds;
        let is_over = self.has_come.load(Ordering::Relaxed);
        is_over.then(|| format!("Search auto-finalized after time limit ({seconds} seconds) reached."))
    }
}

impl Drop for TimeBound {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

/// Registers the running search, unless its client has disconnected.
fn register_search(attended: &AttendedSearch, running: &RunningSearch) {
    if attended.get_or_init(|| Some(running.stopper())).is_none() {
        running.cancel();
    }
}

/// Chunks of a body, and the guard of the waiting client.
pub(super) struct AnswerBody {
    pub(super) chunks: Chunks,
    pub(super) attendance: Option<DisconnectGuard>,
}

impl AnswerBody {
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, SearchError>> {
        let chunk = self.chunks.recv().await;
        if chunk.is_none()
            && let Some(attendance) = self.attendance.take()
        {
            attendance.end();
        }
        chunk
    }
}

pub(super) fn body_of(first: Option<Bytes>, rest: AnswerBody) -> Body {
    let rest = stream::unfold(rest, |mut rest| async { rest.next().await.map(|chunk| (chunk, rest)) });
    Body::from_stream(stream::iter(first.map(Ok)).chain(rest))
}

/// Reason why an answer was not written completely.
pub(super) enum WriteError {
    Failed(SearchError),
    Disconnected(ClientGone),
}

impl From<SearchError> for WriteError {
    fn from(error: SearchError) -> WriteError {
        WriteError::Failed(error)
    }
}

impl From<ClientGone> for WriteError {
    fn from(gone: ClientGone) -> WriteError {
        WriteError::Disconnected(gone)
    }
}

/// Consumer of the next piece of output, at most a row.
type RowSink<'t> = &'t mut dyn FnMut(&dyn Fn(&mut String)) -> Result<(), ClientGone>;

/// Messages of a search, typed as warnings.
pub(super) fn warning_messages(messages: Vec<String>) -> Vec<WireMessage> {
    messages.into_iter().map(|message| ("WARN", message)).collect()
}

/// Hints of a search, typed as information.
pub(super) fn hint_messages(hints: Vec<String>) -> impl Iterator<Item = WireMessage> {
    hints.into_iter().map(|hint| ("INFO", hint))
}

/// Whether a job has hints if its search finds nothing. Clients that find hints by themselves send `hints=0`.
pub(super) fn wants_hints(parameters: &Parameters) -> bool {
    parameters.get("hints").is_none_or(|_| parameters.is_set("hints"))
}

/// Whether an answer with rows also has hints. Hints are added only on request, because Splunk's clients take every
/// message for a result.
pub(super) fn shows_hints(parameters: &Parameters) -> bool {
    parameters.is_set("hints")
}

/// The names and patterns of the columns that a request wants; all if empty.
pub(super) fn wanted_fields(parameters: &Parameters) -> Vec<String> {
    let mut wanted = parameters.list("f");
    wanted.extend(parameters.list("field_list"));
    wanted
}

/// The columns that match the wanted names and patterns, in the order of `wanted`; `None` for all columns.
pub(super) fn select_fields(fields: &[String], wanted: &[String]) -> Option<Vec<String>> {
    if wanted.is_empty() || wanted.iter().any(|name| name == "*") {
        return None;
    }
    let mut selected: Vec<String> = Vec::new();
    for name in wanted {
        let is_pattern = name.contains('*');
        let fits = |field: &&String| if is_pattern { matches(name, field) } else { *field == name };
        for field in fields.iter().filter(fits) {
            if !selected.contains(field) {
                selected.push(field.clone());
            }
        }
    }
    Some(selected)
}

/// Writes the answer from complete rows.
fn write_collected(
    rows: &CollectedRows,
    messages: &[WireMessage],
    shown: &RowPresentation,
    take: RowSink<'_>,
) -> Result<(), WriteError> {
    let (mode, offset) = (shown.mode, shown.offset.in_total(rows.len()));
    let post_processed = shown.is_post_processed.then(|| rows.len());
    let head = ResultsHead { is_preview: false, offset, fields: rows.fields(), messages, post_processed };
    take(&|out| mode.write_head(&head, out))?;
    if mode == OutputMode::JsonCols {
        for column in 0..rows.fields().len() {
            write_column(rows, (shown, offset), column, take)?;
        }
    } else {
        shown.for_each_row(rows, offset, |row, at| Ok(take(&|out| mode.write_row(row, at, at == offset, out))?))?;
    }
    Ok(take(&|out| mode.write_end(out))?)
}

/// Writes a column of the rows from number `offset` on.
fn write_column(
    rows: &CollectedRows,
    (shown, offset): (&RowPresentation, usize),
    column: usize,
    take: RowSink<'_>,
) -> Result<(), WriteError> {
    take(&|out| out.push_str(if column == 0 { "[" } else { ",[" }))?;
    shown.for_each_row(rows, offset, |row, at| Ok(take(&|out| column_cell(row, column, at == offset, out))?))?;
    Ok(take(&|out| out.push(']'))?)
}

/// Sends the answer from complete rows.
pub(super) fn send_collected(
    rows: &CollectedRows,
    messages: &[WireMessage],
    shown: &RowPresentation,
    outlet: &mut Outlet,
) {
    let written = write_collected(rows, messages, shown, &mut |write| outlet.write(write, &mut || {}));
    // A client that disconnected cannot receive an error.
    let _left = match written {
        Ok(()) => outlet.flush(&mut || {}),
        Err(WriteError::Failed(error)) => outlet.fail(error),
        Err(WriteError::Disconnected(gone)) => Err(gone),
    };
}

/// Sends messages after the last row, except in raw text, which has no place for messages. A search without rows is
/// answered in XML with an empty document, and in JSON with a line that marks the end.
pub(super) fn send_messages(
    messages: &[WireMessage],
    (offset, has_rows): (usize, bool),
    mode: OutputMode,
    outlet: &mut Outlet,
) -> Result<(), ClientGone> {
    let release_memory = &mut || {};
    match mode {
        OutputMode::Json => {
            if !has_rows {
                outlet.write(|out| out.push_str("{\"preview\":false,\"lastrow\":true}\n"), release_memory)?;
            }
            if !messages.is_empty() {
                let message = |(kind, text): &WireMessage| serde_json::json!({ "type": kind, "text": text });
                let messages: Vec<_> = messages.iter().map(message).collect();
                let line = serde_json::json!({ "preview": false, "messages": messages });
                outlet.write(|out| out.push_str(&format!("{line}\n")), release_memory)?;
            }
        }
        OutputMode::Xml if !messages.is_empty() || !has_rows => {
            let head = ResultsHead { offset, messages, ..ResultsHead::default() };
            outlet.write(|out| mode.write_head(&head, out), release_memory)?;
            outlet.write(|out| mode.write_end(out), release_memory)?;
        }
        _ => {}
    }
    outlet.flush(release_memory)
}

/// Id of the search, for `loadjob`.
pub(super) const SID_HEADER: header::HeaderName = header::HeaderName::from_static("x-quarry-sid");

/// Value of a boolean header.
pub(super) fn flag(is_set: bool) -> &'static str {
    if is_set { "1" } else { "0" }
}

/// Whether the answer is partial; the command line derives its exit code from this header.
pub(super) const PARTIAL_HEADER: header::HeaderName = header::HeaderName::from_static("x-quarry-partial");

/// Whether the rows are events; if so, the command line shows only time and text.
pub(super) const EVENTS_HEADER: header::HeaderName = header::HeaderName::from_static("x-quarry-events");

/// Releases memory of a search whose client is not reading.
pub(super) fn release_memory(running: &mut RunningSearch) {
    if let Err(error) = running.release_memory() {
        log::warning(format!("unread rows of a search stay in memory: {error}"));
    }
}
