//! `catalog/metricstore`: the names of metrics, and the values of a dimension.
//!
//! Each list is the result of an `mcatalog` search over the caller's indexes. `filter` has comparisons as behind its `WHERE`;
//! `earliest` and `latest` are the time range. Not here: the list of dimensions; the search itself (engine).

use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_conf::permissions::SEARCH;
use quarry_search::SearchParams;
use serde_json::Map;

use super::answer_shape::NO_CONTENT;
use super::listing::page;
use super::row::{Access, Endpoint, entities};
use super::search_jobs::PathParts;
use super::search_request::SearchRequest;
use crate::atom::{Acl, Entry, escaped};
use crate::message::ApiError;

const METRICS: &str = "catalog/metricstore/metrics";
const DIMENSIONS: &str = "catalog/metricstore/dimensions";
/// Parameters of lists, and those that select data points.
const TAKEN: &[&str] =
    &["count", "offset", "search", "sort_key", "sort_dir", "sort_mode", "earliest", "latest", "filter", "metric_name"];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |path: &str, summary, serve| {
        Endpoint::new(Method::GET, path, Access::Capability(SEARCH), summary, serve).takes(TAKEN)
    };
    let metrics = |request: SearchRequest| list(request, METRICS.to_owned(), "metric_name".to_owned());
    let values = format!("{DIMENSIONS}/{{name}}/values");
    let rows = vec![
        row(METRICS, "Lists the names of metrics.", get(metrics)),
        row(&values, "Lists the values of a dimension of metrics.", get(dimension_values)),
    ];
    entities(rows, &NO_CONTENT)
}

async fn dimension_values(parts: PathParts, request: SearchRequest) -> Result<Response, ApiError> {
    let name = parts.get("name").cloned().unwrap_or_default();
    check_quotable("dimension", &name)?;
    list(request, format!("{DIMENSIONS}/{}/values", escaped(&name)), format!("\"{name}\"")).await
}

/// The distinct values of a field of data points, as entities.
async fn list(request: SearchRequest, place: String, field: String) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let given = |name: &str| parameters.text(name).filter(|text| !text.trim().is_empty());
    let mut condition = "index=*".to_owned();
    if let Some(filter) = given("filter") {
        check_filter(&filter)?;
        condition.push_str(&format!(" ({filter})"));
    }
    if let Some(metric) = given("metric_name") {
        check_quotable("metric_name", &metric)?;
        condition.push_str(&format!(" metric_name=\"{metric}\""));
    }
    let text = format!("| mcatalog values({field}) AS name WHERE {condition} | mvexpand name");
    let params = SearchParams { earliest: given("earliest"), latest: given("latest"), ..request.params_for(&text) };
    let found = request.search(&text, move |service| service.run(params)).await?;
    let entry = |name: String| {
        let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{place}/{}", escaped(&name));
        let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
        let (acl, content) = (Acl::of_node(), Map::new());
        Entry { name, path, author, app, acl, fields: None, updated: 0, links, content }
    };
    let names = found.table.rows().map(|row| row.named("name").joined("\n").into_owned());
    let entries = names.filter(|name| !name.is_empty()).map(entry).collect();
    page("metricstore", format!("/services/{place}"), entries, parameters)
}

/// Refuses what cannot stand between quotes.
fn check_quotable(what: &str, name: &str) -> Result<(), ApiError> {
    if name.is_empty() || name.contains(['"', '\\']) || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!("{what}={}: give a name without quotes", name.escape_debug())));
    }
    Ok(())
}

/// Refuses what is more than comparisons: another command, a subsearch, a macro.
fn check_filter(filter: &str) -> Result<(), ApiError> {
    let depth = filter.chars().try_fold(0_usize, |depth, letter| match letter {
        '(' => depth.checked_add(1),
        ')' => depth.checked_sub(1),
        _ => Some(depth),
    });
    if depth != Some(0) || filter.contains(['|', '[', ']', '`']) || filter.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!(
            "filter={}: give comparisons, as in index=metrics host=web*",
            filter.escape_debug()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_comparisons_only() {
        assert!(check_filter("index=a AND (host=b* OR host=\"c d\")").is_ok());
        for wrong in ["x=1 | delete", "[search x]", "`macro`", "a\nb", "a=1) BY x (b=1", "(a=1"] {
            assert!(check_filter(wrong).is_err(), "{wrong}");
        }
        assert!(check_quotable("x", "host_name").is_ok() && check_quotable("x", "a\" BY b \"").is_err());
    }
}
