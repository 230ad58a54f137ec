//! What each endpoint takes of its caller: the table, and the one place that looks at it.
//!
//! A request is let through to an endpoint when the table has its path and method and the caller's roles hold what stands
//! there; a handler that is not in the table is never reached. Paths below `/servicesNS/USER/APP` are those below
//! `/services`.

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quarry_conf::permissions::{INDEXES_EDIT, SEARCH};

use crate::ApiState;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::check_query;

/// Reads files of the node's machine, and looks at what would become of them.
const EDIT_MONITOR: &str = "edit_monitor";
/// Lists, makes, changes and removes users.
const EDIT_USER: &str = "edit_user";
/// Sees and changes tokens of the HTTP Event Collector.
const EDIT_TOKENS: &str = "edit_token_http";
/// Sees how the node keeps its events.
const LIST_INTROSPECTION: &str = "list_introspection";
/// Reads what apps and users have.
const REST_PROPERTIES: &str = "rest_properties_get";
/// Lists apps.
const REST_APPS: &str = "rest_apps_view";
/// How paths of a namespace begin.
const NAMESPACE: &str = "/servicesNS/{user}/{app}";

/// What an endpoint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: whoever wants to log in is nobody yet.
    Open,
    /// A login; what is one's own, such as a password, is looked at behind it.
    LoggedIn,
    /// A capability of the caller's roles.
    Capability(&'static str),
}

/// An endpoint and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAccess {
    /// HTTP method; `HEAD` is as `GET`.
    pub method: Method,
    /// Path from `/services`, with `{names}` of its parts.
    pub path: &'static str,
    /// What it takes.
    pub access: Access,
}

const fn own(method: Method, path: &'static str) -> EndpointAccess {
    EndpointAccess { method, path, access: Access::LoggedIn }
}

const fn row(method: Method, path: &'static str, capability: &'static str) -> EndpointAccess {
    EndpointAccess { method, path, access: Access::Capability(capability) }
}

