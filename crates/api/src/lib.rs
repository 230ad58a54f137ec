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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use node::{AddFile, CollectorToken, NamespaceError, Node, NodeError, PreviewFile, TokenChange, TokenError};

/// Most bytes of a request's body. Splunk takes longer searches than anyone writes; the limit guards memory.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Searches that run at once; others wait for their turn. Each may keep every core busy and takes a thread of those that do
/// what blocks; logins and inputs need some of both at any time, so that a server has more of these threads.
pub const SEARCHES_MAX: usize = 64;

/// What the endpoints work with.
#[derive(Clone)]
pub struct ApiState {
    /// Logins and sessions.
    pub auth: Arc<Auth>,
    /// Runs searches.
    pub search: Arc<SearchService>,
    /// The node itself: adding files, buckets.
    pub node: Arc<dyn Node>,
    /// Turns of searches.
    turns: Arc<Semaphore>,
}

impl ApiState {
    /// The state of a node.
    pub fn new(auth: Arc<Auth>, search: Arc<SearchService>, node: Arc<dyn Node>) -> ApiState {
        ApiState { auth, search, node, turns: Arc::new(Semaphore::new(SEARCHES_MAX)) }
    }

    /// The turn of a search, which lasts until it is dropped; waits for one.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, message::ApiError> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.map_err(|_| message::ApiError::internal("the server is about to stop".to_owned()))
    }
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
