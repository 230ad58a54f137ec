//! `/services/data/inputs/http`: the tokens of the HTTP Event Collector, also below `/servicesNS/USER/APP`, and the
//! settings of all tokens, as the entity `http`.
//!
//! Entities have Splunk's members. A token belongs to the node; its permissions apply in addition to the capability
//! that tokens require ([`Objects::node_objects`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{ConfObject, NOBODY, Objects};
use quarry_conf::{Permissions, parse_bool};
use serde_json::{Map, Value};

use super::answer_shape::{Content, NO_CONTENT};
use super::entities::{Kind, kind, only_entity_rows, with_objects};
use super::entity_kinds::ChangeNotice;
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::permissions::{ACL_PARAMETERS, acl_entry, node_acl_of, required_acl_change};
use super::row::{Access, EDIT_TOKENS, Endpoint, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::atom::{Entry, Feed, Fields, Form, escape_segment};
use crate::caller::Caller;
use crate::collector_tokens::new_token;
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, CollectorToken, TokenChange, TokenError};

/// The conf of tokens.
const CONF: &str = "inputs";
/// The app of all tokens.
const APP: &str = "splunk_httpinput";
/// Title of the collection in Atom.
const TITLE: &str = "http";
/// Path of the collection.
const PATH: &str = "/services/data/inputs/http";
/// Prefix of tokens' names in answers, as in their stanzas.
const PREFIX: &str = "http://";
/// Message if no collector listens.
const NOT_LISTENING_MESSAGE: &str = "The HTTP Event Collector does not listen until the next start of the node.";
/// Settings of a token.
const SETTINGS: &[&str] =
    &["description", "disabled", "host", "index", "indexes", "source", "sourcetype", "token", "useACK"];
/// Parameters that affect only the answer's form.
const PRESENTATION: [&str; 4] = ["output_mode", "count", "offset", "search"];
/// The entity with the settings of all tokens, and its stanza.
const GLOBAL: &str = "http";
/// Settings of all tokens and of the collector's port.
const GLOBAL_SETTINGS: &[&str] = &[
    "ackIdleCleanup",
    "allowQueryStringAuth",
    "connection_host",
    "dedicatedIoThreads",
    "disabled",
    "enableSSL",
    "host",
    "index",
    "maxIdleTime",
    "maxSockets",
    "maxThreads",
    "port",
    "serverCert",
    "source",
    "sourcetype",
    KEY_PASSWORD,
    "useDeploymentServer",
];
/// Password of an encrypted private key. Such keys are not supported, so only the empty value is accepted, which
/// clients send with the other settings.
const KEY_PASSWORD: &str = "sslPassword";
/// Settings of all tokens that are always shown, with their defaults (Splunk's, except for TLS).
const GLOBAL_DEFAULTS: [(&str, &str); 7] = [
    ("dedicatedIoThreads", "2"),
    ("enableSSL", "0"),
    ("index", INDEX_DEFAULT),
    ("maxSockets", "0"),
    ("maxThreads", "0"),
    ("port", "8088"),
    ("useDeploymentServer", "0"),
];
/// Settings of all tokens that clients expect as 1 or 0.
const GLOBAL_FLAGS: [&str; 2] = ["enableSSL", "useDeploymentServer"];
/// The index shown for a token without an index.
const INDEX_DEFAULT: &str = "default";

/// The settings of all tokens.
pub(super) static COLLECTOR: LazyLock<Kind> = LazyLock::new(|| {
    let fields = Fields { required: &[], optional: GLOBAL_SETTINGS, wildcard: &[] };
    Kind {
        only: Some((GLOBAL, GLOBAL)),
        is_of_node: true,
        notice: ChangeNotice::Always("The change is saved and takes effect at the next start of the node."),
        verbs: &["disable", "enable"],
        validate: |state, kind, name, settings| match settings.iter().find(|(key, _)| key == KEY_PASSWORD) {
            Some(_) => Err(ApiError::bad_request(format!("{KEY_PASSWORD}: encrypted private keys are not supported"))),
            None => super::inputs::validate_settings(state, kind, name, settings),
        },
        fill: fill_global,
        expand: |_, settings| {
            clear_default_index(settings);
            settings.retain(|(key, value)| key != KEY_PASSWORD || !value.is_empty());
        },
        ..kind("data/inputs/http", TITLE, "inputs", fields)
    }
});

