//! `data/lookup-table-files`: lookup files (CSV) of apps and users ([`quarry_apps::objects::tables`]).
//!
//! `eai:data` is the text of the file itself, or as in Splunk the path of one that is staged on the node's machine. Searches find the
//! file at once. Not here: stanzas of transforms.conf that say how a file is matched (`data/transforms/lookups`).

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::tables::TableContent;
use quarry_apps::objects::texts::TEXT;
use quarry_apps::objects::{ConfObject, Objects, Scope};
use quarry_conf::Permissions;

use super::entities::{Kind, acl_change, acl_entry, entry, kind, scope_of, with_objects};
use super::listing::{LISTED, page};
use super::row::{Access, Endpoint, REST_PROPERTIES, UPLOAD_LOOKUPS};
use super::search_jobs::PathParts;
use crate::ApiState;
use crate::atom::{Entry, Feed, Fields, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// The collection behind a root.
const PATH: &str = "data/lookup-table-files";
/// What Atom calls it.
const TITLE: &str = "lookup-table-files";
/// Parameters of such a file.
const FIELDS: Fields = Fields { required: &[TEXT], optional: &[], wildcard: &[] };

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(UPLOAD_LOOKUPS));
    let one = format!("{PATH}/{{name}}");
    let acl = format!("{one}/acl");
    vec![
        Endpoint::new(Method::GET, PATH, read, "Lists lookup files.", get(list)).takes(LISTED),
        Endpoint::new(Method::POST, PATH, write, "Makes a lookup file.", post(create)).needs(&["name", TEXT]),
        Endpoint::new(Method::GET, one.as_str(), read, "Shows where a lookup file is.", get(show)),
        Endpoint::new(Method::POST, one.as_str(), write, "Gives a lookup file another content.", post(edit))
            .needs(&[TEXT]),
        Endpoint::new(Method::DELETE, one.as_str(), write, "Removes a lookup file.", delete(remove)),
        Endpoint::new(Method::GET, acl.as_str(), read, "Shows who sees and changes a lookup file.", get(show_acl)),
        Endpoint::new(Method::POST, acl.as_str(), write, "Changes who sees and changes a lookup file.", post(set_acl))
            .takes(&["owner", "sharing", "perms.read", "perms.write"]),
    ]
}

fn shown() -> Kind {
    Kind { verbs: &[], ..kind(PATH, TITLE, "lookups", FIELDS) }
}

fn answer(entry: Entry, parameters: &Parameters) -> Response {
    Feed::of(TITLE, format!("/services/{PATH}"), vec![entry]).answer(Form::of(parameters.get("output_mode")))
}

fn name_of(parts: &PathParts) -> String {
    parts.get("name").cloned().unwrap_or_default()
}

async fn list(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let scope = scope_of(&parts, &caller)?;
    let files = with_objects(&state, &caller, move |objects, viewer| Ok(objects.tables(&scope, viewer))).await?;
    let entries = files.iter().map(|file| entry(&shown(), file)).collect();
    page(TITLE, format!("/services/{PATH}"), entries, &parameters)
}

async fn found(state: &ApiState, parts: &PathParts, caller: &Caller) -> Result<ConfObject, ApiError> {
    let (name, scope) = (name_of(parts), scope_of(parts, caller)?);
    with_objects(state, caller, move |objects, viewer| objects.table(&name, &scope, viewer)).await
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    Ok(answer(entry(&shown(), &found(&state, &parts, &caller).await?), &parameters))
}

async fn put(
    state: &ApiState,
    caller: &Caller,
    (name, scope, is_new): (String, Scope, bool),
    form: &Parameters,
) -> Result<Response, ApiError> {
    let content = TableContent::of(form.required(TEXT)?);
    let put = move |objects: &Objects, viewer: &Permissions| objects.put_table(&name, &content, is_new, &scope, viewer);
    let file = with_objects(state, caller, put).await?;
    Ok(answer(entry(&shown(), &file), form))
}

async fn create(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = parameters.required("name")?.to_owned();
    let made = put(&state, &caller, (name, scope_of(&parts, &caller)?, true), &parameters).await?;
    Ok((StatusCode::CREATED, made).into_response())
}

async fn edit(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    put(&state, &caller, (name_of(&parts), scope_of(&parts, &caller)?, false), &parameters).await
}

async fn remove(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, scope) = (name_of(&parts), scope_of(&parts, &caller)?);
    with_objects(&state, &caller, move |objects, viewer| objects.remove_table(&name, &scope, viewer)).await?;
    list(State(state), parts, caller, parameters.only("output_mode")).await
}

async fn show_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    Ok(answer(acl_entry(entry(&shown(), &found(&state, &parts, &caller).await?)), &parameters))
}

async fn set_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, scope, asked) = (name_of(&parts), scope_of(&parts, &caller)?, acl_change(&parameters)?);
    let set = move |objects: &Objects, viewer: &Permissions| objects.set_table_acl(&name, &asked, &scope, viewer);
    let file = with_objects(&state, &caller, set).await?;
    Ok(answer(acl_entry(entry(&shown(), &file)), &parameters))
}
