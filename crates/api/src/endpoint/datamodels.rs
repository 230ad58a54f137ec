//! `datamodel/model`: data models of apps and users.
//!
//! A model is the file `data/models/NAME.json` of its app or user; its acceleration is a stanza of datamodels.conf.
//! Bundled models cannot be changed; a bundled model is listed unless another model of the same name is visible. A
//! definition is validated as in a search, and stored without members that follow from other members
//! ([`quarry_engine::stored_model`]).
//!
//! Not here: searching models (engine), `datamodel/pivot` ([`super::pivots`]).

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::texts::{MODELS, TEXT};
use quarry_apps::objects::{AclChange, ConfObject, NOBODY, ObjectError, Objects, Scope};
use quarry_conf::Permissions;
use quarry_engine::{bundled_models, described_model, model_headline, stored_model};
use serde_json::{Map, Value};

use super::answer_shape::{AnswerShape, Content, NO_CONTENT};
use super::entities::{Kind, entry, kind};
use super::listing::page;
use super::object_request::ObjectRequest;
use super::permissions::acl_entry;
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET, entities};
use super::setting_capabilities::check_change;
use super::shape::Shape;
use crate::atom::{Acl, Entry, Fields, escape_segment};
use crate::message::ApiError;
use crate::parameter_types::parse_flag;

/// Path of the collection after the root.
const PATH: &str = "datamodel/model";
/// Title of the collection in Atom feeds.
const TITLE: &str = "datamodel";
/// The conf of accelerations.
const CONF: &str = "datamodels";
/// Parameters of a model.
const FIELDS: Fields =
    Fields { required: &[], optional: &["acceleration", "description", "eai:data", "provisional"], wildcard: &[] };
/// Parameters with the definition: Splunk's manual names the first, its SDKs send the second.
const DEFINITIONS: [&str; 2] = ["eai:data", "description"];
/// Settings of an acceleration, named as in its JSON object, with their defaults.
const ACCELERATION: [(&str, &str); 4] =
    [("earliest_time", ""), ("backfill_time", ""), ("cron_schedule", "*/5 * * * *"), ("max_time", "3600")];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET));
    let one = format!("{PATH}/{{name}}");
    let acl = format!("{one}/acl");
    let rows = vec![
        Endpoint::new(Method::GET, PATH, read, "Lists data models.", get(list)).takes(LIST_PARAMETERS).of_conf(CONF),
        Endpoint::new(Method::POST, PATH, write, "Creates a data model.", post(create))
            .needs(&["name"])
            .takes(FIELDS.optional),
        Endpoint::new(Method::GET, one.as_str(), read, "Shows a data model.", get(show)).takes(&["concise"]),
        Endpoint::new(Method::POST, one.as_str(), write, "Changes a data model or its acceleration.", post(edit))
            .takes(FIELDS.optional),
        Endpoint::new(Method::DELETE, one.as_str(), write, "Deletes a data model.", delete(remove)),
    ];
    let permissions = vec![
        Endpoint::new(Method::GET, acl.as_str(), read, "Shows the permissions of a data model.", get(show_acl)),
        Endpoint::new(Method::POST, acl.as_str(), write, "Changes the permissions of a data model.", post(set_acl))
            .takes(&["owner", "sharing", "perms.read", "perms.write"]),
    ];
    let mut rows = entities(rows, &MODEL);
    // A provisional model is only validated, and the answer has status 200 instead of 201.
    for row in rows.iter_mut().filter(|row| row.creates()) {
        *row = row.clone().or_answers(StatusCode::OK, AnswerShape::Entities(MODEL));
    }
    rows.extend(entities(permissions, &NO_CONTENT));
    rows
}

/// Content of a data model entity.
const MODEL: Content = Content::new(
    "datamodel.model",
    Shape::Object(&[
        ("acceleration", Shape::Text),
        ("acceleration.allowed", Shape::Flag),
        ("dataset.type", Shape::Text),
        ("description", Shape::Text),
        ("disabled", Shape::Flag),
        ("displayName", Shape::Text),
        ("eai:appName", Shape::Optional(&Shape::Text)),
        ("eai:data", Shape::Text),
        ("eai:userName", Shape::Optional(&Shape::Text)),
        ("fault", Shape::Optional(&Shape::Text)),
    ]),
);

const LIST_PARAMETERS: &[&str] =
    &["count", "offset", "search", "sort_key", "sort_dir", "sort_mode", "f", "summarize", "concise"];

