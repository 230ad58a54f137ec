//! Fields that a command or the event scan must deliver: some by name, some by pattern, or all.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::read_fields::{TIME, expr_fields, reads_event};
use crate::ast::{Aggregate, AggregateArg, DependsOn, Expr, FieldPattern};

/// Fields that must be delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldNeeds {
    /// Every field.
    pub all: bool,
    /// Whether a command asks for every field by `*`, including fields that are computed only on request.
    pub every: bool,
    /// Fields by name.
    pub fields: BTreeSet<String>,
    /// Names with `*`.
    pub patterns: Vec<String>,
}

impl FieldNeeds {
    /// Needs that include every field.
    pub fn all_fields() -> FieldNeeds {
        FieldNeeds { all: true, ..FieldNeeds::default() }
    }

    /// Adds a field, or all fields that match a name with `*`.
    pub(crate) fn add(&mut self, name: &str) {
        if name == "*" {
            (self.all, self.every) = (true, true);
        } else if name.contains('*') {
            if !self.patterns.iter().any(|known| known == name) {
                self.patterns.push(name.to_owned());
            }
        } else {
            self.fields.insert(name.to_owned());
        }
    }

    pub(crate) fn add_all<'a>(&mut self, fields: impl IntoIterator<Item = &'a FieldPattern>) {
        for field in fields {
            self.add(&field.text);
        }
    }

    /// Adds the fields of a list; an empty list means every field.
    pub(crate) fn add_list(&mut self, fields: &[FieldPattern]) {
        self.all |= fields.is_empty();
        self.add_all(fields);
    }

    /// Adds the fields that an expression reads.
    pub(crate) fn add_expr(&mut self, expr: &Expr) {
        self.fields.extend(expr_fields(expr));
        if reads_event(expr) {
            self.all = true;
        }
    }

    /// Removes the results of aggregates, which the command sets in every row regardless of previous values.
    pub(crate) fn remove_results(&mut self, aggregates: &[Aggregate]) {
        for aggregate in aggregates {
            self.fields.remove(&aggregate.name);
        }
    }

    /// Adds the fields that aggregates read.
    pub(crate) fn add_aggregates(&mut self, aggregates: &[Aggregate]) {
        for aggregate in aggregates {
            match &aggregate.arg {
                AggregateArg::Rows => {}
                AggregateArg::Field(field) => self.add(&field.text),
                AggregateArg::Eval(expr) => self.add_expr(expr),
            }
            if aggregate.function.depends_on() == DependsOn::Time {
                self.add(TIME);
            }
        }
    }

    /// Adds all that `other` needs.
    pub(crate) fn add_needs(&mut self, other: FieldNeeds) {
        self.all |= other.all;
        self.every |= other.every;
        self.fields.extend(other.fields);
        other.patterns.iter().for_each(|pattern| self.add(pattern));
    }

    pub(crate) fn includes(&self, name: &str) -> bool {
        self.all || self.fields.contains(name) || self.patterns.iter().any(|pattern| matches_pattern(pattern, name))
    }
}

/// Whether a pattern with `*` matches a name.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_cover_names() {
        for (pattern, name, want) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("a*b*c", "axbxc", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), want, "{pattern} {name}");
        }
    }
}
