//! Time modifiers inside a condition: `(earliest=-1d index=a) OR (earliest=-7d latest=-6d index=b)`.
//!
//! Each branch of an OR has its own time range, by default the range of the search. The scan reads the smallest range
//! that covers all branches, and the condition tests `_time`. Source: Splunk's manual on specifying several time
//! windows in a search.

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_event::time::{parse_time, seconds_text};
use quarry_event::{TimeNs, TimeRange};
use quarry_spl::ast::{CompareOp, FieldPattern, SearchExpr, SearchPattern, Span};

/// Replaces time modifiers inside a condition.
pub(crate) struct TimeWindows<'a> {
    /// Context with "now" and the time zone.
    pub context: &'a CommandContext,
    /// Time range of branches without time modifiers.
    pub default: TimeRange,
}

/// An end of a range.
enum Bound {
    Earliest(TimeNs),
    Latest(TimeNs),
}

impl TimeWindows<'_> {
    /// The condition with modifiers replaced by tests of `_time`, and the time range to read.
    pub(crate) fn extract(&self, expr: SearchExpr) -> Result<(SearchExpr, TimeRange), EngineError> {
        if !has_windows(&expr) {
            return Ok((expr, self.default));
        }
        self.extract_windows(&expr)
    }

    fn extract_windows(&self, expr: &SearchExpr) -> Result<(SearchExpr, TimeRange), EngineError> {
        match expr {
            SearchExpr::And(parts) => self.extract_conjunction(parts),
            SearchExpr::Or(parts) => {
                let mut tested = Vec::with_capacity(parts.len());
                let mut around: Option<TimeRange> = None;
                for part in parts {
                    let (part, range) = match has_windows(part) {
                        true => self.extract_windows(part)?,
                        false => (within(part.clone(), &self.default), self.default),
                    };
                    tested.push(part);
                    around = Some(around.map_or(range, |around| union(around, range)));
                }
                Ok((SearchExpr::Or(tested), around.unwrap_or(self.default)))
            }
            SearchExpr::Not(part) => {
                let outside = SearchExpr::Not(Box::new(self.extract_windows(part)?.0));
                Ok((within(outside, &self.default), self.default))
            }
            single => self.extract_conjunction(std::slice::from_ref(single)),
        }
    }

    /// Reads a conjunction, whose time modifiers form one range.
    fn extract_conjunction(&self, parts: &[SearchExpr]) -> Result<(SearchExpr, TimeRange), EngineError> {
        let (mut own, mut named) = (TimeRange { earliest: None, latest: None }, false);
        let mut tested = Vec::with_capacity(parts.len());
        let mut inner: Option<TimeRange> = None;
        for part in parts {
            match self.bound(part)? {
                Some(Bound::Earliest(time)) => (own.earliest, named) = (Some(time), true),
                Some(Bound::Latest(time)) => (own.latest, named) = (Some(time), true),
                None if has_windows(part) => {
                    let (part, range) = self.extract_windows(part)?;
                    tested.push(part);
                    inner = Some(inner.map_or(range, |inner| intersection(inner, range)));
                }
                None => tested.push(part.clone()),
            }
        }
        if named {
            if own.latest.is_none() {
                own.latest = Some(self.default.latest.unwrap_or(self.context.now));
            }
            let range = inner.map_or(own, |inner| intersection(inner, own));
            return Ok((within(SearchExpr::And(tested), &own), range));
        }
        Ok((SearchExpr::And(tested), inner.unwrap_or(self.default)))
    }

    fn bound(&self, expr: &SearchExpr) -> Result<Option<Bound>, EngineError> {
        let Some((is_earliest, value)) = time_modifier(expr) else { return Ok(None) };
        let time = parse_time(&value.text, self.context.now, &self.context.zone)
            .map_err(|error| EngineError::Invalid { message: error.to_string(), span: Some(value.span) })?;
        Ok(Some(if is_earliest { Bound::Earliest(time) } else { Bound::Latest(time) }))
    }
}

/// The value of a time modifier, and whether it is the start of a range.
fn time_modifier(expr: &SearchExpr) -> Option<(bool, &SearchPattern)> {
    let SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } = expr else { return None };
    match field.text.as_str() {
        "earliest" | "starttime" | "starttimeu" => Some((true, value)),
        "latest" | "endtime" | "endtimeu" => Some((false, value)),
        _ => None,
    }
}

/// Whether a condition contains time modifiers.
pub(super) fn has_windows(expr: &SearchExpr) -> bool {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().any(has_windows),
        SearchExpr::Not(part) => has_windows(part),
        _ => time_modifier(expr).is_some(),
    }
}

/// Restricts a condition to a time range.
fn within(expr: SearchExpr, range: &TimeRange) -> SearchExpr {
    let test = |op: CompareOp, time: TimeNs| SearchExpr::Compare {
        field: FieldPattern { text: "_time".to_owned(), span: Span::default() },
        op,
        value: SearchPattern { text: seconds_text(time), quoted: true, span: Span::default() },
        case_sensitive: false,
    };
    let mut parts = match expr {
        SearchExpr::And(parts) => parts,
        other => vec![other],
    };
    parts.extend(range.earliest.map(|time| test(CompareOp::Ge, time)));
    parts.extend(range.latest.map(|time| test(CompareOp::Lt, time)));
    match parts.len() {
        0 => SearchExpr::All,
        1 => parts.remove(0),
        _ => SearchExpr::And(parts),
    }
}

fn union(one: TimeRange, other: TimeRange) -> TimeRange {
    TimeRange {
        earliest: one.earliest.zip(other.earliest).map(|(one, other)| one.min(other)),
        latest: one.latest.zip(other.latest).map(|(one, other)| one.max(other)),
    }
}

/// Intersection of two ranges.
pub(crate) fn intersection(one: TimeRange, other: TimeRange) -> TimeRange {
    let both = |one: Option<TimeNs>, other: Option<TimeNs>, pick: fn(TimeNs, TimeNs) -> TimeNs| match (one, other) {
        (Some(one), Some(other)) => Some(pick(one, other)),
        (one, other) => one.or(other),
    };
    TimeRange {
        earliest: both(one.earliest, other.earliest, TimeNs::max),
        latest: both(one.latest, other.latest, TimeNs::min),
    }
}
