//! `authorization`: roles and capabilities, as configured in authorize.conf.
//!
//! Roles are created and changed in `etc/system/local/authorize.conf`; a change applies from the next request on, even
//! in open sessions. Not here: the effective permissions of several roles ([`quarry_auth::permissions`]).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{APP_SYSTEM, NOBODY, ObjectError, Objects, Scope};
use quarry_auth::{ADMIN_ROLE, Identity, permissions};
use quarry_conf::permissions::{ADMIN_ALL_OBJECTS, EDIT_ROLES, EDIT_USER, SEARCH};
use quarry_conf::settings::authorize::{AUTHORIZE_CONF, DISABLED, ENABLED, ROLE_PREFIX, span_seconds};
use quarry_conf::{Permissions, RoleSettings, Roles};
use serde_json::{Map, Value, json};

use super::answer_shape::Content;
use super::entities::{change, with_objects};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, entities};
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Fields, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::{Parameters, Settings};

const ROLES: &str = "authorization/roles";
/// Collection with all capabilities that exist.
const CAPABILITIES: &str = "authorization/capabilities";
/// Collection with the capabilities that the caller may grant.
const GRANTABLE: &str = "authorization/grantable_capabilities";
const GRANTABLE_HELP: &str = "Lists the capabilities that the user may grant.";
/// Maximum length in characters of a role's name; a longer name is refused.
const NAME_CHARS_MAX: usize = 100;
/// Maximum number of roles of a node; a further role is refused.
const ROLES_MAX: usize = 1_000;
/// Parameters that are stored without effect, and the message about them.
const WITHOUT_EFFECT: [&str; 5] =
    ["cumulativeRTSrchJobsQuota", "cumulativeSrchJobsQuota", "defaultApp", "federatedProviders", TIME_EARLIEST];
const WITHOUT_EFFECT_MESSAGE: &str = "cumulativeSrchJobsQuota, cumulativeRTSrchJobsQuota, defaultApp, federatedProviders and srchTimeEarliest of roles are stored but have no effect.";
/// Limit of the age of events that searches read, in seconds.
const TIME_EARLIEST: &str = "srchTimeEarliest";
/// Value of a time limit that is not set.
const NOT_SET: i64 = -1;
/// Capabilities that the administrator role must keep, because nobody could grant them again.
const REQUIRED_BY_ADMIN: [&str; 4] = [ADMIN_ALL_OBJECTS, EDIT_ROLES, EDIT_USER, SEARCH];

