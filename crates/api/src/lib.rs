//! Splunk-compatible REST API on the management port: logins, searches, objects, and the operations that the command
//! line sends to its server.
//!
//! One file per endpoint family; all endpoints are in one table ([`ENDPOINTS`]). Only this crate defines wire formats:
//! results have every value as a string, entities are an Atom feed or its JSON equivalent, errors are `{"messages":
//! [...]}` or the XML equivalent. The search service and the node implement the operations.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod atom;
mod bulletins;
mod caller;
mod collector_tokens;
mod compression;
mod endpoint;
mod feed_answers;
mod in_process_requests;
mod listed_entries;
mod message;
mod node;
mod oneshot_searches;
mod outlet;
mod parameter_types;
mod parameters;
mod response_headers;
mod search_slots;
mod state;
mod suppressions;
mod uploads;
mod wire;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
pub use axum::http::Method;
use axum::http::Uri;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;

pub use collector_tokens::CollectorTokens;
pub use endpoint::row::{Access, EndpointRow, RequestBody};
pub use endpoint::table::ENDPOINTS;
pub use in_process_requests::{InProcessAnswer, answer_in_process};
pub use listed_entries::{listed_entries, listed_paths};
pub use node::{
    AddFile, CollectorToken, DiskActivity, DiskSpace, ModularInput, ModularInputArgument, Node, NodeCondition,
    PreviewFile, PreviewText, ReceivedText, SearchLimits, TokenChange, TokenError,
};
pub use outlet::ANSWERS_MAX;
pub use parameters::BODY_BYTES_MAX;
pub use search_slots::SEARCHES_WAITING_MAX;
pub use state::ApiState;
pub use uploads::FOLDER as UPLOADS_FOLDER;

/// The management service.
pub fn router(state: ApiState) -> Router {
    // The path rewriting must wrap the router.
    Router::new().fallback_service(endpoints(state)).layer(from_fn(normalise_path))
}

/// Normalises the path of a request.
async fn normalise_path(mut request: Request, next: Next) -> Response {
    if let Some(uri) = normalised(request.uri()) {
        *request.uri_mut() = uri;
    }
    next.run(request).await
}

/// A URI with the path as the endpoints expect it: without trailing slashes, with blanks for plus signs, and with
/// slashes in names that are encoded once. `None` if the URI has such a path already.
fn normalised(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let bare = path.trim_end_matches('/');
    let is_other = (!bare.is_empty() && bare.len() < path.len()) || path.contains('+') || path.contains("%25");
    if !is_other {
        return None;
    }
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let bare = if bare.is_empty() { path } else { bare };
    let path = bare.replace('+', "%20").replace("%252F", "%2F").replace("%252f", "%2F");
    // The host stays, because requests over HTTP/2 name it only here.
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

fn endpoints(state: ApiState) -> Router {
    endpoint::table::router()
        .route_layer(from_fn_with_state(state.clone(), endpoint::access::authorise))
        .fallback(endpoint::access::not_found)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(state.clone(), feed_answers::write_feeds))
        .layer(from_fn(message::write_error_body))
        .layer(from_fn(compression::compress_response))
        .layer(from_fn(response_headers::add_headers))
        .with_state(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalised_uris_keep_host_and_query() {
        for (given, expected) in [
            ("/services/", Some("/services")),
            ("/services/a+b?q=c+d/", Some("/services/a%20b?q=c+d/")),
            ("https://b:1/services/x%252Fy/", Some("https://b:1/services/x%2Fy")),
            ("https://b:1/services", None),
            ("/", None),
        ] {
            let uri = normalised(&given.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(uri.as_deref(), expected, "{given}");
        }
    }
}
