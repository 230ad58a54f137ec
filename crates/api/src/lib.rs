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
mod parameters;
mod turns;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use quarry_auth::Auth;
use quarry_search::SearchService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use collector_tokens::CollectorTokens;
pub use endpoint::access::{Access, ENDPOINTS, EndpointAccess};
pub use node::{AddFile, CollectorToken, NamespaceError, Node, NodeError, PreviewFile, TokenChange, TokenError};
pub use outlet::ANSWERS_MAX;
pub use turns::{SEARCHES_MAX, SEARCHES_PER_USER_MAX, SEARCHES_WAITING_MAX};

use message::ApiError;
use turns::Turns;

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
    /// Turns of searches.
    turns: Arc<Turns>,
    /// Places of answers on their way.
    answers: Arc<Semaphore>,
}

impl ApiState {
    /// The state of a node.
    pub fn new(auth: Arc<Auth>, search: Arc<SearchService>, node: Arc<dyn Node>) -> ApiState {
        ApiState { auth, search, node, turns: Turns::of_server(), answers: Arc::new(Semaphore::new(ANSWERS_MAX)) }
    }

    /// The place of an answer that goes out row by row.
    pub(crate) fn answer_place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let place = Arc::clone(&self.answers).try_acquire_owned();
        place.map_err(|_| {
            ApiError::too_many(format!("{ANSWERS_MAX} answers are on their way, the most that may: try again"))
        })
    }
}

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
