//! Search filters of roles (`srchFilter`): conditions that all events in a user's searches must meet.
//!
//! A filter is a condition without times, subsearches, event types and tags, as in Splunk. For host, source, sourcetype
//! and index, it tests the values stored at index time, whatever a user's own props.conf does with these fields. Other
//! fields are tested as the search sees them; as Splunk's manual says, a filter on a field that users can define
//! themselves does not restrict anyone.

use quarry_spl::ast::{Command, CompareOp, FieldPattern, SearchExpr, SearchPattern, TimeModifiers};

use super::time_windows::has_windows;

/// Fields whose stored values are tested.
const STORED_FIELDS: [&str; 4] = ["host", "source", "sourcetype", "index"];
/// Fields with user-defined conditions.
const LABELS: [&str; 2] = ["eventtype", "tag"];

/// Whether a text is valid as a role's filter.
pub fn is_search_filter(text: &str) -> bool {
    parse_filter(text).is_some()
}

/// Parses a filter; `None` if it is invalid.
pub(super) fn parse_filter(filter: &str) -> Option<SearchExpr> {
    let Ok(Command::Search(search)) = quarry_spl::parse_arguments("search", filter) else { return None };
    let is_timeless = search.time == TimeModifiers::default() && !has_windows(&search.expr);
    if is_timeless { test_stored_values(&search.expr) } else { None }
}

fn test_stored_values(expr: &SearchExpr) -> Option<SearchExpr> {
    let all = |parts: &[SearchExpr]| parts.iter().map(test_stored_values).collect::<Option<Vec<_>>>();
    Some(match expr {
        SearchExpr::And(parts) => SearchExpr::And(all(parts)?),
        SearchExpr::Or(parts) => SearchExpr::Or(all(parts)?),
        SearchExpr::Not(part) => SearchExpr::Not(Box::new(test_stored_values(part)?)),
        SearchExpr::Subsearch(_) => return None,
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } | SearchExpr::Indexed { field, .. }
            if LABELS.iter().any(|label| field.text == *label || field.text.starts_with(&format!("{label}::"))) =>
        {
            return None;
        }
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } if is_stored_field(field) => {
            stored_value_test(field, value)
        }
        SearchExpr::Compare { field, op: CompareOp::Ne, value, .. } if is_stored_field(field) => {
            SearchExpr::Not(Box::new(stored_value_test(field, value)))
        }
        // Stored metadata cannot be compared with `<` or `>`.
        SearchExpr::Compare { field, .. } if is_stored_field(field) => return None,
        SearchExpr::In { field, values } if is_stored_field(field) => {
            SearchExpr::Or(values.iter().map(|value| stored_value_test(field, value)).collect())
        }
        other => other.clone(),
    })
}

fn is_stored_field(field: &FieldPattern) -> bool {
    STORED_FIELDS.contains(&field.text.as_str())
}

fn stored_value_test(field: &FieldPattern, value: &SearchPattern) -> SearchExpr {
    SearchExpr::Indexed { field: field.clone(), value: value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_contain_only_terms() {
        for good in [
            "host=web*",
            "host=web* OR source IN (a, b)",
            "NOT card",
            "((host=a) OR (host=b)) (NOT card)",
            "*",
            "level=info",
        ] {
            assert!(is_search_filter(good), "{good}");
        }
        for bad in [
            "host=a | head 1",
            "[search x]",
            "earliest=-1d",
            "(earliest=-1d a) OR b",
            "eventtype=a",
            "tag=b",
            "tag::host=c",
            "host=(",
            "host>a",
        ] {
            assert!(!is_search_filter(bad), "{bad}");
        }
        let Some(SearchExpr::Indexed { field, .. }) = parse_filter("host=web1") else {
            panic!("what events were given")
        };
        assert_eq!(field.text, "host");
    }
}
