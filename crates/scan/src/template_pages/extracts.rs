//! Where the rules of search time (`EXTRACT-`) put a field in the texts of one template.
//!
//! A rule whose group lies at the same place of a template whatever its variables hold ([`quarry_eval::pattern::template_match`]) makes
//! the field a part of the template, just as automatic extraction does: from there on nobody asks the pattern. Rules are
//! asked in their order, as the first that finds the field wins. Where only the values tell, rows go to
//! [`super::rex::RexReader`].

use std::sync::Arc;

use quarry_eval::pattern::template_match::{MatchPlan, Planner};
use quarry_event::template::TemplatePart;

use super::flat::AskedTemplate;
use super::value_location::ValueLocation;
use crate::fields::Extract;

/// Steps of automata spent on the templates of a slab for one rule and field, a few hundredths of a second; templates
/// that are left then are planned one by one as their rows come up.
const STEPS_MAX: usize = 4 << 20;

/// Where a field is by the rules that make it.
pub(super) enum RulePlace {
    /// No rule finds it in this template.
    Nowhere,
    /// Always there.
    At(ValueLocation),
    /// The values of the variables decide.
    ByValue,
}

/// The rules that make one field, in their order.
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

    /// Where the field is in the texts of a template.
    pub(super) fn place(&mut self, template: &AskedTemplate<'_>) -> RulePlace {
        for (group, planner) in &mut self.rules {
            let Some(planner) = planner.as_mut().filter(|planner| planner.spent() < STEPS_MAX) else {
                return RulePlace::ByValue;
            };
            match place_of_group(planner, *group, template) {
                RulePlace::Nowhere => {}
                found => return found,
            }
        }
        RulePlace::Nowhere
    }
}

fn place_of_group(planner: &mut Planner, group: usize, template: &AskedTemplate<'_>) -> RulePlace {
    let Some(flat) = template.flat() else { return RulePlace::ByValue };
    let windows = match planner.plan(flat) {
        MatchPlan::Never => return RulePlace::Nowhere,
        MatchPlan::Unknown => return RulePlace::ByValue,
        MatchPlan::Windows(windows) => windows,
    };
    let Some(groups) = windows.first().and_then(|window| window.groups.as_ref()) else { return RulePlace::ByValue };
    let Some((start, end)) = groups.get(group).copied().flatten() else { return RulePlace::Nowhere };
    let parts = flat.between(start, end).key().parts;
    let may_be_empty = |part: &TemplatePart| match part {
        TemplatePart::Literal(_) => false,
        TemplatePart::Variable(column) => {
            template.template_set.columns.get(*column as usize).is_none_or(|column| column.traits.min_len == 0)
        }
    };
    // What an empty group makes is the text's business.
    if parts.iter().all(may_be_empty) {
        return RulePlace::ByValue;
    }
    match ValueLocation::of_parts(&parts) {
        ValueLocation::Text => RulePlace::ByValue,
        place => RulePlace::At(place),
    }
}

#[cfg(test)]
mod tests;