fn fill_global(_: &Kind, _: &ConfObject, settings: &mut BTreeMap<String, String>) {
    settings.retain(|key, value| key != "index" || !value.is_empty());
    for (key, value) in GLOBAL_DEFAULTS {
        settings.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    for key in GLOBAL_FLAGS {
        settings.entry(key.to_owned()).and_modify(|value| *value = as_number(value));
    }
}

/// A boolean as 1 or 0.
fn as_number(value: &str) -> String {
    parse_bool(value).map_or_else(|| value.to_owned(), |flag| u8::from(flag).to_string())
}

/// Replaces the placeholder for an unset index with an empty value, because clients send the placeholder back.
fn clear_default_index(settings: &mut [(String, String)]) {
    settings.iter_mut().filter(|(key, value)| key == "index" && value == INDEX_DEFAULT).for_each(|(_, value)| {
        value.clear();
    });
}

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (tokens, one) = ("data/inputs/http", "data/inputs/http/{name}");
    let row = |method, path: &'static str, summary, serve| {
        Endpoint::new(method, path, Access::Capability(EDIT_TOKENS), summary, serve)
    };
    let rows = vec![
        row(Method::GET, tokens, "Lists tokens of the HTTP Event Collector.", get(list))
            .takes(LIST_PARAMETERS)
            .of_conf(CONF),
        row(Method::POST, tokens, "Creates a token of the HTTP Event Collector.", post(create))
            .needs(&["name"])
            .takes(SETTINGS),
        row(Method::GET, one, "Shows a token of the HTTP Event Collector.", get(show)),
        row(Method::POST, one, "Changes a token of the HTTP Event Collector.", post(change)).takes(SETTINGS),
        row(Method::DELETE, one, "Deletes a token of the HTTP Event Collector.", delete(remove)),
        row(
            Method::POST,
            "data/inputs/http/{name}/{action}",
            "Enables or disables a token of the HTTP Event Collector, or gives it a new value (rotate).",
            post(switch),
        ),
    ];
    let acl = "data/inputs/http/{name}/acl";
    let permissions = vec![
        row(Method::GET, acl, "Shows the permissions of a token.", get(show_acl)),
        row(Method::POST, acl, "Changes the permissions of a token.", post(set_acl)).takes(ACL_PARAMETERS),
    ];
    let mut rows = entities(rows, &TOKEN);
    rows.extend(entities(permissions, &NO_CONTENT));
    rows.extend(only_entity_rows(&COLLECTOR, [Access::Capability(EDIT_TOKENS); 2]));
    rows
}

/// Content of a token entity.
const TOKEN: Content = Content::new(
    "data.inputs.http",
    Shape::Object(&[
        ("description", Shape::Optional(&Shape::Text)),
        ("disabled", Shape::Flag),
        ("eai:appName", Shape::Text),
        ("eai:userName", Shape::Text),
        ("host", Shape::Optional(&Shape::Text)),
        ("index", Shape::Text),
        ("indexes", Shape::List(&Shape::Text)),
        ("source", Shape::Optional(&Shape::Text)),
        ("sourcetype", Shape::Optional(&Shape::Text)),
        ("token", Shape::Text),
        ("useACK", Shape::Word(&["0", "1"])),
    ]),
);

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> ApiError {
        let text = error.to_string();
        match error {
            TokenError::Unknown { .. } => ApiError::with_status(StatusCode::NOT_FOUND, text),
            TokenError::Exists { .. } => ApiError::with_status(StatusCode::CONFLICT, text),
            TokenError::Invalid(_) => ApiError::bad_request(text),
            TokenError::Failed(_) => ApiError::internal(text),
        }
    }
}

async fn list_tokens(state: &ApiState) -> Result<Vec<CollectorToken>, ApiError> {
    let node = state.node.clone();
    Ok(run_blocking(move || node.collector_tokens()).await??)
}

