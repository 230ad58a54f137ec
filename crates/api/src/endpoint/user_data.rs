//! `/api/v1/history`, `links` and `preferences`: data that the server stores for the user interface.
//!
//! The history is the same as in the `history` command. A short link stands for a path with its parameters. All users
//! may follow a link; the page is shown with the permissions of the user who follows it. The preferences of a user are
//! one JSON object that the server does not interpret. Links and preferences are documents of collections of the app
//! `system`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_collections::{
    Collection, CollectionDefinition, CollectionError, Find, KEY, NOBODY, Object, ObjectConsumer, Query, Removed, USER,
    parse_object,
};
use quarry_conf::permissions::SEARCH;
use quarry_engine::NodeEntry;
use serde_json::{Map, Value, json};

use super::answer_shape::AnswerShape;
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, RequestBody};
use super::search_call::SearchCall;
use super::shape::{EMPTY, Shape};
use super::{json_response as answer, run_blocking};
use crate::ApiState;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// App of the collections.
const APP: &str = "system";
/// Collections of links and of preferences.
const LINKS: &str = "links";
const PREFERENCES: &str = "preferences";
/// Maximum bytes of a link's path; a longer one is refused.
const PATH_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of a link's JSON document per byte of its path: an escaped control character takes six bytes; the
/// other two bytes are for the user's name.
const LINK_BYTES_PER_PATH_BYTE: usize = 8;
/// Maximum number of links of all users; further links are refused until some are deleted.
const LINKS_MAX: usize = 10_000;
/// Random bytes of a link's id, written in hexadecimal.
const ID_BYTES: usize = 5;
/// Number of random ids tried for a new link, because an id may be taken.
const ID_ATTEMPTS_MAX: usize = 8;
/// Key of a user's preferences.
const PREFERENCES_KEY: &str = "preferences";
/// Maximum bytes of a user's preferences; with more, a change is refused.
const PREFERENCES_BYTES_MAX: usize = 256 << 10;
/// Default and maximum entries of the history.
const HISTORY_DEFAULT: usize = 50;
const HISTORY_MAX: usize = 1_000;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |method, path: &str, summary, serve| {
        Endpoint::new(method, path, Access::Capability(SEARCH), summary, serve).in_quarry_api()
    };
    vec![
        row(Method::GET, "history", "Lists earlier searches, newest first.", get(history))
            .takes(&["count", "offset", "filter"])
            .answers(FOUND),
        row(Method::POST, "links", "Creates a short link to a path of the interface.", post(create_link))
            .needs(&["path"])
            .answers_with(StatusCode::CREATED, AnswerShape::Json(Shape::Object(&[("id", Shape::Text)]))),
        row(Method::GET, "links/{id}", "Returns the path that a short link stands for.", get(show_link)).answers(LINK),
        row(Method::DELETE, "links/{id}", "Deletes a short link.", delete(remove_link))
            .answers(AnswerShape::Json(EMPTY)),
        row(Method::GET, "preferences", "Returns the caller's preferences.", get(preferences)).answers(MEMBERS),
        row(
            Method::POST,
            "preferences",
            "Changes members of the caller's preferences; null removes one.",
            post(set_preferences),
        )
        .body(RequestBody::JsonObject)
        .answers(MEMBERS),
    ]
}

const FOUND: AnswerShape =
    AnswerShape::Json(Shape::Object(&[("total", Shape::Count), ("searches", Shape::List(&Shape::Map(&Shape::Text)))]));
const LINK: AnswerShape =
    AnswerShape::Json(Shape::Object(&[("id", Shape::Text), ("path", Shape::Text), ("by", Shape::Text)]));
/// A user's preferences, which the server does not interpret.
const MEMBERS: AnswerShape = AnswerShape::Json(Shape::Map(&Shape::Any));

