//! `data/ui`: views, navigation, panels and time menus of apps and users, as XML ([`quarry_apps::objects::texts`]).
//!
//! Not here: rendering the views.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::texts::{KINDS, TEXT};
use quarry_apps::objects::{AclChange, ConfObject, Objects, RootElement};
use quarry_conf::{Permissions, parse_bool};

use super::answer_shape::{Content, NO_CONTENT};
use super::entities::{Kind, entry};
use super::folders::{Child, links};
use super::listing::{LIST_PARAMETERS, page};
use super::object_request::ObjectRequest;
use super::permissions::acl_entry;
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET, entities};
use crate::atom::Fields;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// The folder with a collection for each kind of file.
const FOLDER: &str = "data/ui";
/// A remark on a change, which Splunk keeps in the history of a view; the remark has no effect here.
const CHANGE_LOG: &[&str] = &["eai:changelog"];
/// Permissions of an object.
const ACL: &str = "data/ui/{file}/{name}/acl";
/// Parameters of an object of the user interface.
const FIELDS: Fields = Fields { required: &[TEXT], optional: &[], wildcard: &[] };

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET));
    let (all, one) = ("data/ui/{file}", "data/ui/{file}/{name}");
    let kinds = |parameters: Parameters| async { links(FOLDER, KINDS.map(Child::collection).iter(), parameters) };
    let texts = vec![
        Endpoint::new(Method::GET, all, read, "Lists views or other user interface files of apps.", get(list))
            .takes(LIST_PARAMETERS),
        Endpoint::new(Method::POST, all, write, "Creates a view.", post(create))
            .needs(&["name", TEXT])
            .takes(CHANGE_LOG),
        Endpoint::new(Method::GET, one, read, "Shows a view.", get(show)),
        Endpoint::new(Method::POST, one, write, "Changes a view.", post(edit)).needs(&[TEXT]).takes(CHANGE_LOG),
        Endpoint::new(Method::DELETE, one, write, "Deletes a view.", delete(remove)),
    ];
    let others = vec![
        Endpoint::new(Method::GET, FOLDER, read, "Lists the paths below this one.", get(kinds)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, ACL, read, "Shows the permissions of a view.", get(show_acl)),
        Endpoint::new(Method::POST, ACL, write, "Changes the permissions of a view.", post(set_acl)).takes(&[
            "owner",
            "sharing",
            "perms.read",
            "perms.write",
        ]),
    ];
    let mut rows = entities(texts, &Content::for_stanza(FOLDER, FIELDS));
    rows.extend(entities(others, &NO_CONTENT));
    rows
}

/// The kind named by a request.
fn kind_of(request: &ObjectRequest) -> Result<&'static str, ApiError> {
    let file = request.parts.get("file").map_or("", String::as_str);
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, "Not Found");
    KINDS.into_iter().find(|kind| *kind == file).ok_or_else(missing)
}

/// The collection of a kind of texts.
pub(super) fn view_kind(kind: &'static str) -> Kind {
    Kind {
        path: format!("{FOLDER}/{kind}").into(),
        title: kind.into(),
        conf: kind.into(),
        verbs: &[],
        fill: fill_view,
        ..super::entities::kind("", "", "", FIELDS)
    }
}

/// The kind of panels that several dashboards show.
const PANELS: &str = "panels";
/// Root elements of views that are dashboards.
const DASHBOARDS: [&str; 2] = ["dashboard", "form"];

/// Adds the members that are derived from a file's content.
fn fill_view(kind: &Kind, _: &ConfObject, settings: &mut BTreeMap<String, String>) {
    let root = settings.get(TEXT).and_then(|text| RootElement::of(text)).unwrap_or_default();
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let mut members = vec![("eai:type", kind.title.as_ref()), ("rootNode", root.name.as_str())];
    if kind.title == KINDS[0] {
        let is_hidden = root.attribute("isVisible").is_some_and(|text| parse_bool(text) == Some(false));
        members.extend([
            ("dashboardType", "0"),
            ("description", root.text("description").unwrap_or_default()),
            ("embed.enabled", "0"),
            ("embed.expiry", "0"),
            ("isDashboard", flag(DASHBOARDS.contains(&root.name.as_str()))),
            ("isVisible", flag(!is_hidden)),
            ("label", root.text("label").unwrap_or_default()),
            ("version", root.attribute("version").unwrap_or_default()),
        ]);
    } else if kind.title == PANELS {
        members.extend(["label", "title"].map(|name| (name, root.text(name).unwrap_or_default())));
    }
    settings.extend(members.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
}

fn path_of(kind: &str) -> String {
    format!("/services/{FOLDER}/{kind}")
}

async fn list(request: ObjectRequest) -> Result<Response, ApiError> {
    let (kind, scope) = (kind_of(&request)?, request.scope.clone());
    let objects = request.with(move |objects, viewer| objects.texts(kind, &scope, viewer)).await?;
    let entries = objects.iter().map(|object| entry(&view_kind(kind), object)).collect();
    page(kind, path_of(kind), entries, &request.parameters)
}

async fn show(request: ObjectRequest) -> Result<Response, ApiError> {
    let (kind, name, scope) = (kind_of(&request)?, request.name.clone(), request.scope.clone());
    let object = request.with(move |objects, viewer| objects.text(kind, &name, &scope, viewer)).await?;
    Ok(request.answer(kind, path_of(kind), entry(&view_kind(kind), &object)))
}

async fn put(request: &ObjectRequest, is_new: bool) -> Result<Response, ApiError> {
    let (kind, scope, form) = (kind_of(request)?, request.scope.clone(), &request.parameters);
    let text = form.required(TEXT)?.to_owned();
    let name = if is_new { form.required("name")?.to_owned() } else { request.name.clone() };
    let put =
        move |objects: &Objects, viewer: &Permissions| objects.put_text(kind, &name, &text, is_new, &scope, viewer);
    let object = request.with(put).await?;
    Ok(request.answer(kind, path_of(kind), entry(&view_kind(kind), &object)))
}

async fn create(request: ObjectRequest) -> Result<Response, ApiError> {
    Ok((StatusCode::CREATED, put(&request, true).await?).into_response())
}

async fn edit(request: ObjectRequest) -> Result<Response, ApiError> {
    put(&request, false).await
}

async fn remove(request: ObjectRequest) -> Result<Response, ApiError> {
    let (kind, name, scope) = (kind_of(&request)?, request.name.clone(), request.scope.clone());
    request.with(move |objects, viewer| objects.remove_text(kind, &name, &scope, viewer)).await?;
    list(request.without_parameters()).await
}

async fn show_acl(request: ObjectRequest) -> Result<Response, ApiError> {
    let (kind, name, scope) = (kind_of(&request)?, request.name.clone(), request.scope.clone());
    let object = request.with(move |objects, viewer| objects.text(kind, &name, &scope, viewer)).await?;
    Ok(request.answer(kind, path_of(kind), acl_entry(entry(&view_kind(kind), &object))))
}

async fn set_acl(request: ObjectRequest) -> Result<Response, ApiError> {
    let (kind, name, scope) = (kind_of(&request)?, request.name.clone(), request.scope.clone());
    let asked = request.acl_change()?;
    if asked == AclChange::default() {
        return Err(ApiError::bad_request("nothing to change: give owner, sharing, perms.read or perms.write"));
    }
    let set = move |objects: &Objects, viewer: &Permissions| objects.set_text_acl(kind, &name, &asked, &scope, viewer);
    let object = request.with(set).await?;
    Ok(request.answer(kind, path_of(kind), acl_entry(entry(&view_kind(kind), &object))))
}