/// Parameters of a role.
pub(super) const FIELDS: Fields = Fields {
    required: &[],
    optional: &[
        "capabilities",
        "cumulativeRTSrchJobsQuota",
        "cumulativeSrchJobsQuota",
        "defaultApp",
        "deleteIndexesAllowed",
        "federatedProviders",
        "grantableRoles",
        "imported_roles",
        "rtSrchJobsQuota",
        "srchDiskQuota",
        "srchFilter",
        "srchFilterSelecting",
        "srchIndexesAllowed",
        "srchIndexesDefault",
        "srchIndexesDisallowed",
        "srchJobsQuota",
        "srchMaxTime",
        TIME_EARLIEST,
        "srchTimeWin",
    ],
    wildcard: &[],
};
/// Parameters that are lists, and the settings that store them.
const LISTS: [(&str, &str); 7] = [
    ("deleteIndexesAllowed", "deleteIndexesAllowed"),
    ("federatedProviders", "federatedProviders"),
    ("grantableRoles", "grantableRoles"),
    ("imported_roles", "importRoles"),
    ("srchIndexesAllowed", "srchIndexesAllowed"),
    ("srchIndexesDefault", "srchIndexesDefault"),
    ("srchIndexesDisallowed", "srchIndexesDisallowed"),
];
/// Numeric parameters and their minimums.
const NUMBERS: [(&str, i64); 7] = [
    ("cumulativeRTSrchJobsQuota", 0),
    ("cumulativeSrchJobsQuota", 0),
    ("rtSrchJobsQuota", 0),
    ("srchDiskQuota", 0),
    ("srchJobsQuota", 0),
    (TIME_EARLIEST, NOT_SET),
    ("srchTimeWin", NOT_SET),
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (own, edit) = (Access::LoggedIn, Access::Capability(EDIT_ROLES));
    let one = format!("{ROLES}/{{name}}");
    let capability = "Lists all capabilities.";
    let roles = vec![
        Endpoint::new(Method::GET, ROLES, own, "Lists roles.", get(list))
            .takes(LIST_PARAMETERS)
            .of_conf(AUTHORIZE_CONF),
        Endpoint::new(Method::POST, ROLES, edit, "Creates a role.", post(create))
            .needs(&["name"])
            .takes(FIELDS.optional),
        Endpoint::new(Method::GET, one.as_str(), own, "Shows a role.", get(show)),
        Endpoint::new(Method::POST, one.as_str(), edit, "Changes a role.", post(edit_role)).takes(FIELDS.optional),
        Endpoint::new(Method::DELETE, one, edit, "Deletes a role.", delete(remove)),
    ];
    let capabilities = vec![
        Endpoint::new(Method::GET, CAPABILITIES, own, capability, get(capabilities)),
        Endpoint::new(Method::GET, format!("{CAPABILITIES}/capabilities"), own, capability, get(capabilities)),
        Endpoint::new(Method::GET, GRANTABLE, own, GRANTABLE_HELP, get(list_grantable)),
        Endpoint::new(Method::GET, format!("{GRANTABLE}/capabilities"), own, GRANTABLE_HELP, get(list_grantable)),
    ];
    let mut rows = entities(roles, &Content::for_path(ROLES, ROLE));
    rows.extend(entities(capabilities, &Content::for_path(CAPABILITIES, Shape::Object(&[("capabilities", TEXTS)]))));
    rows
}

const TEXTS: Shape = Shape::List(&Shape::Text);
/// Content of a role entity.
const ROLE: Shape = Shape::Object(&[
    ("capabilities", TEXTS),
    ("cumulativeRTSrchJobsQuota", Shape::Count),
    ("cumulativeSrchJobsQuota", Shape::Count),
    ("defaultApp", Shape::Text),
    ("deleteIndexesAllowed", TEXTS),
    ("federatedProviders", TEXTS),
    ("grantable_roles", TEXTS),
    ("imported_capabilities", TEXTS),
    ("imported_roles", TEXTS),
    ("imported_rtSrchJobsQuota", Shape::Count),
    ("imported_srchDiskQuota", Shape::Count),
    ("imported_srchFilter", Shape::Text),
    ("imported_srchIndexesAllowed", TEXTS),
    ("imported_srchIndexesDefault", TEXTS),
    ("imported_srchIndexesDisallowed", TEXTS),
    ("imported_srchJobsQuota", Shape::Count),
    ("imported_srchTimeEarliest", Shape::Integer),
    ("imported_srchTimeWin", Shape::Integer),
    ("rtSrchJobsQuota", Shape::Count),
    ("srchDiskQuota", Shape::Count),
    ("srchFilter", Shape::Text),
    ("srchIndexesAllowed", TEXTS),
    ("srchIndexesDefault", TEXTS),
    ("srchIndexesDisallowed", TEXTS),
    ("srchJobsQuota", Shape::Count),
    ("srchMaxTime", Shape::Text),
    (TIME_EARLIEST, Shape::Integer),
    ("srchTimeWin", Shape::Integer),
]);

