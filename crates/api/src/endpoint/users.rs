//! `/services/authentication/users`: users, their roles and passwords.
//!
//! Users see and change their own entry, administrators all entries. Real name, mail address, default app, time zone
//! and other details are settings of the user's own `user-prefs.conf`. Not here: permissions of roles
//! ([`super::roles`]).

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{APP_PREFERENCES, ObjectError, Objects, Scope};
use quarry_auth::{AuthError, Identity, UserChange};
use quarry_conf::Permissions;
use quarry_conf::permissions::EDIT_USER;
use quarry_event::time::parse_zone;
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, Content};
use super::entities::{change, with_objects};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, entities};
use super::run_blocking;
use super::shape::{Member, Shape};
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Fields, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameter_types::parse_flag;
use crate::parameters::{ONE_ENTITY, Parameters};

/// Path of the collection after the root.
const COLLECTION: &str = "authentication/users";
/// Title of the collection in Atom feeds.
const TITLE: &str = "users";
/// Absolute path of the collection.
const PATH: &str = "/services/authentication/users";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (one, edit_user, own) = (format!("{COLLECTION}/{{name}}"), Access::Capability(EDIT_USER), Access::LoggedIn);
    let mut rows = vec![
        Endpoint::new(Method::GET, COLLECTION, edit_user, "Lists users.", get(list)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::POST, COLLECTION, edit_user, "Creates a user.", post(create))
            .needs(&["name", "password"])
            .takes(FIELDS.optional),
        Endpoint::new(
            Method::GET,
            one.as_str(),
            own,
            "Shows the requesting user; administrators can show any.",
            get(show),
        ),
        Endpoint::new(Method::POST, one.as_str(), own, "Changes a user's password or roles.", post(edit))
            .takes(FIELDS.optional),
        Endpoint::new(Method::DELETE, one.as_str(), edit_user, "Deletes a user.", delete(remove)),
    ];
    rows = entities(rows, &Content::for_path(COLLECTION, Shape::Object(USER)));
    let summary = "Shows the requesting user with roles and capabilities.";
    let context = Content::new("current-context", Shape::Open(USER, &Shape::Text));
    rows.push(
        Endpoint::new(Method::GET, "authentication/current-context", own, summary, get(current))
            .takes(ONE_ENTITY)
            .answers(AnswerShape::Entities(context)),
    );
    rows
}

/// Members of a user.
const USER: &[Member] = &[
    ("roles", Shape::List(&Shape::Text)),
    ("type", Shape::Text),
    ("capabilities", Shape::List(&Shape::Text)),
    ("locked-out", Shape::Flag),
    ("defaultAppIsUserOverride", Shape::Flag),
    ("defaultAppSourceRole", Shape::Text),
    ("realname", Shape::Text),
    ("email", Shape::Text),
    ("defaultApp", Shape::Text),
    ("tz", Shape::Text),
    ("lang", Shape::Text),
    ("password", Shape::Text),
    ("restart_background_jobs", Shape::Flag),
    ("search_assistant", Shape::Text),
    ("search_auto_format", Shape::Flag),
    ("search_line_numbers", Shape::Flag),
    ("search_syntax_highlighting", Shape::Text),
    ("search_use_advanced_editor", Shape::Flag),
    ("theme", Shape::Text),
];
/// Text shown in place of a password.
const HIDDEN: &str = "********";

/// A user's name and roles.
type User = (String, Vec<String>);
/// A detail of a user that is stored in the user's own settings.
struct Detail {
    /// Parameter and member of the answer.
    parameter: &'static str,
    setting: &'static str,
    /// Value of the detail if it is not set.
    otherwise: &'static str,
    is_flag: bool,
}

const fn detail(parameter: &'static str, setting: &'static str, otherwise: &'static str) -> Detail {
    Detail { parameter, setting, otherwise, is_flag: false }
}

const fn flag(parameter: &'static str, otherwise: &'static str) -> Detail {
    Detail { parameter, setting: parameter, otherwise, is_flag: true }
}

/// Personal details. Details of the editor and the appearance are only stored for clients, as in Splunk.
const DETAILS: [Detail; 12] = [
    detail("realname", "realname", ""),
    detail("email", "email", ""),
    detail("defaultApp", DEFAULT_APP, super::jobs::APP),
    detail("tz", ZONE, ""),
    detail("lang", "lang", ""),
    detail("theme", "theme", "enterprise"),
    detail("search_assistant", "search_assistant", "compact"),
    detail("search_syntax_highlighting", "search_syntax_highlighting", "light"),
    flag("restart_background_jobs", "1"),
    flag("search_auto_format", "0"),
    flag("search_line_numbers", "0"),
    flag("search_use_advanced_editor", "1"),
];
/// Setting with the time zone.
const ZONE: &str = "tz";
/// Setting with the default app.
const DEFAULT_APP: &str = "default_namespace";
/// Splunk's default app, which clients may name although it has no files here.
const LAUNCHER: &str = "launcher";
/// The conf and stanza that store the personal details.
const PREFERENCES: (&str, &str) = ("user-prefs", "general");
/// Parameters of a user.
pub(super) const FIELDS: Fields = Fields {
    required: &[],
    optional: &[
        "defaultApp",
        "email",
        "lang",
        "oldpassword",
        "password",
        "realname",
        "restart_background_jobs",
        "roles",
        "search_assistant",
        "search_auto_format",
        "search_line_numbers",
        "search_syntax_highlighting",
        "search_use_advanced_editor",
        "theme",
        "tz",
    ],
    wildcard: &[],
};

