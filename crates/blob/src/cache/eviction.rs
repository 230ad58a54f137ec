//! Eviction order of the cache: a segmented LRU.
//!
//! Entries used once are evicted before entries used again, so that one large scan does not displace the blocks that
//! every search needs (Karedla, Love, Wherry: *Caching strategies to improve disk system performance*, 1994). An
//! object's directory, which locates its parts, and its filter are evicted last, because every search of the object
//! needs them. Each of the two protected classes (entries used again; directories and filters) has a share of the
//! cache's bytes and of its files; beyond it, the oldest entries of the class are demoted to entries used once.
//!
//! Uses within a short time count as one use, because a search reads neighbouring pages one after the other.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Uses within this time, in nanoseconds, after the first one count as the same use.
const SAME_USE_NS: i64 = 5_000_000_000;
/// Share of the cache for entries used again, in quarters.
const REUSED_QUARTERS: u64 = 2;
/// Share of the cache for lasting entries (directories and filters), in quarters.
const LASTING_QUARTERS: u64 = 1;

/// Protection class, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    UsedOnce,
    Reused,
    Lasting,
}

const CLASSES: [Class; 3] = [Class::UsedOnce, Class::Reused, Class::Lasting];

#[derive(Debug)]
struct Entry {
    class: Class,
    /// Sequence number of the last use, which orders entries.
    used: u64,
    /// Time at which the last use began; later uses within [`SAME_USE_NS`] belong to it.
    used_at: i64,
    bytes: u64,
}

/// Entries in eviction order.
#[derive(Debug)]
pub(super) struct EvictionOrder<K> {
    entries: HashMap<K, Entry>,
    by_use: [BTreeMap<u64, K>; 3],
    bytes: [u64; 3],
    uses: u64,
}

impl<K> Default for EvictionOrder<K> {
    fn default() -> EvictionOrder<K> {
        EvictionOrder { entries: HashMap::new(), by_use: Default::default(), bytes: [0; 3], uses: 0 }
    }
}

impl<K: Clone + Eq + Hash> EvictionOrder<K> {
    /// Total bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Records a use; a new entry has no bytes yet.
    pub(super) fn touch(&mut self, key: &K, lasting: bool, now: i64) {
        let first = Entry { class: Class::UsedOnce, used: self.uses, used_at: now, bytes: 0 };
        let (before, is_new) = self.take(key).map_or((first, true), |entry| (entry, false));
        let is_another = !is_new && now.saturating_sub(before.used_at) >= SAME_USE_NS;
        let class = match (lasting, is_another) {
            (true, _) => Class::Lasting,
            (false, true) => before.class.max(Class::Reused),
            (false, false) => before.class,
        };
        let used_at = if is_new || is_another { now } else { before.used_at };
        self.uses += 1;
        self.put(key.clone(), Entry { class, used: self.uses, used_at, bytes: before.bytes });
    }

    /// Whether the entry exists.
    pub(super) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Sets the size of an entry.
    pub(super) fn set_bytes(&mut self, key: &K, bytes: u64) {
        if let Some(entry) = self.take(key) {
            self.put(key.clone(), Entry { bytes, ..entry });
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, key: &K) {
        self.take(key);
    }

    /// The next entry to evict among those `is_evictable` permits, in a cache with these limits.
    pub(super) fn next(&mut self, bytes_max: u64, files_max: usize, is_evictable: impl Fn(&K) -> bool) -> Option<K> {
        for (class, quarters) in [(Class::Lasting, LASTING_QUARTERS), (Class::Reused, REUSED_QUARTERS)] {
            self.demote(class, bytes_max / 4 * quarters, files_max as u64 / 4 * quarters);
        }
        CLASSES.iter().find_map(|class| self.by_use[*class as usize].values().find(|key| is_evictable(key)).cloned())
    }

    /// Demotes the oldest entries of a class until it has at most this many bytes and files.
    fn demote(&mut self, class: Class, bytes_max: u64, files_max: u64) {
        while self.bytes[class as usize] > bytes_max || self.by_use[class as usize].len() as u64 > files_max {
            let Some(oldest) = self.by_use[class as usize].values().next().cloned() else { return };
            let Some(entry) = self.take(&oldest) else { return };
            self.put(oldest, Entry { class: Class::UsedOnce, ..entry });
        }
    }

    fn take(&mut self, key: &K) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.by_use[entry.class as usize].remove(&entry.used);
        self.bytes[entry.class as usize] -= entry.bytes;
        Some(entry)
    }

    fn put(&mut self, key: K, entry: Entry) {
        self.bytes[entry.class as usize] += entry.bytes;
        let before = self.by_use[entry.class as usize].insert(entry.used, key.clone());
        assert!(before.is_none(), "a use has one number");
        self.entries.insert(key, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evicts all entries of a cache of this size; returns them in order of eviction.
    fn order(mut all: EvictionOrder<u32>, bytes_max: u64) -> Vec<u32> {
        std::iter::from_fn(|| all.next(bytes_max, usize::MAX, |_| true).inspect(|key| all.remove(key))).collect()
    }

    fn of(keys: &[u32]) -> EvictionOrder<u32> {
        let mut all = EvictionOrder::default();
        for key in keys {
            all.touch(key, false, 0);
            all.set_bytes(key, 10);
        }
        all
    }

    #[test]
    fn least_recently_used_entry_is_evicted_first() {
        let mut all = of(&[1, 2, 3]);
        all.touch(&1, false, 1);
        assert_eq!(all.bytes(), 30);
        assert_eq!(order(all, 1_000), [2, 3, 1]);
    }

    #[test]
    fn reused_entries_survive_a_full_scan() {
        let mut all = of(&[1, 2]);
        all.touch(&1, false, SAME_USE_NS);
        for key in 10..20 {
            all.touch(&key, false, SAME_USE_NS + 1);
            all.set_bytes(&key, 10);
        }
        let gone = order(all, 1_000);
        assert_eq!((gone[0], gone.last()), (2, Some(&1)));
    }

    #[test]
    fn a_share_of_the_cache_is_protected_and_no_more() {
        let mut all = of(&[1, 2, 3, 4]);
        for key in [1, 2, 3] {
            all.touch(&key, true, 1);
        }
        // The lasting class gets a quarter of 40 bytes: the newest of the three.
        assert_eq!(order(all, 40), [4, 1, 2, 3]);
    }

    #[test]
    fn a_share_of_the_files_is_protected_and_no_more() {
        // A quarter or half of 4 files: one lasting entry, or two that were used again.
        for (lasting, expected) in [(true, [4, 1, 2, 5, 3]), (false, [4, 1, 5, 2, 3])] {
            let mut all = of(&[1, 2, 3, 4]);
            [1, 2, 3].iter().for_each(|key| all.touch(key, lasting, SAME_USE_NS));
            all.touch(&5, false, SAME_USE_NS);
            let next = || all.next(u64::MAX, 4, |_| true).inspect(|key| all.remove(key));
            assert_eq!(std::iter::from_fn(next).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn unevictable_entries_are_skipped() {
        let mut all = of(&[1, 2]);
        assert_eq!(all.next(0, usize::MAX, |key| *key != 1), Some(2));
        all.remove(&2);
        assert_eq!((all.next(0, usize::MAX, |key| *key != 1), all.bytes()), (None, 10));
    }
}
