//! What endpoints take of their callers, and the one place that looks at it.
//!
//! A request is let through to an endpoint when the table ([`ENDPOINTS`]) has its path and method and the caller's roles hold
//! what stands there. Paths below `/servicesNS/USER/APP` are those below `/services`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::row::{Access, EndpointRow, NAMESPACE, SERVICES};
use super::table::ENDPOINTS;
use crate::ApiState;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::check_query;

/// Lets a request through to its endpoint, or answers why not.
pub(crate) async fn authorise(
    State(state): State<ApiState>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
    let Some(row) = row_of(&method, path.as_str()) else {
        let text = format!("{method} is not served here");
        return ApiError::with_status(StatusCode::METHOD_NOT_ALLOWED, text).into_response();
    };
    if row.access == Access::Open {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let caller = match Caller::from_request_parts(&mut parts, &state).await {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    if let Access::Capability(capability) = row.access
        && !caller.permissions.holds(capability)
    {
        let user = &caller.identity.user;
        let text = format!(
            "user {user} may not do this: it takes the capability {capability}, which none of the user's roles has"
        );
        return ApiError::forbidden(text).into_response();
    }
    if let Err(error) = check_query(parts.uri.query().unwrap_or_default()) {
        return error.into_response();
    }
    parts.extensions.insert(caller);
    next.run(Request::from_parts(parts, body)).await
}

/// Rows by path and method, to be found at each request.
static ROWS: LazyLock<BTreeMap<(&'static str, &'static str), &'static EndpointRow>> =
    LazyLock::new(|| ENDPOINTS.iter().map(|row| ((row.path.as_str(), row.method.as_str()), row)).collect());

fn row_of(method: &Method, path: &str) -> Option<&'static EndpointRow> {
    let below = path.strip_prefix(NAMESPACE).map(|rest| format!("{SERVICES}{rest}"));
    let row = ROWS.get(&(below.as_deref().unwrap_or(path), method.as_str())).copied();
    row.filter(|row| below.is_none() || row.is_namespaced)
}
