//! Cost model that decides when to plan a pattern over a template instead of matching texts.
//!
//! A plan pays off if many rows have its template. The number of such rows is not known in advance, so a template is
//! planned as soon as the texts of its rows have cost as much as a plan. If the plans of a pattern branch, a row may
//! cause the planning of several nodes; therefore all plans together may not cost more than all texts read so far. At
//! worst, the total cost is about twice the cost of reading only texts. The first plans are exempt, because most
//! patterns have few or cheap plans. Costs are counted in steps of the planner, some 15 nanoseconds each, so that they
//! do not depend on the machine.
//!
//! Not here: limits of one plan ([`quarry_eval::pattern::template_match`]).

/// Steps of the plans that are exempt: a few milliseconds.
const EXEMPT_STEPS: usize = 256 << 10;
/// Steps of a plan that the planner does not count: a fixed number, and a number for each part of the template.
const PLAN_STEPS: usize = 256;
const STEPS_PER_PART: usize = 24;
/// The time to read and match one text, in steps: a fixed number, and one step per [`BYTES_PER_STEP`] literal bytes.
const TEXT_STEPS: usize = 40;
const BYTES_PER_STEP: usize = 5;

/// Steps spent on the plans of a pattern, and on the rows met without a plan.
#[derive(Default)]
pub(super) struct PlanningCost {
    spent: usize,
    plans: usize,
    /// Steps of the rows read as text, by node; trailing nodes without such rows are missing.
    texts: Vec<usize>,
    /// Steps of all rows read as text.
    all_texts: usize,
}

impl PlanningCost {
    /// Adds a row of a node that has no plan, whose template has this many literal bytes. Returns whether the node
    /// should be planned now.
    pub(super) fn is_due(&mut self, node: usize, literal_bytes: usize) -> bool {
        if self.spent < EXEMPT_STEPS {
            return true;
        }
        if self.texts.len() <= node {
            self.texts.resize(node + 1, 0);
        }
        let steps = TEXT_STEPS + literal_bytes / BYTES_PER_STEP;
        self.all_texts += steps;
        self.texts[node] += steps;
        self.texts[node] > self.spent / self.plans.max(1) && self.spent - EXEMPT_STEPS <= self.all_texts
    }

    /// Adds a plan of a template with this many parts that took this many steps.
    pub(super) fn add_plan(&mut self, steps: usize, parts: usize) {
        self.spent += steps + PLAN_STEPS + parts * STEPS_PER_PART;
        self.plans += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_plans_wait_for_rows() {
        let mut cost = PlanningCost::default();
        assert!(cost.is_due(7, 42));
        cost.spent = EXEMPT_STEPS;
        cost.plans = 100;
        let due: Vec<bool> = (0..60).map(|_| cost.is_due(7, 42)).collect();
        assert_eq!(due.iter().position(|due| *due), Some(54), "a plan takes as long as 54 texts");
        assert!(!cost.is_due(3, 42), "each node is counted by itself");
        assert!(cost.is_due(4, 20_000), "long texts cost more");
    }

    #[test]
    fn plans_cost_no_more_than_texts() {
        let mut cost = PlanningCost::default();
        let (mut texts, mut plans) = (0, 0);
        for node in 0..50_000 {
            // Each row descends to nodes that were not planned before.
            match (0..4).all(|level| {
                let is_due = cost.is_due(4 * node + level, 300) || cost.is_due(4 * node + level, 300);
                if is_due {
                    cost.add_plan(200, 20);
                    plans += 1;
                }
                is_due
            }) {
                true => {}
                false => texts += 1,
            }
        }
        assert!(texts > 40_000, "{texts} texts, {plans} plans");
    }
}
