//! `/services/indexing/preview` and `/api/v1/ingest/preview`: show the events into which a file on the server, or a
//! text in the request, would be split.
//!
//! With `input.path`, a `POST` to `indexing/preview` creates a job with the events, as in Splunk, and answers with the ID
//! of the job as a message; with `name`, it answers with the preview itself. A `GET` lists these jobs with the settings
//! of props.conf that apply to the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use quarry_apps::objects::ObjectError;
use quarry_search::jobs::SearchJob;
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, Content, MESSAGES};
use super::entities::{scope_of, with_objects};
use super::jobs::{APP, acl_of, find_job, job_refusal, message_response};
use super::listing::{LIST_PARAMETERS, page_in_order, select_members};
use super::path_parts::PathParts;
use super::row::{Access, EDIT_MONITOR, Endpoint, RequestBody, SERVICES};
use super::search_jobs::service_of;
use super::shape::Shape;
use super::{json_response, run_blocking};
use crate::atom::{Entry, Feed, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::{ApiState, PreviewFile, PreviewText};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let access = Access::Capability(EDIT_MONITOR);
    let summary =
        "Creates a job with the events of the file at input.path on the node's machine, or previews the file.";
    let one = format!("{PATH}/{{sid}}");
    let of_file = "Shows the settings of props.conf for a previewed file.";
    vec![
        Endpoint::new(Method::GET, PATH, access, "Lists the jobs with events of previewed files.", get(list))
            .takes(LIST_PARAMETERS)
            .answers(AnswerShape::Entities(FILE)),
        Endpoint::new(Method::POST, PATH, access, summary, post(preview))
            .takes(&["input.path", "name", "sourcetype", "zone", "count"])
            .takes_patterns(&["props.*"])
            .answers(AnswerShape::JsonOrXml(PREVIEW_OR_SID)),
        Endpoint::new(Method::GET, one.as_str(), access, of_file, get(show))
            .takes(&["f"])
            .answers(AnswerShape::Entities(FILE)),
        // Splunk Web reads the settings with a `POST`.
        Endpoint::new(Method::POST, one, access, of_file, post(show)).answers(AnswerShape::Entities(FILE)),
        Endpoint::new(
            Method::POST,
            "ingest/preview",
            access,
            "Previews the events of a text, which is the request's body; parameters are in the URL.",
            post(preview_text),
        )
        .in_quarry_api()
        .body(RequestBody::Bytes)
        .takes(&["source", "sourcetype", "zone", "count"])
        .answers(AnswerShape::Json(PREVIEW)),
    ]
}

const PATH: &str = "indexing/preview";
const TITLE: &str = "preview";
/// The conf with the settings of files.
const PROPS_CONF: &str = "props";

/// The settings that the request has set for a file, and those of its sourcetype, each with the stanza that has it.
const FILE: Content = Content::new(
    "indexing.preview",
    Shape::Object(&[("explicit", SETTINGS), ("inherited", SETTINGS), ("sid", Shape::Text)]),
);
const SETTINGS: Shape = Shape::Map(&Shape::Object(&[("stanza", Shape::Text), ("value", Shape::Text)]));

/// A preview, or the ID of the job with the events as the text of a message.
const PREVIEW_OR_SID: Shape = Shape::Either(&[PREVIEW, MESSAGES]);

/// The events of a file as they would be indexed.
const PREVIEW: Shape = Shape::Object(&[
    ("file", Shape::Text),
    ("bytes", Shape::Count),
    ("zone", Shape::Text),
    ("zone_reason", Shape::Text),
    ("notes", Shape::List(&Shape::Text)),
    ("sourcetype", Shape::Text),
    ("sourcetype_reason", Shape::Text),
    ("problem", Shape::Nullable(&Shape::Text)),
    ("events_seen", Shape::Count),
    ("bad_timestamps", Shape::Count),
    (
        "events",
        Shape::List(&Shape::Object(&[
            ("_time", Shape::Text),
            ("reason", Shape::Text),
            ("zone_in_text", Shape::Nullable(&Shape::Text)),
            ("fallback", Shape::Flag),
            ("lines", Shape::Count),
            ("_raw", Shape::Text),
            ("index", Shape::Text),
            ("host", Shape::Text),
            ("source", Shape::Text),
            ("sourcetype", Shape::Text),
        ])),
    ),
    ("props_conf", Shape::Nullable(&Shape::Text)),
]);

/// Prefix of the parameters that set settings of props.conf for the file.
const PROPS: &str = "props.";

/// Default source of a text.
const SOURCE: &str = "preview";

