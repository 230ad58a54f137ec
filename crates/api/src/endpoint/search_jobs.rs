//! `POST /services/search/jobs` with `exec_mode=oneshot`, and `/services/search/jobs/export`.
//!
//! Oneshot answers with all rows at once (`count`, default 100, limits them; 0 is all). Export streams rows as the
//! search finds them. `/services/quarry/explain` tells what a search would read. Below `/servicesNS/USER/APP` the same,
//! with the knowledge that this user has in this app. Jobs that live on after the request are not here yet and are
//! refused with a word about it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use futures::{StreamExt, stream};
use jiff::tz::TimeZone;
use quarry_engine::Stopper;
use quarry_event::time::parse_zone;
use quarry_search::{CollectedRows, RunningSearch, SearchError, SearchParams, SearchService};
use serde::Deserialize;

use super::{blocking, identify, is_admin};
use crate::ApiState;
use crate::message::ApiError;
use crate::wire::{self, OutputMode};

/// Rows of a oneshot answer when the request names no `count` (Splunk's default).
const COUNT_DEFAULT: usize = 100;

/// In the place of a user: all of them, none.
const NOT_USERS: [&str; 2] = ["-", "nobody"];

/// Chunks of an export waiting for a slow client; the search waits with them.
const EXPORT_CHUNKS_MAX: usize = 4;

pub(crate) fn routes() -> Router<ApiState> {
    let mut router = Router::new();
    for root in ["/services", "/servicesNS/{user}/{app}"] {
        router = router
            .route(&format!("{root}/search/jobs"), post(create))
            .route(&format!("{root}/quarry/explain"), post(explain))
            .route(&format!("{root}/search/jobs/export"), get(export_get).post(export_post))
            .route(&format!("{root}/search/v2/jobs/export"), get(export_get).post(export_post));
    }
    router
}

/// Parts of the path by name: the user and the app, or nothing.
type Place = Path<BTreeMap<String, String>>;

/// Who runs the searches of this path for whoever sent the request: what a user has is for this user and for
/// administrators.
async fn service_of(state: &ApiState, headers: &HeaderMap, place: Place) -> Result<Arc<SearchService>, ApiError> {
    let identity = identify(state, headers).await?;
    let Path(mut parts) = place;
    let (Some(user), Some(app)) = (parts.remove("user"), parts.remove("app")) else { return Ok(state.search.clone()) };
    if !NOT_USERS.contains(&user.as_str()) && user != identity.user && !is_admin(&identity) {
        return Err(ApiError::forbidden(format!("user {} may not search as {user}", identity.user)));
    }
    let node = state.node.clone();
    Ok(blocking(move || node.search_in(&user, &app)).await??)
}

/// Splunk's parameters that these endpoints read; others are accepted and have no effect.
#[derive(Clone, Default, Deserialize)]
struct JobForm {
    search: String,
    exec_mode: Option<String>,
    output_mode: Option<String>,
    earliest_time: Option<String>,
    latest_time: Option<String>,
    /// Zone of times typed and shown; ours.
    zone: Option<String>,
    count: Option<usize>,
}

impl JobForm {
    fn params(&self, rows_max: Option<usize>) -> Result<SearchParams, ApiError> {
        let unknown =
            |name: &str| ApiError::bad_request(format!("zone={name} is not known: give one as Europe/Berlin"));
        let named = self.zone.as_deref().filter(|name| !name.is_empty());
        let zone = named.map(|name| parse_zone(name).ok_or_else(|| unknown(name))).transpose()?;
        Ok(SearchParams {
            text: self.search.clone(),
            earliest: self.earliest_time.clone().filter(|text| !text.is_empty()),
            latest: self.latest_time.clone().filter(|text| !text.is_empty()),
            zone,
            rows_max,
            is_narrowed: false,
        })
    }
}

/// What a search would read: `output_mode=text` or `json`.
async fn explain(
    State(state): State<ApiState>,
    place: Place,
    headers: HeaderMap,
    Form(form): Form<JobForm>,
) -> Result<Response, ApiError> {
    let service = service_of(&state, &headers, place).await?;
    let params = form.params(None)?;
    let node = state.node.clone();
    let zone = params.zone.clone().unwrap_or_else(|| service.zone());
    let is_json = form.output_mode.as_deref() != Some("text");
    let explained = blocking(move || {
        let explanation = service.explain(params, true).map_err(ApiError::from)?;
        let shown = node.explanation(&form.search, &explanation, &zone, is_json);
        shown.map_err(|error| ApiError::internal(error.to_string()))
    })
    .await??;
    let kind = if is_json { "application/json; charset=UTF-8" } else { "text/plain; charset=UTF-8" };
    Ok(([(header::CONTENT_TYPE, kind)], explained).into_response())
}

