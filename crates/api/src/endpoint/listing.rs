//! A page of a collection: filtering, sorting, paging and member selection.
//!
//! `search` is a condition ([`CollectionFilter`]); `sort_key` (default: the name), `sort_dir` and `sort_mode` sort;
//! `count` (default 30; 0 or -1 is all) and `offset` select a page; `f` selects members. Source: Splunk's REST API
//! Reference Manual, "Pagination and filtering parameters".

use std::borrow::Cow;
use std::cmp::Ordering;

use axum::response::Response;

use super::collection_filter::{CollectionFilter, texts};
use crate::atom::{Entry, Feed, Form, PAGE_SIZE_DEFAULT};
use crate::message::ApiError;
use crate::parameters::Parameters;

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
    if let Some(text) = parameters.get("search") {
        let filter = CollectionFilter::of(text)?;
        entries.retain(|entry| filter.accepts(entry));
    }
    let total = entries.len();
    let (count, offset) =
        (parameters.number("count")?.unwrap_or(PAGE_SIZE_DEFAULT), parameters.offset()?.in_total(total));
    let per_page = if count == 0 { total } else { count };
    let mut entries: Vec<Entry> = entries.into_iter().skip(offset).take(per_page).collect();
    select_members(&mut entries, &parameters.list("f"));
    Ok(Feed { total, offset, per_page, ..Feed::of(title, path, entries) })
}

/// Keeps only the requested members, if any are named.
pub(super) fn select_members(entries: &mut [Entry], wanted: &[String]) {
    if !wanted.is_empty() {
        for entry in entries {
            entry.content.retain(|name, _| wanted.iter().any(|pattern| matches(pattern, name)));
        }
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
        key => {
            entry.content.get(key).and_then(|value| texts(value).into_iter().next()).unwrap_or_default().into_owned()
        }
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