fn entity(collection: &str, name: &str, content: Value, may_change: bool) -> Entry {
    let path = format!("/services/{collection}/{}", escape_segment(name));
    let mut links = vec![("list", path.clone())];
    if may_change {
        links.extend([("edit", path.clone()), ("remove", path.clone())]);
    }
    let (author, app) = (NOBODY.to_owned(), APP_SYSTEM.to_owned());
    let content = if let Value::Object(members) = content { members } else { Map::new() };
    let acl = Acl { can_write: may_change, can_remove: may_change, ..Acl::for_node() };
    let fields = may_change.then_some(FIELDS);
    Entry { name: name.to_owned(), path, author, app, acl, fields, updated: 0, links, content }
}

/// Settings of authorize.conf that are stored without effect, by stanza.
type StoredSettings = BTreeMap<String, BTreeMap<String, String>>;

async fn stored_settings(state: &ApiState, caller: &Caller) -> Result<StoredSettings, ApiError> {
    let read = |objects: &Objects, _: &Permissions| {
        let all = objects.list(AUTHORIZE_CONF, &Scope::for_namespace("-", "-")?, &Permissions::owner())?;
        let mut stored = StoredSettings::new();
        // Of stanzas with the same name, the first has the highest precedence, so settings already present are kept.
        for object in all {
            let of_role = stored.entry(object.name).or_default();
            for (key, value) in object.settings.into_iter().filter(|(key, _)| WITHOUT_EFFECT.contains(&key.as_str())) {
                of_role.entry(key).or_insert(value);
            }
        }
        Ok(stored)
    };
    with_objects(state, caller, read).await
}

/// A stored setting of a role; empty if it is not set.
fn stored_text<'s>(stored: &'s StoredSettings, role: &str, key: &str) -> &'s str {
    let own = stored.get(&format!("{ROLE_PREFIX}{role}")).and_then(|settings| settings.get(key));
    own.map_or("", String::as_str)
}

fn time_earliest(stored: &StoredSettings, role: &str) -> i64 {
    stored_text(stored, role, TIME_EARLIEST).trim().parse().unwrap_or(NOT_SET)
}

/// The roles from which a role inherits, directly or not.
fn all_imports<'r>(known: &'r Roles, role: &'r RoleSettings) -> Vec<&'r RoleSettings> {
    let (mut open, mut found) = (vec![role], Vec::<&RoleSettings>::new());
    while let Some(next) = open.pop() {
        for import in next.imports.iter().filter_map(|name| known.get(name)) {
            if !found.iter().any(|seen| seen.name == import.name) {
                found.push(import);
                open.push(import);
            }
        }
    }
    found
}

/// The permissions of a user who has only these roles.
fn permissions_of(known: &Roles, roles: &[String]) -> Permissions {
    permissions(known, &Identity { user: String::new(), roles: roles.to_vec(), is_console: false })
}

