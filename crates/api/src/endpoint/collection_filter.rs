//! Tests entries against the condition in the `search` parameter of collections.
//!
//! A word must occur in the name or in a member; `name=value` and the other comparisons test a member, with `*` as a
//! wildcard. The app, owner and sharing of an entry are called `eai:acl.NAME`, as in `| rest`. Source: Splunk's REST
//! API Reference Manual, "Pagination and filtering parameters".
//!
//! Not here: the syntax ([`super::collection_condition`]), sorting and paging ([`super::listing`]).

use std::borrow::Cow;

use quarry_spl::ast::CompareOp;
use serde_json::Value;

use super::collection_condition::EntryCondition;
use super::listing::matches;
use crate::atom::Entry;
use crate::message::ApiError;

/// A condition on the entries of a collection.
pub(super) struct CollectionFilter(EntryCondition);

impl CollectionFilter {
    /// The condition of a text.
    pub(super) fn of(text: &str) -> Result<CollectionFilter, ApiError> {
        let condition = EntryCondition::parse(text)?;
        Ok(CollectionFilter(condition))
    }

    /// Whether an entry fulfils the condition.
    pub(super) fn accepts(&self, entry: &Entry) -> bool {
        holds(&self.0, entry)
    }
}

fn holds(condition: &EntryCondition, entry: &Entry) -> bool {
    match condition {
        EntryCondition::And(parts) => parts.iter().all(|part| holds(part, entry)),
        EntryCondition::Or(parts) => parts.iter().any(|part| holds(part, entry)),
        EntryCondition::Not(inner) => !holds(inner, entry),
        EntryCondition::Contains(word) => {
            let pattern = format!("*{word}*");
            matches(&pattern, &entry.name)
                || entry.content.values().flat_map(texts).any(|text| matches(&pattern, &text))
        }
        EntryCondition::Compare(name, op, value) => compare(&member(entry, name), *op, value),
        EntryCondition::In(name, values) => {
            let texts = member(entry, name);
            values.iter().any(|value| compare(&texts, CompareOp::Eq, value))
        }
    }
}

/// The values of a member; none if the entry lacks the member.
fn member<'e>(entry: &'e Entry, name: &str) -> Vec<Cow<'e, str>> {
    match name {
        "name" | "title" => vec![Cow::Borrowed(&entry.name)],
        "author" | "eai:acl.owner" => vec![Cow::Borrowed(&entry.author)],
        "eai:acl.app" => vec![Cow::Borrowed(&entry.app)],
        "eai:acl.sharing" => vec![Cow::Borrowed(entry.acl.sharing.word())],
        _ => entry.content.get(name).map(texts).unwrap_or_default(),
    }
}

