//! The memory pool of searches: DataFusion's fair pool with a peak counter.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::Result;
use datafusion_execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// A fair pool that records its peak use.
#[derive(Debug)]
pub(super) struct WatchedPool {
    pool: FairSpillPool,
    most: AtomicUsize,
}

impl WatchedPool {
    /// A pool of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> WatchedPool {
        WatchedPool { pool: FairSpillPool::new(bytes), most: AtomicUsize::new(0) }
    }

    /// Peak use in bytes.
    pub(super) fn most_bytes(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn note(&self) {
        self.most.fetch_max(self.pool.reserved(), Ordering::Relaxed);
    }
}

impl Display for WatchedPool {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.pool.fmt(out)
    }
}

impl MemoryPool for WatchedPool {
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
        self.note();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.note();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
