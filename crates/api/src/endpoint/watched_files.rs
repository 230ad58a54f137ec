//! Files of `[monitor://]` and `[batch://]` stanzas: `data/inputs/monitor/NAME/members` lists the files of one stanza,
//! `admin/inputstatus/TailingProcessor:FileStatus` shows how much of each watched file has been read.
//!
//! Not here: the stanzas ([`super::inputs`]), reading the files ([`quarry_inputs::file`]).

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_inputs::file::{FileProgress, WatchedFile};
use quarry_stdx::number::f64_of;
use serde_json::{Map, Value, json};

use super::answer_shape::Content;
use super::entities::{scope_of, with_objects};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, EDIT_MONITOR, Endpoint, LIST_INPUTS, entities};
use super::run_blocking;
use super::shape::{Member, Shape};
use crate::ApiState;
use crate::atom::{Acl, Entry, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// The collection of input states.
const STATUS: &str = "admin/inputstatus";
/// The entity of this collection that shows the watched files.
const FILE_STATUS: &str = "TailingProcessor:FileStatus";
/// Path of the stanzas.
const MONITORS: &str = "data/inputs/monitor";
/// The conf of inputs, and the prefix of the stanzas in it.
const CONF: &str = "inputs";
const PREFIX: &str = "monitor://";
/// Maximum number of files in one answer, the first ones in alphabetical order.
const FILES_MAX: usize = 10_000;

/// State of a file.
const FILE: &[Member] = &[
    ("file position", Shape::Count),
    ("file size", Shape::Count),
    ("parent", Shape::Text),
    ("percent", Shape::Number),
    ("type", Shape::Text),
];
/// Content of the entity with all files.
const FILE_STATUS_CONTENT: Content =
    Content::new("inputstatus", Shape::Object(&[("inputs", Shape::Map(&Shape::Object(FILE)))]));
/// Content of a file of a stanza.
const MEMBER: Content = Content::new("inputs.monitor.members", Shape::Object(FILE));

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (watched, members) = (Access::Capability(LIST_INPUTS), Access::Capability(EDIT_MONITOR));
    let shown = "Shows how much of each watched file has been read.";
    let status = vec![
        Endpoint::new(Method::GET, STATUS, watched, shown, get(status)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, format!("{STATUS}/{{name}}"), watched, shown, get(status)),
    ];
    let path = format!("{MONITORS}/{{name}}/members");
    let list = Endpoint::new(Method::GET, path, members, "Lists the files that an input watches.", get(members_of));
    let mut rows = entities(status, &FILE_STATUS_CONTENT);
    rows.extend(entities(vec![list.takes(LIST_PARAMETERS)], &MEMBER));
    rows
}

/// The watched files: all of them, or those of one stanza.
async fn watched_files(state: &ApiState, monitor: Option<String>) -> Result<Vec<WatchedFile>, ApiError> {
    let node = state.node.clone();
    run_blocking(move || node.watched_files(monitor.as_deref(), FILES_MAX)).await
}

async fn status(State(state): State<ApiState>, parts: PathParts, parameters: Parameters) -> Result<Response, ApiError> {
    if let Some(name) = parts.get("name").filter(|name| *name != FILE_STATUS) {
        return Err(ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}")));
    }
    let files = watched_files(&state, None).await?;
    let inputs: Map<String, Value> =
        files.iter().map(|file| (file.path.display().to_string(), Value::Object(content(file)))).collect();
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{STATUS}");
    let content = Map::from_iter([("inputs".to_owned(), Value::Object(inputs))]);
    page("inputstatus", path.clone(), vec![entry(&path, FILE_STATUS.to_owned(), content)], &parameters)
}

async fn members_of(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (scope, name) = (scope_of(&parts, &caller)?, parts.get("name").cloned().unwrap_or_default());
    let stanza = format!("{PREFIX}{name}");
    with_objects(&state, &caller, move |objects, viewer| objects.get(CONF, &stanza, &scope, viewer)).await?;
    let files = watched_files(&state, Some(name.clone())).await?;
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{MONITORS}/{}/members", escape_segment(&name));
    let entries = files.iter().map(|file| entry(&path, file.path.display().to_string(), content(file))).collect();
    page("members", path, entries, &parameters)
}

/// The state of a file, with Splunk's names.
fn content(file: &WatchedFile) -> Map<String, Value> {
    let (position, bytes, state) = match file.progress {
        FileProgress::TooOld { bytes } => (0, bytes, "ignored file (modified before ignoreOlderThan)"),
        FileProgress::Waiting { bytes } => (0, bytes, "waiting to be read"),
        FileProgress::Read { offset, bytes } if offset < bytes => (offset, bytes, "open file"),
        FileProgress::Read { offset, bytes } => (offset, bytes, "finished reading"),
    };
    // A percentage needs no more than two decimals.
    let percent = if bytes == 0 { 100.0 } else { (f64_of(position) / f64_of(bytes) * 10_000.0).round() / 100.0 };
    let members = json!({
        "file position": position, "file size": bytes, "parent": file.stanza, "percent": percent, "type": state,
    });
    if let Value::Object(members) = members { members } else { Map::new() }
}

fn entry(collection: &str, name: String, content: Map<String, Value>) -> Entry {
    Entry {
        path: format!("{collection}/{}", escape_segment(&name)),
        name,
        author: NOBODY.to_owned(),
        app: APP_SYSTEM.to_owned(),
        acl: Acl::for_node(),
        fields: None,
        updated: 0,
        links: vec![("list", collection.to_owned())],
        content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_show_how_much_was_read() {
        let of = |progress: FileProgress| {
            let (path, stanza) = ("/var/log/a.log".into(), "/var/log".to_owned());
            let content = content(&WatchedFile { path, stanza, progress });
            let text = |name: &str| content[name].to_string();
            [text("file position"), text("percent"), text("type")]
        };
        let texts = |position: &str, percent: &str, state: &str| {
            [position.to_owned(), percent.to_owned(), format!("\"{state}\"")]
        };
        assert_eq!(of(FileProgress::Read { offset: 1, bytes: 3 }), texts("1", "33.33", "open file"));
        assert_eq!(of(FileProgress::Read { offset: 3, bytes: 3 }), texts("3", "100.0", "finished reading"));
        assert_eq!(of(FileProgress::Read { offset: 0, bytes: 0 }), texts("0", "100.0", "finished reading"));
        assert_eq!(of(FileProgress::Waiting { bytes: 3 }), texts("0", "0.0", "waiting to be read"));
    }
}
