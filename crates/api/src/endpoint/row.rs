//! A row of the table of endpoints: path, method, required access, parameters, help text and handler; and the
//! capabilities that endpoints require.
//!
//! Not here: the rows themselves ([`super::table`]), and checking access ([`super::access`]).

use axum::http::{Method, StatusCode};
use axum::routing::MethodRouter;
use axum::{Extension, Router};

use super::answer_shape::{AnswerShape, Content};
use crate::ApiState;
use crate::parameters::DeclaredParameters;

/// Capability to read files on the server. Each constant from here to [`Access`] is a capability; its comment says what
/// it permits.
pub(super) const EDIT_MONITOR: &str = "edit_monitor";
/// Sending events over the management port.
pub(super) const EDIT_TCP: &str = "edit_tcp";
/// Publishing messages to all users.
pub(super) const EDIT_MESSAGES: &str = "edit_messages";
/// Creating, changing and removing lookup files.
pub(super) const UPLOAD_LOOKUPS: &str = "upload_lookup_files";
/// Changing forwarder inputs.
pub(super) const EDIT_SPLUNKTCP: &str = "edit_splunktcp";
/// Changing tokens that forwarders present.
pub(super) const EDIT_SPLUNKTCP_TOKEN: &str = "edit_splunktcp_token";
/// Changing the certificate of inputs over TLS.
pub(super) const EDIT_SPLUNKTCP_SSL: &str = "edit_splunktcp_ssl";
/// Changing the bookmarks of the Monitoring Console.
pub(super) const EDIT_BOOKMARKS: &str = "edit_bookmarks_mc";
/// Changing the message that every page shows.
pub(super) const EDIT_BANNER: &str = "edit_global_banner";
/// Changing which fields of events become metrics.
pub(super) const EDIT_METRIC_SCHEMA: &str = "edit_metric_schema";
/// Changing metric alerts.
pub(super) const METRIC_ALERTS: &str = "metric_alerts";
/// Changing sourcetypes.
pub(super) const EDIT_SOURCETYPES: &str = "edit_sourcetypes";
/// Changing how names of statsd metrics become dimensions.
pub(super) const EDIT_STATSD: &str = "edit_statsd_transforms";
/// Making the node part of an indexer cluster.
pub(super) const EDIT_INDEXER_CLUSTER: &str = "edit_indexer_cluster";
/// Reading the state of an indexer cluster.
pub(super) const LIST_INDEXER_CLUSTER: &str = "list_indexer_cluster";
/// Making the node part of a search head cluster.
pub(super) const EDIT_SEARCH_HEAD_CLUSTERING: &str = "edit_search_head_clustering";
/// Changing the nodes that searches are sent to.
pub(super) const EDIT_SEARCH_SERVER: &str = "edit_search_server";
/// Changing licences.
pub(super) const LICENSE_EDIT: &str = "license_edit";
/// Changing the distribution of apps by a deployment server.
pub(super) const EDIT_DEPLOYMENT_SERVER: &str = "edit_deployment_server";
/// Changing how users are authenticated.
pub(super) const CHANGE_AUTHENTICATION: &str = "change_authentication";
/// Saving and restoring collections of the KV store.
pub(super) const EDIT_KVSTORE: &str = "edit_kvstore";
/// Switching the limits of searches by workload pools on and off.
pub(super) const EDIT_WORKLOAD_POLICY: &str = "edit_workload_policy";
/// Changing workload pools.
pub(super) const EDIT_WORKLOAD_POOLS: &str = "edit_workload_pools";
/// Changing the rules that assign searches to workload pools.
pub(super) const EDIT_WORKLOAD_RULES: &str = "edit_workload_rules";
/// Switching scheduled searches on and off.
pub(super) const EDIT_SEARCH_SCHEDULER: &str = "edit_search_scheduler";
/// Restarting the node.
pub(super) const RESTART: &str = "restart_splunkd";
/// Changing settings of the node.
pub(super) const EDIT_SERVER: &str = "edit_server";
/// Changing UDP inputs.
pub(super) const EDIT_UDP: &str = "edit_udp";
/// Listing the possible kinds of inputs.
pub(super) const LIST_INPUTS: &str = "list_inputs";
/// Changing inputs that run programs.
pub(super) const EDIT_SCRIPTED: &str = "edit_scripted";
/// Reading and changing the indexers of a forwarder.
pub(super) const EDIT_FORWARDERS: &str = "edit_forwarders";
/// Reading and changing tokens of the HTTP Event Collector.
pub(super) const EDIT_TOKENS: &str = "edit_token_http";
/// Reading how the node stores its events.
pub(super) const LIST_INTROSPECTION: &str = "list_introspection";
/// Reading objects of apps and users.
pub(super) const REST_PROPERTIES: &str = "rest_properties_get";
/// Changing settings of apps and users.
pub(super) const REST_PROPERTIES_SET: &str = "rest_properties_set";
/// Listing apps.
pub(super) const REST_APPS: &str = "rest_apps_view";
/// Completion of searches.
pub(super) const TYPEAHEAD: &str = "get_typeahead";
/// Creating, changing and removing apps.
pub(super) const EDIT_APPS: &str = "edit_local_apps";
/// Reading passwords of apps.
pub(super) const LIST_PASSWORDS: &str = "list_storage_passwords";
/// Changing passwords of apps.
pub(super) const EDIT_PASSWORDS: &str = "edit_storage_passwords";