fn entry(known: &Roles, role: &RoleSettings, stored: &StoredSettings, caller: &Caller) -> Entry {
    let imported = permissions_of(known, &role.imports);
    let imported_earliest = all_imports(known, role).iter().map(|role| time_earliest(stored, &role.name)).max();
    let providers = stored_text(stored, &role.name, "federatedProviders").split([';', ',']).map(str::trim);
    // As in Splunk, capabilities that the role inherits are not listed as its own.
    let own: Vec<&String> = role.capabilities.iter().filter(|name| !imported.capabilities.contains(*name)).collect();
    let content = json!({
        "federatedProviders": providers.filter(|name| !name.is_empty()).collect::<Vec<_>>(),
        TIME_EARLIEST: time_earliest(stored, &role.name),
        "imported_srchTimeEarliest": imported_earliest.unwrap_or(NOT_SET),
        "capabilities": own, "imported_capabilities": imported.capabilities, "imported_roles": role.imports,
        "srchIndexesAllowed": role.allowed_indexes, "srchIndexesDefault": role.default_indexes,
        "srchIndexesDisallowed": role.disallowed_indexes, "imported_srchIndexesDisallowed": imported.disallowed_indexes,
        "imported_srchIndexesAllowed": imported.allowed_indexes, "imported_srchIndexesDefault": imported.default_indexes,
        "deleteIndexesAllowed": role.delete_indexes, "srchFilter": role.search_filter,
        "imported_srchFilter": imported.limits.filter.unwrap_or_default(), "srchTimeWin": role.time_window_s,
        "imported_srchTimeWin": imported.limits.window_s.map_or(-1, |seconds| i64::try_from(seconds).unwrap_or(i64::MAX)),
        "srchDiskQuota": role.disk_quota_mb,
        "imported_srchDiskQuota": imported.limits.disk_bytes.map_or(0, |bytes| bytes >> 20),
        "srchMaxTime": role.time_max_s.to_string(), "grantable_roles": role.grantable,
        "srchJobsQuota": role.jobs_quota, "imported_srchJobsQuota": imported.limits.jobs.unwrap_or(0), "defaultApp": role.default_app,
        "cumulativeSrchJobsQuota": role.cumulative_quota, "cumulativeRTSrchJobsQuota": role.cumulative_real_time_quota,
        "rtSrchJobsQuota": role.real_time_quota, "imported_rtSrchJobsQuota": imported.limits.real_time_jobs.unwrap_or(0),
    });
    entity(ROLES, &role.name, content, caller.permissions.has_capability(EDIT_ROLES))
}

async fn list(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let (known, stored) = (state.auth.roles(), stored_settings(&state, &caller).await?);
    let entries = known.iter().map(|role| entry(&known, role, &stored, &caller)).collect();
    page("roles", format!("/services/{ROLES}"), entries, &parameters)
}

fn find_role(known: &Roles, name: &str) -> Result<RoleSettings, ApiError> {
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"));
    known.get(name).cloned().ok_or_else(missing)
}

/// Role names are case-insensitive.
fn name_of(parts: &PathParts) -> String {
    parts.get("name").cloned().unwrap_or_default().to_lowercase()
}

async fn show(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    answer(&state, &caller, &name_of(&parts), &parameters).await
}

async fn answer(state: &ApiState, caller: &Caller, name: &str, parameters: &Parameters) -> Result<Response, ApiError> {
    let known = state.auth.roles();
    let role = find_role(&known, name)?;
    let stored = stored_settings(state, caller).await?;
    let told = WITHOUT_EFFECT.iter().any(|name| parameters.get(name).is_some()).then_some(WITHOUT_EFFECT_MESSAGE);
    let feed = Feed::of("roles", format!("/services/{ROLES}"), vec![entry(&known, &role, &stored, caller)]);
    Ok(Feed { notice: told.map(Cow::Borrowed), ..feed }.answer(Form::of(parameters.get("output_mode"))))
}

async fn create(State(state): State<ApiState>, caller: Caller, Settings(form): Settings) -> Result<Response, ApiError> {
    let name = form.required("name")?.to_lowercase();
    let known = state.auth.roles();
    check_name(&name)?;
    if known.get(&name).is_some() {
        return Err(ObjectError::Exists(name).into());
    }
    if known.iter().count() >= ROLES_MAX {
        return Err(ApiError::bad_request(format!("there are {ROLES_MAX} roles already, the maximum")));
    }
    let mut settings = settings_of(&form, &known, &RoleSettings { name: name.clone(), ..RoleSettings::default() })?;
    if settings.is_empty() {
        // A stanza needs at least one setting to exist.
        settings.push(("srchFilter".to_owned(), String::new()));
    }
    put(&state, &caller, &name, settings).await?;
    Ok((StatusCode::CREATED, answer(&state, &caller, &name, &form).await?).into_response())
}

async fn edit_role(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let (name, known) = (name_of(&parts), state.auth.roles());
    let role = find_role(&known, &name)?;
    let settings = settings_of(&form, &known, &role)?;
    put(&state, &caller, &role.name, settings).await?;
    answer(&state, &caller, &name, &form).await
}

