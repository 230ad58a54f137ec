//! Deduplication of requests that senders repeat when they get no answer: which parts of requests a node has stored but
//! not answered.
//!
//! Parts of a request that failed, or was not answered before a crash, are *candidates* for a limited time. When an
//! identical part arrives, it is not stored again. Each candidate is used once. A request whose sender was answered
//! leaves no candidates, because a body that is sent again after an answer is a new request.
//!
//! Not here: recording parts and answers so that they survive a crash.

use std::collections::{BTreeMap, VecDeque};

use crate::SentRequest;
use crate::time::NS_PER_SEC;

/// Maximum number of parts of unanswered requests, and of candidates; those without room count as answered.
pub const UNANSWERED_PARTS_MAX: usize = 8_192;
/// A part becomes a candidate only if it was stored within this many seconds before the end of its run. It stays a
/// candidate for as many seconds in the next run, counted anew from each request that fails.
pub const UNANSWERED_SECS: i64 = 30 * 60;

/// Parts of unanswered requests, and candidates.
#[derive(Debug)]
pub struct SentParts<P> {
    /// Hash of sender, request and part.
    key_of: fn(&P) -> u128,
    /// Number of requests begun.
    begun: u64,
    /// Parts of unanswered requests, by request.
    open: BTreeMap<u64, Vec<P>>,
    open_parts: usize,
    candidates: BTreeMap<u128, VecDeque<P>>,
    candidate_parts: usize,
    /// Monotonic time at which the candidates expire.
    candidates_until: i64,
}

/// Monotonic time at which a candidate that is added at `now_ns` expires.
fn expires_at(now_ns: i64) -> i64 {
    now_ns.saturating_add(UNANSWERED_SECS * NS_PER_SEC)
}

impl<P: Copy> SentParts<P> {
    /// Begins a run with the parts of earlier runs as candidates.
    pub fn new(key_of: fn(&P) -> u128, candidates: impl IntoIterator<Item = P>, now_ns: i64) -> SentParts<P> {
        let mut parts = SentParts {
            key_of,
            begun: 0,
            open: BTreeMap::new(),
            open_parts: 0,
            candidates: BTreeMap::new(),
            candidate_parts: 0,
            candidates_until: expires_at(now_ns),
        };
        for part in candidates {
            parts.add_candidate(part);
        }
        parts
    }

    /// Begins a request with this key.
    pub fn begin(&mut self, key: u128) -> SentRequest {
        self.begun += 1;
        SentRequest { key, id: self.begun }
    }

    /// Adds a part to an unanswered request. If there are too many parts, removes and returns the oldest ones, which
    /// must count as answered.
    pub fn open(&mut self, request: u64, part: P) -> Vec<P> {
        self.open.entry(request).or_default().push(part);
        self.open_parts += 1;
        let mut forgotten = Vec::new();
        while self.open_parts > UNANSWERED_PARTS_MAX
            && let Some((_, parts)) = self.open.pop_first()
        {
            self.open_parts -= parts.len();
            forgotten.extend(parts);
        }
        forgotten
    }

    /// Removes and returns the parts of a request.
    pub fn close(&mut self, request: u64) -> Vec<P> {
        let parts = self.open.remove(&request).unwrap_or_default();
        self.open_parts -= parts.len();
        parts
    }

    /// Makes the parts of a failed request candidates. Returns those for which there is no room, which must count as
    /// answered.
    pub fn fail(&mut self, request: u64, now_ns: i64) -> Vec<P> {
        self.candidates_until = expires_at(now_ns);
        self.close(request).into_iter().filter(|part| !self.add_candidate(*part)).collect()
    }

    /// Adds a candidate; returns whether there was room for it.
    pub fn add_candidate(&mut self, part: P) -> bool {
        let has_room = self.candidate_parts < UNANSWERED_PARTS_MAX;
        if has_room {
            self.candidates.entry((self.key_of)(&part)).or_default().push_back(part);
            self.candidate_parts += 1;
        }
        has_room
    }

    /// Removes and returns the candidates if their time is over.
    pub fn drop_expired(&mut self, now_ns: i64) -> Vec<P> {
        if now_ns < self.candidates_until {
            return Vec::new();
        }
        self.candidate_parts = 0;
        std::mem::take(&mut self.candidates).into_values().flatten().collect()
    }

    /// Removes and returns the oldest candidate with this key.
    pub fn take_candidate(&mut self, key: u128) -> Option<P> {
        let alike = self.candidates.get_mut(&key)?;
        let part = alike.pop_front();
        if alike.is_empty() {
            self.candidates.remove(&key);
        }
        self.candidate_parts -= usize::from(part.is_some());
        part
    }

    /// The parts of unanswered requests, and the candidates.
    pub fn unanswered(&self) -> impl Iterator<Item = P> {
        self.open.values().flatten().chain(self.candidates.values().flatten()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Part(u64);

    fn parts() -> SentParts<Part> {
        SentParts::new(|_| 7, [], 0)
    }

    #[test]
    fn candidates_are_used_once_and_expire() {
        let mut parts = parts();
        for (number, now_ns) in [(3, 0), (4, 10)] {
            let request = parts.begin(1);
            assert_eq!(parts.open(request.id, Part(number)), []);
            assert_eq!(parts.fail(request.id, now_ns), []);
        }
        let last = expires_at(9);
        assert_eq!(parts.drop_expired(last), []);
        assert_eq!(parts.take_candidate(8), None);
        assert_eq!([(); 3].map(|()| parts.take_candidate(7)), [Some(Part(3)), Some(Part(4)), None]);
        let again = parts.begin(1);
        parts.open(again.id, Part(3));
        parts.fail(again.id, 20);
        assert_eq!(parts.unanswered().collect::<Vec<_>>(), [Part(3)]);
        assert_eq!(parts.drop_expired(last + 11), [Part(3)]);
        assert_eq!((parts.take_candidate(7), parts.candidate_parts), (None, 0));
    }

    #[test]
    fn excess_parts_are_forgotten() {
        let mut parts = parts();
        let most = UNANSWERED_PARTS_MAX as u64;
        for number in 0..=most {
            let request = parts.begin(1);
            assert_eq!(parts.open(request.id, Part(number)), if number == most { vec![Part(0)] } else { vec![] });
        }
        (1..=most + 1).for_each(|request| assert_eq!(parts.fail(request, 0), []));
        let more = parts.begin(1);
        parts.open(more.id, Part(0));
        assert_eq!(parts.fail(more.id, 0), [Part(0)]);
        assert_eq!((parts.candidate_parts, parts.open_parts), (UNANSWERED_PARTS_MAX, 0));
        assert_eq!(parts.take_candidate(7), Some(Part(1)), "the oldest part was forgotten");
    }
}
