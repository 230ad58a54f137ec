//! Constant answers about parts of Splunk that this node does not have: licences, clusters, deployment servers.
//!
//! The answers are true: there is no licence, and the node belongs to no cluster. Endpoints that only a cluster member
//! can answer return 503, as on a stand-alone Splunk server. Requests that would join a cluster are refused.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use quarry_apps::objects::{APP_SYSTEM, NOBODY, Objects};
use quarry_conf::Permissions;
use serde_json::{Map, Value};

use super::answer_shape::{AnswerShape, Content, MESSAGES};
use super::entities::{scope_of, with_objects};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{
    Access, CHANGE_AUTHENTICATION, EDIT_DEPLOYMENT_SERVER, EDIT_INDEXER_CLUSTER, EDIT_KVSTORE,
    EDIT_SEARCH_HEAD_CLUSTERING, EDIT_SEARCH_SCHEDULER, EDIT_SEARCH_SERVER, EDIT_SERVER, EDIT_WORKLOAD_POLICY,
    EDIT_WORKLOAD_POOLS, EDIT_WORKLOAD_RULES, Endpoint, LICENSE_EDIT, LIST_INDEXER_CLUSTER, LIST_INTROSPECTION,
    RESTART, entities,
};
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, escape_segment};
use crate::caller::Caller;
use crate::message::{ApiError, LackedPart};
use crate::parameters::Parameters;

/// An entity: its name and members.
type Fact = (&'static str, &'static [(&'static str, &'static str)]);

/// Alerts that have fired, by the name of their saved search.
const FIRED_ALERTS: &str = "alerts/fired_alerts";

/// Roles of users whom a SAML identity provider authenticates.
const SAML_GROUPS: &str = "admin/SAML-groups";

/// Folder of statistics, which require a capability.
const INTROSPECTION: &str = "server/introspection/";