fn model_kind() -> Kind {
    Kind { verbs: &[], ..kind(PATH, TITLE, MODELS, FIELDS) }
}

/// A model with its definition and the settings of its acceleration.
struct Model {
    /// The conf object that defines the model; `None` for a built-in model, and for a model that is only validated.
    object: Option<ConfObject>,
    name: String,
    text: String,
    acceleration: Option<ConfObject>,
}

impl Model {
    fn from_object(object: ConfObject, acceleration: Option<ConfObject>) -> Model {
        let text = object.get(TEXT).unwrap_or_default().to_owned();
        Model { name: object.name.clone(), text, acceleration, object: Some(object) }
    }

    /// The model as an entity; `is_concise` omits the objects of the model.
    fn entry(&self, is_concise: bool) -> Entry {
        let described =
            if is_concise { model_headline(&self.name, &self.text) } else { described_model(&self.name, &self.text) };
        let mut content = Map::new();
        let acceleration = self.acceleration();
        content.insert("acceleration".to_owned(), acceleration.to_string().into());
        content.insert("acceleration.allowed".to_owned(), true.into());
        content.insert("dataset.type".to_owned(), TITLE.into());
        content.insert("disabled".to_owned(), false.into());
        match described {
            Ok(described) => {
                content.insert("displayName".to_owned(), described["displayName"].clone());
                content.insert("description".to_owned(), described.to_string().into());
                content.insert("eai:data".to_owned(), described.to_string().into());
            }
            // A damaged model is listed with its text and the fault; an error would hide all models.
            Err(fault) => {
                content.insert("displayName".to_owned(), self.name.as_str().into());
                content.insert("description".to_owned(), self.text.as_str().into());
                content.insert("eai:data".to_owned(), self.text.as_str().into());
                content.insert("fault".to_owned(), fault.to_string().into());
            }
        }
        let Some(object) = &self.object else {
            let path = format!("/servicesNS/{NOBODY}/system/{PATH}/{}", escape_segment(&self.name));
            let (author, app, links) = (NOBODY.to_owned(), "system".to_owned(), vec![("list", path.clone())]);
            let (name, fields, acl) = (self.name.clone(), Some(FIELDS), Acl::for_node());
            return Entry { name, path, author, app, acl, fields, updated: 0, links, content };
        };
        let mut made = entry(&model_kind(), object);
        for name in ["eai:appName", "eai:userName"] {
            content.extend(made.content.remove(name).map(|value| (name.to_owned(), value)));
        }
        made.content = content;
        made
    }

    /// The acceleration as Splunk's JSON object.
    fn acceleration(&self) -> Value {
        let stanza = self.acceleration.as_ref();
        let setting = |name: &str| stanza.and_then(|stanza| stanza.get(name));
        let is_enabled = setting("acceleration").and_then(parse_flag) == Some(true);
        let mut members = Map::from_iter([("enabled".to_owned(), Value::Bool(is_enabled))]);
        for (name, otherwise) in ACCELERATION {
            let value = setting(&format!("acceleration.{name}")).unwrap_or(otherwise);
            let value = value.parse::<u64>().map_or_else(|_| Value::from(value), Value::from);
            members.insert(name.to_owned(), value);
        }
        Value::Object(members)
    }
}

