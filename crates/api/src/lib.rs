//! Splunk-compatible REST on the management port: logins, searches, and what the command line asks of its server.
//!
//! One file per endpoint family. Here and only here values take a wire form: Splunk's JSON writes every value as a
//! string, errors are `{"messages": [...]}`. What an endpoint does is the search service's or the node's work.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod endpoint;
mod message;
mod node;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use quarry_auth::Auth;
use quarry_search::SearchService;

pub use node::{AddFile, CollectorToken, NamespaceError, Node, NodeError, PreviewFile, TokenChange, TokenError};

/// Most bytes of a request's body. Splunk takes longer searches than anyone writes; the limit guards memory.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What the endpoints work with.
#[derive(Clone)]
pub struct ApiState {
    /// Logins and sessions.
    pub auth: Arc<Auth>,
    /// Runs searches.
    pub search: Arc<SearchService>,
    /// The node itself: adding files, buckets.
    pub node: Arc<dyn Node>,
}

/// The management service.
pub fn router(state: ApiState) -> Router {
    Router::new()
        .merge(endpoint::auth::routes())
        .merge(endpoint::search_jobs::routes())
        .merge(endpoint::oneshot::routes())
        .merge(endpoint::preview::routes())
        .merge(endpoint::buckets::routes())
        .merge(endpoint::collector_tokens::routes())
        .fallback(message::not_found)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(state)
}