/// Collections and their entities.
const FACTS: &[(&str, &[Fact])] = &[
    ("admin/Duo-MFA", &[]),
    ("admin/LDAP-auth", &[]),
    ("admin/LDAP-groups", &[]),
    ("admin/ProxySSO-auth", &[]),
    ("admin/ProxySSO-groups", &[]),
    ("admin/ProxySSO-user-role-map", &[]),
    ("admin/Rsa-MFA", &[]),
    ("admin/SAML-auth", &[]),
    (SAML_GROUPS, &[]),
    ("admin/SAML-user-role-map", &[]),
    ("admin/token-auth", &[("tokens_auth", &[("disabled", "0")])]),
    (FIRED_ALERTS, &[("-", &[("triggered_alert_count", "0")])]),
    ("apps/apptemplates", &[("barebones", &[])]),
    ("authentication/providers/LDAP", &[]),
    ("authentication/providers/SAML", &[]),
    ("authentication/providers/oauth2", &[]),
    ("authentication/providers/services", &[("active_authmodule", &[("active_authmodule", "Splunk")])]),
    ("authorization/fieldfilters", &[]),
    ("catalog/metricstore/rollup", &[]),
    ("cluster/config", &[("config", &[("mode", "disabled"), ("disabled", "1")])]),
    ("data/federated/index", &[]),
    ("data/federated/provider", &[]),
    ("data/federated/settings", &[("general", &[("disabled", "1")])]),
    ("data/ingest/rfsdestinations", &[]),
    ("data/ingest/rulesets", &[]),
    // A file that is added once is no longer an input after the request, so none is listed.
    ("data/inputs/oneshot", &[]),
    ("deployment/client", &[("config", &[("disabled", "1")])]),
    ("deployment/client/config", &[("config", &[("disabled", "1")])]),
    ("deployment/client/config/listIsDisabled", &[("default", &[("disabled", "1")])]),
    ("deployment/server", &[]),
    ("deployment/server/applications", &[]),
    ("deployment/server/clients", &[]),
    ("deployment/server/clients/countClients_by_machineType", &[("countClients_by_machineType", &[])]),
    ("deployment/server/clients/countRecentDownloads", &[("countRecentDownloads", &[("count", "0")])]),
    ("deployment/server/config", &[("config", &[("disabled", "1")])]),
    ("deployment/server/config/attributesUnsupportedInUI", &[]),
    ("deployment/server/config/listIsDisabled", &[("default", &[("disabled", "1")])]),
    ("deployment/server/serverclasses", &[]),
    ("deployment/serverclass", &[]),
    ("deployment/tenants", &[]),
    ("licenser/groups", &[("Free", &[("is_active", "1"), ("stack_ids", "free")])]),
    ("licenser/licenses", &[]),
    ("licenser/localpeer", &[("license", &[("features", ""), ("connection_timeout", "30")])]),
    ("licenser/localslave", &[("license", &[("features", ""), ("connection_timeout", "30")])]),
    ("licenser/messages", &[]),
    ("licenser/peers", &[]),
    ("licenser/pools", &[("unlimited", &[("quota", "MAX"), ("used_bytes", "0"), ("stack_id", "free")])]),
    ("licenser/slaves", &[]),
    ("licenser/stacks", &[("free", &[("type", "free"), ("label", "free, unlimited"), ("quota", "MAX")])]),
    (
        "licenser/usage",
        &[("license_usage", &[("quota", "MAX"), ("slaves_usage_bytes", "0"), ("peers_usage_bytes", "0")])],
    ),
    ("scheduled/views", &[]),
    ("search/distributed/bundle-replication-files", &[]),
    ("search/distributed/bundle/replication/config", &[]),
    ("search/distributed/bundle/replication/cycles", &[]),
    ("search/distributed/config", &[("distributedSearch", &[("disabled", "1"), ("dist_search_enabled", "0")])]),
    ("search/distributed/groups", &[]),
    ("search/distributed/peers", &[]),
    ("search/scheduler", &[("scheduler", &[("saved_searches_disabled", "1")])]),
    ("search/scheduler/status", &[("status", &[("saved_searches_disabled", "1")])]),
    ("server/control", &[("restart", &[]), ("restart_webui", &[])]),
    // The thresholds of the health report are fixed.
    ("server/health-config", &[]),
    ("server/httpsettings/proxysettings", &[("proxyConfig", NO_PROXIES)]),
    // The stages between an input and the store have no queues with names, so none is listed.
    ("server/introspection/queues", &[]),
    // No times of searches are collected here: the job inspector has the times of each job.
    ("server/introspection/search/dispatch", &[]),
    ("server/introspection/search/distributed", &[]),
    // Scores of scheduled searches, which are not run yet.
    ("server/introspection/search/saved", &[]),
    // Nothing is listed, because the key that encrypts passwords must not be shown.
    ("server/security", &[]),
    ("shcluster/config", &[("config", &[("mode", "disabled"), ("disabled", "1")])]),
    ("workloads/categories", &[]),
    ("workloads/config/get-base-dirname", &[("workload-pool-base-path", &[("workload_pool_base_dir_name", "")])]),
    ("workloads/config/preflight-checks", &[]),
    ("workloads/policy", &[("search_admission_control", &[("admission_rules_enabled", "0")])]),
    ("workloads/pools", &[]),
    ("workloads/rules", &[]),
    (
        "workloads/status",
        &[("admission-control-status", &[("enabled", "0")]), ("workload-management-status", &[("enabled", "0")])],
    ),
];

/// Proxies for the node's own requests.
const NO_PROXIES: &[(&str, &str)] = &[("http_proxy", ""), ("https_proxy", ""), ("no_proxy", "")];

/// Error from endpoints that need an indexer cluster.
const NO_CLUSTER: &str = "Indexer clustering is not enabled on this node: it belongs to no cluster";
/// Error from endpoints that need a search head cluster.
const NO_HEADS: &str = "Search Head Clustering is not enabled on this node. REST endpoint is not available";

/// Error from endpoints that need a replica set.
const NO_REPLICAS: &str = "KV store replication is not enabled on this node: its collections are not replicated";

