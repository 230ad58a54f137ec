//! `search/tags` and `search/fields`: tags of field values, stored as settings in stanzas of tags.conf.
//!
//! A tag's entries are the pairs of field and value that have the tag, written `FIELD::VALUE`. Changes take effect at
//! once. The fields listed are `host`, `index`, `source`, `sourcetype`, fields in fields.conf, and fields with tagged
//! values. Not here: searching by tag (engine), the stanzas themselves (`configs/conf-tags`).

use std::collections::{BTreeMap, BTreeSet};

use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{delete, get, post};
use quarry_apps::objects::{APP_SYSTEM, ConfObject, NOBODY, ObjectError, Objects, Scope};
use quarry_conf::{Permissions, tag_stanza, tagged_value};
use serde_json::Map;

use super::answer_shape::{AnswerShape, Content, MESSAGES, NO_CONTENT};
use super::jobs::message_response;
use super::listing::{LIST_PARAMETERS, page};
use super::object_request::ObjectRequest;
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET, entities};
use super::shape::Shape;
use crate::atom::{Acl, Entry, Form, escape_segment};
use crate::message::ApiError;

/// The confs of tags and of fields.
const TAGS: &str = "tags";
const FIELDS: &str = "fields";
/// Fields that are stored with every event.
const INDEXED_FIELDS: [&str; 4] = ["host", "index", "source", "sourcetype"];
/// Values of the settings of enabled and of removed tags; a removed tag also overrides a tag of an app.
const ENABLED: &str = "enabled";
const DISABLED: &str = "disabled";
/// Separator of field and value in the name of an entry.
const SEPARATOR: &str = "::";
/// Maximum bytes of a tag; a longer tag is refused.
const TAG_BYTES_MAX: usize = 256;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET));
    let (tag, field, of_field) = ("search/tags/{name}", "search/fields/{name}", "search/fields/{name}/tags");
    let tags = vec![
        Endpoint::new(Method::GET, "search/tags", read, "Lists tags.", get(list)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::DELETE, tag, write, "Removes a tag from all values.", delete(remove)),
    ];
    let changes = [
        Endpoint::new(Method::POST, tag, write, "Adds a tag to values, or removes it.", post(change)),
        Endpoint::new(
            Method::POST,
            of_field,
            write,
            "Adds tags to a field's value, or removes them.",
            post(change_field),
        )
        .needs(&["value"]),
    ];
    let changes = changes.map(|row| row.takes(&["add", "delete"]).answers(AnswerShape::JsonOrXml(MESSAGES)));
    let values =
        Endpoint::new(Method::GET, tag, read, "Lists the values that have a tag.", get(show)).takes(LIST_PARAMETERS);
    let fields = vec![
        Endpoint::new(Method::GET, "search/fields", read, "Lists fields with settings or tags.", get(fields))
            .takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, field, read, "Shows the settings of a field.", get(show_field)),
    ];
    let of_fields = vec![
        Endpoint::new(Method::GET, of_field, read, "Lists the tags of a field's values.", get(tags_of_field))
            .takes(LIST_PARAMETERS),
    ];
    let tagged = Shape::Object(&[("field", Shape::Text), ("value", Shape::Text)]);
    let valued = Shape::Object(&[("tag", Shape::Text), ("value", Shape::Text)]);
    let mut rows = entities(tags, &NO_CONTENT);
    rows.extend(changes);
    rows.push(values.answers(AnswerShape::Entities(Content::new("search.tags", tagged))));
    rows.extend(entities(fields, &Content::new("search.fields", Shape::Map(&Shape::Text))));
    rows.extend(entities(of_fields, &Content::new("search.fields.tags", valued)));
    rows
}

/// A value of a field.
type Tagged = (String, String);

/// All enabled tags with the values that have them.
type AllTags = BTreeMap<String, BTreeSet<Tagged>>;

fn all_tags(stanzas: &[ConfObject]) -> AllTags {
    let mut found = AllTags::new();
    for stanza in stanzas {
        let Some(tagged) = tagged_value(&stanza.name) else { continue };
        let enabled = stanza.settings.iter().filter(|(_, value)| value.trim().eq_ignore_ascii_case(ENABLED));
        for (tag, _) in enabled {
            found.entry(tag.clone()).or_default().insert(tagged.clone());
        }
    }
    found
}

async fn read(request: &ObjectRequest) -> Result<AllTags, ApiError> {
    let scope = request.scope.clone();
    let stanzas = request.with(move |objects, viewer| objects.list(TAGS, &scope, viewer)).await?;
    Ok(all_tags(&stanzas))
}

/// An entry with only a name and members.
fn entry(collection: &str, name: String, members: Map<String, serde_json::Value>) -> Entry {
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{collection}/{}", escape_segment(&name));
    let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    Entry { name, path, author, app, acl: Acl::for_node(), fields: None, updated: 0, links, content: members }
}

