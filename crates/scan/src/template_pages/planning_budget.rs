//! Budget of the plans that locate the fields of a slab.
//!
//! Locating the fields of a long pattern in thousands of templates can take longer than reading the texts of a slab.
//! All rules and fields share a budget in proportion to the number of events; when the budget is spent, a remaining
//! template is planned only if its rows are read.
//!
//! Not here: plans for the rows that are read ([`super::rex`]).

use std::cell::Cell;

/// Number of planner steps, each some 15 nanoseconds, for each event of the slab: about the time it takes to match the
/// event's text.
const STEPS_PER_EVENT: usize = 64;
/// Bounds of the budget: steps that take some hundredths, and some tenths, of a second.
const STEPS_MIN: usize = 2 << 20;
const STEPS_MAX: usize = 24 << 20;
/// Steps of a plan that the planner does not count: a fixed number, and a number for each part of the template.
const PLAN_STEPS: usize = 256;
const STEPS_PER_PART: usize = 24;

/// The steps that are left.
pub(super) struct PlanningBudget(Cell<usize>);

impl PlanningBudget {
    /// The budget for a slab with this number of events.
    pub(super) fn of_events(events: usize) -> PlanningBudget {
        PlanningBudget(Cell::new(events.saturating_mul(STEPS_PER_EVENT).clamp(STEPS_MIN, STEPS_MAX)))
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    /// Deducts a plan that took `steps` steps for a template with `parts` parts.
    pub(super) fn spend(&self, steps: usize, parts: usize) {
        let cost = steps + PLAN_STEPS + parts * STEPS_PER_PART;
        self.0.set(self.0.get().saturating_sub(cost));
    }
}
