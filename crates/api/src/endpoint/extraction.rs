//! `/api/v1/extract/suggest`: regular expressions for a value marked in sample texts.
//!
//! Each parameter `mark` (`START-END` in characters) belongs to the `sample` at the same position. Samples without a
//! mark show the matches of the expressions in other texts. Not here: how expressions are learnt (`quarry_eval`).

use axum::http::Method;
use axum::response::Response;
use axum::routing::post;
use quarry_conf::permissions::SEARCH;
use quarry_engine::examples::{Example, find_value, patterns_of};
use serde_json::{Value, json};

use super::answer_shape::AnswerShape;
use super::row::{Access, Endpoint};
use super::shape::Shape;
use super::{json_response as answer, run_blocking};
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Maximum number of samples of a request; a request with more is refused.
const SAMPLES_MAX: usize = 100;
/// Maximum bytes of a sample; a request with a longer one is refused.
const SAMPLE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of expressions suggested.
const SUGGESTIONS_MAX: usize = 5;
/// Maximum length in characters of a field's name; a longer one is refused.
const FIELD_CHARS_MAX: usize = 64;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let summary = "Suggests regular expressions for a value marked in sample texts.";
    vec![
        Endpoint::new(Method::POST, "extract/suggest", Access::Capability(SEARCH), summary, post(suggest))
            .in_quarry_api()
            .needs(&["field", "sample", "mark"])
            .takes(&["counterexample"])
            .answers(SUGGESTIONS),
    ]
}

const SUGGESTIONS: AnswerShape = AnswerShape::Json(Shape::Object(&[(
    "suggestions",
    Shape::List(&Shape::Object(&[("regex", Shape::Text), ("values", Shape::List(&Shape::Nullable(&Shape::Text)))])),
)]));

async fn suggest(parameters: Parameters) -> Result<Response, ApiError> {
    let field = parameters.required("field")?.to_owned();
    let is_name = field.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && field.len() <= FIELD_CHARS_MAX;
    if !is_name {
        return Err(ApiError::bad_request(format!(
            "field={field}: give the name of a capture group: at most {FIELD_CHARS_MAX} ASCII letters, digits and _"
        )));
    }
    let all = |name: &str| -> Vec<String> {
        let named = parameters.clone().into_pairs().into_iter().filter(|(other, _)| other == name);
        named.map(|(_, value)| value).collect()
    };
    let (samples, marks, counterexamples) = (all("sample"), all("mark"), all("counterexample"));
    if samples.is_empty() || samples.len() > SAMPLES_MAX || samples.iter().any(|text| text.len() > SAMPLE_BYTES_MAX) {
        return Err(ApiError::bad_request(format!(
            "give sample= once to {SAMPLES_MAX} times, each of at most {SAMPLE_BYTES_MAX} bytes"
        )));
    }
    let mut examples = Vec::new();
    for (sample, mark) in samples.iter().zip(marks.iter()).filter(|(_, mark)| !mark.trim().is_empty()) {
        examples.push(example_of(sample, mark)?);
    }
    if examples.is_empty() {
        return Err(ApiError::bad_request("mark a value: give mark=START-END for a sample"));
    }
    let found = run_blocking(move || {
        let patterns = patterns_of(&field, &examples, &counterexamples, SUGGESTIONS_MAX);
        let one = |pattern: &String| {
            let values: Vec<Value> = samples.iter().map(|sample| json!(find_value(pattern, sample))).collect();
            json!({ "regex": pattern, "values": values })
        };
        patterns.iter().map(one).collect::<Vec<Value>>()
    });
    Ok(answer(json!({ "suggestions": found.await? }).to_string()))
}

/// A sample with its marked value; the mark is in characters.
fn example_of(sample: &str, mark: &str) -> Result<Example, ApiError> {
    let wrong = || {
        let characters = sample.chars().count();
        ApiError::bad_request(format!("mark={mark}: give START-END within the {characters} characters of its sample"))
    };
    let (start, end) = mark.trim().split_once('-').ok_or_else(wrong)?;
    let byte = |position: &str| -> Option<usize> {
        let position = position.trim().parse::<usize>().ok()?;
        let ends = std::iter::once(sample.len());
        sample.char_indices().map(|(at, _)| at).chain(ends).nth(position)
    };
    let (start, end) = (byte(start).ok_or_else(wrong)?, byte(end).ok_or_else(wrong)?);
    Example::new(sample.to_owned(), start, end).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_characters() {
        let example = example_of("é=12 x", "2-4").unwrap();
        assert_eq!(&example.text[example.start..example.end], "12");
        for wrong in ["", "2", "4-2", "2-2", "0-99", "a-b", "-1-2"] {
            assert!(example_of("é=12 x", wrong).is_err(), "{wrong}");
        }
    }
}
