//! The search language over REST: `search/parser` parses a search into its commands, `search/typeahead` completes
//! words, `search/timeparser` evaluates times such as `-1d@d`.
//!
//! Not here: running searches.

use axum::http::Method;
use axum::response::Response;
use axum::routing::{get, post};
use quarry_conf::permissions::SEARCH;
use quarry_event::TimeNs;
use quarry_event::time::{parse_time, strftime};
use quarry_search::SearchError;
use quarry_spl::analyse::{begins_with_events, is_transforming};
use quarry_spl::ast::{NodeBuilder, Span, TypeAheadCommand, TypeAheadScope};
use quarry_spl::{Diagnostic, ParsedSearch, Severity};
use serde_json::{Value, json};

use super::answer_shape::AnswerShape;
use super::json_response as answer;
use super::row::{Access, Endpoint, TYPEAHEAD};
use super::search_call::SearchCall;
use super::shape::Shape;
use crate::atom::Form;
use crate::message::{ApiError, TypedSearch, escape_xml};
use crate::wire::{OutputMode, ResultsHead};

/// Default number of completions.
const COMPLETIONS_DEFAULT: usize = 50;
/// Maximum number of times in a request; a request with more is refused.
const TIMES_MAX: usize = 100;
/// Default output format of times (Splunk's).
const ISO_FORMAT: &str = "%FT%T.%3N%:z";
/// The search shown in messages about completions.
const SHOWN_SEARCH: &str = "| typeahead";
/// Maximum number of completions; a larger `count` has the same effect.
const COMPLETIONS_MAX: usize = 1_000;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (search, summary) = (Access::Capability(SEARCH), "Parses a search into its commands.");
    let parser =
        |path: &str| Endpoint::new(Method::POST, path, search, summary, post(parse)).needs(&["q"]).answers(PARSED);
    let (access, summary) = (Access::Capability(TYPEAHEAD), "Suggests words and values that begin with a prefix.");
    vec![
        parser("search/parser"),
        // Clients of Splunk before 9.0 send `GET`.
        Endpoint::new(Method::GET, "search/parser", search, "Parses a search into its commands.", get(parse))
            .needs(&["q"])
            .answers(PARSED),
        parser("search/v2/parser"),
        Endpoint::new(Method::GET, "search/typeahead", access, summary, get(typeahead))
            .needs(&["prefix"])
            .takes(&["count"])
            .answers(COMPLETIONS),
        Endpoint::new(Method::GET, "search/timeparser", search, "Converts times to timestamps.", get(times))
            .needs(&["time"])
            .takes(&["now", "output_time_format", "zone"])
            .answers(AnswerShape::JsonOrXml(Shape::Map(&Shape::Text))),
    ]
}

/// A parsed search.
const PARSED: AnswerShape = AnswerShape::JsonOrXml(Shape::Object(&[
    (
        "commands",
        Shape::List(&Shape::Object(&[
            ("command", Shape::Text),
            ("rawargs", Shape::Text),
            ("pipeline", Shape::Word(&["report", "streaming"])),
            ("args", Shape::Map(&Shape::List(&Shape::Text))),
            ("isGenerating", Shape::Flag),
            ("streamType", Shape::Text),
        ])),
    ),
    ("eventsSearch", Shape::Text),
    ("isStreamingSearch", Shape::Flag),
    ("reportsSearch", Shape::Text),
]));
/// Completions of a prefix.
const COMPLETIONS: AnswerShape = AnswerShape::JsonOrXml(Shape::Object(&[(
    "results",
    Shape::List(&Shape::Object(&[("content", Shape::Text), ("count", Shape::Count), ("operator", Shape::Flag)])),
)]));

/// A search with its macros expanded, as a job runs it, and its tree.
async fn parse_expanded(request: &SearchCall, search: &TypedSearch) -> Result<(String, ParsedSearch), ApiError> {
    let refused = |error: SearchError| ApiError::from_typed_search(search, error);
    let params = request.params_for(&search.text);
    let expansion = request.with(move |service| service.expand_macros(params)).await?.map_err(refused)?;
    if !expansion.diagnostics.is_empty() {
        return Err(refused(SearchError::Syntax(expansion.diagnostics)));
    }
    let parsed = quarry_spl::parse(&expansion.text);
    let errors = parsed.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let located = |error: &Diagnostic| Diagnostic { span: expansion.spans.original(error.span), ..error.clone() };
    let errors: Vec<Diagnostic> = errors.map(located).collect();
    if !errors.is_empty() {
        return Err(refused(SearchError::Syntax(errors)));
    }
    Ok((expansion.text, parsed))
}

/// Members as in Splunk's `search/parser`.
async fn parse(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let text = parameters.get("q").filter(|text| !text.trim().is_empty());
    let text =
        text.ok_or_else(|| ApiError::bad_request("The required argument q is missing: give the search to parse"))?;
    let (typed, parsed) = parse_expanded(&request, &super::search_jobs::with_pipe(text)).await?;
    let stages = &parsed.pipeline.commands;
    let mut is_report = false;
    let commands: Vec<Value> = stages
        .iter()
        .enumerate()
        .map(|(at, stage)| {
            let own = typed.get(stage.span.start..stage.span.end).unwrap_or_default().trim();
            let (name, rest) = own.split_once(char::is_whitespace).unwrap_or((own, ""));
            let begins = at == 0 && begins_with_events(stages);
            let is_implied = begins && !name.eq_ignore_ascii_case("search");
            let (name, rest) = if is_implied { ("search", own) } else { (name, rest.trim()) };
            is_report |= is_transforming(std::slice::from_ref(stage));
            json!({
                "command": name.to_lowercase(), "rawargs": rest, "pipeline": if is_report { "report" } else { "streaming" },
                "args": { name.to_lowercase(): [rest] }, "isGenerating": at == 0,
                "streamType": if at == 0 { "SP_EVENTGEN" } else if is_report { "SP_STREAMREPORT" } else { "SP_STREAM" },
            })
        })
        .collect();
    let report = stages.iter().position(|stage| is_transforming(std::slice::from_ref(stage)));
    let cut = report.and_then(|at| typed.split_at_checked(stages[at].span.start));
    let (events, report) = cut.unwrap_or((typed.as_str(), ""));
    let events = events.trim_end().trim_end_matches('|').trim();
    let parsed = json!({
        "commands": commands, "eventsSearch": events, "isStreamingSearch": !is_report, "reportsSearch": report.trim(),
    });
    Ok(match Form::of(parameters.get("output_mode")) {
        Form::Json => answer(parsed.to_string()),
        Form::Atom => Form::Atom.answer(parsed_xml(&parsed)),
    })
}

