//! Actions that every family of entities has: `ID/acl`, `_new` and `_reload`.
//!
//! The actions are derived from the table of endpoints, like folder listings ([`super::folders`]): a collection whose
//! entities can be removed gets those actions that its family does not implement itself. `ID/acl` shows the permissions
//! of the entity that `ID` shows; a family without permissions of its own refuses to change them. `_new` shows the
//! parameters of the endpoint that creates an entity. `_reload` rereads the conf of the collection. In some
//! collections, a `POST` to the path of an entity that does not exist creates the entity if the request names it. Not
//! here: families that store permissions ([`super::permissions`]), `_new` with titles and patterns of their own
//! ([`super::new_entities`]).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on, post};
use tower_service::Service;

use super::answer_shape::{AnswerShape, NO_CONTENT};
use super::entities::notify_changed;
use super::entity_kinds::RELOAD;
use super::new_entities::template_of;
use super::path_parts::{OfCollection, PathParts};
use super::permissions::{ACL_PARAMETERS, acl_entry};
use super::row::{Access, Endpoint, SERVICES};
use crate::ApiState;
use crate::atom::{AnsweredFeed, Entry, Feed, Fields, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// End of the path of an entity.
const ONE: &str = "/{name}";

/// Prefixes of paths that show lists: the settings of a stanza (below which `acl` is a setting), and the values that
/// have a tag.
const LISTS: [&str; 2] = ["properties/", "search/tags/"];

/// The actions that these endpoints lack.
pub(crate) fn endpoints(served: &[Endpoint]) -> Vec<Endpoint> {
    let of_services = || served.iter().filter(|row| row.root == SERVICES);
    let known: BTreeSet<(&str, &str)> = of_services().map(|row| (row.path.as_str(), row.method.as_str())).collect();
    let by_place: BTreeMap<(&str, &str), &Endpoint> =
        of_services().map(|row| ((row.path.as_str(), row.method.as_str()), row)).collect();
    let family = |remove: &Endpoint| {
        let path = remove.path.strip_suffix(ONE)?;
        let shown = |path: &str| by_place.get(&(path, "GET")).copied().filter(|row| row.shows_entities());
        let (list, show) = (shown(path)?, shown(&remove.path)?);
        let create = by_place.get(&(path, "POST")).copied().filter(|row| row.creates());
        Some(actions(&Family { path, list, show, change: remove.access, create }))
    };
    let is_list = |row: &Endpoint| LISTS.iter().any(|begin| row.path.starts_with(begin));
    let removing = of_services().filter(|row| row.method == Method::DELETE && !is_list(row));
    let derived = removing.filter_map(family).flatten();
    derived.filter(|row| !known.contains(&(row.path.as_str(), row.method.as_str()))).collect()
}

/// A collection with the rows from which its actions are derived.
struct Family<'r> {
    path: &'r str,
    list: &'r Endpoint,
    show: &'r Endpoint,
    /// Access that a change of the entities requires.
    change: Access,
    create: Option<&'r Endpoint>,
}

fn actions(family: &Family<'_>) -> Vec<Endpoint> {
    let Family { path, list, show, change, create } = *family;
    let (acl, reload) = (format!("{path}{ONE}/acl"), format!("{path}/{RELOAD}"));
    let (shown, fixed) = ("Shows the permissions of an entity.", "Refuses, because the permissions are fixed.");
    let reloaded = "Reloads changed files.";
    let reload_by = |method: MethodFilter| reload_collection(method, list.serve.clone(), list.conf, path);
    let answers = AnswerShape::Entities(NO_CONTENT);
    let mut rows = vec![
        Endpoint::new(Method::GET, acl.as_str(), show.access, shown, show_acl(show.serve.clone()))
            .answers(answers.clone()),
        Endpoint::new(Method::POST, acl, change, fixed, refuse_acl(show.serve.clone(), change))
            .takes(ACL_PARAMETERS)
            .refuses(),
        Endpoint::new(Method::GET, reload.as_str(), list.access, reloaded, reload_by(MethodFilter::GET))
            .answers(answers.clone()),
        Endpoint::new(Method::POST, reload, list.access, reloaded, reload_by(MethodFilter::POST))
            .answers(answers.clone()),
    ];
    rows.extend(create.map(|create| {
        let fields = Fields { required: create.needs, optional: create.takes, wildcard: create.patterns };
        let of_new = "Shows the possible settings of a new entity.";
        Endpoint::new(Method::GET, format!("{path}/_new"), list.access, of_new, template(path, fields)).answers(answers)
    }));
    rows.into_iter().map(|row| Endpoint { is_namespaced: list.is_namespaced, ..row }).collect()
}

