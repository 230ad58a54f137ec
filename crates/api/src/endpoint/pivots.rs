//! `datamodel/pivot/{name}`: the searches for a pivot over a data model.
//!
//! A request describes the pivot as JSON ([`super::pivot_specification`]) or as a `pivot` command. No search is run.

use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_spl::commands::pivot_searches;
use serde_json::{Map, Value};

use super::answer_shape::{AnswerShape, Content};
use super::datamodels::requested_model;
use super::object_request::ObjectRequest;
use super::pivot_specification::PivotSpecification;
use super::row::{Access, Endpoint, REST_PROPERTIES};
use super::shape::Shape;
use crate::atom::{Acl, Entry, escape_segment};
use crate::message::ApiError;

/// Path of the collection after the root.
const PATH: &str = "datamodel/pivot";
/// Title of the collection in Atom feeds.
const TITLE: &str = "datamodelpivot";
const COMMAND: &str = "pivot";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let summary = "Shows the searches for a pivot over a data model.";
    vec![
        Endpoint::new(Method::GET, format!("{PATH}/{{name}}"), Access::Capability(REST_PROPERTIES), summary, get(show))
            .takes(&["pivot_json", "pivot_search", "namespace"])
            .answers(AnswerShape::Entities(PIVOT)),
    ]
}

/// Content of a pivot entity.
const PIVOT: Content = Content::new(
    "datamodel.pivot",
    Shape::Object(&[
        ("pivot_search", Shape::Text),
        ("search", Shape::Text),
        ("open_in_search", Shape::Text),
        ("drilldown_search", Shape::Text),
        ("pivot_json", Shape::Optional(&Shape::Text)),
        ("tstats_search", Shape::Optional(&Shape::Text)),
    ]),
);

async fn show(request: ObjectRequest) -> Result<Response, ApiError> {
    let (name, is_accelerated) = requested_model(&request).await?;
    let given = |name: &str| request.parameters.get(name).map(str::trim).filter(|text| !text.is_empty());
    let (arguments, specification) = match (given("pivot_json"), given("pivot_search")) {
        (Some(json), None) => {
            let specification = PivotSpecification::from_json(&name, json)?;
            (specification.arguments(), Some(specification))
        }
        (None, Some(search)) => (arguments_of(search)?.to_owned(), None),
        _ => return Err(ApiError::bad_request("give either pivot_json or pivot_search")),
    };
    let searches = pivot_searches(&arguments).map_err(|fault| ApiError::bad_request(fault.to_string()))?;
    let mut content = Map::new();
    let pivot = format!("| {COMMAND} {arguments}");
    let members = [
        ("pivot_search", pivot.as_str()),
        ("search", &searches.report),
        ("open_in_search", &searches.report),
        ("drilldown_search", &searches.events),
    ];
    content.extend(members.map(|(key, text)| (key.to_owned(), Value::from(text))));
    if let Some(json) = given("pivot_json") {
        content.insert("pivot_json".to_owned(), json.into());
    }
    // `tstats` only helps if the model is accelerated or the client has built its own summary.
    if is_accelerated || given("namespace").is_some() {
        let tstats = specification.and_then(|specification| specification.tstats());
        content.extend(tstats.map(|tstats| ("tstats_search".to_owned(), tstats.into())));
    }
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{PATH}/{}", escape_segment(&name));
    let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    let entry = Entry { name, path, author, app, acl: Acl::for_node(), fields: None, updated: 0, links, content };
    Ok(request.answer(TITLE, format!("/services/{PATH}"), entry))
}

/// The arguments of a search that is a `pivot` command.
fn arguments_of(search: &str) -> Result<&str, ApiError> {
    let command = search.trim_start_matches(['|', ' ']);
    let rest = command.strip_prefix(COMMAND).filter(|rest| rest.starts_with(char::is_whitespace));
    rest.map(str::trim).ok_or_else(|| {
        ApiError::bad_request(format!(
            "pivot_search={search}: give a pivot command, as in | pivot MODEL OBJECT count(OBJECT)"
        ))
    })
}
