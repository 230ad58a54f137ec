//! Simplifies a term query for one slab, whose hosts, sources and sourcetypes are known.
//!
//! A metadata pattern that matches none of the slab's events is replaced by a condition that is always false. If the
//! pattern stayed in a disjunction with terms, the term filter could not exclude the slab, and locators would return
//! pages for tokens that the slab lacks. Not here: the pages of a slab that match a metadata pattern.

use std::borrow::Cow;

use quarry_event::segment::fold_case;
use quarry_event::term::MetaField;
use quarry_event::{Metadata, TermQuery};

use crate::selector::wildcard_match;

fn text_of(meta: &Metadata, field: MetaField) -> &str {
    match field {
        MetaField::Index => &meta.index,
        MetaField::Host => &meta.host,
        MetaField::Source => &meta.source,
        MetaField::Sourcetype => &meta.sourcetype,
    }
}

/// Whether metadata matches a lower-cased pattern.
pub(crate) fn matches(meta: &Metadata, field: MetaField, pattern: &str) -> bool {
    let text = text_of(meta, field);
    // Fast path without allocation, because a slab may have thousands of hosts and most patterns are plain names.
    match pattern.is_ascii() && text.is_ascii() && !pattern.contains('*') {
        true => text.eq_ignore_ascii_case(pattern),
        false => wildcard_match(&fold_case(pattern), &fold_case(text)),
    }
}

/// The query, in which [`TermQuery::None`] replaces each metadata pattern that matches none of `metas`.
pub(crate) fn restrict_to_slab<'q>(query: &'q TermQuery, metas: &[Metadata]) -> Cow<'q, TermQuery> {
    let is_absent = |field, pattern: &str| !metas.iter().any(|meta| matches(meta, field, pattern));
    match has_absent_pattern(query, &is_absent) {
        true => Cow::Owned(replace_absent_patterns(query, &is_absent)),
        false => Cow::Borrowed(query),
    }
}

/// Whether the query contains a metadata pattern for which `is_absent` is true.
fn has_absent_pattern(query: &TermQuery, is_absent: &dyn Fn(MetaField, &str) -> bool) -> bool {
    match query {
        TermQuery::Meta { field, pattern } => is_absent(*field, pattern),
        TermQuery::And(parts) | TermQuery::Or(parts) => parts.iter().any(|part| has_absent_pattern(part, is_absent)),
        TermQuery::Value { tokens, .. } => has_absent_pattern(tokens, is_absent),
        TermQuery::All | TermQuery::None | TermQuery::Marked(_) | TermQuery::IndexTimeFields => false,
        TermQuery::Token(_) | TermQuery::Prefix(_) => false,
        TermQuery::Field { .. } | TermQuery::FieldNumber { .. } => false,
    }
}

fn replace_absent_patterns(query: &TermQuery, is_absent: &dyn Fn(MetaField, &str) -> bool) -> TermQuery {
    let of_all =
        |parts: &[TermQuery]| parts.iter().map(|part| replace_absent_patterns(part, is_absent)).collect::<Vec<_>>();
    match query {
        TermQuery::Meta { field, pattern } if is_absent(*field, pattern) => TermQuery::None,
        TermQuery::And(parts) => TermQuery::and(of_all(parts)),
        TermQuery::Or(parts) => TermQuery::or(of_all(parts)),
        TermQuery::Value { field, value, tokens } => {
            TermQuery::for_field_value(field, value, replace_absent_patterns(tokens, is_absent))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_metadata_patterns_are_removed_and_others_kept() {
        let meta = |sourcetype: &str| Metadata {
            index: "main".into(),
            host: "h".into(),
            source: "s".into(),
            sourcetype: sourcetype.into(),
        };
        let metas = [meta("syslog"), meta("Access_combined")];
        let of = |pattern: &str| TermQuery::Meta { field: MetaField::Sourcetype, pattern: pattern.into() };
        let token = || TermQuery::Token("id1".into());
        let shown = |query: &TermQuery| restrict_to_slab(query, &metas).into_owned();
        assert_eq!(shown(&TermQuery::or([token(), of("xmlwineventlog")])), token());
        assert_eq!(shown(&TermQuery::and([token(), TermQuery::or([of("a"), of("b*")])])), TermQuery::None);
        for kept in ["syslog", "access_*", "*"] {
            let query = TermQuery::or([token(), of(kept)]);
            assert!(matches!(restrict_to_slab(&query, &metas), Cow::Borrowed(same) if *same == query), "{kept}");
        }
    }
}
