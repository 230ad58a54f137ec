//! `POST /services/auth/login`: user name and password for a session key.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Form, Router};
use serde::Deserialize;

use super::{blocking, json};
use crate::ApiState;
use crate::message::ApiError;

pub(crate) fn routes() -> Router<ApiState> {
    Router::new().route("/services/auth/login", post(login))
}

#[derive(Deserialize)]
struct Login {
    username: String,
    password: String,
    output_mode: Option<String>,
}

/// Answers in XML unless JSON is asked for, as Splunk does: its clients parse exactly that.
async fn login(State(state): State<ApiState>, Form(form): Form<Login>) -> Result<Response, ApiError> {
    let auth = state.auth.clone();
    let (user, password) = (form.username, form.password);
    let key = blocking(move || auth.login(&user, &password)).await??;
    if form.output_mode.as_deref() == Some("json") {
        return Ok(json(format!("{{\"sessionKey\":\"{key}\",\"message\":\"\",\"code\":\"\"}}")));
    }
    let body = format!(
        "<response>\n  <sessionKey>{key}</sessionKey>\n  <messages>\n    <msg code=\"\"></msg>\n  </messages>\n</response>\n"
    );
    Ok(([(header::CONTENT_TYPE, "text/xml; charset=UTF-8")], body).into_response())
}
