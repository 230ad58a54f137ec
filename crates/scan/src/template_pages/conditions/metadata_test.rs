//! A test of index, host, source or sourcetype; the answer is the same for all events with the same metadata code.
//!
//! Metadata is tested twice: by the patterns that exclude data before it is read, and by a filter like the filter of
//! extracted fields, which compares numbers as texts. The answer is certain only if both tests agree.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use quarry_eval::EngineError;
use quarry_eval::row_filter::{NumberEquality, RowFilter, network_of};
use quarry_eval::rows;
use quarry_event::Metadata;
use quarry_event::segment::{WordBound, WordPattern};
use quarry_spl::ast::{CompareOp, SearchExpr, SearchPattern};

use crate::event_fields::metadata_text;
use crate::template_pages::outcome::{NO, Outcome, UNDECIDED, YES};
use crate::template_pages::page::PageReader;

/// A test of a metadata field.
pub(super) struct MetadataTest {
    field: String,
    filter: RowFilter,
    early: Option<(Vec<WordPattern>, bool)>,
}

impl MetadataTest {
    /// Compiles a test.
    pub(super) fn new(expr: &SearchExpr, field: String) -> Result<MetadataTest, EngineError> {
        let filter = RowFilter::with_number_rule(expr, &|_, _, _| NumberEquality::Text)?;
        Ok(MetadataTest { field, filter, early: early_metadata_patterns(expr) })
    }

    /// The answer for each of these metadata.
    pub(super) fn test_metadata(&self, metas: &[Metadata]) -> Result<Vec<u8>, EngineError> {
        let texts: Vec<&str> = metas.iter().map(|meta| metadata_text(meta, &self.field)).collect();
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
        let exact = self.filter.matches(&rows::batch_of([(self.field.as_str(), array)], texts.len())?)?;
        let answers = texts.iter().zip(exact.values()).map(|(text, exact)| {
            let early = self.early.as_ref().map_or(exact, |(patterns, wanted)| {
                patterns.iter().any(|pattern| pattern.is_match(text.as_bytes())) == *wanted
            });
            match (early, exact) {
                (true, true) => YES,
                (false, false) => NO,
                _ => UNDECIDED,
            }
        });
        Ok(answers.collect())
    }

    /// The answer for every event of a page.
    pub(super) fn run(&self, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let answers = self.test_metadata(&page.slab.metas)?;
        match answers.split_first() {
            Some((first, rest)) if rest.iter().all(|answer| answer == first) => Ok(Outcome::Same(*first)),
            _ => Ok(Outcome::by_code(&page.metas()?, &answers)),
        }
    }
}

/// The patterns of the early metadata test, and whether one of them must match (`true`) or none may match. `None` if
/// the early test does not decide, as for networks.
fn early_metadata_patterns(expr: &SearchExpr) -> Option<(Vec<WordPattern>, bool)> {
    let whole = |value: &SearchPattern, case| WordPattern::new(&value.text, WordBound::Whole, case);
    let is_network = |value: &SearchPattern| network_of(&value.text).is_some();
    match expr {
        SearchExpr::Compare { value, .. } if is_network(value) => None,
        SearchExpr::In { values, .. } if values.iter().any(is_network) => None,
        SearchExpr::Compare { op: CompareOp::Eq, value, case_sensitive, .. } => {
            Some((vec![whole(value, *case_sensitive)], true))
        }
        SearchExpr::Compare { op: CompareOp::Ne, value, case_sensitive, .. } => {
            Some((vec![whole(value, *case_sensitive)], false))
        }
        SearchExpr::In { values, .. } => Some((values.iter().map(|value| whole(value, false)).collect(), true)),
        SearchExpr::Indexed { value, .. } => Some((vec![whole(value, false)], true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use quarry_spl::ast::{FieldPattern, Span};

    use super::*;

    #[test]
    fn hosts_are_compared_with_networks_and_patterns() {
        let metas = ["10.1.2.3", "10.2.2.3", "WEB"].map(|host| Metadata {
            index: "main".into(),
            host: host.into(),
            source: "s".into(),
            sourcetype: "t".into(),
        });
        for (value, op, expected) in [
            ("10.1.0.0/16", CompareOp::Eq, [YES, NO, NO]),
            ("10.1.0.0/16", CompareOp::Ne, [NO, YES, YES]),
            ("w*", CompareOp::Eq, [NO, NO, YES]),
            ("10.1.2.3", CompareOp::Ne, [NO, YES, YES]),
        ] {
            let span = Span { start: 0, end: 0 };
            let field = FieldPattern { text: "host".to_owned(), span };
            let value = SearchPattern { text: value.to_owned(), quoted: false, span };
            let expr = SearchExpr::Compare { field, op, value, case_sensitive: false };
            let test = MetadataTest::new(&expr, "host".to_owned()).unwrap();
            assert_eq!(test.test_metadata(&metas).unwrap(), expected, "{expr:?}");
        }
    }
}
