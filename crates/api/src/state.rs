//! State shared by all endpoints.

use std::sync::Arc;

use axum::extract::FromRef;
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
use crate::oneshot_searches::RunningOneshots;
use crate::outlet::{ANSWERS_MAX, AnswerPermit, AnswerPermits};
use crate::search_slots::{Priority, SlotPermit, SlotPool, SlotPurpose};
use crate::suppressions::Suppressions;
use crate::uploads::Uploads;

/// Maximum number of concurrent requests that work with documents; further requests wait. Each request may hold an
/// answer in memory.
const DOCUMENT_PERMITS: usize = 8;
/// Maximum number of concurrent requests with large bodies of documents; further requests wait.
const DOCUMENT_BODIES: usize = 8;

/// Components and settings that the endpoints use.
#[derive(Clone)]
pub struct ApiState {
    /// Logins and sessions.
    pub auth: Arc<Auth>,
    /// Search jobs of all users.
    pub jobs: Arc<Jobs>,
    /// The node: searches, adding files, buckets.
    pub node: Arc<dyn Node>,
    /// Knowledge objects and other stanzas of conf files.
    pub objects: Arc<Objects>,
    /// Messages to users.
    pub(crate) bulletins: Arc<Bulletins>,
    /// Saved searches whose alerts are suppressed.
    pub(crate) suppressions: Arc<Suppressions>,
    /// Clients that watch jobs.
    pub(crate) streams: Streams,
    /// Searches that end with their request.
    pub(crate) oneshots: Arc<RunningOneshots>,
    /// Search slots.
    pub(crate) slots: Arc<SlotPool>,
    /// Slots of real-time searches.
    pub(crate) real_time_slots: Arc<SlotPool>,
    /// Documents of collections.
    pub(crate) collections: Arc<Collections>,
    /// Permits for requests that work with documents.
    pub(crate) document_permits: Arc<Semaphore>,
    /// Permits for large bodies of documents.
    pub(crate) document_bodies: Arc<Semaphore>,
    /// Files sent with requests.
    pub(crate) uploads: Uploads,
    /// Permits for answers in progress.
    answers: AnswerPermits,
}

impl FromRef<ApiState> for Arc<Auth> {
    fn from_ref(state: &ApiState) -> Arc<Auth> {
        Arc::clone(&state.auth)
    }
}

impl ApiState {
    /// The state of a node with a maximum number of concurrent searches, and of concurrent real-time searches.
    pub fn new(
        auth: Arc<Auth>,
        jobs: Arc<Jobs>,
        node: Arc<dyn Node>,
        objects: Objects,
        (searches_max, real_time_max): (usize, usize),
    ) -> ApiState {
        let collections = Collections::of_data_dir(objects.data_dir());
        let uploads = Uploads::of_data_dir(objects.data_dir());
        let suppressions = Suppressions::of_data_dir(objects.data_dir());
        ApiState {
            auth,
            jobs,
            node,
            objects: Arc::new(objects),
            bulletins: Arc::default(),
            suppressions: Arc::new(suppressions),
            streams: Streams::default(),
            oneshots: Arc::default(),
            slots: SlotPool::for_server(searches_max),
            real_time_slots: SlotPool::for_server(real_time_max),
            collections,
            document_permits: Arc::new(Semaphore::new(DOCUMENT_PERMITS)),
            document_bodies: Arc::new(Semaphore::new(DOCUMENT_BODIES)),
            uploads,
            answers: AnswerPermits::for_server(),
        }
    }

    /// Maximum number of concurrent searches.
    pub fn searches_max(&self) -> usize {
        self.slots.searches_max()
    }

    /// Maximum concurrent real-time searches.
    pub fn real_time_max(&self) -> usize {
        self.real_time_slots.searches_max()
    }

    /// Ends real-time searches when the server stops; otherwise the server would wait for their clients until a
    /// timeout.
    pub fn end_real_time(&self) {
        self.real_time_slots.request_end();
    }

    /// Waits for a slot for a caller's search.
    pub(crate) async fn acquire_slot(&self, caller: &Caller, purpose: SlotPurpose) -> Result<SlotPermit, ApiError> {
        let user = &caller.identity.user;
        self.slots.set_quota(user, caller.permissions.limits.jobs);
        self.slots.acquire(user, purpose).await
    }

    /// Like [`ApiState::acquire_slot`]; also returns a message for the user if the search had to wait.
    pub(crate) async fn acquire_slot_with_message(
        &self,
        caller: &Caller,
        purpose: SlotPurpose,
    ) -> Result<(SlotPermit, Option<String>), ApiError> {
        let user = &caller.identity.user;
        self.slots.set_quota(user, caller.permissions.limits.jobs);
        let mut reason = None;
        let permit = self.slots.acquire_reporting(user, purpose, Priority::default(), |why| reason = Some(why)).await?;
        Ok((permit, reason.map(|why| format!("the search waited for its turn: {why}"))))
    }

    /// A permit for an answer sent row by row.
    pub(crate) fn acquire_answer_permit(&self) -> Result<AnswerPermit, ApiError> {
        self.answers.try_acquire().ok_or_else(|| {
            ApiError::too_many(format!("{ANSWERS_MAX} responses are being sent, the maximum: try again"))
        })
    }
}
