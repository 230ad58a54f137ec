//! The memory pool of searches: DataFusion's fair pool with a peak counter.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::Result;
use datafusion_execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// A fair pool that records its peak use.
#[derive(Debug)]
pub(super) struct PeakTrackingPool {
    pool: FairSpillPool,
    peak: AtomicUsize,
}

impl PeakTrackingPool {
    pub(super) fn new(bytes: usize) -> PeakTrackingPool {
        PeakTrackingPool { pool: FairSpillPool::new(bytes), peak: AtomicUsize::new(0) }
    }

    /// Peak use in bytes.
    pub(super) fn peak_bytes(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    fn record_peak(&self) {
        self.peak.fetch_max(self.pool.reserved(), Ordering::Relaxed);
    }
}

impl Display for PeakTrackingPool {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.pool.fmt(out)
    }
}

impl MemoryPool for PeakTrackingPool {
    fn name(&self) -> &str {
        "searches"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.record_peak();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.record_peak();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