/// Endpoints that need a cluster or a replica set: folder, names in it, error.
const UNAVAILABLE: &[(&str, &[&str], &str)] = &[
    ("cluster/manager", MANAGER_ENDPOINTS, NO_CLUSTER),
    ("cluster/master", MANAGER_ENDPOINTS, NO_CLUSTER),
    ("cluster/peer", &["buckets", "info"], NO_CLUSTER),
    ("cluster/searchhead", &["generation", "searchheadconfig"], NO_CLUSTER),
    ("cluster/slave", &["buckets", "info"], NO_CLUSTER),
    ("replication/configuration", &["health"], NO_HEADS),
    ("server/introspection/kvstore", &["replicasetstats"], NO_REPLICAS),
    ("shcluster", &["status"], NO_HEADS),
    ("shcluster/captain", &["artifacts", "info", "jobs", "members", "peers"], NO_HEADS),
    ("shcluster/captain/kvmigrate", &["status"], NO_HEADS),
    ("shcluster/member", &["artifacts", "consensus", "info", "members"], NO_HEADS),
];
/// Changes of a cluster: folder, names in it, required capability, error. An entity can also be removed.
const UNAVAILABLE_CHANGES: &[(&str, &[&str], &str, &str)] = &[
    ("cluster/manager", &["redundancy"], EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/manager/buckets/{name}", BUCKET_CHANGES, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/manager/control/control", MANAGER_CONTROLS, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/manager/control/default", BUNDLE_CONTROLS, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/master", &["redundancy"], EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/master/buckets/{name}", BUCKET_CHANGES, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/master/control/control", MANAGER_CONTROLS, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/master/control/default", BUNDLE_CONTROLS, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/peer/control/control", PEER_CONTROLS, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/searchhead", &["searchheadconfig", ANY_SEARCH_HEAD], EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    ("cluster/slave/control/control", PEER_CONTROLS, EDIT_INDEXER_CLUSTER, NO_CLUSTER),
    (
        "shcluster/captain/control/control",
        &["rotate-splunk-secret", "upgrade-finalize", "upgrade-init"],
        EDIT_SEARCH_HEAD_CLUSTERING,
        NO_HEADS,
    ),
    ("shcluster/captain/control/default", &["restart"], EDIT_SEARCH_HEAD_CLUSTERING, NO_HEADS),
    ("shcluster/captain/kvmigrate", &["start", "stop"], EDIT_SEARCH_HEAD_CLUSTERING, NO_HEADS),
    ("shcluster/member/control/control", &["set_manual_detention"], EDIT_SEARCH_HEAD_CLUSTERING, NO_HEADS),
];
/// An indexer cluster that a search head searches.
const ANY_SEARCH_HEAD: &str = "searchheadconfig/{name}";
/// Changes of a bucket of a cluster.
const BUCKET_CHANGES: &[&str] = &["fix", "fix_corrupt_bucket", "freeze", "remove_all", "remove_from_peer"];
/// Actions of the manager of an indexer cluster.
const MANAGER_CONTROLS: &[&str] = &[
    "prune_index",
    "rebalance_primaries",
    "remove_peers",
    "resync_bucket_from_peer",
    "roll-hot-buckets",
    "rolling_upgrade_finalize",
    "rolling_upgrade_init",
];
/// Actions of the manager on its peers and on the configuration that it sends to them.
const BUNDLE_CONTROLS: &[&str] =
    &["abort_restart", "apply", "cancel_bundle_push", "maintenance", "restart", "rollback", "validate_bundle"];
/// Actions of a peer of an indexer cluster.
const PEER_CONTROLS: &[&str] = &["decommission", "re-add-peer", "set_manual_detention"];

/// Endpoints of the manager of an indexer cluster.
const MANAGER_ENDPOINTS: &[&str] = &[
    "buckets",
    "fixup",
    "generation",
    "ha_active_status",
    "health",
    "indexes",
    "info",
    "peers",
    "redundancy",
    "sites",
    "status",
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |(path, facts): &(&'static str, &'static [Fact])| {
        let (path, facts) = (*path, *facts);
        let show =
            get(move |state: State<ApiState>, parts: PathParts, caller: Caller, parameters: Parameters| async move {
                show(state.0, (path, facts), parts, caller, parameters).await
            });
        let answered = "Answers for compatibility: the node has few or no entries.";
        let own = match path.starts_with(INTROSPECTION) {
            true => Access::Capability(LIST_INTROSPECTION),
            false => Access::LoggedIn,
        };
        let rows = vec![
            Endpoint::new(Method::GET, path, own, answered, show.clone()).takes(LIST_PARAMETERS),
            Endpoint::new(Method::GET, format!("{path}/{{name}}"), own, answered, show),
        ];
        let members: BTreeSet<&str> = facts.iter().flat_map(|(_, members)| *members).map(|(name, _)| *name).collect();
        entities(rows, &Content::for_path(path, Shape::Texts(members.into_iter().collect())))
    };
    let what = "Refuses, because the node is not part of a cluster.";
    let refuse = |why: &'static str| {
        move || async move {
            let mut refusal = ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
            refusal.extensions_mut().insert(LackedPart);
            refusal
        }
    };
    let unavailable = UNAVAILABLE.iter().flat_map(|(folder, names, why)| {
        let access = match *why {
            NO_CLUSTER => Access::Capability(LIST_INDEXER_CLUSTER),
            NO_REPLICAS => Access::Capability(LIST_INTROSPECTION),
            _ => Access::LoggedIn,
        };
        let paths =
            names.iter().flat_map(move |name| [format!("{folder}/{name}"), format!("{folder}/{name}/{{name}}")]);
        paths.map(move |path| Endpoint::new(Method::GET, path, access, what, get(refuse(why))))
    });
    let changes = UNAVAILABLE_CHANGES.iter().flat_map(|(folder, names, capability, why)| {
        let rows = move |name: &&str| {
            let (path, access) = (format!("{folder}/{name}"), Access::Capability(capability));
            // Reading the parameters sets the format of the error.
            let refuse = refuse(why);
            let serve = move |_: Parameters| refuse();
            let removal = (*name == ANY_SEARCH_HEAD)
                .then(|| Endpoint::new(Method::DELETE, path.clone(), access, what, delete(serve)));
            [Endpoint::new(Method::POST, path, access, what, post(serve))].into_iter().chain(removal)
        };
        names.iter().flat_map(rows)
    });
    let unavailable = unavailable
        .chain(changes)
        .map(|row| row.answers_with(StatusCode::SERVICE_UNAVAILABLE, AnswerShape::JsonOrXml(MESSAGES)));
    let refusals = REFUSALS.iter().map(|(path, capability, what, why)| {
        // Reading the parameters sets the format of the error.
        let refuse = move |_: Parameters| async { ApiError::bad_request(*why) };
        Endpoint::new(Method::POST, *path, Access::Capability(capability), what, post(refuse)).refuses()
    });
    FACTS.iter().flat_map(of).chain(unavailable).chain(refusals).chain(changes_of_absent()).collect()
}

