//! `POST /services/indexing/preview` and `/api/v1/ingest/preview`: show the events into which a file on the server, or
//! a text in the request, would be split.
//!
//! With `input.path`, `indexing/preview` creates a job with the events, as in Splunk, and answers with the ID of the
//! job as a message; with `name`, it answers with the preview itself.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::post;

use super::answer_shape::{AnswerShape, MESSAGES};
use super::jobs::{APP, job_refusal, message_response};
use super::path_parts::PathParts;
use super::row::{Access, EDIT_MONITOR, Endpoint, RequestBody};
use super::search_jobs::service_of;
use super::shape::Shape;
use super::{json_response, run_blocking};
use crate::atom::Form;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, PreviewFile, PreviewText};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let access = Access::Capability(EDIT_MONITOR);
    let summary =
        "Creates a job with the events of the file at input.path on the node's machine, or previews the file.";
    vec![
        Endpoint::new(Method::POST, "indexing/preview", access, summary, post(preview))
            .takes(&["input.path", "name", "sourcetype", "zone", "count"])
            .takes_patterns(&["props.*"])
            .answers(AnswerShape::JsonOrXml(PREVIEW_OR_SID)),
        Endpoint::new(
            Method::POST,
            "ingest/preview",
            access,
            "Previews the events of a text, which is the request's body; parameters are in the URL.",
            post(preview_text),
        )
        .in_quarry_api()
        .body(RequestBody::Bytes)
        .takes(&["source", "sourcetype", "zone", "count"])
        .answers(AnswerShape::Json(PREVIEW)),
    ]
}

/// A preview, or the ID of the job with the events as the text of a message.
const PREVIEW_OR_SID: Shape = Shape::Either(&[PREVIEW, MESSAGES]);

/// The events of a file as they would be indexed.
const PREVIEW: Shape = Shape::Object(&[
    ("file", Shape::Text),
    ("bytes", Shape::Count),
    ("zone", Shape::Text),
    ("zone_reason", Shape::Text),
    ("notes", Shape::List(&Shape::Text)),
    ("sourcetype", Shape::Text),
    ("sourcetype_reason", Shape::Text),
    ("problem", Shape::Nullable(&Shape::Text)),
    ("events_seen", Shape::Count),
    ("bad_timestamps", Shape::Count),
    (
        "events",
        Shape::List(&Shape::Object(&[
            ("_time", Shape::Text),
            ("reason", Shape::Text),
            ("zone_in_text", Shape::Nullable(&Shape::Text)),
            ("fallback", Shape::Flag),
            ("lines", Shape::Count),
            ("_raw", Shape::Text),
            ("index", Shape::Text),
            ("host", Shape::Text),
            ("source", Shape::Text),
            ("sourcetype", Shape::Text),
        ])),
    ),
    ("props_conf", Shape::Nullable(&Shape::Text)),
]);

/// Prefix of the parameters that set settings of props.conf for the file.
const PROPS: &str = "props.";

/// Default source of a text.
const SOURCE: &str = "preview";

async fn preview_text(State(state): State<ApiState>, uri: Uri, body: Bytes) -> Result<Response, ApiError> {
    let parameters = Parameters::from_query(uri.query().unwrap_or_default());
    if body.is_empty() {
        return Err(ApiError::bad_request("there is no text: send the beginning of a file as the body of the request"));
    }
    let request = PreviewText {
        text: body.to_vec(),
        source: parameters.text("source").filter(|source| !source.is_empty()).unwrap_or_else(|| SOURCE.to_owned()),
        sourcetype: parameters.text("sourcetype").filter(|name| !name.is_empty()),
        zone: parameters.text("zone"),
        events: parameters.number("count")?,
    };
    let node = state.node.clone();
    let made = run_blocking(move || node.preview_text(&request)).await?;
    made.map(json_response).map_err(|error| ApiError::bad_request(error.to_string()))
}

async fn preview(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let Some(name) = parameters.get("name") else { return create_job(state, place, caller, parameters).await };
    let request = PreviewFile {
        path: name.to_owned(),
        sourcetype: parameters.text("sourcetype"),
        zone: parameters.text("zone"),
        events: parameters.number("count")?,
    };
    let node = state.node.clone();
    let made = run_blocking(move || node.preview(&request)).await?;
    made.map(json_response).map_err(|error| ApiError::bad_request(error.to_string()))
}

async fn create_job(
    state: ApiState,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let path = parameters.required("input.path")?.to_owned();
    let form = Form::of(parameters.get("output_mode"));
    let zone = service_of(&state, &caller, &place).await?.zone();
    let app = place.get("app").cloned().unwrap_or_else(|| APP.to_owned());
    let of_props = |(name, value): (String, String)| Some((name.strip_prefix(PROPS)?.to_owned(), value));
    let props: Vec<(String, String)> = parameters.into_pairs().into_iter().filter_map(of_props).collect();
    let (node, jobs) = (state.node.clone(), Arc::clone(&state.jobs));
    let created = run_blocking(move || {
        let events = node.preview_events(&path, &props).map_err(|error| ApiError::bad_request(error.to_string()))?;
        jobs.create_preview(&caller.permissions, (&app, zone), events)
            .map_err(|error| job_refusal(error).unwrap_or_else(|error| ApiError::internal(error.to_string())))
    });
    Ok(message_response(form, created.await??.sid()))
}
