//! Reuse of the memory of sealed slabs, stored batches and written records while events keep arriving.
//!
//! A stream of events needs a few large pieces of memory again and again. If they were freed each time, the operating
//! system would zero their pages again, and zeroing costs more than filling them.

use std::sync::Mutex;

use quarry_bucket::MAX_SLAB_EVENTS;
use quarry_event::EventBatch;

use crate::hot_slabs::SlabRows;
use crate::sync::lock;

/// Maximum number of slabs whose memory is kept; that of further ones is freed.
const SLABS_MAX: usize = 2;
/// Maximum size in bytes of a slab that is kept: a full slab with its columns.
const SLAB_BYTES_MAX: usize = 96 << 20;
/// Maximum number of batches whose memory is kept; that of further ones is freed.
const BATCHES_MAX: usize = 8;
/// Maximum text bytes of a batch that is kept.
const BATCH_BYTES_MAX: usize = 6 << 20;
/// Maximum bytes of the fields of a batch whose memory is kept.
const FIELD_BYTES_MAX: usize = 12 << 20;
/// Maximum number of records whose memory is kept, and maximum bytes of each; other memory is freed.
const RECORDS_MAX: usize = 8;
const RECORD_BYTES_MAX: usize = 6 << 20;
/// Text bytes from which a batch counts as large.
const BATCH_BYTES_MIN: usize = 256 << 10;

/// Empty slabs, batches and records.
#[derive(Debug, Default)]
pub(crate) struct SpareMemory {
    slabs: Mutex<Vec<SlabRows>>,
    batches: Mutex<Vec<EventBatch>>,
    records: Mutex<Vec<Vec<u8>>>,
}

impl SpareMemory {
    /// Whether the memory of a slab is worth keeping.
    pub(crate) fn is_worth_keeping(rows: &SlabRows) -> bool {
        (BATCH_BYTES_MIN..=SLAB_BYTES_MAX).contains(&rows.capacity())
    }

    /// Keeps the memory of a sealed slab if fewer than `most` are kept.
    pub(crate) fn keep_slab(&self, mut rows: SlabRows, most: usize) {
        if !SpareMemory::is_worth_keeping(&rows) {
            return;
        }
        rows.clear();
        let mut slabs = lock(&self.slabs);
        if slabs.len() < most.min(SLABS_MAX) {
            slabs.push(rows);
        }
    }

    /// Empty rows for a slab that begins with `first`. If that batch is large, the slab will probably be filled, so
    /// room for `raw_bytes` is reserved at once to avoid moving the rows while they grow. Otherwise the rows start
    /// small.
    pub(crate) fn take_slab(&self, first: &EventBatch, raw_bytes: usize) -> SlabRows {
        if first.raw.len() < BATCH_BYTES_MIN {
            return SlabRows::default();
        }
        let mut rows = lock(&self.slabs).pop().unwrap_or_default();
        let batches = raw_bytes / first.raw.len() + 2;
        let events = (first.len() * batches).min(MAX_SLAB_EVENTS);
        rows.reserve(events, raw_bytes);
        rows.reserve_fields(first, events);
        rows
    }

    /// Keeps the memory of a batch whose events were moved.
    pub(crate) fn keep_batch(&self, mut batch: EventBatch) {
        if !(BATCH_BYTES_MIN..=BATCH_BYTES_MAX).contains(&batch.raw.capacity()) {
            return;
        }
        batch.raw.clear();
        batch.ends.clear();
        batch.time.clear();
        batch.meta.clear();
        (batch.metas, batch.index_time) = (Vec::new(), 0);
        batch.fields.clear_keeping(FIELD_BYTES_MAX);
        let mut batches = lock(&self.batches);
        if batches.len() < BATCHES_MAX {
            batches.push(batch);
        }
    }

    /// A reused empty batch.
    pub(crate) fn take_batch(&self) -> Option<EventBatch> {
        lock(&self.batches).pop()
    }

    /// Keeps the memory of a written record.
    pub(crate) fn keep_record(&self, record: Vec<u8>) {
        let mut records = lock(&self.records);
        if (BATCH_BYTES_MIN..=RECORD_BYTES_MAX).contains(&record.capacity()) && records.len() < RECORDS_MAX {
            records.push(record);
        }
    }

    /// Memory for a record; its content has no meaning.
    pub(crate) fn take_record(&self) -> Vec<u8> {
        lock(&self.records).pop().unwrap_or_default()
    }

    /// Releases all memory.
    pub(crate) fn clear(&self) {
        let slabs = std::mem::take(&mut *lock(&self.slabs));
        let batches = std::mem::take(&mut *lock(&self.batches));
        let records = std::mem::take(&mut *lock(&self.records));
        drop((slabs, batches, records));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::batch;

    #[test]
    fn kept_memory_is_empty_and_limited() {
        let spares = SpareMemory::default();
        for _ in 0..BATCHES_MAX + 3 {
            let mut used = batch("main", 0, 3);
            used.raw.reserve(BATCH_BYTES_MIN);
            used.fields.push(1, "user", "ann");
            spares.keep_batch(used);
            spares.keep_record(Vec::with_capacity(BATCH_BYTES_MIN));
            let mut rows = SlabRows::default();
            rows.add(&batch("main", 0, 3), 0..3, &[0; 8]);
            spares.keep_slab(rows, SLABS_MAX);
            let mut rows = SlabRows::default();
            rows.reserve(0, BATCH_BYTES_MIN);
            rows.events.fields.push(0, "user", "ann");
            spares.keep_slab(rows, SLABS_MAX + 1);
        }
        spares.keep_batch(batch("main", 0, 3));
        assert_eq!(lock(&spares.records).len(), RECORDS_MAX);
        assert!(spares.take_record().capacity() >= BATCH_BYTES_MIN);
        spares.keep_record(vec![0; 10]);
        spares.keep_record(Vec::with_capacity(RECORD_BYTES_MAX + 1));
        assert_eq!(lock(&spares.records).len(), RECORDS_MAX - 1);
        let batches: Vec<EventBatch> = std::iter::from_fn(|| spares.take_batch()).collect();
        assert_eq!(batches.len(), BATCHES_MAX);
        assert!(batches.iter().all(|spare| *spare == EventBatch::default() && spare.raw.capacity() >= BATCH_BYTES_MIN));
        assert_eq!(lock(&spares.slabs).len(), SLABS_MAX);
        let mut first = batch("main", 0, 3);
        assert_eq!(spares.take_slab(&first, 1_000_000).capacity(), 0);
        first.raw.resize(BATCH_BYTES_MIN, b'x');
        let rows = spares.take_slab(&first, 1_000_000);
        assert!(rows.events == EventBatch::default() && rows.index_times.is_empty() && rows.capacity() >= 1_000_000);
        assert_eq!(lock(&spares.slabs).len(), SLABS_MAX - 1);
        spares.clear();
        assert!(lock(&spares.slabs).is_empty() && lock(&spares.records).is_empty());
    }
}
