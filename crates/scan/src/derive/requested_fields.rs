//! Fields that the commands and the condition of a search request.

use std::collections::BTreeSet;

use quarry_eval::field_names::wildcard_parts;

use crate::fields::Projection;

/// Fields by name or wildcard, or all fields.
#[derive(Clone, Debug)]
pub(crate) struct RequestedFields {
    /// Whether all fields are requested because whole events are shown.
    all: bool,
    /// Whether a command requests all fields with `*`.
    every: bool,
    patterns: Vec<String>,
    /// Fields requested by name.
    pub names: BTreeSet<String>,
}

impl RequestedFields {
    /// The fields of `projection` and those that the condition tests.
    pub(super) fn of<'n>(projection: &Projection, tested: impl Iterator<Item = &'n str>) -> RequestedFields {
        let (mut names, mut patterns): (BTreeSet<String>, Vec<String>) = Default::default();
        names.extend(projection.names.iter().cloned());
        patterns.extend(projection.patterns.iter().cloned());
        for name in tested {
            match name.contains('*') {
                true => patterns.push(name.to_owned()),
                false => drop(names.insert(name.to_owned())),
            }
        }
        RequestedFields { all: projection.all, every: projection.every, patterns, names }
    }

    /// Whether a field is requested by name or pattern, not merely because rows are shown whole.
    pub(super) fn requests_explicitly(&self, field: &str) -> bool {
        // `*` does not cover internal fields.
        (self.every && !field.starts_with('_'))
            || self.names.contains(field)
            || self.patterns.iter().any(|pattern| wildcard_parts(pattern, field).is_some())
    }

    /// Whether all requested fields are in `names`.
    pub(super) fn has_only_names(&self) -> bool {
        !self.all && self.patterns.is_empty()
    }

    /// Whether a field is requested.
    pub(super) fn contains(&self, field: &str) -> bool {
        self.all
            || self.names.contains(field)
            || self.patterns.iter().any(|pattern| wildcard_parts(pattern, field).is_some())
    }
}
