//! Answers of endpoints as data: a media type and a shape for each status.
//!
//! The API description ([`super::openapi`]) is generated from these data. Refusals have the same form everywhere, so
//! rows state only successful answers. Not here: the shapes of single endpoints, which are defined beside their code.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::shape::{EMPTY, Member, SCHEMAS, Shape};
use crate::atom::{ACL_MEMBER, Fields};

/// Media types.
pub(super) const JSON: &str = "application/json";
const XML: &str = "text/xml";
/// Media types of rows besides JSON and XML.
const ROWS_AS_TEXT: [&str; 2] = ["text/csv", "text/plain"];

/// The answer of a request that succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerShape {
    /// Entities as an Atom feed or its JSON equivalent.
    Entities(Content),
    Json(Shape),
    /// JSON or its XML equivalent, as `output_mode` selects.
    JsonOrXml(Shape),
    /// Rows of a search, in the format that `output_mode` selects.
    Rows,
    /// Rows of a search, streamed as they are found. In JSON, each row is a line (`x-lines`).
    Lines,
    /// JSON with `output_mode=json`, or text.
    JsonOrText(Shape),
    /// Texts of these media types.
    Texts(&'static [&'static str]),
    Nothing,
}

/// Content of entities: its name in the API description, and its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    name: Cow<'static, str>,
    shape: Shape,
}

impl Content {
    /// Content with a fixed name.
    pub(crate) const fn new(name: &'static str, shape: Shape) -> Content {
        Content { name: Cow::Borrowed(name), shape }
    }

    /// Content of the entities of a collection of stanzas.
    pub(crate) fn for_stanza(path: &str, fields: Fields) -> Content {
        Content::for_path(path, Shape::of_stanza(fields))
    }

    /// Content of the entities of the collection at `path`.
    pub(crate) fn for_path(path: &str, shape: Shape) -> Content {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let name = path.replace('/', ".").chars().filter(|letter| is_plain(*letter)).collect::<String>();
        Content { name: Cow::Owned(name), shape }
    }
}

/// Content of entities that have no members of their own.
pub(crate) const NO_CONTENT: Content = Content::new("none", EMPTY);

/// A message of an answer; messages of refused searches have a position.
const MESSAGE: Shape = Shape::Object(&[
    ("type", Shape::Word(&["INFO", "WARN", "ERROR", "FATAL"])),
    ("code", Shape::Optional(&Shape::Text)),
    ("text", Shape::Text),
    ("start", Shape::Optional(&Shape::Count)),
    ("end", Shape::Optional(&Shape::Count)),
    ("hint", Shape::Optional(&Shape::Text)),
]);
/// An answer with messages only, such as a refusal.
pub(crate) const MESSAGES: Shape = Shape::Named("Messages");
/// The ID of a job.
pub(crate) const SID: Shape = Shape::Object(&[("sid", Shape::Text)]);
/// A row of a search; members are texts, or lists of texts.
pub(crate) const ROW: Shape = Shape::Map(&CELL);
const CELL: Shape = Shape::Either(&[Shape::Text, Shape::List(&Shape::Text)]);
const TEXTS: Shape = Shape::List(&Shape::Text);
const ROLES: Shape = Shape::Nullable(&Shape::Object(&[("read", TEXTS), ("write", TEXTS)]));
const CELLS: Shape = Shape::List(&Shape::List(&Shape::Nullable(&CELL)));

/// Members that all JSON formats of rows share, plus the given ones.
macro_rules! rows_with {
    ($($member:expr),+) => {
        Shape::Object(&[
            ("preview", Shape::Flag),
            ("init_offset", Shape::Count),
            ("messages", Shape::List(&Shape::Named("Message"))),
            ("post_process_count", Shape::Optional(&Shape::Count)),
            $($member),+
        ])
    };
}

