//! Access paths of a query: by keys, by ranges of index entries, or a full scan.
//!
//! An access path may return documents that do not match, but never misses a matching document; each document is
//! compared with the whole query. The choice of path affects only the speed.

use serde_json::Value;

use crate::KEY;
use crate::definition::Acceleration;
use crate::entry::{PREFIX_END, encode, type_byte};
use crate::field_path::FieldPath;
use crate::query::{Condition, Query, Relation, Test};
use crate::sort::Sort;

/// Maximum number of keys or ranges of an access path; a path that needs more is not used.
const PROBES_MAX: usize = 20_000;

/// An acceleration (index) stored in a file.
#[derive(Clone, Debug)]
pub(crate) struct StoredAcceleration {
    pub(crate) id: i64,
    pub(crate) acceleration: Acceleration,
    /// Whether each document has exactly one entry and the entries sort exactly as the values do.
    pub(crate) is_exact: bool,
}

/// A half-open range of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) acceleration: i64,
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

/// Access to documents that may match: by key, or by a range of an acceleration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Key(String),
    Range(Range),
}

/// Probes with their estimated selectivity.
struct Plan {
    probes: Vec<Probe>,
    worth: u32,
}

const KEY_SELECTIVITY: u32 = 1_000;
const EQUAL_SELECTIVITY: u32 = 10;
const RANGE_SELECTIVITY: u32 = 3;

/// Probes that find all matching documents; `None` if a full scan is necessary.
pub(crate) fn probes(query: &Query, kept: &[StoredAcceleration]) -> Option<Vec<Probe>> {
    plan(&query.0, kept).map(|plan| plan.probes)
}

fn plan(conditions: &[Condition], kept: &[StoredAcceleration]) -> Option<Plan> {
    let mut tests = Vec::new();
    let mut alternatives = Vec::new();
    conditions.iter().for_each(|condition| collect(condition, &mut tests, &mut alternatives));
    let mut best: Option<Plan> = key_plan(&tests);
    let mut offer = |plan: Plan| {
        if plan.probes.len() <= PROBES_MAX && best.as_ref().is_none_or(|best| best.worth < plan.worth) {
            best = Some(plan);
        }
    };
    for kept in kept {
        let reach = Coverage::of(kept, &tests);
        if reach.worth > 0 {
            let probes = reach.ranges(kept.id).into_iter().map(Probe::Range).collect();
            offer(Plan { probes, worth: reach.worth });
        }
    }
    for branches in alternatives {
        let plans: Option<Vec<Plan>> = branches.iter().map(|one| plan(std::slice::from_ref(one), kept)).collect();
        let Some(plans) = plans else { continue };
        let worth = plans.iter().map(|plan| plan.worth).min().unwrap_or_default();
        offer(Plan { probes: plans.into_iter().flat_map(|plan| plan.probes).collect(), worth });
    }
    best
}

/// Collects the tests that must all hold, and the alternatives: lists of conditions of which at least one must hold.
fn collect<'q>(
    condition: &'q Condition,
    tests: &mut Vec<(&'q FieldPath, &'q Test)>,
    alternatives: &mut Vec<&'q [Condition]>,
) {
    match condition {
        Condition::All(conditions) => conditions.iter().for_each(|one| collect(one, tests, alternatives)),
        Condition::Any(conditions) => alternatives.push(conditions),
        Condition::Not(_) => {}
        Condition::Field(path, Test::All(all)) => tests.extend(all.iter().map(|test| (path, test))),
        Condition::Field(path, test) => tests.push((path, test)),
    }
}

fn key_plan(tests: &[(&FieldPath, &Test)]) -> Option<Plan> {
    let key = |value: &Value| value.as_str().map(|key| Probe::Key(key.to_owned()));
    let of = |test: &Test| match test {
        Test::Equal(value) => key(value).map(|key| vec![key]),
        Test::In(values) => values.iter().map(key).collect(),
        _ => None,
    };
    let probes = tests.iter().filter(|(path, _)| path.name() == KEY).find_map(|(_, test)| of(test))?;
    (probes.len() <= PROBES_MAX).then_some(Plan { probes, worth: KEY_SELECTIVITY })
}

/// Part of an acceleration that a query's tests cover: equal values of its first fields, then bounds of the next field.
struct Coverage {
    prefixes: Vec<Vec<u8>>,
    /// Number of fields with equality.
    equal: usize,
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    worth: u32,
}

