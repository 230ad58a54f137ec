//! What all endpoints work with.

use std::sync::Arc;

use quarry_auth::Auth;
use quarry_search::SearchService;
use quarry_search::jobs::Jobs;

use crate::message::ApiError;
use crate::node::Node;
use crate::outlet::{ANSWERS_MAX, AnswerPlace, AnswerPlaces};
use crate::turns::Turns;

/// What the endpoints work with.
#[derive(Clone)]
pub struct ApiState {
    /// Logins and sessions.
    pub auth: Arc<Auth>,
    /// Runs searches.
    pub search: Arc<SearchService>,
    /// Searches that live on after their requests.
    pub jobs: Arc<Jobs>,
    /// The node itself: adding files, buckets.
    pub node: Arc<dyn Node>,
    /// Turns of searches.
    pub(crate) turns: Arc<Turns>,
    /// Places of answers on their way.
    answers: AnswerPlaces,
}

impl ApiState {
    /// The state of a node.
    pub fn new(auth: Arc<Auth>, search: Arc<SearchService>, jobs: Arc<Jobs>, node: Arc<dyn Node>) -> ApiState {
        ApiState { auth, search, jobs, node, turns: Turns::of_server(), answers: AnswerPlaces::of_server() }
    }

    /// The place of an answer that goes out row by row.
    pub(crate) fn answer_place(&self) -> Result<AnswerPlace, ApiError> {
        self.answers.take().ok_or_else(|| {
            ApiError::too_many(format!("{ANSWERS_MAX} answers are on their way, the most that may: try again"))
        })
    }
}
