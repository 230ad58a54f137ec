//! `POST /api/v1/ingest/file`: indexes a file that is sent as the request's body.
//!
//! Parameters are in the URL. The file is handled like a file on the server's machine ([`super::oneshot`]): its
//! compression and sourcetype are recognised, and parts that were indexed before are skipped. Indexing stops if the
//! client disconnects.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::post;
use futures::StreamExt;

use super::answer_shape::AnswerShape;
use super::oneshot::{ADDED, DisconnectGuard};
use super::row::{Access, EDIT_TCP, Endpoint, RequestBody};
use super::{json_response, run_blocking};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::uploads::{UPLOADS_MAX, Upload};
use crate::{AddFile, ApiState};

/// Number of bytes collected before they are written.
const PART_BYTES: usize = 1 << 20;
/// Default index.
const INDEX: &str = "main";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(
            Method::POST,
            "ingest/file",
            Access::Capability(EDIT_TCP),
            "Indexes a file, which is the request's body; parameters are in the URL.",
            post(receive),
        )
        .in_quarry_api()
        .body(RequestBody::Bytes)
        .needs(&["name"])
        .takes(&["index", "host", "rename-source", "sourcetype", "again", "zone", "modified"])
        .answers(AnswerShape::Json(ADDED)),
    ]
}

async fn receive(State(state): State<ApiState>, caller: Caller, uri: Uri, body: Body) -> Result<Response, ApiError> {
    let parameters = Parameters::from_query(uri.query().unwrap_or_default());
    let name = parameters.required("name")?.to_owned();
    let text = |name: &str| parameters.text(name).filter(|text| !text.is_empty());
    let (index, host) = (text("index").unwrap_or_else(|| INDEX.to_owned()), text("host"));
    let source = text("rename-source").unwrap_or_else(|| name.clone());
    let sourcetype = text("sourcetype");
    let named = [Some(&source), host.as_ref(), sourcetype.as_ref()];
    if named.into_iter().flatten().any(|text| text.chars().any(char::is_control)) {
        return Err(ApiError::bad_request(
            "name, host and sourcetype must not contain control characters, such as tabs and line feeds",
        ));
    }
    if !caller.permissions.may_write(&index) {
        return Err(ApiError::forbidden(format!("user {} may not write into {index}", caller.identity.user)));
    }
    state.node.check_index_name(&index)?;
    let (uploads, own_name) = (state.uploads.clone(), name.clone());
    let begun = run_blocking(move || uploads.begin(&own_name)).await?;
    let upload = begun.ok_or_else(|| {
        ApiError::too_many(format!("{UPLOADS_MAX} files are being received, the maximum: try again"))
    })??;
    let upload = write_body(&state, upload, body).await?;
    if let Some(seconds) = parameters.get("modified").and_then(|text| text.trim().parse().ok()) {
        upload.set_modified(seconds)?;
    }
    let path = upload.path().display().to_string();
    let request = AddFile {
        path: path.clone(),
        index,
        sourcetype,
        host: host.or_else(|| Some(caller.origin.address.to_string())),
        source: Some(source),
        again: parameters.is_set("again"),
        zone: text("zone"),
    };
    let node = state.node.clone();
    let has_left = Arc::<AtomicBool>::default();
    let _attendance = DisconnectGuard::of(&has_left);
    let report = run_blocking(move || {
        let report = node.add_file(&request, &has_left);
        drop(upload);
        report
    });
    // Answers name the file as the client does, not by its path on this machine.
    let shown = |text: String| text.replace(&path, &name);
    match report.await? {
        Ok(report) => Ok(json_response(shown(report))),
        Err(error) => Err(ApiError::bad_request(shown(error.to_string()))),
    }
}

/// Writes a body to a file.
async fn write_body(state: &ApiState, upload: Upload, body: Body) -> Result<Upload, ApiError> {
    let mut chunks = body.into_data_stream();
    let (mut upload, mut part) = (upload, Vec::new());
    loop {
        let chunk = chunks.next().await.transpose();
        let chunk = chunk.map_err(|error| ApiError::bad_request(format!("the file ends early: {error}")))?;
        let is_end = chunk.is_none();
        part.extend_from_slice(&chunk.unwrap_or_default());
        if part.len() >= PART_BYTES || (is_end && !part.is_empty()) {
            let (node, bytes) = (state.node.clone(), std::mem::take(&mut part));
            let written = run_blocking(move || upload.write(&bytes, &node.condition()).map(|()| upload));
            upload = written.await??;
        }
        if is_end {
            return Ok(upload);
        }
    }
}
