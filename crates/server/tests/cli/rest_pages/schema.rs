//! Validates answers against the schemas of `/services/quarry/openapi.json`.
//!
//! The keywords of JSON Schema that the document uses are evaluated here; any other keyword fails the test.
//! Schemathesis (`tests/clients`) evaluates the same document with a library. Not here: the pages that send the
//! requests.

use quarry_api::{ENDPOINTS, EndpointRow};
use serde_json::{Map, Value, json};

/// The description of all endpoints.
#[derive(Debug)]
pub(super) struct Description(Value);

/// Properties of an answer that the document describes.
pub(super) struct AnswerFacts<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) status: u16,
    pub(super) media_type: Option<&'a str>,
    pub(super) text: &'a str,
}

impl Description {
    pub(super) fn of(document: &str) -> Description {
        Description(serde_json::from_str(document).unwrap())
    }

    /// The first difference between an answer and its description, if any.
    pub(super) fn fault(&self, answer: &AnswerFacts<'_>) -> Option<String> {
        let Some(row) = row_of(answer.method, answer.path) else {
            // No endpoint serves this path.
            return (answer.status < 400).then(|| "no endpoint of the description is asked".to_owned());
        };
        let operation = &self.0["paths"][&row.path][answer.method.to_lowercase()];
        let responses = &operation["responses"];
        let own = &responses[answer.status.to_string()];
        let response = if own.is_object() { own } else { &responses["default"] };
        if answer.status < 400 && !own.is_object() {
            return Some(format!("status {} is not described", answer.status));
        }
        let response = self.resolved(response);
        let Some(content) = response["content"].as_object() else {
            return (!answer.text.is_empty()).then(|| "a body is not described".to_owned());
        };
        let essence = answer.media_type.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        let Some(body) = content.get(essence) else { return Some(format!("{essence} is not described")) };
        if essence != "application/json" {
            return None;
        }
        let documents: Vec<&str> = match body.get("x-lines") {
            Some(_) => answer.text.lines().collect(),
            None => vec![answer.text],
        };
        documents.into_iter().find_map(|document| match serde_json::from_str(document) {
            Ok(value) => self.check(&value, &body["schema"]).err(),
            Err(error) => Some(format!("no JSON: {error}")),
        })
    }

    /// Names of the fields in the content of the entities at a path; `None` if any name is allowed.
    pub(super) fn content_members(&self, path: &str) -> Option<Vec<String>> {
        let row = row_of("GET", path)?;
        let feed = &self.0["paths"][&row.path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let content = self.resolved(feed.pointer("/allOf/1/properties/entry/items/properties/content")?);
        let members =
            content["properties"].as_object().map_or_else(Vec::new, |members| members.keys().cloned().collect());
        (content["additionalProperties"] == false).then_some(members)
    }

    fn resolved<'v>(&'v self, value: &'v Value) -> &'v Value {
        match value["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.trim_start_matches('#')).unwrap(),
            None => value,
        }
    }

    /// Evaluates a schema.
    fn check(&self, value: &Value, schema: &Value) -> Result<(), String> {
        let empty = Map::new();
        let keywords = schema.as_object().unwrap_or(&empty);
        for (keyword, wanted) in keywords {
            match keyword.as_str() {
                "$ref" => self.check(value, self.resolved(schema))?,
                "allOf" => wanted.as_array().unwrap().iter().try_for_each(|schema| self.check(value, schema))?,
                "anyOf" => {
                    let faults: Vec<String> = wanted
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter_map(|schema| self.check(value, schema).err())
                        .collect();
                    if faults.len() == wanted.as_array().unwrap().len() {
                        return Err(faults.join(", and "));
                    }
                }
                "type" if !is_of_type(value, wanted) => return Err(format!("{} is no {wanted}", shown(value))),
                "enum" if !wanted.as_array().unwrap().contains(value) => {
                    return Err(format!("{} is none of {wanted}", shown(value)));
                }
                "minimum" if value.as_f64() < wanted.as_f64() => {
                    return Err(format!("{} is less than {wanted}", shown(value)));
                }
                "items" => {
                    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(item, wanted).map_err(|fault| format!("{at}: {fault}"))?;
                    }
                }
                "required" => {
                    let is_there = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                    if let Some(missing) =
                        wanted.as_array().unwrap().iter().find(|name| value.is_object() && !is_there(name))
                    {
                        return Err(format!("{missing} is missing in {}", shown(value)));
                    }
                }
                "properties" | "additionalProperties" => {}
                "type" | "enum" | "minimum" => {}
                keyword => panic!("the keyword {keyword} of a schema is not evaluated"),
            }
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            let schema = keywords.get("properties").and_then(|properties| properties.get(name));
            match schema.or_else(|| keywords.get("additionalProperties")) {
                None | Some(Value::Bool(true)) => {}
                Some(Value::Bool(false)) => return Err(format!("{name} is not described: {}", shown(member))),
                Some(schema) => self.check(member, schema).map_err(|fault| format!("{name}: {fault}"))?,
            }
        }
        Ok(())
    }
}

fn is_of_type(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        kind => panic!("the type {kind} of a schema is not evaluated"),
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// The row that serves a path. If several rows match, it is the one whose fixed parts match earliest, as in the router.
fn row_of(method: &str, path: &str) -> Option<&'static EndpointRow> {
    let rows = ENDPOINTS.iter().filter(|row| row.method == method && super::is_of(path, &row.path));
    rows.min_by_key(|row| row.path.split('/').map(|part| part.starts_with('{')).collect::<Vec<_>>())
}

#[test]
fn an_answer_outside_its_schema_is_found() {
    let description = Description(json!({ "components": { "schemas": { "N": { "type": "integer", "minimum": 0 } } } }));
    let schema = json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {
            "a": { "type": "array", "items": { "$ref": "#/components/schemas/N" } },
            "b": { "anyOf": [{ "type": "string", "enum": ["x"] }, { "type": "null" }] },
        },
    });
    for good in [json!({ "a": [] }), json!({ "a": [0, 1.0], "b": null }), json!({ "a": [], "b": "x" })] {
        assert_eq!(description.check(&good, &schema), Ok(()), "{good}");
    }
    for bad in [
        json!({}),
        json!([]),
        json!({ "a": 1 }),
        json!({ "a": [-1] }),
        json!({ "a": [0.5] }),
        json!({ "a": [], "b": "y" }),
        json!({ "a": [], "c": 1 }),
    ] {
        assert!(description.check(&bad, &schema).is_err(), "{bad}");
    }
}
