//! The `search` parameter of collections: a condition on the entries, in the syntax of the command `search`.
//!
//! A word must occur in the name or in a member; `name=value` and the other comparisons test a member, with `*` as a
//! wildcard. Members of the access list are called `eai:acl.NAME`, as in `| rest`. Source: Splunk's REST API Reference
//! Manual, "Pagination and filtering parameters".
//!
//! Not here: sorting and paging ([`super::listing`]).

use std::borrow::Cow;

use quarry_spl::ast::{CompareOp, SearchExpr, SearchPattern, Span};
use quarry_spl::parse_condition;
use serde_json::Value;

use super::listing::matches;
use crate::atom::Entry;

/// A condition on the entries of a collection.
pub(super) struct CollectionFilter(SearchExpr);

impl CollectionFilter {
    /// The condition of a text; `None` if every entry fulfils it. A text that cannot be parsed, such as `b (old`, and one
    /// that has no meaning for a collection, such as `host::web` or `[x]`, is searched for literally.
    pub(super) fn of(text: &str) -> Option<CollectionFilter> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let parsed = parse_condition(text).ok().filter(is_for_entries);
        let phrase = || SearchPattern { text: text.to_owned(), quoted: true, span: Span::default() };
        Some(CollectionFilter(parsed.unwrap_or_else(|| SearchExpr::Keyword(phrase()))))
    }

    /// Whether an entry fulfils the condition.
    pub(super) fn accepts(&self, entry: &Entry) -> bool {
        holds(&self.0, entry)
    }
}

/// Whether each part of a condition has a meaning for the entries of a collection.
fn is_for_entries(condition: &SearchExpr) -> bool {
    match condition {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().all(is_for_entries),
        SearchExpr::Not(inner) => is_for_entries(inner),
        SearchExpr::Indexed { .. } | SearchExpr::Subsearch(_) => false,
        _ => true,
    }
}

fn holds(condition: &SearchExpr, entry: &Entry) -> bool {
    match condition {
        SearchExpr::All => true,
        SearchExpr::And(parts) => parts.iter().all(|part| holds(part, entry)),
        SearchExpr::Or(parts) => parts.iter().any(|part| holds(part, entry)),
        SearchExpr::Not(inner) => !holds(inner, entry),
        SearchExpr::Keyword(word) | SearchExpr::Term(word) | SearchExpr::Case(word) => {
            let pattern = format!("*{}*", word.text);
            matches(&pattern, &entry.name)
                || entry.content.values().flat_map(texts).any(|text| matches(&pattern, &text))
        }
        SearchExpr::Compare { field, op, value, .. } => compare(&member(entry, &field.text), *op, &value.text),
        SearchExpr::In { field, values } => {
            let texts = member(entry, &field.text);
            values.iter().any(|value| compare(&texts, CompareOp::Eq, &value.text))
        }
        // Excluded by `is_for_entries`.
        SearchExpr::Indexed { .. } | SearchExpr::Subsearch(_) => false,
    }
}

/// The values of a member; none if the entry lacks it.
fn member<'e>(entry: &'e Entry, name: &str) -> Vec<Cow<'e, str>> {
    match name {
        "name" | "title" => vec![Cow::Borrowed(&entry.name)],
        "author" | "eai:acl.owner" => vec![Cow::Borrowed(&entry.author)],
        "eai:acl.app" => vec![Cow::Borrowed(&entry.app)],
        "eai:acl.sharing" => vec![Cow::Borrowed(entry.acl.sharing.word())],
        _ => entry.content.get(name).map(texts).unwrap_or_default(),
    }
}

/// Compares each value, as a number if both are numbers and otherwise as text. `!=` requires that the entry has the
/// member and that no value is equal.
fn compare(texts: &[Cow<'_, str>], op: CompareOp, value: &str) -> bool {
    let order = |text: &str| match (text.trim().parse::<f64>(), value.trim().parse::<f64>()) {
        (Ok(text), Ok(value)) => text.partial_cmp(&value),
        _ => Some(text.to_lowercase().cmp(&value.to_lowercase())),
    };
    // The words of booleans have no order.
    let is_word = |text: &str| matches!(text, "true" | "false");
    let ordered = |fits: fn(std::cmp::Ordering) -> bool| {
        texts.iter().filter(|text| !is_word(text)).any(|text| order(text).is_some_and(fits))
    };
    match op {
        CompareOp::Eq => texts.iter().any(|text| matches(value, text)),
        CompareOp::Ne => !texts.is_empty() && !texts.iter().any(|text| matches(value, text)),
        CompareOp::Lt => ordered(std::cmp::Ordering::is_lt),
        CompareOp::Le => ordered(std::cmp::Ordering::is_le),
        CompareOp::Gt => ordered(std::cmp::Ordering::is_gt),
        CompareOp::Ge => ordered(std::cmp::Ordering::is_ge),
    }
}

/// A value as texts for comparison. Booleans are compared as `1` and `0`, or `true` and `false`.
pub(super) fn texts(value: &Value) -> Vec<Cow<'_, str>> {
    match value {
        Value::String(text) => vec![Cow::Borrowed(text)],
        Value::Bool(flag) => vec![Cow::Borrowed(if *flag { "1" } else { "0" }), Cow::Owned(flag.to_string())],
        Value::Number(number) => vec![Cow::Owned(number.to_string())],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Null | Value::Object(_) => Vec::new(),
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
        let entries = [
            entry("Errors in the last hour", json!({ "search": "error OR failed", "disabled": false, "n": 10 })),
            entry("b (old)", json!({ "search": "index=web", "disabled": true, "n": 9, "list": ["x", "y"] })),
        ];
        let filter = CollectionFilter::of(text);
        let accepted = entries.iter().filter(|entry| filter.as_ref().is_none_or(|filter| filter.accepts(entry)));
        accepted.map(|entry| entry.name.clone()).collect()
    }

    #[test]
    fn entries_are_filtered_by_conditions() {
        for text in [
            "error",
            "ERROR",
            "name=err*",
            "name=*hour",
            "\"last hour\"",
            "search=*failed",
            "disabled=0 error",
            "disabled=false AND error",
            "n=10",
            "n>9",
            "n>=10",
            "NOT n<10",
            "n!=9",
            "(n=10 OR n=11) AND disabled=0",
            "(disabled=0)",
            "name=\"Errors in the last hour\"",
            "title=\"errors*\" (n=8 OR (n=10 last))",
            "NOT (disabled=1 OR name=c)",
            "name IN (c, err*)",
        ] {
            assert_eq!(names(text), ["Errors in the last hour"], "{text}");
        }
        for text in [
            "disabled=1",
            "search=index=web",
            "search=\"index=web\"",
            "list=y",
            "list=x AND list=y",
            "n<10",
            "(old)",
            "b (old",
            "disabled>0",
            "disabled>=1 n=9",
            "name=\"b (old)\"",
        ] {
            assert_eq!(names(text), ["b (old)"], "{text}");
        }
        for text in ["", " ", "*", "eai:acl.app=search eai:acl.owner=eva", "n>8", "name=*", "disabled=0 OR disabled=1"]
        {
            assert_eq!(names(text).len(), 2, "{text}");
        }
        for text in [
            "name=err",
            "absent=x",
            "absent!=x",
            "error b",
            "name=e*x*hour",
            "eai:acl.app=other",
            "n>10",
            "a)",
            "host::web",
            "[x]",
        ] {
            assert!(names(text).is_empty(), "{text}");
        }
    }
}
