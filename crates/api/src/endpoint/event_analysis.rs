//! `/api/v1/context`, `patterns` and `compare`: the events around an event, groups of similar events, and the
//! differences between two time ranges.
//!
//! Each request runs a few searches in one search slot; `compare` searches its two ranges at the same time. Not here:
//! the analyses themselves (`quarry_search`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::Method;
use axum::response::Response;
use axum::routing::post;
use jiff::tz::TimeZone;
use quarry_conf::permissions::SEARCH;
use quarry_engine::SearchShape;
use quarry_event::TimeNs;
use quarry_event::time::parse_time;
use quarry_search::cell::format_iso_time;
use quarry_search::comparison::{self, RangeFields, VALUES_MAX, find_differences};
use quarry_search::patterns::{PatternFinder, SAMPLE_MAX, SENSITIVITY};
use quarry_search::surroundings::{EVENTS_MAX, SurroundingsQuery, read_surroundings};
use quarry_search::{Cell, Outcome, ResultTable, SearchError, SearchParams, SearchService};
use quarry_spl::ast::{Command, FieldSummaryCommand, FieldsCommand, NodeBuilder, Span};
use quarry_stdx::number::f64_of;
use serde_json::{Value, json};

use super::answer_shape::{AnswerShape, ROW};
use super::json_response as answer;
use super::row::{Access, Endpoint};
use super::search_call::SearchCall;
use super::shape::Shape;
use crate::message::ApiError;
use crate::wire::OutputMode;

/// Default number of events on each side.
const SURROUNDING_EVENTS: usize = 20;
/// Fields whose values the surrounding events can be required to share.
const SHARED_FIELDS: [&str; 4] = ["index", "host", "source", "sourcetype"];
/// Default and maximum number of patterns in an answer.
const PATTERNS_DEFAULT: usize = 50;
const PATTERNS_MAX: usize = 1_000;
/// Default number of differences in an answer.
const DIFFERENCES_DEFAULT: usize = 50;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |path: &str, summary, serve| {
        Endpoint::new(Method::POST, path, Access::Capability(SEARCH), summary, serve).in_quarry_api()
    };
    vec![
        row("context", "Returns the events before and after an event.", post(context))
            .needs(&["time"])
            .takes(&["index", "host", "source", "sourcetype", "condition", "before", "after", "zone"])
            .answers(CONTEXT),
        row("patterns", "Groups the events of a search by their pattern.", post(patterns))
            .needs(&["search"])
            .takes(&["earliest_time", "latest_time", "zone", "sensitivity", "count"])
            .answers(FOUND_PATTERNS),
        row("compare", "Finds field values that differ between two time ranges.", post(compare))
            .needs(&["search"])
            .takes(&["earliest_time", "latest_time", "baseline_earliest_time", "baseline_latest_time", "zone", "count"])
            .answers(DIFFERENCES_FOUND),
    ]
}

const EVENTS: Shape = Shape::List(&ROW);
const CONTEXT: AnswerShape =
    AnswerShape::Json(Shape::Object(&[("before", EVENTS), ("same_time", EVENTS), ("after", EVENTS)]));
const FOUND_PATTERNS: AnswerShape = AnswerShape::Json(Shape::Object(&[
    ("events", Shape::Count),
    ("is_sample", Shape::Flag),
    ("without_pattern", Shape::Count),
    ("total", Shape::Count),
    (
        "patterns",
        Shape::List(&Shape::Object(&[
            ("pattern", Shape::Text),
            ("count", Shape::Count),
            ("share", Shape::Number),
            ("example", Shape::Text),
            ("phrase", Shape::Text),
            ("times", Shape::Nullable(&Shape::List(&Shape::Text))),
        ])),
    ),
]));
const DIFFERENCES_FOUND: AnswerShape = AnswerShape::Json(Shape::Object(&[
    ("selected_events", Shape::Count),
    ("baseline_events", Shape::Count),
    (
        "differences",
        Shape::List(&Shape::Object(&[
            ("field", Shape::Text),
            ("value", Shape::Text),
            ("selected", Shape::Count),
            ("baseline", Shape::Count),
            ("difference", Shape::Number),
        ])),
    ),
]));

