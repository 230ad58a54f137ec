//! Compares the events of a search in two time ranges: which field values are more or less frequent in the selection
//! than in the baseline.
//!
//! A frequency is a share of the events of a range, so that ranges of different length can be compared. Only the most
//! frequent values of each field in either range are compared. Fields whose value differs in nearly every event, such
//! as ids, are not compared. `fieldsummary` lists only the most frequent values of a range. If `fieldsummary` lists a
//! value for one range only, a second search reads the count of the value in the other range
//! ([`RangeFields::uncounted`]).
//!
//! Not here: the choice of the ranges, and the display of the differences.

use std::collections::{BTreeMap, BTreeSet};

use quarry_stdx::number::{f64_of, integer_part};
use serde_json::Value;

use crate::service::Outcome;
use crate::table::Row;

/// Maximum number of values of a field that `fieldsummary` returns for each range; the values of both are compared.
pub const VALUES_MAX: usize = 100;
/// Maximum number of differences returned; the smallest are omitted.
pub const DIFFERENCES_MAX: usize = 200;
/// A field is not compared if the number of its distinct values exceeds both [`ALWAYS_COMPARED_MAX`] and this share of
/// its events.
const DISTINCT_SHARE_MAX: f64 = 0.5;
/// A field with at most this many distinct values is always compared.
const ALWAYS_COMPARED_MAX: f64 = 20.0;
/// Name of a field that every event has, so that its count is the number of events.
const UNIVERSAL_FIELD: &str = "index";

/// A field value that is more frequent in one of the two ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Name of the field.
    pub field: String,
    /// Value as text.
    pub value: String,
    /// Number of events with this value in the selection.
    pub selected: u64,
    /// Number of events with this value in the baseline.
    pub baseline: u64,
    /// Share of events with this value in the selection minus the share in the baseline, from -1 to 1.
    pub difference: f64,
}

/// The fields of a range, as `fieldsummary` describes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeFields {
    /// Number of events.
    pub events: u64,
    fields: BTreeMap<String, FieldCounts>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct FieldCounts {
    count: f64,
    distinct: f64,
    values: BTreeMap<String, u64>,
}

impl RangeFields {
    /// Reads the result of `fieldsummary`.
    pub fn from_summary(outcome: &Outcome) -> RangeFields {
        let mut found = RangeFields::default();
        for row in outcome.table.rows() {
            let text = |name: &str| row.cell_by_name(name).join_values("\n").into_owned();
            let number = |name: &str| text(name).parse::<f64>().unwrap_or(0.0);
            let counts = FieldCounts {
                count: number("count"),
                distinct: number("distinct_count"),
                values: parse_value_counts(&row),
            };
            if text("field") == UNIVERSAL_FIELD {
                found.events = integer_part(counts.count);
            }
            found.fields.insert(text("field"), counts);
        }
        found
    }

    /// Values, by field, that `other` lists and whose counts in this range are not known.
    pub fn uncounted(&self, other: &RangeFields) -> BTreeMap<String, BTreeSet<String>> {
        let of = |name: &&String| {
            let (own, others) = (self.fields.get(*name)?, other.fields.get(*name)?);
            // A complete list lacks only values that do not occur.
            let is_complete = f64_of(own.values.len()) >= own.distinct;
            let unknown = others.values.keys().filter(|value| !is_complete && !own.values.contains_key(*value));
            Some(((*name).clone(), unknown.cloned().collect::<BTreeSet<String>>()))
        };
        let found = compared_fields(self, other).into_iter().filter_map(|name| of(&name));
        found.filter(|(_, values)| !values.is_empty()).collect()
    }

    /// Adds the counts of `values` from a summary that lists them.
    pub fn add_counts(&mut self, values: &BTreeMap<String, BTreeSet<String>>, counted: &RangeFields) {
        for (name, values) in values {
            let (Some(own), Some(counted)) = (self.fields.get_mut(name), counted.fields.get(name)) else { continue };
            own.values.extend(values.iter().filter_map(|value| Some((value.clone(), *counted.values.get(value)?))));
        }
    }

    /// Number of events with a value, and their share of all events of the range.
    fn share(&self, field: &str, value: &str) -> (u64, f64) {
        let count = self.fields.get(field).and_then(|counts| counts.values.get(value)).copied().unwrap_or(0);
        (count, f64_of(count) / f64_of(self.events.max(1)))
    }
}

fn parse_value_counts(row: &Row<'_>) -> BTreeMap<String, u64> {
    let text = row.cell_by_name("values").join_values("\n").into_owned();
    let listed: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    let pair = |value: &Value| Some((value["value"].as_str()?.to_owned(), value["count"].as_u64()?));
    listed.iter().filter_map(pair).collect()
}

