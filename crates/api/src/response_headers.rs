//! Headers of all answers: answers depend on who asks and change at any time, so nobody may store them; and browsers
//! must neither guess another content type nor show an answer inside a page of another origin.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// Adds the headers that the endpoint has not set itself.
pub(crate) async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.append(header::VARY, HeaderValue::from_static("Cookie, Authorization"));
    response
}