/// Changes and removals of entities that do not exist.
fn changes_of_absent() -> impl Iterator<Item = Endpoint> {
    let refuse = |parts: PathParts, _: Parameters| async move {
        let name = parts.get("name").cloned().unwrap_or_default();
        ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"))
    };
    let row = |method: Method, path: &str, access: Access, serve: MethodRouter<ApiState>| {
        let what = "Answers that there is no entity of this name.";
        Endpoint::new(method, format!("{path}/{{name}}"), access, what, serve).refuses()
    };
    let removals = REMOVALS.iter().map(move |(path, access)| row(Method::DELETE, path, *access, delete(refuse)));
    let changes = ENTITY_CHANGES
        .iter()
        .map(move |(path, capability)| row(Method::POST, path, Access::Capability(capability), post(refuse)));
    removals.chain(changes)
}

/// Error for a request to restart the web interface.
const NO_WEB_INTERFACE: &str = "the node has no web interface that could be restarted";
/// Errors for the unsupported actions in [`REFUSALS`].
const STANDALONE: &str =
    "the node stores and searches only its own events: it cannot join a cluster, and sends no searches to other nodes";
const NO_DEPLOYMENT: &str = "the node sends no apps to forwarders: give them their configuration by other means";
const NO_LICENSES: &str = "the node needs no licence: there is none to add or change";
const NO_PROVIDER: &str = "users log in with passwords and tokens of the node: it asks no LDAP and SAML provider";
const NO_BACKUPS: &str =
    "the node has no backups of its own: its collections are files of the data directory, which are saved with it";
