//! `/api/v1/jobs/SID/stream`: progress of a job as server-sent events (WHATWG HTML, section 9.2).
//!
//! The events are `state` (progress), `timeline` (spans with changed counts), `fields` (changed statistics of the first
//! events' fields), `preview` (the current rows of a report), `rows` (the first rows of the result, as they are found),
//! `end`, and `error` instead of `end` if rows cannot be read. The data of each event is a JSON object. A new
//! connection receives everything again. A stream counts as a reader of previews, so the job continues to make
//! previews.
//!
//! Not here: all rows of a result ([`super::job_results`]).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::tz::TimeZone;
use quarry_conf::permissions::SEARCH;
use quarry_search::SearchError;
use quarry_search::jobs::{JobState, JobStatus, RowsView, RunningSummary, SearchJob};
use serde_json::{Map, Value, json};

use super::answer_shape::AnswerShape;
use super::job_results::zone_of;
use super::jobs::find_job;
use super::path_parts::PathParts;
use super::row::{Access, Endpoint};
use super::run_blocking;
use crate::ApiState;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::wire::{OutputMode, ResultsHead};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of polls without news after which a comment is sent as a heartbeat (ten seconds).
const IDLE_POLLS_MAX: u32 = 100;
/// Default and maximum rows of `rows` and `preview`.
const COUNT_DEFAULT: usize = 100;
const COUNT_MAX: usize = 1_000;

/// Maximum number of events whose fields are summarised; the job's summary covers all events.
const FIELD_EVENTS_MAX: usize = 10_000;
/// Factor by which the number of events grows before the fields are summarised again.
const FIELD_GROWTH: usize = 2;
/// Maximum number of a field's most frequent values.
const FIELD_VALUES_MAX: usize = 10;

/// Maximum number of streams of all users and of one user; further ones are refused, because each stream polls its job.
const STREAMS_MAX: usize = 512;
const STREAMS_PER_USER_MAX: usize = 64;

/// Number of streams per user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<BTreeMap<String, usize>>>);

/// Permit for a stream, released when dropped.
#[derive(Debug)]
struct StreamPermit {
    streams: Streams,
    user: String,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        // A poisoned lock is safe to use, because each change is a single number.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for one more stream of a user, if available.
    fn try_acquire(&self, user: &str) -> Option<StreamPermit> {
        let mut of_users = self.lock();
        let own = of_users.get(user).copied().unwrap_or(0);
        if own >= STREAMS_PER_USER_MAX || of_users.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        of_users.insert(user.to_owned(), own + 1);
        Some(StreamPermit { streams: self.clone(), user: user.to_owned() })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut of_users = self.streams.lock();
        let left = of_users.get(&self.user).map_or(0, |own| own.saturating_sub(1));
        match left {
            0 => of_users.remove(&self.user),
            left => of_users.insert(self.user.clone(), left),
        };
    }
}

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (access, summary) = (Access::Capability(SEARCH), "Streams the progress of a job as server-sent events.");
    vec![
        Endpoint::new(Method::GET, "jobs/{sid}/stream", access, summary, get(stream))
            .in_quarry_api()
            .takes(&["count", "zone"])
            .answers(AnswerShape::Texts(&["text/event-stream"])),
    ]
}