async fn create(
    State(state): State<ApiState>,
    place: Place,
    headers: HeaderMap,
    Form(form): Form<JobForm>,
) -> Result<Response, ApiError> {
    let service = service_of(&state, &headers, place).await?;
    if form.exec_mode.as_deref() != Some("oneshot") {
        return Err(ApiError::bad_request(
            "only exec_mode=oneshot is served: ask for it, or use /services/search/jobs/export",
        ));
    }
    let mode = OutputMode::parse(form.output_mode.as_deref()).map_err(ApiError::bad_request)?;
    let count = form.count.unwrap_or(COUNT_DEFAULT);
    let params = form.params(Some(count).filter(|count| *count > 0))?;
    let zone = params.zone.clone().unwrap_or_else(|| service.zone());
    let turn = state.turn().await?;
    let attendance = Attendance::default();
    let attended = Arc::clone(&attendance.search);
    let collected = blocking(move || {
        let mut running = service.start_here(params)?;
        begin_attended(&attended, &running);
        let rows = running.collect_rows(&zone)?;
        Ok::<_, SearchError>((rows, running, turn))
    });
    let (rows, running, turn) = collected.await??;
    attendance.end();
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let content_type = (header::CONTENT_TYPE, mode.content_type());
    let sid = running.id().to_owned();
    let flags = [
        content_type,
        (PARTIAL_HEADER, flag(running.is_partial())),
        (EVENTS_HEADER, flag(running.is_events())),
        (SID_HEADER, sid.as_str()),
    ];
    let messages = running.messages();
    let body = match rows.is_one_part() {
        true => Body::from(texts_of(&rows, &messages, mode).collect::<Result<String, SearchError>>()?),
        false => streamed(move |sender| {
            let _turn = turn;
            send_collected(&rows, &messages, mode, sender);
        }),
    };
    Ok((flags, body).into_response())
}

/// A body that `write` sends in chunks; where it cannot go on, the body ends with the reason in a chunk's place.
fn streamed(write: impl FnOnce(&Sender) + Send + 'static) -> Body {
    body_of(None, Chunks { receiver: chunks_of(write), attendance: None })
}

/// As [`streamed`], once the first chunk is there: a search that fails before is an answer of its own.
async fn begun(attendance: Attendance, write: impl FnOnce(&Sender) + Send + 'static) -> Result<Body, ApiError> {
    let mut chunks = Chunks { receiver: chunks_of(write), attendance: Some(attendance) };
    let first = chunks.next().await.transpose()?;
    Ok(body_of(first, chunks))
}

fn chunks_of(write: impl FnOnce(&Sender) + Send + 'static) -> Receiver {
    let (sender, receiver) = tokio::sync::mpsc::channel(EXPORT_CHUNKS_MAX);
    tokio::task::spawn_blocking(move || write(&sender));
    receiver
}

/// The search that a client waits for; `None` when the client left before it began.
type Attended = OnceLock<Option<Stopper>>;

/// Stops a search whose client leaves: nothing may be sent for long, so that sending would not tell.
#[derive(Default)]
struct Attendance {
    search: Arc<Attended>,
    is_over: bool,
}

impl Attendance {
    fn of(running: &RunningSearch) -> Attendance {
        let attendance = Attendance::default();
        begin_attended(&attendance.search, running);
        attendance
    }

    /// The search has ended.
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if let Some(stopper) = self.search.get_or_init(|| None).as_ref().filter(|_| !self.is_over) {
            stopper.cancel();
        }
    }
}

/// The search begins, unless its client has left.
fn begin_attended(attended: &Attended, running: &RunningSearch) {
    if attended.get_or_init(|| Some(running.stopper())).is_none() {
        running.cancel();
    }
}

/// Chunks of a body, and who waits for them.
struct Chunks {
    receiver: Receiver,
    attendance: Option<Attendance>,
}

impl Chunks {
    async fn next(&mut self) -> Option<Result<Bytes, SearchError>> {
        let chunk = self.receiver.recv().await;
        if chunk.is_none()
            && let Some(attendance) = self.attendance.take()
        {
            attendance.end();
        }
        chunk
    }
}

fn body_of(first: Option<Bytes>, rest: Chunks) -> Body {
    let rest = stream::unfold(rest, |mut rest| async { rest.next().await.map(|chunk| (chunk, rest)) });
    Body::from_stream(stream::iter(first.map(Ok)).chain(rest))
}

