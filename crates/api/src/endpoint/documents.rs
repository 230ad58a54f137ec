//! `storage/collections/data`: documents of the KV store, singly and in batches.
//!
//! Below `/servicesNS/USER/APP`, documents are private to USER. With `nobody` as USER, documents are shared, and
//! searches can read them as lookup tables. Answers are JSON; errors have the usual form. Not here: queries and files
//! (`quarry_collections`), definitions of collections ([`super::collection_entities`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{NOBODY, ObjectError, Scope};
use quarry_collections::{
    Collection, CollectionDefinition, CollectionError, DOCUMENT_BYTES_MAX, Find, Pairs, Projection, Query, Removed,
    Sort, parse_object, parse_objects,
};
use quarry_conf::CollectionLimits;
use quarry_stdx::{ErrorKind, HasKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer_shape::AnswerShape;
use super::collection_entities::CONF;
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET, RequestBody};
use super::shape::Shape;
use super::{json_response as json_answer, run_blocking};
use crate::ApiState;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Name that means all users or all apps.
const ALL: &str = "-";
/// Timeout of receiving a request's documents.
const BODY_WAIT: Duration = Duration::from_secs(60);
/// Maximum size of a body of documents that needs no permit.
const SMALL_BYTES_MAX: u64 = 1 << 20;
/// Maximum bytes of the queries of one `batch_find`; a larger body is refused.
const QUERIES_BYTES_MAX: usize = 16 << 20;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET));
    let all = "storage/collections/data/{collection}";
    let below = |name: &str| format!("{all}/{name}");
    let row = Endpoint::new;
    vec![
        row(Method::GET, all.to_owned(), read, "Lists the documents of a collection that match a query.", get(find))
            .takes(&["query", "sort", "skip", "limit", "fields", "shared"])
            .answers(AnswerShape::Json(DOCUMENTS)),
        row(Method::POST, all.to_owned(), write, "Adds the JSON object of the body as a document.", post(insert))
            .body(RequestBody::JsonObject)
            .answers_with(StatusCode::CREATED, AnswerShape::Json(KEY_ONLY)),
        row(
            Method::DELETE,
            all.to_owned(),
            write,
            "Deletes the documents that match a query.",
            delete(remove_matching),
        )
        .takes(&["query"])
        .answers(AnswerShape::Nothing),
        row(
            Method::POST,
            below("batch_save"),
            write,
            "Writes a JSON array of documents; existing keys are replaced.",
            post(save),
        )
        .body(RequestBody::JsonList)
        .answers(AnswerShape::Json(Shape::List(&Shape::Text))),
        row(Method::POST, below("batch_find"), read, "Runs several queries, given as a JSON array.", post(find_all))
            .body(RequestBody::JsonList)
            .answers(AnswerShape::Json(Shape::List(&DOCUMENTS))),
        row(Method::GET, below("{key}"), read, "Shows a document.", get(show))
            .takes(&["shared"])
            .answers(AnswerShape::Json(DOCUMENT)),
        row(Method::POST, below("{key}"), write, "Replaces a document with the body.", post(replace))
            .body(RequestBody::JsonObject)
            .answers(AnswerShape::Json(KEY_ONLY)),
        row(Method::DELETE, below("{key}"), write, "Deletes a document.", delete(remove)).answers(AnswerShape::Nothing),
    ]
}

/// A document; a projection may omit its key and its user.
const DOCUMENT: Shape =
    Shape::Open(&[("_key", Shape::Optional(&Shape::Text)), ("_user", Shape::Optional(&Shape::Text))], &Shape::Any);
const DOCUMENTS: Shape = Shape::List(&DOCUMENT);
/// The key of a written document.
const KEY_ONLY: Shape = Shape::Object(&[("_key", Shape::Text)]);

impl From<CollectionError> for ApiError {
    fn from(error: CollectionError) -> ApiError {
        let text = error.to_string();
        match error {
            CollectionError::Exists => ApiError::with_status(StatusCode::CONFLICT, text),
            error => match error.kind() {
                ErrorKind::NotFound => ApiError::with_status(StatusCode::NOT_FOUND, text),
                ErrorKind::Invalid => ApiError::bad_request(text),
                ErrorKind::Busy => ApiError::too_many(text),
                _ => ApiError::internal(text),
            },
        }
    }
}

/// The collection named by a path, and the owner of the documents.
struct Target {
    collection: Arc<Collection>,
    definition: CollectionDefinition,
    user: String,
    key: String,
    limits: CollectionLimits,
}

impl Target {
    /// Users whose documents are read.
    fn users(&self, with_shared: bool) -> Vec<&str> {
        let mut users = vec![self.user.as_str()];
        if with_shared && self.user != NOBODY {
            users.push(NOBODY);
        }
        users
    }

    /// A query with the limits applied.
    fn with_limits(&self, find: Find) -> Find {
        let most = self.limits.documents_per_query;
        let limit = if find.limit == 0 { most } else { find.limit.min(most) };
        Find { limit, bytes_max: self.limits.result_bytes, ..find }
    }
}