async fn history(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let count = parameters.number("count")?.filter(|count| *count > 0).unwrap_or(HISTORY_DEFAULT).min(HISTORY_MAX);
    let offset = parameters.offset()?;
    let filter = parameters.text("filter").unwrap_or_default().to_lowercase();
    let permissions = Arc::clone(&request.caller.permissions);
    let entries = request.with(move |service| service.engine().node().history(&permissions)).await?;
    let entries = entries.unwrap_or_default();
    let of_entry = |entry: NodeEntry| -> Map<String, Value> {
        entry.into_iter().map(|(name, values)| (name, Value::String(values.join("\n")))).collect()
    };
    let is_wanted = |entry: &Map<String, Value>| {
        filter.is_empty() || entry["search"].as_str().is_some_and(|search| search.to_lowercase().contains(&filter))
    };
    let found: Vec<Map<String, Value>> = entries.into_iter().map(of_entry).filter(is_wanted).collect();
    let total = found.len();
    let page: Vec<Map<String, Value>> = found.into_iter().skip(offset.in_total(total)).take(count).collect();
    Ok(answer(json!({ "total": total, "searches": page }).to_string()))
}

/// Held while a request changes links or preferences: it reads documents before it writes, so changes must not overlap.
/// Requests that only read do not wait for a change, which may be waiting for the database of a cluster.
static CHANGE_LOCK: Mutex<()> = Mutex::new(());

/// Waits for a permit and runs work on one of the collections.
async fn with_collection<T: Send + 'static>(
    state: &ApiState,
    name: &'static str,
    work: impl FnOnce(&Collection) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let permit = state.document_permits.clone().acquire_owned().await;
    let _turn =
        permit.map_err(|error| ApiError::internal(format!("no permit for a request for documents: {error}")))?;
    let collections = state.collections.clone();
    run_blocking(move || work(&*collections.get(APP, name)?)).await?
}

/// Like [`with_collection`], for work that changes documents.
async fn change_collection<T: Send + 'static>(
    state: &ApiState,
    name: &'static str,
    work: impl FnOnce(&Collection) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let alone = move |collection: &Collection| {
        let _change = CHANGE_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        work(collection)
    };
    with_collection(state, name, alone).await
}

async fn create_link(
    State(state): State<ApiState>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let path = parameters.required("path")?.to_owned();
    // Only a path is accepted, because a link must not lead to another site.
    let is_path = path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\r', '\n']);
    if !is_path || path.len() > PATH_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "path: give a path of this server, as in /search?q=error, of at most {PATH_BYTES_MAX} bytes"
        )));
    }
    let user = caller.identity.user.clone();
    let id = change_collection(&state, LINKS, move |links| {
        let definition = links_definition();
        if let Some(known) = find_link_id(links, &definition, &path)? {
            return Ok(known);
        }
        if links.count(NOBODY)? >= LINKS_MAX {
            return Err(ApiError::too_many(format!("there are {LINKS_MAX} short links, the maximum: delete some")));
        }
        for _ in 0..ID_ATTEMPTS_MAX {
            let members = [(KEY, new_id()), ("path", path.clone()), ("by", user.clone())];
            let link: Object = members.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect();
            match links.insert(NOBODY, link, &definition) {
                Err(CollectionError::Exists) => {}
                made => return Ok(made?),
            }
        }
        Err(ApiError::internal(format!("no unused id for a link was found in {ID_ATTEMPTS_MAX} attempts: try again")))
    });
    let id = id.await?;
    Ok((StatusCode::CREATED, answer(json!({ "id": id }).to_string())).into_response())
}

