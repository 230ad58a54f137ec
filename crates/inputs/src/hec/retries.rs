//! Requests repeated because their answer never arrived.
//!
//! A sender whose connection breaks before the answer cannot know whether its events were stored, and sends them again.
//! If the collector saw the connection end before the answer was sent, the same body on the same channel gets that
//! answer, and its events are not stored again. A body repeated after its answer was sent is a new request, whose
//! events are stored again.
//!
//! Not here: requests unanswered because the node died (the store handles these), and answers lost after they were
//! written, which only the sender can notice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use quarry_event::SentRequest;
use xxhash_rust::xxh3::Xxh3;

use super::answer::Answer;

/// Maximum requests remembered per channel.
const REQUESTS_MAX: usize = 1_000;
/// Maximum channels remembered.
const CHANNELS_MAX: usize = 10_000;
/// Number of channels forgotten at once when there are too many: those whose last requests are the oldest.
const CHANNELS_FORGOTTEN: usize = 100;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Token and channel.
type ChannelKey = (String, String);

/// Requests whose answers have not been sent.
#[derive(Default)]
pub(crate) struct Retries {
    channels: Mutex<BTreeMap<ChannelKey, VecDeque<Arc<Pending>>>>,
}

/// A request in progress.
struct Pending {
    content: u128,
    /// Identity of the request in the store.
    sent: SentRequest,
    begun_ns: i64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Set if the sender is gone.
    is_abandoned: bool,
    /// The answer once it is known; an inner `None` means failure.
    outcome: Option<Option<Answer>>,
}

/// A request that is either new or repeated.
pub(crate) enum Submission {
    /// The request is new; its events are to be stored.
    New(Attempt),
    /// The request was sent before.
    Repeated(EarlierAttempt),
}

impl Submission {
    /// Identity of the request in the store.
    pub(crate) fn sent(&self) -> SentRequest {
        match self {
            Submission::New(attempt) => attempt.pending.sent,
            Submission::Repeated(earlier) => earlier.0.sent,
        }
    }
}

/// A request being answered. Dropping it before its answer is sent means that the sender is gone.
pub(crate) struct Attempt {
    retries: Arc<Retries>,
    key: ChannelKey,
    pending: Arc<Pending>,
    is_answered: bool,
}

/// Records the outcome of an attempt, even if its sender is gone.
pub(crate) struct Outcome(Arc<Pending>);

/// An earlier attempt whose sender is gone.
pub(crate) struct EarlierAttempt(Arc<Pending>);

impl Retries {
    /// Hash that identifies a request within its channel.
    pub(crate) fn content_hash(path_and_query: &str, body: &[u8]) -> u128 {
        let mut hasher = Xxh3::new();
        hasher.update(&(path_and_query.len() as u64).to_le_bytes());
        hasher.update(path_and_query.as_bytes());
        hasher.update(body);
        hasher.digest128()
    }

    /// Hash that identifies a request in the store, of its sender (token and channel) and its content.
    pub(crate) fn request_key(token: &str, channel: &str, content: u128) -> u128 {
        let mut hasher = Xxh3::new();
        for text in [token, channel] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&content.to_le_bytes());
        hasher.digest128()
    }

    /// Begins a request with this content; `sent` is the request's identity in the store.
    pub(crate) fn begin(
        self: &Arc<Retries>,
        token: &str,
        channel: &str,
        content: u128,
        sent: SentRequest,
        now_ns: i64,
    ) -> Submission {
        let key = (token.to_owned(), channel.to_owned());
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if channels.len() >= CHANNELS_MAX && !channels.contains_key(&key) {
            forget_oldest(&mut channels);
        }
        let requests = channels.entry(key.clone()).or_default();
        let is_lost = |pending: &Arc<Pending>| pending.content == content && pending.lock().is_abandoned;
        if let Some(earlier) = requests.iter().position(is_lost).and_then(|at| requests.remove(at)) {
            return Submission::Repeated(EarlierAttempt(earlier));
        }
        let (state, changed) = (Mutex::default(), Condvar::new());
        let pending = Arc::new(Pending { content, sent, begun_ns: now_ns, state, changed });
        if requests.len() >= REQUESTS_MAX {
            requests.pop_front();
        }
        requests.push_back(Arc::clone(&pending));
        Submission::New(Attempt { retries: Arc::clone(self), key, pending, is_answered: false })
    }

    /// Forgets requests older than `seconds`.
    pub(crate) fn remove_old(&self, seconds: u64, now_ns: i64) {
        let age_ns = i64::try_from(seconds.saturating_mul(NANOS_PER_SEC)).unwrap_or(i64::MAX);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, requests| {
            requests.retain(|pending| now_ns.saturating_sub(pending.begun_ns) < age_ns);
            !requests.is_empty()
        });
    }
}

