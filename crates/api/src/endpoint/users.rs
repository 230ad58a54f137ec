//! `/services/authentication/users`: who may log in, with which roles; passwords are changed here.
//!
//! Answers are JSON with Splunk's members. Users see and change themselves, administrators all. Not here: real names,
//! addresses, default apps and time zones of users.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quarry_auth::{UserChange, UserError};
use serde_json::{Value, json};

use super::{blocking, json as answer};
use crate::ApiState;
use crate::caller::{Admin, Caller};
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Where the collection is.
const PATH: &str = "/services/authentication/users";

pub(crate) fn routes() -> Router<ApiState> {
    Router::new()
        .route(PATH, get(list).post(create))
        .route(&format!("{PATH}/{{name}}"), get(show).post(edit).delete(remove))
        .route("/services/authentication/current-context", get(current))
}

async fn list(State(state): State<ApiState>, _: Admin) -> Response {
    answer(feed(&state.auth.users()))
}

async fn show(State(state): State<ApiState>, caller: Caller, Path(name): Path<String>) -> Result<Response, ApiError> {
    if !caller.identity.is_admin() && caller.identity.user != name {
        return Err(ApiError::forbidden(format!("user {} may see nobody else", caller.identity.user)));
    }
    Ok(answer(feed(&[named(&state, &name)?])))
}

/// Whoever asks.
async fn current(caller: Caller) -> Response {
    let Caller { identity, .. } = caller;
    let mut content = content(&identity.roles);
    content["username"] = Value::String(identity.user);
    let entry = json!({ "name": "context", "content": content });
    answer(json!({ "entry": [entry], "messages": [] }).to_string())
}

async fn create(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let change = UserChange::Add {
        name: parameters.required("name")?.to_owned(),
        password: parameters.required("password")?.to_owned(),
        roles: parameters.list("roles"),
    };
    let made = change_users(&state, caller, change).await?;
    Ok((StatusCode::CREATED, answer(feed(&[made]))).into_response())
}

async fn edit(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let roles = parameters.get("roles").is_some().then(|| parameters.list("roles"));
    let (password, old_password) = (parameters.text("password"), parameters.text("oldpassword"));
    if password.is_none() && roles.is_none() {
        return Err(ApiError::bad_request(
            "nothing is to be changed: give password (with oldpassword for your own) or roles",
        ));
    }
    let change = UserChange::Edit { name, password, old_password, roles };
    Ok(answer(feed(&[change_users(&state, caller, change).await?])))
}

async fn remove(State(state): State<ApiState>, caller: Caller, Path(name): Path<String>) -> Result<Response, ApiError> {
    let Caller { identity, origin, .. } = caller;
    let auth = state.auth.clone();
    let is_admin = identity.is_admin();
    blocking(move || auth.change(&identity, &UserChange::Remove { name }, &origin)).await??;
    Ok(answer(feed(&if is_admin { state.auth.users() } else { Vec::new() })))
}

type User = (String, Vec<String>);

/// Makes a change; gives the user as it is now.
async fn change_users(state: &ApiState, caller: Caller, change: UserChange) -> Result<User, ApiError> {
    let auth = state.auth.clone();
    let name = change.name().to_owned();
    blocking(move || auth.change(&caller.identity, &change, &caller.origin)).await??;
    named(state, &name)
}

fn named(state: &ApiState, name: &str) -> Result<User, ApiError> {
    let found = state.auth.users().into_iter().find(|(other, _)| other == name);
    found.ok_or_else(|| UserError::Unknown(name.to_owned()).into())
}

fn feed(users: &[User]) -> String {
    let entries: Vec<Value> = users.iter().map(entry).collect();
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

fn entry((name, roles): &User) -> Value {
    let escaped: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let place = format!("{PATH}/{}", escaped.replace('+', "%20"));
    json!({
        "name": name,
        "id": place,
        "links": { "alternate": place, "list": place, "edit": place, "remove": place },
        "content": content(roles),
    })
}

fn content(roles: &[String]) -> Value {
    json!({ "roles": roles, "type": "Splunk", "defaultApp": "search" })
}