/// The definition of the links' collection, with an index on paths, so that the link to a path is found without a full
/// scan.
fn links_definition() -> CollectionDefinition {
    let index = ("accelerated_fields.by_path".to_owned(), r#"{"path": 1}"#.to_owned());
    let (definition, faults) = CollectionDefinition::parse_settings(&BTreeMap::from([index]));
    debug_assert!(faults.is_empty(), "{faults:?}");
    definition
}

/// Id of the link to a path, if there is one.
fn find_link_id(
    links: &Collection,
    definition: &CollectionDefinition,
    path: &str,
) -> Result<Option<String>, CollectionError> {
    // This adds the index to a file of an earlier version, which has none.
    links.update_accelerations(definition)?;
    let query = Query::from_json(&json!({ "path": { "$eq": path } }))?;
    let mut found = String::new();
    let find = Find { query, limit: 1, bytes_max: PATH_BYTES_MAX * LINK_BYTES_PER_PATH_BYTE, ..Find::default() };
    links.find(&[NOBODY], &find, &mut found)?;
    let found: Value = serde_json::from_str(&found).unwrap_or_default();
    Ok(found[0][KEY].as_str().map(str::to_owned))
}

/// A random id in hexadecimal.
fn new_id() -> String {
    let mut bytes = [0; ID_BYTES];
    quarry_stdx::random::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The link whose id is in the request's path.
async fn find_link(state: &ApiState, parts: &PathParts) -> Result<(String, Value), ApiError> {
    let id = parts.get("id").cloned().unwrap_or_default();
    let key = id.clone();
    let text = with_collection(state, LINKS, move |links| Ok(links.document(&[NOBODY], &key)?)).await;
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, format!("there is no short link {id}"));
    let text = text.map_err(|error| if error.is_not_found() { missing() } else { error })?;
    let link = serde_json::from_str(&text).map_err(|error| ApiError::internal(format!("a short link: {error}")))?;
    Ok((id, link))
}

async fn show_link(State(state): State<ApiState>, parts: PathParts) -> Result<Response, ApiError> {
    let (id, link) = find_link(&state, &parts).await?;
    Ok(answer(json!({ "id": id, "path": link["path"], "by": link["by"] }).to_string()))
}

async fn remove_link(State(state): State<ApiState>, parts: PathParts, caller: Caller) -> Result<Response, ApiError> {
    let (id, link) = find_link(&state, &parts).await?;
    let by = link["by"].as_str();
    if !caller.permissions.may_see(by) {
        let owner = by.unwrap_or_default();
        return Err(ApiError::forbidden(format!("user {} may not delete a link of {owner}", caller.identity.user)));
    }
    change_collection(&state, LINKS, move |links| Ok(links.remove(NOBODY, &id, &links_definition())?)).await?;
    Ok(answer(json!({}).to_string()))
}

/// A user's preferences, without the members that the collection adds.
fn preferences_of(documents: &Collection, user: &str) -> Result<Object, ApiError> {
    let text = match documents.document(&[user], PREFERENCES_KEY) {
        Ok(text) => text,
        Err(CollectionError::Unknown) => return Ok(Object::default()),
        Err(error) => return Err(error.into()),
    };
    let mut members = parse_object(text.as_bytes())?;
    members.remove(KEY);
    members.remove(USER);
    Ok(members)
}

async fn preferences(State(state): State<ApiState>, caller: Caller) -> Result<Response, ApiError> {
    let user = caller.identity.user.clone();
    let members = with_collection(&state, PREFERENCES, move |documents| preferences_of(documents, &user)).await?;
    Ok(answer(Value::Object(members).to_string()))
}

async fn set_preferences(State(state): State<ApiState>, caller: Caller, body: Bytes) -> Result<Response, ApiError> {
    let changes = parse_object(&body)?;
    let user = caller.identity.user.clone();
    let members = change_collection(&state, PREFERENCES, move |documents| {
        let mut members = preferences_of(documents, &user)?;
        for (name, value) in changes {
            match value {
                Value::Null => drop(members.remove(&name)),
                value => drop(members.insert(name, value)),
            }
        }
        members.remove(USER);
        members.remove(KEY);
        let shown = Value::Object(members.clone()).to_string();
        if shown.len() > PREFERENCES_BYTES_MAX {
            let bytes = shown.len();
            return Err(ApiError::bad_request(format!(
                "the preferences would have {bytes} bytes, more than the limit of {PREFERENCES_BYTES_MAX}"
            )));
        }
        members.insert(KEY.to_owned(), PREFERENCES_KEY.into());
        let mut fill = |take: ObjectConsumer<'_>| take(members.clone());
        documents.save_all(&user, &CollectionDefinition::default(), &Removed::Nothing, &mut fill)?;
        Ok(shown)
    });
    Ok(answer(members.await?))
}