/// Forgets the channels whose last requests are the oldest.
fn forget_oldest(channels: &mut BTreeMap<ChannelKey, VecDeque<Arc<Pending>>>) {
    let begun = |requests: &VecDeque<Arc<Pending>>| requests.back().map_or(i64::MIN, |pending| pending.begun_ns);
    let mut by_age: Vec<(i64, ChannelKey)> =
        channels.iter().map(|(key, requests)| (begun(requests), key.clone())).collect();
    by_age.sort_unstable();
    by_age.into_iter().take(CHANNELS_FORGOTTEN).for_each(|(_, key)| drop(channels.remove(&key)));
}

impl Pending {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// Returns the handle with which the code that stores the events sets the outcome.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome(Arc::clone(&self.pending))
    }

    /// Records that the answer is sent.
    pub(crate) fn record_answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_answered {
            self.pending.lock().is_abandoned = true;
            return;
        }
        let mut channels = self.retries.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(requests) = channels.get_mut(&self.key) {
            requests.retain(|pending| !Arc::ptr_eq(pending, &self.pending));
            if requests.is_empty() {
                channels.remove(&self.key);
            }
        }
    }
}

impl Outcome {
    /// Sets the answer; `None` means that the events were not stored.
    pub(crate) fn set(self, answer: Option<Answer>) {
        self.0.lock().outcome = Some(answer);
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        // An attempt that ends without a result has failed.
        self.0.lock().outcome.get_or_insert(None);
        self.0.changed.notify_all();
    }
}

impl EarlierAttempt {
    /// Waits for the outcome; returns the answer if the events were stored.
    pub(crate) fn wait(self) -> Option<Answer> {
        let mut state = self.0.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Code;
    use super::*;

    fn begin(retries: &Arc<Retries>, channel: &str, body: &str) -> Submission {
        retries.begin("t", channel, Retries::content_hash("/event", body.as_bytes()), SentRequest::default(), 0)
    }

    fn new(begun: Submission) -> Attempt {
        match begun {
            Submission::New(attempt) => attempt,
            Submission::Repeated(_) => panic!("it is new"),
        }
    }

    fn answer(mut attempt: Attempt) {
        attempt.record_answered();
    }

    #[test]
    fn only_unanswered_requests_are_retries_and_only_once() {
        let retries = Arc::new(Retries::default());
        let first = new(begin(&retries, "a", "x"));
        first.outcome().set(Some(Code::Success.into()));
        answer(first);
        let first = new(begin(&retries, "a", "x"));
        let beside = new(begin(&retries, "a", "x"));
        first.outcome().set(Some(Answer { ack: Some(7), ..Code::Success.into() }));
        drop(first);
        answer(new(begin(&retries, "b", "x")));
        answer(new(begin(&retries, "a", "y")));
        let Submission::Repeated(earlier) = begin(&retries, "a", "x") else { panic!("its sender was gone") };
        assert_eq!(earlier.wait().and_then(|answer| answer.ack), Some(7));
        answer(beside);
        answer(new(begin(&retries, "a", "x")));
        assert!(retries.channels.lock().unwrap().is_empty());
    }

    #[test]
    fn retries_wait_for_the_first_attempt_and_ignore_failures() {
        let retries = Arc::new(Retries::default());
        let attempt = new(begin(&retries, "a", "x"));
        let outcome = attempt.outcome();
        drop(attempt);
        let Submission::Repeated(earlier) = begin(&retries, "a", "x") else { panic!("its sender was gone") };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| earlier.wait().is_none());
            drop(outcome);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn old_and_excess_requests_are_forgotten() {
        let retries = Arc::new(Retries::default());
        drop(new(begin(&retries, "a", "x")));
        retries.remove_old(10, 9_000_000_000);
        assert_eq!(retries.channels.lock().unwrap().len(), 1);
        retries.remove_old(10, 10_000_000_000);
        assert!(retries.channels.lock().unwrap().is_empty());
        for number in 0..=REQUESTS_MAX {
            drop(new(begin(&retries, "a", &number.to_string())));
        }
        drop(new(begin(&retries, "a", "0")));
        assert!(matches!(begin(&retries, "a", "9"), Submission::Repeated(_)));
    }

    #[test]
    fn the_channels_with_the_oldest_requests_are_forgotten() {
        let retries = Arc::new(Retries::default());
        // The newest channels are the first ones in alphabetical order.
        let begin = |number: usize| {
            let (channel, now) = (format!("{:05}", CHANNELS_MAX - number), i64::try_from(number).unwrap());
            retries.begin("t", &channel, 1, SentRequest::default(), now)
        };
        for number in 0..=CHANNELS_MAX {
            drop(new(begin(number)));
        }
        assert_eq!(retries.channels.lock().unwrap().len(), CHANNELS_MAX + 1 - CHANNELS_FORGOTTEN);
        assert!(matches!(begin(CHANNELS_FORGOTTEN), Submission::Repeated(_)));
        assert!(matches!(begin(CHANNELS_MAX), Submission::Repeated(_)));
        drop(new(begin(CHANNELS_FORGOTTEN - 1)));
    }
}
