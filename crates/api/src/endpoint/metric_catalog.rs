//! `catalog/metricstore`: the names of metrics, their dimensions, and the values of a dimension.
//!
//! Each list is the result of an `mcatalog` search over the caller's indexes. `filter` contains comparisons as after
//! `WHERE` in `mcatalog`; `earliest` and `latest` are the time range. Not here: the search itself (engine).

use std::collections::BTreeSet;

use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_conf::permissions::SEARCH;
use quarry_search::SearchParams;
use quarry_spl::ast::{MeasurementsCommand, NodeBuilder, SearchExpr, Span};
use quarry_spl::commands::metric_values;
use quarry_spl::parse_condition;
use serde_json::Map;

use super::answer_shape::NO_CONTENT;
use super::listing::page;
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, entities};
use super::search_call::SearchCall;
use crate::atom::{Acl, Entry, escape_segment};
use crate::message::ApiError;

const METRICS: &str = "catalog/metricstore/metrics";
const DIMENSIONS: &str = "catalog/metricstore/dimensions";
/// Dimensions of every data point, as in Splunk.
const DIMENSIONS_OF_ALL: [&str; 3] = ["host", "source", "sourcetype"];
/// Column of the search result that contains the names to list.
const NAME: &str = "name";
/// The search shown in messages.
const SHOWN_SEARCH: &str = "| mcatalog";
/// Parameters of the lists, and parameters that select data points.
const LIST_PARAMETERS: &[&str] =
    &["count", "offset", "search", "sort_key", "sort_dir", "sort_mode", "earliest", "latest", "filter", "metric_name"];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |path: &str, summary, serve| {
        Endpoint::new(Method::GET, path, Access::Capability(SEARCH), summary, serve).takes(LIST_PARAMETERS)
    };
    let metrics = |request| list(request, METRICS.to_owned(), MeasurementsCommand::METRIC.to_owned());
    let dimensions = |request| list(request, DIMENSIONS.to_owned(), MeasurementsCommand::DIMENSIONS.to_owned());
    let values = format!("{DIMENSIONS}/{{name}}/values");
    let rows = vec![
        row(METRICS, "Lists the names of metrics.", get(metrics)),
        row(DIMENSIONS, "Lists the dimensions of metrics.", get(dimensions)),
        row(&values, "Lists the values of a dimension of metrics.", get(dimension_values)),
    ];
    entities(rows, &NO_CONTENT)
}

async fn dimension_values(parts: PathParts, request: SearchCall) -> Result<Response, ApiError> {
    let name = parts.get("name").cloned().unwrap_or_default();
    let place = format!("{DIMENSIONS}/{}/values", escape_segment(&name));
    list(request, place, name).await
}

/// The distinct values of a field of data points, as entities.
async fn list(request: SearchCall, place: String, field: String) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let given = |name: &str| parameters.text(name).filter(|text| !text.trim().is_empty());
    let make = NodeBuilder::at(Span::default());
    let mut conditions = vec![make.equals("index", "*")];
    if let Some(filter) = given("filter") {
        conditions.push(parse_filter(&filter)?);
    }
    if let Some(metric) = given("metric_name") {
        conditions.push(make.equals(MeasurementsCommand::METRIC, &metric));
    }
    let commands = metric_values(make, &field, NAME, SearchExpr::conjunction(conditions));
    let params = request.params_of(SHOWN_SEARCH, make.pipeline(commands));
    let params = SearchParams { earliest: given("earliest"), latest: given("latest"), ..params };
    let found = request.search(SHOWN_SEARCH, move |service| service.run(params)).await?;
    let entry = |name: String| {
        let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{place}/{}", escape_segment(&name));
        let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
        let (acl, content) = (Acl::for_node(), Map::new());
        Entry { name, path, author, app, acl, fields: None, updated: 0, links, content }
    };
    let names = found.table.rows().map(|row| row.cell_by_name(NAME).join_values("\n").into_owned());
    let mut names: BTreeSet<String> = names.filter(|name| !name.is_empty()).collect();
    if place == DIMENSIONS && !names.is_empty() {
        names.extend(DIMENSIONS_OF_ALL.map(str::to_owned));
    }
    let entries = names.into_iter().map(entry).collect();
    page("metricstore", format!("/services/{place}"), entries, parameters)
}

/// Parses a filter, which is a condition without subsearches.
fn parse_filter(filter: &str) -> Result<SearchExpr, ApiError> {
    let condition = parse_condition(filter).ok().filter(|condition| condition.subsearches().is_empty());
    condition.ok_or_else(|| {
        let shown = filter.escape_debug();
        ApiError::bad_request(format!("filter={shown}: give comparisons, as in index=metrics host=web*"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_contain_only_comparisons() {
        assert!(parse_filter("index=a AND (host=b* OR host=\"c d\")").is_ok());
        for wrong in ["x=1 | delete", "[search x]", "`macro`", "a=1) BY x (b=1", "(a=1"] {
            assert!(parse_filter(wrong).is_err(), "{wrong}");
        }
    }
}
