//! `data/modular-inputs`: the kinds of modular inputs that come with apps, with the settings of their stanzas. The
//! program of a kind describes the kind and these settings.
//!
//! Not here: the stanzas (`configs/conf-inputs`), running the programs (`quarry_programs`).

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::NOBODY;
use serde_json::{Map, Value, json};

use super::answer_shape::Content;
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, LIST_INPUTS, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::atom::{Acl, Entry, Feed, Form, escape_segment};
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, ModularInput};

/// Path of the collection after the root.
const PATH: &str = "data/modular-inputs";
/// Title of the collection in Atom feeds.
const TITLE: &str = "modular-inputs";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let read = Access::Capability(LIST_INPUTS);
    let rows = vec![
        Endpoint::new(Method::GET, PATH, read, "Lists the kinds of modular inputs.", get(list)).takes(LIST_PARAMETERS),
        Endpoint::new(
            Method::GET,
            format!("{PATH}/{{name}}"),
            read,
            "Shows a kind of modular input and the settings of its stanzas.",
            get(show),
        ),
    ];
    entities(rows, &Content::for_path(PATH, KIND))
}

/// Content of the entity of a kind of modular inputs.
const KIND: Shape = Shape::Object(&[
    ("title", Shape::Text),
    ("description", Shape::Text),
    ("endpoint", Shape::Object(&[("args", Shape::Map(&ARGUMENT))])),
    ("streaming_mode", Shape::Word(&["xml", "simple"])),
    ("use_single_instance", Shape::Flag),
]);
const ARGUMENT: Shape = Shape::Object(&[
    ("title", Shape::Text),
    ("description", Shape::Text),
    ("data_type", Shape::Text),
    // Position in the scheme, from 1; 0 is the name of the stanza.
    ("order", Shape::Count),
    ("validation", Shape::Optional(&Shape::Text)),
    ("required_on_create", Shape::Optional(&Shape::Flag)),
    ("required_on_edit", Shape::Optional(&Shape::Flag)),
]);
/// The argument of every kind: the name of the stanza.
const NAME: &str = "name";

async fn kinds(state: &ApiState) -> Result<Vec<ModularInput>, ApiError> {
    let node = state.node.clone();
    run_blocking(move || node.modular_inputs()).await
}

async fn list(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let entries = kinds(&state).await?.into_iter().map(entry).collect();
    page(TITLE, format!("/services/{PATH}"), entries, &parameters)
}

async fn show(State(state): State<ApiState>, parts: PathParts, parameters: Parameters) -> Result<Response, ApiError> {
    let name = parts.get("name").map_or("", String::as_str);
    let found = kinds(&state).await?.into_iter().find(|kind| kind.scheme == name);
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"));
    let entry = entry(found.ok_or_else(missing)?);
    Ok(Feed::of(TITLE, format!("/services/{PATH}"), vec![entry]).answer(Form::of(parameters.get("output_mode"))))
}

/// A kind as an entity, with members as in Splunk.
fn entry(kind: ModularInput) -> Entry {
    let ModularInput { scheme, app, title, description, is_xml, is_single, arguments } = kind;
    let argument = |(order, argument): (usize, crate::ModularInputArgument)| {
        let order = if argument.name == NAME { 0 } else { order };
        let mut members = json!({
            "title": argument.title, "description": argument.description, "data_type": argument.data_type,
            "order": order, "required_on_create": argument.is_required,
            "required_on_edit": argument.is_required_on_edit,
        });
        if !argument.validation.is_empty() {
            members["validation"] = argument.validation.into();
        }
        (argument.name, members)
    };
    let mut arguments: Map<String, Value> = (1..).zip(arguments).map(argument).collect();
    let name = || json!({ "title": NAME, "description": "", "data_type": "string", "order": 0 });
    arguments.entry(NAME).or_insert_with(name);
    let content = json!({
        "title": title, "description": description, "endpoint": { "args": arguments },
        "streaming_mode": if is_xml { "xml" } else { "simple" }, "use_single_instance": is_single,
    });
    let content = if let Value::Object(members) = content { members } else { Map::new() };
    let path = format!("/servicesNS/{NOBODY}/{}/{PATH}/{}", escape_segment(&app), escape_segment(&scheme));
    let (author, links) = (NOBODY.to_owned(), vec![("list", path.clone())]);
    Entry { name: scheme, path, author, app, acl: Acl::for_node(), fields: None, updated: 0, links, content }
}
