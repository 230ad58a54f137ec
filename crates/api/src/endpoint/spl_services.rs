//! `/api/v1/spl`: services for search editors: tokens, errors and warnings, completion, help, formatting, macros and
//! plans.
//!
//! Positions are byte offsets in the search, or UTF-16 units with `positions=utf-16`, as editors in browsers count. No
//! search is run. Not here: the analysis itself (`quarry_spl::editing`).

use axum::http::Method;
use axum::response::Response;
use axum::routing::post;
use quarry_conf::permissions::SEARCH;
use quarry_spl::ast::Span;
use quarry_spl::editing::{CANDIDATES_MAX, complete, format, hover, tokens};
use quarry_spl::{MAX_SEARCH_BYTES, Severity};
use serde_json::{Value, json};

use super::answer_shape::AnswerShape;
use super::json_response as answer;
use super::plan_shape::EXPLAINED;
use super::row::{Access, Endpoint};
use super::search_call::SearchCall;
use super::search_jobs::explain_typed;
use super::shape::Shape;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Default number of completions.
const CANDIDATES_DEFAULT: usize = 50;
/// Maximum number of fields that a request may offer for completion; further fields are ignored.
const FIELDS_MAX: usize = 5_000;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |path: &str, summary, serve| {
        Endpoint::new(Method::POST, path, Access::Capability(SEARCH), summary, serve).in_quarry_api()
    };
    vec![
        row("spl/tokens", "Splits a search into classed tokens.", post(show_tokens))
            .needs(&["search"])
            .takes(&["positions"])
            .answers(TOKENS),
        row("spl/lint", "Finds errors and warnings in a search without running it.", post(lint))
            .needs(&["search"])
            .takes(&["positions", "earliest_time", "latest_time", "zone"])
            .answers(LINTED),
        row("spl/complete", "Suggests what may follow at a cursor.", post(show_completion))
            .needs(&["search", "cursor"])
            .takes(&["positions", "fields", "count"])
            .answers(COMPLETION),
        row("spl/hover", "Explains the word at a position.", post(show_help))
            .needs(&["search", "cursor"])
            .takes(&["positions"])
            .answers(HELP),
        row("spl/format", "Formats a search.", post(show_formatted))
            .needs(&["search"])
            .answers(AnswerShape::Json(Shape::Object(&[("search", Shape::Text)]))),
        row("spl/expand", "Expands the macros of a search.", post(expand))
            .needs(&["search"])
            .takes(&["positions"])
            .answers(EXPANDED),
        row("spl/explain", "Shows the plan of a search.", post(explain_typed))
            .needs(&["search"])
            .takes(&["earliest_time", "latest_time", "zone"])
            .answers(AnswerShape::JsonOrText(EXPLAINED)),
    ]
}

const TOKENS: AnswerShape = AnswerShape::Json(Shape::Object(&[(
    "tokens",
    Shape::List(&Shape::Object(&[("kind", Shape::Text), ("start", Shape::Count), ("end", Shape::Count)])),
)]));
const DIAGNOSTICS: Shape = Shape::List(&Shape::Object(&[
    ("severity", Shape::Word(&["error", "warning"])),
    ("text", Shape::Text),
    ("start", Shape::Count),
    ("end", Shape::Count),
    ("hint", Shape::Nullable(&Shape::Text)),
]));
const LINTED: AnswerShape = AnswerShape::Json(Shape::Object(&[("runs", Shape::Flag), ("diagnostics", DIAGNOSTICS)]));
const COMPLETION: AnswerShape = AnswerShape::Json(Shape::Object(&[
    ("start", Shape::Count),
    ("end", Shape::Count),
    (
        "candidates",
        Shape::List(&Shape::Object(&[("text", Shape::Text), ("kind", Shape::Text), ("detail", Shape::Text)])),
    ),
]));
const HELP: AnswerShape = AnswerShape::Json(Shape::Object(&[(
    "help",
    Shape::Nullable(&Shape::Object(&[
        ("start", Shape::Count),
        ("end", Shape::Count),
        ("kind", Shape::Text),
        ("name", Shape::Text),
        ("syntax", Shape::Text),
        ("summary", Shape::Text),
        ("page", Shape::Nullable(&Shape::Text)),
    ])),
)]));
const EXPANDED: AnswerShape = AnswerShape::Json(Shape::Object(&[
    ("search", Shape::Text),
    ("macros", Shape::List(&Shape::Object(&[("name", Shape::Text), ("definition", Shape::Text)]))),
    ("diagnostics", DIAGNOSTICS),
]));