/// All visible models by name.
fn models(objects: &Objects, scope: &Scope, viewer: &Permissions) -> Result<Vec<Model>, ObjectError> {
    let mut accelerations = objects.list(CONF, scope, viewer)?;
    let mut of_model = |name: &str| {
        let at = accelerations.iter().position(|stanza| stanza.name == name)?;
        Some(accelerations.swap_remove(at))
    };
    let mut found: Vec<Model> = Vec::new();
    for object in objects.texts(MODELS, scope, viewer)? {
        let acceleration = of_model(&object.name);
        found.push(Model::from_object(object, acceleration));
    }
    let bundled = bundled_models().filter(|(name, _)| found.iter().all(|known| known.name != *name));
    let bundled: Vec<(&str, &str)> = bundled.collect();
    for (name, text) in bundled {
        let acceleration = of_model(name);
        found.push(Model { object: None, name: name.to_owned(), text: text.to_owned(), acceleration });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn model(objects: &Objects, name: &str, scope: &Scope, viewer: &Permissions) -> Result<Model, ObjectError> {
    let found = models(objects, scope, viewer)?.into_iter().find(|model| model.name == name);
    found.ok_or_else(|| ObjectError::Unknown(name.to_owned()))
}

/// The name of the requested model, and whether the model is accelerated.
pub(super) async fn requested_model(request: &ObjectRequest) -> Result<(String, bool), ApiError> {
    let (name, scope) = (request.name.clone(), request.scope.clone());
    let found = request.with(move |objects, viewer| model(objects, &name, &scope, viewer)).await?;
    let is_accelerated = found.acceleration()["enabled"] == true;
    Ok((found.name, is_accelerated))
}

fn is_concise(request: &ObjectRequest) -> bool {
    request.parameters.is_set("concise")
}

fn path() -> String {
    format!("/services/{PATH}")
}

async fn list(request: ObjectRequest) -> Result<Response, ApiError> {
    let (scope, is_concise) = (request.scope.clone(), is_concise(&request));
    let found = request.with(move |objects, viewer| models(objects, &scope, viewer)).await?;
    let entries = found.iter().map(|model| model.entry(is_concise)).collect();
    page(TITLE, path(), entries, &request.parameters)
}

async fn show(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, scope, is_concise) = (request.name.clone(), request.scope.clone(), is_concise(&request));
    let found = request.with(move |objects, viewer| model(objects, &name, &scope, viewer)).await?;
    Ok(request.answer(TITLE, path(), found.entry(is_concise)))
}

/// The change of a model that a request describes.
#[derive(Clone, Default)]
struct Change {
    /// The definition to be stored.
    text: Option<String>,
    /// Settings of datamodels.conf.
    acceleration: Vec<(String, String)>,
}

impl Change {
    fn of(request: &ObjectRequest, name: &str, is_new: bool) -> Result<Change, ApiError> {
        let form = &request.parameters;
        let given = |name: &str| form.get(name).map(str::trim).filter(|text| !text.is_empty());
        let definitions = DEFINITIONS.map(given);
        if let [Some(one), Some(other)] = definitions
            && one != other
        {
            return Err(ApiError::bad_request("eai:data and description differ: give the definition once"));
        }
        let text = match definitions.into_iter().flatten().next() {
            None if is_new => Some(stored_model(name, "{}")?),
            None => None,
            Some(text) => Some(stored_model(name, text)?),
        };
        let acceleration = given("acceleration").map(parse_acceleration).transpose()?.unwrap_or_default();
        if text.is_none() && acceleration.is_empty() {
            return Err(ApiError::bad_request("nothing to change: give eai:data or acceleration"));
        }
        check_change(request.permissions(), CONF, name, &acceleration)?;
        Ok(Change { text, acceleration })
    }
}

/// Settings of datamodels.conf for an acceleration, which the request gives as a flag or as a JSON object.
fn parse_acceleration(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    let wrong = || {
        ApiError::bad_request(format!(
            "acceleration={text}: give a JSON object as in {{\"enabled\": true, \"earliest_time\": \"-1mon\"}}"
        ))
    };
    if let Some(flag) = parse_flag(text) {
        return Ok(vec![("acceleration".to_owned(), flag.to_string())]);
    }
    let Ok(Value::Object(members)) = serde_json::from_str(text) else { return Err(wrong()) };
    let mut settings = Vec::new();
    for (name, value) in members {
        let value = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(wrong()),
        };
        if name == "enabled" {
            let flag = parse_flag(&value).ok_or_else(wrong)?;
            settings.push(("acceleration".to_owned(), flag.to_string()));
        } else {
            settings.push((format!("acceleration.{name}"), value));
        }
    }
    for (name, value) in &settings {
        quarry_conf::edit::check_setting(name, value)?;
    }
    Ok(settings)
}

/// Stores a change.
async fn put(request: &ObjectRequest, name: String, change: Change, is_new: bool) -> Result<Entry, ApiError> {
    let scope = request.scope.clone();
    let work = move |objects: &Objects, viewer: &Permissions| {
        if !is_new {
            // The model must exist: otherwise a later model of this name would inherit the acceleration.
            model(objects, &name, &scope, viewer)?;
        }
        if let Some(text) = &change.text {
            objects.put_text(MODELS, &name, text, is_new, &scope, viewer)?;
        }
        let settings = &change.acceleration;
        if !settings.is_empty() {
            match objects.edit(CONF, &name, settings, &scope, viewer) {
                Err(ObjectError::Unknown(_)) => objects.create(CONF, &name, settings, &scope, viewer)?,
                edited => edited?,
            };
        }
        model(objects, &name, &scope, viewer)
    };
    Ok(request.change(CONF, work).await?.entry(false))
}

