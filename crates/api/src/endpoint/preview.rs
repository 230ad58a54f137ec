//! `POST /services/indexing/preview` and `/api/v1/ingest/preview`: show the events into which a file on the server, or
//! a text in the request, would be split.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::post;

use super::answer_shape::AnswerShape;
use super::row::{Access, EDIT_MONITOR, Endpoint, RequestBody};
use super::shape::Shape;
use super::{json_response, run_blocking};
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, PreviewFile, PreviewText};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (access, summary) = (Access::Capability(EDIT_MONITOR), "Previews the events of a file on the node's machine.");
    vec![
        Endpoint::new(Method::POST, "indexing/preview", access, summary, post(preview))
            .needs(&["name"])
            .takes(&["sourcetype", "zone", "count"])
            .answers(PREVIEW),
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
        .answers(PREVIEW),
    ]
}

/// The events of a file as they would be indexed.
const PREVIEW: AnswerShape = AnswerShape::Json(Shape::Object(&[
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
]));

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

async fn preview(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let request = PreviewFile {
        path: parameters.required("name")?.to_owned(),
        sourcetype: parameters.text("sourcetype"),
        zone: parameters.text("zone"),
        events: parameters.number("count")?,
    };
    let node = state.node.clone();
    let made = run_blocking(move || node.preview(&request)).await?;
    made.map(json_response).map_err(|error| ApiError::bad_request(error.to_string()))
}