fn missing(name: &str) -> ApiError {
    ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"))
}

async fn list(request: ObjectRequest) -> Result<Response, ApiError> {
    let tags = read(&request).await?;
    let entries = tags.into_keys().map(|tag| entry("search/tags", tag, Map::new())).collect();
    page("tags", "/services/search/tags".to_owned(), entries, &request.parameters)
}

async fn show(request: ObjectRequest) -> Result<Response, ApiError> {
    let tag = request.name.clone();
    let values = read(&request).await?.remove(&tag).ok_or_else(|| missing(&tag))?;
    let path = format!("search/tags/{}", escape_segment(&tag));
    let shown = |(field, value): Tagged| {
        let members =
            Map::from_iter([("field".to_owned(), field.clone().into()), ("value".to_owned(), value.clone().into())]);
        entry(&path, format!("{field}{SEPARATOR}{value}"), members)
    };
    let entries = values.into_iter().map(shown).collect();
    page("tags", format!("/services/{path}"), entries, &request.parameters)
}

/// A pair of field and value, as in `host::web1` or `host=web1`.
fn parse_pair(text: &str) -> Result<Tagged, ApiError> {
    let pair = text.split_once(SEPARATOR).or_else(|| text.split_once('='));
    let pair = pair.map(|(field, value)| (field.trim().to_owned(), value.to_owned()));
    pair.filter(|(field, value)| is_field(field) && !value.is_empty())
        .ok_or_else(|| ApiError::bad_request(format!("{text}: give a field and its value, as in host::web1")))
}

fn is_field(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '[', ']']) && !name.chars().any(char::is_control)
}

fn check_tag(tag: &str) -> Result<(), ApiError> {
    let is_tag = !tag.is_empty()
        && tag.len() <= TAG_BYTES_MAX
        && tag.chars().all(|letter| !letter.is_whitespace() && !letter.is_control());
    match is_tag && quarry_conf::edit::check_setting(tag, ENABLED).is_ok() {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!("{tag}: give a tag, one word of at most {TAG_BYTES_MAX} bytes"))),
    }
}

/// Tags that a request adds and removes.
#[derive(Clone, Default)]
struct Changes {
    added: Vec<(String, Tagged)>,
    removed: Vec<(String, Tagged)>,
}

/// Applies changes.
async fn put(request: &ObjectRequest, changes: Changes) -> Result<(), ApiError> {
    if changes.added.is_empty() && changes.removed.is_empty() {
        return Err(ApiError::bad_request("nothing to change: give add= or delete="));
    }
    changes.added.iter().try_for_each(|(tag, _)| check_tag(tag))?;
    let scope = request.scope.clone();
    let work = move |objects: &Objects, viewer: &Permissions| {
        for (tag, tagged) in &changes.added {
            add_tag(objects, tag, tagged, &scope, viewer)?;
        }
        changes.removed.iter().try_for_each(|(tag, tagged)| remove_tag(objects, tag, tagged, &scope, viewer))
    };
    request.change(TAGS, work).await
}

/// The existing stanza of a field value, however its name is escaped.
fn stanza_of(
    objects: &Objects,
    tagged: &Tagged,
    scope: &Scope,
    viewer: &Permissions,
) -> Result<Option<String>, ObjectError> {
    let stanzas = objects.list(TAGS, scope, viewer)?;
    Ok(stanzas.into_iter().find(|stanza| tagged_value(&stanza.name).as_ref() == Some(tagged)).map(|stanza| stanza.name))
}

fn add_tag(
    objects: &Objects,
    tag: &str,
    tagged: &Tagged,
    scope: &Scope,
    viewer: &Permissions,
) -> Result<(), ObjectError> {
    let settings = [(tag.to_owned(), ENABLED.to_owned())];
    match stanza_of(objects, tagged, scope, viewer)? {
        Some(stanza) => objects.edit(TAGS, &stanza, &settings, scope, viewer).map(drop),
        None => objects.create(TAGS, &tag_stanza(&tagged.0, &tagged.1), &settings, scope, viewer).map(drop),
    }
}

fn remove_tag(
    objects: &Objects,
    tag: &str,
    tagged: &Tagged,
    scope: &Scope,
    viewer: &Permissions,
) -> Result<(), ObjectError> {
    let shown = || ObjectError::Unknown(format!("{tag} of {}{SEPARATOR}{}", tagged.0, tagged.1));
    let stanza = stanza_of(objects, tagged, scope, viewer)?.ok_or_else(shown)?;
    let is_given = objects
        .get(TAGS, &stanza, scope, viewer)?
        .get(tag)
        .is_some_and(|value| value.trim().eq_ignore_ascii_case(ENABLED));
    if !is_given {
        return Err(shown());
    }
    // A setting shipped with an app cannot be removed, so it is overridden.
    objects.edit(TAGS, &stanza, &[(tag.to_owned(), DISABLED.to_owned())], scope, viewer).map(drop)
}

