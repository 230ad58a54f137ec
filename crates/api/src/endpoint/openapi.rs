//! `quarry/openapi.json`: the table of endpoints as an OpenAPI 3.1 document, for client generators and API explorers.
//!
//! Paths have no namespace; paths that are also served below `/servicesNS/USER/APP` are marked (`x-namespaced`).
//! Parameter types are the types that requests are checked against; answers are the answers stated in the rows
//! ([`super::answer_shape`]).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, NAMED_SCHEMAS, refusal_openapi};
use super::json_response as answer;
use super::row::{Access, Endpoint, EndpointRow, RequestBody};
use super::shape::Shape;
use super::table::ENDPOINTS;
use crate::parameter_types::{ParameterType, type_of};

/// OpenAPI version.
const OPENAPI: &str = "3.1.0";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let summary = "Describes all endpoints as an OpenAPI document.";
    vec![
        Endpoint::new(Method::GET, "quarry/openapi.json", Access::LoggedIn, summary, get(show))
            .without_namespace()
            .answers(AnswerShape::Json(Shape::Map(&Shape::Any))),
    ]
}

/// The document, which is the same while the program runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

async fn show() -> Response {
    answer(DOCUMENT.clone())
}

fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for row in ENDPOINTS.iter() {
        paths.entry(&row.path).or_default().insert(row.method.as_str().to_lowercase(), operation(row));
    }
    json!({
        "openapi": OPENAPI,
        "info": { "title": "Quarry", "version": env!("CARGO_PKG_VERSION"), "license": { "name": "Apache-2.0" } },
        "paths": paths,
        "components": { "schemas": schemas(), "responses": { REFUSED: refusal_openapi() }, "securitySchemes": {
            "basic": { "type": "http", "scheme": "basic" },
            "session": { "type": "apiKey", "in": "header", "name": "Authorization", "description": "Splunk KEY" },
        } },
    })
}

/// Name of the answer of a refused request.
const REFUSED: &str = "Refused";

/// Whether the entities of an answer always have all their members, because the endpoint has no parameter `f`, which
/// selects members.
fn is_whole(row: &EndpointRow) -> bool {
    !row.takes.contains(&"f")
}

/// The schemas that answers refer to.
fn schemas() -> BTreeMap<String, Value> {
    let named = NAMED_SCHEMAS.iter().map(|(name, shape)| ((*name).to_owned(), shape.schema(true)));
    let mut schemas: BTreeMap<String, Value> = named.collect();
    for row in ENDPOINTS.iter() {
        for content in row.answers.iter().flatten().filter_map(|(_, answer)| answer.content()) {
            let (name, schema) = content.schema(is_whole(row));
            let known = schemas.insert(name.clone(), schema.clone());
            debug_assert!(known.is_none_or(|known| known == schema), "two contents are named {name}");
        }
    }
    schemas
}

/// The answers of an endpoint by status.
fn responses(row: &EndpointRow) -> Map<String, Value> {
    let answers = row.answers.iter().flatten();
    let mut responses: Map<String, Value> =
        answers.map(|(status, answer)| (status.as_str().to_owned(), answer.to_openapi(is_whole(row)))).collect();
    let refused = [
        (row.access != Access::Open, StatusCode::UNAUTHORIZED),
        (matches!(row.access, Access::Capability(_)), StatusCode::FORBIDDEN),
        (row.path.contains('{'), StatusCode::NOT_FOUND),
    ];
    let refused =
        refused.into_iter().filter(|(is_possible, _)| *is_possible).map(|(_, status)| status.as_str().to_owned());
    let refusal = json!({ "$ref": format!("#/components/responses/{REFUSED}") });
    responses.extend(refused.chain(["default".to_owned()]).map(|status| (status, refusal.clone())));
    responses
}