async fn context(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let zone = request.zone();
    let time = parameters.required("time")?;
    let time = parse_time(time, request.now(), &zone)
        .map_err(|error| ApiError::bad_request(format!("time={time}: {error}")))?;
    let given = |name: &&str| Some(((*name).to_owned(), parameters.text(name).filter(|text| !text.is_empty())?));
    let wanted = SurroundingsQuery {
        time,
        alike: SHARED_FIELDS.iter().filter_map(given).collect(),
        condition: parameters.text("condition"),
        before: parameters.number("before")?.unwrap_or(SURROUNDING_EVENTS).min(EVENTS_MAX),
        after: parameters.number("after")?.unwrap_or(SURROUNDING_EVENTS).min(EVENTS_MAX),
    };
    let permissions = Arc::clone(&request.caller.permissions);
    let condition = wanted.condition.clone().unwrap_or_default();
    let found =
        request.search(&condition, move |service| read_surroundings(service, &permissions, &zone, &wanted)).await?;
    let lists = [("before", &found.before), ("same_time", &found.same_time), ("after", &found.after)];
    let mut out = "{".to_owned();
    for (at, (name, rows)) in lists.into_iter().enumerate() {
        out.push_str(if at == 0 { "\"" } else { ",\"" });
        out.push_str(name);
        out.push_str("\":[");
        rows.rows().enumerate().for_each(|(at, row)| OutputMode::Json.write_row(row, at, at == 0, &mut out));
        out.push(']');
    }
    out.push('}');
    Ok(answer(out))
}

/// Refuses a search whose rows are not events.
fn check_events(text: &str) -> Result<(), ApiError> {
    let commands = quarry_spl::parse(text).pipeline.commands;
    let report = commands.iter().find(|stage| quarry_spl::analyse::is_transforming(std::slice::from_ref(stage)));
    let Some(report) = report else { return Ok(()) };
    let name = report.command.name();
    Err(ApiError::bad_request(format!(
        "this requires events, but {name} returns other rows: give the search before it"
    )))
}

/// Runs a search with commands appended.
fn run(service: &SearchService, params: &SearchParams, then: Vec<Command>) -> Result<Outcome, SearchError> {
    let shape = SearchShape { trailing_commands: then, ..params.shape.clone() };
    service.run(SearchParams { shape, is_internal: true, ..params.clone() })
}

async fn patterns(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let zone = request.zone();
    let params = request.params()?;
    check_events(&params.text)?;
    let sensitivity = parameters.get("sensitivity").and_then(|text| text.trim().parse::<f64>().ok());
    let sensitivity = sensitivity.unwrap_or(SENSITIVITY);
    if sensitivity > 1.0 {
        return Err(ApiError::bad_request(format!("sensitivity={sensitivity}: give a number from 0 to 1")));
    }
    let most = parameters.number("count")?.filter(|count| *count > 0).unwrap_or(PATTERNS_DEFAULT).min(PATTERNS_MAX);
    let text = params.text.clone();
    let found = request.search(&text, move |service| {
        let make = NodeBuilder::at(Span::default());
        let shown = FieldsCommand { removes: false, fields: make.patterns(&["_time", "_raw"]) };
        let outcome = run(service, &params, vec![make.head(SAMPLE_MAX), shown.into()])?;
        let mut finder = PatternFinder::new(sensitivity);
        add_rows(&outcome.table, &zone, &mut finder);
        Ok((finder, zone))
    });
    let (finder, zone) = found.await?;
    let (events, without) = finder.counts();
    let found = finder.finish();
    let total = found.len();
    let shown = found.into_iter().take(most).map(|pattern| {
        let times = pattern.times.map(|(first, last)| [format_iso_time(first, &zone), format_iso_time(last, &zone)]);
        json!({
            "pattern": pattern.text, "count": pattern.count, "share": f64_of(pattern.count) / f64_of(events.max(1)),
            "example": pattern.example, "phrase": pattern.phrase, "times": times,
        })
    });
    let shown: Vec<Value> = shown.collect();
    let body = json!({
        "events": events, "is_sample": events >= SAMPLE_MAX as u64, "without_pattern": without, "total": total,
        "patterns": shown,
    });
    Ok(answer(body.to_string()))
}

