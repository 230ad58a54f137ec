//! Match plans of `EXTRACT-` rules for all their requested groups at once.
//!
//! A *match plan* states where the groups of a rule lie in the texts of a template. A rule has a match plan for each
//! field, so that a group whose location depends on values does not affect other groups. In most templates all groups
//! have fixed locations, and one plan, which is tried first, answers for all fields of the rule. If such plans turn out
//! to be rare, they are no longer tried.
//!
//! Not here: how a rule determines the location of a single field ([`super::extracts`]).

use std::sync::Arc;

use quarry_eval::pattern::template_match::{FlatTemplate, GroupRanges, MatchPlan, Planner, ValueLists};
use quarry_event::template::TemplateSet;

use super::extracts::{PLANNING_STEPS_MAX, is_one_line};
use super::planning_budget::PlanningBudget;
use crate::fields::Extract;

/// Number of plans after which the attempts end if fewer than half of them have answered.
const ATTEMPTS_MIN: u32 = 16;

/// The rules of a class that produce several requested fields.
pub(super) struct SharedPlans<'b> {
    rules: Vec<SharedRule>,
    budget: &'b PlanningBudget,
}

struct SharedRule {
    extract: Arc<Extract>,
    planner: Planner,
    /// The number of the last template, and its plan if the plan answers for all groups.
    last: Option<(usize, Option<SettledPlan>)>,
    attempts: u32,
    answers: u32,
}

/// A plan that does not depend on values.
#[derive(Clone)]
pub(super) enum SettledPlan {
    /// The rule never matches.
    Never,
    /// The groups are always at these locations.
    Groups(GroupRanges),
}

impl<'b> SharedPlans<'b> {
    /// The rules among `extracts` that have several groups in `names`.
    pub(super) fn new(
        extracts: &[Arc<Extract>],
        names: &[String],
        template_set: &TemplateSet,
        budget: &'b PlanningBudget,
    ) -> SharedPlans<'b> {
        let rule = |extract: &Arc<Extract>| {
            let groups: Vec<usize> = names.iter().filter_map(|name| extract.group(name)).collect();
            let planner = (groups.len() > 1)
                .then(|| Planner::of_texts(&extract.regex, groups, is_one_line(template_set)))
                .flatten()?;
            Some(SharedRule { extract: Arc::clone(extract), planner, last: None, attempts: 0, answers: 0 })
        };
        SharedPlans { rules: extracts.iter().filter_map(rule).collect(), budget }
    }

    /// The plan of a rule for the template with this number, if the plan answers for all requested groups.
    pub(super) fn settled(
        &mut self,
        extract: &Arc<Extract>,
        number: usize,
        flat: &FlatTemplate,
        values: &mut ValueLists<'_>,
    ) -> Option<SettledPlan> {
        let rule = self.rules.iter_mut().find(|rule| Arc::ptr_eq(&rule.extract, extract))?;
        if let Some((last, plan)) = &rule.last
            && *last == number
        {
            return plan.clone();
        }
        let is_rare = rule.attempts >= ATTEMPTS_MIN && rule.answers * 2 < rule.attempts;
        let before = rule.planner.steps_spent();
        let plan = if is_rare || self.budget.is_spent() || before >= PLANNING_STEPS_MAX {
            None
        } else {
            rule.attempts += 1;
            let plan = rule.planner.plan_with_values(flat, values);
            self.budget.spend(rule.planner.steps_spent().saturating_sub(before), flat.parts().len());
            match plan {
                MatchPlan::Never => Some(SettledPlan::Never),
                MatchPlan::Unknown => None,
                MatchPlan::Windows(windows) => {
                    windows.into_iter().next().and_then(|window| window.groups).map(SettledPlan::Groups)
                }
            }
        };
        rule.answers += u32::from(plan.is_some());
        rule.last = Some((number, plan.clone()));
        plan
    }
}
