//! `data/ui`: views, navigation, panels and time menus of apps and users, as XML texts ([`quarry_apps::objects::texts`]).
//!
//! Not here: showing them.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::texts::{KINDS, TEXT};
use quarry_apps::objects::{Objects, Scope};
use quarry_conf::Permissions;

use super::entities::{Kind, entry, scope_of, with_objects};
use super::folders::links;
use super::listing::{LISTED, page};
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET};
use super::search_jobs::PathParts;
use crate::ApiState;
use crate::atom::{Feed, Fields, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// The folder of all kinds.
const FOLDER: &str = "data/ui";
/// Parameters of such an object.
const FIELDS: Fields = Fields { required: &[TEXT], optional: &[], wildcard: &[] };

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET));
    let (all, one) = ("data/ui/{file}", "data/ui/{file}/{name}");
    let kinds = |parameters: Parameters| async { links(FOLDER, KINDS.into_iter(), parameters) };
    vec![
        Endpoint::new(Method::GET, FOLDER, read, "Lists what is below it.", get(kinds)).takes(LISTED),
        Endpoint::new(Method::GET, all, read, "Lists views, or other parts of what apps show.", get(list))
            .takes(LISTED),
        Endpoint::new(Method::POST, all, write, "Makes a view.", post(create)).needs(&["name", TEXT]),
        Endpoint::new(Method::GET, one, read, "Shows a view.", get(show)),
        Endpoint::new(Method::POST, one, write, "Changes a view.", post(edit)).needs(&[TEXT]),
        Endpoint::new(Method::DELETE, one, write, "Removes a view.", delete(remove)),
    ]
}

/// What a request means.
struct Asked {
    kind: &'static str,
    name: String,
    scope: Scope,
}

impl Asked {
    fn of(parts: &PathParts, caller: &Caller) -> Result<Asked, ApiError> {
        let file = parts.get("file").map_or("", String::as_str);
        let missing = || ApiError::with_status(StatusCode::NOT_FOUND, "Not Found");
        let kind = KINDS.into_iter().find(|kind| *kind == file).ok_or_else(missing)?;
        Ok(Asked { kind, name: parts.get("name").cloned().unwrap_or_default(), scope: scope_of(parts, caller)? })
    }

    fn shown(&self) -> Kind {
        Kind {
            path: format!("data/ui/{}", self.kind).into(),
            title: self.kind.into(),
            conf: self.kind.into(),
            fields: FIELDS,
            is_by_name: false,
            holds: |_| true,
            verbs: &[],
            more: &[],
            prefix: "",
            told: None,
            refuse: super::entities::take_all,
            before_removal: super::entities::nothing_besides,
        }
    }

    fn path(&self) -> String {
        format!("/services/data/ui/{}", self.kind)
    }
}

async fn list(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let asked = Asked::of(&parts, &caller)?;
    let (kind, scope) = (asked.kind, asked.scope.clone());
    let objects = with_objects(&state, &caller, move |objects, viewer| objects.texts(kind, &scope, viewer)).await?;
    let entries = objects.iter().map(|object| entry(&asked.shown(), object)).collect();
    page(asked.kind, asked.path(), entries, &parameters)
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let asked = Asked::of(&parts, &caller)?;
    let (kind, name, scope) = (asked.kind, asked.name.clone(), asked.scope.clone());
    let get = move |objects: &Objects, viewer: &Permissions| objects.text(kind, &name, &scope, viewer);
    let object = with_objects(&state, &caller, get).await?;
    let entries = vec![entry(&asked.shown(), &object)];
    Ok(Feed::of(asked.kind, asked.path(), entries).answer(Form::of(parameters.get("output_mode"))))
}

async fn put(
    state: &ApiState,
    caller: &Caller,
    asked: &Asked,
    is_new: bool,
    form: &Parameters,
) -> Result<Response, ApiError> {
    let (kind, scope, text) = (asked.kind, asked.scope.clone(), form.required(TEXT)?.to_owned());
    let name = if is_new { form.required("name")?.to_owned() } else { asked.name.clone() };
    let put =
        move |objects: &Objects, viewer: &Permissions| objects.put_text(kind, &name, &text, is_new, &scope, viewer);
    let object = with_objects(state, caller, put).await?;
    let entries = vec![entry(&asked.shown(), &object)];
    Ok(Feed::of(asked.kind, asked.path(), entries).answer(Form::of(form.get("output_mode"))))
}

async fn create(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let made = put(&state, &caller, &Asked::of(&parts, &caller)?, true, &parameters).await?;
    Ok((StatusCode::CREATED, made).into_response())
}

async fn edit(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    put(&state, &caller, &Asked::of(&parts, &caller)?, false, &parameters).await
}

async fn remove(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let asked = Asked::of(&parts, &caller)?;
    let (kind, name, scope) = (asked.kind, asked.name.clone(), asked.scope);
    with_objects(&state, &caller, move |objects, viewer| objects.remove_text(kind, &name, &scope, viewer)).await?;
    list(State(state), parts, caller, parameters.only("output_mode")).await
}
