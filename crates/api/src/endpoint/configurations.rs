//! Conf files by name: `configs/conf-NAME`, whose entities are its stanzas, and `properties`, which also addresses
//! single settings.
//!
//! Any setting is accepted; its value is checked where the setting is used, and `btool check` reports errors. A setting
//! at `properties/NAME/STANZA/KEY` is returned as plain text, as in Splunk.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{ConfObject, NOBODY, Objects, Scope};
use quarry_conf::Permissions;
use quarry_conf::text::DEFAULT_STANZA;
use serde_json::Map;

use super::answer_shape::{AnswerShape, Content, MESSAGES, NO_CONTENT};
use super::entities::{Kind, KindLookup, SERVER_CONF, change, node_name, rows, scope_of, with_objects};
use super::entity_kinds::ANY_SETTING;
use super::jobs::message_response;
use super::listing::{LIST_PARAMETERS, page, select_page};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET, entities};
use super::setting_capabilities::{check_change, check_removal};
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Form, PLAIN_CONTENT, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::{Parameters, Settings};

/// Prefix of a conf's name in `configs`.
const PREFIX: &str = "conf-";
/// The collection of confs by stanza.
const CONFIGS: &str = "configs";
/// The collection of confs by setting.
const PROPERTIES: &str = "properties";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET));
    let mut endpoints = rows("configs/{file}", [read, write], ANY_SETTING, KindLookup::Path(Arc::new(kind_of)));
    let (conf, stanza, key) = ("properties/{file}", "properties/{file}/{name}", "properties/{file}/{name}/{key}");
    let names = [
        Endpoint::new(Method::GET, CONFIGS, read, "Lists conf files.", get(conf_files)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, PROPERTIES, read, "Lists conf files.", get(confs)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, conf, read, "Lists the stanzas of a conf.", get(stanzas)).takes(LIST_PARAMETERS),
    ];
    endpoints.extend(entities(names.to_vec(), &NO_CONTENT));
    let value_of = Content::new("properties", Shape::Text);
    endpoints.extend([
        Endpoint::new(Method::POST, PROPERTIES, write, "Creates an empty conf file.", post(create_conf))
            .needs(&["__conf"])
            .answers_with(StatusCode::CREATED, AnswerShape::JsonOrXml(MESSAGES)),
        Endpoint::new(Method::POST, conf, write, "Creates a stanza.", post(create_stanza))
            .needs(&["__stanza"])
            .answers_with(StatusCode::CREATED, AnswerShape::JsonOrXml(MESSAGES)),
        Endpoint::new(Method::GET, stanza, read, "Lists the settings of a stanza.", get(settings))
            .takes(LIST_PARAMETERS)
            .answers(AnswerShape::Entities(value_of)),
        Endpoint::new(Method::POST, stanza, write, "Changes settings of a stanza.", post(set_settings))
            .answers(AnswerShape::JsonOrXml(MESSAGES)),
        Endpoint::new(Method::DELETE, stanza, write, "Deletes a stanza.", delete(remove_stanza))
            .answers(AnswerShape::JsonOrXml(MESSAGES)),
        Endpoint::new(Method::GET, key, read, "Returns the value of a setting as text.", get(value))
            .answers(AnswerShape::Texts(&["text/plain"])),
        Endpoint::new(Method::POST, key, write, "Changes a setting.", post(set_value))
            .needs(&["value"])
            .answers(AnswerShape::JsonOrXml(MESSAGES)),
        Endpoint::new(
            Method::DELETE,
            key,
            write,
            "Deletes a setting that an app or user has set.",
            delete(remove_value),
        )
        .answers(AnswerShape::JsonOrXml(MESSAGES)),
    ]);
    endpoints
}

/// The conf named by a path of `configs`.
fn kind_of(parts: &PathParts) -> Result<Kind, ApiError> {
    let file = parts.get("file").map_or("", String::as_str);
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, "Not Found");
    let conf = file.strip_prefix(PREFIX).ok_or_else(missing)?.to_owned();
    Ok(Kind {
        path: Cow::Owned(format!("configs/{file}")),
        title: Cow::Owned(file.to_owned()),
        conf: Cow::Owned(conf),
        is_by_name: true,
        fill: |kind, object, settings| fill_node_name(&kind.conf, &object.name, &kind.node_name, settings),
        ..super::entities::kind("", "", "", ANY_SETTING)
    })
}

