//! Splunk's actions of the cache manager: `evict` and `_evict` remove local copies of data that can be read again from
//! a volume, `close` closes the files of a bucket.
//!
//! Not here: the lists of buckets and totals ([`super::node_entries`]).

use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use axum::routing::post;
use quarry_conf::permissions::INDEXES_EDIT;

use super::answer_shape::Content;
use super::node_entries::{missing, place_of, read};
use super::row::{Access, Endpoint, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Feed, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

const COLLECTION: &str = "admin/cacheman";
const METRICS: &str = "admin/cacheman/_metrics";
const TITLE: &str = "cacheman";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let change = Access::Capability(INDEXES_EDIT);
    let of_bucket = |verb: &str| format!("{COLLECTION}/{{name}}/{verb}");
    let rows = vec![
        Endpoint::new(
            Method::POST,
            of_bucket("evict"),
            change,
            "Removes the local copy and the cached blocks of an uploaded bucket.",
            post(evict),
        ),
        Endpoint::new(Method::POST, of_bucket("close"), change, "Closes the files of a bucket.", post(close)),
        Endpoint::new(
            Method::POST,
            format!("{COLLECTION}/_evict"),
            change,
            "Removes local copies of uploaded buckets, and cached blocks.",
            post(evict_all),
        )
        .takes(&["mb", "path"]),
    ];
    entities(rows, &Content::for_path(COLLECTION, Shape::Map(&Shape::Text)))
}

/// The id `INDEX~NUMBER` of a bucket, from its name `bid|INDEX~NUMBER~GUID|`; the GUID may be missing.
fn id_of(name: &str) -> String {
    let inner = name.strip_prefix("bid|").unwrap_or(name).trim_end_matches('|');
    inner.splitn(3, '~').take(2).collect::<Vec<_>>().join("~")
}

/// Whether two names denote the same bucket.
fn is_same(one: &str, other: &str) -> bool {
    id_of(one) == id_of(other)
}

async fn evict(
    State(state): State<ApiState>,
    Path(name): Path<String>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (node, id) = (state.node.clone(), id_of(&name));
    run_blocking(move || node.evict_bucket(&id)).await??;
    show(&state, &caller, &name, &parameters).await
}

async fn close(
    State(state): State<ApiState>,
    Path(name): Path<String>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (node, id) = (state.node.clone(), id_of(&name));
    run_blocking(move || node.close_bucket(&id)).await??;
    show(&state, &caller, &name, &parameters).await
}

/// Answers with the bucket.
async fn show(state: &ApiState, caller: &Caller, name: &str, parameters: &Parameters) -> Result<Response, ApiError> {
    let found = read(state, caller, COLLECTION).await?.into_iter().find(|entry| is_same(&entry.name, name));
    let found = vec![found.ok_or_else(|| missing(name))?];
    Ok(Feed::of(TITLE, place_of(COLLECTION), found).answer(Form::of(parameters.get("output_mode"))))
}

/// Frees `mb` megabytes, or as much as possible without `mb`; answers with the totals. The node has a single cache, so
/// `path` has no effect.
async fn evict_all(
    State(state): State<ApiState>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let megabytes = parameters.number("mb")?;
    let node = state.node.clone();
    run_blocking(move || node.evict_cache(megabytes.map(|megabytes| (megabytes as u64).saturating_mul(1 << 20))))
        .await??;
    let totals = read(&state, &caller, METRICS).await?;
    Ok(Feed::of(TITLE, place_of(METRICS), totals).answer(Form::of(parameters.get("output_mode"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_buckets_contain_their_ids() {
        for name in ["bid|web~17~0B4E2C64|", "bid|web~17|", "web~17", "bid|web~17~0B4E2C64"] {
            assert_eq!(id_of(name), "web~17", "{name}");
        }
        assert!(is_same("bid|web~17~0B4E|", "bid|web~17|") && !is_same("bid|web~17|", "bid|web~1|"));
    }
}