async fn list(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let mut entries = Vec::new();
    for user in state.auth.users() {
        entries.push(entry(&state, &caller, user).await?);
    }
    page(TITLE, PATH.to_owned(), entries, &parameters)
}

async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&state, &parts);
    if !is_admin(&caller) && caller.identity.user != name {
        return Err(ApiError::missing_capability(&caller.identity.user, EDIT_USER));
    }
    let user = find_user(&state, &name)?;
    answer(&state, &caller, user, &parameters).await
}

async fn answer(state: &ApiState, caller: &Caller, user: User, parameters: &Parameters) -> Result<Response, ApiError> {
    let entries = vec![entry(state, caller, user).await?];
    Ok(Feed::of(TITLE, PATH.to_owned(), entries).answer(Form::of(parameters.get("output_mode"))))
}

/// Shows the caller's own entry.
async fn current(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let user = (caller.identity.user.clone(), caller.identity.roles.clone());
    let mut entry = entry(&state, &caller, user).await?;
    let (name, path) = ("context".to_owned(), "/services/authentication/current-context".to_owned());
    entry.content.insert("username".to_owned(), caller.identity.user.clone().into());
    let entry = Entry { name, path: path.clone(), ..entry };
    page("current-context", path, vec![entry], &parameters.of_one_entity())
}

async fn create(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let change = UserChange::Add {
        name: parameters.required("name")?.to_owned(),
        password: parameters.required("password")?.to_owned(),
        roles: parameters.list("roles"),
    };
    let details = details_of(&parameters)?;
    check_details(&state, &caller, &details).await?;
    let made = change_users(&state, &caller, change).await?;
    put_details(&state, &caller, &made.0, details).await?;
    Ok((StatusCode::CREATED, answer(&state, &caller, made, &parameters).await?).into_response())
}

async fn edit(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&state, &parts);
    let roles = parameters.get("roles").is_some().then(|| parameters.list("roles"));
    let (password, old_password) = (parameters.text("password"), parameters.text("oldpassword"));
    let says_details = DETAILS.iter().any(|detail| parameters.get(detail.parameter).is_some());
    if password.is_none() && roles.is_none() && !says_details {
        return Err(ApiError::bad_request(
            "nothing to change: give password (with oldpassword for your own), roles, realname, email, defaultApp, tz or \
             another detail",
        ));
    }
    if !is_admin(&caller) && caller.identity.user != name {
        return Err(ApiError::missing_capability(&caller.identity.user, EDIT_USER));
    }
    let details = details_of(&parameters)?;
    check_details(&state, &caller, &details).await?;
    let user = match password.is_some() || roles.is_some() {
        true => change_users(&state, &caller, UserChange::Edit { name, password, old_password, roles }).await?,
        false => find_user(&state, &name)?,
    };
    put_details(&state, &caller, &user.0, details).await?;
    answer(&state, &caller, user, &parameters).await
}

async fn remove(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&state, &parts);
    let (auth, identity, origin) = (state.auth.clone(), caller.identity.clone(), caller.origin);
    let removal = UserChange::Remove { name: name.clone() };
    run_blocking(move || auth.change(&identity, &removal, &origin)).await?.map_err(|error| match error {
        // As in Splunk, removing an unknown user is answered with 400, not with 404.
        AuthError::UnknownUser(_) => ApiError::bad_request(ApiError::from(error).text()),
        error => error.into(),
    })?;
    state.slots.remove_user(&name);
    let mut entries = Vec::new();
    let users = if is_admin(&caller) { state.auth.users() } else { Vec::new() };
    for user in users {
        entries.push(entry(&state, &caller, user).await?);
    }
    page(TITLE, PATH.to_owned(), entries, &parameters.keep_only("output_mode"))
}

/// Makes a change; returns the user afterwards.
async fn change_users(state: &ApiState, caller: &Caller, change: UserChange) -> Result<User, ApiError> {
    let (auth, identity, origin) = (state.auth.clone(), caller.identity.clone(), caller.origin);
    let name = change.name().to_owned();
    run_blocking(move || auth.change(&identity, &change, &origin)).await??;
    find_user(state, &name)
}

