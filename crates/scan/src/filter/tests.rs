//! Tests that the early tests and the final test of a condition agree.

use arrow::array::{ArrayRef, StringViewArray};
use quarry_conf::{Layers, PropsResolver, builtin_sources};
use quarry_eval::rows;
use quarry_spl::ast::Span;

use super::*;

fn metadata(host: &str) -> Metadata {
    Metadata { index: "main".into(), host: host.into(), source: "s".into(), sourcetype: "t".into() }
}

#[test]
fn hosts_are_compared_with_networks() {
    let rules = FieldRules::new(Arc::new(PropsResolver::new(&Layers::new(builtin_sources()))));
    let derived = DerivedNames::default();
    let hosts = ["10.1.2.3", "10.2.2.3", "web"];
    let span = Span { start: 0, end: 0 };
    let field = FieldPattern { text: "host".to_owned(), span };
    let network = SearchPattern { text: "10.1.0.0/16".to_owned(), quoted: false, span };
    let compare = |op| SearchExpr::Compare { field: field.clone(), op, value: network.clone(), case_sensitive: false };
    let listed = SearchExpr::In { field: field.clone(), values: vec![network.clone()] };
    for (condition, expected) in [
        (compare(CompareOp::Eq), [true, false, false]),
        (compare(CompareOp::Ne), [false, true, true]),
        (SearchExpr::Not(Box::new(compare(CompareOp::Eq))), [false, true, true]),
        (listed, [true, false, false]),
    ] {
        let filter = EventFilter::new(&condition, &Origins::new(&rules, &derived)).unwrap();
        assert_eq!(*filter.terms(), TermQuery::All, "{condition:?}");
        assert!(hosts.iter().all(|host| filter.may_match_any(&[metadata(host)])), "{condition:?}");
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(hosts));
        let rows = rows::batch_of([("host", column)], hosts.len()).unwrap();
        let found = filter.final_test().unwrap().matches(&rows).unwrap();
        assert_eq!(found.values().iter().collect::<Vec<bool>>(), expected, "{condition:?}");
    }
}

#[test]
fn many_values_are_not_searched_for_in_texts() {
    let rules = FieldRules::new(Arc::new(PropsResolver::new(&Layers::new(builtin_sources()))));
    let (derived, span) = (DerivedNames::default(), Span { start: 0, end: 0 });
    let list = |name: &str, count: usize| SearchExpr::In {
        field: FieldPattern { text: name.to_owned(), span },
        values: (0..count).map(|at| SearchPattern { text: format!("value{at}"), quoted: false, span }).collect(),
    };
    let test_of = |expr: &SearchExpr| early_test(expr, &Origins::new(&rules, &derived));
    for (name, count, is_tested) in [
        ("zone_id", VALUE_ALTERNATIVES_MAX, true),
        ("zone_id", VALUE_ALTERNATIVES_MAX + 1, false),
        ("host", 1_000, true),
    ] {
        let test = test_of(&list(name, count));
        assert_eq!(matches!(test, EarlyTest::Or(_)), is_tested, "{name} {count}");
        assert_eq!(matches!(test, EarlyTest::Undecided), !is_tested, "{name} {count}");
    }
}