/// Waits for a permit, resolves the collection of a path for reading or writing, and runs work on it.
async fn with_target<T: Send + 'static>(
    state: &ApiState,
    parts: PathParts,
    caller: &Caller,
    is_change: bool,
    work: impl FnOnce(&Target) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let _turn = acquire_permit(&state.document_permits).await?;
    let (state, caller) = (state.clone(), caller.clone());
    run_blocking(move || work(&target(&state, &parts, &caller, is_change)?)).await?
}

async fn acquire_permit(slots: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = Arc::clone(slots).acquire_owned().await;
    permit.map_err(|error| ApiError::internal(format!("no slot for a request for documents: {error}")))
}

fn target(
    state: &ApiState,
    parts: &BTreeMap<String, String>,
    caller: &Caller,
    is_change: bool,
) -> Result<Target, ApiError> {
    let part = |name: &str| parts.get(name).cloned().unwrap_or_default();
    let user = parts.get("user").map_or(NOBODY, String::as_str);
    if user == ALL {
        return Err(ApiError::bad_request(format!(
            "documents belong to one user or to {NOBODY}: name one of them, not {ALL}"
        )));
    }
    if user != NOBODY && !caller.permissions.may_see(Some(user)) {
        let me = &caller.identity.user;
        return Err(ApiError::forbidden(format!("user {me} may not see the documents of {user}")));
    }
    let (name, app) = (part("collection"), parts.get("app").map_or(ALL, String::as_str));
    let scope = Scope::for_namespace(NOBODY, app)?;
    let object = state.objects.get(CONF, &name, &scope, &caller.permissions).map_err(|error| match error {
        ObjectError::Unknown(_) => ApiError::from(CollectionError::Unknown),
        other => other.into(),
    })?;
    if object.is_disabled() || object.name == quarry_conf::text::DEFAULT_STANZA {
        return Err(CollectionError::Unknown.into());
    }
    if is_change && !object.can_write {
        let me = &caller.identity.user;
        return Err(ApiError::forbidden(format!("user {me} may not change the documents of the collection {name}")));
    }
    // Errors in the conf are ignored here, because they are reported where the conf is loaded.
    let (definition, _) = CollectionDefinition::parse_settings(&object.settings);
    let collection = state.collections.get(object.location.app(), &name)?;
    collection.update_accelerations(&definition)?;
    let limits = state.node.collection_limits();
    Ok(Target { collection, definition, user: user.to_owned(), key: part("key"), limits })
}

/// The documents of a request.
struct ReceivedDocuments {
    bytes: Bytes,
    /// Permit for a large body, released with the documents.
    _place: Option<OwnedSemaphorePermit>,
}

/// Reads the documents of a request; a large body waits for a permit.
async fn receive_documents(
    state: &ApiState,
    body: Body,
    most: usize,
    limit: &str,
) -> Result<ReceivedDocuments, ApiError> {
    let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BYTES_MAX);
    let place = if is_small { None } else { Some(acquire_permit(&state.document_bodies).await?) };
    let read = tokio::time::timeout(BODY_WAIT, to_bytes(body, most)).await;
    let late = |_| ApiError::with_status(StatusCode::REQUEST_TIMEOUT, "the documents took too long to arrive");
    let over = |_| {
        ApiError::bad_request(format!("the body is over the limit of {most} bytes ({limit}), or was not sent whole"))
    };
    Ok(ReceivedDocuments { bytes: read.map_err(late)?.map_err(over)?, _place: place })
}

fn key_answer(status: StatusCode, key: &str) -> Response {
    (status, json_answer(json!({ "_key": key }).to_string())).into_response()
}

async fn find(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let text = |name: &str| parameters.get(name).unwrap_or_default();
    let find = Find {
        query: Query::parse(text("query"))?,
        sort: Sort::parse(text("sort"))?,
        skip: parameters.number("skip")?.unwrap_or_default(),
        limit: parameters.number("limit")?.unwrap_or_default(),
        projection: Projection::parse(text("fields"))?,
        bytes_max: 0,
    };
    let with_shared = parameters.is_set("shared");
    let found = with_target(&state, parts, &caller, false, move |target| {
        let mut out = String::new();
        target.collection.find(&target.users(with_shared), &target.with_limits(find), &mut out)?;
        Ok(out)
    });
    Ok(json_answer(found.await?))
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let with_shared = parameters.is_set("shared");
    let found = with_target(&state, parts, &caller, false, move |target| {
        Ok(target.collection.document(&target.users(with_shared), &target.key)?)
    });
    Ok(json_answer(found.await?))
}

async fn insert(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let body = receive_documents(&state, request.into_body(), DOCUMENT_BYTES_MAX, "a document").await?;
    let key = with_target(&state, parts, &caller, true, move |target| {
        Ok(target.collection.insert(&target.user, parse_object(&body.bytes)?, &target.definition)?)
    });
    Ok(key_answer(StatusCode::CREATED, &key.await?))
}

