//! Many alternatives that compare one field with a value each, such as the rows of a subsearch, become one comparison
//! with a list of values (`IN`). A scan looks up a value in the list once, instead of comparing it with each alternative.

use std::collections::BTreeMap;

use quarry_spl::ast::{CompareOp, SearchExpr};

/// Minimum number of alternatives with the same field that are merged.
const MERGED_COMPARISONS_MIN: usize = 16;

/// The condition with its alternatives merged.
pub(crate) fn merge_comparisons(expr: SearchExpr) -> SearchExpr {
    match expr {
        SearchExpr::And(parts) => SearchExpr::And(parts.into_iter().map(merge_comparisons).collect()),
        SearchExpr::Not(part) => SearchExpr::Not(Box::new(merge_comparisons(*part))),
        SearchExpr::Or(parts) => {
            let mut parts = merge_alternatives(parts.into_iter().map(merge_comparisons).collect());
            match parts.pop() {
                Some(only) if parts.is_empty() => only,
                last => SearchExpr::Or(parts.into_iter().chain(last).collect()),
            }
        }
        other => other,
    }
}

/// Alternatives in which each field with many comparisons has one list, in the place of its first comparison.
fn merge_alternatives(parts: Vec<SearchExpr>) -> Vec<SearchExpr> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in parts.iter().filter_map(equated_field) {
        *counts.entry(name).or_default() += 1;
    }
    let many = counts.into_iter().filter(|(_, count)| *count >= MERGED_COMPARISONS_MIN);
    let names: Vec<String> = many.map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() {
        return parts;
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut merged: Vec<SearchExpr> = Vec::new();
    for part in parts {
        match part {
            SearchExpr::Compare { field, op: CompareOp::Eq, value, case_sensitive: false }
                if names.contains(&field.text) =>
            {
                match places.get(&field.text).and_then(|at| merged.get_mut(*at)) {
                    Some(SearchExpr::In { values, .. }) => values.push(value),
                    _ => {
                        places.insert(field.text.clone(), merged.len());
                        merged.push(SearchExpr::In { field, values: vec![value] });
                    }
                }
            }
            other => merged.push(other),
        }
    }
    merged
}

/// The field that a comparison requires to equal a value, regardless of case.
fn equated_field(part: &SearchExpr) -> Option<&str> {
    match part {
        SearchExpr::Compare { field, op: CompareOp::Eq, case_sensitive: false, .. } => Some(&field.text),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn merged(text: &str) -> SearchExpr {
        merge_comparisons(quarry_spl::parse_condition(text).unwrap())
    }

    fn alternatives(from: usize, count: usize) -> String {
        let each: Vec<String> = (from..from + count).map(|number| format!("user=u{number}")).collect();
        each.join(" OR ")
    }

    fn listed(expr: &SearchExpr) -> Vec<&str> {
        match expr {
            SearchExpr::In { field, values } if field.text == "user" => {
                values.iter().map(|value| value.text.as_str()).collect()
            }
            other => panic!("{other:?} is no list"),
        }
    }

    #[test]
    fn many_alternatives_of_a_field_become_a_list() {
        let expected: Vec<String> = (0..16).map(|number| format!("u{number}")).collect();
        assert_eq!(listed(&merged(&alternatives(0, 16))), expected);
        let SearchExpr::And(parts) = merged(&format!("error NOT ({})", alternatives(0, 16))) else { panic!() };
        let SearchExpr::Not(part) = &parts[1] else { panic!("{parts:?}") };
        assert_eq!(listed(part), expected);
        let SearchExpr::Or(parts) =
            merged(&format!("host=a OR {} OR word OR {}", alternatives(0, 8), alternatives(8, 8)))
        else {
            panic!()
        };
        assert_eq!((parts.len(), listed(&parts[1])), (3, expected.iter().map(String::as_str).collect()));
    }

    #[test]
    fn other_alternatives_stay() {
        for text in [
            alternatives(0, 15),
            format!("{} OR host=b", alternatives(0, 15)),
            (0..20).map(|number| format!("user!=u{number}")).collect::<Vec<_>>().join(" OR "),
            (0..20).map(|number| format!("user=CASE(u{number})")).collect::<Vec<_>>().join(" OR "),
        ] {
            assert_eq!(merged(&text), quarry_spl::parse_condition(&text).unwrap(), "{text}");
        }
    }
}
