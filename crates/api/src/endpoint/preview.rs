//! `POST /services/indexing/preview`: shows how a file on the server would be split into events.

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::post;

use super::row::{Access, EDIT_MONITOR, Endpoint};
use super::{blocking, json};
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, PreviewFile};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (access, summary) = (Access::Capability(EDIT_MONITOR), "Previews the events of a file on the node's machine.");
    vec![
        Endpoint::new(Method::POST, "indexing/preview", access, summary, post(preview))
            .of_node()
            .needs(&["name"])
            .takes(&["sourcetype", "zone", "count"]),
    ]
}

async fn preview(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let request = PreviewFile {
        path: parameters.required("name")?.to_owned(),
        sourcetype: parameters.text("sourcetype"),
        zone: parameters.text("zone"),
        events: parameters.number("count")?,
    };
    let node = state.node.clone();
    let made = blocking(move || node.preview(&request)).await?;
    made.map(json).map_err(|error| ApiError::bad_request(error.to_string()))
}
