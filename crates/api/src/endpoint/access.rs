//! Authorisation of requests: the only place that checks the access that endpoints require.
//!
//! A request is admitted if the table ([`ENDPOINTS`]) has its path and method and the caller's roles grant the required
//! capability. Paths below `/servicesNS/USER/APP` are treated like paths below `/services`. Changes of objects are
//! recorded in `_audit` after they succeed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quarry_apps::rest_handlers::declared_endpoint;

use super::path_parts::PathParts;
use super::row::{Access, EndpointRow, NAMESPACE, SERVICES};
use super::run_blocking;
use super::search_jobs::RESERVED_USERS;
use super::table::ENDPOINTS;
use crate::ApiState;
use crate::atom::AnsweredFeed;
use crate::caller::{Caller, renewed_cookie};
use crate::message::ApiError;
use crate::parameters::{check_query, note_unread_form};

/// Beginning of paths with a namespace.
const NAMESPACES: &str = "/servicesNS/";
/// Apps that a namespace may name although they have no folder; `-` stands for all apps.
const BUILT_IN_APPS: [&str; 5] = ["-", "launcher", "search", "splunk_httpinput", "system"];

/// Passes a request to its endpoint, or refuses it.
pub(crate) async fn authorise(
    State(state): State<ApiState>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
    let Some(row) = find_row(&method, path.as_str()) else {
        return reject_method(&state, &method, path.as_str(), request).await;
    };
    if row.access == Access::Open {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let caller = match admit(&state, row, &mut parts).await {
        Ok(caller) => caller,
        Err(error) => {
            note_unread_form(Request::from_parts(parts, body)).await;
            return error.into_response();
        }
    };
    let changed = operation_of(row).map(|operation| (operation, caller.clone(), parts.uri.path().to_owned()));
    parts.extensions.insert(caller);
    let cookie = renewed_cookie(&parts.headers, state.auth.session_timeout_s());
    let mut answer = next.run(Request::from_parts(parts, body)).await;
    if let Some(cookie) = cookie.filter(|_| answer.status().is_success()) {
        answer.headers_mut().entry(header::SET_COOKIE).or_insert(cookie);
    }
    // Links encode slashes in names twice; audit events have slashes encoded once, however the client wrote the path.
    if let Some((operation, Caller { identity, origin, .. }, path)) = changed.filter(|_| answer.status().is_success()) {
        // The answer to a removal lists the entities that are left.
        let shown = answer.extensions().get::<AnsweredFeed>().filter(|_| row.method != Method::DELETE);
        let shown = shown.and_then(AnsweredFeed::only_entry);
        let path = shown.map_or(path, |(_, entry)| entry.path.replace("%252F", "%2F"));
        state.auth.record_change(&identity, &origin, done(operation, row, answer.status()), path);
    }
    answer
}

/// The answer for a method that a path does not support. Clients that are not logged in do not learn the supported
/// methods, unless the path is open.
async fn reject_method(state: &ApiState, method: &Method, path: &str, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let is_open = ENDPOINTS.iter().any(|row| row.access == Access::Open && row_path(path) == row.path);
    let caller = if is_open { Ok(()) } else { Caller::from_request_parts(&mut parts, state).await.map(drop) };
    note_unread_form(Request::from_parts(parts, body)).await;
    caller.map_or_else(IntoResponse::into_response, |()| unserved(method, &row_path(path)))
}

fn unserved(method: &Method, path: &str) -> Response {
    let one = format!("{path}/{{");
    let is_of_one =
        |row: &EndpointRow| row.method == method && row.path.strip_prefix(&one).is_some_and(|rest| !rest.contains('/'));
    if [Method::DELETE, Method::POST].contains(method) && ENDPOINTS.iter().any(is_of_one) {
        let text = format!("Cannot perform action \"{method}\" without a target name to act on.");
        return ApiError::unserved(StatusCode::BAD_REQUEST, text).into_response();
    }
    let mut answer = ApiError::unserved(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed").into_response();
    let served = ENDPOINTS.iter().filter(|row| row.path == path).map(|row| row.method.as_str());
    if let Ok(served) = HeaderValue::from_str(&served.collect::<Vec<_>>().join(", ")) {
        answer.headers_mut().insert(header::ALLOW, served);
    }
    answer
}

/// Folder in which Splunk answers unknown paths with a different message.
const SEARCH_FOLDER: &str = "search/";

/// The answer for an unknown path. Callers who are logged in learn whether an app declares the path.
pub(crate) async fn not_found(State(state): State<ApiState>, request: Request) -> ApiError {
    let (mut parts, body) = request.into_parts();
    let is_known = Caller::from_request_parts(&mut parts, &state).await.is_ok();
    let path = below_root(parts.uri.path()).map(str::to_owned);
    note_unread_form(Request::from_parts(parts, body)).await;
    let is_of_search = path.as_deref().is_some_and(|path| path.trim_start_matches('/').starts_with(SEARCH_FOLDER));
    let data_dir = state.objects.data_dir().to_owned();
    let find = move || path.and_then(|path| declared_endpoint(&data_dir, &path));
    match if is_known { run_blocking(find).await } else { Ok(None) } {
        Ok(Some(endpoint)) => ApiError::unserved(StatusCode::NOT_IMPLEMENTED, endpoint.message()),
        Ok(None) if is_of_search => ApiError::unknown_endpoint(),
        Ok(None) => ApiError::unserved(StatusCode::NOT_FOUND, "Not Found"),
        Err(error) => error,
    }
}

/// A path without its root or namespace.
fn below_root(path: &str) -> Option<&str> {
    match path.strip_prefix(NAMESPACES) {
        Some(rest) => rest.splitn(3, '/').nth(2),
        None => path.strip_prefix(SERVICES),
    }
}

/// The caller of a request, if the row admits the caller.
async fn admit(state: &ApiState, row: &EndpointRow, parts: &mut Parts) -> Result<Caller, ApiError> {
    let caller = Caller::from_request_parts(parts, state).await?;
    if let Access::Capability(capability) = row.access
        && !has_capability(&caller, capability)
    {
        return Err(ApiError::missing_capability(&caller.identity.user, capability));
    }
    check_query(parts.uri.query().unwrap_or_default())?;
    if parts.uri.path().starts_with(NAMESPACES) {
        check_namespace(state, &caller, parts).await?;
    }
    Ok(caller)
}

/// Refuses a namespace whose user or app does not exist. Callers who may not see other users do not learn which users
/// exist; the endpoints decide what these callers may do in the namespace.
async fn check_namespace(state: &ApiState, caller: &Caller, parts: &mut Parts) -> Result<(), ApiError> {
    let Ok(segments) = PathParts::from_request_parts(parts, state).await else { return Ok(()) };
    let (Some(user), Some(app)) = (segments.get("user"), segments.get("app").cloned()) else { return Ok(()) };
    let missing =
        |what: &str, name: &str| ApiError::with_status(StatusCode::NOT_FOUND, format!("{what} does not exist: {name}"));
    let is_own = RESERVED_USERS.contains(&user.as_str()) || *user == caller.identity.user;
    if !is_own && caller.permissions.may_see(Some(user)) && !state.auth.has_user(user) {
        return Err(missing("User", user));
    }
    if BUILT_IN_APPS.contains(&app.as_str()) {
        return Ok(());
    }
    let folder = state.objects.data_dir().join("etc/apps").join(&app);
    match run_blocking(move || folder.is_dir()).await? {
        true => Ok(()),
        false => Err(missing("Application", &app)),
    }
}

/// Whether a caller has a capability, or the `_all` form of an `_own` capability.
fn has_capability(caller: &Caller, capability: &str) -> bool {
    let of_all = capability.strip_suffix(OWN_SUFFIX).map(|stem| format!("{stem}{ALL_SUFFIX}"));
    caller.permissions.has_capability(capability) || of_all.is_some_and(|all| caller.permissions.has_capability(&all))
}

/// Suffix of capabilities for one's own objects.
const OWN_SUFFIX: &str = "_own";
/// Suffix of capabilities for everyone's objects.
const ALL_SUFFIX: &str = "_all";

/// The audited operation of a request. `None` if the request changes nothing. Changes of events, logins, users and
/// documents of collections also yield `None`: other code audits them, or they are not audited.
fn operation_of(row: &EndpointRow) -> Option<&'static str> {
    // A request to an alias has the same effect as a request to the collection's own path.
    let path = row.alias_of.as_deref().unwrap_or(&row.path);
    let path = path.strip_prefix(SERVICES)?.trim_start_matches('/');
    if row.method == Method::GET || UNAUDITED_PREFIXES.iter().any(|begin| path.starts_with(begin)) {
        return None;
    }
    let action = path.rsplit('/').next().and_then(|last| ACTIONS.iter().find(|(action, _)| *action == last));
    Some(match action {
        Some((_, operation)) => operation,
        None if row.method == Method::DELETE => "remove",
        None if path.contains('{') || !has_members(&row.path) => "edit",
        None => "create",
    })
}

/// The operation that a successful request has performed: a change may have created its entity.
fn done(operation: &'static str, row: &EndpointRow, status: StatusCode) -> &'static str {
    if status == StatusCode::CREATED && row.may_create() { "create" } else { operation }
}

/// Whether the path is that of a collection, in which a request creates members.
fn has_members(path: &str) -> bool {
    ENDPOINTS.iter().any(|row| row.path.strip_prefix(path).is_some_and(|rest| rest.starts_with("/{")))
}

/// Last path segments that name an action, with the audited operations.
const ACTIONS: [(&str, &str); 3] = [("_new", "create"), ("_reload", "reload"), ("restart", "restart")];

/// Path prefixes of requests that are not audited here, because they change no configuration object or write their own
/// audit events.
const UNAUDITED_PREFIXES: [&str; 11] = [
    "auth/",
    "authentication/",
    "authorization/tokens",
    "data/inputs/oneshot",
    "indexing/preview",
    "quarry/",
    "receivers/",
    "search/jobs",
    "search/parser",
    "search/v2/",
    "storage/collections/data",
];

/// Rows by path and method, to look up the row of each request.
static ROWS: LazyLock<BTreeMap<(&'static str, &'static str), &'static EndpointRow>> =
    LazyLock::new(|| ENDPOINTS.iter().map(|row| ((row.path.as_str(), row.method.as_str()), row)).collect());

fn find_row(method: &Method, path: &str) -> Option<&'static EndpointRow> {
    let row = ROWS.get(&(row_path(path).as_ref(), method.as_str())).copied();
    row.filter(|row| !path.starts_with(NAMESPACE) || row.is_namespaced)
}

/// Actions of collections by the collection's path: the relation of the link and the action's name. Actions are `_new`
/// (relation `create`), `_reload`, and paths that only take a `POST`, such as `restart`.
static ACTIONS_OF: LazyLock<BTreeMap<&'static str, Vec<(&'static str, &'static str)>>> = LazyLock::new(|| {
    let mut found: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for row in ENDPOINTS.iter() {
        let Some((collection, name)) = row.path.rsplit_once('/') else { continue };
        let is_action = match name {
            "_new" | "_reload" => row.method == Method::GET,
            name => {
                row.method == Method::POST && !name.contains('{') && !ROWS.contains_key(&(row.path.as_str(), "GET"))
            }
        };
        if is_action {
            let relation = if name == "_new" { "create" } else { name };
            found.entry(collection).or_default().push((relation, name));
        }
    }
    found
});