async fn stream(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    let zone = zone_of(&parameters, &job)?;
    let count = parameters.number("count")?.unwrap_or(COUNT_DEFAULT).min(COUNT_MAX);
    let permit = state.streams.try_acquire(&caller.identity.user).ok_or_else(|| {
        ApiError::too_many(format!(
            "too many open streams: at most {STREAMS_PER_USER_MAX} per user and {STREAMS_MAX} in all; close one"
        ))
    })?;
    let stream = JobStream { sent: StreamState::new(zone, count), job, is_over: false, _permit: permit };
    let body = Body::from_stream(futures::stream::unfold(stream, JobStream::next));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// The stream of the progress of a job to one client.
struct JobStream {
    job: Arc<SearchJob>,
    sent: StreamState,
    is_over: bool,
    _permit: StreamPermit,
}

impl JobStream {
    /// Waits for the next events; `None` at the end.
    async fn next(mut self) -> Option<(Result<String, Infallible>, JobStream)> {
        if self.is_over {
            return None;
        }
        for _ in 0..IDLE_POLLS_MAX {
            let (job, mut told) = (Arc::clone(&self.job), self.sent);
            // Reading rows from a file blocks.
            let looked = run_blocking(move || {
                let news = told.pending_events(&job);
                (told, news)
            });
            // An error means that the server is stopping.
            let (told, news) = looked.await.ok()?;
            self.sent = told;
            self.is_over = news.is_last;
            if !news.text.is_empty() {
                return Some((Ok(news.text), self));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Some((Ok(":\n\n".to_owned()), self))
    }
}

/// State that a client has received so far.
struct StreamState {
    zone: TimeZone,
    count: usize,
    state: String,
    /// The span length, and the counts by span start.
    spans: (i64, BTreeMap<i64, u64>),
    previews: u64,
    rows: usize,
    fields: FieldState,
}

/// Statistics of fields that a client has received.
#[derive(Default)]
struct FieldState {
    counted: RunningSummary,
    /// Each field's statistics.
    sent: BTreeMap<String, Value>,
}

/// Events to send.
struct PendingEvents {
    text: String,
    is_last: bool,
}

impl StreamState {
    fn new(zone: TimeZone, count: usize) -> StreamState {
        let fields = FieldState::default();
        StreamState { zone, count, state: String::new(), spans: (0, BTreeMap::new()), previews: 0, rows: 0, fields }
    }

    /// Events that the client has not received yet.
    fn pending_events(&mut self, job: &SearchJob) -> PendingEvents {
        // A stream counts as an access, so that the job does not expire.
        job.record_access();
        // The state is read first: if it says that the job is over, all rows and counts read after it are final.
        let status = job.status();
        let mut text = String::new();
        self.write_state(&status, &mut text);
        self.write_timeline(job, &mut text);
        let fields = self.fields.write(job, &status, &self.zone, &mut text);
        if let Err(error) = fields.and_then(|()| self.write_rows(job, &status, &mut text)) {
            write_event("error", &json!({ "text": error.to_string() }).to_string(), &mut text);
            return PendingEvents { text, is_last: true };
        }
        let is_last = status.state.is_over();
        if is_last {
            write_event("end", &json!({ "state": status.state.name() }).to_string(), &mut text);
        }
        PendingEvents { text, is_last }
    }

    fn write_state(&mut self, status: &JobStatus, out: &mut String) {
        let done = if status.state.is_over() { 1.0 } else { status.done };
        let messages: Vec<&String> = status.messages.iter().chain(&status.hints).collect();
        let state = json!({
            "sid": status.record.sid(), "state": status.state.name(), "done": done, "rows": status.rows,
            "events": status.is_events, "scanned": status.scanned, "matched": status.matched, "messages": messages,
            "failure": status.failure,
        });
        let state = state.to_string();
        if state != self.state {
            write_event("state", &state, out);
            self.state = state;
        }
    }

    fn write_timeline(&mut self, job: &SearchJob, out: &mut String) {
        let timeline = job.timeline();
        let seconds = timeline.spans().next().map_or(0, |span| span.seconds);
        let is_wider = seconds != self.spans.0;
        if is_wider {
            self.spans = (seconds, BTreeMap::new());
        }
        let known = &mut self.spans.1;
        let news = timeline.spans().filter(|span| known.insert(span.start, span.count) != Some(span.count));
        let news: Vec<[i64; 2]> =
            news.map(|span| [span.start, i64::try_from(span.count).unwrap_or(i64::MAX)]).collect();
        if !news.is_empty() {
            write_event("timeline", &json!({ "seconds": seconds, "anew": is_wider, "spans": news }).to_string(), out);
        }
    }

    fn write_rows(&mut self, job: &SearchJob, status: &JobStatus, out: &mut String) -> Result<(), SearchError> {
        if status.previews > self.previews && !status.state.is_over() && status.rows == 0 {
            self.previews = status.previews;
            let view = job.preview(0, self.count)?;
            write_event("preview", &self.page(&view, true)?, out);
        } else if status.state == JobState::Running && !status.is_events {
            // Reading a preview, here without rows, requests the next preview.
            job.preview(0, 0)?;
        }
        let rows = status.rows.min(self.count);
        if rows > self.rows || (status.state == JobState::Done && self.rows == 0) {
            let view = job.rows(self.rows, rows - self.rows)?;
            self.rows = rows;
            write_event("rows", &self.page(&view, false)?, out);
        }
        Ok(())
    }

    /// Rows as an object with `fields` and `rows`.
    fn page(&self, view: &RowsView, is_preview: bool) -> Result<String, SearchError> {
        let (mode, offset, fields) = (OutputMode::JsonRows, view.offset(), view.fields());
        let head = ResultsHead { is_preview, offset, fields, messages: &[], post_processed: None };
        let mut out = String::new();
        mode.write_head(&head, &mut out);
        let mut at = offset;
        for table in view.tables(&self.zone) {
            for row in table?.rows() {
                mode.write_row(row, at, at == offset, &mut out);
                at += 1;
            }
        }
        mode.write_end(&mut out);
        Ok(out)
    }
}

impl FieldState {
    /// Writes the fields whose statistics have changed. The events of a real-time search change as a whole, so their
    /// fields are not summarised.
    fn write(
        &mut self,
        job: &SearchJob,
        status: &JobStatus,
        zone: &TimeZone,
        out: &mut String,
    ) -> Result<(), SearchError> {
        let known = usize::try_from(self.counted.rows()).unwrap_or(usize::MAX);
        let rows = status.rows.min(FIELD_EVENTS_MAX);
        let is_due = rows >= known.saturating_mul(FIELD_GROWTH) || status.state.is_over() || rows == FIELD_EVENTS_MAX;
        if !status.is_events || job.is_real_time() || rows <= known || !is_due {
            return Ok(());
        }
        self.counted.add(&job.rows(known, rows - known)?, zone)?;
        let shown = self.counted.fields().into_iter().filter(|(_, field)| field.count > 0);
        let shown = shown.map(|(name, field)| {
            let values: Vec<Value> =
                field.values.iter().take(FIELD_VALUES_MAX).map(|value| json!([value.value, value.count])).collect();
            (name, json!({ "count": field.count, "distinct": field.distinct, "values": values }))
        });
        let news: Map<String, Value> = shown
            .filter(|(name, field)| self.sent.insert(name.clone(), field.clone()).as_ref() != Some(field))
            .collect();
        write_event("fields", &json!({ "events": self.counted.rows(), "fields": news }).to_string(), out);
        Ok(())
    }
}

/// Writes an event; each line of its data is a separate field.
fn write_event(name: &str, data: &str, out: &mut String) {
    // Writing to a string cannot fail.
    let _written = writeln!(out, "event: {name}");
    data.lines().for_each(|line| {
        let _written = writeln!(out, "data: {line}");
    });
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_cannot_hold_all_streams() {
        let streams = Streams::default();
        let own: Vec<StreamPermit> = (0..STREAMS_PER_USER_MAX).filter_map(|_| streams.try_acquire("eva")).collect();
        assert!(own.len() == STREAMS_PER_USER_MAX && streams.try_acquire("eva").is_none());
        let others: Vec<StreamPermit> =
            (0..STREAMS_MAX).filter_map(|at| streams.try_acquire(&(at % 20).to_string())).collect();
        assert_eq!(own.len() + others.len(), STREAMS_MAX);
        drop(own);
        assert!(streams.try_acquire("eva").is_some());
        drop(others);
        assert!(streams.lock().is_empty());
    }

    #[test]
    fn each_data_line_is_a_line_of_the_event() {
        let mut out = String::new();
        write_event("rows", "{\"a\":\n1}", &mut out);
        write_event("end", "{}", &mut out);
        assert_eq!(out, "event: rows\ndata: {\"a\":\ndata: 1}\n\nevent: end\ndata: {}\n\n");
    }
}
