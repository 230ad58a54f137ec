//! A bounded LRU cache.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::sync::lock;

/// A shared cache; `weight_max` bounds the sum of its entries' weights.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    weight_max: usize,
    inner: Mutex<Inner<K, V>>,
}

#[derive(Debug)]
struct Inner<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    /// Keys by time of last use.
    by_use: BTreeMap<u64, K>,
    weight: usize,
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Ord + Copy, V: Clone> Cache<K, V> {
    pub(crate) fn new(weight_max: usize) -> Cache<K, V> {
        let inner = Inner { entries: BTreeMap::new(), by_use: BTreeMap::new(), weight: 0, uses: 0 };
        Cache { weight_max, inner: Mutex::new(inner) }
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

    /// Adds a value; one heavier than the whole cache is not stored.
    pub(crate) fn put(&self, key: K, value: V, weight: usize) {
        if weight > self.weight_max {
            return;
        }
        let mut inner = lock(&self.inner);
        inner.remove(&key);
        inner.uses += 1;
        let used = inner.uses;
        inner.weight += weight;
        inner.by_use.insert(used, key);
        inner.entries.insert(key, Entry { value, weight, used });
        while inner.weight > self.weight_max {
            let Some((_, oldest)) = inner.by_use.first_key_value() else { break };
            let oldest = *oldest;
            inner.remove(&oldest);
        }
    }

    /// Removes the keys that `drops` selects.
    pub(crate) fn remove_if(&self, drops: impl Fn(&K) -> bool) {
        let mut inner = lock(&self.inner);
        let keys: Vec<K> = inner.entries.keys().filter(|key| drops(key)).copied().collect();
        keys.iter().for_each(|key| inner.remove(key));
    }
}

impl<K: Ord + Copy, V> Inner<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.used);
            self.weight -= entry.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first_and_the_weight_is_kept() {
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
}