/// The answer with rows that are all there, part by part.
fn texts_of(
    rows: &CollectedRows,
    messages: &[String],
    mode: OutputMode,
) -> impl Iterator<Item = Result<String, SearchError>> {
    let head = match mode {
        OutputMode::Json => wire::results_head(rows.fields(), messages),
        OutputMode::Csv => wire::csv_head(rows.fields()),
        OutputMode::Raw => String::new(),
    };
    let mut is_first = true;
    let parts = rows.parts().map(move |part| {
        let part = part?;
        Ok(match mode {
            OutputMode::Json => wire::results_rows(&part, std::mem::take(&mut is_first)),
            OutputMode::Csv => wire::csv_rows(&part),
            OutputMode::Raw => wire::raw(&part),
        })
    });
    let end = if mode == OutputMode::Json { wire::RESULTS_END } else { "" };
    std::iter::once(Ok(head)).chain(parts).chain([Ok(end.to_owned())])
}

/// Sends the answer with rows that are all there.
fn send_collected(rows: &CollectedRows, messages: &[String], mode: OutputMode, sender: &Sender) {
    for text in texts_of(rows, messages, mode) {
        let failed = text.is_err();
        let chunk = text.map(Bytes::from);
        if sender.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// Name of the search, which `loadjob` takes.
const SID_HEADER: header::HeaderName = header::HeaderName::from_static("x-quarry-sid");

/// Says whether an answer is partial; the command line turns it into its exit code.
const PARTIAL_HEADER: header::HeaderName = header::HeaderName::from_static("x-quarry-partial");

/// Says whether the rows are events; the command line shows them by time and text.
const EVENTS_HEADER: header::HeaderName = header::HeaderName::from_static("x-quarry-events");

async fn export_get(
    State(state): State<ApiState>,
    place: Place,
    headers: HeaderMap,
    Query(form): Query<JobForm>,
) -> Result<Response, ApiError> {
    export(state, place, headers, form).await
}

async fn export_post(
    State(state): State<ApiState>,
    place: Place,
    headers: HeaderMap,
    Form(form): Form<JobForm>,
) -> Result<Response, ApiError> {
    export(state, place, headers, form).await
}

async fn export(state: ApiState, place: Place, headers: HeaderMap, form: JobForm) -> Result<Response, ApiError> {
    let service = service_of(&state, &headers, place).await?;
    let mode = OutputMode::parse(form.output_mode.as_deref()).map_err(ApiError::bad_request)?;
    let params = form.params(form.count.filter(|count| *count > 0))?;
    let zone = params.zone.clone();
    let turn = state.turn().await?;
    let running = blocking(move || service.start(params)).await??;
    let sid = running.id().to_owned();
    let zone = zone.unwrap_or_else(|| state.search.zone());
    let attendance = Attendance::of(&running);
    let write = move |sender: &Sender| {
        let _turn = turn;
        stream_rows(running, mode, &zone, sender);
    };
    let body = begun(attendance, write).await?;
    let headers = [(header::CONTENT_TYPE, mode.content_type()), (SID_HEADER, sid.as_str())];
    Ok((headers, body).into_response())
}

type Sender = tokio::sync::mpsc::Sender<Result<Bytes, SearchError>>;
type Receiver = tokio::sync::mpsc::Receiver<Result<Bytes, SearchError>>;

/// Sends each batch as it comes. One batch is held back so that the last row can be marked.
fn stream_rows(mut running: RunningSearch, mode: OutputMode, zone: &TimeZone, sender: &Sender) {
    if mode == OutputMode::Csv {
        // A CSV needs all its columns in the first line, so it begins when all rows are there.
        match running.collect_rows(zone) {
            Ok(rows) => send_collected(&rows, &[], mode, sender),
            Err(error) => {
                let _client_left = sender.blocking_send(Err(error));
            }
        }
        return;
    }
    let mut held = None;
    let mut offset = 0;
    loop {
        let next = match running.next_table(zone) {
            Ok(next) => next,
            Err(error) => {
                // The status is sent already; an export ends with the reason in its last chunk's place.
                let _client_left = sender.blocking_send(Err(error));
                return;
            }
        };
        let last = next.is_none();
        if let Some(table) = std::mem::replace(&mut held, next) {
            let text =
                if mode == OutputMode::Json { wire::export_json(&table, offset, last) } else { wire::raw(&table) };
            offset += table.len();
            if sender.blocking_send(Ok(Bytes::from(text))).is_err() {
                running.cancel();
                return;
            }
        }
        if last {
            return;
        }
    }
}
