//! The entries of collections for `| rest`. Requests on behalf of a search's user are answered in the process by the
//! same endpoints as over HTTP.
//!
//! A search can read exactly what its user may read over HTTP. Endpoints that run searches or stream are excluded. Not
//! here: the command itself (engine).

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use quarry_auth::{Identity, Origin};
use quarry_conf::Permissions;
use quarry_engine::{EntriesRequest, NodeEntry};
use quarry_stdx::{ErrorKind, Fault};
use serde_json::{Map, Value};
use tower_service::Service;

use crate::ApiState;
use crate::caller::Caller;
use crate::endpoint::table::ENDPOINTS;
use crate::message::LackedPart;

/// Maximum bytes of an answer; with more, the request fails.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Root of the endpoints.
const ROOT: &str = "/services/";
/// The only path below [`UNLISTED_PREFIXES`] that lists entries.
const V2_JOBS: &str = "search/v2/jobs";
/// The parameter that searches cannot choose, because this module parses the answer.
const OUTPUT_MODE: &str = "output_mode";
/// Path prefixes, after the root, of endpoints that do not list entries.
const UNLISTED_PREFIXES: [&str; 10] = [
    "auth/",
    "catalog/metricstore/",
    "quarry/",
    "search/jobs/",
    "search/parser",
    "search/timeparser",
    "search/typeahead",
    "search/v1/",
    "search/v2/",
    "storage/collections/data",
];

/// Paths at which entries are listed.
pub fn listed_paths() -> Vec<String> {
    let rows = ENDPOINTS.iter().filter(|row| row.method == Method::GET && !row.path.contains('{'));
    let paths = rows.filter_map(|row| row.path.strip_prefix(ROOT));
    paths.filter(|path| is_listed(path) && !path.ends_with("_new")).map(|path| format!("{ROOT}{path}")).collect()
}

fn is_listed(path: &str) -> bool {
    path == V2_JOBS || !UNLISTED_PREFIXES.iter().any(|begin| path.starts_with(begin)) && !path.ends_with("_reload")
}

/// Whether the table has a row for `GET` and a path.
fn is_served(path: &str) -> bool {
    let asked: Vec<&str> = path.split('/').collect();
    ENDPOINTS.iter().filter(|row| row.method == Method::GET).filter_map(|row| row.path.strip_prefix(ROOT)).any(|row| {
        let row: Vec<&str> = row.split('/').collect();
        row.len() == asked.len() && row.iter().zip(&asked).all(|(row, asked)| row == asked || row.starts_with('{'))
    })
}

/// The query of a request's URL: its own arguments, its condition and its limit.
fn query_of(request: &EntriesRequest<'_>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(OUTPUT_MODE, "json");
    let given = form_urlencoded::parse(request.arguments.as_bytes());
    let given: Vec<_> = given.filter(|(name, _)| name != OUTPUT_MODE).collect();
    let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
    // If the search sets no limit, all entries are read, not only the first page.
    if request.count > 0 || !is_given("count") {
        query.append_pair("count", &request.count.to_string());
    }
    query.extend_pairs(request.search.map(|search| ("search", search)));
    let is_replaced = |name: &str| name == "count" && request.count > 0 || name == "search" && request.search.is_some();
    query.extend_pairs(given.iter().filter(|(name, _)| !is_replaced(name)));
    query.finish()
}

/// A path in which bytes that a URL cannot contain are percent-encoded.
fn url_path(path: &str) -> String {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte);
    let part = |byte: u8| if is_allowed(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(part).collect()
}

/// The entries that a request of a user returns; `None` if nothing is listed at its path.
pub async fn listed_entries(
    state: &ApiState,
    request: &EntriesRequest<'_>,
    viewer: &Permissions,
) -> Result<Option<Vec<NodeEntry>>, Fault> {
    let path = request.path.trim_end_matches('/');
    let below = match path.strip_prefix("/servicesNS/") {
        Some(rest) => rest.splitn(3, '/').nth(2),
        None => path.strip_prefix(ROOT),
    };
    if !below.is_some_and(|below| is_listed(below) && is_served(below)) {
        return Ok(None);
    }
    let mut request = Request::builder()
        .uri(format!("{}?{}", url_path(path), query_of(request)))
        .body(Body::empty())
        .map_err(|error| Fault::invalid(format!("{path} is not a request path: {error}")))?;
    let identity =
        Identity { user: viewer.user.clone(), roles: viewer.roles.iter().cloned().collect(), is_console: false };
    let permissions = Arc::new(viewer.clone());
    // The search has been authenticated, so the request runs as its user.
    request.extensions_mut().insert(Caller { identity, permissions, origin: Origin::LOCAL, shown: None });
    // A router is always ready and infallible.
    let Ok(answer) = crate::router(state.clone()).call(request).await;
    let (status, lacks_part) = (answer.status(), answer.extensions().get::<LackedPart>().is_some());
    let bytes = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| Fault::invalid(format!("the answer of {path} cannot be read: {error}")))?;
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if !status.is_success() {
        let text = answer["messages"][0]["text"].as_str().unwrap_or("it is refused").to_owned();
        let Some(kind) = refusal_kind(status, lacks_part) else { return Ok(None) };
        return Err(Fault::new(kind, text).with_context(path));
    }
    Ok(answer["entry"].as_array().map(|entries| entries.iter().map(entry_of).collect()))
}

