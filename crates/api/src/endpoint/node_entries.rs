//! Read-only facts about the node: summaries of data models, cached buckets, the server.
//!
//! The entries are the same as in `| rest`; `PATH/NAME` returns one entry. Not here: objects of conf files, which can
//! be changed ([`super::entities`]).

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_engine::NodeEntry;
use serde_json::{Map, Value};

use super::answer_shape::{AnswerShape, Content};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, LIST_INTROSPECTION, REST_PROPERTIES, entities};
use super::run_blocking;
use super::server_state::{COLOR, has_disk_space, health, read_facts};
use super::shape::{Member, Shape};
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Collections with their titles in Atom and required access.
const COLLECTIONS: [(&str, &str, Access); 5] = [
    ("admin/cacheman", "cacheman", Access::Capability(LIST_INTROSPECTION)),
    ("admin/cacheman/_metrics", "cacheman-metrics", Access::Capability(LIST_INTROSPECTION)),
    ("admin/summarization", "summarization", Access::Capability(REST_PROPERTIES)),
    ("data/index-volumes", "index-volumes", Access::Capability(LIST_INTROSPECTION)),
    ("data/summaries", "summaries", Access::Capability(LIST_INTROSPECTION)),
];
/// An endpoint with a single entry.
const SERVER_INFO: (&str, &str, Access) = ("server/info", "server-info", Access::LoggedIn);
/// The member that tells whether the KV store accepts documents.
const KV_STORE_STATUS: &str = "kvStoreStatus";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |(path, title, access): &(&'static str, &'static str, Access)| {
        let list = list_of((*path, *title));
        let rows = vec![
            Endpoint::new(Method::GET, *path, *access, "Lists facts about the node.", list.clone())
                .takes(LIST_PARAMETERS),
            Endpoint::new(Method::GET, format!("{path}/{{name}}"), *access, "Shows a fact about the node.", list),
        ];
        entities(rows, &Content::for_path(path, Shape::Map(&Shape::Text)))
    };
    let info = |path: String| {
        let list = list_of((SERVER_INFO.0, SERVER_INFO.1));
        Endpoint::new(Method::GET, path, SERVER_INFO.2, "Shows the version and identity of the node.", list)
            .answers(AnswerShape::Entities(INFO))
    };
    let infos = [SERVER_INFO.0.to_owned(), format!("{}/{{name}}", SERVER_INFO.0)].map(info);
    COLLECTIONS.iter().flat_map(of).chain(infos).collect()
}

/// Content of `server/info`.
const INFO: Content = Content::new("server.info", Shape::Object(INFO_MEMBERS));
const INFO_MEMBERS: &[Member] = &[
    ("activeLicenseGroup", Shape::Text),
    ("activeLicenseSubgroup", Shape::Text),
    ("addOns", Shape::Text),
    ("build", Shape::Text),
    ("cpu_arch", Shape::Text),
    ("fips_mode", Shape::Flag),
    ("guid", Shape::Text),
    ("health_info", COLOR),
    ("host", Shape::Text),
    ("host_fqdn", Shape::Text),
    ("isForwarding", Shape::Flag),
    ("isFree", Shape::Flag),
    ("isTrial", Shape::Flag),
    ("kvStoreStatus", Shape::Text),
    ("licenseKeys", Shape::List(&Shape::Text)),
    ("licenseLabels", Shape::List(&Shape::Text)),
    ("licenseSignature", Shape::Text),
    ("licenseState", Shape::Text),
    ("manager_guid", Shape::Text),
    ("master_guid", Shape::Text),
    ("max_users", Shape::Count),
    ("mode", Shape::Text),
    ("numberOfCores", Shape::Count),
    ("numberOfVirtualCores", Shape::Count),
    ("os_build", Shape::Text),
    ("os_name", Shape::Text),
    ("os_name_extended", Shape::Text),
    ("os_version", Shape::Text),
    ("physicalMemoryMB", Shape::Count),
    ("product_type", Shape::Text),
    ("quarry_version", Shape::Text),
    ("rtsearch_enabled", Shape::Flag),
    ("serverName", Shape::Text),
    ("server_roles", Shape::List(&Shape::Text)),
    ("shutting_down", Shape::Word(&["0", "1"])),
    ("startup_time", Shape::Count),
    ("version", Shape::Text),
];

