//! Cache of plans, keyed by the parts of a template on which a plan depends.
//!
//! A slab of XML may have thousands of templates that differ in their optional elements only. A planner goes through a
//! template from the left and stops where its result is certain, or at the end of a match after which a transform goes
//! on, so that most templates give it the same parts to read. A [`Reading`] records how far it has read; two templates
//! that are equal up to there have the same plan.
//!
//! Not here: planning ([`super::Planner`]); what is remembered within a plan (`super::attempts`, `super::dependence`).

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{FlatPart, MatchPlan, TemplatePosition};

/// Plans that a planner remembers.
const PLANS_MAX: usize = 4_096;
/// Maximum remembered plans of templates that begin with the same part.
const ALIKE_MAX: usize = 48;
/// Bytes of the literals that they depend on.
const LITERAL_BYTES_MAX: usize = 4 << 20;
/// After this many templates that begin with the same part, it is decided whether comparing pays: if fewer than one in
/// `ASKED_PER_FOUND` had a known plan, they are planned without asking.
const ASKED_MIN: u32 = 96;
const ASKED_PER_FOUND: u32 = 2;
/// Maximum parts of a template for a remembered plan that depends on all of it; longer ones hardly ever recur.
const WHOLE_PARTS_MAX: usize = 6;

/// A template as a planner reads it, and how much of it was read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    parts: &'a [FlatPart],
    /// Number of leading parts that were requested. It exceeds the number of parts once the end was noticed.
    reach: Cell<usize>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(parts: &'a [FlatPart]) -> Reading<'a> {
        Reading { parts, reach: Cell::new(0) }
    }

    /// A part; `None` if the template ends before it.
    #[inline]
    pub(super) fn part(&self, at: usize) -> Option<&'a FlatPart> {
        self.reach.set(self.reach.get().max(at + 1));
        self.parts.get(at)
    }

    /// The bytes of a part that is a literal.
    #[inline]
    pub(super) fn literal(&self, at: usize) -> Option<&'a [u8]> {
        match self.part(at) {
            Some(FlatPart::Literal(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Parts of a range that are variables.
    pub(super) fn variables(&self, from: TemplatePosition, to: TemplatePosition) -> Vec<usize> {
        (from.part..to.part).filter(|part| self.literal(*part).is_none()).collect()
    }
}

/// A plan and what it depends on.
#[derive(Debug)]
struct KnownPlan {
    first: Box<[FlatPart]>,
    /// Whether the template must end there.
    is_whole: bool,
    plan: MatchPlan,
}

impl KnownPlan {
    fn is_of(&self, parts: &[FlatPart]) -> bool {
        (!self.is_whole || parts.len() == self.first.len()) && parts.starts_with(&self.first)
    }
}

/// The plans of templates that begin with the same part.
#[derive(Debug, Default)]
struct PlanGroup {
    plans: Vec<KnownPlan>,
    asked: u32,
    found: u32,
}

impl PlanGroup {
    fn pays(&self) -> bool {
        self.asked < ASKED_MIN || self.asked / ASKED_PER_FOUND <= self.found
    }
}

/// The plans that a planner remembers.
#[derive(Debug, Default)]
pub(super) struct KnownPlans {
    /// Plans by the hash of the template's first part.
    by_first: HashMap<u64, PlanGroup, FixedState>,
    count: usize,
    literal_bytes: usize,
}

impl KnownPlans {
    /// The plan of an earlier template with the same parts, as far as the plan depends on them.
    pub(super) fn of(&mut self, parts: &[FlatPart]) -> Option<MatchPlan> {
        let alike = self.by_first.get_mut(&hash_of(parts.first())).filter(|alike| alike.pays())?;
        alike.asked = alike.asked.saturating_add(1);
        let at = alike.plans.iter().position(|known| known.is_of(parts))?;
        alike.found = alike.found.saturating_add(1);
        let plan = alike.plans[at].plan.clone();
        // Frequent ones are found sooner.
        alike.plans.swap(at, at / 2);
        Some(plan)
    }

    /// Remembers a plan while there is room.
    pub(super) fn add(&mut self, reading: &Reading<'_>, plan: &MatchPlan) {
        let (reach, parts) = (reading.reach.get(), reading.parts);
        let is_whole = reach > parts.len();
        let first = &parts[..reach.min(parts.len())];
        if self.count >= PLANS_MAX || (is_whole && parts.len() > WHOLE_PARTS_MAX) {
            return;
        }
        let literals = first.iter().map(|part| match part {
            FlatPart::Literal(bytes) => bytes.len(),
            FlatPart::Variable(..) => 0,
        });
        let literal_bytes = self.literal_bytes + literals.sum::<usize>();
        let alike = self.by_first.entry(hash_of(first.first())).or_default();
        if alike.plans.len() >= ALIKE_MAX || !alike.pays() || literal_bytes > LITERAL_BYTES_MAX {
            return;
        }
        alike.plans.push(KnownPlan { first: first.into(), is_whole, plan: plan.clone() });
        (self.count, self.literal_bytes) = (self.count + 1, literal_bytes);
    }
}

/// Hash of a part; 0 for none. Equal parts have equal hashes.
fn hash_of(part: Option<&FlatPart>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    match part {
        None => return 0,
        Some(FlatPart::Literal(bytes)) => hasher.write(bytes),
        Some(FlatPart::Variable(column, _)) => hasher.write_u32(*column),
    }
    hasher.finish()
}
