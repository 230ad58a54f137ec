//! A bounded LRU cache.
//!
//! A scan of more data than the cache holds would evict every entry before its next use (LRU's worst case). A
//! [`ScanCache`] therefore has two parts. The first part, once full, admits only every [`ADMISSION_INTERVAL`]th new
//! value (bimodal insertion), so that most of its entries stay. The second part keeps the most recent refused values,
//! so that a value that is read again soon is found.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::sync::lock;

/// A full cache for scans admits one in this many new values.
const ADMISSION_INTERVAL: u64 = 8;
/// One in this many bytes of a [`ScanCache`] belongs to the part for recently refused values.
const RECENT_DIVISOR: usize = 4;

/// A cache of values that scans read one after the other and that are cheap to recompute.
#[derive(Debug)]
pub(crate) struct ScanCache<K, V> {
    lasting: Cache<K, V>,
    recent: Cache<K, V>,
}

impl<K: Ord + Copy, V: Clone> ScanCache<K, V> {
    pub(crate) fn new(weight_max: usize) -> ScanCache<K, V> {
        let recent = Cache::new(weight_max / RECENT_DIVISOR);
        let lasting = Cache { is_for_scans: true, ..Cache::new(weight_max - recent.weight_max) };
        ScanCache { lasting, recent }
    }

    /// The value of `key`; marks it as used.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.lasting.get(key).or_else(|| self.recent.get(key))
    }

    /// Adds a value, unless it is too heavy for the part of the cache that would hold it.
    pub(crate) fn put(&self, key: K, value: V, weight: usize) {
        if !self.lasting.put(key, value.clone(), weight) {
            self.recent.put(key, value, weight);
        }
    }

    /// Removes the keys that `drops` selects.
    pub(crate) fn remove_if(&self, drops: impl Fn(&K) -> bool) {
        self.lasting.remove_if(&drops);
        self.recent.remove_if(&drops);
    }
}

/// A shared cache; `weight_max` bounds the sum of its entries' weights.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    weight_max: usize,
    is_for_scans: bool,
    inner: Mutex<Inner<K, V>>,
}

#[derive(Debug)]
struct Inner<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    /// Keys by their entries' last use, as counted by `uses`.
    by_use: BTreeMap<u64, K>,
    weight: usize,
    uses: u64,
    /// Number of values offered while the cache was full.
    offered: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Ord + Copy, V: Clone> Cache<K, V> {
    pub(crate) fn new(weight_max: usize) -> Cache<K, V> {
        let inner = Inner { entries: BTreeMap::new(), by_use: BTreeMap::new(), weight: 0, uses: 0, offered: 0 };
        Cache { weight_max, is_for_scans: false, inner: Mutex::new(inner) }
    }

    /// Maximum sum of the weights, and of one entry.
    pub(crate) fn weight_max(&self) -> usize {
        self.weight_max
    }

    /// The value of `key`; marks it as used.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        let entry = inner.entries.get_mut(key)?;
        inner.uses += 1;
        inner.by_use.remove(&entry.used);
        entry.used = inner.uses;
        inner.by_use.insert(entry.used, *key);
        Some(entry.value.clone())
    }

    /// Adds a value. Returns false if it was not added, because a cache for scans is full or the value is heavier than
    /// the whole cache.
    pub(crate) fn put(&self, key: K, value: V, weight: usize) -> bool {
        if weight > self.weight_max {
            return false;
        }
        // `removed` is declared before the lock guard, so that values are freed after the lock is released.
        let mut removed = Vec::new();
        let mut inner = lock(&self.inner);
        if self.is_for_scans && inner.weight + weight > self.weight_max {
            inner.offered += 1;
            if !inner.offered.is_multiple_of(ADMISSION_INTERVAL) {
                return false;
            }
        }
        removed.extend(inner.remove(&key));
        inner.uses += 1;
        let used = inner.uses;
        inner.weight += weight;
        inner.by_use.insert(used, key);
        inner.entries.insert(key, Entry { value, weight, used });
        while inner.weight > self.weight_max {
            let Some((_, oldest)) = inner.by_use.first_key_value() else { break };
            let oldest = *oldest;
            removed.extend(inner.remove(&oldest));
        }
        true
    }

    /// Removes the keys that `drops` selects.
    pub(crate) fn remove_if(&self, drops: impl Fn(&K) -> bool) {
        let mut removed = Vec::new();
        let mut inner = lock(&self.inner);
        let keys: Vec<K> = inner.entries.keys().filter(|key| drops(key)).copied().collect();
        removed.extend(keys.iter().filter_map(|key| inner.remove(key)));
    }
}

impl<K: Ord + Copy, V> Inner<K, V> {
    fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        self.weight -= entry.weight;
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn least_recently_used_entry_is_evicted_first_and_weight_is_tracked() {
        let cache = Cache::new(10);
        cache.put(1, "a", 4);
        cache.put(2, "b", 4);
        assert_eq!(cache.get(&1), Some("a"));
        cache.put(3, "c", 4);
        assert_eq!((cache.get(&1), cache.get(&2), cache.get(&3)), (Some("a"), None, Some("c")));
        cache.put(4, "d", 11);
        assert_eq!(cache.get(&4), None);
        cache.put(1, "e", 6);
        assert_eq!((cache.get(&1), cache.get(&3)), (Some("e"), Some("c")));
        cache.remove_if(|key| *key == 1);
        assert_eq!(cache.get(&1), None);
    }

    #[test]
    fn scans_larger_than_the_cache_evict_few_entries() {
        let (plain, for_scans) = (Cache::new(80), ScanCache::new(80));
        let in_plain = |values: Range<usize>| {
            values.filter(|value| plain.get(value).is_some() || !plain.put(*value, *value, 1)).count()
        };
        let in_scans = |values: Range<usize>| {
            let is_known = |value: &usize| {
                let known = for_scans.get(value);
                if known.is_none() {
                    for_scans.put(*value, *value, 1);
                }
                known.is_some()
            };
            values.filter(is_known).count()
        };
        assert_eq!((in_plain(0..120), in_scans(0..120)), (0, 0));
        for _ in 0..20 {
            assert_eq!(in_plain(0..120), 0);
            assert!(in_scans(0..120) > 40);
        }
        // Of 15 new values, none is found at first, and all are found when they are read again at once. Fifty new
        // values displace the others only after several rounds.
        assert_eq!((in_scans(200..215), in_scans(200..215)), (0, 15));
        assert_eq!(in_scans(300..350), 0);
        let rounds = (0..100).take_while(|_| in_scans(300..350) < 50).count();
        assert!((1..100).contains(&rounds), "{rounds}");
        for_scans.remove_if(|_| true);
        assert_eq!(in_scans(0..1), 0);
    }
}
