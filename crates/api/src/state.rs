//! What all endpoints work with.

use std::sync::Arc;

use quarry_apps::objects::Objects;
use quarry_auth::Auth;
use quarry_collections::Collections;
use quarry_search::jobs::Jobs;
use tokio::sync::Semaphore;

use crate::bulletins::Bulletins;
use crate::caller::Caller;
use crate::endpoint::job_stream::Streams;
use crate::message::ApiError;
use crate::node::Node;
use crate::outlet::{ANSWERS_MAX, AnswerPlace, AnswerPlaces};
use crate::turns::{Turn, Turns, Use};

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
    /// The state of a node that runs so many searches at once.
    pub fn new(
        auth: Arc<Auth>,
        jobs: Arc<Jobs>,
        node: Arc<dyn Node>,
        objects: Objects,
        searches_max: usize,
    ) -> ApiState {
        let collections = Collections::of_data_dir(objects.data_dir());
        ApiState {
            auth,
            jobs,
            node,
            objects: Arc::new(objects),
            bulletins: Arc::default(),
            streams: Streams::default(),
            turns: Turns::of_server(searches_max),
            collections,
            document_turns: Arc::new(Semaphore::new(DOCUMENT_TURNS)),
            document_bodies: Arc::new(Semaphore::new(DOCUMENT_BODIES)),
            answers: AnswerPlaces::of_server(),
        }
    }

    /// Searches that run at once.
    pub fn searches_max(&self) -> usize {
        self.turns.searches_max()
    }

    /// The turn of a caller's search, as soon as there is one.
    pub(crate) async fn turn(&self, caller: &Caller, purpose: Use) -> Result<Turn, ApiError> {
        let user = &caller.identity.user;
        self.turns.limit(user, caller.permissions.limits.jobs);
        self.turns.take(user, purpose).await
    }

    /// The place of an answer that goes out row by row.
    pub(crate) fn answer_place(&self) -> Result<AnswerPlace, ApiError> {
        self.answers.take().ok_or_else(|| {
            ApiError::too_many(format!("{ANSWERS_MAX} answers are on their way, the most that may: try again"))
        })
    }
}