/// Collections in which a change of an entity that does not exist creates the entity. The new entity gets the name that
/// the request contains. If the request is sent again, it changes this entity.
const CREATED_AT_PATH: [&str; 5] =
    ["authorization/roles", "data/indexes", "data/inputs/http", "data/transforms/lookups", "saved/searches"];

/// Lets the endpoint that changes an entity of [`CREATED_AT_PATH`] create the entity if it does not exist and the
/// request contains its name, as Splunk does; Terraform's provider creates indexes and tokens in this way.
pub(crate) fn create_missing(served: &mut [Endpoint]) {
    let at = |served: &[Endpoint], method: Method, path: &str| {
        let row = served.iter().find(|row| row.root == SERVICES && row.method == method && row.path == path);
        row.cloned()
    };
    for place in 0..served.len() {
        let change = &served[place];
        let path = change.path.strip_suffix(ONE).filter(|path| CREATED_AT_PATH.contains(path));
        let Some(path) = path.filter(|_| change.root == SERVICES && change.method == Method::POST) else { continue };
        let create = at(served, Method::POST, path).filter(|row| row.creates() && row.access == change.access);
        let show = at(served, Method::GET, &change.path).filter(Endpoint::shows_entities);
        if let (Some(create), Some(show)) = (create, show) {
            let made = create.answers.into_iter().flatten().filter(|(status, _)| *status == StatusCode::CREATED);
            let changed = &mut served[place];
            changed.serve = create_or_change(show.serve, create.serve, changed.serve.clone());
            changed.answers.get_or_insert_default().extend(made);
        }
    }
}

fn create_or_change(
    show: MethodRouter<ApiState>,
    create: MethodRouter<ApiState>,
    change: MethodRouter<ApiState>,
) -> MethodRouter<ApiState> {
    post(move |State(state): State<ApiState>, request: Request| async move {
        let (mut parts, body) = request.into_parts();
        let body = Bytes::from_request(Request::from_parts(parts.clone(), body), &state).await;
        let body = body.map_err(IntoResponse::into_response)?;
        let given = given_name(parts.uri.query().unwrap_or_default(), &body);
        let mut handler = change;
        if let Some(given) = given {
            let path = PathParts::from_request_parts(&mut parts, &state).await.map_err(IntoResponse::into_response)?;
            let is_missing = path.get("name") == Some(&given)
                && ask(show, state.clone(), parts.clone()).await.status() == StatusCode::NOT_FOUND;
            if is_missing {
                parts.extensions.insert(OfCollection);
                handler = create;
            }
        }
        let mut handler: MethodRouter<()> = handler.with_state(state);
        // A router is always ready and infallible.
        let Ok(answer) = handler.call(Request::from_parts(parts, Body::from(body))).await;
        Ok::<_, Response>(answer)
    })
}

/// The name that the handler of a new entity reads: parameters of the URL come before those of the body.
fn given_name(query: &str, body: &[u8]) -> Option<String> {
    let mut given = form_urlencoded::parse(query.as_bytes()).chain(form_urlencoded::parse(body));
    given.find(|(name, _)| name == "name").map(|(_, value)| value.into_owned())
}

/// The answer of a `GET` handler to the path of a request. The request's parameters are not passed on, because they are
/// meant for the action.
async fn ask(handler: MethodRouter<ApiState>, state: ApiState, mut parts: Parts) -> Response {
    parts.method = Method::GET;
    if let Ok(path) = Uri::try_from(parts.uri.path()) {
        parts.uri = path;
    }
    let mut handler: MethodRouter<()> = handler.with_state(state);
    // A router is always ready and infallible.
    let Ok(answer) = handler.call(Request::from_parts(parts, Body::empty())).await;
    answer
}

