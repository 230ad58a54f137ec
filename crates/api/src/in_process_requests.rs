//! Requests that a process sends to the endpoints of the node that it has open itself, without HTTP.
//!
//! The command line uses such requests to change a data directory that no server has open, so that each change is
//! implemented only once. Not here: streamed answers and searches with many rows.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Method, Request, header};
use quarry_auth::Origin;
use quarry_stdx::Fault;
use tower_service::Service;

use crate::ApiState;

/// Maximum bytes of an answer; with more, the request fails.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// An answer as an HTTP client would get it.
#[derive(Clone, Debug)]
pub struct InProcessAnswer {
    /// HTTP status.
    pub status: u16,
    /// Body as text, at most 64 MiB.
    pub body: String,
}

/// Answers a request for a path with its query. `shown` is the `Authorization` header; without this header, the request
/// runs as the owner of the data directory. `form` is the body of a `POST`.
pub async fn answer_in_process(
    state: &ApiState,
    method: Method,
    path: &str,
    shown: Option<&str>,
    form: &[(&str, &str)],
) -> Result<InProcessAnswer, Fault> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"))
        .header(
            header::AUTHORIZATION,
            shown.map_or_else(|| format!("Splunk {}", state.auth.local_token()), str::to_owned),
        )
        .body(Body::from(body))
        .map_err(|error| Fault::invalid(format!("{path} is not a request path: {error}")))?;
    request.extensions_mut().insert(Origin::LOCAL);
    // A router is always ready and infallible.
    let Ok(answer) = crate::router(state.clone()).call(request).await;
    let status = answer.status().as_u16();
    let bytes = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| Fault::invalid(format!("the answer to {path} cannot be read: {error}")))?;
    Ok(InProcessAnswer { status, body: String::from_utf8_lossy(&bytes).into_owned() })
}
