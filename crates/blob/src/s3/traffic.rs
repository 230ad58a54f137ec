//! What was asked of a remote store so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests and bytes since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct S3Traffic {
    /// Requests that were sent, repetitions among them.
    pub requests: u64,
    /// Requests that were sent again after a failure.
    pub repetitions: u64,
    /// Reads that were sent a second time because the first took long.
    pub hedges: u64,
    /// Ranges that were read again because their checksums did not match.
    pub refetches: u64,
    /// Bytes of objects that were sent.
    pub bytes_sent: u64,
    /// Bytes of objects that were received.
    pub bytes_received: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) repetitions: AtomicU64,
    pub(crate) hedges: AtomicU64,
    pub(crate) refetches: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> S3Traffic {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        S3Traffic {
            requests: of(&self.requests),
            repetitions: of(&self.repetitions),
            hedges: of(&self.hedges),
            refetches: of(&self.refetches),
            bytes_sent: of(&self.bytes_sent),
            bytes_received: of(&self.bytes_received),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