/// Stanza of server.conf with the name of the node, and the setting.
const GENERAL: &str = "general";
const SERVER_NAME: &str = "serverName";

/// Replaces an empty name of the node with the name in use, which clients read from server.conf.
fn fill_node_name(conf: &str, stanza: &str, name: &str, settings: &mut BTreeMap<String, String>) {
    let is_named = |own: &String| !own.trim().is_empty();
    if conf == SERVER_CONF && stanza == GENERAL && !settings.get(SERVER_NAME).is_some_and(is_named) {
        settings.insert(SERVER_NAME.to_owned(), name.to_owned());
    }
}

/// Conf file, stanza and key named by a path of `properties`, empty if absent, and the scope.
struct SettingPath {
    conf: String,
    stanza: String,
    key: String,
    scope: Scope,
}

impl SettingPath {
    fn of(parts: &PathParts, caller: &Caller) -> Result<SettingPath, ApiError> {
        let part = |name: &str| parts.get(name).cloned().unwrap_or_default();
        Ok(SettingPath { conf: part("file"), stanza: part("name"), key: part("key"), scope: scope_of(parts, caller)? })
    }
}

/// An entity with only a name.
fn name_entry(place: &str, name: &str) -> Entry {
    let (path, author) = (format!("{place}/{}", escape_segment(name)), NOBODY.to_owned());
    let (app, acl) = (super::jobs::APP.to_owned(), Acl::for_node());
    let links = vec![("list", path.clone())];
    Entry { name: name.to_owned(), path, author, app, acl, fields: None, updated: 0, links, content: Map::new() }
}

/// A page of names, or of settings whose content is their value.
fn plain_page(path: String, entries: Vec<Entry>, parameters: &Parameters) -> Result<Response, ApiError> {
    let feed = Feed { is_plain: true, ..select_page(PROPERTIES, path, entries, parameters)? };
    Ok(feed.answer(Form::of(parameters.get("output_mode"))))
}

async fn confs(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let place = format!("/services/{PROPERTIES}");
    let entries = conf_names(&state, &parts, &caller).await?.iter().map(|name| name_entry(&place, name)).collect();
    // The list is not paged, because clients look for a conf on the first page.
    plain_page(place, entries, &parameters.unpaged())
}

async fn conf_files(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (place, names) = (format!("/services/{CONFIGS}"), conf_names(&state, &parts, &caller).await?);
    let entries = names.iter().map(|name| name_entry(&place, &format!("{PREFIX}{name}"))).collect();
    page(CONFIGS, place, entries, &parameters.unpaged())
}

async fn conf_names(state: &ApiState, parts: &PathParts, caller: &Caller) -> Result<Vec<String>, ApiError> {
    let scope = scope_of(parts, caller)?;
    with_objects(state, caller, move |objects, _| Ok(objects.conf_names(&scope))).await
}

async fn create_conf(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let (conf, scope) = (form.required("__conf")?.to_owned(), scope_of(&parts, &caller)?);
    let name = conf.clone();
    let make = move |objects: &Objects, viewer: &Permissions| objects.create_conf(&name, &scope, viewer);
    change(&state, &caller, &conf, make).await?;
    Ok((
        StatusCode::CREATED,
        message_response(Form::of(form.get("output_mode")), "The configuration file was created."),
    )
        .into_response())
}

async fn stanzas(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let SettingPath { conf, scope, .. } = SettingPath::of(&parts, &caller)?;
    let place = format!("/services/{PROPERTIES}/{}", escape_segment(&conf));
    let objects = with_objects(&state, &caller, move |objects, viewer| {
        objects.check_conf_exists(&conf, &scope)?;
        objects.list(&conf, &scope, viewer)
    });
    let objects = objects.await?;
    plain_page(place.clone(), objects.iter().map(|object| name_entry(&place, &object.name)).collect(), &parameters)
}

async fn create_stanza(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let SettingPath { conf, scope, .. } = SettingPath::of(&parts, &caller)?;
    let (name, file) = (form.required("__stanza")?.to_owned(), conf.clone());
    check_change(&caller.permissions, &conf, &name, &[])?;
    let make = move |objects: &Objects, viewer: &Permissions| objects.create(&file, &name, &[], &scope, viewer);
    change(&state, &caller, &conf, make).await?;
    Ok((StatusCode::CREATED, message_response(Form::of(form.get("output_mode")), "The stanza was created."))
        .into_response())
}