fn operation(row: &EndpointRow) -> Value {
    let in_path = row.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let of_new: &[&str] = if row.may_create() { &["name"] } else { &[] };
    let (schemas, needs): (Map<String, Value>, Vec<&str>) = (
        row.needs.iter().chain(row.takes).chain(of_new).map(|name| ((*name).to_owned(), schema(name))).collect(),
        row.needs.to_vec(),
    );
    let mut operation = json!({ "summary": row.summary, "x-namespaced": row.is_namespaced });
    let is_post = row.method == Method::POST;
    let query = |name: &String, schema: &Value| json!({ "name": name, "in": "query", "required": needs.contains(&name.as_str()), "schema": schema });
    if !is_post || row.body == RequestBody::Bytes {
        parameters.extend(schemas.iter().map(|(name, schema)| query(name, schema)));
    }
    if is_post {
        let (kind, schema) = match row.body {
            RequestBody::Form => {
                let form = json!({ "type": "object", "properties": schemas, "required": needs });
                ("application/x-www-form-urlencoded", form)
            }
            RequestBody::JsonObject => ("application/json", json!({ "type": "object" })),
            RequestBody::JsonList => ("application/json", json!({ "type": "array", "items": { "type": "object" } })),
            RequestBody::Bytes => ("application/octet-stream", json!({ "type": "string", "format": "binary" })),
        };
        operation["requestBody"] = json!({ "content": { kind: { "schema": schema } } });
    }
    parameters.push(json!({ "name": "output_mode", "in": "query", "schema": schema("output_mode") }));
    operation["parameters"] = Value::Array(parameters);
    operation["responses"] = Value::Object(responses(row));
    match row.access {
        Access::Open => operation["security"] = json!([]),
        Access::LoggedIn => operation["security"] = json!([{ "basic": [] }, { "session": [] }]),
        Access::Capability(capability) => {
            operation["security"] = json!([{ "basic": [] }, { "session": [] }]);
            operation["x-capability"] = capability.into();
        }
    }
    operation
}

fn schema(name: &str) -> Value {
    match type_of(name) {
        None | Some(ParameterType::Time | ParameterType::SearchTime | ParameterType::Zone) => {
            json!({ "type": "string" })
        }
        Some(ParameterType::Flag) => json!({ "type": "boolean" }),
        Some(ParameterType::Count) => json!({ "type": "integer", "minimum": 0 }),
        Some(ParameterType::Limit) => json!({ "type": "integer", "minimum": -1 }),
        Some(ParameterType::Offset) => json!({ "type": "integer" }),
        Some(ParameterType::Number) => json!({ "type": "number", "minimum": 0 }),
        Some(ParameterType::Word(words)) => json!({ "type": "string", "enum": words }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_described_with_its_parameters() {
        let document = document();
        for row in ENDPOINTS.iter() {
            let operation = &document["paths"][&row.path][row.method.as_str().to_lowercase()];
            assert_eq!(operation["summary"], row.summary, "{} {}", row.method, row.path);
            let told = operation.to_string();
            for name in row.takes.iter().chain(row.needs) {
                assert!(told.contains(&format!("\"{name}\"")), "{} {}: {name}", row.method, row.path);
            }
            let named =
                operation["parameters"].as_array().unwrap().iter().filter(|parameter| parameter["in"] == "path");
            assert_eq!(named.count(), row.path.matches('{').count(), "{}", row.path);
        }
        assert_eq!(document["paths"]["/services/auth/login"]["post"]["security"], json!([]));
        let jobs = &document["paths"]["/services/search/jobs"]["post"];
        assert_eq!(jobs["x-capability"], "search");
        let index = &document["paths"]["/services/data/indexes/{name}"]["post"];
        let form = &index["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"];
        assert!(form["properties"]["name"].is_object() && index["responses"]["201"].is_object());
    }

    #[test]
    fn answers_refer_to_schemas_that_exist() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let (document, mut found) = (document(), Vec::new());
        references(&document, &mut found);
        assert!(found.len() > ENDPOINTS.len());
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