async fn remove(
    State(state): State<ApiState>,
    caller: Caller,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let role = find_role(&state.auth.roles(), &name)?;
    let (stanza, scope) = (format!("{ROLE_PREFIX}{}", role.name), Scope::for_namespace(NOBODY, APP_SYSTEM)?);
    let gone = move |objects: &Objects, _: &Permissions| {
        objects.remove(AUTHORIZE_CONF, &stanza, &scope, &Permissions::owner())
    };
    change(&state, &caller, AUTHORIZE_CONF, gone).await?;
    list(State(state), caller, parameters.keep_only("output_mode")).await
}

/// Writes settings of a role; access was checked against the table of endpoints.
async fn put(state: &ApiState, caller: &Caller, name: &str, settings: Vec<(String, String)>) -> Result<(), ApiError> {
    let (stanza, scope) = (format!("{ROLE_PREFIX}{name}"), Scope::for_namespace(NOBODY, APP_SYSTEM)?);
    let made = move |objects: &Objects, _: &Permissions| {
        objects.put(AUTHORIZE_CONF, &stanza, &settings, &scope, &Permissions::owner())
    };
    change(state, caller, AUTHORIZE_CONF, made).await
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let is_good = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    if (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && name.chars().all(is_good) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "name={name}: the name of a role must consist of 1 to {NAME_CHARS_MAX} letters, digits, _, - and ."
    )))
}

/// The settings that a request sets, given the current `role`.
fn settings_of(form: &Parameters, known: &Roles, role: &RoleSettings) -> Result<Vec<(String, String)>, ApiError> {
    let given: Vec<(String, String)> = form.clone().into_settings()?;
    let is_known = |key: &str| matches!(key, "output_mode" | "name") || FIELDS.optional.contains(&key);
    if let Some((key, _)) = given.iter().find(|(key, _)| !is_known(key)) {
        return Err(ApiError::bad_request(format!("Argument \"{key}\" is not supported by this handler.")));
    }
    let mut settings = Vec::new();
    for (parameter, setting) in LISTS.into_iter().filter(|(parameter, _)| form.get(parameter).is_some()) {
        let values: Vec<String> =
            form.list(parameter).iter().flat_map(|part| part.split(';').map(|part| part.trim().to_owned())).collect();
        if let Some(odd) = values.iter().find(|value| value.chars().any(char::is_control)) {
            return Err(ApiError::bad_request(format!("{parameter}={}: give one line", odd.escape_debug())));
        }
        if parameter == "imported_roles" {
            check_imports(&values, known, &role.name)?;
        }
        settings.push((setting.to_owned(), values.join(";")));
    }
    for (name, least) in NUMBERS {
        let Some(text) = form.get(name) else { continue };
        if text.trim().parse::<i64>().ok().is_none_or(|number| number < least) {
            return Err(ApiError::bad_request(format!("{name}={text}: give a whole number, {least} or more")));
        }
        settings.push((name.to_owned(), text.trim().to_owned()));
    }
    if let Some(filter) = form.get("srchFilter").map(str::trim) {
        if !filter.is_empty() && !quarry_engine::is_search_filter(filter) {
            return Err(ApiError::bad_request(format!(
                "srchFilter={filter}: give search terms, as after the command `search`; times, subsearches, event types, tags and further commands are not allowed"
            )));
        }
        settings.push(("srchFilter".to_owned(), filter.to_owned()));
    }
    if let Some(text) = form.get("srchFilterSelecting") {
        let flag = crate::parameter_types::parse_flag(text);
        let flag = flag.ok_or_else(|| ApiError::bad_request(format!("srchFilterSelecting={text}: give 1 or 0")))?;
        settings.push(("srchFilterSelecting".to_owned(), flag.to_string()));
    }
    if let Some(text) = form.get("srchMaxTime").map(str::trim) {
        if span_seconds(text).is_none() {
            return Err(ApiError::bad_request(format!(
                "srchMaxTime={text}: give a number with s, m, h, d or w, as in 2h"
            )));
        }
        settings.push(("srchMaxTime".to_owned(), text.to_owned()));
    }
    if let Some(app) = form.get("defaultApp") {
        settings.push(("defaultApp".to_owned(), app.to_owned()));
    }
    if form.get("capabilities").is_some() {
        let names = |part: &String| part.split(';').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        let imports: Option<Vec<String>> =
            form.get("imported_roles").map(|_| form.list("imported_roles").iter().flat_map(names).collect());
        let inherited = permissions_of(known, imports.as_ref().unwrap_or(&role.imports)).capabilities;
        settings.extend(capability_settings(&form.list("capabilities"), known, role, &inherited)?);
    }
    Ok(settings)
}