/// Access that an endpoint requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No authentication, for login.
    Open,
    /// A login; access to one's own data, such as a password, is checked by the handler.
    LoggedIn,
    /// A capability of the caller's roles.
    Capability(&'static str),
}

/// The kind of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// Form parameters.
    Form,
    /// A JSON object.
    JsonObject,
    /// A list of JSON objects.
    JsonList,
    /// Any bytes; parameters are in the URL.
    Bytes,
}

/// Root of paths without a namespace.
pub(crate) const SERVICES: &str = "/services";
/// Root of paths with a namespace of user and app.
pub(crate) const NAMESPACE: &str = "/servicesNS/{user}/{app}";

/// Root of Quarry's own interface, which is not Splunk's.
pub(crate) const API: &str = "/api/v1";

/// One method of a path.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(super) method: Method,
    /// Root of the path.
    pub(super) root: &'static str,
    /// Path after the root; variable segments are written `{name}`.
    pub(super) path: String,
    pub(super) access: Access,
    /// Whether the endpoint is also served below a namespace.
    pub(super) is_namespaced: bool,
    /// Optional parameters.
    pub(super) takes: &'static [&'static str],
    /// Required parameters.
    pub(super) needs: &'static [&'static str],
    /// Kind of body that the endpoint accepts.
    pub(super) body: RequestBody,
    /// Answers of successful requests, by status; `None` if the row does not state the answers.
    pub(super) answers: Option<Vec<(StatusCode, AnswerShape)>>,
    /// Patterns of the names of further parameters.
    pub(super) patterns: &'static [&'static str],
    /// The conf with the entities of a collection.
    pub(super) conf: Option<&'static str>,
    /// Path of the row that an alias repeats.
    pub(super) alias_of: Option<String>,
    /// Help text.
    pub(super) summary: &'static str,
    pub(super) serve: MethodRouter<ApiState>,
}

/// A row without its handler, for documentation and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRow {
    /// HTTP method; `HEAD` is treated like `GET`.
    pub method: Method,
    /// Absolute path, such as `/services/…` or `/api/…`; variable segments are written `{name}`.
    pub path: String,
    /// Required access.
    pub access: Access,
    /// Whether the endpoint is also served below `/servicesNS/USER/APP`.
    pub is_namespaced: bool,
    /// Optional parameters.
    pub takes: &'static [&'static str],
    /// Required parameters.
    pub needs: &'static [&'static str],
    /// Kind of the body.
    pub body: RequestBody,
    /// Answers of successful requests, by status, or the only answer of an unavailable endpoint; empty if the endpoint
    /// refuses all requests, `None` if the row does not state the answers.
    pub(crate) answers: Option<Vec<(StatusCode, AnswerShape)>>,
    /// Path of the row that this row repeats at another path, if this row is an alias.
    pub alias_of: Option<String>,
    /// Help text.
    pub summary: &'static str,
}

impl EndpointRow {
    /// Whether the endpoint changes the entity at its path, or creates the entity if a request names it.
    pub(super) fn may_create(&self) -> bool {
        let is_of_entity = self.method == Method::POST && self.path.ends_with("/{name}");
        let is_created =
            |(status, answer): &(StatusCode, AnswerShape)| *status == StatusCode::CREATED && answer.content().is_some();
        is_of_entity && self.answers.iter().flatten().any(is_created)
    }
}

impl Endpoint {
    /// A row whose `path` is relative to the root. The row is also served below namespaces.
    pub(crate) fn new(
        method: Method,
        path: impl Into<String>,
        access: Access,
        summary: &'static str,
        serve: MethodRouter<ApiState>,
    ) -> Endpoint {
        let path = path.into();
        let (root, body) = (SERVICES, RequestBody::Form);
        let (is_namespaced, answers) = (true, None);
        let (takes, needs, patterns): (&[&str], &[&str], &[&str]) = (&[], &[], &[]);
        let (conf, alias_of) = (None, None);
        Endpoint {
            method,
            root,
            path,
            access,
            is_namespaced,
            takes,
            needs,
            body,
            answers,
            patterns,
            conf,
            alias_of,
            summary,
            serve,
        }
    }

