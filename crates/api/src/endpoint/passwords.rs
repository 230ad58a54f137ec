//! `storage/passwords`: passwords of apps, encrypted in `passwords.conf` ([`quarry_apps::Secret`]).
//!
//! A name is `REALM:USER:`; colons and backslashes in both parts are escaped by a backslash. Users who may list
//! passwords see them in clear text, as in Splunk. Not here: passwords of users.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::Secret;
use quarry_apps::objects::{ConfObject, ObjectError, Objects};
use quarry_conf::Permissions;
use serde_json::Value;

use super::answer_shape::{AnswerShape, Content, NO_CONTENT};
use super::entities::{Kind, entry};
use super::listing::{LIST_PARAMETERS, page};
use super::object_request::ObjectRequest;
use super::permissions::{ACL_PARAMETERS, acl_entry};
use super::row::{Access, EDIT_PASSWORDS, Endpoint, LIST_PASSWORDS, entities};
use super::shape::Shape;
use crate::atom::{Entry, Fields};
use crate::message::ApiError;

/// Path of the collection, and its older path.
const COLLECTIONS: [&str; 2] = ["storage/passwords", "admin/passwords"];
const CONF: &str = "passwords";
/// Prefix of the names of stanzas.
const STANZA: &str = "credential:";
/// Value of the field `password` in answers; the field `clear_password` has the password itself.
const HIDDEN: &str = "********";
/// Parameters of a password.
pub(super) const FIELDS: Fields = Fields { required: &["password"], optional: &["realm"], wildcard: &[] };

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(LIST_PASSWORDS), Access::Capability(EDIT_PASSWORDS));
    let of = |path: &'static str| {
        let one = format!("{path}/{{name}}");
        let rows = vec![
            Endpoint::new(Method::GET, path, read, "Lists stored passwords of apps.", get(list))
                .takes(LIST_PARAMETERS)
                .of_conf(CONF),
            Endpoint::new(Method::POST, path, write, "Stores a password.", post(create))
                .needs(&["name", "password"])
                .takes(&["realm"]),
            Endpoint::new(Method::GET, one.as_str(), read, "Shows a stored password of an app.", get(show)),
            Endpoint::new(Method::POST, one.as_str(), write, "Changes a stored password of an app.", post(edit))
                .needs(&["password"]),
            Endpoint::new(Method::DELETE, one.as_str(), write, "Deletes a stored password.", delete(remove)),
        ];
        let change_acl = "Changes the permissions of a stored password.";
        let permissions = Endpoint::new(Method::POST, format!("{one}/acl"), write, change_acl, post(set_acl))
            .takes(ACL_PARAMETERS)
            .answers(AnswerShape::Entities(NO_CONTENT));
        let mut rows = entities(rows, &PASSWORD);
        rows.push(permissions);
        rows
    };
    COLLECTIONS.into_iter().flat_map(of).collect()
}

/// Content of a password entity.
const PASSWORD: Content = Content::new(
    "storage.passwords",
    Shape::Object(&[
        ("realm", Shape::Text),
        ("username", Shape::Text),
        ("encr_password", Shape::Text),
        ("password", Shape::Text),
        ("clear_password", Shape::Nullable(&Shape::Text)),
    ]),
);

fn kind() -> Kind {
    Kind {
        path: COLLECTIONS[0].into(),
        title: CONF.into(),
        conf: CONF.into(),
        verbs: &[],
        ..super::entities::kind("", "", "", FIELDS)
    }
}

/// Escapes a part of a name.
fn escape(part: &str) -> String {
    part.replace('\\', "\\\\").replace(':', "\\:")
}

/// Splits a name into realm and user.
fn split_name(name: &str) -> Option<(String, String)> {
    let (mut parts, mut part, mut letters) = (Vec::new(), String::new(), name.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => part.extend(letters.next()),
            ':' => parts.push(std::mem::take(&mut part)),
            letter => part.push(letter),
        }
    }
    match <[String; 2]>::try_from(parts) {
        Ok([realm, user]) if part.is_empty() => Some((realm, user)),
        _ => None,
    }
}

/// The name of the password in a request, with its last colon, which the request may omit.
fn requested_name(request: &ObjectRequest) -> String {
    let whole = format!("{}:", request.name);
    if split_name(&request.name).is_none() && split_name(&whole).is_some() { whole } else { request.name.clone() }
}

fn password_entry(object: &ConfObject, secret: &Secret) -> Option<Entry> {
    let name = object.name.strip_prefix(STANZA)?.to_owned();
    let (realm, user) = split_name(&name)?;
    let mut entry = entry(&kind(), &ConfObject { name: name.clone(), ..object.clone() });
    let sealed = object.get("password").unwrap_or_default();
    entry.content.clear();
    for (key, value) in
        [("realm", realm.as_str()), ("username", &user), ("encr_password", sealed), ("password", HIDDEN)]
    {
        entry.content.insert(key.to_owned(), value.into());
    }
    // A password that cannot be decrypted is still listed, so that it can be removed.
    entry.content.insert("clear_password".to_owned(), secret.decrypt(sealed).map_or(Value::Null, Value::from));
    Some(entry)
}

