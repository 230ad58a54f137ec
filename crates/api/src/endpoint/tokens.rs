//! `authorization/tokens`: authentication tokens, used as `Authorization: Bearer TOKEN` instead of a login.
//!
//! Users manage their own tokens; `edit_tokens_all` allows managing everyone's. A token is returned only once, when it
//! is created. The last path segment is a token's id or, as in Splunk, a user, in which case the parameter `id` names
//! the token. Not here: creating and checking tokens ([`quarry_auth`]).

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::APP_SYSTEM;
use quarry_auth::{AuthError, NewToken, TokenInfo};
use quarry_conf::permissions::{EDIT_TOKENS_OWN, LIST_TOKENS_ALL, LIST_TOKENS_OWN};
use quarry_event::time::{NS_PER_SEC, parse_time};
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, Content};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Path of the collection after the root.
const COLLECTION: &str = "authorization/tokens";
/// Expiry of a token that never expires.
const NEVER: &str = "never";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(LIST_TOKENS_OWN), Access::Capability(EDIT_TOKENS_OWN));
    let one = format!("{COLLECTION}/{{name}}");
    let listed = "Lists the user's authentication tokens, or all.";
    let mut rows = vec![
        Endpoint::new(Method::GET, COLLECTION, read, listed, get(list)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, one.as_str(), read, "Shows an authentication token.", get(show)).takes(&["id"]),
        Endpoint::new(Method::POST, one.as_str(), write, "Enables or disables an authentication token.", post(switch))
            .needs(&["status"])
            .takes(&["id"]),
        Endpoint::new(Method::DELETE, one, write, "Revokes an authentication token.", delete(remove)).takes(&["id"]),
    ];
    rows = entities(rows, &Content::for_path(COLLECTION, TOKEN));
    let made = Content::new("authorization.tokens.new", Shape::Object(&[("id", Shape::Text), ("token", Shape::Text)]));
    rows.push(
        Endpoint::new(Method::POST, COLLECTION, write, "Creates an authentication token.", post(create))
            .needs(&["name", "audience"])
            .takes(&["expires_on", "not_before", "type"])
            .answers_with(StatusCode::CREATED, AnswerShape::Entities(made)),
    );
    rows
}

/// Content of a token entity.
const TOKEN: Shape = Shape::Object(&[
    (
        "claims",
        Shape::Object(&[
            ("aud", Shape::Text),
            ("exp", Shape::Integer),
            ("iat", Shape::Integer),
            ("idp", Shape::Text),
            ("iss", Shape::Text),
            ("nbr", Shape::Integer),
            ("sub", Shape::Text),
        ]),
    ),
    ("headers", Shape::Map(&Shape::Text)),
    ("lastUsed", Shape::Integer),
    ("lastUsedIp", Shape::Text),
    ("status", Shape::Word(&["enabled", "disabled", "expired"])),
    ("tokenId", Shape::Text),
]);

fn entry((record, used): &TokenInfo, now_s: i64) -> Entry {
    let path = format!("/services/{COLLECTION}/{}", escape_segment(&record.id));
    let status = match record.is_enabled {
        false => "disabled",
        true if record.expires_s.is_some_and(|end| now_s >= end) => "expired",
        true => "enabled",
    };
    let content = json!({
        "claims": {
            "aud": record.audience, "exp": record.expires_s.unwrap_or(0), "iat": record.issued_s, "idp": "Splunk",
            "iss": record.issuer, "nbr": record.not_before_s, "sub": record.user,
        },
        "headers": { "alg": "HS256", "kid": "quarry.secret", "ttyp": "static", "ver": "v2" },
        "lastUsed": used.map_or(0, |(time, _)| time),
        "lastUsedIp": used.map(|(_, client)| client.to_string()).unwrap_or_default(), "status": status, "tokenId": record.id,
    });
    let content = if let Value::Object(members) = content { members } else { Map::new() };
    let links = vec![("list", path.clone()), ("edit", path.clone()), ("remove", path.clone())];
    let (author, app, updated) =
        (record.user.clone(), APP_SYSTEM.to_owned(), record.issued_s.saturating_mul(NS_PER_SEC));
    let acl = Acl { can_write: true, can_remove: true, ..Acl::for_node() };
    Entry { name: record.id.clone(), path, author, app, acl, fields: None, updated, links, content }
}

fn visible_tokens(state: &ApiState, caller: &Caller) -> Vec<TokenInfo> {
    let mut tokens = state.auth.tokens();
    if !caller.permissions.has_capability(LIST_TOKENS_ALL) {
        tokens.retain(|(record, _)| record.user == caller.identity.user);
    }
    tokens
}

