//! Endpoint families, one file each.

pub(crate) mod auth;
pub(crate) mod buckets;
pub(crate) mod collector_tokens;
pub(crate) mod oneshot;
pub(crate) mod preview;
pub(crate) mod search_jobs;

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use quarry_auth::Identity;

use crate::ApiState;
use crate::message::ApiError;

/// Role that may look after the node and have it read files.
const ADMIN_ROLE: &str = "admin";

/// Who sent the request; an error when nobody we know.
pub(crate) async fn identify(state: &ApiState, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let auth = state.auth.clone();
    // A basic password costs an argon2 hash: not on the async threads.
    blocking(move || auth.authenticate(header.as_deref())).await?.map_err(ApiError::from)
}

/// Who sent the request, when it is an administrator.
pub(crate) async fn identify_admin(state: &ApiState, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let identity = identify(state, headers).await?;
    if is_admin(&identity) {
        return Ok(identity);
    }
    Err(ApiError::forbidden(format!("user {} may not do this: it takes the role {ADMIN_ROLE}", identity.user)))
}

/// Whether this is an administrator.
pub(crate) fn is_admin(identity: &Identity) -> bool {
    identity.roles.iter().any(|role| role == ADMIN_ROLE)
}

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
