//! Planning passes over the condition of a search: subsearches, event types and tags, time modifiers, limits of roles.

use quarry_eval::EngineError;
use quarry_event::time::{NS_PER_SEC, parse_time};
use quarry_event::{TimeNs, TimeRange};
use quarry_scan::index_patterns;
use quarry_scan::plan::FieldSource;
use quarry_spl::ast::{SearchCommand, SearchExpr, TimeText};
use quarry_stdx::Fault;

use super::comparisons::merge_comparisons;
use super::search_filter::parse_filter;
use super::time_windows::{TimeWindows, intersection};
use super::{Planner, Subsearches};
use crate::subsearch::{SubsearchBounds, condition_of};

impl Planner<'_> {
    /// The condition of a search as it is tested, and the time range to read.
    pub(super) fn condition_of(&self, search: &SearchCommand) -> Result<(SearchExpr, TimeRange), EngineError> {
        let expr = self.resolve_subsearches(&search.expr)?;
        let expr = match self.fields {
            FieldSource::SearchTime => self.runner.expand_labels(&expr)?,
            FieldSource::IndexTime => expr,
        };
        let default = self.range_of(search)?;
        let (expr, range) = TimeWindows { context: &self.runner.context, default }.extract(expr)?;
        let is_bounded = search.time.earliest.is_some() || search.time.latest.is_some();
        Ok((merge_comparisons(expr), if is_bounded { intersection(range, default) } else { range }))
    }

    /// Applies the limits of the user's roles: the search filter, and the start of the time window. Every search over
    /// events passes through here, so no search escapes the limits.
    pub(super) fn within_limits(
        &self,
        condition: SearchExpr,
        range: TimeRange,
    ) -> Result<(SearchExpr, TimeRange), EngineError> {
        let limits = &self.runner.context.permissions.limits;
        let range = match limits.window_s {
            None => range,
            Some(seconds) => {
                let latest = range.latest.unwrap_or(self.runner.context.now);
                let window = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
                intersection(range, TimeRange { earliest: Some(latest.saturating_sub(window)), latest: None })
            }
        };
        let Some(filter) = &limits.filter else { return Ok((condition, range)) };
        let Some(filter) = parse_filter(filter) else {
            let user = &self.runner.context.permissions.user;
            return Err(Fault::denied(format!(
                "the search filter of the roles of user {user} is not a list of terms: correct srchFilter first"
            ))
            .into());
        };
        if self.fields == FieldSource::IndexTime
            && let Some(field) = field_under_not(&filter, false)
        {
            let user = &self.runner.context.permissions.user;
            return Err(Fault::denied(format!(
                "the search filter of the roles of user {user} excludes events by field {field}, which this command \
                 does not extract: use stats, or write {field}::VALUE in srchFilter if the field is indexed"
            ))
            .into());
        }
        Ok((SearchExpr::And(vec![condition, filter]), range))
    }

    /// The indexes named by a condition, or the default indexes.
    pub(super) fn indexes_of(&self, expr: &SearchExpr) -> Vec<String> {
        let default = &self.runner.default_indexes;
        index_patterns(expr, default).unwrap_or_else(|| default.clone())
    }

    /// The condition with subsearches replaced by their results.
    pub(crate) fn resolve_subsearches(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        let all = |parts: &[SearchExpr]| {
            parts.iter().map(|part| self.resolve_subsearches(part)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match expr {
            SearchExpr::And(parts) => SearchExpr::And(all(parts)?),
            SearchExpr::Or(parts) => SearchExpr::Or(all(parts)?),
            SearchExpr::Not(part) => SearchExpr::Not(Box::new(self.resolve_subsearches(part)?)),
            SearchExpr::Subsearch(pipeline) => {
                let rows = self.subsearch_rows(pipeline, SubsearchBounds::of_condition(&self.runner.context))?;
                match self.subsearches {
                    Subsearches::Run => condition_of(&rows, pipeline.span)?,
                    // The result of the subsearch is unknown.
                    Subsearches::Explain(_) => SearchExpr::All,
                }
            }
            other => other.clone(),
        })
    }

    /// The time range of a search: its own modifiers override those of the request.
    fn range_of(&self, search: &SearchCommand) -> Result<TimeRange, EngineError> {
        let context = &self.runner.context;
        let earliest = self.time(search.time.earliest.as_ref())?;
        let latest = self.time(search.time.latest.as_ref())?;
        Ok(match (earliest, latest) {
            (None, None) => context.range,
            (Some(earliest), None) => {
                let latest = context.range.latest.unwrap_or(context.now);
                TimeRange { earliest: Some(earliest), latest: Some(latest) }
            }
            (earliest, latest) => TimeRange { earliest, latest },
        })
    }

    /// The time that a time modifier denotes.
    pub(super) fn time(&self, text: Option<&TimeText>) -> Result<Option<TimeNs>, EngineError> {
        let Some(text) = text else { return Ok(None) };
        let context = &self.runner.context;
        match parse_time(&text.text, context.now, &context.zone) {
            Ok(time) => Ok(Some(time)),
            Err(error) => Err(EngineError::Invalid { message: error.to_string(), span: Some(text.span) }),
        }
    }
}

/// A search-time field below a NOT. If no fields are extracted, such a condition would not filter anything.
fn field_under_not(expr: &SearchExpr, is_negated: bool) -> Option<&str> {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => {
            parts.iter().find_map(|part| field_under_not(part, is_negated))
        }
        SearchExpr::Not(part) => field_under_not(part, true),
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } if is_negated => {
            let is_given = ["index", "host", "source", "sourcetype"].contains(&field.text.as_str());
            (!is_given).then_some(field.text.as_str())
        }
        _ => None,
    }
}
