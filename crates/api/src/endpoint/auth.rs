//! Sessions: `POST /services/auth/login` returns a session key for a user name and a password, `DELETE
//! /services/authentication/httpauth-tokens/KEY` ends a session, `POST /services/auth/logout` ends the caller's.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, post};

use quarry_auth::SESSION_IDLE_LIMIT_S;

use super::answer_shape::{AnswerShape, MESSAGES};
use super::row::{Access, Endpoint};
use super::shape::Shape;
use super::{blocking, json};
use crate::ApiState;
use crate::caller::{Caller, Whence, cookie_name};
use crate::message::ApiError;
use crate::parameters::Parameters;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let own = Access::LoggedIn;
    vec![
        Endpoint::new(Method::POST, "auth/login", Access::Open, "Opens a session and returns its key.", post(login))
            .of_node()
            .needs(&["username", "password"])
            .takes(&["cookie"])
            .answers(AnswerShape::JsonOrXml(SESSION)),
        Endpoint::new(Method::POST, "auth/logout", own, "Ends the session of the request.", post(logout))
            .of_node()
            .answers(AnswerShape::Json(MESSAGES)),
        Endpoint::new(
            Method::DELETE,
            "authentication/httpauth-tokens/{key}",
            own,
            "Ends a session of the user; administrators can end any.",
            delete(end_session),
        )
        .of_node()
        .answers(AnswerShape::Json(MESSAGES)),
    ]
}

/// The answer of a login.
const SESSION: Shape = Shape::Object(&[("sessionKey", Shape::Text), ("message", Shape::Text), ("code", Shape::Text)]);

/// XML unless JSON is requested, because that is what Splunk's clients parse.
async fn login(
    State(state): State<ApiState>,
    Whence(origin): Whence,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let auth = state.auth.clone();
    let (user, password) = (parameters.required("username")?.to_owned(), parameters.required("password")?.to_owned());
    let key = blocking(move || auth.login(&user, &password, &origin)).await??;
    // Cross-site requests do not send it, and scripts cannot read it.
    let cookie =
        format!("{}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_IDLE_LIMIT_S}", cookie_name(&headers));
    let cookie = parameters.is_set("cookie").then_some([(header::SET_COOKIE, cookie)]);
    if parameters.get("output_mode") == Some("json") {
        return Ok(
            (cookie, json(format!("{{\"sessionKey\":\"{key}\",\"message\":\"\",\"code\":\"\"}}"))).into_response()
        );
    }
    let body = format!(
        "<response>\n  <sessionKey>{key}</sessionKey>\n  <messages>\n    <msg code=\"\"></msg>\n  </messages>\n</response>\n"
    );
    Ok((cookie, [(header::CONTENT_TYPE, "text/xml; charset=UTF-8")], body).into_response())
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