const NO_SCHEDULER: &str = "the node does not run scheduled searches yet; dispatch them";
const NO_PROXY: &str = "no request of the node goes through a proxy";
const NO_MAINTENANCE: &str =
    "the node has no maintenance mode of the KV store, because it does not replicate its collections";
const NO_POOLS: &str = "the node has no workload pools: it limits searches by the roles of their users";
const NO_ROTATION: &str =
    "the key with which the node encrypts passwords cannot be replaced while passwords are encrypted with it";

/// Collections whose entities clients may remove, although they have none.
const REMOVALS: &[(&str, Access)] = &[
    (SAML_GROUPS, Access::Capability(CHANGE_AUTHENTICATION)),
    (FIRED_ALERTS, Access::LoggedIn),
    ("authentication/providers/LDAP", Access::Capability(CHANGE_AUTHENTICATION)),
    ("authentication/providers/SAML", Access::Capability(CHANGE_AUTHENTICATION)),
    ("deployment/server/clients", Access::Capability(EDIT_DEPLOYMENT_SERVER)),
    ("deployment/server/serverclasses", Access::Capability(EDIT_DEPLOYMENT_SERVER)),
    ("licenser/licenses", Access::Capability(LICENSE_EDIT)),
    ("search/distributed/peers", Access::Capability(EDIT_SEARCH_SERVER)),
    ("workloads/pools", Access::Capability(EDIT_WORKLOAD_POOLS)),
    ("workloads/rules", Access::Capability(EDIT_WORKLOAD_RULES)),
];
/// Collections whose entities clients may change, although they have none; with the required capability.
const ENTITY_CHANGES: &[(&str, &str)] = &[
    ("authentication/providers/LDAP", CHANGE_AUTHENTICATION),
    ("authentication/providers/SAML", CHANGE_AUTHENTICATION),
    ("deployment/server/applications", EDIT_DEPLOYMENT_SERVER),
    ("search/distributed/peers", EDIT_SEARCH_SERVER),
    ("workloads/pools", EDIT_WORKLOAD_POOLS),
    ("workloads/rules", EDIT_WORKLOAD_RULES),
];

