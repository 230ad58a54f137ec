//! `apps/local`: the apps of the node, which are folders: listing, creating, changing, removing
//! ([`quarry_apps::local_apps`]), packing ([`quarry_apps::app_packages`]), and installing archives
//! ([`quarry_apps::app_installs`]).
//!
//! Unlike in Splunk, no message asks for a restart after an app was installed or removed, because changes take effect
//! at once. Not here: downloads and update checks.

use std::borrow::Cow;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::app_installs::AppInstall;
use quarry_apps::app_packages::AppPackage;
use quarry_apps::local_apps::LocalApp;
use quarry_apps::objects::{NOBODY, ObjectSharing, Objects};
use quarry_conf::Permissions;
use serde_json::{Map, Value};

use super::answer_shape::{AnswerShape, Content, NO_CONTENT};
use super::entities::{change, with_objects};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::permissions::{ACL_PARAMETERS, acl_change, acl_entry};
use super::row::{Access, EDIT_APPS, Endpoint, REST_APPS, entities};
use super::shape::{SETTING, Shape};
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Fields, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameter_types::parse_flag;
use crate::parameters::Parameters;

/// Path of the collection after the root.
const COLLECTION: &str = "apps/local";
/// Title of the collection in Atom feeds.
const TITLE: &str = "localapps";
/// The conf with an app's own settings.
pub(super) const CONF: &str = "app";
/// Boolean members.
const FLAGS: [&str; 4] = ["check_for_updates", "configured", "disabled", "visible"];
/// Parameters of an app.
pub(super) const FIELDS: Fields = Fields {
    required: &[],
    optional: &["author", "check_for_updates", "configured", "description", "disabled", "label", "version", "visible"],
    wildcard: &[],
};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_APPS), Access::Capability(EDIT_APPS));
    let one = format!("{COLLECTION}/{{name}}");
    let below = |name: &str| format!("{one}/{name}");
    let package = below("package");
    let packing = [(Method::GET, get(pack)), (Method::POST, post(pack))].map(|(method, serve)| {
        Endpoint::new(method, package.as_str(), write, "Packs an app into a file of the node.", serve)
    });
    let file = Endpoint::new(
        Method::GET,
        format!("{package}/{{file}}"),
        write,
        "Sends the file of a packed app.",
        get(send_package),
    )
    .answers(AnswerShape::Texts(&[PACKAGE_TYPE]));
    let rows = vec![
        Endpoint::new(Method::GET, COLLECTION, read, "Lists apps.", get(list)).takes(LIST_PARAMETERS),
        Endpoint::new(
            Method::POST,
            COLLECTION,
            write,
            "Creates an app, or installs one from an archive.",
            post(create),
        )
        .needs(&["name"])
        .takes(CREATED),
        Endpoint::new(Method::GET, format!("{COLLECTION}/_reload"), read, "Reloads the files of apps.", get(reload)),
        Endpoint::new(Method::POST, format!("{COLLECTION}/_reload"), read, "Reloads the files of apps.", post(reload)),
        Endpoint::new(Method::GET, one.as_str(), read, "Shows an app.", get(show)),
        Endpoint::new(Method::POST, one.as_str(), write, "Changes the description of an app.", post(edit))
            .takes(FIELDS.optional),
        Endpoint::new(Method::DELETE, one.as_str(), write, "Deletes an app with all its files.", delete(remove)),
        Endpoint::new(Method::POST, below("enable"), write, "Enables an app.", post(enable)),
        Endpoint::new(
            Method::POST,
            below("disable"),
            write,
            "Disables an app: nothing in it takes effect.",
            post(disable),
        ),
        Endpoint::new(Method::POST, below("_reload"), read, "Reloads the files of an app.", post(reload)),
        Endpoint::new(Method::GET, below("setup"), read, "Shows the setup of an app.", get(show)),
        Endpoint::new(
            Method::GET,
            below("update"),
            read,
            "Shows available updates of an app: there are none.",
            get(show),
        ),
    ];
    let acl = below("acl");
    let permissions = vec![
        Endpoint::new(Method::GET, acl.as_str(), read, "Shows the permissions of an app.", get(show_acl)),
        Endpoint::new(Method::POST, acl, write, "Changes the permissions of an app.", post(set_acl))
            .takes(ACL_PARAMETERS),
    ];
    let mut all = entities(rows, &APP);
    all.extend(entities(permissions, &NO_CONTENT));
    all.extend(entities(packing.to_vec(), &PACKAGE));
    all.push(file);
    all
}