fn list_of(named: (&'static str, &'static str)) -> MethodRouter<ApiState> {
    get(
        move |State(state): State<ApiState>, parts: PathParts, uri: Uri, caller: Caller, parameters: Parameters| async move {
            list(state, named, parts, uri, caller, parameters).await
        },
    )
}

async fn list(
    state: ApiState,
    (collection, title): (&'static str, &'static str),
    parts: PathParts,
    uri: Uri,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let entries = read(&state, &caller, collection).await?;
    let Some(name) = parts.get("name") else { return page(title, uri.path().to_owned(), entries, &parameters) };
    let found = entries.into_iter().find(|entry| entry.name == *name);
    let found = vec![found.ok_or_else(|| missing(name))?];
    Ok(Feed::of(title, place_of(collection), found).answer(Form::of(parameters.get("output_mode"))))
}

/// Path of a collection in the links of its entries.
pub(super) fn place_of(collection: &str) -> String {
    format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{collection}")
}

/// The error for a name that no entry of the collection has.
pub(super) fn missing(name: &str) -> ApiError {
    ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"))
}

/// The entries of a collection that the caller may see.
pub(super) async fn read(state: &ApiState, caller: &Caller, collection: &str) -> Result<Vec<Entry>, ApiError> {
    let (node, permissions) = (state.node.clone(), caller.permissions.clone());
    let asked = format!("/services/{collection}");
    let entries =
        run_blocking(move || node.search_service_of(&permissions)?.node_entries(&asked, &permissions)).await?;
    let mut entries = entries?.unwrap_or_default();
    if collection == SERVER_INFO.0 {
        add_state(state, &mut entries).await?;
    }
    let place = place_of(collection);
    Ok(entries.into_iter().map(|node| entry(node, &place)).collect())
}

/// Adds to the entry of `server/info` the members that only a running server knows.
async fn add_state(state: &ApiState, entries: &mut [NodeEntry]) -> Result<(), ApiError> {
    let facts = read_facts(state).await?;
    let status = if has_disk_space(&facts) { "ready" } else { "failed" };
    for entry in entries {
        entry.retain(|(name, _)| name != KV_STORE_STATUS);
        let members = [(KV_STORE_STATUS, status), ("health_info", health(&facts).0)];
        entry.extend(members.map(|(name, value)| (name.to_owned(), vec![value.to_owned()])));
    }
    Ok(())
}

/// A member of `server/info` with the type of its shape, because rows of `| rest` have numbers and flags as texts.
fn typed_value(name: &str, mut values: Vec<String>) -> Value {
    let shape = INFO_MEMBERS.iter().find(|(known, _)| *known == name).map(|(_, shape)| shape);
    match (shape, values.len()) {
        (Some(Shape::List(_)), _) => Value::from(values),
        (Some(Shape::Flag), 1) => Value::Bool(values[0] == "1"),
        (Some(Shape::Count), 1) => Value::from(values[0].parse::<u64>().unwrap_or(0)),
        (_, 1) => Value::String(values.remove(0)),
        _ => Value::from(values),
    }
}

/// An entry as an entity; its name is its `title`.
fn entry(node: NodeEntry, place: &str) -> Entry {
    let is_info = place.ends_with(SERVER_INFO.0);
    let mut content = Map::new();
    let mut name = String::new();
    for (field, mut values) in node {
        match (field.as_str(), is_info, values.len()) {
            ("title", ..) => name = values.pop().unwrap_or_default(),
            (_, true, _) => drop(content.insert(field.clone(), typed_value(&field, values))),
            (_, _, 1) => drop(content.insert(field, Value::String(values.remove(0)))),
            _ => drop(content.insert(field, Value::from(values))),
        }
    }
    let path = format!("{place}/{}", escape_segment(&name));
    let links = vec![("list", path.clone())];
    let (author, app) = (NOBODY.to_owned(), APP_SYSTEM.to_owned());
    Entry { name, path, author, app, acl: Acl::for_node(), fields: None, updated: 0, links, content }
}
