//! Constant answers about parts of Splunk that this node does not have: licences, clusters, deployment servers.
//!
//! The answers are true: there is no licence, and the node belongs to no cluster. Unsupported actions are not offered.

use std::collections::BTreeMap;

use axum::extract::{MatchedPath, Path};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use serde_json::{Map, Value};

use super::listing::{LISTED, page};
use super::row::{Access, Endpoint};
use crate::atom::{Acl, Entry, escaped};
use crate::message::ApiError;
use crate::parameters::Parameters;

/// An entity: its name and members.
type Fact = (&'static str, &'static [(&'static str, &'static str)]);

/// Collections and their entities.
const FACTS: &[(&str, &[Fact])] = &[
    ("admin/SAML-auth", &[]),
    ("admin/SAML-groups", &[]),
    ("alerts/fired_alerts", &[("-", &[("triggered_alert_count", "0")])]),
    ("alerts/metric_alerts", &[]),
    ("cluster/config", &[("config", &[("mode", "disabled"), ("disabled", "1")])]),
    ("deployment/client", &[("config", &[("disabled", "1")])]),
    ("deployment/server", &[]),
    ("deployment/server/applications", &[]),
    ("deployment/server/clients", &[]),
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
    ("search/distributed/config", &[("distributedSearch", &[("disabled", "1"), ("dist_search_enabled", "0")])]),
    ("search/distributed/groups", &[]),
    ("search/distributed/peers", &[]),
    ("search/scheduler", &[("scheduler", &[("saved_searches_disabled", "1")])]),
    ("server/control", &[("restart", &[]), ("restart_webui", &[])]),
    ("server/logger", &[("root", &[("level", "INFO")])]),
    ("shcluster/config", &[("config", &[("mode", "disabled"), ("disabled", "1")])]),
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |(path, _): &(&'static str, &[Fact])| {
        let own = Access::LoggedIn;
        [
            Endpoint::new(
                Method::GET,
                *path,
                own,
                "Answers for compatibility: the node has few or no entries.",
                get(show),
            )
            .takes(LISTED),
            Endpoint::new(
                Method::GET,
                format!("{path}/{{name}}"),
                own,
                "Answers for compatibility: the node has few or no entries.",
                get(show),
            ),
        ]
    };
    let control = Access::Capability(RESTART);
    let logger = Access::Capability(EDIT_SERVER);
    let refusals = [
        ("server/control/restart", control, "Refuses to restart the node.", post(no_restart)),
        ("server/control/restart_webui", control, "Refuses to restart the node.", post(no_restart)),
        ("server/logger/{name}", logger, "Refuses to change the log level.", post(no_levels)),
    ];
    let refusals = refusals.map(|(path, access, what, serve)| Endpoint::new(Method::POST, path, access, what, serve));
    FACTS.iter().flat_map(of).chain(refusals).collect()
}

/// Restarts the node.
const RESTART: &str = "restart_splunkd";
/// Changes settings of the node.
const EDIT_SERVER: &str = "edit_server";

/// Nothing would restart the process.
async fn no_restart() -> ApiError {
    ApiError::bad_request(
        "the node does not restart itself: have whatever runs it stop and start it (systemctl restart quarry); changes of objects \
         count without that, those of inputs and indexes from the next start",
    )
}

async fn no_levels() -> ApiError {
    ApiError::bad_request("the node logs what is of INFO and above; levels of its parts cannot be chosen")
}

async fn show(
    matched: MatchedPath,
    Path(parts): Path<BTreeMap<String, String>>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let path = matched.as_str().trim_end_matches("/{name}");
    let Some((collection, facts)) = FACTS.iter().find(|(end, _)| path.ends_with(&format!("/{end}"))) else {
        return Err(ApiError::with_status(StatusCode::NOT_FOUND, "Not Found"));
    };
    let wanted = parts.get("name");
    let facts = facts.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name));
    let entries: Vec<Entry> = facts.map(|fact| entry(collection, fact)).collect();
    if let Some(name) = wanted.filter(|_| entries.is_empty()) {
        return Err(ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}")));
    }
    let title = collection.rsplit('/').next().unwrap_or(collection);
    page(title.to_owned(), format!("/services/{collection}"), entries, &parameters)
}

fn entry(collection: &str, (name, members): &Fact) -> Entry {
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{collection}/{}", escaped(name));
    let content: Map<String, Value> =
        members.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    Entry { name: (*name).to_owned(), path, author, app, acl: Acl::of_node(), fields: None, updated: 0, links, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_there_once_and_in_order() {
        assert!(FACTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
