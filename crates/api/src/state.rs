//! What all endpoints work with.

use std::sync::Arc;

use quarry_apps::objects::Objects;
use quarry_auth::Auth;
use quarry_collections::Collections;
use quarry_search::jobs::Jobs;
use tokio::sync::Semaphore;

use crate::bulletins::Bulletins;
use crate::endpoint::job_stream::Streams;
use crate::message::ApiError;
use crate::node::Node;
use crate::outlet::{ANSWERS_MAX, AnswerPlace, AnswerPlaces};
use crate::turns::Turns;

/// Requests that work with documents of collections at a time; others wait. Each may hold an answer.
const DOCUMENT_TURNS: usize = 8;
/// Requests with large bodies of documents at a time; others wait.
const DOCUMENT_BODIES: usize = 8;

/// What the endpoints work with.
#[derive(Clone)]
pub struct ApiState {
    /// Logins and sessions.
    pub auth: Arc<Auth>,
    /// Searches that live on after their requests.
    pub jobs: Arc<Jobs>,
    /// The node itself: searching, adding files, buckets.
    pub node: Arc<dyn Node>,
    /// Knowledge objects and other stanzas of conf files.
    pub objects: Arc<Objects>,
    /// Messages to all users.
    pub(crate) bulletins: Arc<Bulletins>,
    /// Clients that watch jobs.
    pub(crate) streams: Streams,
    /// Turns of searches.
    pub(crate) turns: Arc<Turns>,
    /// Documents of collections.
    pub(crate) collections: Arc<Collections>,
    /// Places of requests that work with documents.
    pub(crate) document_turns: Arc<Semaphore>,
    /// Places of large bodies of documents.
    pub(crate) document_bodies: Arc<Semaphore>,
    /// Places of answers on their way.
    answers: AnswerPlaces,
}

impl ApiState {
    /// The state of a node.
    pub fn new(auth: Arc<Auth>, jobs: Arc<Jobs>, node: Arc<dyn Node>, objects: Objects) -> ApiState {
        let collections = Collections::of_data_dir(objects.data_dir());
        ApiState {
            auth,
            jobs,
            node,
            objects: Arc::new(objects),
            bulletins: Arc::default(),
            streams: Streams::default(),
            turns: Turns::of_server(),
            collections,
            document_turns: Arc::new(Semaphore::new(DOCUMENT_TURNS)),
            document_bodies: Arc::new(Semaphore::new(DOCUMENT_BODIES)),
            answers: AnswerPlaces::of_server(),
        }
    }

    /// The place of an answer that goes out row by row.
    pub(crate) fn answer_place(&self) -> Result<AnswerPlace, ApiError> {
        self.answers.take().ok_or_else(|| {
            ApiError::too_many(format!("{ANSWERS_MAX} answers are on their way, the most that may: try again"))
        })
    }
}
