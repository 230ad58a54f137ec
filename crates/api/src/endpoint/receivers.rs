//! `receivers/simple` and `receivers/stream`: text in a request body, broken into events by the rules of its
//! sourcetype.
//!
//! The events are durable when the request is answered. With the header `X-Splunk-Input-Mode: Streaming`, which the
//! `attach` functions of Splunk's SDKs send, the body may last as long as the connection. Not here: the HTTP Event
//! Collector, which is for high volume.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt;
use quarry_apps::objects::NOBODY;
use serde_json::json;

use super::answer_shape::AnswerShape;
use super::row::{Access, EDIT_TCP, Endpoint, RequestBody};
use super::run_blocking;
use super::shape::Shape;
use crate::atom::Form;
use crate::caller::Caller;
use crate::message::{ApiError, escape_xml};
use crate::parameters::Parameters;
use crate::{ApiState, ReceivedText};

/// Default index.
const INDEX: &str = "main";
/// Default source and sourcetype, by the last part of the path.
const DEFAULT_NAMES: [(&str, &str); 2] = [("simple", "http-simple"), ("stream", "http-stream")];
/// Header field and value of a request whose body lasts until its connection ends.
const MODE: (&str, &str) = ("x-splunk-input-mode", "streaming");
/// Number of received bytes at which the text of such a body is stored.
const STREAM_BATCH_BYTES: usize = 1 << 20;
/// Idle time of such a body after which complete lines are stored.
const STREAM_IDLE: Duration = Duration::from_millis(500);
/// Parameters that set the metadata of the events.
const METADATA_PARAMETERS: &[&str] = &["index", "host", "source", "sourcetype"];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |(name, _): &(&str, &str)| {
        let (path, access) = (format!("receivers/{name}"), Access::Capability(EDIT_TCP));
        Endpoint::new(Method::POST, path, access, "Indexes the request's body.", post(receive))
            .body(RequestBody::Bytes)
            .takes(METADATA_PARAMETERS)
            .answers(AnswerShape::JsonOrXml(RECEIVED))
    };
    DEFAULT_NAMES.iter().map(row).collect()
}

const RECEIVED: Shape = Shape::Object(&[
    ("index", Shape::Text),
    ("bytes", Shape::Count),
    ("host", Shape::Text),
    ("source", Shape::Text),
    ("sourcetype", Shape::Text),
]);

async fn receive(
    State(state): State<ApiState>,
    caller: Caller,
    uri: Uri,
    request: Request,
) -> Result<Response, ApiError> {
    let parameters = Parameters::from_query(uri.query().unwrap_or_default());
    let mut received = parse_metadata(&parameters, &caller, uri.path());
    let mode = request.headers().get(MODE.0).and_then(|value| value.to_str().ok());
    if mode.is_some_and(|mode| mode.eq_ignore_ascii_case(MODE.1)) {
        check(&received, &caller)?;
        let bytes = receive_stream(&state, &received, request.into_body()).await?;
        return Ok(answer(&received, bytes, &parameters));
    }
    received.text = match Bytes::from_request(request, &state).await {
        Ok(body) => body.to_vec(),
        Err(refused) => return Ok(refused.into_response()),
    };
    if received.text.is_empty() {
        return Err(ApiError::bad_request("there is no event: the body of the request is empty"));
    }
    check(&received, &caller)?;
    let (node, taken) = (state.node.clone(), received.clone());
    run_blocking(move || node.receive(&taken)).await??;
    Ok(answer(&received, received.text.len(), &parameters))
}

/// Receives events as they arrive. Complete lines are stored when there are many lines or the client has been idle for
/// a while. The remaining text is stored when the connection ends, even if the connection breaks, because the client
/// will not send this text again; a broken connection is an error, because the body may be incomplete. Returns the
/// number of bytes.
async fn receive_stream(state: &ApiState, metadata: &ReceivedText, body: Body) -> Result<usize, ApiError> {
    let mut frames = body.into_data_stream();
    let (mut text, mut bytes, mut is_open, mut is_broken) = (Vec::new(), 0, true, false);
    while is_open {
        let is_idle = match tokio::time::timeout(STREAM_IDLE, frames.next()).await {
            Ok(Some(Ok(frame))) => {
                text.extend_from_slice(&frame);
                false
            }
            Ok(end @ (Some(Err(_)) | None)) => {
                (is_open, is_broken) = (false, end.is_some());
                false
            }
            Err(_) => true,
        };
        let lines = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let due = match (is_open, is_idle || text.len() >= STREAM_BATCH_BYTES) {
            (false, _) => text.len(),
            (true, true) if lines == 0 && text.len() >= STREAM_BATCH_BYTES => text.len(),
            (true, true) => lines,
            (true, false) => 0,
        };
        if due > 0 {
            let rest = text.split_off(due);
            let taken = ReceivedText { text: std::mem::replace(&mut text, rest), ..metadata.clone() };
            let node = state.node.clone();
            run_blocking(move || node.receive(&taken)).await??;
            bytes += due;
        }
    }
    if is_broken {
        return Err(ApiError::bad_request(format!("the connection broke; the {bytes} bytes that arrived are stored")));
    }
    Ok(bytes)
}

/// Index, host, source and sourcetype of the events of a request.
fn parse_metadata(parameters: &Parameters, caller: &Caller, path: &str) -> ReceivedText {
    let otherwise = DEFAULT_NAMES.iter().find(|(name, _)| path.ends_with(name)).map_or(NOBODY, |(_, name)| name);
    let text = |name: &str, otherwise: &str| {
        parameters.text(name).filter(|text| !text.is_empty()).unwrap_or_else(|| otherwise.to_owned())
    };
    ReceivedText {
        index: text("index", INDEX),
        host: text("host", &caller.origin.address.to_string()),
        source: text("source", otherwise),
        sourcetype: text("sourcetype", otherwise),
        text: Vec::new(),
    }
}

fn check(received: &ReceivedText, caller: &Caller) -> Result<(), ApiError> {
    if [&received.host, &received.source, &received.sourcetype].iter().any(|text| text.chars().any(char::is_control)) {
        return Err(ApiError::bad_request(
            "host, source and sourcetype must not contain control characters, such as tabs and line feeds",
        ));
    }
    if !caller.permissions.may_write(&received.index) {
        let (user, index) = (&caller.identity.user, &received.index);
        return Err(ApiError::forbidden(format!("user {user} may not write into {index}")));
    }
    Ok(())
}

fn answer(received: &ReceivedText, bytes: usize, parameters: &Parameters) -> Response {
    let fields = [
        ("_index", received.index.clone()),
        ("bytes", bytes.to_string()),
        ("host", received.host.clone()),
        ("source", received.source.clone()),
        ("sourcetype", received.sourcetype.clone()),
    ];
    let form = Form::of(parameters.get("output_mode"));
    form.answer(match form {
        Form::Json => json!({
            "index": received.index, "bytes": bytes, "host": received.host, "source": received.source,
            "sourcetype": received.sourcetype,
        })
        .to_string(),
        Form::Atom => {
            let field = |(name, value): &(&str, String)| {
                format!("      <field k='{name}'><value><text>{}</text></value></field>\n", escape_xml(value))
            };
            let fields: String = fields.iter().map(field).collect();
            format!("<response>\n  <results>\n    <result>\n{fields}    </result>\n  </results>\n</response>\n")
        }
    })
}
