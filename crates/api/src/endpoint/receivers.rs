//! `receivers/simple` and `receivers/stream`: events in a request body, broken up by the rules of their sourcetype.
//!
//! They are durable when the request is answered. Not here: the HTTP Event Collector, which is for high volume.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::post;
use quarry_apps::objects::NOBODY;
use serde_json::json;

use super::answer_shape::AnswerShape;
use super::blocking;
use super::row::{Access, EDIT_TCP, Endpoint, RequestBody};
use super::shape::Shape;
use crate::atom::Form;
use crate::caller::Caller;
use crate::message::{ApiError, xml_text};
use crate::parameters::Parameters;
use crate::{ApiState, ReceivedText};

/// Default index.
const INDEX: &str = "main";
/// Default source and sourcetype, by the last part of the path.
const NAMES: [(&str, &str); 2] = [("simple", "http-simple"), ("stream", "http-stream")];
/// Parameters.
const TAKEN: &[&str] = &["index", "host", "source", "sourcetype"];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |(name, _): &(&str, &str)| {
        let (path, access) = (format!("receivers/{name}"), Access::Capability(EDIT_TCP));
        Endpoint::new(Method::POST, path, access, "Indexes the request's body.", post(receive))
            .body(RequestBody::Bytes)
            .takes(TAKEN)
            .answers(AnswerShape::JsonOrXml(RECEIVED))
    };
    NAMES.iter().map(row).collect()
}

const RECEIVED: Shape = Shape::Object(&[
    ("index", Shape::Text),
    ("bytes", Shape::Count),
    ("host", Shape::Text),
    ("source", Shape::Text),
    ("sourcetype", Shape::Text),
]);

async fn receive(State(state): State<ApiState>, caller: Caller, uri: Uri, body: Bytes) -> Result<Response, ApiError> {
    let parameters = Parameters::of_query(uri.query().unwrap_or_default());
    let otherwise = NAMES.iter().find(|(name, _)| uri.path().ends_with(name)).map_or(NOBODY, |(_, name)| name);
    let text = |name: &str, otherwise: &str| {
        parameters.text(name).filter(|text| !text.is_empty()).unwrap_or_else(|| otherwise.to_owned())
    };
    let received = ReceivedText {
        index: text("index", INDEX),
        host: text("host", &caller.origin.address.to_string()),
        source: text("source", otherwise),
        sourcetype: text("sourcetype", otherwise),
        text: body.to_vec(),
    };
    if received.text.is_empty() {
        return Err(ApiError::bad_request("there is no event: the body of the request is empty"));
    }
    if [&received.host, &received.source, &received.sourcetype].iter().any(|text| text.chars().any(char::is_control)) {
        return Err(ApiError::bad_request("host, source and sourcetype are one line without control characters"));
    }
    if !caller.permissions.may_write(&received.index) {
        return Err(ApiError::forbidden(format!(
            "user {} may not write into {}",
            caller.identity.user, received.index
        )));
    }
    let (node, taken) = (state.node.clone(), received.clone());
    blocking(move || node.receive(&taken)).await??;
    let fields = [
        ("_index", received.index.clone()),
        ("bytes", received.text.len().to_string()),
        ("host", received.host.clone()),
        ("source", received.source.clone()),
        ("sourcetype", received.sourcetype.clone()),
    ];
    let form = Form::of(parameters.get("output_mode"));
    Ok(form.answer(match form {
        Form::Json => json!({
            "index": received.index, "bytes": received.text.len(), "host": received.host, "source": received.source,
            "sourcetype": received.sourcetype,
        })
        .to_string(),
        Form::Atom => {
            let field = |(name, value): &(&str, String)| {
                format!("      <field k='{name}'><value><text>{}</text></value></field>\n", xml_text(value))
            };
            let fields: String = fields.iter().map(field).collect();
            format!("<response>\n  <results>\n    <result>\n{fields}    </result>\n  </results>\n</response>\n")
        }
    }))
}