/// Every endpoint.
pub static ENDPOINTS: &[EndpointAccess] = &[
    EndpointAccess { method: Method::GET, path: "/", access: Access::Open },
    EndpointAccess { method: Method::POST, path: "/services/auth/login", access: Access::Open },
    own(Method::POST, "/services/auth/logout"),
    own(Method::DELETE, "/services/authentication/httpauth-tokens/{key}"),
    own(Method::GET, "/services/authentication/current-context"),
    row(Method::GET, "/services/authentication/users", EDIT_USER),
    row(Method::POST, "/services/authentication/users", EDIT_USER),
    own(Method::GET, "/services/authentication/users/{name}"),
    own(Method::POST, "/services/authentication/users/{name}"),
    row(Method::DELETE, "/services/authentication/users/{name}", EDIT_USER),
    row(Method::POST, "/services/search/jobs", SEARCH),
    row(Method::GET, "/services/search/jobs", SEARCH),
    row(Method::GET, "/services/search/jobs/{sid}", SEARCH),
    row(Method::DELETE, "/services/search/jobs/{sid}", SEARCH),
    row(Method::POST, "/services/search/jobs/{sid}/control", SEARCH),
    row(Method::GET, "/services/search/jobs/{sid}/results", SEARCH),
    row(Method::POST, "/services/search/jobs/{sid}/results", SEARCH),
    row(Method::GET, "/services/search/jobs/{sid}/results_preview", SEARCH),
    row(Method::POST, "/services/search/jobs/{sid}/results_preview", SEARCH),
    row(Method::GET, "/services/search/jobs/{sid}/events", SEARCH),
    row(Method::POST, "/services/search/jobs/{sid}/events", SEARCH),
    row(Method::GET, "/services/search/jobs/{sid}/timeline", SEARCH),
    row(Method::GET, "/services/search/jobs/{sid}/summary", SEARCH),
    row(Method::GET, "/services/search/jobs/{sid}/search.log", SEARCH),
    row(Method::GET, "/services/search/v2/jobs", SEARCH),
    row(Method::POST, "/services/search/v2/jobs", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/{sid}", SEARCH),
    row(Method::DELETE, "/services/search/v2/jobs/{sid}", SEARCH),
    row(Method::POST, "/services/search/v2/jobs/{sid}/control", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/{sid}/results", SEARCH),
    row(Method::POST, "/services/search/v2/jobs/{sid}/results", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/{sid}/results_preview", SEARCH),
    row(Method::POST, "/services/search/v2/jobs/{sid}/results_preview", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/{sid}/events", SEARCH),
    row(Method::POST, "/services/search/v2/jobs/{sid}/events", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/{sid}/timeline", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/{sid}/summary", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/{sid}/search.log", SEARCH),
    row(Method::GET, "/services/search/jobs/export", SEARCH),
    row(Method::POST, "/services/search/jobs/export", SEARCH),
    row(Method::GET, "/services/search/v2/jobs/export", SEARCH),
    row(Method::POST, "/services/search/v2/jobs/export", SEARCH),
    row(Method::POST, "/services/quarry/explain", SEARCH),
    row(Method::GET, "/services/admin/macros", REST_PROPERTIES),
    row(Method::GET, "/services/admin/macros/{name}", REST_PROPERTIES),
    row(Method::GET, "/services/admin/summarization", REST_PROPERTIES),
    row(Method::GET, "/services/admin/summarization/{name}", REST_PROPERTIES),
    row(Method::GET, "/services/apps/local", REST_APPS),
    row(Method::GET, "/services/apps/local/{name}", REST_APPS),
    own(Method::GET, "/services/data/indexes"),
    own(Method::GET, "/services/data/indexes/{name}"),
    row(Method::GET, "/services/data/lookup-table-files", REST_PROPERTIES),
    row(Method::GET, "/services/data/lookup-table-files/{name}", REST_PROPERTIES),
    row(Method::GET, "/services/data/props/extractions", REST_PROPERTIES),
    row(Method::GET, "/services/data/props/extractions/{name}", REST_PROPERTIES),
    row(Method::GET, "/services/data/transforms/lookups", REST_PROPERTIES),
    row(Method::GET, "/services/data/transforms/lookups/{name}", REST_PROPERTIES),
    row(Method::GET, "/services/datamodel/model", REST_PROPERTIES),
    row(Method::GET, "/services/datamodel/model/{name}", REST_PROPERTIES),
    row(Method::GET, "/services/saved/searches", REST_PROPERTIES),
    row(Method::GET, "/services/saved/searches/{name}", REST_PROPERTIES),
    own(Method::GET, "/services/server/info"),
    row(Method::POST, "/services/data/inputs/oneshot", EDIT_MONITOR),
    row(Method::POST, "/services/indexing/preview", EDIT_MONITOR),
    row(Method::GET, "/services/quarry/buckets", LIST_INTROSPECTION),
    row(Method::POST, "/services/quarry/buckets/verify", LIST_INTROSPECTION),
    row(Method::POST, "/services/quarry/buckets/compact", INDEXES_EDIT),
    row(Method::POST, "/services/quarry/buckets/thaw", INDEXES_EDIT),
    row(Method::GET, "/services/data/inputs/http", EDIT_TOKENS),
    row(Method::POST, "/services/data/inputs/http", EDIT_TOKENS),
    row(Method::GET, "/services/data/inputs/http/{name}", EDIT_TOKENS),
    row(Method::POST, "/services/data/inputs/http/{name}", EDIT_TOKENS),
    row(Method::DELETE, "/services/data/inputs/http/{name}", EDIT_TOKENS),
    row(Method::POST, "/services/data/inputs/http/{name}/{action}", EDIT_TOKENS),
];

/// Lets a request through to its endpoint, or answers why not.
pub(crate) async fn authorise(
    State(state): State<ApiState>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
    let Some(row) = row_of(&method, path.as_str()) else {
        let text = format!("{method} is not served here");
        return ApiError::with_status(StatusCode::METHOD_NOT_ALLOWED, text).into_response();
    };
    if row.access == Access::Open {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let caller = match Caller::from_request_parts(&mut parts, &state).await {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    if let Access::Capability(capability) = row.access
        && !caller.permissions.holds(capability)
    {
        let user = &caller.identity.user;
        let text = format!(
            "user {user} may not do this: it takes the capability {capability}, which none of the user's roles has"
        );
        return ApiError::forbidden(text).into_response();
    }
    if let Err(error) = check_query(parts.uri.query().unwrap_or_default()) {
        return error.into_response();
    }
    parts.extensions.insert(caller);
    next.run(Request::from_parts(parts, body)).await
}

fn row_of(method: &Method, path: &str) -> Option<&'static EndpointAccess> {
    let below = path.strip_prefix(NAMESPACE).map(|rest| format!("/services{rest}"));
    let path = below.as_deref().unwrap_or(path);
    ENDPOINTS.iter().find(|row| row.method == *method && row.path == path)
}