fn now_s(state: &ApiState) -> i64 {
    state.auth.now().div_euclid(NS_PER_SEC)
}

async fn list(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let mut tokens = visible_tokens(&state, &caller);
    if let Some(user) = parameters.get("username").filter(|user| !user.is_empty()) {
        tokens.retain(|(record, _)| record.user == user);
    }
    let entries = tokens.iter().map(|token| entry(token, now_s(&state))).collect();
    page("tokens", format!("/services/{COLLECTION}"), entries, &parameters)
}

/// The token named by a path.
fn find_token(
    state: &ApiState,
    caller: &Caller,
    parts: &PathParts,
    parameters: &Parameters,
) -> Result<TokenInfo, ApiError> {
    let name = parts.get("name").cloned().unwrap_or_default();
    let id = parameters.get("id").filter(|id| !id.is_empty()).unwrap_or(&name).to_owned();
    let is_asked = |(record, _): &TokenInfo| record.id == id && (name == id || name == record.user);
    visible_tokens(state, caller).into_iter().find(is_asked).ok_or_else(|| AuthError::UnknownToken(id).into())
}

async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let entries = vec![entry(&find_token(&state, &caller, &parts, &parameters)?, now_s(&state))];
    page("tokens", format!("/services/{COLLECTION}"), entries, &parameters.keep_only("output_mode"))
}

async fn create(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let text = |name: &str| parameters.get(name).map(str::trim).filter(|text| !text.is_empty());
    if let Some(kind) = text("type").filter(|kind| !["static", "ephemeral"].contains(kind)) {
        return Err(ApiError::bad_request(format!("type={kind}: give static or ephemeral")));
    }
    let now = state.auth.now();
    let instant = |name: &str, text: &str| {
        let time = parse_time(text, now, &jiff::tz::TimeZone::UTC);
        let time = time.map_err(|reason| ApiError::bad_request(format!("{name}={text}: {reason}")))?;
        Ok::<i64, ApiError>(time.div_euclid(NS_PER_SEC))
    };
    let default = state.auth.roles().token_expiration().to_owned();
    let expires_s = match text("expires_on").unwrap_or(&default) {
        NEVER | "0" => None,
        given => Some(instant("expires_on", given)?),
    };
    let not_before_s =
        text("not_before").map_or(Ok(now.div_euclid(NS_PER_SEC)), |given| instant("not_before", given))?;
    if expires_s.is_some_and(|end| end <= not_before_s.max(now.div_euclid(NS_PER_SEC))) {
        return Err(ApiError::bad_request("expires_on: give a future time after not_before, or never"));
    }
    let asked = NewToken {
        user: parameters.required("name")?.to_owned(),
        audience: parameters.required("audience")?.to_owned(),
        expires_s,
        not_before_s,
    };
    let (auth, node, identity, origin) =
        (state.auth.clone(), state.node.clone(), caller.identity.clone(), caller.origin);
    let (id, token) =
        run_blocking(move || auth.issue_token(&identity, asked, &node.condition().name, &origin)).await??;
    let path = format!("/services/{COLLECTION}/{}", escape_segment(&id));
    let content = if let Value::Object(members) = json!({ "id": id, "token": token }) { members } else { Map::new() };
    let (author, app, links) = (caller.identity.user.clone(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    let (name, acl) = ("tokens".to_owned(), Acl::for_node());
    let entry = Entry { name, path, author, app, acl, fields: None, updated: now, links, content };
    let feed = crate::atom::Feed::of("tokens", format!("/services/{COLLECTION}"), vec![entry]);
    Ok((StatusCode::CREATED, feed.answer(Form::of(parameters.get("output_mode")))).into_response())
}

async fn switch(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    parameters.reject_unknown(&[&["id", "status"]])?;
    let is_enabled = match parameters.required("status")? {
        "enabled" => true,
        "disabled" => false,
        other => return Err(ApiError::bad_request(format!("status={other}: give enabled or disabled"))),
    };
    let (token, _) = find_token(&state, &caller, &parts, &parameters)?;
    let (auth, identity, origin) = (state.auth.clone(), caller.identity.clone(), caller.origin);
    run_blocking(move || auth.switch_token(&identity, &token.id, is_enabled, &origin)).await??;
    show(State(state), caller, parts, parameters).await
}

async fn remove(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (token, _) = find_token(&state, &caller, &parts, &parameters)?;
    let (auth, identity, origin) = (state.auth.clone(), caller.identity.clone(), caller.origin);
    run_blocking(move || auth.remove_token(&identity, &token.id, &origin)).await??;
    list(State(state), caller, parameters.keep_only("output_mode")).await
}