async fn list(request: ObjectRequest) -> Result<Response, ApiError> {
    let scope = request.scope.clone();
    let entries = request.with(move |objects, viewer| {
        let secret = objects.secret()?;
        Ok(objects
            .list(CONF, &scope, viewer)?
            .iter()
            .filter_map(|object| password_entry(object, &secret))
            .collect::<Vec<_>>())
    });
    page(CONF, format!("/services/{}", COLLECTIONS[0]), entries.await?, &request.parameters)
}

async fn find_entry(request: &ObjectRequest, name: String) -> Result<Entry, ApiError> {
    let scope = request.scope.clone();
    let one = request.with(move |objects, viewer| {
        let object = objects.get(CONF, &format!("{STANZA}{name}"), &scope, viewer);
        let object = object.map_err(|error| match error {
            ObjectError::Unknown(_) => ObjectError::Unknown(name.clone()),
            other => other,
        })?;
        password_entry(&object, &objects.secret()?).ok_or(ObjectError::Unknown(name))
    });
    one.await
}

fn answer(request: &ObjectRequest, entry: Entry) -> Response {
    request.answer(CONF, format!("/services/{}", COLLECTIONS[0]), entry)
}

async fn show(request: ObjectRequest) -> Result<Response, ApiError> {
    Ok(answer(&request, find_entry(&request, requested_name(&request)).await?))
}

async fn create(request: ObjectRequest) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let given = |name: &str| parameters.text(name).filter(|text| !text.is_empty());
    let user = given("name").ok_or_else(|| ApiError::missing_argument("name"))?;
    let password = given("password").ok_or_else(|| ApiError::missing_argument("password"))?;
    let name = format!("{}:{}:", escape(parameters.get("realm").unwrap_or_default()), escape(&user));
    let (scope, stanza) = (request.scope.clone(), format!("{STANZA}{name}"));
    let create = request.change(CONF, move |objects: &Objects, viewer: &Permissions| {
        if objects.get(CONF, &stanza, &scope, viewer).is_ok() {
            return Err(ObjectError::Exists(stanza));
        }
        let settings = [("password".to_owned(), objects.secret()?.encrypt(&password)?)];
        objects.create(CONF, &stanza, &settings, &scope, viewer)
    });
    create.await?;
    let made = find_entry(&request, name).await?;
    Ok((StatusCode::CREATED, answer(&request, made)).into_response())
}

async fn edit(request: ObjectRequest) -> Result<Response, ApiError> {
    let password = request.parameters.required("password")?.to_owned();
    let (stanza, scope) = (format!("{STANZA}{}", requested_name(&request)), request.scope.clone());
    let edit = request.change(CONF, move |objects: &Objects, viewer: &Permissions| {
        let settings = [("password".to_owned(), objects.secret()?.encrypt(&password)?)];
        objects.edit(CONF, &stanza, &settings, &scope, viewer)
    });
    edit.await?;
    Ok(answer(&request, find_entry(&request, requested_name(&request)).await?))
}

async fn remove(request: ObjectRequest) -> Result<Response, ApiError> {
    find_entry(&request, requested_name(&request)).await?;
    let (stanza, scope) = (format!("{STANZA}{}", requested_name(&request)), request.scope.clone());
    request.change(CONF, move |objects, viewer| objects.remove(CONF, &stanza, &scope, viewer)).await?;
    list(request.without_parameters()).await
}

async fn set_acl(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, asked, scope) = (requested_name(&request), request.required_acl_change()?, request.scope.clone());
    find_entry(&request, name.clone()).await?;
    let changed = request.change(CONF, move |objects: &Objects, viewer: &Permissions| {
        let object = objects.set_acl(CONF, &format!("{STANZA}{name}"), &asked, &scope, viewer)?;
        password_entry(&object, &objects.secret()?).ok_or(ObjectError::Unknown(name))
    });
    Ok(answer(&request, acl_entry(changed.await?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_names_round_trip() {
        for (realm, user) in [("", "eva"), ("r", "eva"), ("a:b", "c\\d"), ("\\", ":"), ("/x", "ü &lt;")] {
            let name = format!("{}:{}:", escape(realm), escape(user));
            assert_eq!(split_name(&name), Some((realm.to_owned(), user.to_owned())), "{name}");
        }
        for name in ["", "a", "a:b", "a:b:c", "a:b:c:"] {
            assert_eq!(split_name(name), None, "{name}");
        }
    }
}