async fn replace(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let body = receive_documents(&state, request.into_body(), DOCUMENT_BYTES_MAX, "a document").await?;
    let key = with_target(&state, parts, &caller, true, move |target| {
        let mut document = parse_object(&body.bytes)?;
        document.remove(quarry_collections::KEY);
        target.collection.replace(&target.user, &target.key, document, &target.definition)?;
        Ok(target.key.clone())
    });
    Ok(key_answer(StatusCode::OK, &key.await?))
}

async fn remove(State(state): State<ApiState>, parts: PathParts, caller: Caller) -> Result<Response, ApiError> {
    with_target(&state, parts, &caller, true, |target| {
        Ok(target.collection.remove(&target.user, &target.key, &target.definition)?)
    })
    .await?;
    Ok(json_answer(String::new()))
}

async fn remove_matching(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let query = Query::parse(parameters.get("query").unwrap_or_default())?;
    with_target(&state, parts, &caller, true, move |target| {
        Ok(target.collection.remove_matching(&target.user, &query, &target.definition)?)
    })
    .await?;
    Ok(json_answer(String::new()))
}

async fn save(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let most = state.node.collection_limits().save_bytes;
    let body = receive_documents(&state, request.into_body(), most, "max_size_per_batch_save_mb").await?;
    let keys = with_target(&state, parts, &caller, true, move |target| {
        let (most, mut count) = (target.limits.documents_per_save, 0);
        let mut fill = |take: &mut dyn FnMut(_) -> Result<(), CollectionError>| {
            parse_objects(&body.bytes, &mut |document| {
                count += 1;
                if count > most {
                    let text = format!("too many documents in one batch_save: max_documents_per_batch_save={most}");
                    return Err(CollectionError::Invalid(text));
                }
                take(document)
            })
        };
        let saved = target.collection.save_all(&target.user, &target.definition, &Removed::Nothing, &mut fill);
        Ok(saved?)
    });
    Ok(json_answer(Value::from(keys.await?).to_string()))
}

/// A query of `batch_find`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindRequest {
    #[serde(default)]
    query: Value,
    #[serde(default)]
    sort: SortRequest,
    #[serde(default)]
    fields: Value,
    #[serde(default)]
    skip: usize,
    #[serde(default)]
    limit: usize,
    #[serde(default)]
    shared: bool,
}

/// A sort order as a text, an object, or a list of objects.
#[derive(Deserialize)]
#[serde(untagged, expecting = "sort: give a text such as \"a:1,b:-1\", an object, or a list of objects")]
enum SortRequest {
    Text(String),
    Fields(Pairs),
    List(Vec<Pairs>),
}

impl Default for SortRequest {
    fn default() -> SortRequest {
        SortRequest::Text(String::new())
    }
}

impl FindRequest {
    fn into_find(self) -> Result<(Find, bool), CollectionError> {
        let find = Find {
            query: match &self.query {
                Value::String(text) => Query::parse(text)?,
                query => Query::from_json(query)?,
            },
            sort: match self.sort {
                SortRequest::Text(text) => Sort::parse(&text)?,
                SortRequest::Fields(pairs) => Sort::from_pairs(pairs)?,
                SortRequest::List(list) => {
                    Sort::from_pairs(Pairs(list.into_iter().flat_map(|pairs| pairs.0).collect()))?
                }
            },
            skip: self.skip,
            limit: self.limit,
            projection: Projection::from_json(&self.fields)?,
            bytes_max: 0,
        };
        Ok((find, self.shared))
    }
}

async fn find_all(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let body = receive_documents(&state, request.into_body(), QUERIES_BYTES_MAX, "batch_find").await?;
    let found = with_target(&state, parts, &caller, false, move |target| {
        let wrong = |error| ApiError::bad_request(format!("JSON in the request is invalid: {error}"));
        let asked: Vec<FindRequest> = serde_json::from_slice(&body.bytes).map_err(wrong)?;
        let limits = &target.limits;
        if asked.len() > limits.queries_per_batch {
            let most = limits.queries_per_batch;
            return Err(ApiError::bad_request(format!(
                "too many queries for one batch_find: max_queries_per_batch={most}"
            )));
        }
        let mut out = "[".to_owned();
        for (at, asked) in asked.into_iter().enumerate() {
            if at > 0 {
                out.push_str(",\n");
            }
            let (find, with_shared) = asked.into_find()?;
            let find = target.with_limits(find);
            let bytes_max = find.bytes_max.saturating_add(out.len());
            target.collection.find(&target.users(with_shared), &Find { bytes_max, ..find }, &mut out)?;
            if out.len() > limits.batch_result_bytes {
                let text = "the documents found exceed max_size_per_batch_result_mb: request fewer at a time";
                return Err(ApiError::bad_request(text));
            }
        }
        out.push(']');
        Ok(out)
    });
    Ok(json_answer(found.await?))
}
