//! Cache of plans, keyed by the parts of a template on which a plan depends.
//!
//! A slab of XML may have thousands of templates that differ only in optional elements. A planner reads a template
//! from the left and stops where its result is certain, so that it reads the same parts of most templates. A
//! [`TemplateReader`] records how far the planner has read; two templates that are equal up to that point have the same
//! plan.
//!
//! Not here: planning ([`super::Planner`]); caches within a plan (`super::attempts`, `super::dependence`).

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{FlatPart, MatchPlan, TemplatePosition};

/// Maximum number of plans that a planner caches; further plans are not cached.
const PLANS_MAX: usize = 4_096;
/// Maximum number of cached plans of templates that begin with the same part; further plans are not cached.
const PLANS_PER_GROUP_MAX: usize = 48;
/// Maximum bytes of the literals on which cached plans depend; beyond it, plans are not cached.
const LITERAL_BYTES_MAX: usize = 4 << 20;
/// Number of templates with the same first part after which the cache decides whether lookups pay off: if fewer
/// than one in `LOOKUPS_PER_HIT` had a cached plan, further templates are planned without a lookup.
const LOOKUPS_MIN: u32 = 96;
const LOOKUPS_PER_HIT: u32 = 2;
/// Maximum number of parts of a template whose plan is cached although it depends on all of them; longer templates
/// hardly ever recur.
const WHOLE_PARTS_MAX: usize = 6;

/// A template as a planner reads it, and how much of it was read.
#[derive(Debug)]
pub(super) struct TemplateReader<'a> {
    parts: &'a [FlatPart],
    /// Number of leading parts that were requested. Exceeds the number of parts once the planner has noticed the end.
    reach: Cell<usize>,
}

impl<'a> TemplateReader<'a> {
    pub(super) fn new(parts: &'a [FlatPart]) -> TemplateReader<'a> {
        TemplateReader { parts, reach: Cell::new(0) }
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

    /// Variables among the parts of a range.
    pub(super) fn variables(&self, from: TemplatePosition, to: TemplatePosition) -> Vec<usize> {
        (from.part..to.part).filter(|part| self.literal(*part).is_none()).collect()
    }
}

/// A plan, and the parts on which it depends.
#[derive(Debug)]
struct CachedPlan {
    first: Box<[FlatPart]>,
    /// Whether the plan applies only to templates that end after these parts.
    is_whole: bool,
    plan: MatchPlan,
}

impl CachedPlan {
    fn applies_to(&self, parts: &[FlatPart]) -> bool {
        (!self.is_whole || parts.len() == self.first.len()) && parts.starts_with(&self.first)
    }
}

/// The plans of templates that begin with the same part.
#[derive(Debug, Default)]
struct PlanGroup {
    plans: Vec<CachedPlan>,
    lookups: u32,
    hits: u32,
}

impl PlanGroup {
    fn is_worthwhile(&self) -> bool {
        self.lookups < LOOKUPS_MIN || self.lookups / LOOKUPS_PER_HIT <= self.hits
    }
}

/// The plans that a planner has cached.
#[derive(Debug, Default)]
pub(super) struct PlanCache {
    /// Plans by the hash of the template's first part.
    by_first: HashMap<u64, PlanGroup, FixedState>,
    count: usize,
    literal_bytes: usize,
}

impl PlanCache {
    /// The plan of an earlier template with the same parts, up to the last one on which the plan depends.
    pub(super) fn find(&mut self, parts: &[FlatPart]) -> Option<MatchPlan> {
        let alike = self.by_first.get_mut(&hash_of(parts.first())).filter(|alike| alike.is_worthwhile())?;
        alike.lookups = alike.lookups.saturating_add(1);
        let at = alike.plans.iter().position(|known| known.applies_to(parts))?;
        alike.hits = alike.hits.saturating_add(1);
        let plan = alike.plans[at].plan.clone();
        // Frequent plans are moved forward, so that they are found sooner.
        alike.plans.swap(at, at / 2);
        Some(plan)
    }

    /// Caches a plan if there is room.
    pub(super) fn add(&mut self, reading: &TemplateReader<'_>, plan: &MatchPlan) {
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
        if alike.plans.len() >= PLANS_PER_GROUP_MAX || !alike.is_worthwhile() || literal_bytes > LITERAL_BYTES_MAX {
            return;
        }
        alike.plans.push(CachedPlan { first: first.into(), is_whole, plan: plan.clone() });
        (self.count, self.literal_bytes) = (self.count + 1, literal_bytes);
    }
}

/// Hash of a part; 0 if there is none. Equal parts have equal hashes.
fn hash_of(part: Option<&FlatPart>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    match part {
        None => return 0,
        Some(FlatPart::Literal(bytes)) => hasher.write(bytes),
        Some(FlatPart::Variable(column, _)) => hasher.write_u32(*column),
    }
    hasher.finish()
}
