//! All hot slabs, by index and pipeline set, with their total memory.
//!
//! There may be as many slabs as indexes, nearly all of them almost empty. The cost of operations done for each append
//! or seal must not depend on the number of slabs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::hot_slabs::HotSlab;

/// Key of a hot slab.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HotKey {
    pub(crate) index: Arc<str>,
    /// Pipeline set.
    pub(crate) set: usize,
}

/// Hot slabs by key.
#[derive(Debug, Default)]
pub(crate) struct HotSlabs {
    slabs: BTreeMap<HotKey, HotSlab>,
    numbers: BTreeSet<u64>,
    /// Memory of all slabs in bytes.
    bytes: usize,
}

impl HotSlabs {
    pub(crate) fn get(&self, key: &HotKey) -> Option<&HotSlab> {
        self.slabs.get(key)
    }

    /// Adds a slab, in place of any other under this key.
    pub(crate) fn insert(&mut self, key: HotKey, slab: HotSlab) {
        drop(self.remove(&key));
        self.bytes += slab.memory_bytes();
        assert!(self.numbers.insert(slab.number()), "a number is given to one slab");
        self.slabs.insert(key, slab);
    }

    pub(crate) fn remove(&mut self, key: &HotKey) -> Option<HotSlab> {
        let slab = self.slabs.remove(key)?;
        self.bytes -= slab.memory_bytes();
        assert!(self.numbers.remove(&slab.number()), "the number of every slab is known");
        Some(slab)
    }

    /// Changes a slab.
    pub(crate) fn change(&mut self, key: &HotKey, change: impl FnOnce(&mut HotSlab)) {
        let Some(slab) = self.slabs.get_mut(key) else { return };
        let before = slab.memory_bytes();
        change(slab);
        self.bytes = self.bytes - before + slab.memory_bytes();
    }

    /// Every slab, mutable so that segments can be created; the caller must not change the content.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&HotKey, &mut HotSlab)> {
        self.slabs.iter_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&HotKey, &HotSlab)> {
        self.slabs.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &HotSlab> {
        self.slabs.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slabs.is_empty()
    }

    /// Memory of all slabs.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a slab has this number.
    pub(crate) fn has_number(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// Numbers of the slabs of an index.
    pub(crate) fn numbers_of(&self, index: &str) -> impl Iterator<Item = u64> {
        let index: Arc<str> = index.into();
        let ends = HotKey { index: index.clone(), set: 0 }..=HotKey { index, set: usize::MAX };
        self.slabs.range(ends).map(|(_, slab)| slab.number())
    }

    /// Keys of the largest slabs: as many as must be closed so that the others take at most `bytes`. Of equally large
    /// slabs, the one idle longest comes first.
    pub(crate) fn largest_above(&self, bytes: usize) -> Vec<HotKey> {
        let mut slabs: Vec<(&HotKey, &HotSlab)> = self.slabs.iter().collect();
        slabs.sort_by_key(|(_, slab)| (std::cmp::Reverse(slab.memory_bytes()), slab.appended_at));
        let mut left = self.bytes;
        let taken = slabs.into_iter().take_while(|(_, slab)| {
            let goes = left > bytes;
            left -= if goes { slab.memory_bytes() } else { 0 };
            goes
        });
        taken.map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot_slabs::BatchRows;
    use crate::tests::sample::batch;

    fn key(index: &str, set: usize) -> HotKey {
        HotKey { index: index.into(), set }
    }

    fn fill(slab: &mut HotSlab, events: u64) {
        let mut rows = BatchRows::new(batch(slab.index(), 0, events));
        slab.append(&mut rows, events as usize);
    }

    #[test]
    fn sums_are_updated_by_every_change() {
        let mut hot = HotSlabs::default();
        for (number, (index, set)) in [("a", 0), ("a", 1), ("b", 1), ("ab", 0)].into_iter().enumerate() {
            hot.insert(key(index, set), HotSlab::new(&index.into(), number as u64 + 1));
        }
        for (index, set, events) in [("a", 1, 50), ("b", 1, 500), ("ab", 0, 5)] {
            hot.change(&key(index, set), |slab| fill(slab, events));
        }
        let sum = |hot: &HotSlabs| hot.values().map(HotSlab::memory_bytes).sum::<usize>();
        assert_eq!(hot.bytes(), sum(&hot));
        assert_eq!(hot.numbers_of("a").collect::<Vec<_>>(), [1, 2]);
        let keep = hot.bytes() - 1;
        assert_eq!(hot.largest_above(keep), [key("b", 1)]);
        assert_eq!(hot.largest_above(hot.bytes()), []);
        assert_eq!(hot.largest_above(0).len(), 4);
        hot.remove(&key("b", 1)).unwrap();
        hot.remove(&key("a", 1)).unwrap();
        assert_eq!((hot.bytes(), hot.has_number(3), hot.has_number(4)), (sum(&hot), false, true));
    }
}
