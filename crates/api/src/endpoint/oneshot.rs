//! `POST /services/data/inputs/oneshot`: indexes a file on the server once. Indexing stops if the client disconnects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::post;
use quarry_apps::objects::NOBODY;
use serde_json::Value;

use super::answer_shape::{AnswerShape, Content};
use super::row::{Access, EDIT_MONITOR, Endpoint, SERVICES};
use super::run_blocking;
use super::server_state::entity;
use super::shape::Shape;
use crate::atom::{Feed, Form};
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{AddFile, ApiState};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let access = Access::Capability(EDIT_MONITOR);
    vec![
        Endpoint::new(Method::POST, PATH, access, "Indexes a file on the node's machine once.", post(add))
            .needs(&["name"])
            .takes(&["index", "host", "rename-source", "sourcetype", "again", "zone"])
            .answers(AnswerShape::Entities(Content::new("data.inputs.oneshot", ADDED))),
    ]
}

const PATH: &str = "data/inputs/oneshot";

/// The report of an added file.
pub(super) const ADDED: Shape = Shape::Object(&[
    ("bytes", Shape::Count),
    ("events", Shape::Count),
    ("bad_timestamps", Shape::Count),
    ("truncated_lines", Shape::Count),
    ("dropped_events", Shape::Count),
    ("skipped", Shape::Flag),
    ("stored_as", Shape::Nullable(&Shape::Text)),
    ("resumed_at", Shape::Count),
    ("interrupted", Shape::Flag),
    ("sourcetype", Shape::Nullable(&Shape::Text)),
    ("shrunk", Shape::Nullable(&Shape::List(&Shape::Count))),
    ("problem", Shape::Nullable(&Shape::Text)),
    ("warnings", Shape::List(&Shape::Text)),
]);

/// Tells the node that the client has disconnected, so that the node stops reading a file that may never end.
pub(super) struct DisconnectGuard(Arc<AtomicBool>);

impl DisconnectGuard {
    /// Sets the flag when dropped.
    pub(super) fn of(has_left: &Arc<AtomicBool>) -> DisconnectGuard {
        DisconnectGuard(Arc::clone(has_left))
    }
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Splunk's parameters; `again` and `zone` are specific to Quarry.
async fn add(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let request = AddFile {
        path: parameters.required("name")?.to_owned(),
        index: parameters.text("index").unwrap_or_else(|| "main".to_owned()),
        sourcetype: parameters.text("sourcetype"),
        host: parameters.text("host"),
        source: parameters.text("rename-source"),
        again: parameters.is_set("again"),
        zone: parameters.text("zone"),
    };
    let (node, name) = (state.node.clone(), request.path.clone());
    let has_left = Arc::<AtomicBool>::default();
    let _attendance = DisconnectGuard::of(&has_left);
    let report = run_blocking(move || node.add_file(&request, &has_left)).await?;
    let report = report.map_err(|error| ApiError::bad_request(error.to_string()))?;
    let report: Value = serde_json::from_str(&report).unwrap_or_default();
    let entry = entity(PATH, &name, NOBODY, state.auth.now(), report);
    Ok(Feed::of("oneshot", format!("{SERVICES}/{PATH}"), vec![entry]).answer(Form::of(parameters.get("output_mode"))))
}