/// Parameters of a new app.
const CREATED: &[&str] = &[
    "auth",
    "author",
    "check_for_updates",
    "configured",
    "description",
    "disabled",
    "explicit_appname",
    "filename",
    "label",
    "session",
    "template",
    "update",
    "version",
    "visible",
];

/// Parameters of a new app that are not attributes of the app. `auth` and `session` are for downloads; a node does not
/// download apps.
const NOT_MEMBERS: [&str; 8] =
    ["auth", "explicit_appname", "filename", "name", "output_mode", "session", "template", "update"];

/// Media type of a package.
const PACKAGE_TYPE: &str = "application/gzip";

/// Content of a packed app.
const PACKAGE: Content = Content::new(
    "apps.local.package",
    Shape::Object(&[("name", Shape::Text), ("path", Shape::Text), ("url", Shape::Text)]),
);

/// Content of an app entity.
const APP: Content = Content::new(
    "apps.local",
    Shape::Object(&[
        ("author", Shape::Optional(&Shape::Text)),
        ("check_for_updates", SETTING),
        ("configured", SETTING),
        ("core", Shape::Flag),
        ("description", Shape::Optional(&Shape::Text)),
        ("disabled", SETTING),
        ("label", Shape::Text),
        ("managed_by_deployment_client", Shape::Flag),
        ("show_in_nav", Shape::Flag),
        ("state_change_requires_restart", Shape::Flag),
        ("version", Shape::Optional(&Shape::Text)),
        ("visible", SETTING),
    ]),
);

fn entry(app: &LocalApp, viewer: &Permissions) -> Entry {
    let path = format!("/servicesNS/{NOBODY}/system/{COLLECTION}/{}", escape_segment(&app.name));
    let may = viewer.has_capability(EDIT_APPS);
    let value = |(member, value): (&String, &String)| {
        let flag = parse_flag(value).filter(|_| FLAGS.contains(&member.as_str()));
        (member.clone(), flag.map_or_else(|| Value::from(value.as_str()), Value::from))
    };
    let mut content: Map<String, Value> = app.members.iter().map(value).collect();
    content.insert("state_change_requires_restart".to_owned(), Value::Bool(false));
    for (member, flag) in [("core", !app.is_removable), ("managed_by_deployment_client", false), ("show_in_nav", true)]
    {
        content.insert(member.to_owned(), Value::Bool(flag));
    }
    let mut links = vec![("list", path.clone()), ("_reload", format!("{path}/_reload"))];
    if may {
        links.push(("edit", path.clone()));
        if app.is_removable {
            let action =
                if app.members.get("disabled").is_some_and(|value| value == "1") { "enable" } else { "disable" };
            links.push((action, format!("{path}/{action}")));
            links.push(("remove", path.clone()));
        }
    }
    let acl = Acl {
        sharing: app.sharing,
        readers: app.readers.clone(),
        writers: app.writers.clone(),
        can_write: may,
        // As in Splunk, this is false even for apps that can be removed.
        can_remove: false,
        can_share: may,
        can_be_private: false,
        is_in_content: true,
    };
    let (name, author, owner) = (app.name.clone(), NOBODY.to_owned(), "system".to_owned());
    Entry { name, path, author, app: owner, acl, fields: Some(FIELDS), updated: 0, links, content }
}

