//! Demands: conditions that the first commands after the scan impose on each row, such as `| search peer=x` after a
//! `rex`, or `stats` by a field, which drops rows without that field.
//!
//! The commands drop the rows that fail a demand, so the scan extracts no further fields of such rows and skips pages
//! without a row that could pass. This only saves work: the commands test every row again. Rows that the scan drops
//! this way still count as matching events.
//!
//! Not here: the choice of demands (engine); dropping rows of a page (`template_pages::predicate_filter`).

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::expr::{ExprContext, Literal};
use quarry_eval::pattern::{BorderBytes, GroupBorders};
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows;
use quarry_event::{TermQuery, TextMark};
use quarry_spl::analyse::search_fields;
use quarry_spl::ast::{CompareOp, SearchExpr, SearchPattern};

use crate::event_fields::{appears_verbatim, is_intrinsic_field};
use crate::filter::{EventFilter, Origins, value_terms};
use crate::spath::is_not_from_text;

/// The demands of a search.
pub(crate) struct PushedPredicates {
    all: Vec<PushedPredicate>,
    terms: TermQuery,
}

/// Origin of a field's value, as far as the commands that run within the scan determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// No command of the scan produces the field; rules extract it.
    Rules,
    /// A command takes the field from a capture group with these borders; if the command finds nothing, rules extract
    /// the field.
    Group(GroupBorders),
}

/// A compiled demand.
pub(crate) struct PushedPredicate {
    /// Fields that the condition tests.
    pub fields: Vec<String>,
    /// The compiled condition.
    pub filter: RowFilter,
}

impl PushedPredicates {
    /// Compiles the conditions.
    pub(crate) fn new(
        conditions: &[SearchExpr],
        filter: &EventFilter,
        border_of: &dyn Fn(&str) -> ValueSource,
        origins: &Origins<'_>,
        context: &ExprContext,
    ) -> Result<PushedPredicates, EngineError> {
        let mut all = Vec::with_capacity(conditions.len());
        let mut terms = Vec::new();
        for condition in conditions {
            all.push(PushedPredicate {
                fields: search_fields(condition).into_iter().collect(),
                filter: RowFilter::new(condition, context)?,
            });
            terms.push(predicate_terms(condition, border_of, origins));
        }
        let terms = match TermQuery::and(terms) {
            TermQuery::All => TermQuery::All,
            terms => TermQuery::and([filter.terms().clone(), terms]),
        };
        Ok(PushedPredicates { all, terms })
    }

    /// All demands.
    pub(crate) fn all(&self) -> &[PushedPredicate] {
        &self.all
    }

    /// Term query for events that match the condition and meet the demands; `All` if the demands narrow it no further.
    pub(crate) fn terms(&self) -> &TermQuery {
        &self.terms
    }

    /// The rows that meet the demands.
    pub(crate) fn filter_rows(&self, mut rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        for demand in &self.all {
            let kept = demand.filter.matches(&rows)?;
            if kept.true_count() < rows.num_rows() {
                rows = rows::filter(&rows, &kept)?;
            }
        }
        Ok(rows)
    }
}

/// The part of a demand that the term dictionary can answer.
fn predicate_terms(
    condition: &SearchExpr,
    border_of: &dyn Fn(&str) -> ValueSource,
    origins: &Origins<'_>,
) -> TermQuery {
    match condition {
        SearchExpr::And(parts) => TermQuery::and(parts.iter().map(|part| predicate_terms(part, border_of, origins))),
        SearchExpr::Or(parts) => TermQuery::or(parts.iter().map(|part| predicate_terms(part, border_of, origins))),
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } => {
            equality_terms(&field.text, value, &border_of(&field.text), origins)
        }
        SearchExpr::In { field, values } => {
            let border = border_of(&field.text);
            TermQuery::or(values.iter().map(|value| equality_terms(&field.text, value, &border, origins)))
        }
        _ => TermQuery::All,
    }
}

fn equality_terms(field: &str, value: &SearchPattern, border: &ValueSource, origins: &Origins<'_>) -> TermQuery {
    let is_elsewhere = is_not_from_text(field) || is_intrinsic_field(field);
    // A number also equals texts that spell it differently.
    if is_elsewhere || !appears_verbatim(field, value) || Literal::new(&value.text).is_number() {
        return TermQuery::All;
    }
    let extracted = value_terms(field, value, origins);
    let (word, bytes) = match border {
        ValueSource::Rules => return extracted,
        ValueSource::Group(GroupBorders::Whole(bytes)) => (TermQuery::for_keyword(&value.text), *bytes),
        // The text after the value may belong to the same token.
        ValueSource::Group(GroupBorders::Begin(bytes)) => (TermQuery::for_keyword(&format!("{}*", value.text)), *bytes),
        ValueSource::Group(GroupBorders::Affixed { prefix, suffix, bytes }) => {
            let suffix = suffix.as_deref().unwrap_or("*");
            (TermQuery::for_keyword(&format!("{prefix}{}{suffix}", value.text)), *bytes)
        }
        ValueSource::Group(GroupBorders::Unknown) => return TermQuery::All,
    };
    let merged = (bytes == BorderBytes::Whitespace).then_some(TermQuery::Marked(TextMark::UnbrokenBlank));
    TermQuery::or([word, extracted].into_iter().chain(merged))
}
