//! `POST /services/data/inputs/oneshot`: indexes a file of the server's machine once.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use axum::{Form, Router};
use serde::Deserialize;

use super::{blocking, identify_admin, json};
use crate::message::ApiError;
use crate::{AddFile, ApiState};

pub(crate) fn routes() -> Router<ApiState> {
    Router::new().route("/services/data/inputs/oneshot", post(add))
}

/// Splunk's parameters; `again` and `zone` are ours.
#[derive(Deserialize)]
struct Oneshot {
    name: String,
    index: Option<String>,
    sourcetype: Option<String>,
    host: Option<String>,
    #[serde(rename = "rename-source")]
    rename_source: Option<String>,
    again: Option<String>,
    zone: Option<String>,
}

async fn add(
    State(state): State<ApiState>,
    headers: HeaderMap,
    Form(form): Form<Oneshot>,
) -> Result<Response, ApiError> {
    identify_admin(&state, &headers).await?;
    let request = AddFile {
        path: form.name,
        index: form.index.unwrap_or_else(|| "main".to_owned()),
        sourcetype: form.sourcetype,
        host: form.host,
        source: form.rename_source,
        again: form.again.is_some_and(|again| matches!(again.as_str(), "1" | "t" | "true")),
        zone: form.zone,
    };
    let node = state.node.clone();
    let report = blocking(move || node.add_file(&request)).await?;
    report.map(json).map_err(|error| ApiError::bad_request(error.to_string()))
}