async fn find_stanza(state: &ApiState, caller: &Caller, named: SettingPath) -> Result<ConfObject, ApiError> {
    let SettingPath { conf, stanza, scope, .. } = named;
    let name = if conf == SERVER_CONF { node_name(state).await? } else { Arc::default() };
    let get = move |objects: &Objects, viewer: &Permissions| {
        let mut object = objects.get(&conf, &stanza, &scope, viewer)?;
        fill_node_name(&conf, &stanza, &name, &mut object.settings);
        Ok(object)
    };
    with_objects(state, caller, get).await
}

async fn settings(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let asked = SettingPath::of(&parts, &caller)?;
    let place = format!("/services/{PROPERTIES}/{}/{}", escape_segment(&asked.conf), escape_segment(&asked.stanza));
    let object = find_stanza(&state, &caller, asked).await?;
    let entry = |(key, value): (&String, &String)| {
        let content = Map::from_iter([(PLAIN_CONTENT.to_owned(), value.as_str().into())]);
        Entry { content, ..name_entry(&place, key) }
    };
    plain_page(place.clone(), object.settings.iter().map(entry).collect(), &parameters)
}

async fn set_settings(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let mode = Form::of(form.get("output_mode"));
    let settings: Vec<(String, String)> =
        form.into_settings()?.into_iter().filter(|(key, _)| key != "output_mode").collect();
    let told = modified_message(settings.len());
    write(&state, &caller, SettingPath::of(&parts, &caller)?, settings).await?;
    Ok(message_response(mode, &told))
}

/// Splunk's message about changed settings, which clients compare.
fn modified_message(count: usize) -> String {
    format!("Successfully modified {count} key(s)")
}

async fn value(State(state): State<ApiState>, parts: PathParts, caller: Caller) -> Result<Response, ApiError> {
    let asked = SettingPath::of(&parts, &caller)?;
    let key = asked.key.clone();
    let mut object = find_stanza(&state, &caller, asked).await?;
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={key}"));
    let value = object.settings.remove(&key).ok_or_else(missing)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=UTF-8")], value).into_response())
}

async fn set_value(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let asked = SettingPath::of(&parts, &caller)?;
    let setting = (asked.key.clone(), form.required("value")?.to_owned());
    write(&state, &caller, asked, vec![setting]).await?;
    Ok(message_response(Form::of(form.get("output_mode")), &modified_message(1)))
}

async fn remove_value(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let SettingPath { conf, stanza, key, scope } = SettingPath::of(&parts, &caller)?;
    check_change(&caller.permissions, &conf, &stanza, &[(key.clone(), String::new())])?;
    let (file, told) = (conf.clone(), format!("Successfully deleted {key} of [{stanza}]"));
    let remove =
        move |objects: &Objects, viewer: &Permissions| objects.remove_setting([&file, &stanza, &key], &scope, viewer);
    change(&state, &caller, &conf, remove).await?;
    Ok(message_response(Form::of(parameters.get("output_mode")), &told))
}

async fn remove_stanza(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let SettingPath { conf, stanza, scope, .. } = SettingPath::of(&parts, &caller)?;
    check_change(&caller.permissions, &conf, &stanza, &[])?;
    let (file, told) = (conf.clone(), format!("Successfully deleted [{stanza}]"));
    let remove = move |objects: &Objects, viewer: &Permissions| {
        let object = objects.get(&file, &stanza, &scope, viewer)?;
        match check_removal(viewer, &object) {
            Ok(()) => objects.remove(&file, &stanza, &scope, viewer).map(Ok),
            refused => Ok(refused),
        }
    };
    change(&state, &caller, &conf, remove).await??;
    Ok(message_response(Form::of(parameters.get("output_mode")), &told))
}

async fn write(
    state: &ApiState,
    caller: &Caller,
    asked: SettingPath,
    settings: Vec<(String, String)>,
) -> Result<ConfObject, ApiError> {
    let SettingPath { conf, stanza, scope, .. } = asked;
    check_change(&caller.permissions, &conf, &stanza, &settings)?;
    let file = conf.clone();
    let make = move |objects: &Objects, viewer: &Permissions| match stanza == DEFAULT_STANZA {
        true => objects.edit_default(&file, &settings, &scope, viewer),
        false => objects.edit(&file, &stanza, &settings, &scope, viewer),
    };
    change(state, caller, &conf, make).await
}
