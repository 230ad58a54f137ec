//! Indexes that are created automatically because events name them, without a stanza in indexes.conf.
//!
//! The number of indexes in indexes.conf is unlimited. Of other indexes, at most [`UNCONFIGURED_INDEXES_MAX`] may
//! exist, because senders choose their names and every index takes memory and files. An index counts from its first
//! append until the store is closed; after the next start, it counts if it contains events.

use std::collections::BTreeSet;
use std::sync::Mutex;

use quarry_event::EventBatch;

use crate::StoreError;
use crate::options::UNCONFIGURED_INDEXES_MAX;
use crate::sync::lock;

/// Indexes without a stanza that count toward the limit.
#[derive(Debug, Default)]
pub(crate) struct NewIndexes(Mutex<BTreeSet<String>>);

impl NewIndexes {
    /// Starts with the indexes that contain events.
    pub(crate) fn of(holding: impl Iterator<Item = String>, configured: &BTreeSet<String>) -> NewIndexes {
        NewIndexes(Mutex::new(holding.filter(|index| !configured.contains(index)).collect()))
    }

    /// Refuses a new index if the limit is reached.
    pub(crate) fn check(&self, index: &str, configured: &BTreeSet<String>) -> Result<(), StoreError> {
        if configured.contains(index) {
            return Ok(());
        }
        check_limit(&lock(&self.0), index)
    }

    /// Like [`NewIndexes::check`] for the index of a batch, which counts from now on.
    pub(crate) fn admit(&self, batch: &EventBatch, configured: &BTreeSet<String>) -> Result<(), StoreError> {
        let Some(index) = batch.metas.first().map(|meta| &*meta.index).filter(|index| !configured.contains(*index))
        else {
            return Ok(());
        };
        let mut known = lock(&self.0);
        if !known.contains(index) {
            check_limit(&known, index)?;
            known.insert(index.to_owned());
        }
        Ok(())
    }
}

fn check_limit(known: &BTreeSet<String>, index: &str) -> Result<(), StoreError> {
    if known.contains(index) || known.len() < UNCONFIGURED_INDEXES_MAX {
        return Ok(());
    }
    Err(StoreError::TooManyIndexes { index: index.to_owned(), limit: UNCONFIGURED_INDEXES_MAX })
}

#[cfg(test)]
mod tests {
    use quarry_event::Metadata;

    use super::*;

    fn of(index: &str) -> EventBatch {
        let mut batch = EventBatch::default();
        let meta = Metadata { index: index.into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() };
        let meta = batch.intern(&meta);
        batch.push(b"text", 0, meta);
        batch
    }

    #[test]
    fn number_of_unconfigured_indexes_is_limited() {
        let configured = BTreeSet::from(["main".to_owned(), "web".to_owned()]);
        let indexes = NewIndexes::of(["main", "old"].into_iter().map(str::to_owned), &configured);
        for at in 1..UNCONFIGURED_INDEXES_MAX {
            indexes.admit(&of(&format!("i{at}")), &configured).unwrap();
        }
        let refused = indexes.admit(&of("over"), &configured).unwrap_err().to_string();
        assert!(
            refused.contains("index over") && refused.contains("1000") && refused.contains("indexes.conf"),
            "{refused}"
        );
        assert!(indexes.check("over", &configured).is_err());
        for known in ["old", "i7", "main", "web"] {
            indexes.check(known, &configured).unwrap();
            indexes.admit(&of(known), &configured).unwrap();
        }
        indexes.admit(&EventBatch::default(), &configured).unwrap();
    }
}
