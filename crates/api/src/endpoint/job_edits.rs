//! Changes of a job over REST: `POST search/jobs/SID` stores fields that the client chooses (`custom.NAME`) with the
//! job, `POST search/jobs/SID/acl` shares the job.
//!
//! A job is private at first. With `sharing=app` or `global`, everyone may read the job, or only the roles and users in
//! `perms.read`. Roles and users in `perms.write` may also control and remove the job. `sharing=user` makes the job
//! private again. Not here: control of the search ([`super::jobs`]).

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::{get, post};
use quarry_apps::objects::ObjectSharing;
use quarry_conf::permissions::SEARCH;
use quarry_search::jobs::{EVERYONE, JobSharing, JobStatus, SearchJob};

use super::answer_shape::{AnswerShape, NO_CONTENT};
use super::job_arguments::custom_fields;
use super::jobs::{COLLECTIONS, JOB, entry, find_job, find_own_job};
use super::path_parts::PathParts;
use super::permissions::{acl_change, acl_entry};
use super::row::{Access, Endpoint};
use super::run_blocking;
use crate::ApiState;
use crate::atom::{Feed, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Parameters of a change of permissions.
const ACL_PARAMETERS: &[&str] = &["owner", "sharing", "perms.read", "perms.write", "ttl"];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let search = Access::Capability(SEARCH);
    let of = |jobs: &str| {
        let one = format!("{jobs}/{{sid}}");
        let acl = format!("{one}/acl");
        let permissions = || AnswerShape::Entities(NO_CONTENT);
        [
            Endpoint::new(Method::POST, one, search, "Stores fields of the client with a job.", post(edit))
                .takes_patterns(&["custom.*"])
                .answers(AnswerShape::Entities(JOB)),
            Endpoint::new(Method::GET, acl.as_str(), search, "Shows the permissions of a job.", get(show_acl))
                .answers(permissions()),
            Endpoint::new(Method::POST, acl, search, "Shares a job, or makes it private.", post(set_acl))
                .takes(ACL_PARAMETERS)
                .answers(permissions()),
        ]
    };
    COLLECTIONS.into_iter().flat_map(of).collect()
}

async fn edit(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.reject_unknown(&[&["custom.*"]])?;
    let job = find_own_job(&state, &caller, &parts).await?;
    let (changed, fields) = (Arc::clone(&job), custom_fields(&parameters));
    run_blocking(move || changed.store_custom_fields(fields)).await??;
    let form = Form::of(parameters.get("output_mode"));
    Ok(entry(&job.status(), &caller, &state.node.name()).answer("jobs", form))
}

async fn show_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &parts).await?;
    Ok(acl_answer(&state, &caller, &job.status(), &parameters))
}

fn acl_answer(state: &ApiState, caller: &Caller, status: &JobStatus, parameters: &Parameters) -> Response {
    let shown = acl_entry(entry(status, caller, &state.node.name()));
    Feed::of("jobs", shown.path.clone(), vec![shown]).answer(Form::of(parameters.get("output_mode")))
}

async fn set_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.reject_unknown(&[ACL_PARAMETERS])?;
    let job = find_job(&state, &caller, &parts).await?;
    if !caller.permissions.may_see(Some(job.user())) {
        return Err(ApiError::forbidden(format!(
            "user {} may not share the job of {}",
            caller.identity.user,
            job.user()
        )));
    }
    let sharing = requested_sharing(&state, &job, &parameters)?;
    let ttl = parameters.number("ttl")?.map(|ttl| i64::try_from(ttl).unwrap_or(i64::MAX));
    if sharing.is_none() && ttl.is_none() {
        return Err(ApiError::bad_request("nothing to change: give sharing, perms.read, perms.write or ttl"));
    }
    let changed = Arc::clone(&job);
    run_blocking(move || {
        sharing.into_iter().for_each(|sharing| changed.share(sharing));
        ttl.into_iter().for_each(|ttl| changed.set_ttl(ttl));
    })
    .await?;
    Ok(acl_answer(&state, &caller, &job.status(), &parameters))
}

/// The permissions that a request gives to a job; `None` if it changes none.
fn requested_sharing(
    state: &ApiState,
    job: &SearchJob,
    parameters: &Parameters,
) -> Result<Option<JobSharing>, ApiError> {
    let asked = acl_change(&state.auth, parameters)?;
    if let Some(owner) = asked.owner.filter(|owner| owner != job.user()) {
        return Err(ApiError::bad_request(format!(
            "owner={owner}: the search of this job ran with the permissions of {}, so the owner stays; share the job instead",
            job.user()
        )));
    }
    let now = job.status().record.sharing().clone();
    let is_private = now == JobSharing::default();
    match asked.sharing {
        Some(ObjectSharing::System) => Err(ApiError::bad_request("sharing=system: give user, app or global for a job")),
        Some(ObjectSharing::User) => Ok(Some(JobSharing::default())),
        None if asked.readers.is_none() && asked.writers.is_none() => Ok(None),
        sharing => {
            let everyone = || vec![EVERYONE.to_owned()];
            // Without names of readers and writers, a private job that is shared can be read by everyone.
            let is_opened = sharing.is_some() && is_private && asked.writers.is_none();
            let readers = asked.readers.unwrap_or_else(|| if is_opened { everyone() } else { now.readers });
            Ok(Some(JobSharing { readers, writers: asked.writers.unwrap_or(now.writers) }))
        }
    }
}