/// The entity that a handler shows for a request and the title of its collection, or the handler's refusal.
async fn shown_entity(
    show: MethodRouter<ApiState>,
    state: ApiState,
    parts: Parts,
) -> Result<(Cow<'static, str>, Entry), Response> {
    let answer = ask(show, state, parts).await;
    let shown = answer.extensions().get::<AnsweredFeed>().and_then(AnsweredFeed::only_entry);
    match shown.map(|(title, entry)| (title.clone(), entry.clone())) {
        Some(shown) => Ok(shown),
        None if answer.status().is_success() => {
            Err(ApiError::with_status(StatusCode::NOT_FOUND, "Not Found").into_response())
        }
        None => Err(answer),
    }
}

fn show_acl(show: MethodRouter<ApiState>) -> MethodRouter<ApiState> {
    get(move |State(state): State<ApiState>, request: Request| async move {
        let (parts, _) = request.into_parts();
        let asked = Parameters::from_query(parts.uri.query().unwrap_or_default());
        let (title, entry) = shown_entity(show, state, parts).await?;
        let entry = acl_entry(entry);
        let feed = Feed::of(title, entry.path.clone(), vec![entry]);
        Ok::<_, Response>(feed.answer(Form::of(asked.get("output_mode"))))
    })
}

fn refuse_acl(show: MethodRouter<ApiState>, access: Access) -> MethodRouter<ApiState> {
    post(move |State(state): State<ApiState>, request: Request| async move {
        let (parts, body) = request.into_parts();
        // Reading the parameters sets the format of the error.
        Parameters::from_request(Request::from_parts(parts.clone(), body), &state).await?;
        let (_, entry) = shown_entity(show, state, parts).await?;
        let who = match access {
            Access::Capability(capability) => format!("users with the capability {capability} may change it"),
            Access::Open | Access::LoggedIn => "each user may change their own".to_owned(),
        };
        let text = format!("{}: its permissions are fixed; {who}", entry.name);
        Err::<Response, Response>(ApiError::bad_request(text).into_response())
    })
}

/// Rereads the conf of a collection. A collection that does not exist is refused in the same way as when it is listed.
fn reload_collection(
    method: MethodFilter,
    list: MethodRouter<ApiState>,
    conf: Option<&'static str>,
    path: &str,
) -> MethodRouter<ApiState> {
    let path: Arc<str> = path.into();
    let reload = move |State(state): State<ApiState>, request: Request| async move {
        let (parts, body) = request.into_parts();
        let asked = Parameters::from_request(Request::from_parts(parts.clone(), body), &state).await?;
        if let Some(conf) = conf {
            notify_changed(&state, conf).await.map_err(IntoResponse::into_response)?;
        }
        let listed = ask(list, state, parts).await;
        if !listed.status().is_success() {
            return Err(listed);
        }
        let title = path.rsplit('/').next().unwrap_or_default().to_owned();
        let feed = Feed::of(title, format!("{SERVICES}/{path}"), Vec::new());
        Ok::<_, Response>(feed.answer(Form::of(asked.get("output_mode"))))
    };
    on(method, reload)
}

fn template(path: &str, fields: Fields) -> MethodRouter<ApiState> {
    let path: Arc<str> = path.into();
    get(move |caller: Caller, parameters: Parameters| async move {
        let title = path.rsplit('/').next().unwrap_or_default().to_owned();
        template_of(title, &path, fields, &caller, &parameters)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::table::ENDPOINTS;

    #[test]
    fn a_name_in_the_url_comes_before_a_name_in_the_body() {
        let named = |query, body: &str| given_name(query, body.as_bytes());
        assert_eq!(named("a=b&name=x%20y", "name=z").as_deref(), Some("x y"));
        assert_eq!(named("a=b", "name=z&name=y").as_deref(), Some("z"));
        assert_eq!(named("", "a=name"), None);
    }

    #[test]
    fn rows_that_may_create_their_entity_state_so() {
        let own = ENDPOINTS.iter().filter(|row| row.may_create() && row.alias_of.is_none());
        let mut paths: Vec<&str> =
            own.filter_map(|row| row.path.strip_prefix("/services/")?.strip_suffix(ONE)).collect();
        paths.sort_unstable();
        assert_eq!(paths, CREATED_AT_PATH);
    }
}
