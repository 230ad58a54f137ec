//! An in-memory store, for searching files without a data directory.

use std::sync::{Arc, Mutex};

use quarry_event::EventBatch;

use crate::hot_slabs::{BatchRows, HotSegment, HotSlab};
use crate::options::StoreOptions;
use crate::sync::lock;
use crate::{Segment, Snapshot, StoreError, admission};

/// A store of one index that lives as long as this value.
#[derive(Debug)]
pub struct MemoryStore {
    index: Arc<str>,
    slab_events: usize,
    slab_raw_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    closed: Vec<Arc<HotSegment>>,
    hot: HotSlab,
}

impl MemoryStore {
    /// An empty store of index `index`.
    pub fn new(index: &str) -> MemoryStore {
        let index: Arc<str> = index.into();
        let StoreOptions { slab_events, slab_raw_bytes, .. } = StoreOptions::at("");
        let inner = Mutex::new(Inner { closed: Vec::new(), hot: HotSlab::new(&index, 1) });
        MemoryStore { index, slab_events, slab_raw_bytes, inner }
    }

    /// Adds any number of events, visible in the next snapshot.
    pub fn append(&self, batch: EventBatch) -> Result<(), StoreError> {
        admission::check_rules(&batch)?;
        let mut inner = lock(&self.inner);
        let mut rows = BatchRows::new(batch);
        while rows.remaining_rows() > 0 {
            let room = self.slab_raw_bytes.saturating_sub(inner.hot.raw_bytes());
            let events = self.slab_events.saturating_sub(inner.hot.events());
            let fitting = rows.rows_that_fit(room).min(events);
            let is_full = events == 0 || (inner.hot.events() > 0 && rows.bytes(fitting) > room);
            if is_full {
                let next = HotSlab::new(&self.index, inner.hot.number() + 1);
                let full = std::mem::replace(&mut inner.hot, next);
                inner.closed.push(full.close());
            } else {
                inner.hot.append(&mut rows, fitting);
            }
        }
        Ok(())
    }

    /// All events.
    pub fn snapshot(&self) -> Snapshot {
        let mut inner = lock(&self.inner);
        let mut segments: Vec<Arc<dyn Segment>> = Vec::with_capacity(inner.closed.len() + 1);
        segments.extend(inner.closed.iter().map(|segment| segment.clone() as Arc<dyn Segment>));
        if inner.hot.events() > 0 {
            segments.push(inner.hot.segment());
        }
        Snapshot { segments, ..Snapshot::default() }
    }
}