async fn create(request: ObjectRequest) -> Result<Response, ApiError> {
    request.parameters.reject_unknown(&[&["name", "concise"], FIELDS.optional])?;
    let name = request.parameters.required("name")?.to_owned();
    let change = Change::of(&request, &name, true)?;
    check(&request, &name, change.text.as_deref()).await?;
    if request.parameters.is_set("provisional") {
        let (text, acceleration) = (change.text.unwrap_or_default(), None);
        let made = Model { object: None, name, text, acceleration };
        return Ok(request.answer(TITLE, path(), made.entry(false)));
    }
    let made = put(&request, name, change, true).await?;
    Ok((StatusCode::CREATED, request.answer(TITLE, path(), made)).into_response())
}

async fn edit(request: ObjectRequest) -> Result<Response, ApiError> {
    request.parameters.reject_unknown(&[&["concise"], FIELDS.optional])?;
    let name = request.name.clone();
    let change = Change::of(&request, &name, false)?;
    check(&request, &name, change.text.as_deref()).await?;
    if request.parameters.is_set("provisional") {
        return show(request).await;
    }
    let made = put(&request, name, change, false).await?;
    Ok(request.answer(TITLE, path(), made))
}

/// Refuses a definition with objects that cannot be searched.
async fn check(request: &ObjectRequest, name: &str, text: Option<&str>) -> Result<(), ApiError> {
    let Some(text) = text.map(str::to_owned) else { return Ok(()) };
    let name = name.to_owned();
    let checked = request.with_searches(move |service, viewer| service.check_data_model(&name, &text, viewer));
    checked.await?.map_err(|error| ApiError::bad_request(error.to_string()))
}

async fn remove(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, scope) = (request.name.clone(), request.scope.clone());
    let work = move |objects: &Objects, viewer: &Permissions| {
        let found = model(objects, &name, &scope, viewer)?;
        if found.object.is_none() {
            return Err(ObjectError::Denied(format!("Object id={name} cannot be deleted: it is built in")));
        }
        objects.remove_text(MODELS, &name, &scope, viewer)?;
        // A later model of the same name must not inherit the acceleration.
        match objects.remove(CONF, &name, &scope, viewer) {
            Ok(()) | Err(ObjectError::Unknown(_) | ObjectError::Denied(_)) => Ok(()),
            Err(error) => Err(error),
        }
    };
    request.change(CONF, work).await?;
    list(request.without_parameters()).await
}

async fn show_acl(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, scope) = (request.name.clone(), request.scope.clone());
    let found = request.with(move |objects, viewer| model(objects, &name, &scope, viewer)).await?;
    Ok(request.answer(TITLE, path(), acl_entry(found.entry(true))))
}

async fn set_acl(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, scope, asked) = (request.name.clone(), request.scope.clone(), request.acl_change()?);
    if asked == AclChange::default() {
        return Err(ApiError::bad_request("nothing to change: give owner, sharing, perms.read or perms.write"));
    }
    let work = move |objects: &Objects, viewer: &Permissions| {
        let acceleration = model(objects, &name, &scope, viewer)?.acceleration;
        let object = objects.set_text_acl(MODELS, &name, &asked, &scope, viewer)?;
        Ok(Model::from_object(object, acceleration))
    };
    let changed = request.change(CONF, work).await?;
    Ok(request.answer(TITLE, path(), acl_entry(changed.entry(true))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acceleration_is_a_flag_or_an_object() {
        let of = |text: &str| parse_acceleration(text).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(of("1"), [pair("acceleration", "true")]);
        let both = of(r#"{"enabled": true, "earliest_time": "-2mon", "max_time": 60, "x": null}"#);
        let wanted = [
            pair("acceleration", "true"),
            pair("acceleration.earliest_time", "-2mon"),
            pair("acceleration.max_time", "60"),
        ];
        assert!(wanted.iter().all(|pair| both.contains(pair)) && both.len() == 3, "{both:?}");
        for wrong in ["yes please", "[]", r#"{"enabled": "maybe"}"#, r#"{"enabled": {}}"#] {
            assert!(parse_acceleration(wrong).is_err(), "{wrong}");
        }
    }
}