/// Named schemas of all answers.
pub(super) const NAMED_SCHEMAS: &[Member] = &[
    ("Message", MESSAGE),
    ("Messages", Shape::Object(&[("messages", Shape::List(&Shape::Named("Message")))])),
    (
        "Feed",
        Shape::Object(&[
            ("links", Shape::Map(&Shape::Text)),
            ("origin", Shape::Text),
            ("updated", Shape::Text),
            ("generator", Shape::Object(&[("build", Shape::Text), ("version", Shape::Text)])),
            ("entry", Shape::List(&Shape::Named("Entry"))),
            ("paging", Shape::Object(&[("total", Shape::Count), ("perPage", Shape::Count), ("offset", Shape::Count)])),
            ("messages", Shape::List(&Shape::Named("Message"))),
        ]),
    ),
    (
        "Entry",
        Shape::Object(&[
            ("name", Shape::Text),
            ("id", Shape::Text),
            ("updated", Shape::Text),
            ("links", Shape::Map(&Shape::Text)),
            ("author", Shape::Text),
            ("acl", Shape::Named("Acl")),
            ("content", Shape::Optional(&Shape::Either(&[Shape::Map(&Shape::Any), Shape::Text]))),
            (
                "fields",
                Shape::Optional(&Shape::Object(&[("required", TEXTS), ("optional", TEXTS), ("wildcard", TEXTS)])),
            ),
        ]),
    ),
    (
        "Acl",
        Shape::Object(&[
            ("app", Shape::Text),
            ("owner", Shape::Text),
            ("sharing", Shape::Word(&["user", "app", "global", "system"])),
            ("modifiable", Shape::Flag),
            ("can_list", Shape::Flag),
            ("can_write", Shape::Flag),
            ("removable", Shape::Flag),
            ("can_share_app", Shape::Flag),
            ("can_share_global", Shape::Flag),
            ("can_share_user", Shape::Flag),
            ("can_change_perms", Shape::Flag),
            ("perms", ROLES),
        ]),
    ),
    (
        "Rows",
        rows_with!(
            ("fields", Shape::List(&Shape::Object(&[("name", Shape::Text)]))),
            ("results", Shape::List(&ROW)),
            ("highlighted", EMPTY)
        ),
    ),
    ("RowsAsArrays", rows_with!(("fields", TEXTS), ("rows", CELLS))),
    ("Columns", rows_with!(("fields", TEXTS), ("columns", CELLS))),
    (
        "ExportedRow",
        Shape::Object(&[
            ("preview", Shape::Flag),
            ("offset", Shape::Count),
            ("lastrow", Shape::Optional(&Shape::Flag)),
            ("result", ROW),
        ]),
    ),
    (
        "ExportedMessages",
        Shape::Object(&[("preview", Shape::Flag), ("messages", Shape::List(&Shape::Named("Message")))]),
    ),
    ("Plan", super::plan_shape::PLAN),
];
/// Rows in each of the formats that are one JSON document.
const ROWS: Shape = Shape::Either(&[Shape::Named("Rows"), Shape::Named("RowsAsArrays"), Shape::Named("Columns")]);
const EXPORT_LINE: Shape = Shape::Either(&[
    Shape::Named("ExportedRow"),
    Shape::Named("ExportedMessages"),
    // The end of an answer without rows.
    Shape::Object(&[("preview", Shape::Flag), ("lastrow", Shape::Flag)]),
    Shape::Named("RowsAsArrays"),
    Shape::Named("Columns"),
]);

impl AnswerShape {
    /// The OpenAPI description of the answer; `is_whole` tells whether entities have all their members.
    pub(super) fn to_openapi(&self, is_whole: bool) -> Value {
        let mut content = Map::new();
        let mut json = |schema: Value| drop(content.insert(JSON.to_owned(), json!({ "schema": schema })));
        let texts: &[&str] = match self {
            AnswerShape::Entities(of) => {
                json(of.feed_schema(is_whole));
                &[XML]
            }
            AnswerShape::Json(shape) => {
                json(shape.schema(true));
                &[]
            }
            AnswerShape::JsonOrXml(shape) => {
                json(shape.schema(true));
                &[XML]
            }
            AnswerShape::JsonOrText(shape) => {
                json(shape.schema(true));
                &["text/plain"]
            }
            AnswerShape::Rows | AnswerShape::Lines => {
                json(if *self == AnswerShape::Rows { ROWS } else { EXPORT_LINE }.schema(true));
                &[XML, ROWS_AS_TEXT[0], ROWS_AS_TEXT[1]]
            }
            AnswerShape::Texts(types) => types,
            AnswerShape::Nothing => &[],
        };
        if *self == AnswerShape::Lines {
            content[JSON]["x-lines"] = true.into();
        }
        content.extend(texts.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": { "type": "string" } }))));
        if content.is_empty() {
            return json!({ "description": "Success, without a body." });
        }
        json!({ "description": "Success.", "content": content })
    }

    /// The named content of the answer, if it has one.
    pub(super) fn content(&self) -> Option<&Content> {
        if let AnswerShape::Entities(content) = self { Some(content) } else { None }
    }
}

/// The OpenAPI description of a refusal, which has the same form everywhere.
pub(super) fn refusal_openapi() -> Value {
    json!({
        "description": "Refused, with messages that say why.",
        "content": { JSON: { "schema": MESSAGES.schema(true) }, XML: { "schema": { "type": "string" } } },
    })
}

/// Name of the schema of some content.
fn schema_name(name: &str, is_whole: bool) -> String {
    format!("content.{name}{}", if is_whole { "" } else { ".selected" })
}

impl Content {
    /// The schema of the content, with the schema's name.
    pub(super) fn schema(&self, is_whole: bool) -> (String, Value) {
        let mut schema = self.shape.schema(is_whole);
        // Entities of most collections have this member, even if the request selects other members.
        if schema["type"] == "object" {
            schema["properties"][ACL_MEMBER] = json!({ "type": "null" });
        }
        (schema_name(&self.name, is_whole), schema)
    }

    fn feed_schema(&self, is_whole: bool) -> Value {
        let content = json!({ "$ref": format!("{SCHEMAS}{}", schema_name(&self.name, is_whole)) });
        let entry = json!({ "properties": { "content": content } });
        json!({
            "allOf": [Shape::Named("Feed").schema(true), { "properties": { "entry": { "items": entry } } }],
        })
    }
}
