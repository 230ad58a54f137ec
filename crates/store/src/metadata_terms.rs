//! Simplifies a term query for one slab, whose hosts, sources, sourcetypes and marks are known.
//!
//! A metadata pattern that matches none of the slab's events, or a mark that none of its texts has, is replaced by a
//! condition that is always false. If the pattern or mark stayed in a disjunction with terms, the term filter could not exclude the slab, and locators would return
//! pages for tokens that the slab lacks. Not here: the pages of a slab that match a metadata pattern.

use std::borrow::Cow;

use quarry_bucket::SlabInfo;
use quarry_event::segment::fold_case;
use quarry_event::term::MetaField;
use quarry_event::{Metadata, TermQuery};

use crate::selector::wildcard_match;

/// The text of a metadata field.
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

/// The query, in which [`TermQuery::None`] replaces each metadata pattern that matches none of `metas`, and each mark
/// that no text of the slab has.
pub(crate) fn restrict_to_slab<'q>(query: &'q TermQuery, slab: &SlabInfo) -> Cow<'q, TermQuery> {
    let is_absent = |query: &TermQuery| match query {
        TermQuery::Meta { field, pattern } => !slab.metas.iter().any(|meta| matches(meta, *field, pattern)),
        TermQuery::Marked(mark) => slab.absent_marks.contains(*mark),
        _ => false,
    };
    match has_absent_part(query, &is_absent) {
        true => Cow::Owned(replace_absent_parts(query, &is_absent)),
        false => Cow::Borrowed(query),
    }
}

/// Whether `is_absent` is true for a part of the query.
fn has_absent_part(query: &TermQuery, is_absent: &dyn Fn(&TermQuery) -> bool) -> bool {
    match query {
        TermQuery::And(parts) | TermQuery::Or(parts) => parts.iter().any(|part| has_absent_part(part, is_absent)),
        TermQuery::Value { tokens, .. } => has_absent_part(tokens, is_absent),
        leaf => is_absent(leaf),
    }
}

fn replace_absent_parts(query: &TermQuery, is_absent: &dyn Fn(&TermQuery) -> bool) -> TermQuery {
    let of_all =
        |parts: &[TermQuery]| parts.iter().map(|part| replace_absent_parts(part, is_absent)).collect::<Vec<_>>();
    match query {
        TermQuery::And(parts) => TermQuery::and(of_all(parts)),
        TermQuery::Or(parts) => TermQuery::or(of_all(parts)),
        TermQuery::Value { field, value, tokens } => {
            TermQuery::for_field_value(field, value, replace_absent_parts(tokens, is_absent))
        }
        leaf if is_absent(leaf) => TermQuery::None,
        leaf => leaf.clone(),
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::{MarkSet, TextMark};

    use super::*;

    #[test]
    fn absent_metadata_patterns_and_marks_are_removed_and_others_kept() {
        let meta = |sourcetype: &str| Metadata {
            index: "main".into(),
            host: "h".into(),
            source: "s".into(),
            sourcetype: sourcetype.into(),
        };
        let metas = [meta("syslog"), meta("Access_combined")];
        let absent_marks = MarkSet::absent_from(b"<e>&#65;</e>");
        let slab = SlabInfo { first_row: 0, pages: Vec::new(), metas: metas.into(), absent_marks };
        let of = |pattern: &str| TermQuery::Meta { field: MetaField::Sourcetype, pattern: pattern.into() };
        let token = || TermQuery::Token("id1".into());
        let shown = |query: &TermQuery| restrict_to_slab(query, &slab).into_owned();
        assert_eq!(shown(&TermQuery::or([token(), of("xmlwineventlog")])), token());
        assert_eq!(shown(&TermQuery::and([token(), TermQuery::or([of("a"), of("b*")])])), TermQuery::None);
        assert_eq!(shown(&TermQuery::or([token(), TermQuery::Marked(TextMark::JsonLetter)])), token());
        let marked = TermQuery::Marked(TextMark::XmlToken);
        let kept = ["syslog", "access_*", "*"].map(of).into_iter().chain([marked]);
        for kept in kept {
            let query = TermQuery::or([token(), kept.clone()]);
            assert!(matches!(restrict_to_slab(&query, &slab), Cow::Borrowed(same) if *same == query), "{kept:?}");
        }
    }
}
