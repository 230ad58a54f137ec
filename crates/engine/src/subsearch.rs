//! Limits of subsearches, and their results in a search expression: rows as conditions.
//!
//! Each row becomes the AND of its fields; rows are joined by OR, as are multiple values of a field. A field named
//! `search` or `query` is used as an expression. Without rows, the condition matches nothing. Source: Splunk's
//! documentation of the `format` command.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows;
use quarry_spl::ast::{NodeBuilder, SearchExpr, Span, SubsearchLimits};
use quarry_spl::excerpt;

/// Default of `maxout=`: maximum number of rows of a subsearch that a command processes.
const SUBSEARCH_ROWS: usize = 50_000;

/// Limits of one subsearch; beyond them, it ends with the rows so far, and a message says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubsearchBounds {
    /// Maximum number of rows.
    pub rows: usize,
    /// Run time in seconds; 0 for no limit.
    pub time_s: u64,
}

impl SubsearchBounds {
    /// Bounds of a subsearch whose rows become conditions or text.
    pub(crate) fn of_condition(context: &CommandContext) -> SubsearchBounds {
        SubsearchBounds { rows: context.subsearches.condition_rows, time_s: context.subsearches.time_s }
    }

    /// Bounds of a subsearch whose rows a command processes, as the options of the command set them.
    pub(crate) fn of_rows(limits: &SubsearchLimits, context: &CommandContext) -> SubsearchBounds {
        SubsearchBounds {
            rows: limits.max_out.unwrap_or(SUBSEARCH_ROWS),
            time_s: limits.max_time_s.unwrap_or(context.subsearches.time_s),
        }
    }

    /// Bounds without a limit of time.
    pub(crate) fn of_count(rows: usize) -> SubsearchBounds {
        SubsearchBounds { rows, time_s: 0 }
    }
}

/// The condition for `rows`.
pub(crate) fn condition_of(batches: &[RecordBatch], span: Span) -> Result<SearchExpr, EngineError> {
    let mut conditions = Vec::new();
    for batch in batches {
        let names: Vec<String> = names_of(batch).into_iter().filter(|name| !name.starts_with('_')).collect();
        let readers: Vec<_> = names.iter().map(|name| rows::reader(batch, name)).collect();
        for row in 0..batch.num_rows() {
            let mut parts = Vec::new();
            for (name, reader) in names.iter().zip(&readers) {
                let values: Vec<String> = reader.values(row).map(std::borrow::Cow::into_owned).collect();
                if !values.is_empty() {
                    parts.push(field_condition(name, values, span)?);
                }
            }
            conditions.extend(join_parts(parts, SearchExpr::And));
        }
    }
    Ok(join_parts(conditions, SearchExpr::Or).unwrap_or_else(|| SearchExpr::Not(Box::new(SearchExpr::All))))
}

fn field_condition(name: &str, values: Vec<String>, span: Span) -> Result<SearchExpr, EngineError> {
    let mut parts = Vec::new();
    for value in values {
        if matches!(name, "search" | "query") {
            let parsed = quarry_spl::parse_condition(&value).map_err(|diagnostics| {
                let reason = diagnostics.first().map(|diagnostic| diagnostic.message.clone()).unwrap_or_default();
                EngineError::Invalid {
                    message: format!("the subsearch returned '{}': {reason}", excerpt(&value)),
                    span: Some(span),
                }
            })?;
            parts.push(parsed);
            continue;
        }
        parts.push(NodeBuilder::at(span).equals(name, &value));
    }
    Ok(join_parts(parts, SearchExpr::Or).unwrap_or(SearchExpr::All))
}

fn join_parts(mut parts: Vec<SearchExpr>, join: fn(Vec<SearchExpr>) -> SearchExpr) -> Option<SearchExpr> {
    if parts.len() > 1 { Some(join(parts)) } else { parts.pop() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
