//! Endpoint families, one file each.

pub(crate) mod access;
pub(crate) mod auth;
pub(crate) mod buckets;
pub(crate) mod collector_tokens;
pub(crate) mod job_results;
pub(crate) mod jobs;
pub(crate) mod node_entries;
pub(crate) mod oneshot;
pub(crate) mod preview;
pub(crate) mod root;
pub(crate) mod search_jobs;
pub(crate) mod users;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::message::ApiError;

/// Where paths begin: without a namespace, and with that of a user and an app.
pub(crate) const ROOTS: [&str; 2] = ["/services", "/servicesNS/{user}/{app}"];

/// Runs blocking work off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ApiError::internal(format!("the request's task ended early: {error}")))
}

/// A JSON answer.
pub(crate) fn json(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json; charset=UTF-8")], body).into_response()
}
