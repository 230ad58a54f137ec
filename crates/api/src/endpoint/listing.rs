//! A page of a collection: filtering, sorting, paging and member selection.
//!
//! `search` has words and `name=value` pairs, with `*` as a wildcard, all of which must match; `sort_key` (default: the
//! name), `sort_dir` and `sort_mode` sort; `count` (default 30; 0 or -1 is all) and `offset` select a page; `f` selects
//! members. Source: Splunk's REST API Reference Manual, "Pagination and filtering parameters".

use std::borrow::Cow;
use std::cmp::Ordering;

use axum::response::Response;
use serde_json::Value;

use crate::atom::{Entry, Feed, Form};
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Default page size (Splunk's).
const PAGE_SIZE_DEFAULT: usize = 30;
/// Parameters of every collection.
pub(crate) const LIST_PARAMETERS: &[&str] = &["count", "offset", "search", "sort_key", "sort_dir", "sort_mode", "f"];

/// The requested entities as an answer.
pub(super) fn page(
    title: impl Into<Cow<'static, str>>,
    path: String,
    entries: Vec<Entry>,
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    Ok(select_page(title, path, entries, parameters)?.answer(Form::of(parameters.get("output_mode"))))
}

/// The requested entities.
pub(super) fn select_page(
    title: impl Into<Cow<'static, str>>,
    path: String,
    mut entries: Vec<Entry>,
    parameters: &Parameters,
) -> Result<Feed, ApiError> {
    if parameters.get("sort_key").is_none_or(str::is_empty) {
        sort(&mut entries, parameters);
    }
    page_in_order(title, path, entries, parameters)
}

/// Like [`select_page`], but keeps the order of the entries unless `sort_key` is given.
pub(super) fn page_in_order(
    title: impl Into<Cow<'static, str>>,
    path: String,
    mut entries: Vec<Entry>,
    parameters: &Parameters,
) -> Result<Feed, ApiError> {
    if parameters.get("sort_key").is_some_and(|key| !key.is_empty()) {
        sort(&mut entries, parameters);
    }
    let terms = parse_terms(parameters.get("search").unwrap_or_default());
    entries.retain(|entry| terms.iter().all(|term| matches_term(entry, term)));
    let (count, offset) =
        (parameters.number("count")?.unwrap_or(PAGE_SIZE_DEFAULT), parameters.number("offset")?.unwrap_or(0));
    let total = entries.len();
    let per_page = if count == 0 { total } else { count };
    let mut entries: Vec<Entry> = entries.into_iter().skip(offset).take(per_page).collect();
    select_members(&mut entries, &parameters.list("f"));
    Ok(Feed { total, offset, per_page, ..Feed::of(title, path, entries) })
}

/// Keeps only the requested members, if any are named.
fn select_members(entries: &mut [Entry], wanted: &[String]) {
    if !wanted.is_empty() {
        for entry in entries {
            entry.content.retain(|name, _| wanted.iter().any(|pattern| matches(pattern, name)));
        }
    }
}

/// A filter term.
struct Term {
    member: Option<String>,
    pattern: String,
}

/// Parses a filter into terms, separated by blanks outside quotes.
fn parse_terms(text: &str) -> Vec<Term> {
    let (mut terms, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for character in text.chars().chain([' ']) {
        match character {
            '"' => is_quoted = !is_quoted,
            character if character.is_whitespace() && !is_quoted => {
                if !word.is_empty() {
                    let taken = std::mem::take(&mut word);
                    terms.push(match taken.split_once('=') {
                        Some((member, pattern)) if !member.is_empty() => {
                            Term { member: Some(member.to_owned()), pattern: pattern.to_owned() }
                        }
                        _ => Term { member: None, pattern: format!("*{taken}*") },
                    });
                }
            }
            character => word.push(character),
        }
    }
    terms
}

fn matches_term(entry: &Entry, Term { member, pattern }: &Term) -> bool {
    let is_met = |value: &Value| texts(value).iter().any(|text| matches(pattern, text));
    match member.as_deref() {
        None => matches(pattern, &entry.name) || entry.content.values().any(is_met),
        Some("name" | "title") => matches(pattern, &entry.name),
        Some("eai:acl.app") => matches(pattern, &entry.app),
        Some("eai:acl.owner") => matches(pattern, &entry.author),
        Some("eai:acl.sharing") => matches(pattern, entry.acl.sharing.word()),
        Some(member) => entry.content.get(member).is_some_and(is_met),
    }
}

/// A value as texts for comparison.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Bool(flag) => vec![if *flag { "1".to_owned() } else { "0".to_owned() }, flag.to_string()],
        Value::Number(number) => vec![number.to_string()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

/// Case-insensitive match with `*`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

fn sort(entries: &mut [Entry], parameters: &Parameters) {
    let key = parameters.get("sort_key").filter(|key| !key.is_empty()).unwrap_or("name");
    let mode = parameters.get("sort_mode").unwrap_or("auto");
    let of = |entry: &Entry| match key {
        "name" | "title" => entry.name.clone(),
        key => entry.content.get(key).map(texts).and_then(|texts| texts.into_iter().next()).unwrap_or_default(),
    };
    let is_number = match mode {
        "num" => true,
        "auto" => entries.iter().all(|entry| of(entry).parse::<f64>().is_ok()),
        _ => false,
    };
    let compare = |a: &Entry, b: &Entry| -> Ordering {
        let (a, b) = (of(a), of(b));
        if is_number {
            let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NEG_INFINITY);
            return number(&a).total_cmp(&number(&b));
        }
        if mode == "alpha_case" { a.cmp(&b) } else { a.to_lowercase().cmp(&b.to_lowercase()) }
    };
    entries.sort_by(compare);
    if parameters.get("sort_dir") == Some("desc") {
        entries.reverse();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::atom::Acl;

    fn entry(name: &str, content: Value) -> Entry {
        let Value::Object(content) = content else { panic!("an object") };
        let (path, author, app) = (format!("/x/{name}"), "eva".to_owned(), "search".to_owned());
        let acl = Acl::for_user("eva", true);
        Entry { name: name.to_owned(), path, author, app, acl, fields: None, updated: 0, links: Vec::new(), content }
    }

    fn names(text: &str) -> Vec<String> {
        let terms = parse_terms(text);
        let entries = [
            entry("Errors in the last hour", json!({ "search": "error OR failed", "disabled": false, "n": 10 })),
            entry("b", json!({ "search": "index=web", "disabled": true, "n": 9 })),
        ];
        entries
            .iter()
            .filter(|entry| terms.iter().all(|term| matches_term(entry, term)))
            .map(|entry| entry.name.clone())
            .collect()
    }

    #[test]
    fn filters_consist_of_words_and_pairs() {
        let errors = ["Errors in the last hour"];
        for text in
            ["error", "ERROR", "name=err*", "name=*hour", "\"last hour\"", "search=*failed", "disabled=0 error", "n=10"]
        {
            assert_eq!(names(text), errors, "{text}");
        }
        assert_eq!(names("disabled=1"), ["b"]);
        assert_eq!(names("search=index=web"), ["b"], "the first sign separates name and value");
        assert_eq!(names("").len(), 2);
        for text in ["name=err", "absent=x", "error b", "name=e*x*hour", "eai:acl.app=other"] {
            assert!(names(text).is_empty(), "{text}");
        }
        assert_eq!(names("eai:acl.app=search eai:acl.owner=eva").len(), 2);
    }
}