fn answer(app: &LocalApp, caller: &Caller, parameters: &Parameters) -> Response {
    let entries = vec![entry(app, &caller.permissions)];
    Feed::of(TITLE, format!("/services/{COLLECTION}"), entries).answer(Form::of(parameters.get("output_mode")))
}

fn name_of(parts: &PathParts) -> String {
    parts.get("name").cloned().unwrap_or_default()
}

fn members_of(parameters: &Parameters) -> Result<Vec<(String, String)>, ApiError> {
    let is_member = |key: &str| !NOT_MEMBERS.contains(&key);
    Ok(parameters.clone().into_settings()?.into_iter().filter(|(key, _)| is_member(key)).collect())
}

async fn list(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let apps = with_objects(&state, &caller, |objects, viewer| Ok(objects.readable_apps(viewer))).await?;
    let entries = apps.iter().map(|app| entry(app, &caller.permissions)).collect();
    page(TITLE, format!("/services/{COLLECTION}"), entries, &parameters)
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let app = with_objects(&state, &caller, move |objects, viewer| objects.readable_app(&name, viewer)).await?;
    Ok(answer(&app, &caller, &parameters))
}

fn acl_answer(app: &LocalApp, caller: &Caller, parameters: &Parameters) -> Response {
    let entry = acl_entry(entry(app, &caller.permissions));
    Feed::of(TITLE, entry.path.clone(), vec![entry]).answer(Form::of(parameters.get("output_mode")))
}

async fn show_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let app = with_objects(&state, &caller, move |objects, viewer| objects.readable_app(&name, viewer)).await?;
    Ok(acl_answer(&app, &caller, &parameters))
}

/// Changes the permissions that apply to those objects of an app that have no permissions of their own.
async fn set_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, asked) = (name_of(&parts), acl_change(&state.auth, &parameters)?);
    let make = move |objects: &Objects, viewer: &Permissions| {
        objects.writable_app(&name, viewer)?;
        objects.edit_app_acl(&name, &asked)
    };
    let made = change(&state, &caller, CONF, make).await?;
    Ok(acl_answer(&made, &caller, &parameters))
}

async fn create(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    if is_set(&parameters, "filename")? {
        let archive = parameters.required("name")?.into();
        let name = parameters.get("explicit_appname").filter(|name| !name.is_empty()).map(str::to_owned);
        let (is_update, members) = (is_set(&parameters, "update")?, members_of(&parameters)?);
        let install = AppInstall { archive, name, is_update, members };
        return install_app(&state, &caller, &parameters, install).await;
    }
    let (name, members) = (parameters.required("name")?.to_owned(), members_of(&parameters)?);
    let make = move |objects: &Objects, viewer: &Permissions| objects.create_app(&name, &members, viewer);
    let made = change(&state, &caller, CONF, make).await?;
    Ok((StatusCode::CREATED, answer(&made, &caller, &parameters)).into_response())
}

/// A flag, false by default. Flags are parsed here, because parameters of these names have other types at other
/// endpoints.
fn is_set(parameters: &Parameters, name: &str) -> Result<bool, ApiError> {
    let Some(text) = parameters.get(name) else { return Ok(false) };
    parse_flag(text).ok_or_else(|| ApiError::bad_request(format!("{name}={text}: give 1 or 0")))
}

async fn install_app(
    state: &ApiState,
    caller: &Caller,
    parameters: &Parameters,
    install: AppInstall,
) -> Result<Response, ApiError> {
    let installed = change(state, caller, CONF, move |objects, _| objects.install_app(&install)).await?;
    let notice = installed.endpoints.first().map(|endpoint| Cow::Owned(endpoint.message()));
    let entries = vec![entry(&installed.app, &caller.permissions)];
    let feed = Feed { notice, ..Feed::of(TITLE, format!("/services/{COLLECTION}"), entries) };
    Ok((StatusCode::CREATED, feed.answer(Form::of(parameters.get("output_mode")))).into_response())
}

async fn enable(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    switch(&state, &parts, &caller, &parameters, "0").await
}

async fn disable(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    switch(&state, &parts, &caller, &parameters, "1").await
}

