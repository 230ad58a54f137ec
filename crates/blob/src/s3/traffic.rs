//! Statistics of requests to a remote store.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests and bytes since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct S3Traffic {
    /// Requests sent, including retries.
    pub requests: u64,
    /// Retries after a failure.
    pub retries: u64,
    /// Reads sent a second time because the first was slow.
    pub hedges: u64,
    /// Ranges read again because of checksum mismatches.
    pub refetches: u64,
    /// Bytes of objects sent.
    pub bytes_sent: u64,
    /// Bytes of objects received.
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
            retries: of(&self.repetitions),
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