/// The kind of a refusal; `None` if nothing is listed at the path. A part of Splunk that the node does not have is not
/// found, unlike a part that fails.
fn refusal_kind(status: StatusCode, lacks_part: bool) -> Option<ErrorKind> {
    match status.as_u16() {
        _ if lacks_part => Some(ErrorKind::NotFound),
        401 | 403 => Some(ErrorKind::Denied),
        404 => None,
        400..500 => Some(ErrorKind::Invalid),
        _ => Some(ErrorKind::Unavailable),
    }
}

/// An entry of a feed as a row: title, author, id and time of change, then permissions, then its settings.
fn entry_of(entry: &Value) -> NodeEntry {
    let mut row: NodeEntry = Vec::new();
    for (name, key) in [("title", "name"), ("author", "author"), ("id", "id"), ("updated", "updated")] {
        add(name, &entry[key], &mut row);
    }
    let acl = entry["acl"].as_object().cloned().unwrap_or_default();
    add_members("eai:acl.", &acl, &mut row);
    match &entry["content"] {
        Value::Object(content) => add_members("", content, &mut row),
        // Below `properties`, the content of an entry is the value of a setting.
        text @ Value::String(_) => add("value", text, &mut row),
        _ => {}
    }
    row
}

fn add_members(prefix: &str, members: &Map<String, Value>, row: &mut NodeEntry) {
    for (name, value) in members.iter().filter(|(name, _)| *name != "eai:acl") {
        match value {
            Value::Object(inner) => add_members(&format!("{prefix}{name}."), inner, row),
            value => add(&format!("{prefix}{name}"), value, row),
        }
    }
}

/// Adds a value; null and an empty list add nothing.
fn add(name: &str, value: &Value, row: &mut NodeEntry) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        other => other.to_string(),
    };
    let values: Vec<String> = match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().map(text).collect(),
        value => vec![text(value)],
    };
    if !values.is_empty() && !row.iter().any(|(known, _)| known == name) {
        row.push((name.to_owned(), values));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_rows_with_their_permissions_and_settings() {
        let entry = json!({
            "name": "x", "author": "eva", "id": "/a/x", "acl": { "app": "search", "perms": { "read": ["*"], "write": [] } },
            "content": { "disabled": false, "list": ["a", "b"], "deep": { "a": { "b": 1 } }, "none": null },
        });
        let shown: Vec<String> =
            entry_of(&entry).iter().map(|(name, values)| format!("{name}={}", values.join("|"))).collect();
        for wanted in ["title=x", "author=eva", "eai:acl.app=search", "disabled=0", "list=a|b", "deep.a.b=1"] {
            assert!(shown.contains(&wanted.to_owned()), "{wanted}: {shown:?}");
        }
        assert!(!shown.iter().any(|value| value.starts_with("none")), "{shown:?}");
    }

    #[test]
    fn failures_are_not_parts_that_the_node_lacks() {
        assert_eq!(refusal_kind(StatusCode::SERVICE_UNAVAILABLE, true), Some(ErrorKind::NotFound));
        for failure in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::INTERNAL_SERVER_ERROR] {
            assert_eq!(refusal_kind(failure, false), Some(ErrorKind::Unavailable));
        }
        assert_eq!(refusal_kind(StatusCode::NOT_FOUND, false), None);
        assert_eq!(refusal_kind(StatusCode::FORBIDDEN, false), Some(ErrorKind::Denied));
    }

    #[test]
    fn arguments_of_paths_reach_the_endpoint() {
        let query =
            |arguments, search, count| query_of(&EntriesRequest { path: "/services/x", arguments, search, count });
        assert_eq!(query("", None, 0), "output_mode=json&count=0");
        assert_eq!(query("count=1&output_mode=xml&f=a", None, 0), "output_mode=json&count=1&f=a");
        assert_eq!(query("count=1&search=a", Some("name=b c"), 5), "output_mode=json&count=5&search=name%3Db+c");
        assert_eq!(url_path("/services/saved/searches/My search%2F1"), "/services/saved/searches/My%20search%2F1");
    }

    #[test]
    fn endpoints_that_run_searches_are_not_listed() {
        let paths = listed_paths();
        assert!(paths.len() > 30 && paths.contains(&"/services/authentication/users".to_owned()), "{paths:?}");
        assert!(paths.iter().all(|path| !path.contains("export") && !path.contains("typeahead")), "{paths:?}");
        assert!(is_served("saved/searches/x") && !is_served("saved/nothing"));
    }
}