fn add_rows(table: &ResultTable, zone: &TimeZone, finder: &mut PatternFinder) {
    for row in table.rows() {
        let (Cell::Single(text), time) = (row.cell_by_name("_raw"), row.cell_by_name("_time")) else { continue };
        let time: Option<TimeNs> = match time {
            Cell::Single(time) => parse_time(&time, 0, zone).ok(),
            _ => None,
        };
        finder.add(&text, time);
    }
}

/// For each of these fields and values, counts the events of a range that have the value.
fn count_values(
    service: &SearchService,
    range: &SearchParams,
    values: BTreeMap<String, BTreeSet<String>>,
) -> Result<RangeFields, SearchError> {
    if values.is_empty() {
        return Ok(RangeFields::default());
    }
    let names: Vec<&str> = values.keys().map(String::as_str).collect();
    let fields = NodeBuilder::at(Span::default()).patterns(&names);
    // The most frequent value is listed as well, because with `values_max: 0` all values would be listed.
    let summary = FieldSummaryCommand { values_max: 1, fields, also_listed: values };
    Ok(RangeFields::from_summary(&run(service, range, vec![summary.into()])?))
}

async fn compare(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    // Both searches of a range must cover the same instants.
    let selected = request.params()?;
    let selected = SearchParams { now: selected.now.or_else(|| Some(request.now())), ..selected };
    check_events(&selected.text)?;
    let text = |name: &str| parameters.text(name).filter(|text| !text.is_empty());
    let baseline = SearchParams {
        earliest: text("baseline_earliest_time"),
        latest: text("baseline_latest_time"),
        ..selected.clone()
    };
    let most = parameters.number("count")?.filter(|count| *count > 0).unwrap_or(DIFFERENCES_DEFAULT);
    let shown = selected.text.clone();
    let ranges = [selected, baseline];
    let summaries = ranges.clone().map(|range| {
        move |service: &SearchService| {
            let also_listed = BTreeMap::new();
            let summary = FieldSummaryCommand { values_max: VALUES_MAX, fields: Vec::new(), also_listed };
            let summary = run(service, &range, vec![summary.into()])?;
            Ok(RangeFields::from_summary(&summary))
        }
    });
    let (mut selected, mut baseline) = request.search_both(&shown, summaries).await?;
    let unknown = [selected.uncounted(&baseline), baseline.uncounted(&selected)];
    if unknown.iter().any(|values| !values.is_empty()) {
        let [of_selected, of_baseline] = ranges;
        let counts = [(of_selected, unknown[0].clone()), (of_baseline, unknown[1].clone())];
        let counts = counts.map(|(range, values)| move |service: &SearchService| count_values(service, &range, values));
        let counted = request.search_both(&shown, counts).await?;
        selected.add_counts(&unknown[0], &counted.0);
        baseline.add_counts(&unknown[1], &counted.1);
    }
    let found = find_differences(&selected, &baseline);
    let one = |found: &comparison::Difference| {
        json!({
            "field": found.field, "value": found.value, "selected": found.selected, "baseline": found.baseline,
            "difference": found.difference,
        })
    };
    let listed: Vec<Value> = found.iter().take(most).map(one).collect();
    let body = json!({
        "selected_events": selected.events, "baseline_events": baseline.events, "differences": listed,
    });
    Ok(answer(body.to_string()))
}
