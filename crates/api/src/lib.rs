//! Splunk-compatible REST on the management port: logins, searches, and what the command line asks of its server.
//!
//! One file per endpoint family; what each endpoint takes of its caller stands in one table ([`ENDPOINTS`]). Here and only here values take a wire form: Splunk's JSON writes every value as a
//! string, errors are `{"messages": [...]}`. What an endpoint does is the search service's or the node's work.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod caller;
mod collector_tokens;
mod endpoint;
mod message;
mod node;
mod outlet;
mod parameter_types;
mod parameters;
mod state;
mod turns;
mod wire;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};

pub use collector_tokens::CollectorTokens;
pub use endpoint::access::{Access, ENDPOINTS, EndpointAccess};
pub use node::{AddFile, CollectorToken, Node, PreviewFile, TokenChange, TokenError};
pub use outlet::ANSWERS_MAX;
pub use state::ApiState;
pub use turns::{SEARCHES_MAX, SEARCHES_PER_USER_MAX, SEARCHES_WAITING_MAX};

/// Most bytes of a request's body. Splunk takes longer searches than anyone writes; the limit guards memory.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The management service.
pub fn router(state: ApiState) -> Router {
    Router::new()
        .merge(endpoint::root::routes())
        .merge(endpoint::auth::routes())
        .merge(endpoint::users::routes())
        .merge(endpoint::search_jobs::routes())
        .merge(endpoint::oneshot::routes())
        .merge(endpoint::preview::routes())
        .merge(endpoint::buckets::routes())
        .merge(endpoint::collector_tokens::routes())
        .route_layer(from_fn_with_state(state.clone(), endpoint::access::authorise))
        .fallback(message::not_found)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(message::in_envelope))
        .with_state(state)
}