/// Unsupported actions: path, required capability, help text, reason.
const REFUSALS: &[(&str, &str, &str, &str)] = &[
    (SAML_GROUPS, CHANGE_AUTHENTICATION, "Refuses to give roles to a group.", NO_PROVIDER),
    ("admin/SAML-groups/{name}", CHANGE_AUTHENTICATION, "Refuses to give roles to a group.", NO_PROVIDER),
    ("admin/SAML-user-role-map", CHANGE_AUTHENTICATION, "Refuses to give roles to a user.", NO_PROVIDER),
    ("authentication/providers/LDAP", CHANGE_AUTHENTICATION, "Refuses to use a provider.", NO_PROVIDER),
    ("authentication/providers/SAML", CHANGE_AUTHENTICATION, "Refuses to use a provider.", NO_PROVIDER),
    ("cluster/config/{name}", EDIT_INDEXER_CLUSTER, "Refuses to join a cluster.", STANDALONE),
    ("deployment/server/serverclasses", EDIT_DEPLOYMENT_SERVER, "Refuses to create a server class.", NO_DEPLOYMENT),
    (
        "deployment/server/serverclasses/{name}",
        EDIT_DEPLOYMENT_SERVER,
        "Refuses to change a server class.",
        NO_DEPLOYMENT,
    ),
    ("kvstore/backup/create", EDIT_KVSTORE, "Refuses to save the collections.", NO_BACKUPS),
    ("kvstore/backup/restore", EDIT_KVSTORE, "Refuses to restore collections.", NO_BACKUPS),
    ("kvstore/control/maintenance", EDIT_KVSTORE, "Refuses to change the mode of the KV store.", NO_MAINTENANCE),
    ("licenser/groups/{name}", LICENSE_EDIT, "Refuses to change the licence group.", NO_LICENSES),
    ("licenser/licenses", LICENSE_EDIT, "Refuses to add a licence.", NO_LICENSES),
    ("licenser/localpeer/{name}", LICENSE_EDIT, "Refuses to change the licence server.", NO_LICENSES),
    ("search/distributed/peers", EDIT_SEARCH_SERVER, "Refuses to send searches to another node.", STANDALONE),
    ("search/scheduler/status", EDIT_SEARCH_SCHEDULER, "Refuses to run scheduled searches.", NO_SCHEDULER),
    ("server/control/restart_webui", RESTART, "Refuses to restart the web interface.", NO_WEB_INTERFACE),
    ("server/httpsettings/proxysettings", EDIT_SERVER, "Refuses to use a proxy.", NO_PROXY),
    ("server/security/rotate-splunk-secret", EDIT_SERVER, "Refuses to replace the key of passwords.", NO_ROTATION),
    ("shcluster/config/{name}", EDIT_SEARCH_HEAD_CLUSTERING, "Refuses to join a cluster.", STANDALONE),
    ("workloads/config/disable", EDIT_WORKLOAD_POLICY, "Refuses to switch workload pools off.", NO_POOLS),
    ("workloads/config/enable", EDIT_WORKLOAD_POLICY, "Refuses to switch workload pools on.", NO_POOLS),
    ("workloads/config/set-base-dirname", EDIT_WORKLOAD_POOLS, "Refuses to use a folder of workload pools.", NO_POOLS),
    ("workloads/pools", EDIT_WORKLOAD_POOLS, "Refuses to create a workload pool.", NO_POOLS),
    ("workloads/rules", EDIT_WORKLOAD_RULES, "Refuses to create a workload rule.", NO_POOLS),
];

async fn show(
    state: ApiState,
    (collection, facts): (&'static str, &'static [Fact]),
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let wanted = parts.get("name");
    let facts = facts.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name));
    let entries: Vec<Entry> = facts.map(|fact| entry(collection, fact)).collect();
    if let Some(name) = wanted.filter(|_| entries.is_empty()) {
        // The alerts of a saved search are a list, which is empty until an alert fires.
        if collection == FIRED_ALERTS {
            let (name, scope) = (name.clone(), scope_of(&parts, &caller)?);
            let exists = move |objects: &Objects, viewer: &Permissions| {
                objects.get("savedsearches", &name, &scope, viewer).map(|_| ())
            };
            with_objects(&state, &caller, exists).await?;
            return page("alerts", format!("/services/{collection}"), Vec::new(), &parameters);
        }
        return Err(ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}")));
    }
    let title = collection.rsplit('/').next().unwrap_or(collection);
    page(title.to_owned(), format!("/services/{collection}"), entries, &parameters)
}

fn entry(collection: &str, (name, members): &Fact) -> Entry {
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{collection}/{}", escape_segment(name));
    let content: Map<String, Value> =
        members.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    Entry {
        name: (*name).to_owned(),
        path,
        author,
        app,
        acl: Acl::for_node(),
        fields: None,
        updated: 0,
        links,
        content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_unique_and_sorted() {
        assert!(FACTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(UNAVAILABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(UNAVAILABLE_CHANGES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(REFUSALS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(REMOVALS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(ENTITY_CHANGES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
