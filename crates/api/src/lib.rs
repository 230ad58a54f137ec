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

/// Normalises paths as clients write them: drops trailing slashes, replaces plus signs with blanks, and replaces a
/// doubly encoded slash by one that is encoded once.
async fn normalise_path(mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let bare = path.trim_end_matches('/');
    let is_other = (!bare.is_empty() && bare.len() < path.len()) || path.contains('+') || path.contains("%25");
    if is_other {
        let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
        let bare = if bare.is_empty() { path } else { bare };
        if let Ok(uri) = format!("{}{query}", bare.replace('+', "%20").replace("%252F", "%2F").replace("%252f", "%2F"))
            .parse::<Uri>()
        {
            *request.uri_mut() = uri;
        }
    }
    next.run(request).await
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
