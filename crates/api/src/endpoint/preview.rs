//! `POST /services/indexing/preview`: what adding a file of the server's machine would make of it.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use axum::{Form, Router};
use serde::Deserialize;

use super::{blocking, identify_admin, json};
use crate::message::ApiError;
use crate::{ApiState, PreviewFile};

pub(crate) fn routes() -> Router<ApiState> {
    Router::new().route("/services/indexing/preview", post(preview))
}

/// The file, and how it is to be looked at.
#[derive(Deserialize)]
struct Wish {
    name: String,
    sourcetype: Option<String>,
    zone: Option<String>,
    count: Option<usize>,
}

async fn preview(
    State(state): State<ApiState>,
    headers: HeaderMap,
    Form(form): Form<Wish>,
) -> Result<Response, ApiError> {
    identify_admin(&state, &headers).await?;
    let request = PreviewFile { path: form.name, sourcetype: form.sourcetype, zone: form.zone, events: form.count };
    let node = state.node.clone();
    let made = blocking(move || node.preview(&request)).await?;
    made.map(json).map_err(|error| ApiError::bad_request(error.to_string()))
}
