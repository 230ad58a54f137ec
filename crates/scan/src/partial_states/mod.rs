//! Partial states: the results of folding some pages of a sealed slab, cached for the next search that runs the same
//! plan.
//!
//! Dashboards repeat the same searches over data that changes only at its newest end. The first time a plan is seen,
//! only its name (a text that identifies it) is recorded, so that a search that never recurs costs nothing. From the
//! second time on, the fold of every *window* (32 pages of one sealed slab that lie entirely within the time range) is
//! computed separately and cached. From the third time on, the state of the window comes from the cache, and the
//! window's pages are not read.
//!
//! Results stay exact for three reasons. A sealed slab never changes, and its identity is never reused. Plans are
//! compared by their whole name, never by a hash. A search looks up only states of slabs in its snapshot, so states of
//! slabs that were merged or retired are never used and are finally evicted.
//!
//! Not here: reading and folding ([`work`]).

pub(crate) mod preview;
#[cfg(test)]
mod tests;
pub(crate) mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::aggregate::FoldedPart;
use quarry_event::{TimeNs, TimeRange};
use quarry_store::SlabIdentity;

/// Plans whose names are kept; the least recently used are evicted first.
const CACHED_PLANS_MAX: usize = 512;
/// The states of one window may take this fraction (1/n) of the cache; larger states are not cached, because caching a
/// fold that keeps nearly every row would save nothing.
const PART_BYTES_DIVISOR: usize = 32;
/// Bytes of an entry besides its states.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// The states cached by one engine. Engines with different rules may share the memory, but none uses the states of
/// another.
pub struct PartialStates {
    bytes_max: usize,
    inner: Arc<Mutex<Inner>>,
    /// Number of this engine among the engines that share the memory.
    engine: u64,
}

#[derive(Default)]
struct Inner {
    /// Plans by name.
    plans: HashMap<Arc<str>, Plan, FixedState>,
    /// Names by time of last use.
    plans_by_use: BTreeMap<u64, Arc<str>>,
    parts: HashMap<PartKey, Entry, FixedState>,
    /// Keys of parts by time of last use.
    parts_by_use: BTreeMap<u64, PartKey>,
    bytes: usize,
    uses: u64,
    next_plan: u64,
    /// Engines that share the memory, besides the first.
    engines: u64,
}

struct Plan {
    number: u64,
    used: u64,
    /// Whether the states of a window were too large to cache.
    is_large: bool,
}

struct Entry {
    part: Arc<WindowPart>,
    bytes: usize,
    used: u64,
}

/// Cache key: a window under a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartKey {
    /// Number of the plan; a plan that recurs after its eviction gets a new number.
    plan: u64,
    slab: SlabIdentity,
    /// Number of the window in the slab.
    window: u32,
}

/// The cached result of a window.
pub struct WindowPart {
    /// The folded state; `None` if no page could hold a match.
    pub folded: Option<FoldedPart>,
    /// Pages read for the result.
    pub pages: u64,
    /// Events of these pages.
    pub scanned: u64,
    /// Events that passed the search condition.
    pub matched: u64,
}

impl WindowPart {
    fn bytes(&self) -> usize {
        ENTRY_OVERHEAD_BYTES + self.folded.as_ref().map_or(0, FoldedPart::bytes)
    }
}

/// The states of one plan, for one search.
#[derive(Clone)]
pub struct PlanStates {
    states: Arc<PartialStates>,
    name: Arc<str>,
    number: u64,
    range: TimeRange,
}

impl PartialStates {
    /// A cache of at most `bytes_max` bytes; `None` if `bytes_max` is 0.
    pub fn new(bytes_max: usize) -> Option<Arc<PartialStates>> {
        (bytes_max > 0).then(|| Arc::new(PartialStates { bytes_max, inner: Arc::default(), engine: 0 }))
    }

    /// A view for another engine that shares the memory.
    pub fn share_with_engine(&self) -> Arc<PartialStates> {
        let mut inner = self.lock();
        inner.engines += 1;
        let (bytes_max, engine) = (self.bytes_max, inner.engines);
        drop(inner);
        Arc::new(PartialStates { bytes_max, inner: Arc::clone(&self.inner), engine })
    }