/// A token with its permissions.
struct OwnedToken {
    token: CollectorToken,
    object: ConfObject,
}

/// The tokens that the caller may read.
async fn readable_tokens(state: &ApiState, caller: &Caller) -> Result<Vec<OwnedToken>, ApiError> {
    with_permissions(state, caller, list_tokens(state).await?).await
}

async fn with_permissions(
    state: &ApiState,
    caller: &Caller,
    tokens: Vec<CollectorToken>,
) -> Result<Vec<OwnedToken>, ApiError> {
    let names: Vec<String> = tokens.iter().map(|token| stanza(&token.name)).collect();
    let objects =
        with_objects(state, caller, move |objects, viewer| objects.node_objects(CONF, &names, viewer)).await?;
    let of_both = |(token, object): (CollectorToken, Option<ConfObject>)| Some(OwnedToken { token, object: object? });
    Ok(tokens.into_iter().zip(objects).filter_map(of_both).collect())
}

/// The answer to a change.
fn change_response(state: &ApiState, token: &OwnedToken, parameters: &Parameters) -> Response {
    let told = if state.node.collector_listens() { None } else { Some(NOT_LISTENING_MESSAGE) };
    answer(Feed { notice: told.map(Cow::Borrowed), ..feed_of(token) }, parameters)
}

fn feed_of(token: &OwnedToken) -> Feed {
    Feed::of(TITLE, PATH.to_owned(), vec![entry(token)])
}

fn answer(feed: Feed, parameters: &Parameters) -> Response {
    feed.answer(Form::of(parameters.get("output_mode")))
}

async fn list(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let entries = readable_tokens(&state, &caller).await?.iter().map(entry).collect();
    page(TITLE, PATH.to_owned(), entries, &parameters)
}

async fn create(State(state): State<ApiState>, caller: Caller, form: Parameters) -> Result<Response, ApiError> {
    let mut settings = settings_of(form.clone())?;
    let at = settings.iter().position(|(name, _)| name == "name");
    let name = at.map(|at| settings.remove(at).1).ok_or_else(|| ApiError::missing_argument("name"))?;
    let name = strip_scheme(&name).to_owned();
    let made = write(&state, &caller, TokenChange { name, is_new: true, settings }).await?;
    Ok((StatusCode::CREATED, change_response(&state, &made, &form)).into_response())
}

async fn find_token(state: &ApiState, caller: &Caller, name: String) -> Result<OwnedToken, ApiError> {
    let found = readable_tokens(state, caller).await?.into_iter().find(|owned| owned.token.name == name);
    Ok(found.ok_or(TokenError::Unknown { name })?)
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    Ok(answer(feed_of(&find_token(&state, &caller, name_of(&parts)).await?), &parameters))
}

async fn show_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let entry = acl_entry(entry(&find_token(&state, &caller, name_of(&parts)).await?));
    Ok(answer(Feed::of(TITLE, entry.path.clone(), vec![entry]), &parameters))
}

async fn set_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let asked = required_acl_change(&state.auth, &parameters)?;
    let token = find_token(&state, &caller, name_of(&parts)).await?.token;
    let name = stanza(&token.name);
    let set = move |objects: &Objects, viewer: &Permissions| objects.set_node_object_acl(CONF, &name, &asked, viewer);
    let object = with_objects(&state, &caller, set).await?;
    let entry = acl_entry(entry(&OwnedToken { token, object }));
    Ok(answer(Feed::of(TITLE, entry.path.clone(), vec![entry]), &parameters))
}

async fn change(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    form: Parameters,
) -> Result<Response, ApiError> {
    let change = TokenChange { name: name_of(&parts), is_new: false, settings: settings_of(form.clone())? };
    Ok(change_response(&state, &write(&state, &caller, change).await?, &form))
}