async fn preview_text(State(state): State<ApiState>, uri: Uri, body: Bytes) -> Result<Response, ApiError> {
    let parameters = Parameters::from_query(uri.query().unwrap_or_default());
    if body.is_empty() {
        return Err(ApiError::bad_request("there is no text: send the beginning of a file as the body of the request"));
    }
    let request = PreviewText {
        text: body.to_vec(),
        source: parameters.text("source").filter(|source| !source.is_empty()).unwrap_or_else(|| SOURCE.to_owned()),
        sourcetype: parameters.text("sourcetype").filter(|name| !name.is_empty()),
        zone: parameters.text("zone"),
        events: parameters.number("count")?,
    };
    let node = state.node.clone();
    let made = run_blocking(move || node.preview_text(&request)).await?;
    made.map(json_response).map_err(|error| ApiError::bad_request(error.to_string()))
}

async fn preview(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let Some(name) = parameters.get("name") else { return create_job(state, place, caller, parameters).await };
    let request = PreviewFile {
        path: name.to_owned(),
        sourcetype: parameters.text("sourcetype"),
        zone: parameters.text("zone"),
        events: parameters.number("count")?,
    };
    let node = state.node.clone();
    let made = run_blocking(move || node.preview(&request)).await?;
    made.map(json_response).map_err(|error| ApiError::bad_request(error.to_string()))
}

async fn create_job(
    state: ApiState,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let path = parameters.required("input.path")?.to_owned();
    let form = Form::of(parameters.get("output_mode"));
    let zone = service_of(&state, &caller, &place).await?.zone();
    let app = place.get("app").cloned().unwrap_or_else(|| APP.to_owned());
    let of_props = |(name, value): (String, String)| Some((name.strip_prefix(PROPS)?.to_owned(), value));
    let props: Vec<(String, String)> = parameters.into_pairs().into_iter().filter_map(of_props).collect();
    let (node, jobs) = (state.node.clone(), Arc::clone(&state.jobs));
    let created = run_blocking(move || {
        let mut file = node.preview_events(&path, &props).map_err(|error| ApiError::bad_request(error.to_string()))?;
        file.props = props.into_iter().collect();
        jobs.create_preview(&caller.permissions, (&app, zone), file)
            .map_err(|error| job_refusal(error).unwrap_or_else(|error| ApiError::internal(error.to_string())))
    });
    Ok(message_response(form, created.await??.sid()))
}

async fn list(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (jobs, permissions) = (Arc::clone(&state.jobs), Arc::clone(&caller.permissions));
    let found = run_blocking(move || jobs.list(&permissions)).await?;
    let entries = previewed_files(&state, &place, &caller, found).await?;
    let feed = page_in_order(TITLE, format!("{SERVICES}/{PATH}"), entries, &parameters)?;
    Ok(feed.answer(Form::of(parameters.get("output_mode"))))
}

async fn show(
    State(state): State<ApiState>,
    place: PathParts,
    caller: Caller,
    method: Method,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let job = find_job(&state, &caller, &place).await?;
    let sid = job.sid().to_owned();
    let mut shown = previewed_files(&state, &place, &caller, vec![job]).await?;
    let Some(entry) = shown.first() else { return Err(ObjectError::Unknown(sid).into()) };
    let path = entry.path.clone();
    if method != Method::POST {
        select_members(&mut shown, &parameters.list("f"));
    }
    Ok(Feed::of(TITLE, path, shown).answer(Form::of(parameters.get("output_mode"))))
}

/// The previewed files among these jobs.
async fn previewed_files(
    state: &ApiState,
    place: &PathParts,
    caller: &Caller,
    jobs: Vec<Arc<SearchJob>>,
) -> Result<Vec<Entry>, ApiError> {
    let (scope, asking) = (scope_of(place, caller)?, caller.clone());
    with_objects(state, caller, move |objects, viewer| {
        // The conf is read once for each sourcetype, not for each job.
        let mut known: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let of_job = |job: &Arc<SearchJob>| {
            let status = job.status();
            let (record, file) = (&status.record, status.record.previewed()?);
            let inherited = known.entry(file.sourcetype.clone()).or_insert_with(|| {
                let stanza = objects.get(PROPS_CONF, &file.sourcetype, &scope, viewer);
                stanza.map_or_else(|_| BTreeMap::new(), |stanza| stanza.settings)
            });
            let content = [
                ("explicit", settings("", &file.props)),
                ("inherited", settings(&file.sourcetype, inherited)),
                ("sid", record.sid().into()),
            ];
            let path = format!("{SERVICES}/{PATH}/{}", escape_segment(record.sid()));
            Some(Entry {
                name: record.sid().to_owned(),
                path: path.clone(),
                author: record.user().to_owned(),
                app: record.app().to_owned(),
                acl: acl_of(record, &asking),
                fields: None,
                updated: status.updated_ns,
                links: vec![("list", path)],
                content: content.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            })
        };
        Ok(jobs.iter().filter_map(of_job).collect())
    })
    .await
}

/// Settings with the stanza that has them.
fn settings(stanza: &str, settings: &BTreeMap<String, String>) -> Value {
    let one = |(name, value): (&String, &String)| (name.clone(), json!({ "stanza": stanza, "value": value }));
    Value::Object(settings.iter().map(one).collect::<Map<String, Value>>())
}
