//! Measurements of metrics as rows, each with its metric's name in `metric_name` and its number in `_value`.
//!
//! An event measures a metric when it has these two fields, or fields `metric_name:NAME`, as many as it likes. Where a
//! command asks for names of metrics or for `_value`, `mstats` and `mcatalog` first make rows of one form of both. This
//! command has no name of its own.

use serde::{Deserialize, Serialize};

use super::{CommandInfo, Group, Kind, Semantics};
use crate::analyse::{FieldNeeds, search_fields};
use crate::ast::{CompareOp, FieldPattern, SearchExpr, SearchPattern};

/// Makes a row of each measurement; events without any are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementsCommand;

impl MeasurementsCommand {
    /// Field with the name of a metric.
    pub const METRIC: &str = "metric_name";
    /// Field with its measurement.
    pub const VALUE: &str = "_value";
    /// What fields begin with that have the name of a metric in their own.
    pub const PREFIX: &str = "metric_name:";

    /// It has no name of its own.
    pub(super) const INFO: CommandInfo =
        CommandInfo { group: Group::Searching, kind: Kind::Row, ..CommandInfo::DEFAULT };

    /// Whether a condition asks for names of metrics.
    pub fn is_asked_for(filter: &SearchExpr) -> bool {
        search_fields(filter).contains(Self::METRIC)
    }

    /// What a condition on measurements says of their events: those that it lets through, and perhaps more.
    pub fn events_of(filter: &SearchExpr) -> SearchExpr {
        match filter {
            SearchExpr::And(parts) => SearchExpr::And(parts.iter().map(Self::events_of).collect()),
            SearchExpr::Or(parts) => SearchExpr::Or(parts.iter().map(Self::events_of).collect()),
            SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } if field.text == Self::METRIC => {
                measures(field, std::slice::from_ref(value)).unwrap_or(SearchExpr::All)
            }
            SearchExpr::In { field, values } if field.text == Self::METRIC => {
                measures(field, values).unwrap_or(SearchExpr::All)
            }
            other if Self::is_asked_for(other) => SearchExpr::All,
            other => other.clone(),
        }
    }

    /// What of a condition must be asked of measurements themselves.
    pub fn left_of(filter: &SearchExpr) -> SearchExpr {
        match filter {
            SearchExpr::And(parts) => {
                SearchExpr::And(parts.iter().filter(|part| Self::is_asked_for(part)).cloned().collect())
            }
            other if Self::is_asked_for(other) => other.clone(),
            _ => SearchExpr::All,
        }
    }
}

/// Events with measurements of these metrics; `None` where a name is a pattern, which names of fields cannot be.
fn measures(field: &FieldPattern, metrics: &[SearchPattern]) -> Option<SearchExpr> {
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
