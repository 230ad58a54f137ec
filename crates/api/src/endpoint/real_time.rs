//! Real-time searches over REST: the window of a request, the required capability, and `export` of events as they
//! arrive and of reports as they change.
//!
//! An export of a report sends all rows of the report as a preview each time they have changed; in each preview,
//! offsets begin at 0 again.
//!
//! Real-time searches have separate slots, because they run until they are ended (limits.conf
//! `max_rt_search_multiplier`, `rtSrchJobsQuota` of roles).
//!
//! Not here: jobs over a window (search), starting such jobs ([`super::jobs`]).

use std::sync::Arc;
use std::time::Duration;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use quarry_search::live_report::{LiveReport, ReportRows};
use quarry_search::real_time::{NewEvents, NewRows, RealTimeWindow};
use quarry_search::{SearchError, SearchParams, SearchService};

use super::run_blocking;
use super::search_jobs::{AnswerBody, body_of, send_messages, typed_search, warning_messages};
use crate::ApiState;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::outlet::{ClientGone, Outlet};
use crate::parameters::Parameters;
use crate::search_slots::{SlotPermit, SlotPool, SlotPurpose};
use crate::wire::{OutputMode, ResultsHead, export_preview_row, export_row};

/// The capability that real-time searches require.
const RTSEARCH: &str = "rtsearch";
/// Interval at which an idle export checks whether its client has disconnected.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The real-time window of a request; `None` for a historical search. Fails if the caller lacks the capability, or if
/// real-time searches are switched off.
pub(super) fn parse_window(
    state: &ApiState,
    caller: &Caller,
    parameters: &Parameters,
) -> Result<Option<RealTimeWindow>, ApiError> {
    let is_wanted = parameters.get("search_mode").map(str::trim) == Some("realtime");
    let window = RealTimeWindow::of((parameters.get("earliest_time"), parameters.get("latest_time")), is_wanted)?;
    if window.is_some() && !caller.permissions.has_capability(RTSEARCH) {
        let user = &caller.identity.user;
        return Err(ApiError::forbidden(format!(
            "user {user} may not run real-time searches: they require the capability {RTSEARCH}, which none of the \
             user's \
             roles has"
        )));
    }
    if window.is_some() && state.real_time_slots.searches_max() == 0 {
        return Err(ApiError::forbidden("real-time searches are switched off (limits.conf max_rt_search_multiplier)"));
    }
    Ok(window)
}

/// Whether a window also includes events that arrived before the request.
pub(super) fn is_backfilled(parameters: &Parameters) -> bool {
    parameters.get("rt_backfill").is_none() || parameters.is_set("rt_backfill")
}

/// Refuses a real-time window at endpoints that support only historical searches.
pub(super) fn reject_window(
    state: &ApiState,
    caller: &Caller,
    parameters: &Parameters,
    what: &str,
) -> Result<(), ApiError> {
    match parse_window(state, caller, parameters)? {
        None => Ok(()),
        Some(_) => Err(ApiError::bad_request(format!(
            "{what} waits for the end of the search, but a real-time search does not end: omit exec_mode"
        ))),
    }
}

/// Waits for a slot for a caller's real-time search.
pub(super) async fn acquire_real_time_slot(state: &ApiState, caller: &Caller) -> Result<SlotPermit, ApiError> {
    let user = &caller.identity.user;
    state.real_time_slots.set_quota(user, caller.permissions.limits.real_time_jobs);
    state.real_time_slots.acquire(user, SlotPurpose::Search).await
}

/// Data that an export sends.
enum ExportSource {
    Events(NewEvents),
    Report(LiveReport),
}

/// Sends the events of a real-time search as they arrive, or its report whenever it changes, until the client
/// disconnects.
pub(super) async fn export_real_time(
    state: &ApiState,
    service: Arc<SearchService>,
    caller: &Caller,
    params: SearchParams,
    (window, is_backfilled, mode): (RealTimeWindow, bool, OutputMode),
) -> Result<Response, ApiError> {
    if !matches!(mode, OutputMode::Json | OutputMode::Raw | OutputMode::Xml) {
        return Err(ApiError::bad_request(
            "this output_mode lists all columns first, which a real-time search never knows: give json, xml or raw",
        ));
    }
    let typed = typed_search(&params);
    let answer_place = state.acquire_answer_permit()?;
    let permit = acquire_real_time_slot(state, caller).await?;
    let exported = run_blocking(move || export_source(service, params, &window, is_backfilled)).await?;
    let exported = exported.map_err(|error| ApiError::from_typed_search(&typed, error))?;
    match &exported {
        Some(ExportSource::Report(_)) if mode == OutputMode::Raw => {
            return Err(ApiError::bad_request("rows of a report have no raw text: give output_mode=json or xml"));
        }
        None => {
            return Err(ApiError::bad_request(
                "export sends events as they arrive: give earliest_time=rt and latest_time=rt, or create a job for a window",
            ));
        }
        Some(_) => {}
    }
    let user = &caller.identity.user;
    let (mut outlet, chunks) = Outlet::new(&state.real_time_slots, user, Some(permit), answer_place);
    let slots = Arc::clone(&state.real_time_slots);
    tokio::task::spawn_blocking(move || match exported {
        Some(ExportSource::Events(events)) => send(&events, mode, &slots, &mut outlet),
        Some(ExportSource::Report(report)) => send_report(report, mode, &slots, &mut outlet),
        None => {}
    });
    let headers = [(header::CONTENT_TYPE, mode.content_type())];
    Ok((headers, body_of(None, AnswerBody { chunks, attendance: None })).into_response())
}

