//! Sessions: `POST /services/auth/login` returns a session key for a user name and a password, `DELETE
//! /services/authentication/httpauth-tokens/KEY` ends a session, `POST /services/auth/logout` ends the caller's own
//! session. `GET /services/authentication/httpauth-tokens` lists open sessions by ids that do not reveal their keys.

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::APP_SYSTEM;
use quarry_auth::SessionInfo;
use quarry_event::time::strftime;
use serde_json::Value;

use super::answer_shape::{AnswerShape, Content, MESSAGES};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, entities};
use super::shape::Shape;
use super::{json_response, run_blocking};
use crate::ApiState;
use crate::atom::{Acl, Entry};
use crate::caller::{Caller, RequestOrigin, RequestProof, session_cookie};
use crate::message::ApiError;
use crate::parameters::Parameters;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let own = Access::LoggedIn;
    let shown = vec![
        Endpoint::new(Method::GET, SESSIONS_PATH, own, "Lists the user's open sessions, or all.", get(sessions))
            .takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, SESSION_PATH, own, "Shows an open session.", get(sessions)),
    ];
    let mut rows = entities(shown, &Content::for_path(SESSIONS_PATH, SHOWN_SESSION));
    rows.extend([
        Endpoint::new(Method::POST, "auth/login", Access::Open, "Opens a session and returns its key.", post(login))
            .without_namespace()
            .needs(&["username", "password"])
            .takes(&["cookie"])
            .answers(AnswerShape::JsonOrXml(SESSION)),
        Endpoint::new(Method::POST, "auth/logout", own, "Ends the session of the request.", post(logout))
            .without_namespace()
            .answers(AnswerShape::Json(MESSAGES)),
        Endpoint::new(
            Method::DELETE,
            SESSION_PATH,
            own,
            "Ends a session of the user; administrators can end any.",
            delete(end_session),
        )
        .answers(AnswerShape::Json(MESSAGES)),
    ]);
    rows
}

/// Open sessions.
const SESSIONS_PATH: &str = "authentication/httpauth-tokens";
/// One session, by its key or its id.
const SESSION_PATH: &str = "authentication/httpauth-tokens/{key}";
/// Splunk's format of the time of the last use.
const TIME_FORMAT: &str = "%a %b %e %H:%M:%S %Y";
/// Content of a session entity.
const SHOWN_SESSION: Shape = Shape::Object(&[
    ("authString", Shape::Text),
    ("searchId", Shape::Text),
    ("timeAccessed", Shape::Text),
    ("userName", Shape::Text),
]);
/// Text shown instead of a session's key.
const HIDDEN_KEY: &str = "********";

/// Characters of an unknown session that its error shows.
const ECHOED_CHARS_MAX: usize = 8;

/// The error for a session that cannot be shown or ended, in Splunk's words.
fn no_session(key: &str) -> ApiError {
    ApiError::with_status(StatusCode::NOT_FOUND, format!("Not a valid session: {}", shortened(key)))
}

/// The beginning of a text that may be a session's key, which errors must not show; ids look like keys.
fn shortened(key: &str) -> String {
    let begin: String = key.chars().take(ECHOED_CHARS_MAX).collect();
    if begin.len() < key.len() { format!("{begin}…") } else { begin }
}

async fn sessions(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let mut shown = state.auth.sessions(&caller.identity);
    if let Some(id) = parts.get("key") {
        shown.retain(|session| session.id == *id);
        if shown.is_empty() {
            return Err(no_session(id));
        }
    }
    let place = format!("/services/{SESSIONS_PATH}");
    let entry = |SessionInfo { id, user, last_use_ns }: SessionInfo| {
        let (path, time) = (format!("{place}/{id}"), strftime(last_use_ns, TIME_FORMAT, &jiff::tz::TimeZone::UTC));
        let members = [("authString", HIDDEN_KEY), ("searchId", ""), ("timeAccessed", &time), ("userName", &user)];
        let content = members.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect();
        let (acl, links) = (Acl::for_user(&user, true), vec![("list", path.clone()), ("remove", path.clone())]);
        let app = APP_SYSTEM.to_owned();
        Entry { name: id, path, author: user, app, acl, fields: None, updated: last_use_ns, links, content }
    };
    page("httpauth-tokens", place.clone(), shown.into_iter().map(entry).collect(), &parameters)
}

/// The answer of a login.
const SESSION: Shape = Shape::Object(&[("sessionKey", Shape::Text), ("message", Shape::Text), ("code", Shape::Text)]);

/// Opens a session. The answer is XML unless JSON is requested, because Splunk's clients parse XML.
async fn login(
    State(state): State<ApiState>,
    RequestOrigin(origin): RequestOrigin,
    proof: RequestProof,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (auth, lifetime_s) = (state.auth.clone(), state.auth.session_timeout_s());
    let (user, password) = (parameters.required("username")?.to_owned(), parameters.required("password")?.to_owned());
    let key = run_blocking(move || auth.login(&user, &password, &origin)).await??;
    proof.confirm();
    // The cookie is not sent with cross-site requests and not readable by scripts.
    let cookie = session_cookie(&headers, &key, lifetime_s);
    let cookie = parameters.is_set("cookie").then_some([(header::SET_COOKIE, cookie)]);
    if parameters.get("output_mode") == Some("json") {
        return Ok((cookie, json_response(format!("{{\"sessionKey\":\"{key}\",\"message\":\"\",\"code\":\"\"}}")))
            .into_response());
    }
    let body = format!(
        "<response>\n  <sessionKey>{key}</sessionKey>\n  <messages>\n    <msg code=\"\"></msg>\n  </messages>\n</response>\n"
    );
    Ok((cookie, [(header::CONTENT_TYPE, "text/xml; charset=UTF-8")], body).into_response())
}

async fn logout(State(state): State<ApiState>, caller: Caller) -> Result<Response, ApiError> {
    let ended = state.auth.end_own_session(caller.shown.as_deref(), &caller.identity, &caller.origin);
    let text = "this request has no session key: send it as `Authorization: Splunk KEY`";
    ended_or(ended, || ApiError::with_status(StatusCode::NOT_FOUND, text))
}

async fn end_session(State(state): State<ApiState>, caller: Caller, parts: PathParts) -> Result<Response, ApiError> {
    let key = parts.get("key").cloned().unwrap_or_default();
    let ended = state.auth.end_session(&key, &caller.identity, &caller.origin);
    ended_or(ended, || no_session(&key))
}

fn ended_or(ended: bool, otherwise: impl FnOnce() -> ApiError) -> Result<Response, ApiError> {
    if ended { Ok(json_response("{\"messages\":[]}".to_owned())) } else { Err(otherwise()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_only_the_beginning_of_a_key() {
        assert_eq!(shortened("0123456789abcdef"), "01234567…");
        assert_eq!(shortened("none"), "none");
    }
}