    /// Serves the endpoint below `/services` only, not below namespaces.
    pub(crate) fn without_namespace(self) -> Endpoint {
        Endpoint { is_namespaced: false, ..self }
    }

    /// Serves the endpoint at the path `/`.
    pub(crate) fn at_root(self) -> Endpoint {
        Endpoint { root: "", path: String::new(), ..self.without_namespace() }
    }

    /// Serves the endpoint as part of Quarry's own interface.
    pub(crate) fn in_quarry_api(self) -> Endpoint {
        Endpoint { root: API, ..self.without_namespace() }
    }

    /// Sets the optional parameters.
    pub(crate) fn takes(self, takes: &'static [&'static str]) -> Endpoint {
        Endpoint { takes, ..self }
    }

    /// Sets the kind of request body.
    pub(crate) fn body(self, body: RequestBody) -> Endpoint {
        Endpoint { body, ..self }
    }

    /// Sets the required parameters.
    pub(crate) fn needs(self, needs: &'static [&'static str]) -> Endpoint {
        Endpoint { needs, ..self }
    }

    /// Sets the patterns of further parameters.
    pub(crate) fn takes_patterns(self, patterns: &'static [&'static str]) -> Endpoint {
        Endpoint { patterns, ..self }
    }

    /// Sets the conf with the entities of a collection.
    pub(crate) fn of_conf(self, conf: &'static str) -> Endpoint {
        Endpoint { conf: Some(conf), ..self }
    }

    /// Whether the endpoint answers with entities.
    pub(super) fn shows_entities(&self) -> bool {
        self.answers.iter().flatten().any(|(_, answer)| answer.content().is_some())
    }

    /// Sets the shape of the successful answer, which has status 200.
    pub(crate) fn answers(self, answer: AnswerShape) -> Endpoint {
        self.answers_with(StatusCode::OK, answer)
    }

    /// Replaces the answers stated so far with an answer with this status.
    pub(crate) fn answers_with(self, status: StatusCode, answer: AnswerShape) -> Endpoint {
        Endpoint { answers: Some(vec![(status, answer)]), ..self }
    }

    /// Adds the shape of an answer with another status.
    pub(crate) fn or_answers(self, status: StatusCode, answer: AnswerShape) -> Endpoint {
        let mut answers = self.answers.unwrap_or_default();
        answers.push((status, answer));
        Endpoint { answers: Some(answers), ..self }
    }

    /// Makes the endpoint refuse all requests.
    pub(crate) fn refuses(self) -> Endpoint {
        Endpoint { answers: Some(Vec::new()), ..self }
    }

    /// Whether the endpoint creates an entity with the name in the request.
    pub(super) fn creates(&self) -> bool {
        self.method == Method::POST && self.needs.contains(&"name")
    }

    /// Adds the endpoint to a router.
    pub(super) fn mount(self, router: Router<ApiState>) -> Router<ApiState> {
        let serve = self.serve.layer(Extension(DeclaredParameters(self.takes)));
        let router = match self.is_namespaced {
            true => router.route(&join_path(NAMESPACE, &self.path), serve.clone()),
            false => router,
        };
        router.route(&join_path(self.root, &self.path), serve)
    }

    /// The endpoint at an alias of a collection, if the endpoint's path is the collection's path or below it.
    pub(super) fn at_alias(&self, alias: &str, collection: &str) -> Option<Endpoint> {
        let rest = self.path.strip_prefix(collection).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        let alias_of = Some(join_path(self.root, &self.path));
        Some(Endpoint { path: format!("{alias}{rest}"), alias_of, ..self.clone() })
    }

    /// The path with its root.
    pub(super) fn full_path(&self) -> String {
        join_path(self.root, &self.path)
    }

    /// The row without its handler.
    pub(super) fn into_row(self) -> EndpointRow {
        let path = self.full_path();
        let Endpoint { method, access, is_namespaced, takes, needs, body, answers, alias_of, summary, .. } = self;
        EndpointRow { method, path, access, is_namespaced, takes, needs, body, answers, alias_of, summary }
    }
}

fn join_path(root: &str, path: &str) -> String {
    if path.is_empty() && !root.is_empty() { root.to_owned() } else { format!("{root}/{path}") }
}

/// States for all rows that they answer with entities of this content, with status 201 if the row creates an entity and
/// 200 otherwise.
pub(super) fn entities(rows: Vec<Endpoint>, content: &Content) -> Vec<Endpoint> {
    let stated = |row: Endpoint| {
        let answer = AnswerShape::Entities(content.clone());
        let status = if row.creates() { StatusCode::CREATED } else { StatusCode::OK };
        row.answers_with(status, answer)
    };
    rows.into_iter().map(stated).collect()
}