/// The data to export; `None` for the events of a window, which only a job can show.
fn export_source(
    service: Arc<SearchService>,
    params: SearchParams,
    window: &RealTimeWindow,
    is_backfilled: bool,
) -> Result<Option<ExportSource>, SearchError> {
    // The window replaces the time range of the request.
    let params = SearchParams { earliest: None, latest: None, ..params };
    if LiveReport::is_report(&service, &params)? {
        return LiveReport::new(&service, params, window, is_backfilled)
            .map(|report| Some(ExportSource::Report(report)));
    }
    match window {
        RealTimeWindow::Arrivals => NewEvents::new(service, params).map(|events| Some(ExportSource::Events(events))),
        RealTimeWindow::Window { .. } => Ok(None),
    }
}

/// Sends a report each time it has changed.
fn send_report(mut report: LiveReport, mode: OutputMode, slots: &SlotPool, outlet: &mut Outlet) {
    while !outlet.is_closed() && !slots.is_ending() {
        let sent = match report.next(POLL_INTERVAL) {
            Ok(None) => Ok(()),
            Ok(Some(found)) => send_preview(&found, mode, outlet),
            Err(error) => {
                // A client that disconnected cannot receive an error.
                let _left = outlet.fail(error);
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Sends all rows of a report.
fn send_preview(found: &ReportRows, mode: OutputMode, outlet: &mut Outlet) -> Result<(), ClientGone> {
    let release_memory = &mut || {};
    let (rows, messages) = (&found.rows, warning_messages(found.messages.clone()));
    if mode == OutputMode::Xml {
        let fields = rows.fields();
        let head = ResultsHead { is_preview: true, offset: 0, fields, messages: &messages, post_processed: None };
        outlet.write(|out| mode.write_head(&head, out), release_memory)?;
    } else {
        for told in found.messages.clone() {
            send_messages(&warning_messages(vec![told]), (0, true), mode, outlet)?;
        }
        if rows.is_empty() {
            // Without this line, a client would keep showing the previous rows.
            outlet.write(|out| out.push_str("{\"preview\":true,\"offset\":0,\"lastrow\":true}\n"), release_memory)?;
        }
    }
    for (at, row) in rows.rows().enumerate() {
        let is_last = at + 1 == rows.len();
        outlet.write(
            |out| match mode {
                OutputMode::Json => export_preview_row(row, at, is_last, out),
                _ => mode.write_row(row, at, false, out),
            },
            release_memory,
        )?;
    }
    if mode == OutputMode::Xml {
        outlet.write(|out| mode.write_end(out), release_memory)?;
    }
    outlet.flush(release_memory)
}

/// Sends events as they arrive.
fn send(events: &NewEvents, mode: OutputMode, slots: &SlotPool, outlet: &mut Outlet) {
    let mut offset = 0;
    while !outlet.is_closed() && !slots.is_ending() {
        let sent = match events.next(POLL_INTERVAL) {
            Ok(found) => send_rows(&found, mode, &mut offset, outlet),
            Err(error) => {
                // A client that disconnected cannot receive an error.
                let _left = outlet.fail(error);
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn send_rows(found: &NewRows, mode: OutputMode, offset: &mut usize, outlet: &mut Outlet) -> Result<(), ClientGone> {
    let release_memory = &mut || {};
    let missed = found.missed;
    let told = (missed > 0).then(|| format!("{missed} events arrived faster than they were read and were dropped"));
    let Some(rows) = found.rows.as_ref() else {
        return match told {
            Some(told) => send_messages(&warning_messages(vec![told]), (0, true), mode, outlet),
            None => Ok(()),
        };
    };
    if mode == OutputMode::Xml && !rows.is_empty() {
        let (fields, messages) = (rows.fields(), warning_messages(told.into_iter().collect()));
        let head =
            ResultsHead { is_preview: false, offset: *offset, fields, messages: &messages, post_processed: None };
        outlet.write(|out| mode.write_head(&head, out), release_memory)?;
    } else if let Some(told) = told {
        send_messages(&warning_messages(vec![told]), (0, true), mode, outlet)?;
    }
    for row in rows.rows() {
        outlet.write(
            |out| match mode {
                OutputMode::Json => export_row(row, *offset, false, out),
                _ => mode.write_row(row, *offset, false, out),
            },
            release_memory,
        )?;
        *offset += 1;
    }
    if mode == OutputMode::Xml && !rows.is_empty() {
        outlet.write(|out| mode.write_end(out), release_memory)?;
    }
    outlet.flush(release_memory)
}