async fn switch(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    form: Parameters,
) -> Result<Response, ApiError> {
    let (key, value) = match parts.get("action").map(String::as_str) {
        Some("enable") => ("disabled", "0".to_owned()),
        Some("disable") => ("disabled", "1".to_owned()),
        Some("rotate") => ("token", new_token()),
        _ => return Err(ApiError::with_status(StatusCode::NOT_FOUND, "Not Found")),
    };
    let settings = vec![(key.to_owned(), value)];
    let change = TokenChange { name: name_of(&parts), is_new: false, settings };
    Ok(change_response(&state, &write(&state, &caller, change).await?, &form))
}

async fn remove(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    form: Parameters,
) -> Result<Response, ApiError> {
    let (node, name) = (state.node.clone(), find_token(&state, &caller, name_of(&parts)).await?.token.name);
    check_may_write(&state, &caller, &name).await?;
    let removed = name.clone();
    run_blocking(move || node.remove_collector_token(&removed)).await??;
    let forget = move |objects: &Objects, _: &Permissions| objects.forget_node_object(CONF, &stanza(&name));
    with_objects(&state, &caller, forget).await?;
    let entries = readable_tokens(&state, &caller).await?.iter().map(entry).collect();
    page(TITLE, PATH.to_owned(), entries, &form.keep_only("output_mode"))
}

/// Fails if the token's permissions do not let the caller change it.
async fn check_may_write(state: &ApiState, caller: &Caller, name: &str) -> Result<(), ApiError> {
    let name = stanza(name);
    let check = move |objects: &Objects, viewer: &Permissions| objects.writable_node_object(CONF, &name, viewer);
    with_objects(state, caller, check).await.map(drop)
}

async fn write(state: &ApiState, caller: &Caller, change: TokenChange) -> Result<OwnedToken, ApiError> {
    if !change.is_new {
        let known = find_token(state, caller, change.name.clone()).await?;
        check_may_write(state, caller, &known.token.name).await?;
    }
    let node = state.node.clone();
    let token = run_blocking(move || node.write_collector_token(&change)).await??;
    let name = token.name.clone();
    let made = with_permissions(state, caller, vec![token]).await?.pop();
    Ok(made.ok_or(TokenError::Unknown { name })?)
}

fn name_of(parts: &PathParts) -> String {
    strip_scheme(parts.get("name").map_or("", String::as_str)).to_owned()
}

fn stanza(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// A token's name without the scheme of its stanza.
fn strip_scheme(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

fn settings_of(parameters: Parameters) -> Result<Vec<(String, String)>, ApiError> {
    let settings = parameters.into_settings()?.into_iter();
    Ok(settings.filter(|(name, _)| !PRESENTATION.contains(&name.as_str())).collect())
}

fn entry(OwnedToken { token, object }: &OwnedToken) -> Entry {
    let name = stanza(&token.name);
    let path = format!("/servicesNS/{NOBODY}/{APP}/data/inputs/http/{}", escape_segment(&name));
    let switch = if token.disabled { "enable" } else { "disable" };
    let mut links = vec![("list", path.clone())];
    if object.can_write {
        links.extend(["edit", "remove"].map(|link| (link, path.clone())));
        links.push((switch, format!("{path}/{switch}")));
    }
    let mut content = Map::from_iter([
        ("token".to_owned(), Value::from(token.token.as_str())),
        ("disabled".to_owned(), token.disabled.into()),
        ("index".to_owned(), token.index.as_deref().unwrap_or(INDEX_DEFAULT).into()),
        ("indexes".to_owned(), token.indexes.clone().into()),
        ("useACK".to_owned(), if token.use_ack { "1" } else { "0" }.into()),
    ]);
    let texts = [
        ("description", &token.description),
        ("host", &token.host),
        ("source", &token.source),
        ("sourcetype", &token.sourcetype),
    ];
    for (key, value) in texts {
        content.extend(value.as_deref().map(|value| (key.to_owned(), value.into())));
    }
    let fields = Some(Fields { required: &[], optional: SETTINGS, wildcard: &[] });
    content.insert("eai:appName".to_owned(), APP.into());
    content.insert("eai:userName".to_owned(), NOBODY.into());
    let acl = node_acl_of(object);
    let (author, app) = (object.owner.clone(), APP.to_owned());
    Entry { name, path, author, app, acl, fields, updated: 0, links, content }
}
