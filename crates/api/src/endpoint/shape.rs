//! Shapes of JSON values, and their JSON Schemas.
//!
//! A shape is defined beside the code that creates the value. An object must have exactly the members of its shape; the
//! test of `spec/rest` validates every answer against its schema, so a shape and its code cannot diverge unnoticed.
//!
//! Not here: which endpoint answers with which shape ([`super::answer_shape`]).

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::setting_types;
use crate::atom::Fields;

/// Location of named schemas in the document.
pub(super) const SCHEMAS: &str = "#/components/schemas/";

/// A member of an object: its name and its shape.
pub(crate) type Member = (&'static str, Shape);

/// Shape of a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Any,
    Text,
    Flag,
    /// A whole number, 0 or more.
    Count,
    Integer,
    Number,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// A value, or null.
    Nullable(&'static Shape),
    List(&'static Shape),
    /// An object whose members have any name.
    Map(&'static Shape),
    /// An object with these members.
    Object(&'static [Member]),
    /// An object with these members and others.
    Open(&'static [Member], &'static Shape),
    /// A member that may be absent.
    Optional(&'static Shape),
    Either(&'static [Shape]),
    /// The schema of this name in the document.
    Named(&'static str),
    /// An object whose members are texts and may be absent.
    Texts(Cow<'static, [&'static str]>),
    /// The content of a stanza.
    Settings(Settings),
}

/// The content of a stanza as an entity: its settings are texts, flags or numbers ([`setting_types`]), and it may have
/// settings that no parameter sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Parameters that set the settings.
    pub(crate) fields: Fields,
    /// Members that are always present, or whose shape is not the shape in [`setting_types`].
    pub(crate) more: &'static [Member],
}

/// A setting that is a flag; a value that is not a boolean remains a text.
pub(crate) const SETTING: Shape = Shape::Either(&[Shape::Text, Shape::Flag]);
/// A setting that is a whole number; a value that is not a whole number remains a text.
pub(crate) const WHOLE_NUMBER: Shape = Shape::Either(&[Shape::Text, Shape::Integer]);
/// A setting of any name.
const ANY_SETTING: Shape = Shape::Either(&[Shape::Text, Shape::Flag, Shape::Number, Shape::List(&Shape::Text)]);
/// Members of every stanza as an entity.
const COMMON_STANZA_MEMBERS: &[Member] =
    &[("disabled", SETTING), ("eai:appName", Shape::Text), ("eai:userName", Shape::Text)];

/// Members of every saved search as an entity.
const SAVED_SEARCH_MEMBERS: &[Member] = &[
    ("disabled", SETTING),
    ("eai:appName", Shape::Text),
    ("eai:userName", Shape::Text),
    ("scheduled_times", Shape::Optional(&Shape::List(&Shape::Integer))),
];

/// An object without members.
pub(crate) const EMPTY: Shape = Shape::Object(&[]);

impl Shape {
    /// The content of a stanza whose settings are these parameters, plus the members of every stanza.
    pub(crate) const fn of_stanza(fields: Fields) -> Shape {
        Shape::Settings(Settings { fields, more: COMMON_STANZA_MEMBERS })
    }

    /// The content of a saved search whose settings are these parameters.
    pub(crate) const fn of_saved_search(fields: Fields) -> Shape {
        Shape::Settings(Settings { fields, more: SAVED_SEARCH_MEMBERS })
    }

    /// The shape's JSON Schema; `is_whole` is false if a request may select only some members of objects.
    pub(super) fn schema(&self, is_whole: bool) -> Value {
        match self {
            Shape::Any => json!({}),
            Shape::Text => json!({ "type": "string" }),
            Shape::Flag => json!({ "type": "boolean" }),
            Shape::Count => json!({ "type": "integer", "minimum": 0 }),
            Shape::Integer => json!({ "type": "integer" }),
            Shape::Number => json!({ "type": "number" }),
            Shape::Word(words) => json!({ "type": "string", "enum": words }),
            Shape::Nullable(shape) => json!({ "anyOf": [shape.schema(true), { "type": "null" }] }),
            Shape::List(shape) => json!({ "type": "array", "items": shape.schema(true) }),
            Shape::Map(shape) => json!({ "type": "object", "additionalProperties": shape.schema(true) }),
            Shape::Object(members) => object(members, json!(false), is_whole),
            Shape::Open(members, others) => object(members, others.schema(true), is_whole),
            Shape::Optional(shape) => shape.schema(true),
            Shape::Either(shapes) => {
                json!({ "anyOf": shapes.iter().map(|shape| shape.schema(true)).collect::<Vec<_>>() })
            }
            Shape::Named(name) => json!({ "$ref": format!("{SCHEMAS}{name}") }),
            Shape::Texts(names) => {
                let members: Map<String, Value> =
                    names.iter().map(|name| ((*name).to_owned(), Shape::Text.schema(true))).collect();
                json!({ "type": "object", "properties": members, "additionalProperties": false })
            }
            Shape::Settings(settings) => settings.schema(is_whole),
        }
    }
}

impl Settings {
    fn schema(&self, is_whole: bool) -> Value {
        let Settings { fields: Fields { required, optional, wildcard: _ }, more } = self;
        let mut schema = object(more, ANY_SETTING.schema(true), is_whole);
        if let Some(members) = schema["properties"].as_object_mut() {
            for name in required.iter().chain(*optional) {
                members.entry(*name).or_insert_with(|| setting_types::shape(name).schema(true));
            }
        }
        schema
    }
}

fn object(members: &[Member], others: Value, is_whole: bool) -> Value {
    let properties: Map<String, Value> =
        members.iter().map(|(name, shape)| ((*name).to_owned(), shape.schema(true))).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": others });
    let required = members.iter().filter(|(_, shape)| !matches!(shape, Shape::Optional(_)));
    let required: Vec<&str> = required.map(|(name, _)| *name).collect();
    if is_whole && !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_complete_unless_members_are_selected() {
        let shape = Shape::Object(&[("a", Shape::Text), ("b", Shape::Optional(&Shape::Count))]);
        let whole = json!({
            "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": { "a": { "type": "string" }, "b": { "type": "integer", "minimum": 0 } },
        });
        assert_eq!(shape.schema(true), whole);
        assert_eq!(shape.schema(false).get("required"), None);
    }

    #[test]
    fn settings_include_parameters_and_other_settings() {
        let fields = Fields { required: &["search"], optional: &["is_visible"], wildcard: &["action.*"] };
        let schema = Shape::of_stanza(fields).schema(true);
        assert_eq!(schema["properties"]["search"], json!({ "type": "string" }));
        assert_eq!(schema["properties"]["is_visible"], SETTING.schema(true));
        assert_eq!(schema["additionalProperties"], ANY_SETTING.schema(true));
        assert_eq!(schema["required"], json!(["disabled", "eai:appName", "eai:userName"]));
    }
}