impl FieldCounts {
    /// Whether the field has too many distinct values to compare.
    fn is_id(&self) -> bool {
        self.distinct > ALWAYS_COMPARED_MAX && self.distinct > DISTINCT_SHARE_MAX * self.count
    }
}

/// Names of the fields that are compared.
fn compared_fields<'r>(selected: &'r RangeFields, baseline: &'r RangeFields) -> Vec<&'r String> {
    let names: BTreeSet<&String> = selected.fields.keys().chain(baseline.fields.keys()).collect();
    let is_id = |range: &RangeFields, name: &str| range.fields.get(name).is_some_and(FieldCounts::is_id);
    // The parts of `_time` always differ between two ranges.
    let is_of_time = |name: &str| name.starts_with("date_");
    names.into_iter().filter(|name| !is_of_time(name) && !is_id(selected, name) && !is_id(baseline, name)).collect()
}

/// The differences between two ranges, the largest first. The counts of all compared values must be known.
pub fn find_differences(selected: &RangeFields, baseline: &RangeFields) -> Vec<Difference> {
    let mut found = Vec::new();
    for name in compared_fields(selected, baseline) {
        let of = |range: &'_ RangeFields| -> Vec<String> {
            range.fields.get(name).map(|counts| counts.values.keys().cloned().collect()).unwrap_or_default()
        };
        let mut values = of(selected);
        values.extend(of(baseline));
        values.sort();
        values.dedup();
        for value in values {
            let ((own, own_share), (other, other_share)) = (selected.share(name, &value), baseline.share(name, &value));
            let difference = own_share - other_share;
            if difference != 0.0 {
                found.push(Difference { field: name.clone(), value, selected: own, baseline: other, difference });
            }
        }
    }
    found.sort_by(|a, b| {
        let by_size = b.difference.abs().total_cmp(&a.difference.abs());
        by_size.then_with(|| a.field.cmp(&b.field)).then_with(|| a.value.cmp(&b.value))
    });
    found.truncate(DIFFERENCES_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(events: u64, fields: &[(&str, &[(&str, u64)])]) -> RangeFields {
        let counts = |values: &[(&str, u64)]| FieldCounts {
            count: events as f64,
            distinct: values.len() as f64,
            values: values.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect(),
        };
        RangeFields {
            events,
            fields: fields.iter().map(|(name, values)| ((*name).to_owned(), counts(values))).collect(),
        }
    }

    #[test]
    fn differences_compare_shares_not_counts() {
        let selected = range(10, &[("status", &[("200", 5), ("500", 5)]), ("same", &[("x", 10)])]);
        let baseline = range(100, &[("status", &[("200", 100)]), ("same", &[("x", 100)])]);
        let found = find_differences(&selected, &baseline);
        let shown: Vec<(&str, f64)> = found.iter().map(|found| (found.value.as_str(), found.difference)).collect();
        assert_eq!(shown, [("200", -0.5), ("500", 0.5)]);
        assert!(find_differences(&selected, &selected).is_empty());
    }

    #[test]
    fn values_beyond_the_listed_ones_are_counted_again() {
        let mut selected = range(10, &[("user", &[("u1", 3), ("u2", 2)]), ("level", &[("info", 10)])]);
        let baseline = range(20, &[("user", &[("u3", 4)]), ("level", &[("warn", 20)]), ("new", &[("x", 1)])]);
        assert!(selected.uncounted(&baseline).is_empty(), "both lists are complete");
        selected.fields.get_mut("user").unwrap().distinct = 5.0;
        let unknown = selected.uncounted(&baseline);
        assert_eq!(unknown, BTreeMap::from([("user".to_owned(), BTreeSet::from(["u3".to_owned()]))]));
        selected.add_counts(&unknown, &range(10, &[("user", &[("u1", 3), ("u3", 2)])]));
        let found = find_differences(&selected, &baseline);
        assert!(found.iter().all(|found| found.value != "u3"), "2 of 10 and 4 of 20 are the same share: {found:?}");
        assert_eq!(found.iter().filter(|found| found.field == "user").count(), 2);
    }

    #[test]
    fn ids_and_time_fields_are_excluded() {
        let names: Vec<String> = (0..40).map(|at| at.to_string()).collect();
        let values: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert!(find_differences(&range(40, &[("id", &values)]), &range(40, &[])).is_empty());
        let hours =
            find_differences(&range(1, &[("date_hour", &[("7", 1)])]), &range(1, &[("date_hour", &[("8", 1)])]));
        assert!(hours.is_empty());
        assert_eq!(find_differences(&range(0, &[]), &range(0, &[])), []);
    }
}
