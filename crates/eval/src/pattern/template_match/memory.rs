//! Memory of plans that are kept between searches, approximately.
//!
//! Lists of values and of forms are not counted: they belong to the slabs, which share them with plans.

use super::plan_cache::PlanCache;
use super::{FlatPart, FlatTemplate, Planner, Window};

/// Memory of a position, a filler, the number of a part or the state of an automaton, without the filler's text.
const WINDOW_ENTRY_BYTES: usize = 32;

impl FlatTemplate {
    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let inner = self.parts.iter().map(|part| match part {
            FlatPart::Literal(bytes) => bytes.len(),
            FlatPart::Variable(_, traits) => traits.prefix.len(),
        });
        size_of_val(self.parts.as_slice()) + inner.sum::<usize>()
    }
}

impl Window {
    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let groups = self.groups.iter().chain(self.decision.iter().map(|decision| &decision.positions));
        let fillers = self.fillers.iter().chain(self.decision.iter().flat_map(|decision| &decision.fillers));
        let dependence = self
            .group_dependence
            .iter()
            .map(|apart| apart.matched.len() + apart.groups.len() + apart.groups.iter().map(Vec::len).sum::<usize>());
        let entries = self.variables.len()
            + self.read.len()
            + self.decision.as_ref().map_or(0, |decision| decision.read.len())
            + groups.map(Vec::len).sum::<usize>() * 2
            + dependence.sum::<usize>();
        let fillers: usize = fillers.map(|(_, filler)| WINDOW_ENTRY_BYTES + filler.len()).sum();
        size_of::<Window>() + entries * WINDOW_ENTRY_BYTES + fillers
    }
}

impl Planner {
    /// Bytes of memory without the caches that [`Planner::end_search`] empties.
    pub fn memory_bytes(&self) -> usize {
        let states = (self.decided.capacity() + self.exits.capacity()) * WINDOW_ENTRY_BYTES * 2;
        size_of::<Planner>() + self.cache.memory_usage() + self.dfa.memory_usage() + self.nfa.memory_usage() + states
    }

    /// Empties the caches that help only to plan further templates, and that retain lists of values of the slabs whose
    /// templates were planned. Plans and tests of values stay valid.
    pub fn end_search(&mut self) {
        self.clear_analyses();
        self.plan_cache = PlanCache::default();
    }
}
