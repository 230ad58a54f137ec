//! `/services/quarry/buckets`: what `quarry bucket` shows while a server has the data folder.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};

use super::{blocking, json};
use crate::ApiState;
use crate::caller::Admin;
use crate::message::ApiError;
use crate::parameters::Parameters;

pub(crate) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/services/quarry/buckets", get(list))
        .route("/services/quarry/buckets/verify", post(verify))
        .route("/services/quarry/buckets/compact", post(compact))
        .route("/services/quarry/buckets/thaw", post(thaw))
}

async fn list(State(state): State<ApiState>, _: Admin) -> Result<Response, ApiError> {
    let node = state.node.clone();
    blocking(move || node.buckets()).await?.map(json).map_err(ApiError::from)
}

async fn verify(State(state): State<ApiState>, _: Admin) -> Result<Response, ApiError> {
    let node = state.node.clone();
    blocking(move || node.verify()).await?.map(json).map_err(ApiError::from)
}

async fn compact(State(state): State<ApiState>, _: Admin) -> Result<Response, ApiError> {
    let node = state.node.clone();
    blocking(move || node.compact()).await?.map(json).map_err(ApiError::from)
}

/// `name` is the folder of the archived bucket.
async fn thaw(State(state): State<ApiState>, _: Admin, parameters: Parameters) -> Result<Response, ApiError> {
    let folder = parameters.required("name")?.to_owned();
    let index = parameters.text("index").unwrap_or_else(|| "main".to_owned());
    let node = state.node.clone();
    let thawed = blocking(move || node.thaw(&index, &folder)).await?;
    thawed.map(json).map_err(|error| ApiError::bad_request(error.to_string()))
}