async fn change(request: ObjectRequest) -> Result<Response, ApiError> {
    request.parameters.reject_unknown(&[&["add", "delete"]])?;
    let tag = request.name.clone();
    let pairs = |name: &str| -> Result<Vec<(String, Tagged)>, ApiError> {
        let given = request.parameters.clone().keep_only(name).into_pairs().into_iter();
        given.map(|(_, text)| Ok((tag.clone(), parse_pair(&text)?))).collect()
    };
    let changes = Changes { added: pairs("add")?, removed: pairs("delete")? };
    put(&request, changes).await?;
    Ok(message_response(Form::of(request.parameters.get("output_mode")), "Processed adds/deletes for tag"))
}

async fn remove(request: ObjectRequest) -> Result<Response, ApiError> {
    let tag = request.name.clone();
    let values = read(&request).await?.remove(&tag).ok_or_else(|| missing(&tag))?;
    let removed = values.into_iter().map(|tagged| (tag.clone(), tagged)).collect();
    put(&request, Changes { removed, ..Changes::default() }).await?;
    list(request.without_parameters()).await
}

async fn fields(request: ObjectRequest) -> Result<Response, ApiError> {
    let tagged = read(&request).await?.into_values().flatten().map(|(field, _)| (field, Map::new()));
    let mut found: ConfiguredFields = tagged.collect();
    found.extend(configured_fields(&request).await?);
    let entries = found.into_iter().map(|(field, members)| entry("search/fields", field, members)).collect();
    page(FIELDS, "/services/search/fields".to_owned(), entries, &request.parameters)
}

/// Fields with settings.
type ConfiguredFields = BTreeMap<String, Map<String, serde_json::Value>>;

/// The indexed fields, and the stanzas of fields.conf with their settings.
async fn configured_fields(request: &ObjectRequest) -> Result<ConfiguredFields, ApiError> {
    let scope = request.scope.clone();
    let stanzas = request.with(move |objects, viewer| objects.list(FIELDS, &scope, viewer)).await?;
    let members = |stanza: &ConfObject| -> Map<String, serde_json::Value> {
        stanza.settings.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
    };
    let indexed = || Map::from_iter([("INDEXED".to_owned(), "true".into())]);
    let mut found: ConfiguredFields = INDEXED_FIELDS.iter().map(|name| ((*name).to_owned(), indexed())).collect();
    for stanza in &stanzas {
        found.entry(stanza.name.clone()).or_default().extend(members(stanza));
    }
    Ok(found)
}

async fn show_field(request: ObjectRequest) -> Result<Response, ApiError> {
    let name = request.name.clone();
    let is_tagged = read(&request).await?.into_values().flatten().any(|(field, _)| field == name);
    let members = configured_fields(&request).await?.remove(&name);
    let members = members.or_else(|| is_tagged.then(Map::new)).ok_or_else(|| missing(&name))?;
    let path = "/services/search/fields".to_owned();
    Ok(request.answer(FIELDS, path, entry("search/fields", name, members)))
}

/// The tags of a field's values, each as an entry `VALUE::TAG`.
async fn tags_of_field(request: ObjectRequest) -> Result<Response, ApiError> {
    let field = request.name.clone();
    let path = format!("search/fields/{}/tags", escape_segment(&field));
    let mut entries = Vec::new();
    for (tag, values) in read(&request).await? {
        for (_, value) in values.into_iter().filter(|(name, _)| *name == field) {
            let name = format!("{value}{SEPARATOR}{tag}");
            let members = [("tag", tag.clone()), ("value", value)];
            let members = members.map(|(name, text)| (name.to_owned(), text.into()));
            entries.push(entry(&path, name, Map::from_iter(members)));
        }
    }
    page("tags", format!("/services/{path}"), entries, &request.parameters)
}

async fn change_field(request: ObjectRequest) -> Result<Response, ApiError> {
    request.parameters.reject_unknown(&[&["value", "add", "delete"]])?;
    let field = request.name.clone();
    if !is_field(&field) {
        return Err(ApiError::bad_request(format!("{field}: give the name of a field")));
    }
    let value = request.parameters.required("value")?.to_owned();
    let tags = |name: &str| -> Vec<(String, Tagged)> {
        let given = request.parameters.list(name).into_iter();
        given.map(|tag| (tag, (field.clone(), value.clone()))).collect()
    };
    let changes = Changes { added: tags("add"), removed: tags("delete") };
    put(&request, changes).await?;
    let told = format!("Successfully processed adds/deletes for field {}", request.name);
    Ok(message_response(Form::of(request.parameters.get("output_mode")), &told))
}
