//! Metric measurements as rows, each with the metric's name in `metric_name` and the number in `_value`.
//!
//! An event contains a measurement in these two fields, or any number of measurements in fields
//! `metric_name:NAME`. If `mstats` or `mcatalog` refers to metric names or to `_value`, this command runs first and
//! converts both forms to rows. Searches cannot contain this command.

use serde::{Deserialize, Serialize};

use super::{CommandInfo, Group, Kind, Semantics};
use crate::analyse::{FieldNeeds, search_fields};
use crate::ast::{CompareOp, FieldPattern, SearchExpr, SearchPattern};

/// Returns a row for each measurement; events without measurements are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementsCommand {
    /// Whether each row lists the names of its dimensions in the field [`MeasurementsCommand::DIMENSIONS`].
    pub lists_dimensions: bool,
}

impl MeasurementsCommand {
    /// Field with the name of a metric.
    pub const METRIC: &str = "metric_name";
    /// Field with the measured number.
    pub const VALUE: &str = "_value";
    /// Field with the names of a measurement's dimensions.
    pub const DIMENSIONS: &str = "_dims";
    /// Prefix of fields whose name contains the metric's name.
    pub const PREFIX: &str = "metric_name:";

    /// No names: a search cannot contain the command, only the planner inserts it.
    pub(super) const INFO: CommandInfo =
        CommandInfo { group: Group::Searching, kind: Kind::Row, ..CommandInfo::DEFAULT };

    /// Whether a condition refers to metric names.
    pub fn mentions_metric(filter: &SearchExpr) -> bool {
        search_fields(filter).contains(Self::METRIC)
    }

    /// A weaker condition on events, implied by a condition on their measurements.
    pub fn event_condition(filter: &SearchExpr) -> SearchExpr {
        match filter {
            SearchExpr::And(parts) => SearchExpr::And(parts.iter().map(Self::event_condition).collect()),
            SearchExpr::Or(parts) => SearchExpr::Or(parts.iter().map(Self::event_condition).collect()),
            SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } if field.text == Self::METRIC => {
                metric_condition(field, std::slice::from_ref(value)).unwrap_or(SearchExpr::All)
            }
            SearchExpr::In { field, values } if field.text == Self::METRIC => {
                metric_condition(field, values).unwrap_or(SearchExpr::All)
            }
            other if Self::mentions_metric(other) => SearchExpr::All,
            other => other.clone(),
        }
    }

    /// The part of a condition that must be checked for each measurement.
    pub fn remaining_condition(filter: &SearchExpr) -> SearchExpr {
        match filter {
            SearchExpr::And(parts) => {
                SearchExpr::And(parts.iter().filter(|part| Self::mentions_metric(part)).cloned().collect())
            }
            other if Self::mentions_metric(other) => other.clone(),
            _ => SearchExpr::All,
        }
    }
}

/// Condition for events that measure one of these metrics; `None` if a name is a pattern, because field names in a
/// condition cannot be patterns.
fn metric_condition(field: &FieldPattern, metrics: &[SearchPattern]) -> Option<SearchExpr> {
    let test = |name: String, value: &SearchPattern| SearchExpr::Compare {
        field: FieldPattern { text: name, span: field.span },
        op: CompareOp::Eq,
        value: value.clone(),
        case_sensitive: false,
    };
    let mut tests = Vec::with_capacity(2 * metrics.len());
    for metric in metrics {
        if metric.text.contains('*') {
            return None;
        }
        let any = SearchPattern { text: "*".to_owned(), quoted: false, span: metric.span };
        tests.push(test(MeasurementsCommand::METRIC.to_owned(), metric));
        tests.push(test(format!("{}{}", MeasurementsCommand::PREFIX, metric.text), &any));
    }
    Some(SearchExpr::Or(tests))
}

impl Semantics for MeasurementsCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.all |= self.lists_dimensions;
        after.fields.remove(Self::DIMENSIONS);
        after.add(Self::METRIC);
        after.add(Self::VALUE);
        after.add(&format!("{}*", Self::PREFIX));
        after
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn keeps_times(&self) -> bool {
        true
    }
}
