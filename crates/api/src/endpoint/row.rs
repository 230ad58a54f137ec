//! A row of the table of endpoints: what an endpoint is called, takes of its caller and as parameters, and what serves it; and the
//! capabilities that endpoints take.
//!
//! Not here: which rows there are ([`super::table`]), and who is let through ([`super::access`]).

use axum::Router;
use axum::http::Method;
use axum::routing::MethodRouter;

use crate::ApiState;

/// Reads files of the node's machine, and looks at what would become of them.
pub(super) const EDIT_MONITOR: &str = "edit_monitor";
/// Sends events over the management port.
pub(super) const EDIT_TCP: &str = "edit_tcp";
/// Tells all users something.
pub(super) const EDIT_MESSAGES: &str = "edit_messages";
/// Makes, changes and removes lookup files.
pub(super) const UPLOAD_LOOKUPS: &str = "upload_lookup_files";
/// Changes inputs that receive what forwarders send.
pub(super) const EDIT_SPLUNKTCP: &str = "edit_splunktcp";
/// Changes inputs of datagrams.
pub(super) const EDIT_UDP: &str = "edit_udp";
/// Changes inputs that run programs.
pub(super) const EDIT_SCRIPTED: &str = "edit_scripted";
/// Sees and changes tokens of the HTTP Event Collector.
pub(super) const EDIT_TOKENS: &str = "edit_token_http";
/// Sees how the node keeps its events.
pub(super) const LIST_INTROSPECTION: &str = "list_introspection";
/// Reads what apps and users have.
pub(super) const REST_PROPERTIES: &str = "rest_properties_get";
/// Changes settings of apps and users.
pub(super) const REST_PROPERTIES_SET: &str = "rest_properties_set";
/// Lists apps.
pub(super) const REST_APPS: &str = "rest_apps_view";
/// Asks what a search may go on with.
pub(super) const TYPEAHEAD: &str = "get_typeahead";
/// Makes, changes and removes apps.
pub(super) const EDIT_APPS: &str = "edit_local_apps";
/// Sees and changes passwords that apps keep.
pub(super) const LIST_PASSWORDS: &str = "list_storage_passwords";
/// Changes passwords that apps keep.
pub(super) const EDIT_PASSWORDS: &str = "edit_storage_passwords";

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

/// What the body of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// Parameters, as a form sends them.
    Form,
    /// A JSON object.
    JsonObject,
    /// A list of JSON objects.
    JsonList,
}

/// Where paths begin without a namespace.
pub(crate) const SERVICES: &str = "/services";
/// Where they begin with that of a user and an app.
pub(crate) const NAMESPACE: &str = "/servicesNS/{user}/{app}";

/// Where paths of the node's own interface begin, which is not Splunk's.
pub(crate) const API: &str = "/api/v1";

/// One method of a path.
#[derive(Clone)]
pub(crate) struct Endpoint {
    method: Method,
    /// Where its path begins.
    root: &'static str,
    /// Path behind the root, with `{names}` of its parts.
    path: String,
    access: Access,
    /// Whether it is also served below a namespace.
    is_namespaced: bool,
    /// Parameters, besides those that every collection takes.
    takes: &'static [&'static str],
    /// Parameters that must be there.
    needs: &'static [&'static str],
    /// What the body is.
    body: RequestBody,
    /// What it does.
    summary: &'static str,
    serve: MethodRouter<ApiState>,
}

/// A row of the table without what serves it, for pages and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRow {
    /// HTTP method; `HEAD` is as `GET`.
    pub method: Method,
    /// Path from `/services` or `/api`, with `{names}` of its parts.
    pub path: String,
    /// What it takes of its caller.
    pub access: Access,
    /// Whether it is also served below `/servicesNS/USER/APP`.
    pub is_namespaced: bool,
    /// Parameters it reads.
    pub takes: &'static [&'static str],
    /// Parameters that must be there.
    pub needs: &'static [&'static str],
    /// What the body is, if it has one.
    pub body: RequestBody,
    /// What it does.
    pub summary: &'static str,
}

impl Endpoint {
    /// A row; `path` is behind a root. It is served below namespaces, too.
    pub(crate) fn new(
        method: Method,
        path: impl Into<String>,
        access: Access,
        summary: &'static str,
        serve: MethodRouter<ApiState>,
    ) -> Endpoint {
        let path = path.into();
        let (root, body) = (SERVICES, RequestBody::Form);
        Endpoint { method, root, path, access, is_namespaced: true, takes: &[], needs: &[], body, summary, serve }
    }

    /// The same, served without a namespace only.
    pub(crate) fn of_node(self) -> Endpoint {
        Endpoint { is_namespaced: false, ..self }
    }

    /// The same at the root of all, whatever its path.
    pub(crate) fn of_root(self) -> Endpoint {
        Endpoint { root: "", path: String::new(), ..self.of_node() }
    }

    /// The same as a part of the node's own interface.
    pub(crate) fn of_api(self) -> Endpoint {
        Endpoint { root: API, ..self.of_node() }
    }

    /// The same with these parameters.
    pub(crate) fn takes(self, takes: &'static [&'static str]) -> Endpoint {
        Endpoint { takes, ..self }
    }

    /// The same with another body.
    pub(crate) fn body(self, body: RequestBody) -> Endpoint {
        Endpoint { body, ..self }
    }

    /// The same, which cannot do without these parameters.
    pub(crate) fn needs(self, needs: &'static [&'static str]) -> Endpoint {
        Endpoint { needs, ..self }
    }

    /// Adds it to a router.
    pub(super) fn mount(self, router: Router<ApiState>) -> Router<ApiState> {
        let router = match self.is_namespaced {
            true => router.route(&joined(NAMESPACE, &self.path), self.serve.clone()),
            false => router,
        };
        router.route(&joined(self.root, &self.path), self.serve)
    }

    /// The row without its handler.
    pub(super) fn row(&self) -> EndpointRow {
        let Endpoint { method, root, path, access, is_namespaced, takes, needs, body, summary, serve: _ } =
            self.clone();
        let path = joined(root, &path);
        EndpointRow { method, path, access, is_namespaced, takes, needs, body, summary }
    }
}

/// A path behind its root.
fn joined(root: &str, path: &str) -> String {
    if path.is_empty() && !root.is_empty() { root.to_owned() } else { format!("{root}/{path}") }
}
