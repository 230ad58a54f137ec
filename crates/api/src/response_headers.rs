//! Headers of all answers: answers depend on who asks and change at any time, so nobody may store them; and browsers
//! must neither guess another content type nor show an answer inside a page of another origin.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// The headers and their values.
const HEADERS: [(header::HeaderName, HeaderValue); 3] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN")),
];
/// Request headers on which an answer depends.
const VARYING: HeaderValue = HeaderValue::from_static("Cookie, Authorization");

/// Adds the headers that the endpoint has not set itself.
pub(crate) async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(value);
    }
    headers.append(header::VARY, VARYING);
    response
}
