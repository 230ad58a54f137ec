//! Sessions: `POST /services/auth/login` gives a key for a user name and a password, `DELETE
//! /services/authentication/httpauth-tokens/KEY` ends one, `POST /services/auth/logout` ends the one that is shown.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, post};

use super::{blocking, json};
use crate::ApiState;
use crate::caller::{Caller, Whence};
use crate::message::{ApiError, LOGIN_PATH};
use crate::parameters::Parameters;

pub(crate) fn routes() -> Router<ApiState> {
    Router::new()
        .route(LOGIN_PATH, post(login))
        .route("/services/auth/logout", post(logout))
        .route("/services/authentication/httpauth-tokens/{key}", delete(end_session))
}

/// Answers in XML unless JSON is asked for, as Splunk does: its clients parse exactly that.
async fn login(
    State(state): State<ApiState>,
    Whence(origin): Whence,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let auth = state.auth.clone();
    let (user, password) = (parameters.required("username")?.to_owned(), parameters.required("password")?.to_owned());
    let key = blocking(move || auth.login(&user, &password, &origin)).await??;
    if parameters.get("output_mode") == Some("json") {
        return Ok(json(format!("{{\"sessionKey\":\"{key}\",\"message\":\"\",\"code\":\"\"}}")));
    }
    let body = format!(
        "<response>\n  <sessionKey>{key}</sessionKey>\n  <messages>\n    <msg code=\"\"></msg>\n  </messages>\n</response>\n"
    );
    Ok(([(header::CONTENT_TYPE, "text/xml; charset=UTF-8")], body).into_response())
}

async fn logout(State(state): State<ApiState>, caller: Caller) -> Result<Response, ApiError> {
    let ended = state.auth.end_own_session(caller.shown.as_deref(), &caller.identity, &caller.origin);
    ended_or(ended, "this request shows no session: send the key of one as `Authorization: Splunk KEY`")
}

async fn end_session(
    State(state): State<ApiState>,
    caller: Caller,
    Path(key): Path<String>,
) -> Result<Response, ApiError> {
    let ended = state.auth.end_session(&key, &caller.identity, &caller.origin);
    ended_or(ended, "there is no such session, or it is another user's")
}

fn ended_or(ended: bool, otherwise: &str) -> Result<Response, ApiError> {
    if ended {
        Ok(json("{\"messages\":[]}".to_owned()))
    } else {
        Err(ApiError::with_status(StatusCode::NOT_FOUND, otherwise))
    }
}
