//! `/services/data/inputs/http`: the tokens of the HTTP Event Collector, also below `/servicesNS/USER/APP`.
//!
//! Entities have Splunk's members. Not here: the collector's own settings (`/services/data/inputs/http/http`), and
//! owners and apps of tokens, because all tokens belong to the node.

use std::borrow::Cow;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::NOBODY;
use serde_json::{Map, Value};

use super::answer_shape::Content;
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, EDIT_TOKENS, Endpoint, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::atom::{Acl, Entry, Feed, Fields, Form, escape_segment};
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, CollectorToken, TokenChange, TokenError};

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
const SETTINGS: &[&str] = &["token", "index", "indexes", "host", "source", "sourcetype", "disabled", "useACK"];
/// Parameters that affect only the answer's form.
const PRESENTATION: [&str; 4] = ["output_mode", "count", "offset", "search"];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (tokens, one) = ("data/inputs/http", "data/inputs/http/{name}");
    let row = |method, path: &'static str, summary, serve| {
        Endpoint::new(method, path, Access::Capability(EDIT_TOKENS), summary, serve)
    };
    let rows = vec![
        row(Method::GET, tokens, "Lists tokens of the HTTP Event Collector.", get(list)).takes(LIST_PARAMETERS),
        row(Method::POST, tokens, "Creates a token of the HTTP Event Collector.", post(create))
            .needs(&["name"])
            .takes(SETTINGS),
        row(Method::GET, one, "Shows a token of the HTTP Event Collector.", get(show)),
        row(Method::POST, one, "Changes a token of the HTTP Event Collector.", post(change)).takes(SETTINGS),
        row(Method::DELETE, one, "Deletes a token of the HTTP Event Collector.", delete(remove)),
        row(
            Method::POST,
            "data/inputs/http/{name}/{action}",
            "Enables or disables a token of the HTTP Event Collector.",
            post(switch),
        ),
    ];
    entities(rows, &TOKEN)
}

/// Content of a token.
const TOKEN: Content = Content::new(
    "data.inputs.http",
    Shape::Object(&[
        ("disabled", Shape::Flag),
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

/// The answer to a change.
fn change_response(state: &ApiState, token: &CollectorToken, parameters: &Parameters) -> Response {
    let told = if state.node.collector_listens() { None } else { Some(NOT_LISTENING_MESSAGE) };
    answer(Feed { notice: told.map(Cow::Borrowed), ..feed_of(token) }, parameters)
}

fn feed_of(token: &CollectorToken) -> Feed {
    Feed::of(TITLE, PATH.to_owned(), vec![entry(token)])
}

fn answer(feed: Feed, parameters: &Parameters) -> Response {
    feed.answer(Form::of(parameters.get("output_mode")))
}

async fn list(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    page(TITLE, PATH.to_owned(), list_tokens(&state).await?.iter().map(entry).collect(), &parameters)
}

async fn create(State(state): State<ApiState>, form: Parameters) -> Result<Response, ApiError> {
    let mut settings = settings_of(form.clone());
    let at = settings.iter().position(|(name, _)| name == "name");
    let name = at.map(|at| settings.remove(at).1).ok_or_else(|| ApiError::bad_request("name is missing"))?;
    let made = write(&state, TokenChange { name: strip_scheme(&name).to_owned(), is_new: true, settings }).await?;
    Ok((StatusCode::CREATED, change_response(&state, &made, &form)).into_response())
}

async fn show(State(state): State<ApiState>, parts: PathParts, parameters: Parameters) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let found = list_tokens(&state).await?.into_iter().find(|token| token.name == name);
    Ok(answer(feed_of(&found.ok_or(TokenError::Unknown { name })?), &parameters))
}

async fn change(State(state): State<ApiState>, parts: PathParts, form: Parameters) -> Result<Response, ApiError> {
    let change = TokenChange { name: name_of(&parts), is_new: false, settings: settings_of(form.clone()) };
    Ok(change_response(&state, &write(&state, change).await?, &form))
}

async fn switch(State(state): State<ApiState>, parts: PathParts, form: Parameters) -> Result<Response, ApiError> {
    let disabled = match parts.get("action").map(String::as_str) {
        Some("enable") => "0",
        Some("disable") => "1",
        _ => return Err(ApiError::with_status(StatusCode::NOT_FOUND, "Not Found")),
    };
    let settings = vec![("disabled".to_owned(), disabled.to_owned())];
    let change = TokenChange { name: name_of(&parts), is_new: false, settings };
    Ok(change_response(&state, &write(&state, change).await?, &form))
}

async fn remove(State(state): State<ApiState>, parts: PathParts, form: Parameters) -> Result<Response, ApiError> {
    let (node, name) = (state.node.clone(), name_of(&parts));
    run_blocking(move || node.remove_collector_token(&name)).await??;
    let entries = list_tokens(&state).await?.iter().map(entry).collect();
    page(TITLE, PATH.to_owned(), entries, &form.keep_only("output_mode"))
}

async fn write(state: &ApiState, change: TokenChange) -> Result<CollectorToken, ApiError> {
    let node = state.node.clone();
    Ok(run_blocking(move || node.write_collector_token(&change)).await??)
}

fn name_of(parts: &PathParts) -> String {
    strip_scheme(parts.get("name").map_or("", String::as_str)).to_owned()
}

/// A token's name without the scheme of its stanza.
fn strip_scheme(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

fn settings_of(parameters: Parameters) -> Vec<(String, String)> {
    parameters.into_pairs().into_iter().filter(|(name, _)| !PRESENTATION.contains(&name.as_str())).collect()
}

fn entry(token: &CollectorToken) -> Entry {
    let name = format!("{PREFIX}{}", token.name);
    let path = format!("/servicesNS/{NOBODY}/{APP}/data/inputs/http/{}", escape_segment(&name));
    let switch = if token.disabled { "enable" } else { "disable" };
    let mut links = ["list", "edit", "remove"].map(|link| (link, path.clone())).to_vec();
    links.push((switch, format!("{path}/{switch}")));
    let mut content = Map::from_iter([
        ("token".to_owned(), Value::from(token.token.as_str())),
        ("disabled".to_owned(), token.disabled.into()),
        ("index".to_owned(), token.index.as_deref().unwrap_or("default").into()),
        ("indexes".to_owned(), token.indexes.clone().into()),
        ("useACK".to_owned(), if token.use_ack { "1" } else { "0" }.into()),
    ]);
    for (key, value) in [("host", &token.host), ("source", &token.source), ("sourcetype", &token.sourcetype)] {
        content.extend(value.as_deref().map(|value| (key.to_owned(), value.into())));
    }
    let fields = Some(Fields { required: &[], optional: SETTINGS, wildcard: &[] });
    let acl = Acl { can_write: true, can_remove: true, ..Acl::for_node() };
    let (author, app) = (NOBODY.to_owned(), APP.to_owned());
    Entry { name, path, author, app, acl, fields, updated: 0, links, content }
}
