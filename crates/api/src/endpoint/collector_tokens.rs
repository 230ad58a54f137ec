//! `/services/data/inputs/http`: the tokens of the HTTP Event Collector, also below `/servicesNS/USER/APP`.
//!
//! Answers are JSON with Splunk's members. Not here: the collector's own settings (`/services/data/inputs/http/http`),
//! owners and apps of tokens, which all belong to the node.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde_json::{Value, json};

use super::row::{Access, EDIT_TOKENS, Endpoint};
use super::{blocking, json as answer};
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, CollectorToken, TokenChange, TokenError};

/// Where the collection is.
const PATH: &str = "/services/data/inputs/http";
/// Prefix of tokens' names in answers, as in their stanzas.
const PREFIX: &str = "http://";
/// Settings of a token.
const SETTINGS: &[&str] = &["token", "index", "indexes", "host", "source", "sourcetype", "disabled", "useACK"];
/// Parameters that affect only the answer's form.
const PRESENTATION: [&str; 4] = ["output_mode", "count", "offset", "search"];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (tokens, one) = ("data/inputs/http", "data/inputs/http/{name}");
    let row = |method, path: &'static str, summary, serve| {
        Endpoint::new(method, path, Access::Capability(EDIT_TOKENS), summary, serve)
    };
    vec![
        row(Method::GET, tokens, "Lists tokens of the HTTP Event Collector.", get(list)),
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
    ]
}

/// Path segments by name; user and app are optional.
type Parts = Path<BTreeMap<String, String>>;

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

async fn list(State(state): State<ApiState>) -> Result<Response, ApiError> {
    let node = state.node.clone();
    Ok(answer(feed(&blocking(move || node.collector_tokens()).await??)))
}

async fn create(State(state): State<ApiState>, form: Parameters) -> Result<Response, ApiError> {
    let mut settings = settings_of(form);
    let at = settings.iter().position(|(name, _)| name == "name");
    let name = at.map(|at| settings.remove(at).1).ok_or_else(|| ApiError::bad_request("name is missing"))?;
    let made = write(&state, TokenChange { name: bare(&name).to_owned(), is_new: true, settings }).await?;
    Ok((StatusCode::CREATED, answer(feed(&[made]))).into_response())
}

async fn show(State(state): State<ApiState>, parts: Parts) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let node = state.node.clone();
    let mut tokens = blocking(move || node.collector_tokens()).await??;
    tokens.retain(|token| token.name == name);
    if tokens.is_empty() { Err(TokenError::Unknown { name }.into()) } else { Ok(answer(feed(&tokens))) }
}

async fn change(State(state): State<ApiState>, parts: Parts, form: Parameters) -> Result<Response, ApiError> {
    let change = TokenChange { name: name_of(&parts), is_new: false, settings: settings_of(form) };
    Ok(answer(feed(&[write(&state, change).await?])))
}

async fn switch(State(state): State<ApiState>, parts: Parts) -> Result<Response, ApiError> {
    let disabled = match parts.get("action").map(String::as_str) {
        Some("enable") => "0",
        Some("disable") => "1",
        _ => return Err(ApiError::with_status(StatusCode::NOT_FOUND, "Not Found")),
    };
    let settings = vec![("disabled".to_owned(), disabled.to_owned())];
    let change = TokenChange { name: name_of(&parts), is_new: false, settings };
    Ok(answer(feed(&[write(&state, change).await?])))
}

async fn remove(State(state): State<ApiState>, parts: Parts) -> Result<Response, ApiError> {
    let (node, name) = (state.node.clone(), name_of(&parts));
    blocking(move || node.remove_collector_token(&name)).await??;
    let node = state.node.clone();
    Ok(answer(feed(&blocking(move || node.collector_tokens()).await??)))
}

async fn write(state: &ApiState, change: TokenChange) -> Result<CollectorToken, ApiError> {
    let node = state.node.clone();
    Ok(blocking(move || node.write_collector_token(&change)).await??)
}

fn name_of(parts: &Parts) -> String {
    bare(parts.get("name").map_or("", String::as_str)).to_owned()
}

/// A token's name, with or without the scheme of its stanza.
fn bare(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

fn settings_of(parameters: Parameters) -> Vec<(String, String)> {
    parameters.all().into_iter().filter(|(name, _)| !PRESENTATION.contains(&name.as_str())).collect()
}

fn feed(tokens: &[CollectorToken]) -> String {
    let entries: Vec<Value> = tokens.iter().map(entry).collect();
    json!({
        "links": { "create": format!("{PATH}/_new") },
        "origin": PATH,
        "generator": { "version": env!("CARGO_PKG_VERSION") },
        "entry": entries,
        "paging": { "total": entries.len(), "perPage": entries.len(), "offset": 0 },
        "messages": [],
    })
    .to_string()
}

fn entry(token: &CollectorToken) -> Value {
    let escaped: String = form_urlencoded::byte_serialize(format!("{PREFIX}{}", token.name).as_bytes()).collect();
    let place = format!("/servicesNS/nobody/splunk_httpinput/data/inputs/http/{}", escaped.replace('+', "%20"));
    let switch = if token.disabled { "enable" } else { "disable" };
    let mut content = json!({
        "token": token.token,
        "disabled": token.disabled,
        "index": token.index.as_deref().unwrap_or("default"),
        "indexes": token.indexes,
        "useACK": if token.use_ack { "1" } else { "0" },
    });
    for (key, value) in [("host", &token.host), ("source", &token.source), ("sourcetype", &token.sourcetype)] {
        if let Some(value) = value {
            content[key] = Value::String(value.clone());
        }
    }
    json!({
        "name": format!("{PREFIX}{}", token.name),
        "id": place,
        "links": {
            "alternate": place, "list": place, "edit": place, "remove": place,
            switch: format!("{place}/{switch}"),
        },
        "content": content,
    })
}