/// Settings that grant and remove capabilities of the role so that it has the `wanted` ones. Inherited capabilities are
/// not removed: they are missing in `wanted` only because the API does not list them as the role's own.
fn capability_settings(
    wanted: &[String],
    known: &Roles,
    role: &RoleSettings,
    inherited: &BTreeSet<String>,
) -> Result<Vec<(String, String)>, ApiError> {
    let is_kept = |name: &str| inherited.contains(name) || wanted.iter().any(|wanted| wanted == name);
    if let Some(unknown) = wanted.iter().find(|name| !known.capabilities().contains(*name)) {
        return Err(ApiError::bad_request(format!(
            "there is no capability {unknown}: GET {CAPABILITIES} lists the existing ones"
        )));
    }
    if role.name == ADMIN_ROLE
        && let Some(kept) = REQUIRED_BY_ADMIN.iter().find(|name| role.capabilities.contains(**name) && !is_kept(name))
    {
        return Err(ApiError::bad_request(format!(
            "the role {ADMIN_ROLE} keeps the capability {kept}: without it, nobody could grant it again"
        )));
    }
    let taken = role.capabilities.iter().filter(|name| !is_kept(name));
    let given = wanted.iter().filter(|name| !role.capabilities.contains(*name));
    let given = given.map(|name| (name.clone(), ENABLED.to_owned()));
    Ok(given.chain(taken.map(|name| (name.clone(), DISABLED.to_owned()))).collect())
}

/// Refuses unknown roles, and import cycles.
fn check_imports(names: &[String], known: &Roles, of: &str) -> Result<(), ApiError> {
    let (mut open, mut seen) = (names.to_vec(), Vec::new());
    while let Some(name) = open.pop() {
        if name.to_lowercase() == of.to_lowercase() {
            return Err(ApiError::bad_request(format!("imported_roles: the role {of} would inherit from itself")));
        }
        let Some(role) = known.get(&name) else {
            let names = known.names();
            return Err(ApiError::bad_request(format!("imported_roles: there is no role {name:?}; existing: {names}")));
        };
        if !seen.contains(&name) {
            open.extend(role.imports.iter().filter(|import| known.get(import).is_some()).cloned());
            seen.push(name);
        }
    }
    Ok(())
}

async fn capabilities(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let content = json!({ "capabilities": state.auth.roles().capabilities() });
    let entries = vec![entity(CAPABILITIES, "capabilities", content, false)];
    page("capabilities", format!("/services/{CAPABILITIES}"), entries, &parameters.keep_only("output_mode"))
}

/// All capabilities for a caller who may edit roles, else none.
async fn list_grantable(
    State(state): State<ApiState>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let roles = state.auth.roles();
    let all = roles.capabilities().iter().filter(|_| caller.permissions.has_capability(EDIT_ROLES));
    let content = json!({ "capabilities": all.collect::<Vec<_>>() });
    let entries = vec![entity(GRANTABLE, "capabilities", content, false)];
    page("grantable_capabilities", format!("/services/{GRANTABLE}"), entries, &parameters.keep_only("output_mode"))
}
