//! `directory`: all objects of apps and users that the caller may read, whatever their collection.
//!
//! The entries are the stanzas of conf files ([`super::entities`]) and the texts below `data/ui`, each with the name of
//! its collection. Not here: data models, parts of props.conf, inputs.

use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::texts::KINDS as TEXTS;
use quarry_apps::objects::{ObjectError, Objects, Scope};
use quarry_conf::Permissions;
use quarry_conf::permissions::SEARCH;

use super::answer_shape::Content;
use super::entities::{KINDS, entry};
use super::listing::{LIST_PARAMETERS, page};
use super::object_request::ObjectRequest;
use super::row::{Access, Endpoint, REST_PROPERTIES, entities};
use super::shape::{Member, SETTING, Settings, Shape};
use super::views::view_kind;
use crate::atom::{Entry, Fields};
use crate::message::ApiError;

/// Path of the collection after the root.
const PATH: &str = "directory";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let read = Access::Capability(REST_PROPERTIES);
    let one = format!("{PATH}/{{name}}");
    let rows = vec![
        Endpoint::new(Method::GET, PATH, read, "Lists the objects of all kinds.", get(list)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, one, read, "Lists the objects with one name.", get(show)),
    ];
    let located = Settings { fields: Fields { required: &[], optional: &[], wildcard: &[] }, more: LOCATED };
    entities(rows, &Content::for_path(PATH, Shape::Settings(located)))
}

/// Members of every object.
const LOCATED: &[Member] = &[
    ("disabled", SETTING),
    ("eai:appName", Shape::Text),
    ("eai:userName", Shape::Text),
    ("eai:location", Shape::Text),
    ("eai:type", Shape::Text),
];

fn located(mut entry: Entry, collection: &str, title: &str) -> Entry {
    entry.content.insert("eai:location".to_owned(), format!("/{collection}").into());
    entry.content.insert("eai:type".to_owned(), title.into());
    entry
}

fn all(objects: &Objects, scope: &Scope, viewer: &Permissions) -> Result<Vec<Entry>, ObjectError> {
    // The collection of saved searches requires a capability; callers without it get the other entries.
    let may_read = |path: &str| path != "saved/searches" || viewer.has_capability(SEARCH);
    let mut entries = Vec::new();
    for kind in KINDS.iter().filter(|kind| may_read(&kind.path)) {
        let found = objects.list(&kind.conf, scope, viewer)?;
        let found = found.iter().filter(|object| kind.includes(object));
        entries.extend(found.map(|object| located(entry(kind, object), &kind.path, &kind.title)));
    }
    for text in TEXTS {
        let kind = view_kind(text);
        let found = objects.texts(text, scope, viewer)?;
        entries.extend(found.iter().map(|object| located(entry(&kind, object), &kind.path, &kind.title)));
    }
    Ok(entries)
}

async fn list(request: ObjectRequest) -> Result<Response, ApiError> {
    let scope = request.scope.clone();
    let entries = request.with(move |objects, viewer| all(objects, &scope, viewer)).await?;
    page(PATH, format!("/services/{PATH}"), entries, &request.parameters)
}

async fn show(request: ObjectRequest) -> Result<Response, ApiError> {
    let (scope, name) = (request.scope.clone(), request.name.clone());
    let mut entries = request.with(move |objects, viewer| all(objects, &scope, viewer)).await?;
    entries.retain(|entry| entry.name == name);
    if entries.is_empty() {
        return Err(ObjectError::Unknown(name).into());
    }
    page(PATH, format!("/services/{PATH}"), entries, &request.parameters.keep_only("output_mode"))
}
