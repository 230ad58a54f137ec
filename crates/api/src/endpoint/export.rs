//! `/services/search/jobs/export`: streams the rows of a search as they are found, and then the messages of the search.
//!
//! In JSON each row is a line; in XML each batch of rows is a separate document, as in Splunk. Messages are sent last,
//! when they are complete, in a line or document without rows. Formats that begin with the names of all columns are
//! sent after the search has ended. Not here: real-time windows ([`super::real_time`]).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::tz::TimeZone;
use quarry_conf::permissions::SEARCH;
use quarry_search::{AnswerWatch, AnsweredSearch, ResultTable, Row, RunningSearch, SearchError};

use super::answer_shape::AnswerShape;
use super::job_arguments::argument_messages;
use super::path_parts::PathParts;
use super::real_time::{export_real_time, is_backfilled, parse_window};
use super::row::{Access, Endpoint};
use super::run_blocking;
use super::search_jobs::{
    AnswerBody, DisconnectGuard, RowPresentation, SEARCH_PARAMETERS, SID_HEADER, TimeBound, WriteError, body_of,
    hint_messages, mode_of, params_of, release_memory, select_fields, send_collected, send_messages, service_of,
    shows_hints, typed_search, wanted_fields, warning_messages,
};
use crate::ApiState;
use crate::caller::Caller;
use crate::message::{ApiError, TypedSearch};
use crate::outlet::Outlet;
use crate::parameters::Parameters;
use crate::search_slots::SlotPurpose;
use crate::wire::{OutputMode, ResultsHead, WireMessage, export_row};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |jobs: &str| {
        let (path, summary) = (format!("{jobs}/export"), "Runs a search and streams its rows.");
        [(Method::GET, get(export)), (Method::POST, post(export))].map(|(method, serve)| {
            Endpoint::new(method, path.as_str(), Access::Capability(SEARCH), summary, serve)
                .needs(&["search"])
                .takes(SEARCH_PARAMETERS)
                .answers(AnswerShape::Lines)
        })
    };
    super::jobs::COLLECTIONS.into_iter().flat_map(of).collect()
}

/// A search whose rows are sent as they are found.
struct StreamedSearch {
    running: RunningSearch,
    /// Observes the rows, if hints are wanted.
    watch: Option<AnswerWatch>,
    /// Messages about the request itself.
    told: Vec<String>,
    /// Names and patterns of the columns returned; all if empty.
    fields: Vec<String>,
    bound: TimeBound,
    mode: OutputMode,
    zone: TimeZone,
}

async fn export(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let service = service_of(&state, &caller, &place).await?;
    let mode = mode_of(&parameters)?;
    let params = params_of(&service, &parameters, &caller, parameters.number("count")?)?;
    if let Some(window) = parse_window(&state, &caller, &parameters)? {
        let is_backfilled = is_backfilled(&parameters);
        return export_real_time(&state, service, &caller, params, (window, is_backfilled, mode)).await;
    }
    let (typed, zone) = (typed_search(&params), params.zone.clone().unwrap_or_else(|| service.zone()));
    let has_hints = shows_hints(&parameters) && mode.has_messages() && params.shape.sample <= 1;
    let searched = Arc::clone(&service);
    let answer_place = state.acquire_answer_permit()?;
    let permit = state.acquire_slot(&caller, SlotPurpose::Stream).await?;
    // Rows are produced only when they can be sent, so that no rows accumulate for a slow client.
    let running = run_blocking(move || service.start_on_reader_thread(params)).await?;
    let running = running.map_err(|error| ApiError::from_typed_search(&typed, error))?;
    let sid = running.id().to_owned();
    let attendance = DisconnectGuard::of(&running);
    let bound = TimeBound::of(&caller, &attendance);
    let (mut outlet, chunks) = Outlet::new(&state.slots, &caller.identity.user, Some(permit), answer_place);
    let watch = has_hints.then(|| {
        let (permissions, range) = (Arc::clone(&caller.permissions), running.range());
        let TypedSearch { text, prefix } = typed.clone();
        let search = AnsweredSearch { service: searched, text, prefix, range, zone: zone.clone(), permissions };
        AnswerWatch::new(search, running.is_events())
    });
    let (told, fields) = (argument_messages(&parameters), wanted_fields(&parameters));
    let streamed = StreamedSearch { running, watch, told, fields, bound, mode, zone };
    tokio::task::spawn_blocking(move || streamed.send(&mut outlet));
    let mut answer = AnswerBody { chunks, attendance: Some(attendance) };
    // The first chunk is awaited, so that a search that fails before its first row gets an error status.
    let first = answer.next().await.transpose().map_err(|error| ApiError::from_typed_search(&typed, error))?;
    let headers = [(header::CONTENT_TYPE, mode.content_type()), (SID_HEADER, sid.as_str())];
    Ok((headers, body_of(first, answer)).into_response())
}