async fn switch(
    state: &ApiState,
    parts: &PathParts,
    caller: &Caller,
    parameters: &Parameters,
    disabled: &str,
) -> Result<Response, ApiError> {
    let (name, members) = (name_of(parts), vec![("disabled".to_owned(), disabled.to_owned())]);
    let make = move |objects: &Objects, viewer: &Permissions| {
        objects.writable_app(&name, viewer)?;
        objects.edit_app(&name, &members, viewer)
    };
    let made = change(state, caller, CONF, make).await?;
    Ok(answer(&made, caller, parameters))
}

async fn edit(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, members) = (name_of(&parts), members_of(&parameters)?);
    let make = move |objects: &Objects, viewer: &Permissions| {
        objects.writable_app(&name, viewer)?;
        objects.edit_app(&name, &members, viewer)
    };
    let made = change(&state, &caller, CONF, make).await?;
    Ok(answer(&made, &caller, &parameters))
}

async fn remove(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let gone = move |objects: &Objects, viewer: &Permissions| {
        objects.writable_app(&name, viewer)?;
        objects.remove_app(&name)
    };
    change(&state, &caller, CONF, gone).await?;
    list(State(state), caller, parameters.keep_only("output_mode")).await
}

/// Packs an app. `GET` is accepted as well, because Splunk's clients send it.
async fn pack(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let make = move |objects: &Objects, viewer: &Permissions| {
        objects.readable_app(&name, viewer)?;
        objects.pack_app(&name)
    };
    let package = with_objects(&state, &caller, make).await?;
    let entries = vec![package_entry(&package, &headers)];
    let path = format!("/services/{COLLECTION}/{}/package", escape_segment(&package.app));
    Ok(Feed::of(TITLE, path, entries).answer(Form::of(parameters.get("output_mode"))))
}

/// A package as an entity, with the path of its file and the URL from which clients can download it.
fn package_entry(package: &AppPackage, headers: &HeaderMap) -> Entry {
    let path = format!("/servicesNS/{NOBODY}/system/{COLLECTION}/{}/package", escape_segment(&package.app));
    let file = package.path.file_name().unwrap_or_default().to_string_lossy();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // The URL is scheme-relative, because a proxy may have changed the scheme.
    let url =
        format!("//{host}/services/{COLLECTION}/{}/package/{}", escape_segment(&package.app), escape_segment(&file));
    let content = [
        ("name", package.app.clone()),
        ("path", package.path.to_string_lossy().into_owned()),
        ("url", if host.is_empty() { url[2..].to_owned() } else { url }),
    ];
    Entry {
        name: package.app.clone(),
        path: path.clone(),
        author: NOBODY.to_owned(),
        app: "system".to_owned(),
        acl: Acl {
            sharing: ObjectSharing::App,
            readers: vec!["admin".to_owned()],
            writers: vec!["admin".to_owned()],
            can_write: false,
            can_remove: false,
            can_share: false,
            can_be_private: false,
            is_in_content: true,
        },
        fields: None,
        updated: 0,
        links: vec![("list", path)],
        content: content.into_iter().map(|(member, value)| (member.to_owned(), Value::from(value))).collect(),
    }
}

async fn send_package(State(state): State<ApiState>, parts: PathParts, caller: Caller) -> Result<Response, ApiError> {
    let (name, file) = (name_of(&parts), parts.get("file").cloned().unwrap_or_default());
    let read = move |objects: &Objects, viewer: &Permissions| {
        objects.readable_app(&name, viewer)?;
        objects.app_package(&name, &file)
    };
    let bytes = with_objects(&state, &caller, read).await?;
    Ok(([(header::CONTENT_TYPE, PACKAGE_TYPE)], bytes).into_response())
}

async fn reload(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    change(&state, &caller, CONF, |_, _| Ok(())).await?;
    Ok(Feed::of(TITLE, format!("/services/{COLLECTION}"), Vec::new()).answer(Form::of(parameters.get("output_mode"))))
}
