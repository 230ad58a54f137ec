//! Cache of values by metadata, such as the rules of a source.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::Metadata;

/// Maximum number of combinations of metadata in a cache; beyond it, the cache is emptied, and the values are computed
/// again. An index may have far more combinations of host, source and sourcetype than should be kept.
const CACHED_METADATA_MAX: usize = 65_536;

/// Values by metadata, at most [`CACHED_METADATA_MAX`].
pub(crate) struct MetadataCache<T>(HashMap<Metadata, T, FixedState>);

impl<T> Default for MetadataCache<T> {
    fn default() -> MetadataCache<T> {
        MetadataCache(HashMap::default())
    }
}

impl<T> MetadataCache<T> {
    pub(crate) fn get(&self, meta: &Metadata) -> Option<&T> {
        self.0.get(meta)
    }

    pub(crate) fn insert(&mut self, meta: Metadata, value: T) {
        if self.0.len() >= CACHED_METADATA_MAX {
            self.0.clear();
        }
        self.0.insert(meta, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_bounded_number_of_sources_is_cached() {
        let mut cache = MetadataCache::default();
        let text: Arc<str> = "x".into();
        let meta = |source: usize| Metadata {
            index: Arc::clone(&text),
            host: Arc::clone(&text),
            source: source.to_string().into(),
            sourcetype: Arc::clone(&text),
        };
        for source in 0..2 * CACHED_METADATA_MAX + 1 {
            cache.insert(meta(source), source);
            assert_eq!(cache.get(&meta(source)), Some(&source));
            assert!(cache.0.len() <= CACHED_METADATA_MAX);
        }
        assert_eq!(cache.get(&meta(0)), None);
    }
}
