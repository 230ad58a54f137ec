//! `/services/quarry/buckets`: operations on buckets, which `quarry bucket` uses while a server has the data directory
//! open; and `/services/quarry/metrics` for Prometheus.

use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use quarry_conf::permissions::INDEXES_EDIT;

use super::answer_shape::AnswerShape;
use super::row::{Access, Endpoint, LIST_INTROSPECTION};
use super::shape::Shape;
use super::{json_response, run_blocking};
use crate::ApiState;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Media type of Prometheus' text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (look, change) = (Access::Capability(LIST_INTROSPECTION), Access::Capability(INDEXES_EDIT));
    vec![
        Endpoint::new(Method::GET, "quarry/buckets", look, "Lists buckets.", get(list))
            .without_namespace()
            .answers(BUCKETS),
        Endpoint::new(Method::GET, "quarry/metrics", look, "Shows metrics in the format of Prometheus.", get(metrics))
            .without_namespace()
            .answers(AnswerShape::Texts(&["text/plain"])),
        Endpoint::new(
            Method::POST,
            "quarry/buckets/verify",
            look,
            "Verifies every block of every bucket.",
            post(verify),
        )
        .without_namespace()
        .answers(VERDICTS),
        Endpoint::new(Method::POST, "quarry/buckets/compact", change, "Merges small buckets.", post(compact))
            .without_namespace()
            .answers(COMPACTION),
        Endpoint::new(Method::POST, "quarry/buckets/thaw", change, "Thaws an archived bucket.", post(thaw))
            .without_namespace()
            .needs(&["name"])
            .takes(&["index"])
            .answers(AnswerShape::Json(Shape::Object(&[("bucket", Shape::Text)]))),
        Endpoint::new(
            Method::POST,
            "quarry/buckets/migrate",
            change,
            "Moves the buckets of an index to the volume configured for it, or to the data directory.",
            post(migrate),
        )
        .without_namespace()
        .needs(&["index", "to"])
        .answers(MIGRATION),
    ]
}

const BUCKETS: AnswerShape = AnswerShape::Json(Shape::List(&Shape::Object(&[
    ("bucket", Shape::Text),
    ("index", Shape::Text),
    ("state", Shape::Word(&["hot", "sealing", "sealed"])),
    ("events", Shape::Count),
    ("deleted", Shape::Count),
    ("raw_bytes", Shape::Count),
    ("stored_bytes", Shape::Count),
    ("slabs", Shape::Count),
    ("level", Shape::Count),
    ("copies", Shape::Word(&["local", "uploading", "local and remote", "remote"])),
    ("earliest", Shape::Text),
    ("latest", Shape::Text),
])));
const VERDICTS: AnswerShape = AnswerShape::Json(Shape::List(&Shape::Object(&[
    ("bucket", Shape::Text),
    ("ok", Shape::Flag),
    ("damaged", Shape::Optional(&Shape::Flag)),
    ("reason", Shape::Optional(&Shape::Text)),
])));
/// Buckets that were left unchanged, each with the reason.
const SKIPPED_BUCKETS: Shape = Shape::List(&Shape::Object(&[("bucket", Shape::Text), ("reason", Shape::Text)]));
const COMPACTION: AnswerShape = AnswerShape::Json(Shape::Object(&[
    ("buckets_before", Shape::Count),
    ("buckets_after", Shape::Count),
    ("bytes_before", Shape::Count),
    ("bytes_after", Shape::Count),
    (
        "merges",
        Shape::List(&Shape::Object(&[
            ("bucket", Shape::Text),
            ("first", Shape::Nullable(&Shape::Text)),
            ("last", Shape::Nullable(&Shape::Text)),
            ("parts", Shape::Count),
            ("events", Shape::Count),
            ("bytes_before", Shape::Count),
            ("bytes_after", Shape::Count),
        ])),
    ),
    ("skipped", SKIPPED_BUCKETS),
]));
const MIGRATION: AnswerShape = AnswerShape::Json(Shape::Object(&[
    ("moved", Shape::Count),
    ("bytes", Shape::Count),
    ("there", Shape::Count),
    ("waiting", Shape::Count),
    ("left", SKIPPED_BUCKETS),
]));

async fn list(State(state): State<ApiState>) -> Result<Response, ApiError> {
    let node = state.node.clone();
    run_blocking(move || node.buckets()).await?.map(json_response).map_err(ApiError::from)
}

async fn metrics(State(state): State<ApiState>) -> Result<Response, ApiError> {
    let node = state.node.clone();
    let page = run_blocking(move || node.metrics()).await?;
    Ok(([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], page).into_response())
}

async fn verify(State(state): State<ApiState>) -> Result<Response, ApiError> {
    let node = state.node.clone();
    run_blocking(move || node.verify()).await?.map(json_response).map_err(ApiError::from)
}

async fn compact(State(state): State<ApiState>) -> Result<Response, ApiError> {
    let node = state.node.clone();
    run_blocking(move || node.compact()).await?.map(json_response).map_err(ApiError::from)
}

/// Moves buckets of an index; `to` is the name of a volume, or `local`.
async fn migrate(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let (index, to) = (parameters.required("index")?.to_owned(), parameters.required("to")?.to_owned());
    let node = state.node.clone();
    run_blocking(move || node.migrate(&index, &to)).await?.map(json_response).map_err(ApiError::from)
}

/// Thaws a bucket; `name` is the folder of the archived bucket.
async fn thaw(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let folder = parameters.required("name")?.to_owned();
    let index = parameters.text("index").unwrap_or_else(|| "main".to_owned());
    let node = state.node.clone();
    let thawed = run_blocking(move || node.thaw(&index, &folder)).await?;
    thawed.map(json_response).map_err(|error| ApiError::bad_request(error.to_string()))
}