/// The search of a request, which may be empty but not too long.
fn text_of(parameters: &Parameters) -> Result<String, ApiError> {
    let text = parameters.required("search")?;
    if text.len() > MAX_SEARCH_BYTES {
        let length = text.len();
        return Err(ApiError::bad_request(format!(
            "search has {length} bytes, more than the limit of {MAX_SEARCH_BYTES}"
        )));
    }
    Ok(text.to_owned())
}

/// Unit of positions in the search of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PositionUnit {
    Bytes,
    Utf16,
}

impl PositionUnit {
    fn of(parameters: &Parameters) -> PositionUnit {
        if parameters.get("positions") == Some("utf-16") { PositionUnit::Utf16 } else { PositionUnit::Bytes }
    }

    /// The position of a byte offset; an offset beyond the text has the position of its end.
    fn to_position(self, text: &str, offset: usize) -> usize {
        let offset = text.floor_char_boundary(offset.min(text.len()));
        match self {
            PositionUnit::Bytes => offset,
            PositionUnit::Utf16 => text[..offset].encode_utf16().count(),
        }
    }

    /// The byte offset of a position in a request, at most the text's length.
    fn to_offset(self, text: &str, position: usize) -> usize {
        match self {
            PositionUnit::Bytes => text.floor_char_boundary(position.min(text.len())),
            PositionUnit::Utf16 => {
                let mut units = 0;
                let found = text.char_indices().find(|(_, character)| {
                    units += character.len_utf16();
                    units > position
                });
                found.map_or(text.len(), |(at, _)| at)
            }
        }
    }

    fn span(self, text: &str, span: Span) -> (usize, usize) {
        (self.to_position(text, span.start), self.to_position(text, span.end))
    }
}

/// The cursor of a request, as a byte offset.
fn cursor_of(parameters: &Parameters, text: &str) -> Result<usize, ApiError> {
    parameters.required("cursor")?;
    let position = parameters.number("cursor")?.unwrap_or(text.len());
    Ok(PositionUnit::of(parameters).to_offset(text, position))
}

async fn show_tokens(parameters: Parameters) -> Result<Response, ApiError> {
    let (text, positions) = (text_of(&parameters)?, PositionUnit::of(&parameters));
    let mut place = OffsetConverter::new(&text, positions);
    let shown = |token: &quarry_spl::editing::Token| {
        let (start, end) = (place.next(token.span.start), place.next(token.span.end));
        json!({ "kind": token.kind.name(), "start": start, "end": end })
    };
    let shown: Vec<Value> = tokens(&text).iter().map(shown).collect();
    Ok(answer(json!({ "tokens": shown }).to_string()))
}

/// Converts ascending byte offsets to positions, each counted from the previous one instead of from the start.
struct OffsetConverter<'t> {
    text: &'t str,
    positions: PositionUnit,
    offset: usize,
    shown: usize,
}

impl OffsetConverter<'_> {
    fn new(text: &str, positions: PositionUnit) -> OffsetConverter<'_> {
        OffsetConverter { text, positions, offset: 0, shown: 0 }
    }

    fn next(&mut self, offset: usize) -> usize {
        let part = self.text.get(self.offset..offset).unwrap_or_default();
        self.shown += self.positions.to_position(part, part.len());
        self.offset = offset.max(self.offset);
        self.shown
    }
}