/// Whether the caller administers users.
fn is_admin(caller: &Caller) -> bool {
    caller.permissions.has_capability(EDIT_USER)
}

/// The name in a path, as stored.
fn name_of(state: &ApiState, parts: &PathParts) -> String {
    state.auth.stored_name(parts.get("name").map(String::as_str).unwrap_or_default())
}

fn find_user(state: &ApiState, name: &str) -> Result<User, ApiError> {
    let stored = state.auth.stored_name(name);
    let found = state.auth.users().into_iter().find(|(other, _)| *other == stored);
    found.ok_or_else(|| AuthError::UnknownUser(name.to_owned()).into())
}

/// The user's details in the request, as settings.
fn details_of(parameters: &Parameters) -> Result<Vec<(String, String)>, ApiError> {
    let said = DETAILS.iter().filter_map(|detail| Some((detail, parameters.text(detail.parameter)?)));
    let checked = said.map(|(detail, text)| match detail.is_flag && parse_flag(&text).is_none() {
        true => Err(ApiError::bad_request(format!("{}={text}: give 1 or 0", detail.parameter))),
        false => Ok((detail.setting.to_owned(), text)),
    });
    checked.collect()
}

/// Refuses a time zone or a default app that does not exist. An empty value removes a detail.
async fn check_details(state: &ApiState, caller: &Caller, details: &[(String, String)]) -> Result<(), ApiError> {
    let detail = |wanted: &str| {
        let found = details.iter().find(|(setting, text)| setting == wanted && !text.trim().is_empty());
        found.map(|(_, text)| text.trim().to_owned())
    };
    if let Some(zone) = detail(ZONE).filter(|zone| parse_zone(zone).is_none()) {
        return Err(ApiError::bad_request(format!(
            "{ZONE}={zone} is not a known time zone: use a name such as Europe/Berlin"
        )));
    }
    let Some(app) = detail(DEFAULT_APP).filter(|app| app != LAUNCHER) else { return Ok(()) };
    let is_there = move |objects: &Objects, _: &Permissions| match objects.app(&app) {
        Err(ObjectError::Unknown(app)) => {
            Err(ObjectError::Invalid(format!("defaultApp={app}: there is no such app; `search` always exists")))
        }
        found => found.map(drop),
    };
    with_objects(state, caller, is_there).await
}

/// Stores the user's details.
async fn put_details(
    state: &ApiState,
    caller: &Caller,
    user: &str,
    settings: Vec<(String, String)>,
) -> Result<(), ApiError> {
    if settings.is_empty() {
        return Ok(());
    }
    let scope = Scope::for_namespace(user, APP_PREFERENCES)?;
    let (conf, stanza) = PREFERENCES;
    change(state, caller, conf, move |objects, viewer| objects.put(conf, stanza, &settings, &scope, viewer)).await
}

async fn entry(state: &ApiState, caller: &Caller, (name, roles): User) -> Result<Entry, ApiError> {
    let scope = Scope::for_namespace(&name, APP_PREFERENCES);
    let (conf, stanza) = PREFERENCES;
    let said = with_objects(state, caller, move |objects, viewer| {
        match scope.and_then(|scope| objects.get(conf, stanza, &scope, viewer)) {
            // A user created before names were validated has no details.
            Err(ObjectError::Invalid(_)) => Ok(BTreeMap::new()),
            Ok(object) => Ok(object.settings),
            Err(ObjectError::Unknown(_)) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    });
    let (said, path) = (said.await?, format!("{PATH}/{}", escape_segment(&name)));
    let identity = Identity { user: name.clone(), roles: roles.clone(), is_console: false };
    let content = json!({
        "roles": roles, "type": "Splunk", "capabilities": state.auth.permissions(&identity).capabilities,
        "locked-out": false, "password": HIDDEN, "defaultAppSourceRole": "system", "defaultAppIsUserOverride": said.contains_key("default_namespace"),
    });
    let mut content = if let Value::Object(members) = content { members } else { Map::new() };
    for detail in DETAILS {
        let text = said.get(detail.setting).map_or(detail.otherwise, String::as_str);
        let value = match detail.is_flag {
            true => parse_flag(text).unwrap_or(detail.otherwise == "1").into(),
            false => text.into(),
        };
        content.insert(detail.parameter.to_owned(), value);
    }
    let may = is_admin(caller);
    let mut links = vec![("list", path.clone())];
    if may || caller.identity.user == name {
        links.push(("edit", path.clone()));
    }
    if may {
        links.push(("remove", path.clone()));
    }
    let acl = Acl { can_write: may, can_remove: may, ..Acl::for_node() };
    let (author, app) = ("system".to_owned(), "system".to_owned());
    Ok(Entry { name, path, author, app, acl, fields: Some(FIELDS), updated: 0, links, content })
}