impl StreamedSearch {
    /// Sends rows as they are found.
    fn send(mut self, outlet: &mut Outlet) {
        let sent = match self.mode {
            // These formats begin with the list of all columns, which is known only after all rows.
            OutputMode::Csv(_) | OutputMode::JsonRows | OutputMode::JsonCols => {
                match self.running.collect_rows_to_send(&self.zone, |_| {}) {
                    Ok(rows) => {
                        let seen = match &mut self.watch {
                            Some(watch) if rows.is_small() => {
                                rows.parts().try_for_each(|part| part.map(|part| watch.observe_rows(&part)))
                            }
                            _ => {
                                self.watch = None;
                                Ok(())
                            }
                        };
                        let rows = match select_fields(rows.fields(), &self.fields) {
                            Some(fields) => rows.with_fields(&fields),
                            None => rows,
                        };
                        let messages = self.messages();
                        let shown = RowPresentation::all(self.mode);
                        drop(self);
                        return match seen {
                            Ok(()) => send_collected(&rows, &messages, &shown, outlet),
                            // A client that disconnected cannot receive an error.
                            Err(error) => drop(outlet.fail(error)),
                        };
                    }
                    Err(error) => outlet.fail(error),
                }
            }
            OutputMode::Xml | OutputMode::Json | OutputMode::Raw => match self.send_tables(outlet) {
                Ok(()) => Ok(()),
                Err(WriteError::Failed(error)) => outlet.fail(error),
                Err(WriteError::Disconnected(gone)) => Err(gone),
            },
        };
        if sent.is_err() {
            self.running.cancel();
        }
    }

    /// The messages of the search, once all rows have been seen.
    fn messages(&self) -> Vec<WireMessage> {
        let running = &self.running;
        let told = running.messages().into_iter().chain(self.bound.timeout_message()).chain(self.told.iter().cloned());
        let is_whole = !running.is_partial() && !running.has_reached_row_limit();
        let watch = self.watch.as_ref().filter(|_| is_whole);
        let hints = watch.map(|watch| watch.find_hints(&|| false)).unwrap_or_default();
        warning_messages(told.collect()).into_iter().chain(hint_messages(hints)).collect()
    }

    /// Sends each batch as it is found, except for its last row, which is held back because the last row of the answer
    /// is marked.
    fn send_tables(&mut self, outlet: &mut Outlet) -> Result<(), WriteError> {
        let mode = self.mode;
        let mut offset = 0;
        let mut table = self.next_rows()?;
        let has_rows = table.is_some();
        while let Some(rows) = table {
            let last = rows.len() - 1;
            let head = ResultsHead { offset, fields: rows.fields(), ..ResultsHead::default() };
            let leave = &mut || release_memory(&mut self.running);
            // In XML, each batch is a separate document, as in Splunk.
            outlet.write(|out| begin(mode, &head, out), leave)?;
            for (row, offset) in rows.rows().take(last).zip(offset..) {
                outlet.write(|out| write_row(row, offset, false, mode, out), leave)?;
            }
            let next = self.next_rows();
            let leave = &mut || release_memory(&mut self.running);
            if let Some(row) = rows.rows().nth(last) {
                let is_last = matches!(next, Ok(None));
                outlet.write(|out| write_row(row, offset + last, is_last, mode, out), leave)?;
            }
            outlet.write(|out| end(mode, out), leave)?;
            outlet.flush(leave)?;
            offset += rows.len();
            table = next?;
        }
        let messages = self.messages();
        Ok(send_messages(&messages, (offset, has_rows), mode, outlet)?)
    }

    /// The next rows, at least one; `None` at the end.
    fn next_rows(&mut self) -> Result<Option<ResultTable>, SearchError> {
        loop {
            match self.running.next_table(&self.zone)? {
                Some(rows) if rows.is_empty() => {}
                Some(rows) => {
                    if let Some(watch) = &mut self.watch {
                        watch.observe_rows(&rows);
                    }
                    return Ok(Some(match select_fields(rows.fields(), &self.fields) {
                        Some(fields) => rows.select(&fields),
                        None => rows,
                    }));
                }
                None => return Ok(None),
            }
        }
    }
}

/// Begins a batch of rows.
fn begin(mode: OutputMode, head: &ResultsHead<'_>, out: &mut String) {
    if mode == OutputMode::Xml {
        mode.write_head(head, out);
    }
}

/// Ends a batch of rows.
fn end(mode: OutputMode, out: &mut String) {
    if mode == OutputMode::Xml {
        mode.write_end(out);
    }
}

fn write_row(row: Row<'_>, offset: usize, is_last: bool, mode: OutputMode, out: &mut String) {
    match mode {
        OutputMode::Json => export_row(row, offset, is_last, out),
        _ => mode.write_row(row, offset, false, out),
    }
}
