//! `data/lookup-table-files`: lookup files (CSV) of apps and users ([`quarry_apps::objects::tables`]).
//!
//! `eai:data` is the file's text or, as in Splunk, the path of a file staged on the node. Searches see the file at
//! once. Not here: lookup definitions in transforms.conf (`data/transforms/lookups`).

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::tables::TableContent;
use quarry_apps::objects::texts::TEXT;
use quarry_apps::objects::{ConfObject, Objects};
use quarry_conf::Permissions;

use super::answer_shape::{Content, NO_CONTENT};
use super::entities::{Kind, entry, kind};
use super::listing::{LIST_PARAMETERS, page};
use super::object_request::ObjectRequest;
use super::permissions::acl_entry;
use super::row::{Access, Endpoint, REST_PROPERTIES, UPLOAD_LOOKUPS, entities};
use crate::atom::{Entry, Fields};
use crate::message::ApiError;

/// Path of the collection after the root.
const PATH: &str = "data/lookup-table-files";
/// Name of lookup files in notifications of changes, where other collections name their conf.
const CONF: &str = "lookups";
/// Title of the collection in Atom feeds.
const TITLE: &str = "lookup-table-files";
/// Parameters of a lookup file.
const FIELDS: Fields = Fields { required: &[TEXT], optional: &[], wildcard: &[] };

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(UPLOAD_LOOKUPS));
    let one = format!("{PATH}/{{name}}");
    let acl = format!("{one}/acl");
    let rows = vec![
        Endpoint::new(Method::GET, PATH, read, "Lists lookup files.", get(list)).takes(LIST_PARAMETERS).of_conf(CONF),
        Endpoint::new(Method::POST, PATH, write, "Creates a lookup file.", post(create)).needs(&["name", TEXT]),
        Endpoint::new(Method::GET, one.as_str(), read, "Shows the path of a lookup file.", get(show)),
        Endpoint::new(Method::POST, one.as_str(), write, "Replaces the content of a lookup file.", post(edit))
            .needs(&[TEXT]),
        Endpoint::new(Method::DELETE, one.as_str(), write, "Deletes a lookup file.", delete(remove)),
    ];
    let permissions = vec![
        Endpoint::new(Method::GET, acl.as_str(), read, "Shows the permissions of a lookup file.", get(show_acl)),
        Endpoint::new(Method::POST, acl.as_str(), write, "Changes the permissions of a lookup file.", post(set_acl))
            .takes(&["owner", "sharing", "perms.read", "perms.write"]),
    ];
    let mut rows = entities(rows, &Content::for_stanza(PATH, FIELDS));
    rows.extend(entities(permissions, &NO_CONTENT));
    rows
}

fn shown() -> Kind {
    Kind { verbs: &[], ..kind(PATH, TITLE, CONF, FIELDS) }
}

fn answer(request: &ObjectRequest, entry: Entry) -> Response {
    request.answer(TITLE, format!("/services/{PATH}"), entry)
}

async fn list(request: ObjectRequest) -> Result<Response, ApiError> {
    let scope = request.scope.clone();
    let files = request.with(move |objects, viewer| Ok(objects.tables(&scope, viewer))).await?;
    let entries = files.iter().map(|file| entry(&shown(), file)).collect();
    page(TITLE, format!("/services/{PATH}"), entries, &request.parameters)
}

async fn found(request: &ObjectRequest) -> Result<ConfObject, ApiError> {
    let (name, scope) = (request.name.clone(), request.scope.clone());
    request.with(move |objects, viewer| objects.table(&name, &scope, viewer)).await
}

async fn show(request: ObjectRequest) -> Result<Response, ApiError> {
    Ok(answer(&request, entry(&shown(), &found(&request).await?)))
}

async fn put(request: &ObjectRequest, name: String, is_new: bool) -> Result<Response, ApiError> {
    let (content, scope) = (TableContent::parse(request.parameters.required(TEXT)?), request.scope.clone());
    let put = move |objects: &Objects, viewer: &Permissions| objects.put_table(&name, &content, is_new, &scope, viewer);
    Ok(answer(request, entry(&shown(), &request.with(put).await?)))
}

async fn create(request: ObjectRequest) -> Result<Response, ApiError> {
    let made = put(&request, request.parameters.required("name")?.to_owned(), true).await?;
    Ok((StatusCode::CREATED, made).into_response())
}

async fn edit(request: ObjectRequest) -> Result<Response, ApiError> {
    put(&request, request.name.clone(), false).await
}

async fn remove(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, scope) = (request.name.clone(), request.scope.clone());
    request.with(move |objects, viewer| objects.remove_table(&name, &scope, viewer)).await?;
    list(request.without_parameters()).await
}

async fn show_acl(request: ObjectRequest) -> Result<Response, ApiError> {
    Ok(answer(&request, acl_entry(entry(&shown(), &found(&request).await?))))
}

async fn set_acl(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, scope, asked) = (request.name.clone(), request.scope.clone(), request.acl_change()?);
    let set = move |objects: &Objects, viewer: &Permissions| objects.set_table_acl(&name, &asked, &scope, viewer);
    Ok(answer(&request, acl_entry(entry(&shown(), &request.change(CONF, set).await?))))
}
