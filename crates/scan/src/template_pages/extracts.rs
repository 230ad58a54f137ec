//! Locations of fields of `EXTRACT-` rules in the texts of a template.
//!
//! If a rule's group lies at the same place of a template for all values of its variables
//! ([`quarry_eval::pattern::template_match`]), the field becomes a part of the template, as with automatic extraction,
//! and the pattern need not run again. Rules are tried in order, because the first that finds the field wins. If the
//! location depends on the values, [`super::rex::RexReader`] handles the rows.

use std::sync::Arc;

use quarry_eval::pattern::template_match::{MatchPlan, Planner, ValueLists};
use quarry_event::template::TemplatePart;

use super::planned_template::PlannedTemplate;
use super::value_location::ValueLocation;
use crate::fields::Extract;

/// Maximum automaton steps to plan a slab's templates for one rule and field: a few hundredths of a second. The
/// remaining templates are planned when rows of them are read.
const PLANNING_STEPS_MAX: usize = 4 << 20;

/// Location of a field according to the rules that produce it.
pub(super) enum RuleLocation {
    /// No rule finds the field in this template.
    Nowhere,
    /// The field is always at this location.
    At(ValueLocation),
    /// The location depends on the values of the variables.
    ByValue,
}

/// The rules that produce one field, in order.
pub(super) struct NamedRules {
    rules: Vec<(usize, Option<Planner>)>,
}

impl NamedRules {
    pub(super) fn new(extracts: &[Arc<Extract>], name: &str) -> NamedRules {
        let rule = |extract: &Arc<Extract>| {
            let group = extract.group(name)?;
            Some((group, Planner::new(&extract.regex, [group])))
        };
        NamedRules { rules: extracts.iter().filter_map(rule).collect() }
    }

    /// The location of the field in the texts of a template; `values` lists the values of columns.
    pub(super) fn location(&mut self, template: &PlannedTemplate<'_>, values: &mut ValueLists<'_>) -> RuleLocation {
        for (group, planner) in &mut self.rules {
            let Some(planner) = planner.as_mut().filter(|planner| planner.steps_spent() < PLANNING_STEPS_MAX) else {
                return RuleLocation::ByValue;
            };
            match group_location(planner, *group, template, values) {
                RuleLocation::Nowhere => {}
                found => return found,
            }
        }
        RuleLocation::Nowhere
    }
}

fn group_location(
    planner: &mut Planner,
    group: usize,
    template: &PlannedTemplate<'_>,
    values: &mut ValueLists<'_>,
) -> RuleLocation {
    let Some(flat) = template.flat() else { return RuleLocation::ByValue };
    let windows = match planner.plan_with_values(flat, values) {
        MatchPlan::Never => return RuleLocation::Nowhere,
        MatchPlan::Unknown => return RuleLocation::ByValue,
        MatchPlan::Windows(windows) => windows,
    };
    let Some(groups) = windows.first().and_then(|window| window.groups.as_ref()) else { return RuleLocation::ByValue };
    let Some((start, end)) = groups.get(group).copied().flatten() else { return RuleLocation::Nowhere };
    let parts = flat.between(start, end).key().parts;
    let may_be_empty = |part: &TemplatePart| match part {
        TemplatePart::Literal(_) => false,
        TemplatePart::Variable(column) => {
            template.template_set.columns.get(*column as usize).is_none_or(|column| column.traits.min_len == 0)
        }
    };
    // Whether an empty group yields a field depends on the text.
    if parts.iter().all(may_be_empty) {
        return RuleLocation::ByValue;
    }
    match ValueLocation::of_parts(&parts) {
        ValueLocation::Text => RuleLocation::ByValue,
        place => RuleLocation::At(place),
    }
}

#[cfg(test)]
mod tests;