/// Compares each value, as numbers if both sides are numbers and otherwise as texts. `!=` requires that the entry has
/// the member and that no value is equal.
fn compare(texts: &[Cow<'_, str>], op: CompareOp, value: &str) -> bool {
    let order = |text: &str| match (text.trim().parse::<f64>(), value.trim().parse::<f64>()) {
        (Ok(text), Ok(value)) => text.partial_cmp(&value),
        _ => Some(text.to_lowercase().cmp(&value.to_lowercase())),
    };
    // `true` and `false` have no order, so comparisons other than `=` and `!=` skip them.
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

    const HOUR: &str = "Errors in the last hour";
    const OLD: &str = "b (old)";
    const MACRO: &str = "m1(2)";
    const LIST: &str = "Errors, [prod] x";

    fn names(text: &str) -> Vec<String> {
        let entries = [
            entry(HOUR, json!({ "search": "error OR failed", "disabled": false, "n": 10 })),
            entry(OLD, json!({ "search": "index=web", "disabled": true, "n": 9, "list": ["x", "y"], "d": "a|b" })),
            entry(MACRO, json!({ "definition": "f($a$, \"b c\")", "disabled": false, "url": "https://h/?q=1" })),
            entry(LIST, json!({ "disabled": false, "empty": "" })),
        ];
        let filter = CollectionFilter::of(text).unwrap_or_else(|_| panic!("{text} is a condition"));
        entries.iter().filter(|entry| filter.accepts(entry)).map(|entry| entry.name.clone()).collect()
    }

    /// Conditions and the names of the entries that fulfil them.
    const CONDITIONS: &[(&str, &[&str])] = &[
        ("", &[HOUR, OLD, MACRO, LIST]),
        (" ", &[HOUR, OLD, MACRO, LIST]),
        ("*", &[HOUR, OLD, MACRO, LIST]),
        ("( )", &[HOUR, OLD, MACRO, LIST]),
        ("eai:acl.app=search eai:acl.owner=eva", &[HOUR, OLD, MACRO, LIST]),
        ("eai:acl.app=other", &[]),
        ("ERROR", &[HOUR, LIST]),
        ("error hour", &[HOUR]),
        ("error b", &[]),
        ("\"last hour\"", &[HOUR]),
        ("\"hour last\"", &[]),
        // An unclosed quote is an ordinary character.
        ("\"b", &[MACRO]),
        ("\"last hour", &[]),
        ("f($a$, \"b", &[MACRO]),
        ("name=err*", &[HOUR, LIST]),
        ("name=err", &[]),
        ("name=*hour", &[HOUR]),
        ("name=e*x*hour", &[]),
        ("search=*failed", &[HOUR]),
        ("search=index=web", &[OLD]),
        ("search=\"index=web\"", &[OLD]),
        ("list=y", &[OLD]),
        ("list=x AND list=y", &[OLD]),
        ("absent=x", &[]),
        ("absent!=x", &[]),
        ("empty=", &[LIST]),
        ("empty= AND prod", &[LIST]),
        ("(empty=)", &[LIST]),
        // Numbers, and booleans: ordered as 0 and 1, not as words.
        ("n=10", &[HOUR]),
        ("n>9", &[HOUR]),
        ("n>=10", &[HOUR]),
        ("n >= 10", &[HOUR]),
        ("n==10", &[HOUR]),
        ("n= 10", &[HOUR]),
        ("n!=9", &[HOUR]),
        ("n<10", &[OLD]),
        ("n>10", &[]),
        ("disabled=1", &[OLD]),
        ("disabled=false errors", &[HOUR, LIST]),
        ("disabled>0", &[OLD]),
        ("disabled>=1 n=9", &[OLD]),
        // Logical operators; `OR` binds more tightly than `AND`.
        ("NOT disabled=0", &[OLD]),
        ("NOT NOT disabled=1", &[OLD]),
        ("NOT (disabled=0 AND name=e*)", &[OLD, MACRO]),
        ("(n=10 OR n=11) AND disabled=0", &[HOUR]),
        ("n=10 OR n=9 disabled=1", &[OLD]),
        ("title=\"errors*\" (n=8 OR (n=10 last))", &[HOUR]),
        ("((n=9))", &[OLD]),
        // Operators without operands are words.
        ("OR", &[HOUR, LIST]),
        ("n=10 OR", &[HOUR]),
        ("AND error", &[]),
        ("hour NOT", &[]),
        ("\"OR\" failed", &[HOUR]),
        ("=web", &[OLD]),
        // Lists.
        ("name IN (c, err*)", &[HOUR, LIST]),
        ("name IN(\"b (old)\",m1(2))", &[OLD, MACRO]),
        ("name IN ()", &[]),
        ("IN (hour)", &[HOUR]),
        ("last IN (hour", &[]),
        // Parentheses in words.
        ("name=m1(2)", &[MACRO]),
        ("title=m1(2)", &[MACRO]),
        ("m1(2)", &[MACRO]),
        ("(name=m1(2))", &[MACRO]),
        ("(name=m1(2) OR (n=9))", &[OLD, MACRO]),
        ("name=*(2)", &[MACRO]),
        ("name=foo(2)", &[]),
        ("name=\"m1(2)\"", &[MACRO]),
        ("name=\"b (old)\"", &[OLD]),
        ("(old)", &[OLD]),
        ("b (old", &[OLD]),
        ("(b (old", &[]),
        ("old)", &[OLD]),
        ("a)", &[]),
        ("name=b disabled=1)", &[]),
        // Characters that have a meaning in SPL.
        ("name=Errors,*", &[LIST]),
        ("disabled=0 [prod]", &[LIST]),
        ("disabled=0 errors [prod]", &[LIST]),
        ("NOT [prod] name=E*", &[HOUR]),
        ("d=*a|b*", &[OLD]),
        ("a|b disabled=1", &[OLD]),
        ("disabled=0 a|b", &[]),
        ("host::web", &[]),
        ("[x]", &[]),
    ];

    #[test]
    fn entries_are_filtered_by_conditions() {
        for (text, expected) in CONDITIONS {
            assert_eq!(names(text), *expected, "{text}");
        }
    }

    #[test]
    fn conditions_have_limits() {
        let group = |levels: usize| "(".repeat(levels) + "n=9" + &")".repeat(levels);
        assert_eq!(names(&group(64)), [OLD]);
        let words = |count: usize| "old ".repeat(count);
        assert_eq!(names(&words(1_000)), [OLD]);
        let list = format!("n IN ({})", "1,".repeat(1_001));
        for text in [group(65), group(50_000), words(1_001), list] {
            assert!(CollectionFilter::of(&text).is_err());
        }
        assert_eq!(names(&("NOT ".repeat(20_000) + "old")), [OLD]);
        assert!(names(&"(".repeat(50_000)).is_empty());
    }
}