    /// The states of a plan for a search of `range`; `None` if the plan is seen for the first time or its states are
    /// too large.
    pub fn states_for_plan(self: &Arc<Self>, name: String, range: TimeRange) -> Option<PlanStates> {
        let name = format!("{} {name}", self.engine);
        let mut inner = self.lock();
        inner.uses += 1;
        let uses = inner.uses;
        if let Some((name, plan)) = inner.plans.get_key_value_mut(name.as_str()) {
            let (name, number, before) = (Arc::clone(name), plan.number, std::mem::replace(&mut plan.used, uses));
            let is_large = plan.is_large;
            let known = inner.plans_by_use.remove(&before);
            assert_eq!(known.as_ref(), Some(&name), "a plan occurs once in the LRU order");
            inner.plans_by_use.insert(uses, Arc::clone(&name));
            return (!is_large).then(|| PlanStates { states: Arc::clone(self), name, number, range });
        }
        let (name, number): (Arc<str>, u64) = (name.into(), inner.next_plan);
        inner.next_plan += 1;
        inner.plans.insert(Arc::clone(&name), Plan { number, used: uses, is_large: false });
        inner.plans_by_use.insert(uses, name);
        if inner.plans.len() > CACHED_PLANS_MAX
            && let Some((_, oldest)) = inner.plans_by_use.pop_first()
        {
            // The parts of the evicted plan can no longer be looked up and will be evicted too.
            inner.plans.remove(&oldest);
        }
        assert_eq!(inner.plans.len(), inner.plans_by_use.len(), "every plan is in the LRU order");
        assert!(inner.plans.len() <= CACHED_PLANS_MAX, "plans have a limit");
        None
    }

    fn get(&self, key: &PartKey) -> Option<Arc<WindowPart>> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let entry = inner.parts.get_mut(key)?;
        inner.uses += 1;
        let known = inner.parts_by_use.remove(&entry.used);
        assert_eq!(known, Some(*key), "a part occurs once in the LRU order");
        entry.used = inner.uses;
        inner.parts_by_use.insert(entry.used, *key);
        Some(Arc::clone(&entry.part))
    }

    fn put(&self, key: PartKey, part: WindowPart) {
        let bytes = part.bytes();
        let mut inner = self.lock();
        inner.remove(&key);
        inner.uses += 1;
        let used = inner.uses;
        inner.bytes += bytes;
        inner.parts_by_use.insert(used, key);
        inner.parts.insert(key, Entry { part: Arc::new(part), bytes, used });
        while inner.bytes > self.bytes_max {
            let Some((_, oldest)) = inner.parts_by_use.first_key_value().map(|(used, key)| (*used, *key)) else {
                break;
            };
            inner.remove(&oldest);
        }
        assert_eq!(inner.parts.len(), inner.parts_by_use.len(), "every part is in the LRU order");
        assert!(inner.bytes <= self.bytes_max, "parts have a limit");
    }

    /// Bytes held and parts cached.
    #[cfg(test)]
    fn usage(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.bytes, inner.parts.len())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remove(&mut self, key: &PartKey) {
        if let Some(entry) = self.parts.remove(key) {
            assert_eq!(self.parts_by_use.remove(&entry.used), Some(*key), "a part occurs once in the LRU order");
            assert!(self.bytes >= entry.bytes, "the bytes of a part are included in the total until it is removed");
            self.bytes -= entry.bytes;
        }
    }
}

impl PlanStates {
    /// The key of a window.
    pub(crate) fn key(&self, slab: SlabIdentity, window: u32) -> PartKey {
        PartKey { plan: self.number, slab, window }
    }

    /// The cached result of a window.
    pub(crate) fn get(&self, key: &PartKey) -> Option<Arc<WindowPart>> {
        self.states.get(key)
    }

    /// Caches parts.
    pub(crate) fn put(&self, parts: Vec<(PartKey, WindowPart)>) {
        parts.into_iter().for_each(|(key, part)| self.states.put(key, part));
    }

    /// Whether the search covers all instants from `first` to `last`.
    pub(crate) fn covers(&self, first: TimeNs, last: TimeNs) -> bool {
        self.range.contains(first) && self.range.contains(last)
    }

    /// Maximum bytes of all parts together, and of a single part.
    pub(crate) fn bytes_max(&self) -> (usize, usize) {
        (self.states.bytes_max, self.states.bytes_max / PART_BYTES_DIVISOR)
    }

    /// Records that the plan's states are too large to cache.
    pub(crate) fn mark_too_large(&self) {
        if let Some(plan) = self.states.lock().plans.get_mut(&self.name) {
            plan.is_large = true;
        }
    }
}
