//! Tests of term queries for keywords, and of their simplification.

use super::*;

fn token(text: &str) -> TermQuery {
    TermQuery::Token(text.into())
}

fn prefix(text: &str) -> TermQuery {
    TermQuery::Prefix(text.into())
}

#[test]
fn keyword_queries_require_their_tokens() {
    for (keyword, expected) in [
        ("Error", token("error")),
        ("10.0.0.1", TermQuery::And(vec![token("10"), token("0"), token("1")])),
        ("user=Alice", TermQuery::And(vec![token("user"), token("alice")])),
        ("connection failed", TermQuery::And(vec![token("connection"), token("failed")])),
        ("fail*", prefix("fail")),
        ("*ed", TermQuery::All),
        ("a*b", prefix("a")),
        ("*", TermQuery::All),
        ("", TermQuery::All),
        ("***", TermQuery::All),
        ("/api/v2*", TermQuery::And(vec![token("api"), prefix("v2")])),
        ("/api/*/items", TermQuery::And(vec![token("api"), token("items")])),
        ("ÄRGER", token("ärger")),
        ("a%20b", TermQuery::And(vec![token("a"), token("b")])),
        ("a%2*", token("a")),
        ("a.a", token("a")),
    ] {
        assert_eq!(TermQuery::for_keyword(keyword), expected, "{keyword}");
        assert_eq!(TermQuery::for_term(keyword), expected, "{keyword}");
    }
}

#[test]
fn long_tokens_are_truncated_as_in_the_index() {
    let long = "X".repeat(400);
    assert_eq!(TermQuery::for_keyword(&long), token(&"x".repeat(crate::segment::MAX_TOKEN_BYTES)));
}

#[test]
fn conjunctions_are_simplified() {
    let (a, b, c) = (token("a"), token("b"), token("c"));
    let and = |parts: &[&TermQuery]| TermQuery::and(parts.iter().map(|part| (*part).clone()));
    assert_eq!(and(&[]), TermQuery::All);
    assert_eq!(and(&[&a]), a);
    assert_eq!(and(&[&a, &TermQuery::All, &a]), a);
    assert_eq!(and(&[&a, &TermQuery::None, &b]), TermQuery::None);
    let nested = and(&[&and(&[&a, &b]), &b, &c]);
    assert_eq!(nested, TermQuery::And(vec![a.clone(), b.clone(), c.clone()]));
    let either = TermQuery::Or(vec![a.clone(), b.clone()]);
    assert_eq!(and(&[&either, &c]), TermQuery::And(vec![either.clone(), c.clone()]));
}

#[test]
fn disjunctions_are_simplified() {
    let (a, b, c) = (token("a"), token("b"), token("c"));
    let or = |parts: &[&TermQuery]| TermQuery::or(parts.iter().map(|part| (*part).clone()));
    assert_eq!(or(&[]), TermQuery::None);
    assert_eq!(or(&[&a]), a);
    assert_eq!(or(&[&a, &TermQuery::None, &a]), a);
    assert_eq!(or(&[&a, &TermQuery::All, &b]), TermQuery::All);
    assert_eq!(or(&[&or(&[&a, &b]), &c, &a]), TermQuery::Or(vec![a.clone(), b.clone(), c.clone()]));
}

#[test]
fn page_sets_contain_exactly_their_pages() {
    for (pages, bits) in [(0, 0), (1, 1), (3, 0b111), (63, u64::MAX >> 1), (64, u64::MAX)] {
        assert_eq!(PageSet::first(pages).0, bits);
    }
    let set = PageSet(1 << 63 | 1);
    assert!(set.contains(0) && set.contains(63) && !set.contains(1) && !set.contains(64));
    assert!(PageSet::default().is_empty() && !set.is_empty());
}