async fn lint(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let (text, positions) = (text_of(parameters)?, PositionUnit::of(parameters));
    let params = request.params_for(&text);
    let found = request.analyse(&text, move |service| service.diagnose(params)).await?;
    let is_error = |severity| severity == Severity::Error;
    let has_error = found.iter().any(|remark| is_error(remark.severity));
    let one = |remark: &quarry_spl::Diagnostic| {
        let (start, end) = positions.span(&text, remark.span);
        let severity = if is_error(remark.severity) { "error" } else { "warning" };
        json!({ "severity": severity, "text": remark.message, "start": start, "end": end, "hint": remark.hint })
    };
    let diagnostics: Vec<Value> = found.iter().map(one).collect();
    Ok(answer(json!({ "runs": !has_error, "diagnostics": diagnostics }).to_string()))
}

async fn show_completion(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let (text, positions) = (text_of(parameters)?, PositionUnit::of(parameters));
    let cursor = cursor_of(parameters, &text)?;
    let count =
        parameters.number("count")?.filter(|count| *count > 0).unwrap_or(CANDIDATES_DEFAULT).min(CANDIDATES_MAX);
    let mut fields = parameters.list("fields");
    fields.truncate(FIELDS_MAX);
    let params = request.params_for(&text);
    let shown = text.clone();
    let completed = request.analyse(&shown, move |service| {
        let mut vocabulary = service.vocabulary(params)?;
        vocabulary.fields = fields;
        Ok(complete(&text, cursor, &vocabulary))
    });
    let completed = completed.await?;
    let (start, end) = positions.span(&shown, completed.replaces);
    let candidates =
        completed.candidates.iter().take(count).map(
            |candidate| json!({ "text": candidate.text, "kind": candidate.kind.name(), "detail": candidate.detail }),
        );
    let candidates: Vec<Value> = candidates.collect();
    Ok(answer(json!({ "start": start, "end": end, "candidates": candidates }).to_string()))
}

async fn show_help(parameters: Parameters) -> Result<Response, ApiError> {
    let (text, positions) = (text_of(&parameters)?, PositionUnit::of(&parameters));
    let cursor = cursor_of(&parameters, &text)?;
    let help = hover(&text, cursor).map(|help| {
        let (start, end) = positions.span(&text, help.span);
        json!({
            "start": start, "end": end, "kind": help.kind, "name": help.name, "syntax": help.syntax,
            "summary": help.summary, "page": help.page,
        })
    });
    Ok(answer(json!({ "help": help }).to_string()))
}

async fn show_formatted(parameters: Parameters) -> Result<Response, ApiError> {
    let text = text_of(&parameters)?;
    Ok(answer(json!({ "search": format(&text) }).to_string()))
}

async fn expand(request: SearchCall) -> Result<Response, ApiError> {
    let parameters = &request.parameters;
    let (text, positions) = (text_of(parameters)?, PositionUnit::of(parameters));
    let params = request.params_for(&text);
    let expanded = request.analyse(&text, move |service| service.expand_macros(params)).await?;
    let faults = expanded.diagnostics.iter().map(|fault| {
        let (start, end) = positions.span(&text, fault.span);
        json!({ "severity": "error", "text": fault.message, "start": start, "end": end, "hint": fault.hint })
    });
    let faults: Vec<Value> = faults.collect();
    let macros = expanded.replaced.iter().map(|(name, definition)| json!({ "name": name, "definition": definition }));
    let macros: Vec<Value> = macros.collect();
    Ok(answer(json!({ "search": expanded.text, "macros": macros, "diagnostics": faults }).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_bytes_or_utf16_units() {
        let text = "é𝄞|x";
        let offsets = [0, 2, 6, 7, 8];
        for (positions, shown) in [(PositionUnit::Bytes, offsets), (PositionUnit::Utf16, [0, 1, 3, 4, 5])] {
            let mut places = OffsetConverter::new(text, positions);
            for (offset, shown) in offsets.into_iter().zip(shown) {
                assert_eq!(positions.to_position(text, offset), shown);
                assert_eq!(places.next(offset), shown);
                assert_eq!(positions.to_offset(text, shown), offset, "{positions:?} {shown}");
            }
            assert_eq!(positions.to_offset(text, 99), text.len());
        }
        assert_eq!(PositionUnit::Utf16.to_offset(text, 2), 2, "a position inside a character becomes its start");
    }
}