/// Links to the actions of the collection at a path: relation and path.
pub(crate) fn links_of(path: &str) -> Vec<(&'static str, String)> {
    let below = below_root(path).map(|below| format!("{SERVICES}/{}", below.trim_start_matches('/')));
    let actions = below.and_then(|place| ACTIONS_OF.get(place.as_str()));
    actions.into_iter().flatten().map(|(relation, name)| (*relation, format!("{path}/{name}"))).collect()
}

/// A path without its namespace.
fn row_path(path: &str) -> Cow<'_, str> {
    path.strip_prefix(NAMESPACE).map_or(Cow::Borrowed(path), |rest| format!("{SERVICES}{rest}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_audited_as_what_they_do() {
        // Paths that are not collections, with the audited operation of a request. Each path of this kind must be
        // listed in `expected`, unless all its requests are refused and therefore not audited.
        let may_succeed = |row: &EndpointRow| {
            row.answers.as_ref().is_none_or(|answers| answers.iter().any(|(status, _)| status.is_success()))
        };
        let single = ENDPOINTS.iter().filter_map(|row| {
            let operation = operation_of(row).filter(|_| row.alias_of.is_none() && may_succeed(row))?;
            let is_action = ["/_new", "/_reload"].iter().any(|action| row.path.ends_with(action));
            let is_single = !row.path.contains('{') && !is_action && !has_members(&row.path);
            is_single.then_some((row.path.strip_prefix("/services/")?, operation))
        });
        let expected = [
            ("admin/cacheman/_evict", "edit"),
            ("server/settings/settings", "edit"),
            ("server/control/restart", "restart"),
            ("data/inputs/http/http", "edit"),
            ("data/inputs/http/http/enable", "edit"),
            ("data/inputs/http/http/disable", "edit"),
        ];
        assert_eq!(single.collect::<Vec<_>>(), expected);
        let of = |method: &str, path: &str| {
            operation_of(ROWS[&(format!("{SERVICES}/{path}").as_str(), method)]).unwrap_or_default()
        };
        assert_eq!(of("POST", "server/control/restart"), "restart");
        assert_eq!(of("POST", "saved/searches/_reload"), "reload");
        assert_eq!(of("POST", "saved/searches"), "create");
        assert_eq!(of("POST", "saved/searches/_new"), "create");
        assert_eq!(of("POST", "saved/searches/{name}/disable"), "edit");
        assert_eq!(of("DELETE", "saved/searches/{name}"), "remove");
        let change = ROWS[&("/services/saved/searches/{name}", "POST")];
        assert_eq!(done("edit", change, StatusCode::CREATED), "create");
        assert_eq!(done("edit", change, StatusCode::OK), "edit");
    }
}
