//! Requests that their senders repeat because not all of their parts could be queued: the parts that were queued are not
//! queued again.
//!
//! A part of a failed request is a *candidate* for a limited time. When an identical part of the same sender arrives, it
//! counts as queued; each candidate is used once. A request whose sender was answered leaves no candidates, because a
//! body that is sent again after an answer is a new request.
//!
//! Not here: requests that are repeated after a crash of the forwarder, which are queued again; the content of requests
//! (`quarry_inputs::hec`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quarry_event::{EventBatch, SentRequest};
use xxhash_rust::xxh3::Xxh3;

/// Maximum number of parts of unanswered requests, and of candidates. Beyond it, the oldest parts of unanswered requests
/// count as answered, and further parts of failed requests do not become candidates.
const PARTS_MAX: usize = 8_192;
/// Time in nanoseconds, from the last request that failed, for which candidates are kept.
const CANDIDATES_KEPT_NS: i64 = 30 * 60 * 1_000_000_000;

/// Parts of unanswered requests, and candidates.
#[derive(Debug, Default)]
pub(crate) struct SentRequests(Mutex<QueuedParts>);

/// A queued part of a request.
#[derive(Clone, Copy, Debug)]
struct QueuedPart {
    /// Hash of the request and the events of the part.
    key: u128,
    /// Number of the record that makes the part durable.
    record: u64,
}

#[derive(Debug, Default)]
struct QueuedParts {
    /// Number of requests begun.
    begun: u64,
    /// Queued parts of unanswered requests, by request.
    open: BTreeMap<u64, Vec<QueuedPart>>,
    open_parts: usize,
    candidates: BTreeMap<u128, VecDeque<QueuedPart>>,
    candidate_parts: usize,
    /// Monotonic time at which the candidates expire.
    candidates_until: i64,
}

impl SentRequests {
    /// Begins a request with this key.
    pub(crate) fn begin(&self, key: u128) -> SentRequest {
        let mut inner = self.lock();
        inner.begun += 1;
        SentRequest { key, id: inner.begun }
    }

    /// If a part with this key is queued already, adds it to the request, and returns the number of its record.
    pub(crate) fn find_queued(&self, request: &SentRequest, key: u128, now_ns: i64) -> Option<u64> {
        let mut inner = self.lock();
        if now_ns >= inner.candidates_until {
            inner.candidates.clear();
            inner.candidate_parts = 0;
        }
        let alike = inner.candidates.get_mut(&key)?;
        let part = alike.pop_front()?;
        if alike.is_empty() {
            inner.candidates.remove(&key);
        }
        inner.candidate_parts -= 1;
        inner.open(request, part);
        Some(part.record)
    }

    /// Records that a part of a request is queued.
    pub(crate) fn record_queued(&self, request: &SentRequest, key: u128, record: u64) {
        self.lock().open(request, QueuedPart { key, record });
    }

    /// Records that the sender of a request is about to be answered.
    pub(crate) fn record_answered(&self, request: &SentRequest) {
        self.lock().close(request);
    }

    /// Records that a request failed: its queued parts become candidates.
    pub(crate) fn record_failure(&self, request: &SentRequest, now_ns: i64) {
        let mut inner = self.lock();
        inner.candidates_until = now_ns.saturating_add(CANDIDATES_KEPT_NS);
        let mut parts = inner.close(request);
        parts.truncate(PARTS_MAX - inner.candidate_parts);
        inner.candidate_parts += parts.len();
        parts.into_iter().for_each(|part| inner.candidates.entry(part.key).or_default().push_back(part));
    }

    fn lock(&self) -> MutexGuard<'_, QueuedParts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueuedParts {
    fn open(&mut self, request: &SentRequest, part: QueuedPart) {
        self.open.entry(request.id).or_default().push(part);
        self.open_parts += 1;
        while self.open_parts > PARTS_MAX
            && let Some((_, parts)) = self.open.pop_first()
        {
            self.open_parts -= parts.len();
        }
    }

    fn close(&mut self, request: &SentRequest) -> Vec<QueuedPart> {
        let parts = self.open.remove(&request.id).unwrap_or_default();
        self.open_parts -= parts.len();
        parts
    }
}

/// Hash of a request and the events of one part. Times are excluded, because they differ between repetitions if the
/// body contains none.
pub(crate) fn part_key(request: &SentRequest, batch: &EventBatch) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&request.key.to_le_bytes());
    for text in batch.metas.iter().map(|meta| meta.index.as_bytes()).chain([&batch.raw[..]]) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    batch.ends.iter().for_each(|end| hasher.update(&end.to_le_bytes()));
    hasher.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_used_once_and_expire() {
        let requests = SentRequests::default();
        let fail = |record: u64, now_ns: i64| {
            let request = requests.begin(1);
            requests.record_queued(&request, 7, record);
            requests.record_failure(&request, now_ns);
        };
        fail(3, 0);
        fail(4, 10);
        let last = CANDIDATES_KEPT_NS + 9;
        let again = requests.begin(1);
        assert_eq!(requests.find_queued(&again, 8, last), None);
        assert_eq!([last; 3].map(|now_ns| requests.find_queued(&again, 7, now_ns)), [Some(3), Some(4), None]);
        requests.record_failure(&again, 20);
        assert_eq!(requests.find_queued(&requests.begin(1), 7, last + 11), None, "expired");
        assert_eq!(requests.lock().candidate_parts, 0);
    }

    #[test]
    fn excess_parts_are_forgotten() {
        let requests = SentRequests::default();
        for record in 0..=PARTS_MAX as u64 {
            requests.record_queued(&requests.begin(1), 7, record);
        }
        assert_eq!(requests.lock().open.len(), PARTS_MAX);
        for id in 1..=PARTS_MAX as u64 + 1 {
            requests.record_failure(&SentRequest { key: 1, id }, 0);
        }
        let more = requests.begin(1);
        requests.record_queued(&more, 7, 0);
        requests.record_failure(&more, 0);
        let parts = |inner: &QueuedParts| (inner.candidate_parts, inner.open_parts);
        assert_eq!(parts(&requests.lock()), (PARTS_MAX, 0));
        assert_eq!(requests.find_queued(&more, 7, 0), Some(1), "the oldest part was forgotten");
    }
}
