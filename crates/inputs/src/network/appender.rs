//! Passes filled batches to the store.
//!
//! Senders of text get no answers and cannot repeat a refused batch, so a batch is kept until the store accepts it,
//! while its sender waits. The memory of a batch is reused for the next one.

use std::collections::VecDeque;
use std::sync::Arc;

use quarry_event::EventBatch;

use crate::{AppendError, EventStore, Receipt};

/// Maximum appends in progress; beyond it the reader waits.
const RECEIPTS_MAX: usize = 64;

/// Passes batches to a store.
pub struct Appender {
    store: Arc<dyn EventStore>,
    receipts: VecDeque<Box<dyn Receipt>>,
}

impl std::fmt::Debug for Appender {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Appender").field("receipts", &self.receipts.len()).finish_non_exhaustive()
    }
}

impl Appender {
    /// Creates an appender to `store`.
    pub fn new(store: Arc<dyn EventStore>) -> Appender {
        Appender { store, receipts: VecDeque::new() }
    }

    /// Stores a batch and empties it. After an error, the batch keeps its events unless the store had accepted them.
    pub fn append(&mut self, batch: &mut EventBatch) -> Result<(), AppendError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.receipts.push_back(hand_over(&*self.store, batch)?);
        self.wait_until_at_most(RECEIPTS_MAX)
    }

    /// Waits until at most `left` appends are in progress, and collects the results of finished appends.
    pub fn wait_until_at_most(&mut self, left: usize) -> Result<(), AppendError> {
        let mut outcome = Ok(());
        while self.receipts.len() > left || self.receipts.front().is_some_and(|receipt| receipt.is_done()) {
            let Some(receipt) = self.receipts.pop_front() else { break };
            outcome = outcome.and(receipt.wait());
        }
        outcome
    }
}

/// Passes a batch to `store` and empties it. After an error, the batch keeps its events.
pub fn hand_over(store: &dyn EventStore, batch: &mut EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
    let copy = copy_of(batch, store.spare_batch().unwrap_or_default());
    let receipt = store.append(copy)?;
    clear(batch);
    Ok(receipt)
}

fn copy_of(batch: &EventBatch, mut copy: EventBatch) -> EventBatch {
    clear(&mut copy);
    copy.raw.extend_from_slice(&batch.raw);
    copy.ends.extend_from_slice(&batch.ends);
    copy.time.extend_from_slice(&batch.time);
    copy.meta.extend_from_slice(&batch.meta);
    copy.metas.extend_from_slice(&batch.metas);
    copy.fields.append(batch.fields.all(), 0, 0);
    copy.index_time = batch.index_time;
    copy
}

fn clear(batch: &mut EventBatch) {
    batch.raw.clear();
    batch.ends.clear();
    batch.time.clear();
    batch.meta.clear();
    batch.metas.clear();
    batch.fields.clear();
}
