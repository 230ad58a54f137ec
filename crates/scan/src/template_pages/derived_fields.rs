//! Fields whose values are computed from other values: fields that a rule extracts from another field (`EXTRACT-file =
//! … in uri_path`), and stored lists of values.
//!
//! If the templates determine the location of the other field, the rule runs once per distinct value. The rule has the
//! lowest precedence: a value found by another rule or by automatic extraction is kept.
//!
//! Not here: rules that read each other's fields; these run on the text ([`crate::fields`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnBuilder, ColumnReader, DistinctMemo, NumberHandling};
use quarry_event::template::VALUE_SEPARATOR;

use super::ambiguous_columns::{AmbiguousColumn, keys_in_columns};
use super::value_location::ValueLocation;
use crate::fields::{Extract, ExtractionClass};

/// Computation of a field's values from other values.
#[derive(Clone)]
pub(super) enum Derivation {
    /// A pattern finds the values in the values of another field.
    Pattern(DerivedField),
    /// This column contains the values of each event, joined by [`VALUE_SEPARATOR`].
    Lists { column: u32 },
}

impl Derivation {
    /// Distinguishes the derivations in a slab: the address of a rule and the group, or the column. No rule has the
    /// address 0.
    pub(super) fn key(&self) -> (usize, usize) {
        match self {
            Derivation::Pattern(pattern) => (Arc::as_ptr(&pattern.rule).addr(), pattern.group),
            Derivation::Lists { column } => (0, *column as usize),
        }
    }

    /// The derived values, with earlier results cached in `known`.
    pub(super) fn derive_values(&self, values: &ArrayRef, known: &DistinctMemo) -> Result<ArrayRef, EngineError> {
        let find = |values: &ArrayRef| match self {
            Derivation::Pattern(pattern) => pattern.find_in(values),
            Derivation::Lists { .. } => separated(values),
        };
        let by_value = known.run(values, NumberHandling::ByValue, |values| Ok(Some(vec![find(values)])))?;
        Ok(by_value.and_then(|found| found.into_iter().next()).unwrap_or_else(|| find(values)))
    }
}

/// The values of each joined list.
fn separated(lists: &ArrayRef) -> ArrayRef {
    let (reader, mut scratch) = (ColumnReader::new(lists), String::new());
    let mut found = ColumnBuilder::new(lists.len());
    for row in 0..lists.len() {
        match reader.text(row, &mut scratch) {
            Some(values) => found.push_multi(values.split(VALUE_SEPARATOR)),
            None => found.push_null(),
        }
    }
    assert_eq!(found.len(), lists.len(), "each list has its values");
    found.finish()
}

/// A group of a rule that produces a field.
#[derive(Clone)]
pub(super) struct DerivedField {
    pub rule: Arc<Extract>,
    pub group: usize,
}

impl DerivedField {
    /// The rule that derives field number `at` of `names` from another field, if such a rule exists. Where nothing else
    /// finds the field, its location becomes [`ValueLocation::Derived`], or [`ValueLocation::Text`] if the location of
    /// the other field is unknown. `places` is indexed by name, then by key.
    pub(super) fn find(
        name: &str,
        at: usize,
        names: &[String],
        classes: &[ExtractionClass],
        places: &mut [Vec<ValueLocation>],
        patterned: &[Vec<bool>],
        doubts: &mut [Vec<Box<[AmbiguousColumn]>>],
    ) -> Option<DerivedField> {
        let mut derived: Option<DerivedField> = None;
        let keys = places[at].len() / classes.len().max(1);
        for (number, class) in classes.iter().enumerate() {
            let mut rules = class.field_patterns.iter();
            let Some((rule, group)) = rules.find_map(|rule| Some((rule, rule.group(name)?))) else { continue };
            let source = names.iter().position(|known| *known == rule.field);
            let known = derived.get_or_insert_with(|| DerivedField { rule: Arc::clone(rule), group });
            let is_same = Arc::ptr_eq(&known.rule, rule);
            for key in number * keys..(number + 1) * keys {
                // A `key=value` pair found inside the value of another column takes precedence over the rule. The rule
                // applies to events without such a pair; events that may contain one are read from the text.
                if let ValueLocation::Pair(pair) = &places[at][key] {
                    (places[at][key], doubts[at][key]) = match pair.columns() {
                        Some(columns) => (ValueLocation::Absent, keys_in_columns(&columns)),
                        None => (ValueLocation::Text, Box::default()),
                    };
                }
                // If the located value is empty, the rule may find another.
                if places[at][key].may_be_empty() {
                    places[at][key] = ValueLocation::Text;
                }
                // A value from another source takes precedence.
                if places[at][key] != ValueLocation::Absent {
                    continue;
                }
                // If another pattern may find the field, its value is extracted from the text.
                if patterned[at][key] {
                    (places[at][key], doubts[at][key]) = (ValueLocation::Text, Box::default());
                    continue;
                }
                let is_told = |source: &usize| !patterned[*source][key] && doubts[*source][key].is_empty();
                places[at][key] = match source.filter(is_told).map(|source| &places[source][key]) {
                    Some(ValueLocation::Absent) => ValueLocation::Absent,
                    Some(ValueLocation::Variable(_) | ValueLocation::Constant(_) | ValueLocation::Composite(_))
                        if is_same =>
                    {
                        ValueLocation::Derived
                    }
                    _ => {
                        doubts[at][key] = Box::default();
                        ValueLocation::Text
                    }
                };
            }
        }
        derived.filter(|_| places[at].contains(&ValueLocation::Derived))
    }

    /// The values that the rule finds in the values of the other field.
    fn find_in(&self, values: &ArrayRef) -> ArrayRef {
        let (reader, mut scratch) = (ColumnReader::new(values), String::new());
        let mut captures = self.rule.regex.new_captures();
        let mut found = ColumnBuilder::new(values.len());
        for row in 0..values.len() {
            let text = reader.text(row, &mut scratch).filter(|text| self.rule.regex.captures_into(text, &mut captures));
            match text.and_then(|text| captures.text(text, self.group)) {
                Some(group) => found.push_text(group),
                None => found.push_null(),
            }
        }
        found.finish()
    }
}
