//! What the node knows of itself, to be read: its indexes, apps, lookups, saved searches and so on.
//!
//! The entries are those of `| rest`, of which this is the HTTP form. `count`, `offset` and `search` (a text that an entry's
//! name must hold) choose among them; `PATH/NAME` is one of them. Not here: changing them.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{MatchedPath, Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use quarry_engine::NodeEntry;
use serde_json::{Map, Value};

use super::{ROOTS, blocking};
use crate::ApiState;
use crate::atom::{Entry, Feed, Form, NOBODY, escaped};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Collections below a root, and what Atom calls them. Each has a row of [`super::access::ENDPOINTS`].
const COLLECTIONS: [(&str, &str); 9] = [
    ("admin/macros", "macros"),
    ("admin/summarization", "summarization"),
    ("apps/local", "localapps"),
    ("data/indexes", "indexes"),
    ("data/lookup-table-files", "lookup-table-files"),
    ("data/props/extractions", "props-extract"),
    ("data/transforms/lookups", "transforms-lookup"),
    ("datamodel/model", "datamodel"),
    ("saved/searches", "savedsearch"),
];
/// What has one entry alone.
const SERVER_INFO: (&str, &str) = ("server/info", "server-info");
/// Entries of a page unless told otherwise (Splunk's default); 0 is all.
const PAGE: usize = 30;
/// The app of what belongs to the node.
const APP: &str = "system";

pub(crate) fn routes() -> Router<ApiState> {
    let mut router = Router::new();
    for root in ROOTS {
        for (path, _) in COLLECTIONS {
            let path = format!("{root}/{path}");
            router = router.route(&path, get(list)).route(&format!("{path}/{{name}}"), get(list));
        }
        router = router.route(&format!("{root}/{}", SERVER_INFO.0), get(list));
    }
    router
}

async fn list(
    State(state): State<ApiState>,
    matched: MatchedPath,
    Path(parts): Path<BTreeMap<String, String>>,
    uri: Uri,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let known = COLLECTIONS.iter().chain([&SERVER_INFO]);
    let path = matched.as_str().trim_end_matches("/{name}");
    let Some((collection, title)) = known.copied().find(|(end, _)| path.ends_with(&format!("/{end}"))) else {
        return Err(ApiError::with_status(StatusCode::NOT_FOUND, "Not Found"));
    };
    let (search, permissions) = (state.search.clone(), caller.permissions.clone());
    let asked = format!("/services/{collection}");
    let entries = blocking(move || search.node_entries(&asked, &permissions)).await?;
    let entries = entries?.unwrap_or_default();
    let place = format!("/servicesNS/{NOBODY}/{APP}/{collection}");
    let mut entries: Vec<Entry> = entries.into_iter().map(|node| entry(node, &place)).collect();
    let form = Form::of(parameters.get("output_mode"));
    if let Some(name) = parts.get("name") {
        let found = entries.into_iter().find(|entry| entry.name == *name);
        let missing = || ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"));
        return Ok(Feed::of(title, place, vec![found.ok_or_else(missing)?]).answer(form));
    }
    if let Some(text) = parameters.get("search").filter(|text| !text.is_empty()) {
        let text = text.trim_matches('*').to_lowercase();
        entries.retain(|entry| entry.name.to_lowercase().contains(&text));
    }
    let (count, offset) = (parameters.number("count")?.unwrap_or(PAGE), parameters.number("offset")?.unwrap_or(0));
    let total = entries.len();
    let per_page = if count == 0 { total } else { count };
    let entries = entries.into_iter().skip(offset).take(per_page).collect();
    Ok(Feed { total, offset, per_page, ..Feed::of(title, uri.path().to_owned(), entries) }.answer(form))
}

/// An entry of the node as an entity; its name is its `title`.
fn entry(node: NodeEntry, place: &str) -> Entry {
    let mut content = Map::new();
    let mut name = String::new();
    for (field, mut values) in node {
        match (field.as_str(), values.len()) {
            ("title", _) => name = values.pop().unwrap_or_default(),
            (_, 1) => drop(content.insert(field, Value::String(values.remove(0)))),
            _ => drop(content.insert(field, Value::from(values))),
        }
    }
    let path = format!("{place}/{}", escaped(&name));
    let links = vec![("list", path.clone())];
    let (author, app) = (NOBODY.to_owned(), APP.to_owned());
    Entry { name, path, author, app, can_write: false, updated: 0, links, content }
}