/// A parsed search in Splunk's XML: the parts of the search, then its commands.
fn parsed_xml(parsed: &Value) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<response>\n".to_owned();
    let parts = parsed.as_object().into_iter().flatten().filter(|(name, _)| *name != "commands");
    write_plain_xml(&Value::Object(parts.map(|(name, part)| (name.clone(), part.clone())).collect()), &mut out);
    write_plain_xml(&parsed["commands"], &mut out);
    out.push_str("</response>\n");
    out
}

/// Writes a value as `dict`, `list` and text, without the namespace that entities have.
fn write_plain_xml(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            out.push_str("<dict>\n");
            for (name, value) in members {
                out.push_str(&format!("<key name=\"{}\">", escape_xml(name)));
                write_plain_xml(value, out);
                out.push_str("</key>\n");
            }
            out.push_str("</dict>\n");
        }
        Value::Array(values) => {
            out.push_str("<list>\n");
            for value in values {
                out.push_str("<item>");
                write_plain_xml(value, out);
                out.push_str("</item>\n");
            }
            out.push_str("</list>\n");
        }
        Value::Bool(flag) => out.push(if *flag { '1' } else { '0' }),
        Value::String(text) => out.push_str(&escape_xml(text)),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::Null => {}
    }
}

/// The instants of times, keyed by the requested time. Source: Splunk's `search/timeparser`.
async fn times(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let asked: Vec<String> =
        parameters.clone().into_pairs().into_iter().filter(|(name, _)| name == "time").map(|(_, time)| time).collect();
    if asked.is_empty() || asked.len() > TIMES_MAX {
        return Err(ApiError::bad_request(format!("give time= once to {TIMES_MAX} times, as in time=-1d@d")));
    }
    let zone = request.zone();
    let instant = |name: &str, time: &str, now: TimeNs| {
        parse_time(time, now, &zone)
            .map_err(|reason| ApiError::bad_request("Invalid time.").with_hint(format!("{name}={time}: {reason}")))
    };
    let now = match parameters.get("now").filter(|now| !now.is_empty()) {
        Some(now) => instant("now", now, request.now())?,
        None => request.now(),
    };
    let format = parameters.get("output_time_format").filter(|format| !format.is_empty()).unwrap_or(ISO_FORMAT);
    let told = asked.iter().map(|time| Ok((time.clone(), strftime(instant("time", time, now)?, format, &zone))));
    let told: Vec<(String, String)> = told.collect::<Result<_, ApiError>>()?;
    Ok(match Form::of(parameters.get("output_mode")) {
        Form::Json => {
            answer(Value::Object(told.into_iter().map(|(time, text)| (time, text.into())).collect()).to_string())
        }
        Form::Atom => {
            let key = |(time, text): &(String, String)| {
                format!("    <key name=\"{}\">{}</key>\n", escape_xml(time).replace('"', "&quot;"), escape_xml(text))
            };
            let keys: String = told.iter().map(key).collect();
            let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<response>\n  <dict>\n";
            Form::Atom.answer(format!("{head}{keys}  </dict>\n</response>\n"))
        }
    })
}

async fn typeahead(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let prefix = parameters.required("prefix")?;
    let count =
        parameters.number("count")?.filter(|count| *count > 0).unwrap_or(COMPLETIONS_DEFAULT).min(COMPLETIONS_MAX);
    let make = NodeBuilder::at(Span::default());
    let command = TypeAheadCommand::new(make, prefix, count, &TypeAheadScope::default());
    let command = command.map_err(|fault| ApiError::bad_request(fault.to_string()))?;
    let params = request.params_of(SHOWN_SEARCH, make.pipeline(vec![command.into()]));
    let outcome = request.analyse(SHOWN_SEARCH, move |service| service.run(params)).await?;
    if let Form::Atom = Form::of(parameters.get("output_mode")) {
        let (mode, table, mut body) = (OutputMode::Xml, &outcome.table, String::new());
        mode.write_head(&ResultsHead { fields: table.fields(), ..ResultsHead::default() }, &mut body);
        table.rows().enumerate().for_each(|(at, row)| mode.write_row(row, at, at == 0, &mut body));
        mode.write_end(&mut body);
        return Ok(Form::Atom.answer(body));
    }
    let cell = |row: &quarry_search::Row<'_>, name: &str| {
        let at = outcome.table.fields().iter().position(|field| field == name)?;
        Some(row.cell(at).join_values("\n").into_owned())
    };
    let results: Vec<Value> = outcome
        .table
        .rows()
        .map(|row| {
            let count = cell(&row, "count").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            json!({ "content": cell(&row, "content").unwrap_or_default(), "count": count, "operator": false })
        })
        .collect();
    Ok(answer(json!({ "results": results }).to_string()))
}
