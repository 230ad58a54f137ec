//! `authorization`: the shipped roles and what they may do. Not here: making and changing roles.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_auth::{Identity, Role, permissions, shipped_roles};
use serde_json::{Map, Value, json};

use super::listing::{LISTED, page};
use super::row::{Access, Endpoint};
use super::search_jobs::PathParts;
use crate::ApiState;
use crate::atom::{Acl, Entry, escaped};
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Roles.
const ROLES: &str = "authorization/roles";
/// What roles may do.
const CAPABILITIES: &str = "authorization/capabilities";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let own = Access::LoggedIn;
    vec![
        Endpoint::new(Method::GET, ROLES, own, "Lists roles.", get(list)).takes(LISTED),
        Endpoint::new(Method::GET, format!("{ROLES}/{{name}}"), own, "Shows a role.", get(show)),
        Endpoint::new(Method::GET, CAPABILITIES, own, "Lists what roles may do.", get(capabilities)),
        Endpoint::new(
            Method::GET,
            format!("{CAPABILITIES}/capabilities"),
            own,
            "Lists what roles may do.",
            get(capabilities),
        ),
    ]
}

fn entity(collection: &str, name: &str, content: Value) -> Entry {
    let path = format!("/services/{collection}/{}", escaped(name));
    let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    let content = if let Value::Object(members) = content { members } else { Map::new() };
    Entry { name: name.to_owned(), path, author, app, acl: Acl::of_node(), fields: None, updated: 0, links, content }
}

fn entry(role: &Role) -> Entry {
    let of = |roles: &[&str]| {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        permissions(&Identity { user: String::new(), roles, is_console: false })
    };
    let imported = of(role.imports);
    let content = json!({
        "capabilities": role.capabilities, "imported_capabilities": imported.capabilities, "imported_roles": role.imports,
        "srchIndexesAllowed": role.allowed_indexes, "srchIndexesDefault": role.default_indexes,
        "imported_srchIndexesAllowed": imported.allowed_indexes, "imported_srchIndexesDefault": imported.default_indexes,
        "deleteIndexesAllowed": role.delete_indexes, "srchFilter": "", "srchTimeWin": -1, "defaultApp": "",
    });
    entity(ROLES, role.name, content)
}

async fn list(State(_): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    page("roles", format!("/services/{ROLES}"), shipped_roles().iter().map(entry).collect(), &parameters)
}

async fn show(parts: PathParts, parameters: Parameters) -> Result<Response, ApiError> {
    let name = parts.get("name").cloned().unwrap_or_default().to_lowercase();
    let found = shipped_roles().iter().find(|role| role.name == name);
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"));
    let role = found.ok_or_else(missing)?;
    page("roles", format!("/services/{ROLES}"), vec![entry(role)], &parameters.only("output_mode"))
}

async fn capabilities(parameters: Parameters) -> Result<Response, ApiError> {
    let all: BTreeSet<&str> = shipped_roles().iter().flat_map(|role| role.capabilities).copied().collect();
    let entries = vec![entity(CAPABILITIES, "capabilities", json!({ "capabilities": all }))];
    page("capabilities", format!("/services/{CAPABILITIES}"), entries, &parameters.only("output_mode"))
}