impl Coverage {
    fn of(kept: &StoredAcceleration, tests: &[(&FieldPath, &Test)]) -> Coverage {
        let mut reach = Coverage { prefixes: vec![Vec::new()], equal: 0, bounds: None, worth: 0 };
        for field in &kept.acceleration.fields {
            let mut own = tests.iter().filter(|(path, _)| *path == field).map(|(_, test)| *test);
            let values = own.clone().find_map(|test| encoded_values(test, PROBES_MAX / reach.prefixes.len().max(1)));
            if let Some(values) = values {
                let joined = |prefix: &Vec<u8>| {
                    values.iter().map(|value| [prefix.as_slice(), value].concat()).collect::<Vec<_>>()
                };
                reach.prefixes = reach.prefixes.iter().flat_map(joined).collect();
                reach.equal += 1;
                reach.worth += EQUAL_SELECTIVITY;
                continue;
            }
            // Both bounds can be combined only for single values: of several values, one value may satisfy the lower
            // bound and another value the upper bound.
            let bounds = own.by_ref().filter_map(bounds);
            reach.bounds = match kept.is_exact {
                true => bounds.reduce(|(from, to), (other_from, other_to)| (from.max(other_from), to.min(other_to))),
                false => bounds.take(1).next(),
            };
            reach.worth += if reach.bounds.is_some() { RANGE_SELECTIVITY } else { 0 };
            break;
        }
        reach
    }

    fn ranges(&self, acceleration: i64) -> Vec<Range> {
        let range = |prefix: &Vec<u8>| {
            let (from, to) = match &self.bounds {
                Some((from, to)) => ([prefix.as_slice(), from].concat(), [prefix.as_slice(), to].concat()),
                None => (prefix.clone(), [prefix.as_slice(), &[PREFIX_END]].concat()),
            };
            Range { acceleration, from, to }
        };
        self.prefixes.iter().map(range).collect()
    }
}

fn encoded_values(test: &Test, most: usize) -> Option<Vec<Vec<u8>>> {
    let encoded = |value: &Value| {
        type_byte(value)?;
        let mut out = Vec::new();
        encode(value, &mut out);
        Some(out)
    };
    match test {
        Test::Equal(value) => encoded(value).map(|value| vec![value]),
        Test::In(values) if values.len() <= most => {
            let mut values: Vec<Vec<u8>> = values.iter().map(encoded).collect::<Option<_>>()?;
            values.sort_unstable();
            values.dedup();
            Some(values)
        }
        _ => None,
    }
}

/// Range of the entries of values that have the same type as a bound and lie above or below it.
fn bounds(test: &Test) -> Option<(Vec<u8>, Vec<u8>)> {
    let Test::Compare(relation, value) = test else { return None };
    let kind = type_byte(value)?;
    let mut bound = Vec::new();
    encode(value, &mut bound);
    Some(match relation {
        Relation::Greater | Relation::GreaterOrEqual => (bound, vec![kind + 1]),
        Relation::Less | Relation::LessOrEqual => {
            bound.push(PREFIX_END);
            (vec![kind], bound)
        }
    })
}

/// A range of entries that contains all matching documents in the order of `sort`, and whether to read it backwards.
pub(crate) fn sorted_range(query: &Query, sort: &Sort, kept: &[StoredAcceleration]) -> Option<(Range, bool)> {
    let is_descending = sort.0.first()?.is_descending;
    if sort.0.iter().any(|field| field.is_descending != is_descending) {
        return None;
    }
    let (mut tests, mut alternatives) = (Vec::new(), Vec::new());
    query.0.iter().for_each(|condition| collect(condition, &mut tests, &mut alternatives));
    let of = |kept: &StoredAcceleration| {
        let reach = Coverage::of(kept, &tests);
        let fields = kept.acceleration.fields.get(reach.equal..)?;
        let is_order = fields.len() == sort.0.len() && fields.iter().eq(sort.0.iter().map(|field| &field.path));
        let range = reach.ranges(kept.id).into_iter().next().filter(|_| reach.prefixes.len() == 1)?;
        (kept.is_exact && is_order).then_some((reach.worth, range))
    };
    let (_, range) = kept.iter().filter_map(of).max_by_key(|(worth, _)| *worth)?;
    Some((range, is_descending))
}

/// Texts that must occur in the JSON of every matching document, from the query's required field values.
pub(crate) fn required_texts(query: &Query) -> Vec<String> {
    let (mut tests, mut alternatives) = (Vec::new(), Vec::new());
    query.0.iter().for_each(|condition| collect(condition, &mut tests, &mut alternatives));
    let text = |(path, test): &(&FieldPath, &Test)| match test {
        // Key and user are stored outside the JSON.
        Test::Equal(value @ Value::String(_)) if !path.name().starts_with('_') => Some(value.to_string()),
        _ => None,
    };
    tests.iter().filter_map(text).collect()
}
